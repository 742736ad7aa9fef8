//! Mistakes in calls, which end the process.

use std::fs::OpenOptions;
use std::io::Write;

use mneme_abi::hip::types::Status;

/// A file for mistakes, one per line. The calls then fail. Without it, the first mistake ends the process.
const FILE: &str = "MNEME_STAND_IN_MISTAKES";

/// Why a call is wrong, as text.
#[derive(Debug)]
pub struct Mistake(String);

/// A call's status, or why it is wrong.
pub type CallResult = Result<Status, Mistake>;

/// `Err` with this text.
pub fn wrong<T>(text: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake(text.into()))
}

/// Reports a mistake in a call of `function`.
pub fn report(function: &str, mistake: &Mistake) {
    let line = format!("stand-in for libamdhip64: {function}: {}\n", mistake.0);
    let Some(path) = std::env::var_os(FILE) else {
        end(&line);
    };
    let written = OpenOptions::new().create(true).append(true).open(path).and_then(|mut file| {
        // Several processes may share the file, so write each line at once.
        file.write_all(line.as_bytes())
    });
    if written.is_err() {
        end(&line);
    }
}

/// Ends the process with SIGABRT.
fn end(line: &str) -> ! {
    let _ = std::io::stderr().write_all(line.as_bytes());
    std::process::abort()
}

/// Checks that the place for a result is not null.
pub fn place<T>(place: *mut T, of: &str) -> Result<(), Mistake> {
    if place.is_null() { wrong(format!("the place for {of} is null")) } else { Ok(()) }
}
