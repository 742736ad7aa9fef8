//! Rules for a recorded kernel's buffers, in `<static-hash>.tolerances.json`.
//!
//! They contain knowledge about the buffers from after the recording. Recordings are never modified, so this is a
//! separate file.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use mneme_model::tolerance::Tolerance;
use mneme_system::files::regular;
use serde::{Deserialize, Serialize};

use super::database::write_atomically;
use super::manifest::{AnnotatedPart, RecordedRegion};
use crate::error::RecordingError;

pub const VERSION: u32 = 2;
/// The version without ranges. A reader of this version would apply a rule for a range to the whole target.
const WITHOUT_RANGES: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    pub version: u32,
    /// The last rule that names a region applies.
    pub rules: Vec<ToleranceRule>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { version: WITHOUT_RANGES, rules: Vec::new() }
    }
}

/// A tolerance, and the memory that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToleranceRule {
    #[serde(flatten)]
    pub memory: RuleMemory,
    #[serde(flatten)]
    pub tolerance: Tolerance,
}

/// A target, or a range of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMemory {
    #[serde(flatten)]
    pub target: RuleTarget,
    /// The start of the range, counted from where the argument or address points, or from the start of the variable or
    /// tagged memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// The size of the range; `None` for the whole target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

fn is_zero(offset: &u64) -> bool {
    *offset == 0
}

impl From<RuleTarget> for RuleMemory {
    fn from(target: RuleTarget) -> Self {
        Self { target, offset: 0, bytes: None }
    }
}

/// For people: "argument 2", "800 bytes at offset 4096 of argument 2".
impl std::fmt::Display for RuleMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(bytes) = self.bytes {
            write!(formatter, "{bytes} bytes at offset {} of ", self.offset)?;
        }
        self.target.fmt(formatter)
    }
}

impl RuleMemory {
    /// Checks that the range is complete.
    ///
    /// # Errors
    /// There is an offset without a size, or the size is 0.
    pub fn check(&self) -> Result<(), &'static str> {
        match (self.offset, self.bytes) {
            (_, Some(0)) => Err("a range of 0 bytes names no memory"),
            (1.., None) => Err("an offset needs the number of bytes"),
            _ => Ok(()),
        }
    }

    /// Whether it names a region, a part of it, or a range in it.
    pub fn names(&self, region: &RuleRegion<'_>, arguments: &[Option<u64>]) -> bool {
        match self.bytes {
            Some(_) => !self.ranges(region, arguments).is_empty(),
            None => {
                let tags = region.parts.iter().map(|part| part.annotation.tag.as_str()).chain([region.tag]);
                tags.map(|tag| RuleRegion { tag, ..*region }).any(|place| self.target.names(&place, arguments))
            }
        }
    }

    /// The offsets in a region of each range that lies in it; none without a range.
    fn ranges(&self, region: &RuleRegion<'_>, arguments: &[Option<u64>]) -> Vec<Range<u64>> {
        let Some(bytes) = self.bytes else { return Vec::new() };
        let starts: Vec<u64> = match &self.target {
            RuleTarget::Tag(tag) => {
                let parts = region.parts.iter().filter(|part| part.annotation.tag == *tag).map(|part| part.offset);
                parts.chain(self.target.names(region, arguments).then_some(0)).collect()
            }
            target if !target.names(region, arguments) => Vec::new(),
            target => vec![target.offset(region, arguments).unwrap_or(0)],
        };
        let range = |start: u64| {
            let start = start.checked_add(self.offset)?;
            start.checked_add(bytes).filter(|end| *end <= region.size).map(|end| start..end)
        };
        starts.into_iter().filter_map(range).collect()
    }
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleRegion<'a> {
    /// Name of the device variable; `None` for an allocation.
    pub variable: Option<&'a str>,
    /// Tag of the allocation, or "".
    pub tag: &'a str,
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// The comparison that the application wants.
    pub tolerance: Option<Tolerance>,
    /// Its ranges with separate annotations.
    pub parts: &'a [AnnotatedPart],
}

/// A stretch of a region for which one rule or annotation decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuledPart<'a> {
    /// Offset in the region, bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The annotation of a range that contains it.
    pub annotated: Option<&'a AnnotatedPart>,
    /// The tolerance from the rules or the application.
    pub tolerance: Option<Tolerance>,
}

