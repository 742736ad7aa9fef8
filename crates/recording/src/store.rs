//! The chunk store: stores memory as chunks, and returns their identities.
//!
//! A store is the `packs/` folder of a recording. Any number of processes may write; each writer adds its own pack
//! files, so a file has only one writer.

use std::collections::{HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mneme_model::hash::{ChunkId, recorded_id};
use mneme_system::files::{OwnedFile, private, progress};
use mneme_system::own_threads;
use nix::unistd::AccessFlags;
use rayon::prelude::*;

use super::manifest::{CHUNK, RecordedRegion};
use super::pack::{self, ChunkLocation, PackReader, PackWriter};
use super::upstream;
use crate::error::RecordingError;

/// Name of the folder of packs inside a recording.
pub const FOLDER: &str = "packs";

/// Reads chunks.
pub struct Store {
    folder: PathBuf,
    packs: Vec<PackReader>,
    index: HashMap<ChunkId, (usize, ChunkLocation)>,
    /// The snapshot files of a recording of the existing Mneme, which replace packs.
    upstream: Option<Arc<upstream::Chunks>>,
}

impl Store {
    /// Opens the packs of a recording folder. A recording of memory that is all zero has no packs.
    pub fn open(recording: &Path) -> Result<Self, RecordingError> {
        let folder = recording.join(FOLDER);
        let mut packs = Vec::new();
        let mut index = HashMap::new();
        for path in pack::files(&folder)? {
            let (reader, entries) = PackReader::open(&path)?;
            index.extend(entries.into_iter().map(|(id, location)| (id, (packs.len(), location))));
            packs.push(reader);
        }
        Ok(Self { folder, packs, index, upstream: None })
    }

    /// The chunks of snapshot files of the existing Mneme.
    pub fn of_upstream(recording: &Path, chunks: Arc<upstream::Chunks>) -> Self {
        Self { folder: recording.to_path_buf(), packs: Vec::new(), index: HashMap::new(), upstream: Some(chunks) }
    }

    pub fn contains(&self, id: &ChunkId) -> bool {
        id.is_zero() || self.index.contains_key(id) || self.upstream.as_ref().is_some_and(|chunks| chunks.contains(id))
    }

    /// Decodes one chunk into `out`, whose length must be the chunk's, and checks it against its identity.
    pub fn read_chunk(&self, id: &ChunkId, out: &mut [u8]) -> Result<(), RecordingError> {
        if id.is_zero() {
            out.fill(0);
            return Ok(());
        }
        if let Some(chunks) = &self.upstream
            && chunks.read(id, out)?
        {
            return Ok(());
        }
        let (pack, location) = self
            .index
            .get(id)
            .ok_or_else(|| RecordingError::MissingChunk { path: self.folder.clone(), chunk: id.to_string() })?;
        self.packs[*pack]
            .read(id, location, out)
            .or_else(|error| if self.read_elsewhere(id, *pack, out) { Ok(()) } else { Err(error) })
    }

    /// Reads a chunk that is damaged in one pack from another pack: a writer that found the damage may have written the
    /// chunk again.
    fn read_elsewhere(&self, id: &ChunkId, damaged: usize, out: &mut [u8]) -> bool {
        let mut others = self.packs.iter().enumerate().filter(|(number, _)| *number != damaged);
        others.any(|(_, pack)| {
            let entries = pack.entries().unwrap_or_default();
            let mut places = entries.iter().filter(|(known, _)| known == id);
            places.any(|(_, location)| pack.read(id, location, out).is_ok())
        })
    }

    /// Decodes a region into `out` (`region.size` bytes), on all cores.
    pub fn read_region(&self, region: &RecordedRegion<'_>, out: &mut [u8]) -> Result<(), RecordingError> {
        assert_eq!(out.len() as u64, region.size, "the buffer must have the region's size");
        out.par_chunks_mut(CHUNK as usize).zip(region.chunks).try_for_each(|(out, id)| self.read_chunk(id, out))
    }
}

/// Hashes identities by their first bytes, as identities are hashes already.
#[derive(Default)]
struct ById(u64);

impl Hasher for ById {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |low| u64::from_le_bytes(*low));
    }
    fn write_usize(&mut self, _length: usize) {}
    fn finish(&self) -> u64 {
        self.0
    }
}

