//! Rules for a recorded kernel's buffers, in `<static-hash>.tolerances.json`.
//!
//! They contain knowledge about the buffers from after the recording. Recordings are never modified, so this is a
//! separate file.

use std::path::{Path, PathBuf};

use mneme_model::tolerance::Tolerance;
use mneme_system::files::regular;
use serde::{Deserialize, Serialize};

use super::database::write_atomically;
use crate::error::RecordingError;

pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    pub version: u32,
    /// The last rule that names a region applies.
    pub rules: Vec<ToleranceRule>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { version: VERSION, rules: Vec::new() }
    }
}

/// A tolerance, and its regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToleranceRule {
    #[serde(flatten)]
    pub target: RuleTarget,
    #[serde(flatten)]
    pub tolerance: Tolerance,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleTarget {
    /// Allocations with this tag.
    Tag(String),
    /// The device variable with this (mangled) name.
    Variable(String),
    /// The memory that this argument of the kernel, counted from 0, points into.
    Argument(u32),
    /// The memory that contains this address of the recording process.
    #[serde(with = "address")]
    Address(u64),
}

/// For people: "argument 2", "address 0x100000000000".
impl std::fmt::Display for RuleTarget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tag(tag) => write!(formatter, "tag {tag}"),
            Self::Variable(name) => write!(formatter, "variable {name}"),
            Self::Argument(index) => write!(formatter, "argument {index}"),
            Self::Address(address) => write!(formatter, "address {address:#x}"),
        }
    }
}

/// The properties of a recorded region that rules use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleRegion<'a> {
    /// Name of the device variable; `None` for an allocation.
    pub variable: Option<&'a str>,
    /// Tag of the allocation, or "".
    pub tag: &'a str,
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl RuleRegion<'_> {
    fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|offset| offset < self.size)
    }
}

impl RuleTarget {
    /// Whether the target includes a region. `arguments` has the value of each kernel argument, `None` if it cannot be
    /// a pointer (its size is not 8 bytes).
    pub fn names(&self, place: &RuleRegion<'_>, arguments: &[Option<u64>]) -> bool {
        match self {
            Self::Tag(tag) => place.variable.is_none() && place.tag == tag,
            Self::Variable(name) => place.variable == Some(name),
            Self::Argument(index) => {
                arguments.get(*index as usize).is_some_and(|value| value.is_some_and(|value| place.holds(value)))
            }
            Self::Address(address) => place.holds(*address),
        }
    }
}

impl Rules {
    /// The file beside a kernel's `<static-hash>.json`.
    pub fn path(database: &Path) -> PathBuf {
        database.with_extension("tolerances.json")
    }

    /// The rules of a kernel; empty without a file.
    pub fn load(database: &Path) -> Result<Self, RecordingError> {
        let path = Self::path(database);
        match regular::read(&path) {
            Ok(text) => Self::parse(&path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(RecordingError::io(path)(error)),
        }
    }

    /// Parses a file's text; errors name `path`.
    ///
    /// # Errors
    /// The file is damaged, belongs to a later release, or contains an invalid tolerance.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, RecordingError> {
        let invalid = |what: String| RecordingError::Rules { path: path.to_owned(), what };
        let rules: Self = serde_json::from_slice(text).map_err(|error| invalid(error.to_string()))?;
        if rules.version > VERSION {
            return Err(RecordingError::Version { path: path.to_owned(), found: rules.version, supported: VERSION });
        }
        match rules.rules.iter().find_map(|rule| rule.tolerance.check().err()) {
            Some(error) => Err(invalid(error.to_string())),
            None => Ok(rules),
        }
    }

    /// Writes the complete file of a kernel, or removes it if there are no rules left.
    pub fn save(&self, database: &Path) -> Result<(), RecordingError> {
        let path = Self::path(database);
        if self.rules.is_empty() {
            return match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(RecordingError::io(path)(error)),
                _ => Ok(()),
            };
        }
        write_atomically(&path, &serde_json::to_vec_pretty(self).expect("plain data serialises"))
    }

    /// Adds a rule, replacing one with the same target.
    pub fn set(&mut self, rule: ToleranceRule) {
        self.remove(&rule.target);
        self.rules.push(rule);
    }

    /// Removes the rule with this target; returns whether there was one.
    pub fn remove(&mut self, target: &RuleTarget) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.target != *target);
        self.rules.len() < before
    }

    /// The tolerance from the rules for a region; it overrides the one recorded with an allocation.
    pub fn of(&self, place: &RuleRegion<'_>, arguments: &[Option<u64>]) -> Option<Tolerance> {
        self.rules.iter().rev().find(|rule| rule.target.names(place, arguments)).map(|rule| rule.tolerance)
    }
}