impl<'a> From<&RecordedRegion<'a>> for RuleRegion<'a> {
    fn from(region: &RecordedRegion<'a>) -> Self {
        let RecordedRegion { tag, address, size, tolerance, parts, .. } = *region;
        Self { variable: region.variable.map(|variable| variable.name.as_str()), tag, address, size, tolerance, parts }
    }
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

    /// The offset in a region that it names to which it points, if it is an argument or an address.
    fn offset(&self, region: &RuleRegion<'_>, arguments: &[Option<u64>]) -> Option<u64> {
        let pointer = match self {
            Self::Tag(_) | Self::Variable(_) => None,
            Self::Argument(index) => arguments.get(*index as usize).copied().flatten(),
            Self::Address(address) => Some(*address),
        };
        pointer.and_then(|pointer| pointer.checked_sub(region.address))
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
        for rule in &rules.rules {
            rule.tolerance.check().map_err(|error| invalid(error.to_string()))?;
            rule.memory.check().map_err(|error| invalid(error.into()))?;
        }
        Ok(rules)
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

    /// Adds a rule, replacing one for the same memory.
    pub fn set(&mut self, rule: ToleranceRule) {
        self.remove(&rule.memory);
        self.rules.push(rule);
        self.version = self.needed_version();
    }

    /// Removes the rule for this memory; returns whether there was one.
    pub fn remove(&mut self, memory: &RuleMemory) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.memory != *memory);
        self.version = self.needed_version();
        self.rules.len() < before
    }

    fn needed_version(&self) -> u32 {
        if self.rules.iter().any(|rule| rule.memory.bytes.is_some()) { VERSION } else { WITHOUT_RANGES }
    }

    /// Divides a region by its annotated parts, by the `stretches` (offsets, ascending from 0) between them, and by the
    /// ranges of rules. A rule overrides an annotation.
    ///
    /// An argument or address names the annotated part or the stretch that it points into. A tag names the parts that
    /// have it, or the allocation without the parts that have other tags.
    pub fn divide<'a>(
        &self,
        region: &RuleRegion<'a>,
        stretches: &[u64],
        arguments: &[Option<u64>],
    ) -> Vec<RuledPart<'a>> {
        let ranges: Vec<Vec<Range<u64>>> =
            self.rules.iter().map(|rule| rule.memory.ranges(region, arguments)).collect();
        let mut cuts: BTreeSet<u64> = stretches.iter().copied().chain([0]).collect();
        cuts.extend(
            region
                .parts
                .iter()
                .map(AnnotatedPart::range)
                .chain(ranges.iter().flatten().cloned())
                .flat_map(|range| [range.start, range.end]),
        );
        cuts.remove(&region.size);
        let ends = cuts.iter().skip(1).copied().chain([region.size]);
        let part_at = |offset: u64| {
            let before = region.parts.partition_point(|part| part.offset <= offset);
            region.parts[..before].last().filter(|part| offset < part.range().end)
        };
        let stretch_at = |offset: u64| {
            let next = stretches.partition_point(|start| *start <= offset);
            let start = stretches[..next].last().copied().unwrap_or(0);
            start..stretches.get(next).copied().unwrap_or(region.size)
        };
        let mut found: Vec<RuledPart<'a>> = Vec::new();
        // The annotated part or stretch of the last one, and the number of the rule that decides.
        let mut previous = None;
        for (offset, end) in cuts.iter().copied().zip(ends) {
            let annotated = part_at(offset);
            let place = annotated.map_or_else(|| stretch_at(offset), AnnotatedPart::range);
            let tag = annotated.map(|part| part.annotation.tag.as_str()).filter(|tag| !tag.is_empty());
            let named = RuleRegion { tag: tag.unwrap_or(region.tag), ..*region };
            let covers = |(rule, ranges): (&ToleranceRule, &Vec<Range<u64>>)| {
                let target = &rule.memory.target;
                let is_same = |at: u64| part_at(at) == annotated && place.contains(&at);
                match rule.memory.bytes {
                    Some(_) => ranges.iter().any(|range| range.contains(&offset)),
                    None => target.names(&named, arguments) && target.offset(region, arguments).is_none_or(is_same),
                }
            };
            let rule = self.rules.iter().zip(&ranges).rposition(covers);
            let annotation = annotated.map(|part| part.annotation.tolerance).or(region.tolerance);
            let tolerance = rule.map(|rule| self.rules[rule].tolerance).or(annotation);
            let key = Some((annotated.is_some(), place.start, rule));
            match found.last_mut().filter(|_| previous == key) {
                // The ranges of overridden rules divide nothing.
                Some(part) => part.size = end - part.offset,
                None => found.push(RuledPart { offset, size: end - offset, annotated, tolerance }),
            }
            previous = key;
        }
        found
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
    use mneme_model::tolerance::{Annotation, DataType, Norm, Threshold};

    fn tolerance(threshold: f64) -> Tolerance {
        Tolerance { dtype: DataType::F64, threshold, kind: Threshold::Relative, ..Tolerance::default() }
    }

    const ALLOCATION: RuleRegion<'static> =
        RuleRegion { variable: None, tag: "pressure", address: 0x1000, size: 64, tolerance: None, parts: &[] };

    fn rule(target: RuleTarget, tolerance: Tolerance) -> ToleranceRule {
        ToleranceRule { memory: target.into(), tolerance }
    }

    fn ranged(target: RuleTarget, offset: u64, bytes: u64, tolerance: Tolerance) -> ToleranceRule {
        ToleranceRule { memory: RuleMemory { target, offset, bytes: Some(bytes) }, tolerance }
    }

    #[test]
    fn the_last_rule_that_names_a_region_decides() {
        let mut rules = Rules::default();
        let arguments = [None, Some(0x103f), Some(0x1040)];
        let of = |rules: &Rules| rules.divide(&ALLOCATION, &[0], &arguments)[0].tolerance;
        assert_eq!(of(&rules), None);
        for (step, target) in [RuleTarget::Tag("pressure".into()), RuleTarget::Argument(1), RuleTarget::Address(0x1000)]
            .into_iter()
            .enumerate()
        {
            rules.set(rule(target, tolerance(step as f64)));
            assert_eq!(of(&rules), Some(tolerance(step as f64)));
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
        let whole = rule(RuleTarget::Argument(1), tolerance(2.0));
        rules.set(rule(RuleTarget::Argument(1), tolerance(1.0)));
        rules.set(whole.clone());
        assert_eq!(rules.rules.len(), 1);
        rules.set(ranged(RuleTarget::Argument(1), 0, 8, tolerance(1.0)));
        assert_eq!(rules.rules.len(), 2, "a range is other memory");
        assert!(rules.remove(&whole.memory) && !rules.remove(&whole.memory));
    }

    fn part(offset: u64, size: u64, tag: &str, tolerance: Tolerance) -> AnnotatedPart {
        AnnotatedPart { offset, size, annotation: Annotation { tag: tag.into(), tolerance } }
    }

    /// Offset, size and threshold of each stretch; -1 for an ignored one, and -2 for one without a tolerance.
    fn divided(rules: &Rules, region: &RuleRegion<'_>, stretches: &[u64]) -> Vec<(u64, u64, f64)> {
        let threshold = |it: Tolerance| if it.ignore { -1.0 } else { it.threshold };
        rules
            .divide(region, stretches, &[Some(0x1000), Some(0x1010), Some(0x1038)])
            .into_iter()
            .map(|part| (part.offset, part.size, part.tolerance.map_or(-2.0, threshold)))
            .collect()
    }

    #[test]
    fn a_region_is_divided_by_annotations_and_rules() {
        let parts = [part(8, 16, "ids", tolerance(1.0)), part(24, 8, "", Tolerance::ignored())];
        let region = RuleRegion { parts: &parts, tolerance: Some(tolerance(2.0)), ..ALLOCATION };
        let mut rules = Rules::default();
        let annotated = [(0, 8, 2.0), (8, 16, 1.0), (24, 8, -1.0), (32, 32, 2.0)];
        assert_eq!(divided(&rules, &region, &[0]), annotated);
        let stretches = [&annotated[..3], &[(32, 8, 2.0), (40, 24, 2.0)]].concat();
        assert_eq!(divided(&rules, &region, &[0, 16, 40]), stretches, "a stretch does not divide a part");
        rules.set(rule(RuleTarget::Tag("pressure".into()), tolerance(3.0)));
        let tagged = [(0, 8, 3.0), (8, 16, 1.0), (24, 8, 3.0), (32, 32, 3.0)];
        assert_eq!(divided(&rules, &region, &[0]), tagged, "a part with another tag has another name");
        rules.rules =
            vec![rule(RuleTarget::Argument(0), tolerance(4.0)), rule(RuleTarget::Argument(1), tolerance(5.0))];
        let pointed = [(0, 8, 4.0), (8, 16, 5.0), (24, 8, -1.0), (32, 32, 4.0)];
        assert_eq!(divided(&rules, &region, &[0]), pointed);
    }

    #[test]
    fn a_rule_names_a_range() {
        let parts = [part(8, 16, "ids", tolerance(1.0))];
        let region = RuleRegion { parts: &parts, ..ALLOCATION };
        let of = |rule: ToleranceRule| divided(&Rules { rules: vec![rule], ..Rules::default() }, &region, &[0]);
        let ignored = Tolerance::ignored();
        let expected = [(0, 8, -2.0), (8, 4, 1.0), (12, 8, -1.0), (20, 4, 1.0), (24, 40, -2.0)];
        assert_eq!(of(ranged(RuleTarget::Tag("ids".into()), 4, 8, ignored)), expected);
        assert_eq!(of(ranged(RuleTarget::Tag("pressure".into()), 12, 8, ignored)), expected);
        assert_eq!(of(ranged(RuleTarget::Address(0x1004), 8, 8, ignored)), expected);
        let across = [(0, 8, -2.0), (8, 8, 1.0), (16, 8, -1.0), (24, 40, -1.0)];
        assert_eq!(of(ranged(RuleTarget::Argument(1), 0, 48, ignored)), across, "parts end where they end");
        let missed = [(0, 8, -2.0), (8, 16, 1.0), (24, 40, -2.0)];
        for rule in [
            ranged(RuleTarget::Argument(1), 0, 49, ignored),
            ranged(RuleTarget::Argument(2), u64::MAX, 8, ignored),
            ranged(RuleTarget::Tag("pressure".into()), 64, 1, ignored),
            ranged(RuleTarget::Variable("v".into()), 0, 8, ignored),
        ] {
            assert!(!rule.memory.names(&region, &[Some(0x1000), Some(0x1010), Some(0x1038)]), "{}", rule.memory);
            assert_eq!(of(rule), missed, "a range that leaves its memory");
        }
        let overridden = Rules {
            rules: vec![
                ranged(RuleTarget::Address(0x1000), 32, 8, tolerance(1.0)),
                rule(RuleTarget::Address(0x1000), tolerance(2.0)),
            ],
            ..Rules::default()
        };
        assert_eq!(divided(&overridden, &ALLOCATION, &[0]), [(0, 64, 2.0)], "a norm needs the whole");
    }

    #[test]
    fn the_file_is_as_documented() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("42.json");
        assert_eq!(Rules::load(&database).unwrap(), Rules::default());
        let mut rules = Rules::default();
        rules.set(rule(RuleTarget::Address(0x1000), Tolerance { norm: Norm::L2, ..tolerance(1e-9) }));
        rules.set(rule(RuleTarget::Tag("scratch".into()), Tolerance::ignored()));
        rules.set(ranged(RuleTarget::Argument(2), 4096, 800, Tolerance::ignored()));
        rules.save(&database).unwrap();
        assert_eq!(Rules::load(&database).unwrap(), rules);
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("42.tolerances.json")).unwrap()).unwrap();
        assert_eq!(json["version"], 2);
        assert_eq!(
            json["rules"][0],
            serde_json::json!({"address": "0x1000", "dtype": "f64", "threshold": 1e-9, "kind": "relative", "norm": "l2"})
        );
        assert_eq!((&json["rules"][1]["tag"], &json["rules"][1]["ignore"]), (&"scratch".into(), &true.into()));
        assert_eq!((&json["rules"][2]["offset"], &json["rules"][2]["bytes"]), (&4096.into(), &800.into()));
        rules.remove(&RuleMemory { target: RuleTarget::Argument(2), offset: 4096, bytes: Some(800) });
        assert_eq!(rules.version, 1, "earlier releases read rules without ranges");
        Rules::default().save(&database).unwrap();
        assert!(!Rules::path(&database).exists());
    }

    #[test]
    fn few_words_are_enough() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("42.json");
        let write = |text: &str| std::fs::write(Rules::path(&database), text).unwrap();
        write(r#"{"version": 1, "rules": [{"argument": 2, "ignore": true}]}"#);
        assert_eq!(Rules::load(&database).unwrap().rules, [rule(RuleTarget::Argument(2), Tolerance::ignored())]);
        for wrong in [
            "{",
            r#"{"version": 1, "rules": [{"ignore": true}]}"#,
            r#"{"version": 1, "rules": [{"address": "12", "ignore": true}]}"#,
            r#"{"version": 1, "rules": [{"argument": 0, "threshold": -1}]}"#,
            r#"{"version": 1, "rules": [{"argument": 0, "dtype": "f80"}]}"#,
            r#"{"version": 1, "rules": [{"argument": 0, "offset": 8, "ignore": true}]}"#,
            r#"{"version": 1, "rules": [{"argument": 0, "bytes": 0, "ignore": true}]}"#,
        ] {
            write(wrong);
            assert!(matches!(Rules::load(&database), Err(RecordingError::Rules { .. })), "{wrong}");
        }
        write(r#"{"version": 3, "rules": []}"#);
        assert!(matches!(Rules::load(&database), Err(RecordingError::Version { .. })));
    }
}
