//! Pack files: chunks, appended one after the other by one writer.
//!
//! ```text
//! "MNEMEPK1", u32 version, u32 zero                    16 bytes
//! chunks:  16 bytes identity, u32 raw length, u32 form, stored bytes
//! index:   16 bytes zero identity, u32 number of entries, u32 sum,
//!          entries of 16 bytes identity, u64 offset of the stored bytes, u32 raw length, u32 form
//! trailer: u64 offset of the index, u64 checksum (XXH3-64) of the entries, "MNEMEEND"
//! ```
//!
//! All numbers are little endian.
//!
//! Bits 0 to 30 of the form are the number of stored bytes. Bit 31 says that the chunk was split into `planes` before
//! it was compressed; version 1 never sets it. The stored bytes are the chunk compressed with zstd, or the chunk itself
//! if the stored length equals the raw length.
//!
//! The sum is the lower half of one [`Hash64`], to which the stored bytes of each compressed chunk are added in turn.
//! It is 1 if it would be 0, and 0 in packs from before there was a sum. It detects flipped bits that do not change the
//! decoded chunk. Replays ignore it, because they check each decoded chunk against its identity.
//!
//! The writer adds index and trailer when it finishes. If they are missing because the writer was killed, a reader
//! walks the chunk headers up to the first incomplete chunk.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use mneme_model::hash::{ChunkId, Hash64, checksum, chunk_id};
use mneme_system::files::{self, HeldFile, progress, regular};
use mneme_system::random;

use super::encoding::{self, Encoded, Encoder};
use super::manifest::CHUNK;
use crate::error::RecordingError;

pub const VERSION: u32 = 2;
/// In a chunk's form: the compressed bytes are its planes.
const PLANES: u32 = 1 << 31;
const MAGIC: &[u8; 8] = b"MNEMEPK1";
const END: &[u8; 8] = b"MNEMEEND";
const FILE_HEADER: u64 = 16;
const CHUNK_HEADER: u64 = 24;
const ENTRY: usize = 32;
const TRAILER: u64 = 24;
const EXTENSION: &str = "pack";
/// The number of bytes to sync at a time: a slow disk needs a second for them.
const SYNC_PIECE: u64 = 64 << 20;

/// The place of a chunk in a pack; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLocation {
    pub offset: u64,
    pub raw: u32,
    pub stored: u32,
    /// The compressed bytes are the chunk's planes.
    pub planes: bool,
}

impl ChunkLocation {
    fn new(offset: u64, raw: u32, form: u32) -> Self {
        Self { offset, raw, stored: form & !PLANES, planes: form & PLANES != 0 }
    }

    fn is_compressed(&self) -> bool {
        self.stored != self.raw
    }

    fn form(&self) -> u32 {
        self.stored | if self.planes { PLANES } else { 0 }
    }
}

/// The pack files of a folder, oldest name first; empty if the folder is missing.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, RecordingError> {
    let entries = loop {
        match std::fs::read_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            // Unlike the other calls here, this one does not retry after an interruption.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            entries => break entries.map_err(RecordingError::io(folder))?,
        }
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(RecordingError::io(folder))?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Appends chunks to a new pack file.
pub struct PackWriter {
    path: PathBuf,
    file: HeldFile,
    position: u64,
    entries: Vec<(ChunkId, ChunkLocation)>,
    encoder: Encoder,
    /// The sum of the stored bytes of compressed chunks.
    sum: Hash64,
    /// The start of the next sync, bytes: everything before it is on disk.
    synced: u64,
}