type Ids = HashSet<ChunkId, BuildHasherDefault<ById>>;

#[derive(Default)]
struct Chunks {
    /// Chunks in a pack, or claimed by a thread that will append them.
    known: Ids,
    /// Claimed, but not stored.
    lost: Ids,
}

/// Adds chunks. Threads share it, and each writes a separate pack.
///
/// Storing has two steps, so one thread can claim a chunk and another can write it later: [`StoreWriter::claim`]
/// returns which chunks are new, and [`StoreWriter::append`] writes them. If a claimed chunk cannot be written, it is
/// [lost](Self::lost) for all who rely on it, until it is claimed and written again.
pub struct StoreWriter {
    folder: PathBuf,
    level: i32,
    chunks: Mutex<Chunks>,
    writers: Vec<Mutex<Option<PackWriter>>>,
    /// Packs of other writers, which may not be synced yet, and the chunks in them that this writer skips; until this
    /// writer's first sync.
    others: Mutex<Vec<(pack::PackPrefix, Vec<ChunkId>)>>,
    written: AtomicU64,
    in_use: Mutex<InUse>,
}

/// How long to wait for the lock on the packs. A garbage collection holds it for seconds; only a stopped process holds
/// it for longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// The maximum number of concurrent writers.
const MOST_WRITERS: usize = 16;
/// Stack size of a thread that stores a region, bytes.
const STACK: usize = 512 << 10;

impl StoreWriter {
    /// Opens the store of a recording folder, and creates it (0700) if it is missing. `level` is zstd's; chunks in
    /// other packs of the folder are not written again.
    ///
    /// # Errors
    /// The folder cannot be written to, or another process keeps the lock on the packs
    /// ([`TimedOut`](io::ErrorKind::TimedOut)).
    pub fn open(recording: &Path, level: i32) -> Result<Self, RecordingError> {
        Self::open_within(recording, level, PATIENCE)
    }

