//! Presents the memory of two snapshot files as chunks with identities.
//!
//! So it can be read like a recording in Mneme's format.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use mneme_image::elf::MappedFile;
use mneme_model::hash::{ChunkId, recorded_id};
use mneme_model::launch::Moment;
use mneme_model::tolerance::Tolerance;

use super::layout::{FileBlock, FileLayout, FileStretch, SnapshotKind, Unreadable};
use crate::error::RecordingError;
use crate::manifest::{
    Allocation, AllocationKind, CHUNK, Header, MemoryState, RecordedArgument, RecordedVariable, chunk_count,
};

/// The maximum size of a parameter buffer, bytes.
const MAX_PARAMETERS: usize = 64 * 1024;
/// The number of chunks that justify a thread.
const CHUNKS_OF_A_THREAD: usize = 64;

/// The places of the chunks' bytes.
pub struct Chunks {
    prologue: MappedFile,
    epilogue: MappedFile,
    path: PathBuf,
    regions: Vec<Region>,
    index: HashMap<ChunkId, ChunkPosition>,
}

struct Region {
    size: u64,
    before: FileStretch,
    /// Changes to the contents before; all contents if the epilogue is of kind bytes.
    after: Vec<FileStretch>,
}

/// A chunk: its region, its number there, and whether it is after the launch.
#[derive(Clone, Copy)]
struct ChunkPosition {
    region: usize,
    chunk: usize,
    after: bool,
}

pub(super) struct File {
    path: PathBuf,
    map: MappedFile,
    pub(super) layout: FileLayout,
}

impl File {
    pub(super) fn open(path: &Path) -> Result<Self, RecordingError> {
        let map = MappedFile::open(path).map_err(RecordingError::io(path))?;
        let layout = FileLayout::parse(map.bytes()).map_err(|why| match why {
            Unreadable::Damaged(what) => RecordingError::damaged(path, what),
            Unreadable::Version { found, supported } => RecordingError::Version { path: path.into(), found, supported },
        })?;
        Ok(Self { path: path.into(), map, layout })
    }

    fn damaged(&self, what: impl Display) -> RecordingError {
        RecordingError::damaged(&self.path, what)
    }
}

/// Bytes of memory that a snapshot describes.
pub fn memory_bytes(path: &Path) -> Result<u64, RecordingError> {
    File::open(path).map(|file| file.layout.memory_bytes())
}

/// Opens the two snapshots of an instance. Reads all memory once, to compute the chunks' identities.
pub fn open(prologue: &Path, epilogue: &Path) -> Result<(MemoryState, MemoryState, Chunks), RecordingError> {
    let (before, after) = (File::open(prologue)?, File::open(epilogue)?);
    if before.layout.kind != SnapshotKind::Bytes {
        return Err(before.damaged("a prologue is of kind bytes, this is a diff"));
    }
    let arguments = arguments(&before)?;
    let regions = regions(&before, &after)?;
    let header = |moment, arguments| {
        let variable = |block: &FileBlock| RecordedVariable {
            name: block.name.clone(),
            address: block.address,
            size: block.size,
            constant: false,
            code: false,
            functions: Vec::new(),
        };
        Header {
            moment,
            variables: before.layout.globals.iter().map(variable).collect(),
            allocations: before.layout.blobs.iter().map(allocation).collect(),
            arguments,
            ..Header::default()
        }
    };
    let headers = [header(Moment::Prologue, arguments), header(Moment::Epilogue, Vec::new())];
    let mut chunks =
        Chunks { prologue: before.map, epilogue: after.map, path: after.path, regions, index: HashMap::new() };
    let [old, new] = chunks.identify();
    let [before, after] = headers;
    Ok((MemoryState { header: before, chunks: old }, MemoryState { header: after, chunks: new }, chunks))
}

fn allocation(block: &FileBlock) -> Allocation {
    // Without an annotation, all fields are zero.
    let tolerance = Some(block.annotation.tolerance).filter(|tolerance| *tolerance != Tolerance::default());
    Allocation {
        address: block.address,
        size: block.size,
        kind: AllocationKind::Arena,
        tag: block.annotation.tag.clone(),
        tolerance,
        ..Allocation::default()
    }
}

/// The arguments, placed by C's rules: the file only contains their sizes. A caller that knows the kernel's signature
/// corrects the offsets.
fn arguments(file: &File) -> Result<Vec<RecordedArgument>, RecordingError> {
    let mut offset = 0usize;
    let mut arguments = Vec::new();
    for range in &file.layout.arguments {
        let alignment = if range.is_empty() {
            1
        } else {
            1 << range.len().trailing_zeros().min(if range.len() == 16 { 4 } else { 3 })
        };
        offset = offset.next_multiple_of(alignment);
        if offset + range.len() > MAX_PARAMETERS {
            return Err(file.damaged("its arguments are larger than any kernel's"));
        }
        arguments.push(RecordedArgument { offset: offset as u32, bytes: file.map.bytes()[range.clone()].to_vec() });
        offset += range.len();
    }
    Ok(arguments)
}

