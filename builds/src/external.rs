//! A program that runs pass pipelines in the builder's place.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The program and what it is told besides the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// A path, or a name; `opt-19` where `None`, with the version of the LLVM that builds.
    pub program: Option<PathBuf>,
    /// Shared objects with passes (`-load-pass-plugin`).
    pub plugins: Vec<PathBuf>,
    /// Further options, as they are.
    pub arguments: Vec<String>,
}
