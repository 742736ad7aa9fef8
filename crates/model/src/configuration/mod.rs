//! A replay configuration: the options for compiling a recorded kernel and launching it.
//!
//! [`FIELDS`] declares each field once. It is the source of the command line of `mneme-replay`, the commands that other
//! programs print, the reference page, and Python's fields.
//!
//! The fields up to `internalize`, their JSON names and defaults are those of the existing Mneme
//! (`ExperimentConfiguration`). If a configuration uses only these, its hash is the same, too. The other fields are
//! Mneme's additions.

mod changes;
mod error;
mod field;
mod fields;
mod options;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use sha2::{Digest, Sha256};

pub use self::changes::Changes;
pub use self::error::ConfigurationError;
pub use self::field::{Effect, Field, Kind};
pub use self::fields::{Configuration, FIELDS};
use crate::compile_options::CompileOptions;
use crate::launch::Dim3;

/// Other names that users and earlier versions write for the launch's dimensions.
const OTHER_NAMES: [(&str, &str); 3] = [("blockDim", "block"), ("block_shape", "block"), ("gridDim", "grid")];

/// The name of a field, or of an axis of one, as results have it: `block.x` for `blockDim.x` and `block_shape.x`.
pub fn canonical(name: &str) -> Cow<'_, str> {
    let (field, rest) = name.split_at(name.find('.').unwrap_or(name.len()));
    match OTHER_NAMES.iter().find(|(other, _)| *other == field) {
        Some((_, field)) => format!("{field}{rest}").into(),
        None => name.into(),
    }
}

/// The arguments to fold into the code. In JSON `false`, `true` or a list of argument indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Specialize {
    #[default]
    None,
    /// All arguments that can be folded.
    All,
    /// These arguments, counted from 0, if they can be folded.
    Arguments(Vec<u32>),
}

impl Specialize {
    /// Whether to fold argument `index`, counted from 0.
    pub fn selects(&self, index: u32) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Arguments(indices) => indices.contains(&index),
        }
    }

    /// Whether to fold any argument.
    pub fn any(&self) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Arguments(indices) => !indices.is_empty(),
        }
    }

    /// The normal form: sorted indices without duplicates, and never an empty list.
    fn grounded(&self) -> Self {
        match self {
            Self::Arguments(indices) if indices.is_empty() => Self::None,
            Self::Arguments(indices) => {
                let ordered: std::collections::BTreeSet<u32> = indices.iter().copied().collect();
                Self::Arguments(ordered.into_iter().collect())
            }
            other => other.clone(),
        }
    }
}

/// A list of indices, or `all`.
impl std::str::FromStr for Specialize {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.split(',').map(|index| index.trim().parse()).collect::<Result<_, _>>().map(Self::Arguments)
    }
}

impl std::fmt::Display for Specialize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("false"),
            Self::All => f.write_str("true"),
            Self::Arguments(indices) => write!(f, "{indices:?}"),
        }
    }
}

impl From<bool> for Specialize {
    fn from(all: bool) -> Self {
        if all { Self::All } else { Self::None }
    }
}

impl Serialize for Specialize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_bool(false),
            Self::All => serializer.serialize_bool(true),
            Self::Arguments(indices) => indices.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Specialize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            All(bool),
            Arguments(Vec<u32>),
        }
        match Written::deserialize(deserializer) {
            Ok(Written::All(all)) => Ok(all.into()),
            Ok(Written::Arguments(indices)) => Ok(Self::Arguments(indices)),
            Err(_) => Err(D::Error::custom("specialize is true, false or a list of argument indices, counted from 0")),
        }
    }
}

/// The contents of the device's caches at the start of a measured run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// The data of the previous run.
    #[default]
    Hot,
    /// No data of the recording.
    Cold,
}

