//! A lifted module, and the directives that its PTX gets after LLVM has compiled it.

use std::collections::BTreeMap;

/// The named metadata of a lifted module.
pub const LIFTED: &str = "mneme.lifted";
/// The kind of metadata that marks the initial zeros of frame memory.
pub const FRAME: &str = "mneme.frame";

/// A lifted module.
#[derive(Clone, Debug, Default)]
pub struct Lifted {
    /// LLVM's assembly.
    pub ir: String,
    /// Ten times the version of the PTX: 78 for 7.8.
    pub version: u32,
    /// The original target: "sm_90a".
    pub target: String,
    /// Directives that LLVM cannot write, by kernel: `.reqnctapercluster 2, 1, 1`.
    pub directives: BTreeMap<String, Vec<String>>,
    pub statistics: Statistics,
}

/// Statistics of the lifting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub instructions: usize,
    /// Instructions that became inline assembly, by name.
    pub assembly: BTreeMap<String, usize>,
}

impl Statistics {
    /// The number of instructions that became inline assembly.
    pub fn in_assembly(&self) -> usize {
        self.assembly.values().sum()
    }
}

impl Lifted {
    /// The assembler's target for `device` ("sm_90"): with the suffix of the original target, if that is for the same
    /// device.
    pub fn device(&self, device: &str) -> String {
        match self.target.strip_suffix(['a', 'f']) {
            Some(base) if base == device => self.target.clone(),
            _ => device.to_owned(),
        }
    }

    /// LLVM's PTX for the lifted module, plus the directives of the original that LLVM cannot write.
    pub fn finish(&self, ptx: &str) -> String {
        let mut text = String::with_capacity(ptx.len() + 64);
        let mut pending: Option<&Vec<String>> = None;
        for line in ptx.split_inclusive('\n') {
            let word = line.trim_end();
            if let Some(version) = word.strip_prefix(".version ") {
                text.push_str(&format!(".version {}\n", newer_version(version, self.version)));
                continue;
            }
            if let Some(target) = word.strip_prefix(".target ") {
                text.push_str(&format!(".target {}\n", newer_target(target, &self.target)));
                continue;
            }
            if let Some(name) = kernel_of(word) {
                pending = self.directives.get(name);
            }
            if let (Some(directives), "{") = (pending, word) {
                for directive in directives {
                    text.push_str(directive);
                    text.push('\n');
                }
                pending = None;
            }
            text.push_str(line);
        }
        text
    }
}

/// The name after `.entry`.
fn kernel_of(line: &str) -> Option<&str> {
    let rest = line.split(".entry ").nth(1)?;
    Some(rest.split('(').next().unwrap_or(rest).trim())
}

fn newer_version(emitted: &str, original: u32) -> String {
    let own = emitted
        .split_once('.')
        .and_then(|(major, minor)| Some(major.trim().parse::<u32>().ok()? * 10 + minor.trim().parse::<u32>().ok()?));
    let version = own.unwrap_or(0).max(original);
    format!("{}.{}", version / 10, version % 10)
}

/// The original's target if LLVM does not know its architecture, or if it has architecture-specific instructions.
fn newer_target(emitted: &str, original: &str) -> String {
    let number =
        |target: &str| target.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse::<u32>().unwrap_or(0);
    let first = emitted.split(',').next().unwrap_or(emitted).trim();
    let is_specific = original.ends_with(['a', 'f']) && number(original) >= number(first);
    let wanted = if number(original) > number(first) || is_specific { original } else { first };
    match emitted.split_once(',') {
        Some((_, rest)) => format!("{wanted},{rest}"),
        None => wanted.to_owned(),
    }
}
