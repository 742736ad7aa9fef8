//! The settings of a replay, from the command line.

use std::path::PathBuf;
use std::time::Duration;

use mneme_builds::Keep;
use mneme_builds::plan::External;

use super::device::Choice;
use crate::build::replacement::{CodeBeside, ReplacementFile};
use crate::context::timing::Timing;
use crate::verify::tolerances;

/// How much a failing configuration can take down with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Isolation {
    /// Configurations share a process until one breaks it; then another process takes over
    #[default]
    Fault,
    /// Each configuration runs in a separate process
    Process,
    /// One process for all runs and one for all builds, for profilers and debuggers: a crash in either ends the replay,
    /// and time limits do not apply
    None,
}

/// The subject of a replay, its devices and its limits.
#[derive(Clone)]
pub struct ReplaySettings {
    /// The `.json` file of the recorded kernel, or the recording's folder.
    pub database: PathBuf,
    /// The dynamic hash of the instance.
    pub id: Option<String>,
    /// The kernel of a folder: its name or a part of it.
    pub kernel: Option<String>,
    /// Empty for the kind of device that the recording was made on.
    pub devices: Vec<Choice>,
    /// How many configurations run at a time. `None` means one on each device.
    pub workers: Option<usize>,
    pub isolation: Isolation,
    pub timing: Timing,
    pub verification: tolerances::ToleranceOptions,
    /// The time limit of a build, and of all runs of a configuration.
    pub limit: Duration,
    /// How many builders run at a time, and the memory limit of each, bytes.
    pub builders: usize,
    pub builder_memory: Option<u64>,
    /// Code in place of the recorded kernel's.
    pub code: Option<ReplacementFile>,
    /// Uses code that is stored beside the recorded code.
    pub beside: Option<CodeBeside>,
    /// The version of LLVM that compiles the only configuration, if the command line names one.
    pub llvm: Option<u32>,
    /// The version for configurations that do not name one. `None` means the one that fits the IR.
    pub default_llvm: Option<u32>,
    /// The only configuration is the application's own code, which LLVM need not read.
    pub original: bool,
    /// The program that runs pipelines.
    pub external: Option<External>,
    /// The IR that builds return.
    pub keep: Keep,
    /// Whether failed builds return their texts too.
    pub texts: bool,
    /// Whether more configurations may come, so executors have standbys.
    pub standby: bool,
    /// Whether runs are a survey of their differences.
    pub survey: bool,
    /// The folder for differing memory.
    pub dump: Option<PathBuf>,
    /// Whether to hide the output of device and kernels.
    pub quiet: bool,
}