/// The maximum number of runs.
pub const MAX_RUNS: u32 = 1_000_000;
/// The longest time limit, seconds: thirty years, which the system can still represent as a deadline.
pub const MAX_TIMEOUT: f64 = 1e9;
/// The existing Mneme's names of code generators, [`Configuration::codegen_method`].
pub const CODEGEN_METHODS: [&str; 3] = ["serial", "parallel", "rtc"];
/// The default for printing.
pub const DEFAULT_CODEGEN_METHOD: &str = CODEGEN_METHODS[0];
/// The maximum number of threads in a block on any device.
const MAX_THREADS: u32 = 1024;

/// The default pipeline.
pub const DEFAULT_PASSES: &str = "default<O3>";

impl Configuration {
    /// The configuration that repeats the recorded launch with the default compilation.
    pub fn recorded(grid: Dim3, block: Dim3, shared_mem: u32) -> Self {
        Self { grid, block, shared_mem, ..Self::default() }
    }

    /// The same, compiled like the application: with the pipeline and the code generation of its level. The assembler's
    /// options are the application's unless `ptx_opt` and `ptxas_options` set them, and `llvm_options` follow the
    /// application's.
    #[must_use]
    pub fn compiled_as(self, application: &CompileOptions) -> Self {
        Self { passes: application.pipeline(), codegen_opt: application.codegen_opt(), ..self }
    }

    /// The same launch of the application's own code, with the same measurement.
    pub fn of_original(&self) -> Self {
        Self { original: true, ..self.clone().reset(|field| field.effect.changes_code()) }
    }

