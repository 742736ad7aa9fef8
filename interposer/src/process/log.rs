//! Messages to the user on standard error, by `MNEME_LOG_LEVEL`.
//!
//! Written with one `write`, unbuffered: the application's own streams are left alone.

use std::fmt;
use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

/// Level of a name (`warning`) or of upstream's number (0 = error … 3 = debug).
pub fn parse(text: &str) -> Option<Level> {
    match text.trim().to_ascii_lowercase().as_str() {
        "0" | "error" | "critical" | "off" => Some(Level::Error),
        "1" | "warning" | "warn" => Some(Level::Warning),
        "2" | "info" => Some(Level::Info),
        "3" | "debug" | "trace" => Some(Level::Debug),
        _ => None,
    }
}

fn threshold() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| std::env::var("MNEME_LOG_LEVEL").ok().and_then(|text| parse(&text)).unwrap_or(Level::Warning))
}

/// Whether messages of a level are wanted.
pub fn enabled(level: Level) -> bool {
    level <= threshold()
}

pub fn write(level: Level, message: fmt::Arguments<'_>) {
    if enabled(level) {
        raw(&format!("mneme: {message}\n"));
    }
}

/// Writes text to standard error whatever the level.
pub fn raw(text: &str) {
    let bytes = text.as_bytes();
    // SAFETY: the buffer is valid for its length; a failed or short write of a message is of no consequence.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}

macro_rules! warning { ($($message:tt)*) => { $crate::process::log::write($crate::process::log::Level::Warning, format_args!($($message)*)) } }
macro_rules! info { ($($message:tt)*) => { $crate::process::log::write($crate::process::log::Level::Info, format_args!($($message)*)) } }
macro_rules! debug { ($($message:tt)*) => { $crate::process::log::write($crate::process::log::Level::Debug, format_args!($($message)*)) } }
pub(crate) use {debug, info, warning};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_named_or_numbered() {
        assert_eq!(parse("warning"), Some(Level::Warning));
        assert_eq!(parse(" DEBUG "), Some(Level::Debug));
        assert_eq!(parse("2"), Some(Level::Info));
        assert_eq!(parse("loud"), None);
    }
}
