//! Reads the parts of a kernel's interface that only its IR contains.
//!
//! For recordings of the existing Mneme, these are the positions of its parameters and which variables are constant.
//! LLVM reads the IR in a separate process, because it may crash on damaged IR.

use std::time::Duration;

use mneme_builds::builder::AskError;
use mneme_builds::builders::{Builders, written_by};
use mneme_builds::protocol::{CodeParts, KernelInterface, Question};

/// Reading IR takes seconds at most.
const LIMIT: Duration = Duration::from_secs(120);

/// The interface of `kernel`, or the reason why it cannot be read. The caller must have only one thread.
pub fn read(builders: &Builders, modules: &[Vec<u8>], kernel: &str) -> Result<KernelInterface, String> {
    let (parts, blob) = CodeParts::join(modules, None);
    let question = Question::Interface { kernel: kernel.to_owned(), parts };
    let version = builders.fitting(written_by(modules.iter().map(Vec::as_slice)));
    let program = version.and_then(|version| builders.of(version)).map_err(|error| error.to_string())?;
    match program.ask(question, &blob, LIMIT) {
        Ok((found, _)) => found,
        Err(AskError::Program(error)) => Err(format!("cannot read the IR: {error}")),
        Err(AskError::Unanswered { how, complaint }) => {
            let said = complaint.map_or_else(String::new, |complaint| format!(": {}", complaint.trim()));
            Err(format!("the process that reads the IR {how}{said}"))
        }
    }
}
