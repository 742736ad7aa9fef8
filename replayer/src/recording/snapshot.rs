//! The recorded memory, decoded once into memory that all processes of a replay share.
//!
//! The layout follows from the manifests alone, so every process computes the same one before decoding. First come the
//! prologue's regions, each contiguous, so runs of chunks are uploaded in one copy. Next come the epilogue's chunks
//! that differ from the prologue's, and chunks that replace the prologue's at the start of runs, in which the bytes of
//! a [`PoisonMap`] are filled. Chunks of zeros are never touched: new shared memory reads as zeros and costs no memory.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use mneme_model::hash::ChunkId;
use mneme_model::images::{Images, RecordedArray};
use mneme_model::tolerance::Tolerance;
use mneme_recording::RecordingError;
use mneme_recording::manifest::{AnnotatedPart, CHUNK, MemoryState};
use mneme_recording::mask::Mask;
use mneme_recording::poison::{PATTERN, PoisonMap};
use mneme_recording::store::Store;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mprotect, munmap};
use rayon::prelude::*;

use crate::recording::instance::RecordedInstance;

/// Devices have no addresses from here on: x86-64 and NVIDIA's GPUs translate at most 57 bits.
const ADDRESS_END: u64 = 1 << 57;

/// A region of recorded memory, and the place of its prologue in the shared memory.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotRegion {
    /// The name of the device variable, or `None` for an allocation.
    pub variable: Option<String>,
    /// Whether it is in constant memory.
    pub constant: bool,
    /// A constant table of function addresses.
    pub code: bool,
    /// Offsets of other words whose initial values are functions.
    functions: Vec<u64>,
    pub tag: String,
    /// The comparison that the application requested.
    pub tolerance: Option<Tolerance>,
    /// Its ranges with separate annotations.
    pub annotated: Vec<AnnotatedPart>,
    /// Whether others could write to it while it was recorded.
    pub shared: bool,
    /// The array whose texels these are.
    pub array: Option<RecordedArray>,
    pub address: u64,
    pub size: u64,
    /// Offset of the prologue in the shared memory, bytes.
    offset: usize,
    /// The chunks before the launch.
    pub chunks: Vec<ChunkId>,
    /// The chunks that the launch changed, ascending.
    pub changed: Vec<Changed>,
    /// The chunks that are partly filled before each run, ascending.
    pub poisoned: Vec<Poisoned>,
    /// Bytes that the launch writes, if it changes none of the region and reads them first.
    pub unshown: u64,
}

/// A chunk with bytes that the kernel only writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Poisoned {
    /// The index of the chunk in the region.
    pub index: usize,
    pub mask: Arc<Mask>,
    /// Offset in the shared memory of the bytes at the start of runs.
    offset: usize,
}

/// A chunk that differs in the epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The index of the chunk in the region.
    pub index: usize,
    pub id: ChunkId,
    /// Offset of the epilogue's bytes in the shared memory, bytes.
    offset: usize,
}

impl Changed {
    /// Offset of the epilogue's bytes in the shared memory.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }
}

/// The layout of the shared memory.
#[derive(Debug, Default, PartialEq)]
pub struct SnapshotLayout {
    pub regions: Vec<SnapshotRegion>,
    /// The arrays and objects of the launch.
    pub images: Images,
    bytes: usize,
}

/// How an epilogue does not fit its prologue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum MomentMisfit {
    #[error("it lacks the region of {size} bytes at {address:#x}")]
    Missing { address: u64, size: u64 },
    #[error("it has another size for the region of {size} bytes at {address:#x}")]
    Size { address: u64, size: u64 },
    #[error("the region of {size} bytes at {address:#x} is outside every device's memory")]
    Outside { address: u64, size: u64 },
    #[error("it has a region at {0:#x} that the prologue lacks")]
    Additional(u64),
}

