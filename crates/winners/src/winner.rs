//! Winners, and the file that stores them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use mneme_image::elf;
use mneme_model::checked_text;
use mneme_model::hash::checksum;
use mneme_model::launch::Dim3;
use mneme_recording::manifest::RecordedArgument;
use mneme_system::files::{self, FileAccess, trust};

use crate::error::WinnerError;
use crate::rule::{DimensionRule, LaunchDimensions};

/// The environment variable that names winner files, separated by colons.
pub const VARIABLE: &str = "MNEME_TUNED";
/// The environment variable that makes the recorder time replaced launches.
pub const TIMES_VARIABLE: &str = "MNEME_TIMES";
/// Version of the file.
pub const VERSION: u32 = 4;

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Winners {
    /// [`VERSION`].
    pub format: u32,
    pub winners: Vec<Winner>,
    /// The sum of the text, as in [`checked_text`]; must be the last member.
    #[serde(default)]
    checksum: String,
}

/// Code that tuning found to be better than a kernel's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// Mangled.
    pub kernel: String,
    /// The hash of the code it was made from.
    pub static_hash: u64,
    /// The architecture of its machine code: "sm_90", "gfx90a:sramecc+:xnack-", or "cpu".
    pub architecture: String,
    /// Machine code, an ELF object, and its sum (XXH3-64).
    pub code: PathBuf,
    pub checksum: u64,
    /// Offset and size of each argument in the parameter buffer, bytes.
    pub layout: Vec<(u32, u32)>,
    /// The recorded launch, and its tuned dimensions.
    pub recorded: LaunchDimensions,
    pub tuned: LaunchDimensions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Dim3>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cooperative: bool,
    /// The arguments of the recorded launch.
    pub arguments: Vec<RecordedArgument>,
    #[serde(default)]
    pub folded: Folded,
    /// Words of arguments that look like addresses but are outside all recorded allocations: the argument, and the
    /// offset in it, bytes. They must match like other numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<(u32, u32)>,
    /// The tuned dimensions are ignored; launches keep the application's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_dimensions: bool,
    /// The maximum number of threads in a block, if the code was compiled with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
    /// The code also verified with the recorded launch's dimensions, so other launches may keep theirs.
    #[serde(default)]
    pub bears_own_dimensions: bool,
    /// Other recorded launches that verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<VerifiedLaunch>,
    /// The rule for launches that were not verified, if their dimensions may change at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<DimensionRule>,
    /// The sum of the recorded image, from the recording. A kernel from an equal image is recognised by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<u64>,
    /// The kernel prints.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prints: bool,
    /// Times of a launch in the tuning session, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// The origin of the winner.
    pub source: PathBuf,
}

/// A recorded launch on which a winner verified.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifiedLaunch {
    /// The launch, and its tuned dimensions.
    pub recorded: LaunchDimensions,
    pub tuned: LaunchDimensions,
    pub arguments: Vec<RecordedArgument>,
    /// See [`Winner::numbers`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<(u32, u32)>,
}

/// The identity of a winner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WinnerIdentity {
    /// Mangled.
    pub kernel: String,
    /// The hash of the code it was made from.
    pub static_hash: u64,
    /// The origin of the winner.
    pub source: PathBuf,
    /// The launch that it was tuned for.
    pub recorded: LaunchDimensions,
    pub arguments: Vec<RecordedArgument>,
    /// The sum of its machine code.
    pub checksum: u64,
}

/// The parts of a launch that are constants in the code, which is only valid for launches with the same values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Folded {
    /// Argument indices, from 0.
    pub arguments: Vec<u32>,
    /// Grid and block, as tuned.
    pub dimensions: bool,
    /// The size of dynamic shared memory, as tuned.
    pub shared_size: bool,
    /// Dynamic shared memory itself; launches must then request none.
    pub shared_memory: bool,
}

