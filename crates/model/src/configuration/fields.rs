//! The configuration and the table of its fields, from one declaration.
//!
//! To add a field, add its comment, serde attributes, type, default and row here. Options, printed commands and checks
//! follow; tests write it into the reference page and Python's class.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::field::{Effect, Field, Kind, PLAIN};
use super::{CODEGEN_METHODS, CacheState, DEFAULT_CODEGEN_METHOD, DEFAULT_PASSES, MAX_RUNS, MAX_THREADS, Specialize};
use crate::launch::Dim3;
use crate::tolerance::Tolerance;

macro_rules! fields {
    ($(
        $(#[doc = $comment:literal])+ $(#[serde($($serde:tt)*)])?
        $name:ident: $type:ty = $initial:expr, $row:expr;
    )*) => {
        /// One point of a tuning space, and what `mneme-replay` executes.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Configuration {
            $($(#[doc = $comment])+ $(#[serde($($serde)*)])? pub $name: $type,)*
        }

        impl Default for Configuration {
            fn default() -> Self {
                Self { $($name: $initial,)* }
            }
        }

        /// Every field of a configuration, in the order of the struct.
        pub const FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            comment: concat!($($comment),+).trim_ascii(),
            initial: || { let initial: $type = $initial; json!(initial) },
            ..$row
        },)*];

        impl Configuration {
            /// The same with the fields that `which` selects at their defaults.
            #[must_use]
            pub fn reset(self, which: impl Fn(&Field) -> bool) -> Self {
                let (initial, mut fields) = (Self::default(), FIELDS.iter());
                Self {
                    $($name: if fields.next().is_some_and(&which) { initial.$name } else { self.$name },)*
                }
            }

            /// The fields in which two configurations differ.
            pub fn differences(&self, other: &Self) -> impl Iterator<Item = &'static Field> + use<> {
                let differ = [$(self.$name != other.$name),*];
                FIELDS.iter().zip(differ).filter(|(_, differs)| *differs).map(|(field, _)| field)
            }
        }
    };
}

