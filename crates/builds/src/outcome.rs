//! The outcome of a build: code and facts about it, or an error.

use std::fmt::Display;

use mneme_model::result::ReplayStatus;
use serde::{Deserialize, Serialize};

use crate::instrument::Instrumented;
use crate::probe::ProbeResult;
use crate::progress::BuildPosition;
use crate::texts::BuildTexts;

/// Bytes that a thread spills to and reloads from local memory, counting each place in the code once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spills {
    pub stores: u64,
    pub loads: u64,
}

/// A finished build, without its image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Built {
    pub entry: String,
    /// Seconds.
    pub preprocess: f64,
    pub optimise: f64,
    pub codegen: f64,
    /// The launch must request no dynamic shared memory: the code has it built in.
    pub shared_is_static: bool,
    /// The code was compiled from LLVM IR that was lifted from PTX.
    pub lifted: bool,
    pub assembler: String,
    /// Registers spilled to local memory, if the assembler reports them.
    pub spills: Option<Spills>,
    pub texts: BuildTexts,
    /// The instrumentation's description, in an instrumented build.
    pub instrumented: Option<Instrumented>,
    /// The build's messages, a line each.
    pub log: Vec<String>,
    /// Results of the probe.
    pub looked: ProbeResult,
}

/// The reason for a failed build, in one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotBuilt {
    pub status: ReplayStatus,
    pub error: String,
    /// The build's last position, if it ended early.
    pub place: Option<BuildPosition>,
    /// The assembler rejected the PTX, and would reject the same PTX again.
    pub rejected: bool,
    /// LLVM cannot read the pipeline: a mistake on a command line, and a failed build in a search.
    pub is_no_pipeline: bool,
    /// The texts produced until then, if requested.
    pub texts: Box<BuildTexts>,
    /// The compiler's messages until then, a line each, if requested.
    pub log: Box<[String]>,
}

impl NotBuilt {
    pub fn new(status: ReplayStatus, error: impl Display) -> Self {
        Self {
            status,
            error: error.to_string(),
            place: None,
            rejected: false,
            is_no_pipeline: false,
            texts: Box::default(),
            log: Box::default(),
        }
    }
}

/// The outcome of a build and the code object.
pub type BuildOutcome = Result<(Built, Vec<u8>), NotBuilt>;
