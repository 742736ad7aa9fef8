//! Settings: the options of a session with every default filled in, by what they are for.

use std::path::PathBuf;
use std::time::Duration;

use super::{FoldedArguments, Options, Pruner, RunsKind, Switch};
use crate::measured::Measured;
use crate::metric::Metric;
use crate::sampler::{SamplerKind, SamplerSettings};
use crate::space::{BlockAxes, Point, PresetOptions};

/// All that a session of one kernel was told.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningSettings {
    pub mode: SessionMode,
    pub space: SpaceSettings,
    pub folded: FoldedArguments,
    /// Whether block shapes that the device keeps refusing are left out.
    pub ban_refused_blocks: bool,
    pub search: SearchSettings,
    /// As users write them, at least one.
    pub objectives: Vec<String>,
    pub metric: Metric,
    /// Whether speedups are over the code that the application ran, else over the first pipeline's.
    pub over_original: bool,
    pub replay: CandidateSettings,
    pub confirmation: ConfirmationSettings,
    /// Recorded results that answer in place of a device.
    pub simulate: Option<PathBuf>,
    pub cache: Option<PathBuf>,
    /// Goes on with the session of the results folder, perhaps with a baseline that is measured again.
    pub resume: bool,
    pub rerun_baseline: bool,
    pub proteus: ProteusOutput,
    pub quiet: bool,
    /// The options that come to these settings when they are said again.
    pub(super) written: Options,
}

impl TuningSettings {
    /// What `config.json` and `--dump-config` have: all options with their defaults.
    pub fn written(&self) -> &Options {
        &self.written
    }

    /// Whether it is open if the grid follows the block, which depends on the kernel.
    pub fn asks_for_grid(&self) -> bool {
        self.written.keep_grid.is_none()
            && matches!(&self.space, SpaceSettings::BuiltIn(preset) if preset.launch_dim != BlockAxes::None)
    }

    /// Tries both for a kernel that reads the grid's dimensions, and says so in what is written.
    pub fn settle_grid(&mut self, reads_grid: bool) {
        let mode = if reads_grid { Switch::OnOff } else { Switch::Off };
        if let SpaceSettings::BuiltIn(preset) = &mut self.space {
            preset.keep_grid = mode.values().to_vec();
            self.written.keep_grid = Some(mode);
        }
    }

    /// What the session measured, as far as that is known.
    pub fn measured(&self) -> Option<&Measured> {
        self.written.measured.as_ref()
    }

    pub fn set_measured(&mut self, measured: Option<Measured>) {
        self.written.measured = measured;
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMode {
    Tune,
    /// The baseline is replayed and nothing else.
    BaselineOnly,
    PrintSpace,
    /// The baseline's configuration and the space are printed.
    DryRun,
}

impl SessionMode {
    /// Nothing is replayed.
    pub fn inspects(self) -> bool {
        matches!(self, Self::PrintSpace | Self::DryRun)
    }
}

/// Where the search space comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum SpaceSettings {
    BuiltIn(PresetOptions),
    File(PathBuf),
    /// A Python class, and arguments for its constructor.
    Class {
        name: String,
        arguments: Vec<String>,
    },
    /// That of the results which answer in place of a device.
    Table,
}

/// How candidates are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchSettings {
    pub sampler: SamplerKind,
    /// `None` where all of the space is meant.
    pub trials: Option<u64>,
    pub seed: u64,
    pub start_from: Option<PathBuf>,
    /// Results folders of other sessions.
    pub learn_from: Vec<PathBuf>,
    /// Seconds after which no candidate is submitted.
    pub timeout: Option<f64>,
    /// Optuna's study, where its samplers are used in place of ours.
    pub study: Option<StudySettings>,
    pub python: Option<PathBuf>,
}

impl SearchSettings {
    /// What one of our samplers needs to know, and where it starts.
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

/// How candidates are replayed, judged and timed; what is `None` is up to the replayer.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateSettings {
    pub iterations: u32,
    pub warmup: u32,
    /// Whether a candidate has all of these.
    pub runs: RunsKind,
    pub workers: Option<u32>,
    pub device: Option<String>,
    /// Start from the PTX beside the recorded machine code.
    pub from_ptx: bool,
    /// Candidates count whose memory is as recorded, whatever that shows.
    pub accept_unproven: bool,
    pub rtol: Option<f64>,
    pub atol: Option<f64>,
    pub dtype: Option<String>,
    pub tolerance: Vec<String>,
    pub timer: Option<String>,
    /// Seconds.
    pub trial_timeout: Option<f64>,
    pub fail_fast: bool,
    /// How much longer than the fastest first run one may take.
    pub racing: Option<f64>,
}

/// How the best are measured again.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfirmationSettings {
    /// How many of them; 0 reports the first measurements.
    pub finalists: usize,
    pub time: Duration,
    /// Instances that the best is verified on too; "all" is all of the kernel's.
    pub verify_all: Vec<String>,
}

/// Where the best goes for Proteus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProteusOutput {
    Nowhere,
    /// To the results folder.
    Results,
    File(PathBuf),
}
