//! The settings of the profiling library: its version and its faults.

use std::sync::OnceLock;

/// `KEY=NUMBER` pairs, separated by commas. The keys are the fields of [`ProfilerSettings`].
const VARIABLE: &str = "MNEME_STAND_IN_PROFILER";

#[derive(Debug)]
pub struct ProfilerSettings {
    /// `version`: 10,000 * major + 100 * minor + patch.
    pub version: u32,
    /// `lose`: the number of the kernel whose record is lost, from 1 among noted kernels; 0 for none.
    pub lose: u64,
    /// `lose_from`: the first kernel of those whose records are all lost; 0 for none.
    pub lose_from: u64,
    /// `double`: the kernel with two records; 0 for none.
    pub double: u64,
    /// `size`: the size of a record in bytes; 0 for that of the version.
    pub size: u64,
    /// `taken`: if not 0, another tool has already configured the library.
    pub taken: u64,
    /// `moved`: if not 0, records have another number before their times.
    pub moved: u64,
}

impl ProfilerSettings {
    pub fn major(&self) -> u32 {
        self.version / 10_000
    }
}

/// The settings of this process.
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