/// The prologue's blocks, each with the epilogue's data for it.
fn regions(before: &File, after: &File) -> Result<Vec<Region>, RecordingError> {
    let mut regions = Vec::new();
    let pairs = [(&before.layout.globals, &after.layout.globals), (&before.layout.blobs, &after.layout.blobs)];
    for (before, later) in pairs {
        let mut rest: HashMap<_, _> = later.iter().map(|block| ((block.name.as_str(), block.address), block)).collect();
        for block in before {
            let what = format!("the {} bytes at {:#x}", block.size, block.address);
            let changed = rest.remove(&(block.name.as_str(), block.address));
            let changed = changed.ok_or_else(|| after.damaged(format!("it says nothing of {what}")))?;
            if changed.size != block.size {
                return Err(after.damaged(format!("it has another size for {what}")));
            }
            let [whole] = block.stretches.as_slice() else { return Err(after.damaged("its prologue is a diff")) };
            regions.push(Region { size: block.size, before: whole.clone(), after: changed.stretches.clone() });
        }
        if let Some(block) = rest.into_values().next() {
            return Err(after.damaged(format!("it has memory at {:#x} that the prologue lacks", block.address)));
        }
    }
    Ok(regions)
}

impl Chunks {
    fn length(&self, place: ChunkPosition) -> usize {
        let region = &self.regions[place.region];
        (region.size - place.chunk as u64 * CHUNK).min(CHUNK) as usize
    }

    /// Whether the epilogue contains data for a chunk.
    fn is_touched(&self, place: ChunkPosition) -> bool {
        !self.patches(place).is_empty()
    }

    /// The epilogue's stretches that overlap a chunk.
    fn patches(&self, place: ChunkPosition) -> &[FileStretch] {
        let stretches = &self.regions[place.region].after;
        let start = place.chunk as u64 * CHUNK;
        let end = start + self.length(place) as u64;
        let first = stretches.partition_point(|stretch| stretch.end() <= start);
        let count = stretches[first..].partition_point(|stretch| stretch.offset < end);
        &stretches[first..first + count]
    }

    /// Reads a chunk into `out`, which has the chunk's length.
    fn fill(&self, place: ChunkPosition, out: &mut [u8]) {
        let start = place.chunk as u64 * CHUNK;
        let whole = &self.prologue.bytes()[self.regions[place.region].before.bytes.clone()];
        out.copy_from_slice(&whole[start as usize..start as usize + out.len()]);
        if !place.after {
            return;
        }
        for patch in self.patches(place) {
            let (from, to) = (patch.offset.max(start), patch.end().min(start + out.len() as u64));
            if from < to {
                let bytes = &self.epilogue.bytes()[patch.bytes.clone()];
                let bytes = &bytes[(from - patch.offset) as usize..(to - patch.offset) as usize];
                out[(from - start) as usize..(to - start) as usize].copy_from_slice(bytes);
            }
        }
    }

    /// The identities of all chunks before and after, by region; remembers the places of the chunks.
    fn identify(&mut self) -> [Vec<Vec<ChunkId>>; 2] {
        let mut places = Vec::new();
        for (region, it) in self.regions.iter().enumerate() {
            for chunk in 0..chunk_count(it.size) {
                places.push(ChunkPosition { region, chunk, after: false });
                let after = ChunkPosition { region, chunk, after: true };
                if self.is_touched(after) {
                    places.push(after);
                }
            }
        }
        let ids = self.hash(&places);
        let mut states = [(); 2]
            .map(|()| self.regions.iter().map(|it| vec![ChunkId::ZERO; chunk_count(it.size)]).collect::<Vec<_>>());
        for (place, id) in places.iter().zip(ids) {
            // The chunk before comes first, and also serves as the chunk after if the epilogue does not change it.
            if !place.after {
                states[0][place.region][place.chunk] = id;
            }
            states[1][place.region][place.chunk] = id;
            if !id.is_zero() {
                self.index.entry(id).or_insert(*place);
            }
        }
        states
    }

    /// Hashes on all cores. All threads have ended when this returns, so the caller may fork.
    fn hash(&self, places: &[ChunkPosition]) -> Vec<ChunkId> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(places.len() / CHUNKS_OF_A_THREAD).max(1);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut buffer = vec![0; CHUNK as usize];
            let mut done = Vec::new();
            loop {
                let start = next.fetch_add(CHUNKS_OF_A_THREAD, Ordering::Relaxed);
                let Some(part) =
                    places.get(start..(start + CHUNKS_OF_A_THREAD).min(places.len())).filter(|part| !part.is_empty())
                else {
                    return done;
                };
                let ids = part.iter().map(|place| {
                    let out = &mut buffer[..self.length(*place)];
                    self.fill(*place, out);
                    recorded_id(out)
                });
                done.push((start, ids.collect::<Vec<_>>()));
            }
        };
        let mut parts = std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            helpers
                .into_iter()
                .flat_map(|helper| helper.join().expect("hashing does not panic"))
                .chain(own)
                .collect::<Vec<_>>()
        });
        parts.sort_unstable_by_key(|(start, _)| *start);
        parts.into_iter().flat_map(|(_, ids)| ids).collect()
    }

    /// Reads a chunk into `out`, whose length must be the chunk's; false if the chunk is not here.
    pub fn read(&self, id: &ChunkId, out: &mut [u8]) -> Result<bool, RecordingError> {
        let Some(place) = self.index.get(id) else { return Ok(false) };
        if self.length(*place) != out.len() {
            return Err(RecordingError::damaged(&self.path, format!("chunk {id} has another length")));
        }
        self.fill(*place, out);
        Ok(true)
    }

    pub fn contains(&self, id: &ChunkId) -> bool {
        self.index.contains_key(id)
    }
}
