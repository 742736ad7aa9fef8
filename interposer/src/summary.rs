//! What the user sees on standard error when the application has ended.

use std::fmt::Write;

/// One kernel's line.
pub struct Line {
    pub demangled: String,
    pub launches: u64,
    pub recorded: u64,
    /// Instances that the recording folder had from an earlier run.
    pub known: u64,
    /// Added to the recording folder.
    pub bytes: u64,
    /// The kernel's file, where something of it is recorded.
    pub file: Option<String>,
    /// Launches with the dimensions and scalar arguments of an instance that is there: counted only.
    pub repeats: u64,
    /// Launches that the settings leave out.
    pub left_out: u64,
    /// Why launches were not recorded, and how many.
    pub failures: Vec<(String, u64)>,
}

/// Which settings leave launches out.
const SELECTION: &str = "MNEME_RR_KERNELS, MNEME_RECORD_RANKS, MNEME_SKIP_RECORDINGS or MNEME_MAX_RECORDINGS";

/// The text for all kernels; empty where none was launched.
pub fn text(mut lines: Vec<Line>) -> String {
    lines.retain(|line| line.launches > 0);
    lines.sort_by(|one, other| one.demangled.cmp(&other.demangled));
    lines.iter().fold(String::new(), |mut text, line| {
        let plural = if line.launches == 1 { "" } else { "es" };
        let _ = write!(text, "mneme: {}: {} launch{plural}, {} recorded", shorten(&line.demangled), line.launches, line.recorded);
        if line.known > 0 {
            let _ = write!(text, " ({} recorded before)", line.known);
        }
        if let Some(file) = &line.file {
            let _ = write!(text, ", {}, {file}", size(line.bytes));
        }
        if line.repeats > 0 {
            let _ = write!(text, "; {} alike in dimensions and scalar arguments", line.repeats);
        }
        if line.left_out > 0 {
            let _ = write!(text, "; {} left out by {SELECTION}", line.left_out);
        }
        for (reason, count) in &line.failures {
            let _ = write!(text, "; {count} not recorded: {reason}");
        }
        text.push('\n');
        text
    })
}

/// A demangled name without its parameters and return type, at most 60 characters.
fn shorten(name: &str) -> String {
    let mut depth = 0usize;
    let end = name
        .char_indices()
        .find(|(index, c)| {
            match c {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                // A name in an anonymous namespace begins with a parenthesis of its own.
                '(' if depth == 0 => return !name[*index..].starts_with("(anonymous namespace)"),
                _ => {}
            }
            false
        })
        .map_or(name.len(), |(index, _)| index);
    let name = name[..end].strip_prefix("void ").unwrap_or(&name[..end]);
    if name.chars().count() <= 60 { name.to_owned() } else { name.chars().take(59).chain(['…']).collect() }
}

/// Bytes in decimal units.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_parameters_and_return_type() {
        assert_eq!(shorten("void vecAdd<int>(int*, int)"), "vecAdd<int>");
        assert_eq!(shorten("k<(E)1, void (*)(int)>(int)"), "k<(E)1, void (*)(int)>");
        assert_eq!(shorten("(anonymous namespace)::k(int)"), "(anonymous namespace)::k");
        assert_eq!(shorten("plain"), "plain");
        assert_eq!(shorten(&"x".repeat(100)).chars().count(), 60);
    }

    #[test]
    fn a_line_says_what_happened() {
        let line = |launches, failures| Line {
            demangled: "k(int)".into(),
            launches,
            recorded: 1,
            known: 0,
            bytes: 1_250_000,
            file: Some("d/42.json".into()),
            repeats: 0,
            left_out: 0,
            failures,
        };
        assert_eq!(
            text(vec![Line { repeats: 2, left_out: 1, ..line(4, vec![]) }]),
            format!(
                "mneme: k: 4 launches, 1 recorded, 1.2 MB, d/42.json; 2 alike in dimensions and scalar arguments; 1 left out by {SELECTION}\n"
            )
        );
        assert_eq!(
            text(vec![line(3, vec![("device not idle".into(), 2)])]),
            "mneme: k: 3 launches, 1 recorded, 1.2 MB, d/42.json; 2 not recorded: device not idle\n"
        );
        assert_eq!(text(vec![line(0, vec![])]), "");
    }
}
