//! Builds: each configuration is compiled in a process of its own, so that a crash in LLVM is that configuration's result.
//!
//! Builders are forked by a nursery, which has LLVM and the assembler loaded and warm. The supervisor cannot be that parent:
//! an assembler may load the device's driver, and a driver that was loaded before a fork refuses to work in the child.

pub mod nursery;
mod process;

use mneme_compiler::Keep;
use mneme_compiler::pipeline::External;
use mneme_core::configuration::{Configuration, Specialize};
use mneme_core::result::Status;
use serde::{Deserialize, Serialize};

use crate::replacement::Replacement;

/// What a command line asks of every build, beyond configurations.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Code in the recorded kernel's place.
    pub replacement: Option<Replacement>,
    /// The program that runs pipelines.
    pub external: Option<External>,
    /// IR to return.
    pub keep: Keep,
}

/// A finished build, without its image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Built {
    pub entry: String,
    /// Seconds.
    pub preprocess: f64,
    pub optimise: f64,
    pub codegen: f64,
    /// The launch must ask for no dynamic shared memory: the code has it.
    pub shared_is_static: bool,
    pub assembler: String,
    pub ptx: Option<String>,
    /// Before the pipeline, and after it.
    pub ir_before: Option<String>,
    pub ir: Option<String>,
    /// What the build has to say, a line each.
    pub log: Vec<String>,
}

/// Why there is no code object, in one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotBuilt {
    pub status: Status,
    pub error: String,
}

/// The outcome of a build and the code object.
pub type Outcome = Result<(Built, Vec<u8>), NotBuilt>;

/// The fields of a configuration that its code depends on, as one comparable text.
pub fn key(configuration: &Configuration) -> String {
    let mut key = configuration.grounded();
    // What does not reach the compiler.
    key.codegen_method = String::new();
    (key.iterations, key.warmup, key.timeout_s, key.tolerance, key.cache) = (None, None, None, None, Default::default());
    let bounds_follow_block = key.set_launch_bounds && key.max_threads.is_none_or(|threads| threads == 0);
    // Specialised code has the size of the dynamic shared memory in it.
    if key.specialize != Specialize::All {
        key.shared_mem = 0;
    }
    if !key.specialize_dims {
        key.grid = Default::default();
        if !bounds_follow_block {
            key.block = Default::default();
        }
    }
    serde_json::to_string(&key).expect("plain data serialises")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::launch::Dim3;

    fn configuration() -> Configuration {
        Configuration::recorded(Dim3::new(10, 1, 1), Dim3::new(128, 1, 1), 0)
    }

    #[test]
    fn dimensions_matter_to_the_code_only_where_it_knows_them() {
        let mut other = configuration();
        other.block = Dim3::new(64, 1, 1);
        other.grid = Dim3::new(20, 1, 1);
        assert_eq!(key(&configuration()), key(&other));
        let (mut one, mut two) = (configuration(), other);
        (one.specialize_dims, two.specialize_dims) = (true, true);
        assert_ne!(key(&one), key(&two));
        (one.specialize_dims, two.specialize_dims) = (false, false);
        (one.set_launch_bounds, two.set_launch_bounds) = (true, true);
        assert_ne!(key(&one), key(&two), "launch bounds default to the block");
        (one.max_threads, two.max_threads) = (Some(256), Some(256));
        assert_eq!(key(&one), key(&two));
    }

    #[test]
    fn the_compilation_always_matters() {
        for change in [
            |it: &mut Configuration| it.passes = "default<O1>".into(),
            |it: &mut Configuration| it.codegen_opt = 1,
            |it: &mut Configuration| it.specialize = true.into(),
            |it: &mut Configuration| it.prune = false,
            |it: &mut Configuration| it.internalize = false,
        ] {
            let mut other = configuration();
            change(&mut other);
            assert_ne!(key(&configuration()), key(&other));
        }
    }
}