impl Winners {
    pub fn new(winners: Vec<Winner>) -> Self {
        Self { format: VERSION, winners, checksum: String::new() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or was not written by [`Self::save`].
    pub fn load(path: &Path) -> Result<Self, WinnerError> {
        let text = trust::read(path).map_err(|source| WinnerError::Unread { path: path.into(), source })?;
        let mut found: Self =
            serde_json::from_slice(&text).map_err(|source| WinnerError::NoWinners { path: path.into(), source })?;
        if found.format != VERSION {
            return Err(WinnerError::Format { path: path.into(), found: found.format, supported: VERSION });
        }
        let sum = std::mem::take(&mut found.checksum);
        if checked_text::checksum_of(&text) != Some(sum) {
            return Err(WinnerError::Changed(path.into()));
        }
        Ok(found)
    }

    /// Writes the file atomically: a reader sees either all of it or the previous contents.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        files::replace(path, &self.text(), FileAccess::Private)
    }

    /// The text of its file, with checksum.
    pub fn text(&self) -> Vec<u8> {
        let file = Self { checksum: checked_text::NO_CHECKSUM.into(), ..self.clone() };
        let mut text = serde_json::to_vec_pretty(&file).expect("plain data serialises");
        text.push(b'\n');
        checked_text::write_checksum(&mut text);
        text
    }
}

impl Winner {
    pub fn identity(&self) -> WinnerIdentity {
        let Self { kernel, static_hash, source, recorded, arguments, checksum, .. } = self.clone();
        WinnerIdentity { kernel, static_hash, source, recorded, arguments, checksum }
    }

    /// Whether the code can be launched with these dimensions: they may be folded into the code, and blocks have a
    /// bound.
    pub fn allows(&self, shape: &LaunchDimensions) -> bool {
        let Self { tuned, folded, max_threads, .. } = self;
        let dimensions = !folded.dimensions || (shape.grid, shape.block) == (tuned.grid, tuned.block);
        let shared = !(folded.shared_size || folded.shared_memory) || shape.shared_mem == tuned.shared_mem;
        dimensions && shared && max_threads.is_none_or(|most| shape.block.count() <= u64::from(most))
    }

    /// Reads its machine code.
    ///
    /// # Errors
    /// It cannot be read, or is not what was written.
    pub fn image(&self) -> Result<Vec<u8>, WinnerError> {
        let path = || self.code.clone();
        let image = trust::read(&self.code).map_err(|source| WinnerError::UnreadCode { path: path(), source })?;
        if checksum(&image) != self.checksum {
            return Err(WinnerError::DamagedCode(path()));
        }
        // A driver is not told the size.
        if elf::size_of(&image).is_none_or(|extent| extent > image.len() as u64) {
            return Err(WinnerError::NoMachineCode(path()));
        }
        Ok(image)
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    pub fn winner(code: &Path) -> Winner {
        Winner {
            kernel: "_Z1kv".into(),
            static_hash: u64::MAX,
            architecture: "sm_90".into(),
            code: code.into(),
            checksum: checksum(b"code"),
            layout: vec![(0, 8)],
            recorded: LaunchDimensions::default(),
            tuned: LaunchDimensions { shared_mem: 8, ..LaunchDimensions::default() },
            cluster: None,
            cooperative: true,
            arguments: vec![RecordedArgument { offset: 0, bytes: vec![1; 8] }],
            folded: Folded { arguments: vec![0], ..Folded::default() },
            numbers: vec![(0, 0)],
            keeps_dimensions: true,
            max_threads: Some(64),
            bears_own_dimensions: true,
            verified: vec![VerifiedLaunch { numbers: vec![(0, 8)], ..VerifiedLaunch::default() }],
            rule: Some(DimensionRule::same_threads()),
            image: Some(1 << 63),
            prints: true,
            before: Some(2.5),
            after: None,
            source: "results".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::winner;
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let winners = Winners::new(vec![winner(&at("code"))]);
        winners.save(&at("tuned.json")).unwrap();
        assert_eq!(Winners::load(&at("tuned.json")).unwrap(), winners);
        let image = || winners.winners[0].image();
        assert!(matches!(image(), Err(WinnerError::UnreadCode { .. })));
        std::fs::write(at("code"), "code").unwrap();
        assert!(matches!(image(), Err(WinnerError::NoMachineCode(_))));
        std::fs::write(at("code"), "cope").unwrap();
        assert!(matches!(image(), Err(WinnerError::DamagedCode(_))));
        let text = std::fs::read(at("tuned.json")).unwrap();
        // The sum covers everything, including dimensions, which can have any value.
        for bit in 0..8 * text.len() {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(at("tuned.json"), &flipped).unwrap();
            assert!(Winners::load(&at("tuned.json")).is_err(), "bit {} of '{}'", bit % 8, text[bit / 8] as char);
        }
        std::fs::write(at("tuned.json"), r#"{"format": 9, "winners": []}"#).unwrap();
        assert!(matches!(Winners::load(&at("tuned.json")), Err(WinnerError::Format { found: 9, .. })));
        std::fs::write(at("tuned.json"), r#"{"_Z1kv": {"OptLevel": 1}}"#).unwrap();
        assert!(matches!(Winners::load(&at("tuned.json")), Err(WinnerError::NoWinners { .. })));
    }
}
