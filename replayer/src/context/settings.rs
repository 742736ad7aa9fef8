//! The settings of a replay, worked out from the command line.

use std::path::PathBuf;
use std::time::Duration;

use mneme_builds::Keep;
use mneme_builds::plan::External;

use super::device::Choice;
use crate::build::replacement::{CodeBeside, ReplacementFile};
use crate::execute::timing::Timing;
use crate::verify::tolerances;

/// What a configuration that goes wrong can take with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Isolation {
    /// Configurations share a process until one breaks it; the next takes over
    #[default]
    Fault,
    /// Each configuration runs in a process of its own
    Process,
    /// One process for all runs and one for all builds, as profilers and debuggers like it: what breaks either ends the
    /// replay, and there are no time limits
    None,
}

/// What is replayed, where, and under which limits.
#[derive(Clone)]
pub struct ReplaySettings {
    /// The `.json` file of the recorded kernel, or the recording's folder.
    pub database: PathBuf,
    /// The dynamic hash of the instance.
    pub id: Option<String>,
    /// The kernel of a folder: its name or a part of it.
    pub kernel: Option<String>,
    /// None for the kind that the recording was made on.
    pub devices: Vec<Choice>,
    /// Configurations that run at a time; one on each device where `None`.
    pub workers: Option<usize>,
    pub isolation: Isolation,
    pub timing: Timing,
    pub verification: tolerances::ToleranceOptions,
    /// For a build, and for all runs of a configuration.
    pub limit: Duration,
    /// Builders at a time, and the memory that each may take, bytes.
    pub builders: usize,
    pub builder_memory: Option<u64>,
    /// Code in the recorded kernel's place.
    pub code: Option<ReplacementFile>,
    /// What lies beside the recorded code is in its place.
    pub beside: Option<CodeBeside>,
    /// The version of LLVM that the only configuration is compiled with, where the command line says.
    pub llvm: Option<u32>,
    /// That which compiles where a configuration does not say; where `None`, the one that fits the IR.
    pub default_llvm: Option<u32>,
    /// The only configuration is the application's own code, which no LLVM has to read.
    pub original: bool,
    /// The program that runs pipelines.
    pub external: Option<External>,
    /// IR that builds return.
    pub keep: Keep,
    /// Texts of builds that fail are wanted too.
    pub texts: bool,
    /// More configurations may come: executors have others ready to take over.
    pub standby: bool,
    /// Runs are a survey of how they differ from each other.
    pub survey: bool,
    /// Folder for memory that differs.
    pub dump: Option<PathBuf>,
    /// What device and kernels print is not shown.
    pub quiet: bool,
}
