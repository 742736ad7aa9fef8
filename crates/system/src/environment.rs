//! The environment variables of a process at the time when it loaded Mneme's library.
//!
//! A program may clear its environment before it first uses the GPU; the user's settings for the recorder still apply.

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

static LOADED_WITH: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// Call this in the constructor of a library that is loaded into other people's processes.
pub fn remember() {
    let _ = LOADED_WITH.get_or_init(|| std::env::vars_os().collect());
}

/// A variable of the remembered environment, or of the current one if none is remembered.
pub fn variable_os(name: &str) -> Option<OsString> {
    match LOADED_WITH.get() {
        Some(variables) => find(variables, name),
        None => std::env::var_os(name),
    }
}

/// The same; `None` if the value is not text.
pub fn variable(name: &str) -> Option<String> {
    variable_os(name).and_then(|value| value.into_string().ok())
}

fn find(variables: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    variables.iter().find(|(key, _)| key == OsStr::new(name)).map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_counts() {
        let path = std::env::var_os("PATH");
        assert_eq!(variable_os("PATH"), path);
        remember();
        assert_eq!(variable_os("PATH"), path);
        let variables = [("A", "1"), ("B", "2")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(find(&variables, "B"), Some("2".into()));
        assert_eq!(find(&variables, "C"), None);
    }
}
