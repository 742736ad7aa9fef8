//! Runs `mneme-replay` once, and reads its result.

use std::path::Path;
use std::process::{Command, Stdio};

use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::exit;

use crate::error::CommandError;

/// Runs the command. If it ends without a result, its message becomes an internal error.
///
/// # Errors It cannot be started, the device does not exist, or no LLVM can read the pipeline.
pub fn run(replay: &mut Command) -> Result<ReplayResult, CommandError> {
    let path = Path::new(replay.get_program()).to_path_buf();
    let output = replay.stdin(Stdio::null()).output().map_err(|source| CommandError::Start { path, source })?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let result = match result(&output.stdout) {
        // A result that is a mistake of the command line: a mistyped pipeline.
        Some(result) if output.status.code() == Some(exit::BAD_USAGE) => {
            return Err(CommandError::Usage(result.error));
        }
        found => found.unwrap_or_else(|| refused(&complaint)),
    };
    if result.status == ReplayStatus::InternalError && output.status.code() == Some(exit::NO_DEVICE) {
        return Err(CommandError::NoDevice(result.error));
    }
    Ok(result)
}

/// The result in the replay's output.
fn result(output: &[u8]) -> Option<ReplayResult> {
    let document: serde_json::Value = serde_json::from_slice(output).ok()?;
    serde_json::from_value(document.get("Result")?.clone()).ok()
}

/// The result of a replay that ended without one.
fn refused(complaint: &str) -> ReplayResult {
    ReplayResult { status: ReplayStatus::InternalError, error: reason(complaint), ..ReplayResult::default() }
}

/// The error among the replay's messages. A refused command line comes with its usage, and with advice at the end.
fn reason(complaint: &str) -> String {
    let lines = || complaint.lines().filter(|line| !line.trim().is_empty());
    let refused = lines().find_map(|line| line.strip_prefix("error: "));
    let said = refused.or(lines().next_back()).unwrap_or("it ended without a message");
    said.trim_start_matches("mneme-replay: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_sentence_that_says_what_is_wrong() {
        let refused = "error: unexpected argument '--bogus' found\n\nUsage: mneme-replay -rdb FILE\n\n\
                       For more information, try '--help'.\n";
        assert_eq!(reason(refused), "unexpected argument '--bogus' found");
        assert_eq!(reason("mneme: a remark\nmneme-replay: a.bc is damaged\n\n"), "a.bc is damaged");
        assert_eq!(reason(" \n"), "it ended without a message");
    }
}