    fn open_within(recording: &Path, level: i32, patience: Duration) -> Result<Self, RecordingError> {
        let folder = recording.join(FOLDER);
        create_private_folder(&folder)?;
        let in_use = InUse::mark(&folder, patience)?; // before the packs are listed
        let mut others = Vec::new();
        for path in pack::files(&folder)? {
            let (reader, entries) = PackReader::open(&path)?;
            others.push((reader.extent(), entries.into_iter().map(|(id, _)| id).collect::<Vec<_>>()));
        }
        let known = others.iter().flat_map(|(_, ids)| ids).copied().collect();
        let chunks = Chunks { known, lost: Ids::default() };
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_WRITERS);
        let writers = (0..workers).map(|_| Mutex::new(None)).collect();
        let (chunks, others) = (Mutex::new(chunks), Mutex::new(others));
        Ok(Self { folder, level, chunks, writers, others, written: AtomicU64::new(0), in_use: Mutex::new(in_use) })
    }

    /// The number of threads that can append at a time, and the exclusive upper bound of `writer` in
    /// [`StoreWriter::append`].
    pub fn writers(&self) -> usize {
        self.writers.len()
    }

    fn chunks(&self) -> MutexGuard<'_, Chunks> {
        // The two sets of identities stay valid after any panic.
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For each identity, whether the caller must append the chunk: it is not zero, not stored and not claimed by
    /// another thread.
    pub fn claim<'a>(&self, ids: impl IntoIterator<Item = &'a ChunkId>) -> Vec<bool> {
        let mut chunks = self.chunks();
        ids.into_iter().map(|id| !id.is_zero() && chunks.known.insert(*id)).collect()
    }

    /// Gives up claimed chunks that will not be appended.
    pub fn lose<'a>(&self, ids: impl IntoIterator<Item = &'a ChunkId>) {
        let mut chunks = self.chunks();
        for id in ids {
            chunks.known.remove(id);
            chunks.lost.insert(*id);
        }
    }

    /// Whether one of these chunks has been lost.
    pub fn lost<'a>(&self, ids: impl IntoIterator<Item = &'a ChunkId>) -> bool {
        let chunks = self.chunks();
        !chunks.lost.is_empty() && ids.into_iter().any(|id| chunks.lost.contains(id))
    }

    /// Stores one chunk (at most [`CHUNK`] bytes) unless it is stored already, and returns its identity.
    pub fn put(&self, bytes: &[u8]) -> Result<ChunkId, RecordingError> {
        self.put_with(0, bytes)
    }

    /// Stores a region on all cores; returns one identity for each [`CHUNK`] bytes.
    pub fn put_region(&self, bytes: &[u8]) -> Result<Vec<ChunkId>, RecordingError> {
        let chunks: Vec<&[u8]> = bytes.chunks(CHUNK as usize).collect();
        // These threads end here; a pool's threads would stay in the application's process.
        let workers = self.writers.len().min(chunks.len() / 16).max(1);
        if workers == 1 {
            return chunks.into_iter().map(|chunk| self.put(chunk)).collect();
        }
        let next = AtomicUsize::new(0);
        let parts = std::thread::scope(|scope| {
            let work = |worker: usize| {
                let mut done = Vec::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(chunk) = chunks.get(index) else { return Ok(done) };
                    done.push((index, self.put_with(worker, chunk)?));
                }
            };
            // If the system refuses more threads, the existing ones do all the work.
            let helpers: Vec<_> = (1..workers)
                .map_while(|worker| own_threads::start_in(scope, STACK, move || work(worker)).ok())
                .collect();
            let own = work(0);
            let joined = helpers.into_iter().map(|helper| {
                helper.join().unwrap_or_else(|_| Err(RecordingError::damaged(&self.folder, "a writer thread panicked")))
            });
            std::iter::once(own).chain(joined).collect::<Result<Vec<Vec<_>>, _>>()
        })?;
        let mut ids = vec![ChunkId::ZERO; chunks.len()];
        for (index, id) in parts.into_iter().flatten() {
            ids[index] = id;
        }
        Ok(ids)
    }

    fn put_with(&self, writer: usize, bytes: &[u8]) -> Result<ChunkId, RecordingError> {
        let id = recorded_id(bytes);
        if self.claim([&id]) == [true] {
            self.append(writer, &id, bytes)?;
        }
        Ok(id)
    }

    /// Appends a claimed chunk to the pack of a writer, and returns the number of bytes that it takes; if the chunk
    /// cannot be written, it is lost.
    pub fn append(&self, writer: usize, id: &ChunkId, bytes: &[u8]) -> Result<u64, RecordingError> {
        let result = self.try_append(writer, id, bytes);
        match &result {
            Ok(bytes) => {
                self.written.fetch_add(*bytes, Ordering::Relaxed);
                let mut chunks = self.chunks();
                if !chunks.lost.is_empty() {
                    chunks.lost.remove(id);
                }
            }
            Err(_) => self.lose([id]),
        }
        result
    }

    fn try_append(&self, writer: usize, id: &ChunkId, bytes: &[u8]) -> Result<u64, RecordingError> {
        let mut writer = self.writer(writer);
        let pack = match &mut *writer {
            Some(pack) => pack,
            empty => empty.insert(PackWriter::create(&self.folder, self.level)?),
        };
        pack.append(id, bytes)
    }

    fn writer(&self, number: usize) -> MutexGuard<'_, Option<PackWriter>> {
        // A pack's entries always describe complete chunks.
        self.writers[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all appended chunks durable, and the chunks in other writers' packs that this writer relies on. Call this
    /// before you save a manifest that names them.
    ///
    /// Chunks that cannot be made durable are lost: the kernel drops such pages and reports the error once, so a second
    /// attempt on the same pack would falsely succeed.
    pub fn sync(&self) -> Result<(), RecordingError> {
        self.keep_in_use()?;
        let mut outcome = Ok(());
        for number in 0..self.writers() {
            let mut writer = self.writer(number);
            if let Some(error) = writer.as_mut().and_then(|pack| pack.sync().err()) {
                self.lose(writer.take().iter().flat_map(PackWriter::chunks));
                outcome = Err(error);
            }
        }
        for (pack, ids) in self.others.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if !pack.sync() {
                self.lose(&ids);
            }
        }
        // Syncs the names of new packs; a file system that cannot sync a folder keeps them in order by itself.
        let _ = File::open(&self.folder).and_then(|folder| folder.sync_all());
        outcome
    }

    /// Marks the packs as used again if the application has closed the mark. A writer that reopens its packs notices
    /// chunks that were collected meanwhile.
    fn keep_in_use(&self) -> Result<(), RecordingError> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if !in_use.0.is_open() {
            *in_use = InUse::mark(&self.folder, PATIENCE)?;
        }
        Ok(())
    }

    /// Bytes appended to packs by this writer.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Closes the packs and writes their indexes. An unfinished store is readable too, but more slowly.
    pub fn finish(&self) -> Result<(), RecordingError> {
        let mut outcome = Ok(());
        for number in 0..self.writers() {
            if let Some(pack) = self.writer(number).take() {
                outcome = outcome.and(pack.finish());
            }
        }
        outcome
    }
}