mod address {
    //! An address as "0x…" in JSON.
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{address:#x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits =
            text.strip_prefix("0x").ok_or_else(|| D::Error::custom(format!("'{text}' does not begin with 0x")))?;
        u64::from_str_radix(digits, 16).map_err(|_| D::Error::custom(format!("'{text}' is no address")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::tolerance::{DataType, Norm, Threshold};

    fn tolerance(threshold: f64) -> Tolerance {
        Tolerance { dtype: DataType::F64, threshold, kind: Threshold::Relative, ..Tolerance::default() }
    }

    const ALLOCATION: RuleRegion<'static> = RuleRegion { variable: None, tag: "pressure", address: 0x1000, size: 64 };

    #[test]
    fn the_last_rule_that_names_a_region_decides() {
        let mut rules = Rules::default();
        let arguments = [None, Some(0x103f), Some(0x1040)];
        assert_eq!(rules.of(&ALLOCATION, &arguments), None);
        for (step, target) in [RuleTarget::Tag("pressure".into()), RuleTarget::Argument(1), RuleTarget::Address(0x1000)]
            .into_iter()
            .enumerate()
        {
            rules.set(ToleranceRule { target, tolerance: tolerance(step as f64) });
            assert_eq!(rules.of(&ALLOCATION, &arguments), Some(tolerance(step as f64)));
        }
        for target in [
            RuleTarget::Tag("velocity".into()),
            RuleTarget::Variable("pressure".into()),
            RuleTarget::Argument(0),
            RuleTarget::Argument(2),
            RuleTarget::Argument(9),
            RuleTarget::Address(0x1040),
            RuleTarget::Address(0xfff),
        ] {
            assert!(!target.names(&ALLOCATION, &arguments), "{target}");
        }
        let variable = RuleRegion { variable: Some("table"), ..ALLOCATION };
        assert!(
            RuleTarget::Variable("table".into()).names(&variable, &[])
                && !RuleTarget::Tag("pressure".into()).names(&variable, &[])
        );
    }

    #[test]
    fn rules_are_replaced_and_removed_by_target() {
        let mut rules = Rules::default();
        rules.set(ToleranceRule { target: RuleTarget::Argument(1), tolerance: tolerance(1.0) });
        rules.set(ToleranceRule { target: RuleTarget::Argument(1), tolerance: tolerance(2.0) });
        assert_eq!(rules.rules.len(), 1);
        assert!(rules.remove(&RuleTarget::Argument(1)) && !rules.remove(&RuleTarget::Argument(1)));
    }

    #[test]
    fn the_file_is_as_documented() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("42.json");
        assert_eq!(Rules::load(&database).unwrap(), Rules::default());
        let mut rules = Rules::default();
        rules.set(ToleranceRule {
            target: RuleTarget::Address(0x1000),
            tolerance: Tolerance { norm: Norm::L2, ..tolerance(1e-9) },
        });
        rules.set(ToleranceRule { target: RuleTarget::Tag("scratch".into()), tolerance: Tolerance::ignored() });
        rules.save(&database).unwrap();
        assert_eq!(Rules::load(&database).unwrap(), rules);
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("42.tolerances.json")).unwrap()).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(
            json["rules"][0],
            serde_json::json!({"address": "0x1000", "dtype": "f64", "threshold": 1e-9, "kind": "relative", "norm": "l2"})
        );
        assert_eq!((&json["rules"][1]["tag"], &json["rules"][1]["ignore"]), (&"scratch".into(), &true.into()));
        Rules::default().save(&database).unwrap();
        assert!(!Rules::path(&database).exists());
    }

    #[test]
    fn few_words_are_enough() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("42.json");
        let write = |text: &str| std::fs::write(Rules::path(&database), text).unwrap();
        write(r#"{"version": 1, "rules": [{"argument": 2, "ignore": true}]}"#);
        assert_eq!(
            Rules::load(&database).unwrap().rules,
            [ToleranceRule { target: RuleTarget::Argument(2), tolerance: Tolerance::ignored() }]
        );
        for wrong in [
            "{",
            r#"{"version": 1, "rules": [{"ignore": true}]}"#,
            r#"{"version": 1, "rules": [{"address": "12", "ignore": true}]}"#,
            r#"{"version": 1, "rules": [{"argument": 0, "threshold": -1}]}"#,
            r#"{"version": 1, "rules": [{"argument": 0, "dtype": "f80"}]}"#,
        ] {
            write(wrong);
            assert!(matches!(Rules::load(&database), Err(RecordingError::Rules { .. })), "{wrong}");
        }
        write(r#"{"version": 2, "rules": []}"#);
        assert!(matches!(Rules::load(&database), Err(RecordingError::Version { .. })));
    }
}
