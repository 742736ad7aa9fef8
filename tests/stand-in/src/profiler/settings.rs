//! The settings of the profiling library: its version, and what goes wrong in it.

use std::sync::OnceLock;

/// `KEY=NUMBER`, separated by commas, see the fields of [`ProfilerSettings`].
const VARIABLE: &str = "MNEME_STAND_IN_PROFILER";

#[derive(Debug)]
pub struct ProfilerSettings {
    /// `version`: as 10,000 * major + 100 * minor + patch.
    pub version: u32,
    /// `lose`: the kernel whose record is lost, counted from 1 while they are noted; 0 for none.
    pub lose: u64,
    /// `lose_from`: the first of those whose records are all lost; 0 for none.
    pub lose_from: u64,
    /// `double`: the kernel that has two records; 0 for none.
    pub double: u64,
    /// `size`: bytes that records have; 0 for as many as the version's have.
    pub size: u64,
    /// `taken`: another tool has configured the library before, where it is not 0.
    pub taken: u64,
    /// `moved`: records have a number more in front of their times where it is not 0.
    pub moved: u64,
}

impl ProfilerSettings {
    pub fn major(&self) -> u32 {
        self.version / 10_000
    }
}

/// Those of this process.
pub fn settings() -> &'static ProfilerSettings {
    static SETTINGS: OnceLock<ProfilerSettings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let mut settings =
            ProfilerSettings { version: 10_100, lose: 0, lose_from: 0, double: 0, size: 0, taken: 0, moved: 0 };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let number = part.split_once('=').and_then(|(key, number)| Some((key, number.parse::<u64>().ok()?)));
            match number {
                Some(("version", number)) => settings.version = u32::try_from(number).unwrap_or(u32::MAX),
                Some(("lose", number)) => settings.lose = number,
                Some(("lose_from", number)) => settings.lose_from = number,
                Some(("double", number)) => settings.double = number,
                Some(("size", number)) => settings.size = number,
                Some(("taken", number)) => settings.taken = number,
                Some(("moved", number)) => settings.moved = number,
                _ => eprintln!("stand-in for libamdhip64: {VARIABLE}: {part} is not known"),
            }
        }
        settings
    })
}
