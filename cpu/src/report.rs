//! Messages for the user, on standard error.

use std::fmt::Arguments;
use std::io::Write;

/// Writes one sentence. Errors are ignored, because the call's status reports the same.
pub fn write_sentence(sentence: Arguments<'_>) {
    let line = format!("mneme cpu device: {sentence}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Reports one sentence to the user: `say!("…")`.
macro_rules! say {
    ($($part:tt)*) => { $crate::report::write_sentence(format_args!($($part)*)) };
}
pub(crate) use say;
