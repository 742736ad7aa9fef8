//! The plan of a builder: what all its builds have in common.

use std::path::PathBuf;

use mneme_model::compile_options::CompileOptions;
use mneme_recording::database::{ArgumentLayout, CodeFile};
use mneme_recording::manifest::{Allocation, RecordedArgument, RecordedVariable};
use serde::{Deserialize, Serialize};

use crate::texts::Keep;

/// What builds have in common, but for the code that they start from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BuildPlan {
    pub recorded: RecordedKernel,
    /// The program that runs pipelines.
    pub external: Option<External>,
    /// IR to return.
    pub keep: Keep,
    /// Builds that fail report the texts that they had come to.
    pub texts: bool,
    /// Bounds the memory of a build, bytes.
    pub memory: Option<u64>,
    /// Builds are made one after the other in one process, as profilers and debuggers like it: without limits, and the
    /// first that goes wrong is the last.
    pub in_process: bool,
}

/// A program that runs pass pipelines in the builder's place, and its arguments besides the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// A path, or a name; `opt-19` where `None`, with the version of the LLVM that builds.
    pub program: Option<PathBuf>,
    /// Shared objects with passes (`-load-pass-plugin`).
    pub plugins: Vec<PathBuf>,
    /// Further options, as they are.
    pub arguments: Vec<String>,
}

/// What the recording says of a kernel and of its launch, as far as builds use it.
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
    /// How the application's own code was compiled.
    pub compiled: Option<CompileOptions>,
    /// The files with the application's own code, in the recording's folder.
    pub original: Vec<CodeFile>,
}
