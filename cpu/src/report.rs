//! Sentences for the user, on standard error.

use std::fmt::Arguments;
use std::io::Write;

/// Writes one sentence. A closed standard error is no reason to fail: the status code says the same.
pub fn say(sentence: Arguments<'_>) {
    let line = format!("mneme cpu device: {sentence}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// `say!("…")` reports one sentence to the user.
#[macro_export]
macro_rules! say {
    ($($part:tt)*) => { $crate::report::say(format_args!($($part)*)) };
}

/// A kernel's name as its source has it, the mangled one where it is not C++'s.
pub fn readable(name: &str) -> String {
    let mangled = mneme_core::symbol::without_unit(name);
    cpp_demangle::Symbol::new(mangled).ok().and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}
