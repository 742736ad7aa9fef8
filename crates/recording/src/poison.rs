//! The bytes that an instance's kernel only writes, and seeds of other inputs.
//!
//! They are in the file `<static-hash>.<instance>.<device>.poison`.
//! They were found by running the application's own code. A replay fills these bytes before each run, so a kernel that
//! does not write them fails to verify. A [`PoisonMap`] holds a [`Mask`] for each chunk with such bytes. The file is
//! beside the recording and does not change it. It names the memory that it was made from; maps of other memory are
//! ignored.

use std::io;
use std::path::{Path, PathBuf};

use mneme_model::hash::{Hash64, checksum};
use mneme_system::files::{self, FileAccess, regular};
use serde::{Deserialize, Serialize};

use super::manifest::{CHUNK, MemoryState};
use super::mask::Mask;

/// Version of the file and of the search for the bytes: other versions are created anew.
pub const VERSION: u32 = 4;
/// Kinds of devices, as in file names.
pub const DEVICES: [&str; 3] = ["cpu", "cuda", "hip"];
/// Extension of the file's name.
pub const EXTENSION: &str = "poison";
/// The filled bytes differ from the recorded result in these bits. Calibration uses the complement, too.
pub const PATTERN: u8 = 0xaa;
const CHECKSUM: usize = 8;
/// Level of zstd: maps are repetitive.
const LEVEL: i32 = 3;
/// The maximum size of a map before compression, bytes.
const MOST: usize = 1 << 30;

/// The bytes of an instance that a replay fills.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoisonMap {
    pub version: u32,
    /// [`identity`] of the recorded memory.
    pub made_from: String,
    /// The reason for skipping some memory, one sentence; empty if all memory was searched.
    pub left_out: String,
    pub masks: Vec<Mask>,
    pub chunks: Vec<PoisonedChunk>,
    /// Buffers that the kernel writes without changing them, and in which it reads every byte first, so no byte
    /// can be filled.
    pub unshown: Vec<UnshownBytes>,
    /// The application's own code does not run on this device, so compiled code replaced it.
    pub own_code_fails: bool,
    /// Seeds of useful fresh inputs: the application's own code changes memory on them, in the same way every time.
    pub fresh_inputs: Vec<u64>,
}

/// A chunk with bytes to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoisonedChunk {
    /// Index among the regions with bytes, in the order of the manifest.
    pub region: u32,
    pub chunk: u32,
    /// Index in [`PoisonMap::masks`].
    pub mask: u32,
}

/// Bytes of a region about which verification proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnshownBytes {
    pub region: u32,
    pub bytes: u64,
}

impl PoisonMap {
    /// Adds a chunk; equal masks are stored once.
    pub fn add(&mut self, region: u32, chunk: u32, mask: &Mask) {
        let known = self.masks.iter().rposition(|known| known == mask);
        let number = known.unwrap_or_else(|| {
            self.masks.push(mask.clone());
            self.masks.len() - 1
        });
        self.chunks.push(PoisonedChunk { region, chunk, mask: number as u32 });
    }

    /// The number of bytes to fill.
    pub fn filled(&self) -> u64 {
        let mask = |chunk: &PoisonedChunk| self.masks.get(chunk.mask as usize);
        self.chunks.iter().filter_map(mask).map(|mask| mask.count(0..CHUNK as usize)).sum()
    }

    /// Adds the findings for other regions.
    pub fn join(&mut self, other: &Self) {
        for chunk in &other.chunks {
            if let Some(mask) = other.masks.get(chunk.mask as usize) {
                self.add(chunk.region, chunk.chunk, mask);
            }
        }
        self.unshown.extend(&other.unshown);
        self.leave_out(&other.left_out);
    }

    /// Adds why something was left out.
    pub fn leave_out(&mut self, why: &str) {
        if self.left_out.is_empty() {
            why.clone_into(&mut self.left_out);
        } else if !why.is_empty() && !self.left_out.contains(why) {
            self.left_out += "; ";
            self.left_out += why;
        }
    }