impl SnapshotLayout {
    /// Lays out both moments of a recording.
    pub fn of(recorded: &RecordedInstance) -> Result<Self, RecordingError> {
        Self::between(&recorded.moments.prologue, &recorded.moments.epilogue)
            .map_err(|misfit| RecordingError::damaged(recorded.folder.join(&recorded.instance.epilogue), misfit))
    }

    fn between(prologue: &MemoryState, epilogue: &MemoryState) -> Result<Self, MomentMisfit> {
        let key = |variable: Option<&mneme_recording::manifest::RecordedVariable>, address: u64| {
            (variable.map(|it| it.name.clone()), address)
        };
        let mut after: HashMap<_, _> =
            epilogue.regions().map(|region| (key(region.variable, region.address), region)).collect();
        let images = prologue.header.images.clone();
        let arrays: HashMap<u64, RecordedArray> = images.arrays.iter().map(|array| (array.address, *array)).collect();
        let mut layout = Self { images, ..Self::default() };
        for before in prologue.regions() {
            let (address, size) = (before.address, before.size);
            let after = after.remove(&key(before.variable, address)).ok_or(MomentMisfit::Missing { address, size })?;
            if after.size != size {
                return Err(MomentMisfit::Size { address, size });
            }
            if address.checked_add(size).is_none_or(|end| end > ADDRESS_END) {
                return Err(MomentMisfit::Outside { address, size });
            }
            if before.size == 0 {
                continue;
            }
            layout.regions.push(SnapshotRegion {
                variable: before.variable.map(|variable| variable.name.clone()),
                constant: before.variable.is_some_and(|variable| variable.constant),
                code: before.variable.is_some_and(|variable| variable.code),
                functions: before.variable.map_or_else(Vec::new, |variable| variable.functions.clone()),
                tag: before.tag.to_owned(),
                tolerance: before.tolerance,
                annotated: before.parts.to_vec(),
                shared: before.shared,
                array: arrays.get(&before.address).copied().filter(|_| before.variable.is_none()),
                address: before.address,
                size: before.size,
                offset: layout.bytes,
                chunks: before.chunks.to_vec(),
                changed: Vec::new(),
                poisoned: Vec::new(),
                unshown: 0,
            });
            layout.bytes += before.chunks.len() * CHUNK as usize;
            // The epilogue's offsets follow when the prologue's end is known.
            let differing =
                before.chunks.iter().zip(after.chunks).enumerate().filter(|(_, (before, after))| before != after);
            let changed = differing.map(|(index, (_, after))| Changed { index, id: *after, offset: 0 }).collect();
            layout.regions.last_mut().expect("just pushed").changed = changed;
        }
        if let Some(((_, address), _)) = after.into_iter().next() {
            return Err(MomentMisfit::Additional(address));
        }
        let mut slots: HashMap<ChunkId, usize> = HashMap::new();
        for changed in layout.regions.iter_mut().flat_map(|region| &mut region.changed) {
            changed.offset = *slots.entry(changed.id).or_insert_with(|| {
                let slot = layout.bytes;
                layout.bytes += CHUNK as usize;
                slot
            });
        }
        Ok(layout)
    }

    /// Reserves chunks for the start of runs in which `map` fills bytes. Constants and tables of functions keep their
    /// recorded contents.
    pub fn poison(&mut self, map: &PoisonMap) {
        let masks: Vec<Arc<Mask>> = map.masks.iter().cloned().map(Arc::new).collect();
        for chunk in &map.chunks {
            let Some(mask) = masks.get(chunk.mask as usize) else { continue };
            let Some(region) = self.regions.get_mut(chunk.region as usize).filter(|it| it.can_be_poisoned()) else {
                continue;
            };
            if (chunk.chunk as usize) < region.chunks.len() {
                region.poisoned.push(Poisoned { index: chunk.chunk as usize, mask: mask.clone(), offset: self.bytes });
                self.bytes += CHUNK as usize;
            }
        }
        for unshown in &map.unshown {
            if let Some(region) = self.regions.get_mut(unshown.region as usize) {
                region.unshown = unshown.bytes.min(region.size);
            }
        }
        for region in &mut self.regions {
            region.poisoned.sort_by_key(|poisoned| poisoned.index);
            region.poisoned.dedup_by_key(|poisoned| poisoned.index);
        }
    }