fields! {
    /// Launch shape in blocks
    grid: Dim3 = Dim3::default(), Field {
        kind: Kind::Dimensions, long: "grid-dim", short: "gid", unit: "Blocks", ..LAUNCH
    };
    /// Launch shape in threads
    block: Dim3 = Dim3::default(), Field {
        kind: Kind::Dimensions, long: "block-dim", short: "bid", unit: "Threads of a block", ..LAUNCH
    };
    /// Dynamic shared memory, bytes
    #[serde(default)]
    shared_mem: u32 = 0, Field { kind: Kind::Number(0, u32::MAX), short: "shem", unit: "BYTES", ..LAUNCH };
    /// Fold recorded arguments into the code: all (scalars, by-value structs, the size of dynamic shared memory), or
    /// those in a list of indices, as in --specialize=0,2
    #[serde(default)]
    specialize: Specialize = Specialize::None, Field {
        kind: Kind::Arguments, unit: "LIST", relaxes: true, ..PREPARATION
    };
    /// Tell the compiler the launch bounds, `max_threads` and `min_blocks_per_sm`
    #[serde(default)]
    set_launch_bounds: bool = false, Field { short: "slb", relaxes: true, ..PREPARATION };
    /// Threads of a block that the compiler may rely on, with launch bounds
    #[serde(default)]
    max_threads: Option<u32> = None, Field {
        kind: Kind::Number(0, MAX_THREADS), default: "those of the block", needs_ir: false, ..PREPARATION
    };
    /// Blocks that should fit on a multiprocessor, with launch bounds; 0 for no wish
    #[serde(default)]
    min_blocks_per_sm: u32 = 0, Field {
        kind: Kind::Number(0, u32::MAX), alias: "min-threads-per-block", needs_ir: false, ..PREPARATION
    };
    /// Fold grid and block dimensions into the code; indices get their ranges
    #[serde(default)]
    specialize_dims: bool = false, Field { short: "sdims", relaxes: true, ..PREPARATION };
    /// LLVM pass pipeline in the syntax of `opt -passes`; an empty text for none
    #[serde(default = "default_passes")]
    passes: String = default_passes(), Field {
        kind: Kind::Text, default: OF_APPLICATION, is_elsewhere: true, needs_ir: true, ..COMPILATION
    };
    /// Optimisation level of LLVM's code generator, 0 to 3; for a program compiled with `-O0`, 0 means 1 on the CPU
    /// device
    #[serde(default = "default_codegen_opt")]
    codegen_opt: u8 = default_codegen_opt(), Field {
        kind: Kind::Level, default: OF_APPLICATION, short: "co", unit: "LEVEL", needs_ir: true, ..COMPILATION
    };
    /// A code generator's name in the existing Mneme; printed, without effect, not hashed
    #[serde(default = "default_codegen_method")]
    codegen_method: String = default_codegen_method(), Field {
        kind: Kind::Choice(&CODEGEN_METHODS), unit: "NAME", since: "0.1", ..PLAIN
    };
    /// Remove functions and variables that the kernel does not reach
    #[serde(default = "yes")]
    prune: bool = true, COMPILATION;
    /// Hide everything except the kernel, so passes know every caller of a function
    #[serde(default)]
    internalize: bool = false, COMPILATION;
    /// Tell the compiler what the recording proves: pointers that do not alias, alignment, ranges of arguments
    #[serde(default, skip_serializing_if = "is_default")]
    facts: bool = false, Field { relaxes: true, since: "0.2", ..PREPARATION };
    /// Registers that a thread may use at most; 0 for the application's limit, if any; without effect on the CPU device
    #[serde(default, skip_serializing_if = "is_default")]
    maxnreg: u32 = 0, Field {
        kind: Kind::Number(0, 255), needs_ir: false, reaches_assembler: true, since: "0.2", ..PREPARATION
    };
    /// Optimisation level of the assembler (nvPTXCompiler, ptxas), 0 to 3; without effect on the CPU device
    #[serde(default, skip_serializing_if = "is_default")]
    ptx_opt: Option<u8> = None, Field {
        kind: Kind::Level, default: OF_APPLICATION, unit: "LEVEL", reaches_assembler: true, since: "0.2", ..COMPILATION
    };
    /// Other options of the assembler in ptxas's spelling, e.g. --ptxas-option=--fmad=false; may be repeated; they
    /// replace all of the application's, and a single empty one removes those; without effect on the CPU device
    #[serde(default, skip_serializing_if = "is_default")]
    ptxas_options: Option<Vec<String>> = None, Field {
        kind: Kind::List, default: OF_APPLICATION, long: "ptxas-option", unit: "OPTION", reaches_assembler: true,
        since: "0.2", ..COMPILATION
    };
    /// Compile floating point as -ffast-math does; combine it with a tolerance
    #[serde(default, skip_serializing_if = "is_default")]
    fast_math: bool = false, Field { relaxes: true, reaches_assembler: true, since: "0.2", ..PREPARATION };
    /// Options of LLVM's command line for this build, e.g. --llvm-option=-unroll-threshold=400; may be repeated
    #[serde(default, skip_serializing_if = "is_default")]
    llvm_options: Vec<String> = Vec::new(), Field {
        kind: Kind::List, long: "llvm-option", alias: "llvm-options", unit: "-NAME[=VALUE]", needs_ir: true,
        relaxes: true, since: "0.2", ..COMPILATION
    };
    /// Major version of the LLVM that compiles; its builder (mneme-build-NN) must be installed
    #[serde(default, skip_serializing_if = "is_default")]
    llvm: Option<u32> = None, Field {
        kind: Kind::Version, default: "the one that wrote the IR, else the next newer one", unit: "NN", needs_ir: true,
        since: "0.2", ..COMPILATION
    };
    /// Measured runs
    #[serde(default, skip_serializing_if = "is_default")]
    iterations: Option<u32> = None, Field { kind: Kind::Number(1, MAX_RUNS), short: "it", ..OF_SESSION };
    /// Runs before the measured ones
    #[serde(default, skip_serializing_if = "is_default")]
    warmup: Option<u32> = None, Field { kind: Kind::Number(0, MAX_RUNS), short: "wu", ..OF_SESSION };
    /// Empty the level 2 cache before each measured run (cold), or keep its contents (hot)
    #[serde(default, skip_serializing_if = "is_default")]
    cache: CacheState = CacheState::Hot, Field {
        kind: Kind::Switch(["hot", "cold"]), long: "cold-cache", effect: Effect::Runs, ..PLAIN
    };
    /// Time limit of the build, and of all runs, seconds
    #[serde(default, skip_serializing_if = "is_default")]
    timeout_s: Option<f64> = None, Field { kind: Kind::Seconds, long: "timeout", effect: Effect::Limit, ..OF_SESSION };
    /// Compile PTX through LLVM IR even if no other field needs IR; naming a pipeline does that too; without effect on
    /// recorded IR
    #[serde(default, skip_serializing_if = "is_default")]
    lift: bool = false, Field { needs_ir: true, since: "0.2", ..COMPILATION };
    /// Fuse no products and sums of lifted PTX that have no rounding modifier; without effect on recorded IR
    #[serde(default, skip_serializing_if = "is_default")]
    unfused: bool = false, Field { needs_ir: true, since: "0.2", ..COMPILATION };
    /// Run the application's own code; fields that change code are refused
    #[serde(default, skip_serializing_if = "is_default")]
    original: bool = false, Field { effect: Effect::Code, is_elsewhere: true, ..PLAIN };
    /// How far memory may differ, for buffers without a tolerance of their own
    #[serde(default, skip_serializing_if = "is_default")]
    tolerance: Option<Tolerance> = None, Field { kind: Kind::Tolerance, ..OF_SESSION };
}