impl PackWriter {
    /// Creates a pack with a unique name; `level` is zstd's.
    pub fn create(folder: &Path, level: i32) -> Result<Self, RecordingError> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let random = random::name().map_err(RecordingError::io(folder))?;
        let path = folder.join(format!("{now:x}-{random}.{EXTENSION}"));
        let file = HeldFile::create(&path).map_err(RecordingError::io(&path))?;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        let mut pack = Self {
            file,
            position: 0,
            entries: Vec::new(),
            encoder: Encoder::new(level).map_err(RecordingError::io(&path))?,
            sum: Hash64::new(),
            synced: 0,
            path,
        };
        if let Err(error) = write_at_end(&mut pack.file, &mut pack.position, &header, &[]) {
            // Otherwise every attempt would leave another empty file.
            let _ = std::fs::remove_file(&pack.path);
            return Err(RecordingError::io(&pack.path)(error));
        }
        Ok(pack)
    }

    /// Appends one chunk and returns the number of bytes that it takes.
    pub fn append(&mut self, id: &ChunkId, bytes: &[u8]) -> Result<u64, RecordingError> {
        assert!(bytes.len() as u64 <= CHUNK && !bytes.is_empty(), "a chunk has 1 to {CHUNK} bytes");
        let Self { path, file, position, entries, encoder, sum, .. } = self;
        let encoded = encoder.encode(bytes).map_err(RecordingError::io(&*path))?;
        let location = ChunkLocation {
            offset: *position + CHUNK_HEADER,
            raw: bytes.len() as u32,
            stored: encoded.bytes.len() as u32,
            planes: encoded.planes,
        };
        let mut header = [0; CHUNK_HEADER as usize];
        header[..16].copy_from_slice(&id.0);
        header[16..20].copy_from_slice(&location.raw.to_le_bytes());
        header[20..24].copy_from_slice(&location.form().to_le_bytes());
        write_at_end(file, position, &header, encoded.bytes).map_err(RecordingError::io(&*path))?;
        entries.push((*id, location));
        if location.is_compressed() {
            sum.add(encoded.bytes);
        }
        Ok(CHUNK_HEADER + u64::from(location.stored))
    }

    /// The chunks appended so far.
    pub fn chunks(&self) -> impl Iterator<Item = &ChunkId> {
        self.entries.iter().map(|(id, _)| id)
    }

    /// Waits until every appended chunk is on disk. On failure it removes the chunks that are not durable, because
    /// other writers may rely on them.
    pub fn sync(&mut self) -> Result<(), RecordingError> {
        if self.synced < self.position {
            let dirty = self.synced..self.position;
            if let Err(error) = self.file.get().and_then(|file| sync_in_pieces(file, dirty)) {
                let _ = self.file.get().and_then(|file| file.set_len(self.synced));
                return Err(RecordingError::io(&self.path)(error));
            }
            self.synced = self.position;
        }
        Ok(())
    }

    /// Writes index and trailer and syncs.
    pub fn finish(mut self) -> Result<(), RecordingError> {
        let mut entries = Vec::with_capacity(self.entries.len() * ENTRY);
        for (id, location) in &self.entries {
            entries.extend_from_slice(&id.0);
            entries.extend_from_slice(&location.offset.to_le_bytes());
            entries.extend_from_slice(&location.raw.to_le_bytes());
            entries.extend_from_slice(&location.form().to_le_bytes());
        }
        let mut head = ChunkId::ZERO.0.to_vec();
        head.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        head.extend_from_slice(&mark_of(&self.sum).to_le_bytes());
        let sum = checksum(&entries);
        entries.extend_from_slice(&self.position.to_le_bytes());
        entries.extend_from_slice(&sum.to_le_bytes());
        entries.extend_from_slice(END);
        write_at_end(&mut self.file, &mut self.position, &head, &entries).map_err(RecordingError::io(&self.path))?;
        let file = self.file.get().map_err(RecordingError::io(&self.path))?;
        progress::syncing(|| file.sync_all()).map_err(RecordingError::io(&self.path))
    }
}

/// Syncs a part of a file piece by piece, each as one step of progress: syncing gigabytes takes a disk minutes.
fn sync_in_pieces(file: &File, part: Range<u64>) -> std::io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    for start in part.clone().step_by(SYNC_PIECE as usize).take_while(|start| part.end - start > SYNC_PIECE) {
        // SAFETY: the descriptor is open; the call does not access this process's memory.
        let call = || unsafe {
            libc::sync_file_range(file.as_raw_fd(), start as libc::off64_t, SYNC_PIECE as libc::off64_t, all)
        };
        if progress::syncing(call) != 0 {
            let error = std::io::Error::last_os_error();
            // The kernel reports a disk error once. If the file system lacks this call, the last call syncs everything.
            if matches!(error.raw_os_error(), Some(libc::EIO | libc::ENOSPC | libc::EDQUOT)) {
                return Err(error);
            }
            break;
        }
    }
    progress::syncing(|| file.sync_data())
}

/// Writes both parts at a position. A failed write keeps the position, so the next one overwrites the torn chunk, and
/// frees the space, which other files may need.
fn write_at_end(file: &mut HeldFile, position: &mut u64, head: &[u8], body: &[u8]) -> std::io::Result<()> {
    let file = file.get()?;
    let written = files::size_limit::as_errors(|| write_all_parts_at(file, head, body, *position));
    match written {
        Ok(()) => *position += (head.len() + body.len()) as u64,
        Err(_) => drop(file.set_len(*position)),
    }
    written
}