    /// The size of recorded memory, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.size).sum()
    }

    /// The size of the shared memory that contains the prologue, bytes.
    pub fn prologue_bytes(&self) -> u64 {
        self.regions.last().map_or(0, |region| region.file_offset() + region.chunks.len() as u64 * CHUNK)
    }

    /// The parts to decode: identity, offset and length in the shared memory; each place once.
    fn parts(&self) -> Vec<(ChunkId, usize, usize)> {
        let mut parts = Vec::new();
        for region in &self.regions {
            let length = |index: usize| (region.size - index as u64 * CHUNK).min(CHUNK) as usize;
            for (index, id) in region.chunks.iter().enumerate() {
                parts.push((*id, region.offset + index * CHUNK as usize, length(index)));
            }
            parts.extend(region.changed.iter().map(|changed| (changed.id, changed.offset, length(changed.index))));
        }
        parts.retain(|(id, ..)| !id.is_zero());
        parts.sort_unstable_by_key(|(_, offset, _)| *offset);
        parts.dedup_by_key(|(_, offset, _)| *offset);
        parts
    }
}

/// The buffer that contains a byte: a device variable, an allocation, or an annotated part of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffer<'a> {
    /// The name of the device variable, or `None`.
    pub variable: Option<&'a str>,
    /// The tag of an allocation or a part, or "".
    pub tag: &'a str,
    /// Offset in the region, bytes.
    pub offset: u64,
    pub address: u64,
    pub size: u64,
}

impl SnapshotRegion {
    /// The buffer that contains the byte at an offset.
    pub fn buffer_at(&self, offset: u64) -> Buffer<'_> {
        match self.annotated.iter().find(|part| part.range().contains(&offset)) {
            Some(AnnotatedPart { offset, size, annotation }) => Buffer {
                variable: None,
                tag: &annotation.tag,
                offset: *offset,
                address: self.address + offset,
                size: *size,
            },
            None => {
                let variable = self.variable.as_deref();
                // The tag of a variable is its name.
                let tag = if variable.is_some() { "" } else { &self.tag };
                Buffer { variable, tag, offset: 0, address: self.address, size: self.size }
            }
        }
    }

    /// Offsets of words (8 bytes) that refer to functions of the module when it is loaded.
    pub fn function_words(&self) -> Vec<u64> {
        let last = if self.code { self.size / 8 } else { 0 };
        (0..last).map(|word| word * 8).chain(self.functions.iter().copied()).collect()
    }

    /// The place of the prologue in the shared memory, bytes.
    pub fn file_offset(&self) -> u64 {
        self.offset as u64
    }

    /// Offset in the shared memory of a byte before the launch.
    pub fn offset_before(&self, at: u64) -> u64 {
        self.offset as u64 + at
    }

    /// Offset and length of chunk `index` in the region, bytes.
    pub fn extent(&self, index: usize) -> (u64, u64) {
        let offset = index as u64 * CHUNK;
        (offset, (self.size - offset).min(CHUNK))
    }

    /// The identity of chunk `index` after the launch.
    pub fn id_after(&self, index: usize) -> ChunkId {
        self.change_of(index).map_or(self.chunks[index], |changed| changed.id)
    }

    /// The change of chunk `index` by the launch, if any.
    pub fn change_of(&self, index: usize) -> Option<&Changed> {
        self.changed.binary_search_by_key(&index, |changed| changed.index).ok().map(|found| &self.changed[found])
    }

    /// The filling of chunk `index` before a run, if any.
    pub fn poison_of(&self, index: usize) -> Option<&Poisoned> {
        self.poisoned.binary_search_by_key(&index, |poisoned| poisoned.index).ok().map(|found| &self.poisoned[found])
    }

    /// Whether its bytes may be filled before a run.
    pub fn can_be_poisoned(&self) -> bool {
        !self.constant && !self.code
    }

    /// Runs of chunks before the launch that are not zero: offset and length in the region, bytes.
    pub fn nonzero_runs(&self) -> Vec<(u64, u64)> {
        let nonzero = self.chunks.iter().enumerate().filter(|(_, id)| !id.is_zero());
        coalesce(nonzero.map(|(index, _)| self.extent(index)))
    }
}

