//! Settings: the options of a session with all defaults filled in, grouped by purpose.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::{FoldedArguments, Options, Pruner, RunsKind, Switch};
use crate::measured::Measured;
use crate::metric::Metric;
use crate::sampler::{SamplerKind, SamplerSettings};
use crate::space::{BlockAxes, Parameter, Point, PresetOptions, SearchSpace};

/// The settings of a session for one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningSettings {
    pub mode: SessionMode,
    pub space: SpaceSettings,
    pub folded: FoldedArguments,
    /// Whether the session skips block shapes that the device keeps refusing.
    pub ban_refused_blocks: bool,
    pub search: SearchSettings,
    /// As users write them; at least one.
    pub objectives: Vec<String>,
    pub metric: Metric,
    /// Whether speedups compare with the application's own code; otherwise with the first pipeline's.
    pub over_original: bool,
    pub replay: CandidateSettings,
    pub confirmation: ConfirmationSettings,
    /// Recorded results that replace the device.
    pub simulate: Option<PathBuf>,
    pub cache: Option<PathBuf>,
    /// Resumes the session of the results folder; `rerun_baseline` measures its baseline again.
    pub resume: bool,
    pub rerun_baseline: bool,
    pub proteus: ProteusOutput,
    pub quiet: bool,
    /// The options that give these settings.
    pub(super) written: Options,
}

impl TuningSettings {
    /// All options with their defaults, for `config.json` and `--dump-config`.
    pub fn written(&self) -> &Options {
        &self.written
    }

    /// The space for `search_space.json` and `--print-space`, also with the existing Mneme's keys.
    pub fn described(&self, space: &dyn SearchSpace) -> Value {
        let mut described = space.describe();
        let is_built_in = matches!(self.space, SpaceSettings::BuiltIn(_));
        described["type"] = json!(if is_built_in { "builtin" } else { "custom" });
        if is_built_in {
            described["preset"] = json!(self.written.space_preset);
        }
        let dimension = |parameter: &Parameter| (parameter.name.clone(), parameter.domain.dimension());
        described["dimensions"] = space.parameters().iter().map(dimension).collect();
        described
    }

    /// Whether the kernel decides if the grid follows the block, because the user did not.
    pub fn asks_for_grid(&self) -> bool {
        self.written.keep_grid.is_none()
            && matches!(&self.space, SpaceSettings::BuiltIn(preset) if preset.launch_dim != BlockAxes::None)
    }

    /// For a kernel that reads the grid's dimensions, tries both, and notes that in the written options.
    pub fn settle_grid(&mut self, reads_grid: bool) {
        let mode = if reads_grid { Switch::OnOff } else { Switch::Off };
        if let SpaceSettings::BuiltIn(preset) = &mut self.space {
            preset.keep_grid = mode.values().to_vec();
            self.written.keep_grid = Some(mode);
        }
    }

    /// For a kernel whose code demands the recorded block, varies only the code, and notes that in the written options.
    /// Returns whether this changes anything.
    pub fn keep_block(&mut self) -> bool {
        match &mut self.space {
            SpaceSettings::BuiltIn(preset) if preset.launch_dim == BlockAxes::Auto => {
                preset.launch_dim = BlockAxes::None;
                self.written.launch_dim = Some(BlockAxes::None);
                true
            }
            _ => false,
        }
    }

    /// The recording and device that the session measures, once known.
    pub fn measured(&self) -> Option<&Measured> {
        self.written.measured.as_ref()
    }

    pub fn set_measured(&mut self, measured: Option<Measured>) {
        self.written.measured = measured;
    }
}

/// What a session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMode {
    Tune,
    /// Replays only the baseline.
    BaselineOnly,
    PrintSpace,
    /// Prints the baseline's configuration and the space.
    DryRun,
}

impl SessionMode {
    /// Whether the mode replays nothing.
    pub fn inspects(self) -> bool {
        matches!(self, Self::PrintSpace | Self::DryRun)
    }
}

/// The source of the search space.
#[derive(Clone, Debug, PartialEq)]
pub enum SpaceSettings {
    BuiltIn(PresetOptions),
    File(PathBuf),
    /// A Python class, and arguments for its constructor.
    Class {
        name: String,
        arguments: Vec<String>,
    },
    /// The space of a file of results that replaces the device.
    Table,
}

/// How candidates are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchSettings {
    pub sampler: SamplerKind,
    /// `None` to try the whole space.
    pub trials: Option<u64>,
    pub seed: u64,
    pub start_from: Option<PathBuf>,
    /// Results folders of other sessions.
    pub learn_from: Vec<PathBuf>,
    /// Seconds after which the session submits no more candidates.
    pub timeout: Option<f64>,
    /// The Optuna study, if Optuna samples.
    pub study: Option<StudySettings>,
    pub python: Option<PathBuf>,
}

impl SearchSettings {
    /// Settings for a built-in sampler, with its starting point.
    pub fn for_sampler(&self, start: Option<Point>) -> SamplerSettings {
        let trials = self.trials.map(|trials| usize::try_from(trials).unwrap_or(usize::MAX));
        SamplerSettings { seed: self.seed, trials, start }
    }
}

/// An Optuna study.
#[derive(Clone, Debug, PartialEq)]
pub struct StudySettings {
    pub name: Option<String>,
    pub storage: Option<String>,
    pub pruner: Option<Pruner>,
}

/// How candidates are replayed, judged and timed. The replayer decides what is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateSettings {
    pub iterations: u32,
    pub warmup: u32,
    /// Whether every candidate gets all of these runs.
    pub runs: RunsKind,
    pub workers: Option<u32>,
    pub device: Option<String>,
    /// Start from the PTX beside the recorded machine code.
    pub from_ptx: bool,
    /// Whether candidates count as verified even if that shows too little.
    pub accept_unproven: bool,
    pub rtol: Option<f64>,
    pub atol: Option<f64>,
    pub dtype: Option<String>,
    pub tolerance: Vec<String>,
    pub timer: Option<String>,
    /// Seconds.
    pub trial_timeout: Option<f64>,
    pub fail_fast: bool,
    /// Ratio of a first run to the fastest first run at which a candidate is given up.
    pub racing: Option<f64>,
}

/// How the best candidates are measured again.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfirmationSettings {
    /// Number of finalists; 0 reports the first measurements.
    pub finalists: usize,
    pub time: Duration,
    /// Instances on which the best is verified too; "all" means every instance of the kernel.
    pub verify_all: Vec<String>,
}

/// The destination of the best for Proteus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProteusOutput {
    Nowhere,
    /// To the results folder.
    Results,
    File(PathBuf),
}