const OF_APPLICATION: &str = "the application's";
const LAUNCH: Field = Field { effect: Effect::Launch, default: "as recorded", since: "0.1", ..PLAIN };
const PREPARATION: Field = Field { effect: Effect::Preparation, needs_ir: true, since: "0.1", ..PLAIN };
const COMPILATION: Field = Field { effect: Effect::Compilation, since: "0.1", ..PLAIN };
const OF_SESSION: Field = Field { effect: Effect::Runs, default: "the session's", is_elsewhere: true, ..PLAIN };

fn default_passes() -> String {
    DEFAULT_PASSES.into()
}
fn default_codegen_opt() -> u8 {
    3
}
fn default_codegen_method() -> String {
    DEFAULT_CODEGEN_METHOD.into()
}
fn yes() -> bool {
    true
}
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    /// Checks the lines of a file between a line that starts with `start` and the next empty line. Writes them with
    /// `MNEME_UPDATE_DOCS`.
    fn check(file: &str, start: &str, wanted: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let head = text.find(start).unwrap();
        let begin = head + text[head..].find('\n').unwrap() + 1;
        let end = begin + text[begin..].find("\n\n").unwrap() + 1;
        if std::env::var_os("MNEME_UPDATE_DOCS").is_some() {
            std::fs::write(&path, format!("{}{wanted}{}", &text[..begin], &text[end..])).unwrap();
            return;
        }
        assert_eq!(&text[begin..end], wanted, "{file} is stale: run `MNEME_UPDATE_DOCS=1 cargo test -p mneme-model`");
    }

    fn option(field: &Field) -> String {
        let option = field.option();
        match field.kind {
            Kind::Dimensions => ["x", "y", "z"].map(|axis| format!("`-{}{axis}`", field.short)).join(", "),
            Kind::Text => "`PIPELINE`".into(),
            Kind::Bool if (field.initial)() == true => format!("`--no-{option}`"),
            _ if field.short.is_empty() => format!("`--{option}`"),
            _ => format!("`--{option}`, `-{}`", field.short),
        }
    }

    fn default(field: &Field) -> String {
        match (field.default, (field.initial)()) {
            ("", Value::Null) => "none".into(),
            ("", Value::Array(_)) => "empty".into(),
            ("", Value::String(word)) => format!("`{word}`"),
            ("", value) => format!("`{value}`"),
            (words, _) => words.into(),
        }
    }

    #[test]
    fn the_reference_page_has_every_field() {
        let page = include_str!("../../../../docs/reference/configuration.md");
        let row = |field: &Field| {
            let name = match page.contains(&format!("\n## {}\n", field.name)) {
                true => format!("[`{0}`](#{0})", field.name),
                false => format!("`{}`", field.name),
            };
            let (option, values, default) = (option(field), field.kind.values(), default(field));
            let needs = if field.needs_ir { "; needs IR" } else { "" };
            format!("| {name} | {option} | {values} | {default} | {}{needs} | {} |\n", field.comment, field.since)
        };
        let head = "| --- | --- | --- | --- | --- | --- |\n".to_owned();
        check(
            "docs/reference/configuration.md",
            "| field |",
            &FIELDS.iter().fold(head, |rows, field| rows + &row(field)),
        );
    }

    #[test]
    fn python_has_every_field() {
        let line = |field: &Field| {
            let kind = match field.kind {
                Kind::Bool => "bool",
                Kind::Number(..) | Kind::Level | Kind::Version => "int",
                Kind::Seconds => "float",
                Kind::Text | Kind::Choice(_) | Kind::Switch(_) => "str",
                Kind::List => "list[str]",
                Kind::Tolerance | Kind::Dimensions | Kind::Arguments => "dict[str, Any]",
            };
            let (kind, default) = match (field.initial)() {
                Value::Null => (format!("Optional[{kind}]"), "None".into()),
                Value::Array(_) => (kind.into(), "field(default_factory=list)".into()),
                Value::Bool(value) => (kind.into(), if value { "True" } else { "False" }.into()),
                value => (kind.into(), value.to_string()),
            };
            format!("    {}: {kind} = {default}\n", field.name)
        };
        let ours: String = FIELDS.iter().filter(|field| field.since != "0.1").map(line).collect();
        check("python/mneme/mneme_types.py", "    # Written by `MNEME_UPDATE_DOCS=1 cargo test -p mneme-model`", &ours);
        // The others have the defaults of the existing Mneme there.
        let class = include_str!("../../../../python/mneme/mneme_types.py");
        for field in FIELDS.iter().filter(|field| field.since == "0.1") {
            assert!(class.contains(&format!("\n    {}: ", field.name)), "{}", field.name);
        }
    }
}