    /// The first field that requires code other than the application's own.
    fn asks_for_other_code(&self) -> Option<&'static Field> {
        self.grounded().differences(&self.of_original().grounded()).next()
    }

    /// The same without fields that the compiler ignores: how to run the code, and a name without effect.
    #[must_use]
    pub fn without_runs(self) -> Self {
        self.reset(|field| matches!(field.effect, Effect::Runs | Effect::Nothing))
    }

    /// The normal form, in which equal configurations are equal: parameters that do not apply are zero.
    pub fn grounded(&self) -> Self {
        let mut grounded = self.clone();
        if !grounded.set_launch_bounds {
            grounded.max_threads = Some(0);
            grounded.min_blocks_per_sm = 0;
        }
        grounded.specialize = grounded.specialize.grounded();
        grounded
    }

    /// The existing Mneme's configuration hash: SHA-256, in hex, of compact JSON with sorted keys of the grounded
    /// configuration without `codegen_method`. The JSON contains Mneme's additional fields only if they differ from
    /// their defaults.
    pub fn hash(&self) -> String {
        let mut value = serde_json::to_value(self.grounded()).expect("plain data serialises");
        value.as_object_mut().expect("a struct is an object").remove("codegen_method");
        // serde_json's map is ordered by key.
        hex(&Sha256::digest(value.to_string().as_bytes()))
    }

    /// Checks that some device can launch this configuration.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check(&self) -> Result<(), ConfigurationError> {
        use ConfigurationError::*;
        if self.grid.count() == 0 || self.block.count() == 0 {
            return Err(NoThreads { grid: self.grid, block: self.block });
        }
        if self.block.count() > u64::from(MAX_THREADS) {
            return Err(LargeBlock { block: self.block });
        }
        let values = serde_json::to_value(self.grounded()).expect("plain data serialises");
        for &Field { name, kind, .. } in FIELDS {
            if let Some(value) = values.get(name).filter(|value| !kind.has(value)) {
                return Err(Range { field: name, value: value.clone(), range: kind.values() });
            }
        }
        let is_no_option = |option: &&String| option.is_empty() || option.contains('\0');
        if let Some(option) = self.ptxas_options.iter().flatten().find(is_no_option) {
            return Err(PtxasOption(option.clone()));
        }
        if let Some(option) = self.llvm_options.iter().find(|option| !option.starts_with('-') || option.contains('\0'))
        {
            return Err(LlvmOption(option.clone()));
        }
        if let Some(seconds) = self.timeout_s.filter(|seconds| !(*seconds > 0.0 && *seconds <= MAX_TIMEOUT)) {
            return Err(Timeout(seconds));
        }
        if let Some(field) = self.asks_for_other_code().filter(|_| self.original) {
            return Err(Original { field: field.name });
        }
        Ok(self.tolerance.map_or(Ok(()), |tolerance| tolerance.check())?)
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tolerance::Tolerance;

    fn example() -> Configuration {
        Configuration::recorded(Dim3::new(40000, 1, 1), Dim3::new(256, 1, 1), 0)
    }

    #[test]
    fn launch_bounds_that_do_not_apply_do_not_change_the_hash() {
        let mut other = example();
        other.max_threads = Some(512);
        other.min_blocks_per_sm = 4;
        assert_eq!(example().hash(), other.hash());
        other.set_launch_bounds = true;
        assert_ne!(example().hash(), other.hash());
    }

    #[test]
    fn the_code_generator_is_not_hashed_but_passes_are() {
        let mut other = example();
        other.codegen_method = "rtc".into();
        assert_eq!(example().hash(), other.hash());
        other.passes = "default<O1>".into();
        assert_ne!(example().hash(), other.hash());
    }

    #[test]
    fn what_the_application_was_compiled_with_is_the_default() {
        let application = CompileOptions { level: "s".into(), ptx_opt: 2, ..CompileOptions::default() };
        let found = example().compiled_as(&application);
        assert_eq!((found.passes.as_str(), found.codegen_opt, found.ptx_opt), ("default<Os>", 2, None));
        assert_eq!(Configuration { passes: "default<O3>".into(), codegen_opt: 3, ..found }, example());
    }

    #[test]
    fn impossible_blocks_are_named() {
        let mut wrong = example();
        wrong.block = Dim3::new(2048, 1, 1);
        assert_eq!(wrong.check(), Err(ConfigurationError::LargeBlock { block: wrong.block }));
        wrong.block = Dim3::new(1 << 31, 1 << 31, 4);
        assert_eq!(
            wrong.check(),
            Err(ConfigurationError::LargeBlock { block: wrong.block }),
            "the product does not wrap around"
        );
        wrong.block.x = 0;
        assert_eq!(wrong.check(), Err(ConfigurationError::NoThreads { grid: wrong.grid, block: wrong.block }));
    }

    #[test]
    fn fields_of_ours_are_hashed_only_where_they_are_set() {
        // The JSON that the existing Mneme hashes, written by hand.
        let theirs = r#"{"block":{"x":256,"y":1,"z":1},"codegen_opt":3,"grid":{"x":40000,"y":1,"z":1},"internalize":false,"max_threads":0,"min_blocks_per_sm":0,"passes":"default<O3>","prune":true,"set_launch_bounds":false,"shared_mem":0,"specialize":false,"specialize_dims":false}"#;
        assert_eq!(example().hash(), hex(&Sha256::digest(theirs.as_bytes())));
        let changes: [fn(&mut Configuration); 17] = [
            |it| it.llvm = Some(22),
            |it| it.facts = true,
            |it| it.lift = true,
            |it| it.maxnreg = 64,
            |it| it.internalize = true,
            |it| it.ptx_opt = Some(1),
            |it| it.ptxas_options = Some(vec![]),
            |it| it.ptxas_options = Some(vec!["--fmad=false".into()]),
            |it| it.fast_math = true,
            |it| it.llvm_options = vec!["-unroll-count=4".into()],
            |it| it.iterations = Some(7),
            |it| it.warmup = Some(0),
            |it| it.cache = CacheState::Cold,
            |it| it.timeout_s = Some(2.0),
            |it| it.original = true,
            |it| it.tolerance = Some(Tolerance::default()),
            |it| it.specialize = Specialize::Arguments(vec![1]),
        ];
        let mut hashes: std::collections::HashSet<String> = changes
            .iter()
            .map(|change| {
                let mut other = example();
                change(&mut other);
                other.hash()
            })
            .collect();
        hashes.insert(example().hash());
        assert_eq!(hashes.len(), changes.len() + 1);
    }

    #[test]
    fn a_list_of_arguments_is_a_set() {
        let with = |specialize: &str| {
            let mut it = serde_json::to_value(example()).unwrap();
            it["specialize"] = serde_json::from_str(specialize).unwrap();
            serde_json::from_value::<Configuration>(it).unwrap()
        };
        assert_eq!(with("[2,0,2]").hash(), with("[0,2]").hash());
        assert_eq!(with("[]").hash(), with("false").hash());
        assert_ne!(with("[0]").hash(), with("true").hash());
        assert!(
            with("[3]").specialize.selects(3)
                && !with("[3]").specialize.selects(0)
                && with("true").specialize.selects(9)
        );
        assert_eq!(serde_json::to_string(&with("[2,0]").specialize).unwrap(), "[2,0]");
        let error = serde_json::from_str::<Specialize>("\"yes\"").unwrap_err().to_string();
        assert!(error.contains("list of argument indices"), "{error}");
    }

    #[test]
    fn what_is_written_reads_back_and_old_files_still_do() {
        let mut full = example();
        full.facts = true;
        full.maxnreg = 32;
        full.ptx_opt = Some(0);
        full.ptxas_options = Some(vec!["--fmad=false".into()]);
        full.llvm_options = vec!["-debug-pass-manager".into()];
        full.llvm = Some(22);
        full.cache = CacheState::Cold;
        full.timeout_s = Some(0.5);
        full.specialize = Specialize::Arguments(vec![1, 4]);
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap(), full);
        let old = r#"{"grid":{"x":40000},"block":{"x":256},"specialize":false}"#;
        assert_eq!(
            serde_json::from_str::<Configuration>(old).unwrap(),
            Configuration { max_threads: None, ..example() }
        );
    }

    #[test]
    fn values_out_of_range_are_named() {
        use ConfigurationError::*;
        type Change = fn(&mut Configuration);
        type Expected = fn(&ConfigurationError) -> bool;
        let changes: [(Change, Expected); 11] = [
            (|it| it.codegen_method = "cereal".into(), |error| matches!(error, Range { field: "codegen_method", .. })),
            (|it| it.ptx_opt = Some(4), |error| matches!(error, Range { field: "ptx_opt", .. })),
            (|it| it.codegen_opt = 9, |error| matches!(error, Range { field: "codegen_opt", .. })),
            (|it| it.maxnreg = 256, |error| matches!(error, Range { field: "maxnreg", .. })),
            (|it| it.llvm_options = vec!["unroll".into()], |error| matches!(error, LlvmOption(_))),
            (|it| it.iterations = Some(0), |error| matches!(error, Range { field: "iterations", .. })),
            (|it| it.warmup = Some(2_000_000), |error| matches!(error, Range { field: "warmup", .. })),
            (|it| it.timeout_s = Some(f64::NAN), |error| matches!(error, Timeout(_))),
            (
                |it| (it.set_launch_bounds, it.max_threads) = (true, Some(2048)),
                |error| matches!(error, Range { field: "max_threads", .. }),
            ),
            (|it| it.ptxas_options = Some(vec![String::new()]), |error| matches!(error, PtxasOption(_))),
            (|it| (it.original, it.maxnreg) = (true, 32), |error| *error == Original { field: "maxnreg" }),
        ];
        assert_eq!(example().check(), Ok(()));
        let measured = Configuration {
            original: true,
            block: Dim3::new(64, 1, 1),
            iterations: Some(9),
            cache: CacheState::Cold,
            ..example()
        };
        assert_eq!(measured.check(), Ok(()));
        for (change, expected) in changes {
            let mut wrong = example();
            change(&mut wrong);
            let error = wrong.check().unwrap_err();
            assert!(expected(&error), "{error}");
        }
    }
}