/// Joins adjacent stretches (offset, length), which must be ascending.
pub fn coalesce(stretches: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in stretches {
        match runs.last_mut() {
            Some((start, run)) if *start + *run >= offset => *run = (*run).max(offset + length - *start),
            _ => runs.push((offset, length)),
        }
    }
    runs
}

/// Shared memory with a layout.
pub struct Snapshot {
    pub layout: SnapshotLayout,
    memory: NonNull<u8>,
    /// The same memory as a file, which other programs can map.
    file: OwnedFd,
}

impl Snapshot {
    /// Reserves memory for a snapshot, which later forks share. Decodes no chunk yet.
    pub fn reserve(layout: SnapshotLayout) -> nix::Result<Self> {
        let length = NonZeroUsize::new(layout.bytes.max(1)).expect("at least one");
        let file = memfd_create(c"snapshot", MFdFlags::MFD_CLOEXEC)?;
        nix::unistd::ftruncate(&file, length.get() as i64)?;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the system's choice replaces nothing.
        let memory = unsafe { mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags, &file, 0) }?;
        // Works only if the system allows it (/sys/kernel/mm/transparent_hugepage/shmem_enabled); it only affects
        // speed.
        // SAFETY: the mapping was just made and has this length; the advice does not change its contents.
        let _ = unsafe { madvise(memory, length.get(), MmapAdvise::MADV_HUGEPAGE) };
        Ok(Self { layout, memory: memory.cast(), file })
    }

    /// Decodes all chunks, on all cores. Only the decoder child may call this, once, before other processes read.
    pub fn decode(&self, store: &Store) -> Result<(), RecordingError> {
        // SAFETY: the mapping has this length; until the decoder has finished, only it accesses the memory.
        let mut rest = unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.layout.bytes) };
        let mut start = 0;
        let mut work = Vec::new();
        for (id, offset, length) in self.layout.parts() {
            let (_, at) = rest.split_at_mut(offset - start);
            let (part, after) = at.split_at_mut(length);
            work.push((id, part));
            rest = after;
            start = offset + length;
        }
        work.into_par_iter().try_for_each(|(id, part)| store.read_chunk(&id, part))?;
        self.fill_poison();
        Ok(())
    }

    /// Makes the chunks for the start of runs, with filled bytes. Both moments must be decoded.
    fn fill_poison(&self) {
        let regions = self.layout.regions.iter();
        let all: Vec<_> = regions.flat_map(|region| region.poisoned.iter().map(move |it| (region, it))).collect();
        all.into_par_iter().for_each(|(region, poisoned)| {
            let (offset, length) = region.extent(poisoned.index);
            assert!(poisoned.offset + length as usize <= self.layout.bytes, "a chunk is inside the snapshot");
            // SAFETY: inside the mapping, in a place for this chunk alone; it is read only after the decoder has
            // finished.
            let start =
                unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(poisoned.offset), length as usize) };
            start.copy_from_slice(self.before(region, offset, length));
            poisoned.mask.fill(start, self.after(region, poisoned.index), PATTERN);
        });
    }

    /// Forbids this process to write to the memory, which protects it from wild writes of kernels on the CPU device.
    pub fn seal(&self) -> nix::Result<()> {
        // SAFETY: the mapping is this object's and has this length; a process that seals it only reads it.
        unsafe { mprotect(self.memory.cast(), self.layout.bytes.max(1), ProtFlags::PROT_READ) }
    }

    /// Also forbids this process to read the memory until it is sealed again, so a kernel in this process cannot find
    /// the recorded result there.
    pub fn hide(&self) -> nix::Result<()> {
        // SAFETY: as above; a process that hides it does not read it before it is sealed again.
        unsafe { mprotect(self.memory.cast(), self.layout.bytes.max(1), ProtFlags::PROT_NONE) }
    }

    /// The memory as a file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        assert!(offset + length <= self.layout.bytes, "a stretch is inside the snapshot");
        // SAFETY: inside the mapping; only the decoder writes it, and it finishes before anything is read.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(offset), length) }
    }

    /// The contents of a stretch of a region before the launch.
    pub fn before(&self, region: &SnapshotRegion, offset: u64, length: u64) -> &[u8] {
        assert!(offset + length <= region.size, "a stretch is inside its region");
        self.bytes(region.offset + offset as usize, length as usize)
    }

    /// The contents of a chunk of a region at the start of a run: those before the launch, with the bytes filled that
    /// the kernel only writes.
    pub fn start(&self, region: &SnapshotRegion, index: usize) -> &[u8] {
        let (offset, length) = region.extent(index);
        match region.poison_of(index) {
            Some(poisoned) => self.bytes(poisoned.offset, length as usize),
            None => self.before(region, offset, length),
        }
    }

    /// The contents of a chunk of a region after the launch.
    pub fn after(&self, region: &SnapshotRegion, index: usize) -> &[u8] {
        let (offset, length) = region.extent(index);
        match region.change_of(index) {
            Some(changed) => self.bytes(changed.offset, length as usize),
            None => self.before(region, offset, length),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's, and slices of it do not outlive the object.
        let _ = unsafe { munmap(self.memory.cast(), self.layout.bytes.max(1)) };
    }
}

