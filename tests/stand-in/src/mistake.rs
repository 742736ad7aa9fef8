//! Mistakes in calls, and the end of the process that makes one.

use std::fs::OpenOptions;
use std::io::Write;

use mneme_abi::hip::types::Status;

/// File that mistakes are written to, a line each; the calls then fail. Without it the first ends the process.
const FILE: &str = "MNEME_STAND_IN_MISTAKES";

/// Why a call is wrong, in words.
#[derive(Debug)]
pub struct Mistake(String);

/// A call's status, or why it is wrong.
pub type CallResult = Result<Status, Mistake>;

/// `Err` with these words.
pub fn wrong<T>(text: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake(text.into()))
}

/// Tells a mistake in a call of `function`.
pub fn report(function: &str, mistake: &Mistake) {
    let line = format!("stand-in for libamdhip64: {function}: {}\n", mistake.0);
    let Some(path) = std::env::var_os(FILE) else {
        end(&line);
    };
    let written = OpenOptions::new().create(true).append(true).open(path).and_then(|mut file| {
        // One write for a line: several processes may share the file.
        file.write_all(line.as_bytes())
    });
    if written.is_err() {
        end(&line);
    }
}

/// Ends the process, which exits with SIGABRT.
fn end(line: &str) -> ! {
    let _ = std::io::stderr().write_all(line.as_bytes());
    std::process::abort()
}

/// A place for an answer must not be null.
pub fn place<T>(place: *mut T, of: &str) -> Result<(), Mistake> {
    if place.is_null() { wrong(format!("the place for {of} is null")) } else { Ok(()) }
}
