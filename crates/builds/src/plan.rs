//! The plan of a builder: the common settings of all its builds.

use std::path::PathBuf;

use mneme_model::compile_options::CompileOptions;
use mneme_recording::database::{ArgumentLayout, CodeFile};
use mneme_recording::manifest::{Allocation, RecordedArgument, RecordedVariable};
use serde::{Deserialize, Serialize};

use crate::texts::Keep;

/// The common settings of builds, apart from the input code.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BuildPlan {
    pub recorded: RecordedKernel,
    /// The program that runs pipelines.
    pub external: Option<External>,
    /// IR to return.
    pub keep: Keep,
    /// Failed builds report the texts produced so far.
    pub texts: bool,
    /// Memory limit of a build, bytes.
    pub memory: Option<u64>,
    /// Runs builds one after the other in one process, for profilers and debuggers: without limits, and the first crash
    /// ends all.
    pub in_process: bool,
}

/// A program that runs pass pipelines instead of the builder, and its arguments besides the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// A path or a name; for `None`, `opt-19` with the builder's version of LLVM.
    pub program: Option<PathBuf>,
    /// Shared objects with passes (`-load-pass-plugin`).
    pub plugins: Vec<PathBuf>,
    /// Further options, passed unchanged.
    pub arguments: Vec<String>,
}

/// The recorded facts about a kernel and its launch that builds use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RecordedKernel {
    /// The folder of the recording.
    pub folder: PathBuf,
    /// Mangled name.
    pub name: String,
    /// The parameter buffer, by argument.
    pub arguments: Vec<RecordedArgument>,
    pub variables: Vec<RecordedVariable>,
    pub allocations: Vec<Allocation>,
    /// The arguments of all recorded launches.
    pub launches: Vec<Vec<u64>>,
    /// The layout of the parameters.
    pub signature: Vec<ArgumentLayout>,
    /// The compilation options of the application's own code.
    pub compiled: Option<CompileOptions>,
    /// The files with the application's own code, in the recording's folder.
    pub original: Vec<CodeFile>,
}