    /// Reads the map for this memory; `None` unless there is an intact one of this version.
    pub fn load(path: &Path, made_from: &str) -> Option<Self> {
        let file = regular::read(path).ok()?;
        let (sum, text) = file.split_first_chunk::<CHECKSUM>()?;
        if u64::from_le_bytes(*sum) != checksum(text) {
            return None;
        }
        let text = zstd::bulk::decompress(text, MOST).ok()?;
        let map: Self = serde_json::from_slice(&text).ok()?;
        (map.version == VERSION && map.made_from == made_from).then_some(map)
    }

    /// Writes the complete file.
    ///
    /// # Errors
    /// The folder cannot be written to, or is full.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        if text.len() > MOST {
            return Err(io::Error::other("the map is too large"));
        }
        let text = zstd::bulk::compress(&text, LEVEL)?;
        let file = [&checksum(&text).to_le_bytes()[..], &text].concat();
        files::replace(path, &file, FileAccess::Private)
    }
}

/// The file for an instance of the kernel in `<static-hash>.json` on a kind of device.
pub fn path(database: &Path, instance: &str, device: &str) -> PathBuf {
    database.with_extension(format!("{instance}.{device}.{EXTENSION}"))
}

/// Removes an instance's files for all devices.
///
/// # Errors
/// The folder cannot be read, or a file cannot be removed.
pub fn remove(database: &Path, instance: &str) -> io::Result<()> {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stem = database.file_stem().unwrap_or_default().to_string_lossy();
    let (start, end) = (format!("{stem}.{instance}."), format!(".{EXTENSION}"));
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&start) && name.ends_with(&end)) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A hash of the addresses and contents of recorded memory before and after a launch.
pub fn identity(prologue: &MemoryState, epilogue: &MemoryState) -> String {
    let mut hash = Hash64::new();
    for state in [prologue, epilogue] {
        for region in state.regions() {
            hash.add(region.variable.map_or("", |variable| variable.name.as_str()).as_bytes());
            hash.add(&region.address.to_le_bytes());
            hash.add(&region.size.to_le_bytes());
            region.chunks.iter().for_each(|id| hash.add(&id.0));
        }
    }
    format!("{:016x}", hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(bytes: &[usize]) -> Mask {
        let mut mask = Mask::default();
        bytes.iter().for_each(|byte| mask.set(*byte, true));
        mask
    }

    #[test]
    fn every_reason_why_something_is_left_out_is_kept() {
        let mut map = PoisonMap::default();
        let [fails, late] =
            ["it fails", "it takes long"].map(|why| PoisonMap { left_out: why.into(), ..PoisonMap::default() });
        [&fails, &PoisonMap::default(), &late, &fails].into_iter().for_each(|other| map.join(other));
        assert_eq!(map.left_out, "it fails; it takes long");
    }

    #[test]
    fn a_map_comes_back_and_one_of_other_memory_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = path(&folder.path().join("42.json"), "7", "cpu");
        let mut map = PoisonMap { version: VERSION, made_from: "a".into(), ..PoisonMap::default() };
        map.add(0, 3, &mask(&[1, 65535]));
        map.add(0, 4, &mask(&[1, 65535]));
        map.unshown.push(UnshownBytes { region: 1, bytes: 8 });
        assert_eq!((map.masks.len(), map.filled()), (1, 4));
        map.save(&file).unwrap();
        assert_eq!(PoisonMap::load(&file, "a").as_ref(), Some(&map));
        assert_eq!(PoisonMap::load(&file, "b"), None);
        let mut damaged = std::fs::read(&file).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(PoisonMap::load(&file, "a"), None);
        remove(&folder.path().join("42.json"), "8").unwrap();
        assert!(file.exists());
        remove(&folder.path().join("42.json"), "7").unwrap();
        assert!(!file.exists());
    }
}