/// A lock on the folder of packs. Writers share it, because chunks without a manifest (their own, and old ones that
/// they rely on) must stay; the garbage collector takes it exclusively.
pub(crate) struct InUse(OwnedFile);

impl InUse {
    fn open(folder: &Path) -> Result<Self, RecordingError> {
        File::open(folder).and_then(OwnedFile::new).map(Self).map_err(RecordingError::io(folder))
    }

    /// Marks the packs as used. Without file locks in the file system, this does nothing. Any process that can read the
    /// folder can lock it, and keep the lock for as long as it likes.
    fn mark(folder: &Path, patience: Duration) -> Result<Self, RecordingError> {
        let mark = Self::open(folder)?;
        let deadline = Instant::now() + patience;
        loop {
            match mark.0.get().map_err(RecordingError::io(folder))?.try_lock_shared() {
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return Ok(mark),
            }
            if Instant::now() >= deadline {
                let error = "another process has locked the folder for too long: mneme clean, if it is stopped (kill -CONT lets it go on), or a program that locks files";
                return Err(RecordingError::io(folder)(io::Error::new(io::ErrorKind::TimedOut, error)));
            }
            // This wait has a deadline, so it counts as progress.
            progress::note_step();
            std::thread::sleep(PAUSE);
        }
    }

    /// The exclusive lock for removing chunks; `None` while a writer is at work.
    pub(crate) fn alone(folder: &Path) -> Result<Option<Self>, RecordingError> {
        let lock = Self::open(folder)?;
        let busy = matches!(lock.0.get().map(File::try_lock), Ok(Err(TryLockError::WouldBlock)));
        Ok((!busy).then_some(lock))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Closing the folder is not enough: a child that was forked meanwhile also has it open.
        let _ = self.0.get().and_then(File::unlock);
    }
}

/// Fails if this user may not add files to a folder or remove them.
pub fn check_writable(folder: &Path) -> Result<(), RecordingError> {
    nix::unistd::access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
        .map_err(|error| RecordingError::io(folder)(error.into()))
}

