//! Command lines as Mneme's users write them: long options with one dash (`-rdb`, `-rid`, `-vass`).
//!
//! Getopt-style parsers treat `-rdb` as three short options, so these spellings are converted to `--rdb` before
//! parsing; the program declares `rdb` as an alias of the long option.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

/// The reason why a text is not a valid value of an option or variable, for the user, who also sees the name and the
/// text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(Cow<'static, str>);

impl From<&'static str> for ValueError {
    fn from(reason: &'static str) -> Self {
        Self(Cow::Borrowed(reason))
    }
}

impl From<String> for ValueError {
    fn from(reason: String) -> Self {
        Self(Cow::Owned(reason))
    }
}

/// Parses a non-negative number, such as a tolerance.
///
/// # Errors
/// The text is not such a number.
pub fn non_negative(text: &str) -> Result<f64, ValueError> {
    let number = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    number.ok_or_else(|| "it must be a number of at least 0".into())
}

/// Adds a second dash to the named options, up to a bare `--`. Values joined by `=` stay joined.
pub fn normalise(arguments: impl IntoIterator<Item = OsString>, names: &[impl AsRef<str>]) -> Vec<OsString> {
    let mut ours = true;
    arguments
        .into_iter()
        .map(|argument| {
            ours &= argument != "--";
            if ours && is_named(&argument, names) {
                let mut long = OsString::from("-");
                long.push(argument);
                return long;
            }
            argument
        })
        .collect()
}

fn is_named(argument: &OsStr, names: &[impl AsRef<str>]) -> bool {
    let Some(name) = argument.to_str().and_then(|argument| argument.strip_prefix('-')) else { return false };
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    names.iter().any(|it| it.as_ref() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(arguments: &[&str]) -> Vec<String> {
        let names = ["rdb", "rid", "vass"];
        normalise(arguments.iter().map(OsString::from), &names)
            .into_iter()
            .map(|argument| argument.into_string().unwrap())
            .collect()
    }

    #[test]
    fn one_dash_becomes_two() {
        assert_eq!(after(&["-rdb", "x", "-rid=7"]), ["--rdb", "x", "--rid=7"]);
    }

    #[test]
    fn two_dashes_short_options_and_unknown_ones_stay() {
        for argument in ["--rdb", "-v", "-r", "-rdbx", "rdb", "-", ""] {
            assert_eq!(after(&[argument]), [argument]);
        }
    }

    #[test]
    fn what_follows_two_dashes_is_somebody_elses() {
        assert_eq!(after(&["-vass", "4", "--", "app", "-rdb"]), ["--vass", "4", "--", "app", "-rdb"]);
    }
}