/// Writes both parts, usually with one system call.
fn write_all_parts_at(file: &File, head: &[u8], body: &[u8], offset: u64) -> std::io::Result<()> {
    let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let parts = [part(head), part(body)];
    // SAFETY: both parts are readable for their length, and the call only reads them; the descriptor is open.
    let written = unsafe { libc::pwritev(file.as_raw_fd(), parts.as_ptr(), 2, offset as libc::off_t) };
    // The calls below report errors, and retry after an interruption.
    let written = usize::try_from(written).unwrap_or(0);
    let (head_done, body_done) = (written.min(head.len()), written.saturating_sub(head.len()));
    file.write_all_at(&head[head_done..], offset + head_done as u64)?;
    file.write_all_at(&body[body_done..], offset + (head.len() + body_done) as u64)
}

/// A prefix of a pack.
pub(super) struct PackPrefix {
    path: PathBuf,
    length: u64,
}

impl PackPrefix {
    /// Waits until the prefix is on disk; false if that fails, or if the pack's writer has removed part of it.
    pub(super) fn sync(&self) -> bool {
        let sync = |file: File| progress::syncing(|| file.sync_data()).and_then(|()| file.metadata());
        let synced = regular::open(&self.path).and_then(sync);
        synced.is_ok_and(|metadata| metadata.len() >= self.length)
    }
}

/// Reads chunks of one pack.
pub struct PackReader {
    path: PathBuf,
    file: File,
    /// Length of the pack when it was opened, bytes.
    length: u64,
}

impl PackReader {
    /// Opens a pack and lists its chunks.
    pub fn open(path: &Path) -> Result<(Self, Vec<(ChunkId, ChunkLocation)>), RecordingError> {
        let file = regular::open(path).map_err(RecordingError::io(path))?;
        let length = file.metadata().map_err(RecordingError::io(path))?.len();
        let reader = Self { path: path.into(), file, length };
        let mut header = [0; FILE_HEADER as usize];
        if length < FILE_HEADER {
            return Ok((reader, Vec::new())); // The writer was killed at once.
        }
        reader.bytes_at(0, &mut header)?;
        if &header[..8] != MAGIC {
            return Err(RecordingError::damaged(path, "it is not a pack file"));
        }
        let version = u32_at(&header, 8);
        if version > VERSION {
            return Err(RecordingError::Version { path: path.into(), found: version, supported: VERSION });
        }
        let entries = reader.entries()?;
        Ok((reader, entries))
    }

    /// The chunks that the pack had when it was opened.
    pub(super) fn entries(&self) -> Result<Vec<(ChunkId, ChunkLocation)>, RecordingError> {
        match self.index(self.length)? {
            Some(entries) => Ok(entries),
            None => self.walk(self.length),
        }
    }

    /// The prefix that was read of a pack that another process may be writing.
    pub(super) fn extent(&self) -> PackPrefix {
        PackPrefix { path: self.path.clone(), length: self.length }
    }

    /// The index at the end, or `None` if it is missing or damaged.
    fn index(&self, length: u64) -> Result<Option<Vec<(ChunkId, ChunkLocation)>>, RecordingError> {
        if length < FILE_HEADER + CHUNK_HEADER + TRAILER {
            return Ok(None);
        }
        let mut trailer = [0; TRAILER as usize];
        self.bytes_at(length - TRAILER, &mut trailer)?;
        let start = u64_at(&trailer, 0).saturating_add(CHUNK_HEADER);
        if &trailer[16..] != END || start > length - TRAILER {
            return Ok(None);
        }
        let mut bytes = vec![0; (length - TRAILER - start) as usize];
        self.bytes_at(start, &mut bytes)?;
        if checksum(&bytes) != u64_at(&trailer, 8) || !bytes.len().is_multiple_of(ENTRY) {
            return Ok(None);
        }
        let entry = |bytes: &[u8]| {
            let id = ChunkId(bytes[..16].try_into().expect("16 bytes"));
            (id, ChunkLocation::new(u64_at(bytes, 16), u32_at(bytes, 24), u32_at(bytes, 28)))
        };
        let entries: Vec<_> = bytes.chunks_exact(ENTRY).map(entry).collect();
        Ok(entries.iter().all(|(_, location)| u64::from(location.raw) <= CHUNK).then_some(entries))
    }

    /// Finds the complete chunks of a pack without an index.
    fn walk(&self, length: u64) -> Result<Vec<(ChunkId, ChunkLocation)>, RecordingError> {
        let mut entries = Vec::new();
        let mut position = FILE_HEADER;
        let mut header = [0; CHUNK_HEADER as usize];
        while position + CHUNK_HEADER <= length {
            self.bytes_at(position, &mut header)?;
            let id = ChunkId(header[..16].try_into().expect("16 bytes"));
            let location = ChunkLocation::new(position + CHUNK_HEADER, u32_at(&header, 16), u32_at(&header, 20));
            let end = location.offset + u64::from(location.stored);
            if id.is_zero() || u64::from(location.raw) > CHUNK || end > length {
                break;
            }
            entries.push((id, location));
            position = end;
        }
        Ok(entries)
    }