// SAFETY: shared references only read, and writing ends when the decoder has finished.
unsafe impl Sync for Snapshot {}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Moment;
    use mneme_recording::manifest::{Allocation, AllocationKind, Header};
    use mneme_recording::store::StoreWriter;

    fn state(moment: Moment, chunks: Vec<ChunkId>, size: u64) -> MemoryState {
        let allocation =
            Allocation { address: 0x1000_0000_0000, size, kind: AllocationKind::Arena, ..Allocation::default() };
        MemoryState {
            header: Header { moment, allocations: vec![allocation], ..Header::default() },
            chunks: vec![chunks],
        }
    }

    #[test]
    fn both_moments_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let size = 3 * CHUNK + 100;
        let before: Vec<u8> = (0..size).map(|at| if at < CHUNK { 0 } else { (at % 251) as u8 }).collect();
        let mut after = before.clone();
        after[5] = 1;
        after[size as usize - 1] ^= 0xff;
        let writer = StoreWriter::open(folder.path(), 1).unwrap();
        let prologue = state(Moment::Prologue, writer.put_region(&before).unwrap(), size);
        let epilogue = state(Moment::Epilogue, writer.put_region(&after).unwrap(), size);
        writer.finish().unwrap();

        let snapshot = Snapshot::reserve(SnapshotLayout::between(&prologue, &epilogue).unwrap()).unwrap();
        snapshot.decode(&Store::open(folder.path()).unwrap()).unwrap();
        let region = &snapshot.layout.regions[0];
        assert_eq!(region.changed.iter().map(|changed| changed.index).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(region.nonzero_runs(), [(CHUNK, 2 * CHUNK + 100)]);
        assert!(snapshot.before(region, 0, size) == before);
        let found: Vec<u8> = (0..4).flat_map(|index| snapshot.after(region, index)).copied().collect();
        assert!(found == after);
        assert_eq!((0..4).map(|index| region.id_after(index)).collect::<Vec<_>>(), epilogue.chunks[0]);
    }

    #[test]
    fn bytes_that_the_kernel_only_writes_are_filled() {
        let folder = tempfile::tempdir().unwrap();
        let size = CHUNK + 100;
        let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let writer = StoreWriter::open(folder.path(), 1).unwrap();
        let both = state(Moment::Prologue, writer.put_region(&bytes).unwrap(), size);
        writer.finish().unwrap();
        let mut layout = SnapshotLayout::between(&both, &both).unwrap();
        let mut mask = Mask::default();
        mask.set(3, true);
        let mut map = PoisonMap::default();
        map.add(0, 1, &mask);
        map.add(0, 7, &mask);
        map.add(9, 0, &mask);
        layout.poison(&map);
        let snapshot = Snapshot::reserve(layout).unwrap();
        snapshot.decode(&Store::open(folder.path()).unwrap()).unwrap();
        let region = &snapshot.layout.regions[0];
        assert_eq!(region.poisoned.iter().map(|poisoned| poisoned.index).collect::<Vec<_>>(), [1]);
        let mut expected = bytes[CHUNK as usize..].to_vec();
        expected[3] ^= PATTERN;
        assert_eq!(snapshot.start(region, 1), expected);
        assert_eq!(snapshot.before(region, CHUNK, 100), &bytes[CHUNK as usize..], "the recorded bytes stay");
        assert_eq!(snapshot.start(region, 0), snapshot.before(region, 0, CHUNK));
    }

    #[test]
    fn a_chunk_that_recurs_in_the_epilogue_has_one_place() {
        let zeros = vec![ChunkId::ZERO; 4];
        let mut ones = zeros.clone();
        ones[1] = ChunkId([1; 16]);
        ones[2] = ChunkId([1; 16]);
        let layout = SnapshotLayout::between(
            &state(Moment::Prologue, zeros, 4 * CHUNK),
            &state(Moment::Epilogue, ones, 4 * CHUNK),
        )
        .unwrap();
        assert_eq!(layout.parts().len(), 1);
        assert_eq!(layout.regions[0].changed.iter().map(|changed| changed.index).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn moments_that_do_not_belong_together_are_refused() {
        let one = state(Moment::Prologue, vec![ChunkId::ZERO], CHUNK);
        let other = state(Moment::Epilogue, vec![ChunkId::ZERO], CHUNK - 1);
        let misfit = |before: &MemoryState, after: &MemoryState| SnapshotLayout::between(before, after).err();
        assert!(matches!(misfit(&one, &other), Some(MomentMisfit::Size { .. })));
        assert!(matches!(misfit(&one, &MemoryState::default()), Some(MomentMisfit::Missing { .. })));
        assert!(matches!(misfit(&MemoryState::default(), &one), Some(MomentMisfit::Additional(_))));
        let mut far = one.clone();
        far.header.allocations[0].address = u64::MAX - CHUNK;
        assert!(matches!(misfit(&far, &far), Some(MomentMisfit::Outside { .. })));
    }

    #[test]
    fn a_variable_without_bytes_is_no_region() {
        let empty = state(Moment::Prologue, Vec::new(), 0);
        assert_eq!(SnapshotLayout::between(&empty, &empty).unwrap().regions, []);
    }

    #[test]
    fn what_is_sealed_can_only_be_read() {
        let snapshot =
            Snapshot::reserve(SnapshotLayout { bytes: CHUNK as usize, ..SnapshotLayout::default() }).unwrap();
        let permissions = || {
            let start = snapshot.memory.as_ptr() as usize;
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let covers = |line: &&str| {
                let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
                (usize::from_str_radix(from, 16).unwrap()..usize::from_str_radix(to, 16).unwrap()).contains(&start)
            };
            maps.lines().find(covers).unwrap().split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(permissions(), "rw-s");
        snapshot.seal().unwrap();
        assert_eq!(permissions(), "r--s");
    }

    #[test]
    fn stretches_that_touch_are_joined() {
        assert_eq!(coalesce([(0, 4), (4, 4), (16, 4)]), [(0, 8), (16, 4)]);
        assert_eq!(coalesce([(0, 8), (2, 2), (6, 6)]), [(0, 12)]);
        assert_eq!(coalesce([]), []);
    }
}
