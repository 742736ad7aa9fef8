//! The contents of a space file, independent of a recorded launch.

use std::path::Path;

use mneme_model::configuration::canonical;
use mneme_model::text::did_you_mean;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{FileError, SpaceFault};

/// A mapping in the order of the file.
#[derive(Debug, Default)]
pub struct Ordered(pub Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Ordered;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a mapping of names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut entries = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if entries.iter().any(|(known, _)| *known == name) {
                        return Err(serde::de::Error::custom(format!("'{name}' occurs twice; drop one")));
                    }
                    entries.push((name, value));
                }
                Ok(Ordered(entries))
            }

            fn visit_unit<E>(self) -> Result<Ordered, E> {
                Ok(Ordered::default())
            }
        }
        deserializer.deserialize_any(Entries)
    }
}

/// The keys of a file.
const KEYS: [&str; 5] = ["description", "parameters", "derived", "constraints", "baseline"];

/// A file's content.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// For people.
    #[serde(default)]
    pub description: String,
    pub parameters: Ordered,
    /// Expressions by name.
    #[serde(default)]
    pub derived: Ordered,
    /// Expressions that must be true.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Fields in which the baseline differs from the recorded configuration.
    #[serde(default)]
    pub baseline: Map<String, Value>,
}

impl Document {
    /// Reads a file: TOML if its name ends in `.toml`, otherwise YAML, which includes JSON.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(|error| FileError::unread(path, &error))?;
        Self::parse(&text, path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")))
            .map_err(|what| FileError { line: line_unsaid(&text, &what.to_string()), ..FileError::new(path, "", what) })
    }

    pub fn parse(text: &str, toml: bool) -> Result<Self, SpaceFault> {
        let syntax = |error: String| {
            let meant = unknown_field(&error).map_or_else(String::new, |field| did_you_mean(field, KEYS));
            SpaceFault::Syntax(error + meant.as_str())
        };
        let mut document: Self = if toml {
            // The whole message draws the line, on several lines.
            toml::from_str(text).map_err(|error: toml::de::Error| {
                let line = error.span().map(|place| 1 + text[..place.start].matches('\n').count());
                let place = line.map_or_else(String::new, |line| format!(" at line {line}"));
                syntax(error.message().trim().replace('\n', " ") + place.as_str())
            })?
        } else {
            yaml_serde::from_str(text).map_err(|error| syntax(error.to_string()))?
        };
        for (name, _) in document.parameters.0.iter_mut().chain(&mut document.derived.0) {
            *name = canonical(name).into_owned();
        }
        if document.parameters.0.is_empty() {
            return Err(SpaceFault::NoParameters);
        }
        Ok(document)
    }
}

/// The line of an unknown field. The parser does not report it if it is the first line.
fn line_unsaid(text: &str, error: &str) -> Option<usize> {
    line_of(text, unknown_field(error)?).filter(|_| !error.contains(" line "))
}

fn unknown_field(error: &str) -> Option<&str> {
    error.split("unknown field `").nth(1)?.split('`').next()
}

/// The line of a key such as `parameters.block.x.low`, counted from 1. If a mapping is on one line, the line of the
/// innermost part that begins a line.
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut rest = key;
    let mut found = None;
    for (number, line) in text.lines().enumerate() {
        let name = line.split([':', '=', ']']).next().unwrap_or_default();
        let name = name.trim_matches(|letter: char| letter.is_whitespace() || "[\"'{,".contains(letter));
        let Some(after) = rest.strip_prefix(name).filter(|_| !name.is_empty()) else { continue };
        if after.is_empty() {
            return Some(number + 1);
        }
        if let Some(after) = after.strip_prefix('.') {
            (rest, found) = (after, Some(number + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Document, line_of, line_unsaid};

    #[test]
    fn unknown_keys_are_named_with_their_lines() {
        for text in ["parameter:\n  width: 1\n", "parameters:\n  width: [1]\nconfiguration: 1\n"] {
            let error = Document::parse(text, false).map(drop).unwrap_err().to_string();
            let line = line_unsaid(text, &error);
            assert!(error.contains("unknown field") && (line.is_some() || error.contains(" line 3")), "{error}");
        }
        let toml = "parameters.width = [1]\nconfiguration = 1\n";
        let error = Document::parse(toml, true).map(drop).unwrap_err().to_string();
        assert!(error.contains(" at line 2") && !error.contains(['\n', '|']), "{error}");
    }

    #[test]
    fn keys_are_found_on_their_lines() {
        let yaml = "# a space\nparameters:\n  block.x: {type: int, low: 1}\n  tile:\n    type: int\n    lwo: 1\n";
        for (key, line) in [
            ("parameters", Some(2)),
            ("parameters.block.x.low", Some(3)),
            ("parameters.tile.lwo", Some(6)),
            ("constraints[0]", None),
            ("", None),
        ] {
            assert_eq!(line_of(yaml, key), line, "{key}");
        }
        assert_eq!(line_of("[parameters.tile]\ntype = \"int\"\nlwo = 1\n", "parameters.tile.lwo"), Some(3));
    }
}