    /// Decodes a chunk into `out` and checks it against its identity.
    pub fn read(&self, id: &ChunkId, location: &ChunkLocation, out: &mut [u8]) -> Result<(), RecordingError> {
        self.read_with(id, location, out, |_| ())
    }

    /// [`PackReader::read`] that also passes on the stored bytes of a compressed chunk.
    fn read_with(
        &self,
        id: &ChunkId,
        location: &ChunkLocation,
        out: &mut [u8],
        compressed: impl FnOnce(&[u8]),
    ) -> Result<(), RecordingError> {
        let damaged = |what: &str| RecordingError::damaged(&self.path, format!("chunk {id} {what}"));
        if location.raw as usize != out.len() || location.stored > location.raw {
            return Err(damaged("has the wrong length"));
        }
        if !location.is_compressed() {
            self.bytes_at(location.offset, out)?;
        } else {
            let mut stored = vec![0; location.stored as usize];
            self.bytes_at(location.offset, &mut stored)?;
            compressed(&stored);
            if !encoding::decode(Encoded { bytes: &stored, planes: location.planes }, out) {
                return Err(damaged("does not decompress"));
            }
        }
        if chunk_id(out) != *id {
            return Err(damaged("does not match its checksum"));
        }
        Ok(())
    }

    /// Reads the whole pack and reports damage, including unused chunks and redundant copies of numbers in the format.
    /// An unfinished pack may end anywhere.
    pub fn check(&self) -> Result<(), RecordingError> {
        let damaged = |what: String| Err(RecordingError::damaged(&self.path, what));
        let length = self.file.metadata().map_err(RecordingError::io(&self.path))?.len();
        let mut header = [0; FILE_HEADER as usize];
        if length < FILE_HEADER {
            return Ok(());
        }
        self.bytes_at(0, &mut header)?;
        if !(1..=VERSION).contains(&u32_at(&header, 8)) || header[12..] != [0; 4] {
            return damaged("its header is not what was written".into());
        }
        let walked = self.walk(length)?;
        let mut bytes = vec![0; CHUNK as usize];
        let mut sum = Hash64::new();
        for (id, location) in &walked {
            self.read_with(id, location, &mut bytes[..location.raw as usize], |stored| sum.add(stored))?;
        }
        let end = walked.last().map_or(FILE_HEADER, |(_, location)| location.offset + u64::from(location.stored));
        let mut mark = [0; CHUNK_HEADER as usize];
        if end + CHUNK_HEADER <= length {
            self.bytes_at(end, &mut mark)?;
        }
        let is_mark = end + CHUNK_HEADER <= length && mark[..16] == ChunkId::ZERO.0;
        let complete = end + CHUNK_HEADER + u64::from(u32_at(&mark, 16)) * ENTRY as u64 + TRAILER;
        match self.index(length)? {
            Some(entries) if entries != walked || !is_mark || complete != length => {
                damaged("its index and its chunks do not agree".into())
            }
            Some(_) if ![0, mark_of(&sum)].contains(&u32_at(&mark, 20)) => {
                damaged("its compressed data is not what was written".into())
            }
            None if is_mark && complete <= length => damaged("its index is damaged".into()),
            _ => Ok(()),
        }
    }

    fn bytes_at(&self, offset: u64, out: &mut [u8]) -> Result<(), RecordingError> {
        self.file.read_exact_at(out, offset).map_err(RecordingError::io(&self.path))
    }
}

