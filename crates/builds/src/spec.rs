//! The specification of a build, which identifies equal builds before they run.

use std::rc::Rc;

use mneme_model::configuration::{Configuration, Specialize};
use mneme_model::hash::{ChunkId, chunk_id};
use serde::{Deserialize, Serialize};

use crate::instrument::Instrument;
use crate::probe::{Probe, Revision};
use crate::replacement::Replacement;

/// The pass in pipelines that breaks kernels on purpose.
pub const FAULT: &str = "mneme-fault";

/// All inputs of a build except those from the recording, the command line and the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildSpec {
    pub configuration: Configuration,
    /// Code that replaces the recorded kernel.
    pub replacement: Option<Rc<Replacement>>,
    /// Return the IR after the pipeline, and the texts of a failed build.
    pub keep_ir: bool,
    /// The kind of instrumentation, if any.
    pub instrument: Option<Instrument>,
    /// The special settings of the build.
    pub probe: Probe,
}

/// Equal for builds that produce the same code.
pub type BuildKey = ChunkId;

impl BuildSpec {
    /// A build without special settings.
    pub fn new(configuration: Configuration) -> Self {
        Self { configuration, replacement: None, keep_ir: false, instrument: None, probe: Probe::default() }
    }

    /// Whether the build reports source lines, and so reads them with the code.
    pub fn tells_lines(&self) -> bool {
        let traps = |revision: &Revision| matches!(revision, Revision::Trap { .. });
        self.instrument.is_some() || self.probe.revisions.iter().any(traps)
    }

    /// The hash of all inputs that the code depends on.
    pub fn key(&self) -> BuildKey {
        let mut configuration = self.configuration.grounded().without_runs();
        configuration.timeout_s = None;
        // Instrumented code has bounds too.
        let has_bounds = configuration.set_launch_bounds || self.instrument.is_some();
        let bounds_follow_block = has_bounds && configuration.max_threads.is_none_or(|threads| threads == 0);
        // Specialised code contains the size of the dynamic shared memory.
        if configuration.specialize != Specialize::All {
            configuration.shared_mem = 0;
        }
        if !configuration.specialize_dims {
            configuration.grid = Default::default();
            if !bounds_follow_block {
                configuration.block = Default::default();
            }
        }
        let key = Self { configuration, ..self.clone() };
        chunk_id(&serde_json::to_vec(&key).expect("plain data serialises"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    fn configuration() -> Configuration {
        Configuration::recorded(Dim3::new(10, 1, 1), Dim3::new(128, 1, 1), 0)
    }

    fn key(configuration: &Configuration) -> BuildKey {
        BuildSpec::new(configuration.clone()).key()
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
    fn how_it_is_measured_does_not_matter() {
        let mut other = configuration();
        (other.iterations, other.warmup) = (Some(100), Some(7));
        assert_eq!(key(&configuration()), key(&other));
    }

    #[test]
    fn the_compilation_always_matters() {
        for change in [
            |it: &mut Configuration| it.passes = "default<O1>".into(),
            |it: &mut Configuration| it.codegen_opt = 1,
            |it: &mut Configuration| it.specialize = true.into(),
            |it: &mut Configuration| it.prune = false,
            |it: &mut Configuration| it.internalize = true,
            |it: &mut Configuration| it.maxnreg = 32,
        ] {
            let mut other = configuration();
            change(&mut other);
            assert_ne!(key(&configuration()), key(&other));
        }
    }

    #[test]
    fn other_code_matters() {
        let with = |text: &str| {
            let replacement = Some(Rc::new(Replacement::Ptx(text.into())));
            BuildSpec { replacement, ..BuildSpec::new(configuration()) }.key()
        };
        assert_ne!(with("a"), with("b"));
        assert_ne!(with("a"), key(&configuration()));
    }
}
