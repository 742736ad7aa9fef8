//! Reads the parts of a kernel's interface that only its IR contains.
//!
//! For recordings of the existing Mneme, these are the positions of its parameters and which variables are constant.
//! LLVM reads the IR in a separate process, because it may crash on damaged IR.

use std::time::Duration;

use mneme_builds::Refusal;
use mneme_builds::builder::{AskError, ProgramError};
use mneme_builds::builders::{Builders, written_by};
use mneme_builds::protocol::{CodeParts, KernelInterface, Question};

/// Reading IR takes seconds at most.
const LIMIT: Duration = Duration::from_secs(120);

/// Why an interface cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// No installed builder reads the IR.
    #[error(transparent)]
    NoBuilder(#[from] ProgramError),
    #[error("cannot read the IR: {0}")]
    Program(ProgramError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the process that reads the IR {how}{}", complaint.as_ref().map_or_else(String::new, |said| format!(": {}", said.trim())))]
    Unanswered { how: String, complaint: Option<String> },
}

/// The interface of `kernel`. The caller must have only one thread.
pub fn read(builders: &Builders, modules: &[Vec<u8>], kernel: &str) -> Result<KernelInterface, InterfaceError> {
    let (parts, blob) = CodeParts::join(modules, None);
    let question = Question::Interface { kernel: kernel.to_owned(), parts };
    let version = builders.fitting(written_by(modules.iter().map(Vec::as_slice)));
    let program = version.and_then(|version| builders.of(version))?;
    match program.ask::<Result<KernelInterface, Refusal>>(question, &blob, LIMIT) {
        Ok((found, _)) => Ok(found?),
        Err(AskError::Program(error)) => Err(InterfaceError::Program(error)),
        Err(AskError::Unanswered { how, complaint }) => Err(InterfaceError::Unanswered { how, complaint }),
    }
}