/// The sum as stored in an index.
fn mark_of(sum: &Hash64) -> u32 {
    (sum.finish() as u32).max(1)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_long_is_synced_step_by_step() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * SYNC_PIECE).unwrap();
        let before = progress::steps();
        sync_in_pieces(&file, 0..3 * SYNC_PIECE).unwrap();
        assert!(progress::steps() >= before + 3);
    }

    fn write(folder: &Path, chunks: &[Vec<u8>], finish: bool) -> PathBuf {
        let mut writer = PackWriter::create(folder, 1).unwrap();
        for chunk in chunks {
            writer.append(&chunk_id(chunk), chunk).unwrap();
        }
        let path = writer.path.clone();
        if finish {
            writer.finish().unwrap()
        } else {
            writer.sync().unwrap()
        }
        path
    }

    fn read_all(path: &Path) -> Vec<Vec<u8>> {
        let (reader, entries) = PackReader::open(path).unwrap();
        entries
            .iter()
            .map(|(id, location)| {
                let mut out = vec![0; location.raw as usize];
                reader.read(id, location, &mut out).unwrap();
                out
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn chunks_come_back_with_and_without_an_index(
            chunks in proptest::collection::vec(proptest::collection::vec(0u8..4, 1..2000), 0..8),
            cut in 0usize..400,
        ) {
            let folder = tempfile::tempdir().unwrap();
            prop_assert_eq!(&read_all(&write(folder.path(), &chunks, true)), &chunks);
            let unfinished = write(folder.path(), &chunks, false);
            prop_assert_eq!(&read_all(&unfinished), &chunks);
            // The writer was killed in the middle of a write: the complete chunks are there, in order.
            let length = std::fs::metadata(&unfinished).unwrap().len();
            File::options().write(true).open(&unfinished).unwrap().set_len(length.saturating_sub(cut as u64)).unwrap();
            let rest = read_all(&unfinished);
            prop_assert_eq!(&rest[..], &chunks[..rest.len()]);
        }

        #[test]
        fn no_input_makes_the_reader_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            trailer in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x.pack");
            let mut whole = MAGIC.to_vec();
            whole.extend_from_slice(&VERSION.to_le_bytes());
            whole.extend_from_slice(&[0; 4]);
            whole.extend_from_slice(&bytes);
            if trailer { whole.extend_from_slice(END); }
            std::fs::write(&path, &whole).unwrap();
            let (reader, entries) = PackReader::open(&path).unwrap();
            for (id, location) in entries {
                let _ = reader.read(&id, &location, &mut vec![0; location.raw.min(70000) as usize]);
            }
        }
    }

    #[test]
    fn a_pack_of_version_1_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let chunks = [vec![7; 5000], (0..100).collect::<Vec<u8>>()];
        let mut bytes = [&MAGIC[..], &1u32.to_le_bytes(), &[0; 4]].concat();
        for chunk in &chunks {
            let compressed = zstd::bulk::compress(chunk, 1).unwrap();
            let stored = if compressed.len() < chunk.len() { &compressed } else { chunk };
            bytes.extend(chunk_id(chunk).0);
            bytes.extend([chunk.len() as u32, stored.len() as u32].iter().flat_map(|length| length.to_le_bytes()));
            bytes.extend(stored);
        }
        let path = folder.path().join("1.pack");
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read_all(&path), chunks);
    }

    #[test]
    fn a_flipped_bit_in_a_chunk_is_caught() {
        let folder = tempfile::tempdir().unwrap();
        let chunk: Vec<u8> = (0..5000u32).map(|i| ((i * i) >> 3) as u8).collect();
        let path = write(folder.path(), &[chunk], true);
        let (_, entries) = PackReader::open(&path).unwrap();
        let (id, location) = entries[0];
        let file = File::options().read(true).write(true).open(&path).unwrap();
        for at in [0, u64::from(location.stored) / 2, u64::from(location.stored) - 1] {
            let mut byte = [0];
            file.read_exact_at(&mut byte, location.offset + at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], location.offset + at).unwrap();
            let (reader, _) = PackReader::open(&path).unwrap();
            assert!(reader.read(&id, &location, &mut vec![0; location.raw as usize]).is_err());
            file.write_all_at(&byte, location.offset + at).unwrap();
        }
    }

    /// For a run of one value, several compressed forms decode to the same bytes.
    #[test]
    fn a_check_finds_every_flipped_bit() {
        let folder = tempfile::tempdir().unwrap();
        let chunks = [vec![7; 5000], (0..300u32).flat_map(|i| (i / 9).to_le_bytes()).collect(), (0..100).collect()];
        let path = write(folder.path(), &chunks, true);
        let whole = std::fs::read(&path).unwrap();
        let mut same = 0;
        for bit in 0..8 * whole.len() {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &flipped).unwrap();
            let checked = PackReader::open(&path).and_then(|(reader, _)| reader.check());
            assert!(checked.is_err(), "bit {} of byte {}", bit % 8, bit / 8);
            same += u32::from(checked.unwrap_err().to_string().contains("is not what was written"));
        }
        assert!(same > 0, "no bit needed the sum");
        // Packs from before sums existed are intact.
        let start = u64_at(&whole, whole.len() - TRAILER as usize) as usize;
        let old = [&whole[..start + 20], &[0; 4], &whole[start + 24..]].concat();
        std::fs::write(&path, old).unwrap();
        PackReader::open(&path).unwrap().0.check().unwrap();
    }
}
