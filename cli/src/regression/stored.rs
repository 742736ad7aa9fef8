//! The file of results that `mneme test --save` writes.

use std::path::Path;

use mneme_core::files::{self, FileAccess};
use mneme_core::result::{Environment, Status};
use serde::{Deserialize, Serialize};

use crate::error::CommandError;

/// Version of the file's format.
const FORMAT: u32 = 1;

/// What came of replays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultsFile {
    /// [`FORMAT`].
    pub format: u32,
    /// Where the replays ran, as the first verified one says.
    pub environment: Environment,
    pub results: Vec<CaseResult>,
}

/// What came of one launch under one pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    #[serde(flatten)]
    pub case: CaseName,
    pub status: Status,
    /// Empty, or one sentence.
    pub error: String,
    /// Times of the measured runs, ns.
    pub times: Vec<u64>,
    /// Registers of a thread; -1 where the device does not say.
    pub registers: i64,
}

/// What identifies a launch under a pipeline wherever it is replayed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CaseName {
    /// Demangled.
    pub kernel: String,
    /// In decimal.
    pub static_hash: String,
    /// Dynamic hash, in decimal.
    pub instance: String,
    /// "" as recorded, "original" the application's own code.
    pub passes: String,
}

impl ResultsFile {
    pub fn new(results: Vec<CaseResult>, environment: Environment) -> Self {
        Self { format: FORMAT, environment, results }
    }

    pub fn load(path: &Path) -> Result<Self, CommandError> {
        let wrong = |what: &str| CommandError::Usage(format!("{} {what}", path.display()));
        let text = std::fs::read(path).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        let file: Self = serde_json::from_slice(&text)
            .map_err(|error| wrong(&format!("is no file of mneme test --save: {error}")))?;
        if file.format != FORMAT {
            return Err(wrong(&format!("is of format {}, and this program reads {FORMAT}", file.format)));
        }
        Ok(file)
    }

    pub fn save(&self, path: &Path) -> Result<(), CommandError> {
        let mut text = serde_json::to_vec_pretty(self).expect("plain data serialises");
        text.push(b'\n');
        files::replace(path, &text, FileAccess::Usual).map_err(|source| CommandError::Io { path: path.into(), source })
    }
}
