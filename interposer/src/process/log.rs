//! Messages to the user on standard error, by `MNEME_LOG_LEVEL`.
//!
//! Written with one `write`, unbuffered: the application's own streams are left alone.

use std::fmt;
use std::sync::OnceLock;

use mneme_core::environment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warning,
    Info,
    Debug,
}

/// Level of a name (`warning`) or of upstream's number (0 = error … 3 = debug).
pub fn parse(text: &str) -> Option<LogLevel> {
    match text.trim().to_ascii_lowercase().as_str() {
        "0" | "error" | "critical" | "off" => Some(LogLevel::Error),
        "1" | "warning" | "warn" => Some(LogLevel::Warning),
        "2" | "info" => Some(LogLevel::Info),
        "3" | "debug" | "trace" => Some(LogLevel::Debug),
        _ => None,
    }
}

fn threshold() -> LogLevel {
    static LEVEL: OnceLock<LogLevel> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        environment::variable("MNEME_LOG_LEVEL").and_then(|text| parse(&text)).unwrap_or(LogLevel::Warning)
    })
}

/// Whether messages of a level are wanted.
pub fn enabled(level: LogLevel) -> bool {
    level <= threshold()
}

pub fn write(level: LogLevel, message: fmt::Arguments<'_>) {
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

macro_rules! warning { ($($message:tt)*) => { $crate::process::log::write($crate::process::log::LogLevel::Warning, format_args!($($message)*)) } }
macro_rules! info { ($($message:tt)*) => { $crate::process::log::write($crate::process::log::LogLevel::Info, format_args!($($message)*)) } }
macro_rules! debug { ($($message:tt)*) => { $crate::process::log::write($crate::process::log::LogLevel::Debug, format_args!($($message)*)) } }
pub(crate) use {debug, info, warning};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_named_or_numbered() {
        assert_eq!(parse("warning"), Some(LogLevel::Warning));
        assert_eq!(parse(" DEBUG "), Some(LogLevel::Debug));
        assert_eq!(parse("2"), Some(LogLevel::Info));
        assert_eq!(parse("loud"), None);
    }
}
