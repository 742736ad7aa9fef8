//! The outcome of a build: code and facts about it, or why there is none.

use std::fmt::Display;

use mneme_model::result::ReplayStatus;
use serde::{Deserialize, Serialize};

use crate::instrument::Instrumented;
use crate::probe::ProbeResult;
use crate::progress::BuildPosition;
use crate::texts::BuildTexts;

/// Registers of a thread that are spilled to local memory and reloaded from it, bytes, each place in the code counted
/// once.
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
    /// The launch must ask for no dynamic shared memory: the code has it.
    pub shared_is_static: bool,
    /// The code went by way of LLVM IR that was lifted from PTX.
    pub lifted: bool,
    pub assembler: String,
    /// Registers spilled to local memory, where the assembler has told.
    pub spills: Option<Spills>,
    pub texts: BuildTexts,
    /// What the instrumentation says of itself, where there is one.
    pub instrumented: Option<Instrumented>,
    /// What the build has to say, a line each.
    pub log: Vec<String>,
    /// What was asked of the build beyond its code.
    pub looked: ProbeResult,
}

/// Why there is no code object, in one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotBuilt {
    pub status: ReplayStatus,
    pub error: String,
    /// What the build was at, where it has ended before its time.
    pub place: Option<BuildPosition>,
    /// The assembler has read the PTX and refused it, as it would for whoever comes with the same.
    pub rejected: bool,
    /// What it had come to until then, where that was asked for.
    pub texts: Box<BuildTexts>,
    /// What the compiler had said until then, a line each, likewise.
    pub log: Box<[String]>,
}

impl NotBuilt {
    pub fn new(status: ReplayStatus, error: impl Display) -> Self {
        Self {
            status,
            error: error.to_string(),
            place: None,
            rejected: false,
            texts: Box::default(),
            log: Box::default(),
        }
    }
}

/// The outcome of a build and the code object.
pub type BuildOutcome = Result<(Built, Vec<u8>), NotBuilt>;