/// Creates a folder (and its parents) that only its owner can read.
pub fn create_private_folder(folder: &Path) -> Result<(), RecordingError> {
    private::create_folder_quietly(folder).map_err(RecordingError::io(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_is_named_like_a_pack_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        drop(StoreWriter::open(folder.path(), 1).unwrap());
        let pipe = folder.path().join(FOLDER).join("0.pack");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for refused in [Store::open(folder.path()).err(), StoreWriter::open(folder.path(), 1).err()] {
            assert!(matches!(refused, Some(RecordingError::Io { path, .. }) if path == pipe));
        }
    }

    fn packs(folder: &Path) -> Vec<PathBuf> {
        pack::files(&folder.join(FOLDER)).unwrap()
    }

    #[test]
    fn a_lock_that_somebody_keeps_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let open = |patience| StoreWriter::open_within(folder.path(), 1, patience);
        drop(open(PATIENCE).unwrap());
        let held = InUse::alone(&folder.path().join(FOLDER)).unwrap().unwrap();
        let refused = open(Duration::from_millis(30)).err().unwrap();
        assert!(matches!(refused, RecordingError::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| open(Duration::from_secs(60)).is_ok());
            std::thread::sleep(Duration::from_millis(30));
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn chunks_that_another_writer_takes_back_are_lost_for_those_who_relied_on_them() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = ([1; 100], [2; 100]);
        let writer = StoreWriter::open(folder.path(), 1).unwrap();
        let first = writer.put(&one).unwrap();
        writer.sync().unwrap();
        let second = writer.put(&two).unwrap();
        let length = packs(folder.path())[0].metadata().unwrap().len();
        // Another process finds both chunks, the second not yet on disk, and writes neither.
        let other = StoreWriter::open(folder.path(), 1).unwrap();
        let relied = [other.put(&one).unwrap(), other.put(&two).unwrap()];
        assert_eq!(relied, [first, second]);
        assert_eq!(other.written(), 0);
        // The disk fails, and the chunk's writer removes it.
        File::options().write(true).open(&packs(folder.path())[0]).unwrap().set_len(length - 1).unwrap();
        other.sync().unwrap();
        assert!(other.lost(&relied), "a manifest may not name what is not there");
        // The next instance writes it again.
        other.put(&one).unwrap();
        other.put(&two).unwrap();
        other.sync().unwrap();
        assert!(!other.lost(&relied));
        assert!(Store::open(folder.path()).unwrap().contains(&second));
    }

    #[test]
    fn a_chunk_that_one_pack_has_lost_is_read_from_another() {
        let folder = tempfile::tempdir().unwrap();
        // Incompressible bytes, so most of the pack is the chunk.
        let bytes: Vec<u8> = (0..CHUNK).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
        let writers = [(); 2].map(|()| StoreWriter::open(folder.path(), 1).unwrap());
        let [id, _] = writers.each_ref().map(|writer| writer.put(&bytes).unwrap());
        drop(writers);
        let [one, other] = packs(folder.path()).try_into().unwrap();
        for (damaged, whole) in [(&one, &other), (&other, &one)] {
            let good = std::fs::read(damaged).unwrap();
            let mut bad = good.clone();
            let middle = bad.len() / 2;
            bad[middle..middle + 100].fill(0);
            std::fs::write(damaged, bad).unwrap();
            let mut out = vec![0; bytes.len()];
            Store::open(folder.path()).unwrap().read_chunk(&id, &mut out).unwrap();
            assert!(out == bytes, "{} is as it was", whole.display());
            std::fs::write(damaged, good).unwrap();
        }
        for path in [one, other] {
            let length = path.metadata().unwrap().len();
            File::options().write(true).open(path).unwrap().set_len(length - 1).unwrap();
        }
        assert!(Store::open(folder.path()).unwrap().read_chunk(&id, &mut vec![0; bytes.len()]).is_err());
    }
}
