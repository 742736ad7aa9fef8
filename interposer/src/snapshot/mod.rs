//! Copies device memory into the chunk store.
//!
//! [`take`] hashes each region in chunks, looks the hashes up in the store, and fetches only the chunks that the store
//! lacks. NVIDIA GPUs hash their own memory (`hasher`). Memory of AMD GPUs, page-locked host memory and unaligned
//! regions are copied first and hashed on the host.
//!
//! New chunks gather in buffers, with as few copies as possible, and threads write them. When `take` returns, all new
//! chunks are in buffers, so the device may continue.

mod addresses;
pub mod arrays;
pub mod background;
pub mod buffers;
mod chunk_hash;
mod hasher;
mod pinned;
mod unreadable;

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mneme_abi::cuda::sys::{CUevent_flags, CUstream_flags};
use mneme_model::hash::{ChunkId, recorded_id};
use mneme_model::launch::Moment;
use mneme_recording::manifest::{
    Allocation, AllocationKind, CHUNK, Header, MemoryState, RecordedVariable, chunk_count,
};
use mneme_recording::store::StoreWriter;
use mneme_system::own_threads;

use crate::driver::waiting::{self, OwnStream};
use crate::driver::{self, Status};
use crate::process::log::debug;
use crate::process::{linker, own_memory, recorded_family, threads};
use background::{Background, Chunk, ChunkBatch};
use buffers::{Buffer, Pool};
use chunk_hash::Stretch;
use hasher::Hasher;

const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
const DISABLE_TIMING: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
/// How many buffers the device fills at a time.
const DEPTH: usize = 4;
/// The largest gap between small allocations of the arena that is copied along, instead of starting another copy,
/// bytes.
const GAP: u64 = 4096;
/// How much memory of a context the host copies and hashes before its GPU does, bytes. The driver takes tens of
/// milliseconds to compile the hashing kernel, and many programs have little memory.
const HASHED_BY_HOST: u64 = 16 << 20;
/// How long a copy or a hashing kernel may take. The device is otherwise idle, and a copy fills one buffer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many chunks make another hashing thread on the host worth its start.
const CHUNKS_OF_A_THREAD: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("{bytes} bytes at {address:#x}{names} cannot be read ({})", recorded_family::error(*.status))]
    Copy {
        address: u64,
        bytes: usize,
        status: Status,
        /// The names of the variables in it, for the message.
        names: String,
    },
    #[error(
        "cannot read host memory that is still page-locked for the device: the application has unmapped or protected \
         {bytes} bytes at {address:#x}"
    )]
    Gone {
        address: u64,
        /// The size of one read, some of which failed.
        bytes: u64,
    },
    #[error("cannot copy an array to memory ({})", recorded_family::error(*.0))]
    Array(Status),
    #[error("cannot hash memory ({})", recorded_family::error(*.0))]
    Hash(Status),
    #[error("cannot allocate memory for copies ({})", recorded_family::error(*.0))]
    Staging(Status),
    #[error("the device has not copied or hashed its memory within {} s", PATIENCE.as_secs())]
    Late,
    #[error("writing recorded memory made no progress for {} s", buffers::PATIENCE.as_secs())]
    Stalled,
    #[error("other threads of the application waited too long for its recording")]
    Taken,
}

/// The error for a failed wait for work of the recorder.
fn late_or(status: Status, error: impl FnOnce(Status) -> SnapshotError) -> SnapshotError {
    if status != Status::NOT_READY {
        return error(status);
    }
    IS_LATE.store(true, Ordering::Relaxed);
    SnapshotError::Late
}

/// The device has not finished the recorder's work in time and may still do it. So the memory that this work uses is
/// leaked, and the device gets no more such work.
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// The destination of the chunks.
pub struct Destination<'a> {
    /// The current context, to which the memory belongs.
    pub context: usize,
    pub store: &'a StoreWriter,
    pub background: &'a Arc<Background>,
    /// Counts the bytes that are written to disk.
    pub written: &'a Arc<AtomicU64>,
    /// Whether to continue; called before every step that takes time.
    pub goes_on: &'a dyn Fn() -> bool,
}

/// The resources for reading in one context: a private stream, so reading does not wait for the application's work.
struct Reader {
    own: OwnStream,
    events: [driver::CUevent; DEPTH],
    /// Absent if the driver does not accept PTX or has not been asked yet; then all memory is fetched.
    hasher: Option<Hasher>,
    /// Whether to ask the driver for a hasher.
    may_hash: bool,
    /// Bytes that the host has hashed although the GPU could.
    hashed_by_host: u64,
}

// SAFETY: driver handles may be used from any thread; one thread at a time has a reader.
unsafe impl Send for Reader {}

static IDLE: LazyLock<Mutex<HashMap<usize, Reader>>> = LazyLock::new(Mutex::default);

fn idle() -> MutexGuard<'static, HashMap<usize, Reader>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the resources of a dead context.
pub fn forget_context(context: usize) {
    idle().remove(&context);
    buffers::forget_context(context);
}

/// Forgets the resources of every context, if it is unknown which one has died. Live contexts get new ones.
pub fn forget_all_contexts() {
    idle().clear();
    buffers::forget_all_contexts();
}

impl Reader {
    fn create() -> Result<Self, SnapshotError> {
        let mut reader = Self {
            own: OwnStream { stream: std::ptr::null_mut(), done: std::ptr::null_mut() },
            events: [std::ptr::null_mut(); DEPTH],
            hasher: None,
            may_hash: false,
            hashed_by_host: 0,
        };
        if linker::cpu_device().is_some() {
            return Ok(reader);
        }
        // SAFETY: valid places for the results.
        let status = unsafe {
            let mut status = driver::cuStreamCreate(&mut reader.own.stream, NON_BLOCKING);
            for event in reader.events.iter_mut().chain([&mut reader.own.done]) {
                if status == Status::SUCCESS {
                    status = driver::cuEventCreate(event, DISABLE_TIMING);
                }
            }
            status
        };
        if status != Status::SUCCESS {
            return Err(SnapshotError::Staging(status));
        }
        // The hashing kernels are PTX, so memory of an AMD GPU is copied and hashed here.
        reader.may_hash = !recorded_family::is_hip();
        Ok(reader)
    }

    /// Prepares the GPU to hash this many stretches and bytes, with tables for them, if that pays. If kernels cannot
    /// reach page-locked memory, all memory is fetched.
    fn prepare(&mut self, stretches: usize, bytes: u64) {
        let by_host = self.hashed_by_host.saturating_add(bytes);
        if !self.may_hash {
            return;
        }
        if self.hasher.is_none() && by_host <= HASHED_BY_HOST {
            self.hashed_by_host = by_host;
            return;
        }
        let hasher = self.hasher.take().map_or_else(|| Hasher::load(self.own), Ok);
        let hasher = hasher.and_then(|hasher| hasher.with_tables_for(stretches));
        self.hasher = hasher.inspect_err(|status| debug!("the GPU cannot hash (CUDA error {status})")).ok();
        self.may_hash = self.hasher.is_some();
    }

    /// [`prepare`](Self::prepare) for regions.
    fn prepare_for(&mut self, regions: &[Region]) {
        let on_device = regions.iter().filter(|region| region.is_hashed_by_device() && !region.is_shared);
        self.prepare(
            regions.iter().map(|region| chunk_count(region.size)).sum(),
            on_device.map(|region| region.size).sum(),
        );
    }

    /// Copies memory of the device to the beginning of a buffer that is large enough, and waits. Returns the copy.
    fn copy<'a>(&self, stretch: Stretch, place: &'a mut Vec<u8>) -> Result<&'a mut [u8], SnapshotError> {
        let bytes = stretch.length as usize;
        let to = place[..bytes].as_mut_ptr().cast();
        // SAFETY: a place of that size, which outlives the copy; the driver reports a bad source.
        let status = unsafe { driver::hooked::cuMemcpyDtoHAsync_v2::call(to, stretch.address, bytes, self.own.stream) };
        let status = if status == Status::SUCCESS { self.own.finish(PATIENCE) } else { status };
        if status == Status::SUCCESS {
            return Ok(&mut place[..bytes]);
        }
        if status == Status::NOT_READY {
            // The device may still write to it.
            std::mem::forget(std::mem::take(place));
        }
        Err(late_or(status, |status| failed(stretch, status)))
    }

    /// The identity of a stretch. Memory of the device is copied first, to a buffer of at least its length.
    fn identity_by_copy(
        &self,
        place: RegionSource,
        stretch: Stretch,
        copy: &mut Vec<u8>,
    ) -> Result<ChunkId, SnapshotError> {
        let is_on_device = matches!(place, RegionSource::Device { .. });
        Ok(recorded_id(if is_on_device { self.copy(stretch, copy)? } else { read_here(stretch, copy)? }))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RegionSource {
    /// Read by copies. With `joined`, neighbours may be copied together with the gap between them. Others are copied
    /// separately: the driver refuses a copy that spans two allocations or two variables, even adjacent ones.
    Device { joined: bool },
    /// The CPU device's memory, hashed in place. Its kernels run on the launching threads, and they wait at the gate.
    Direct,
    /// The application's memory: its threads may write to it, and it may be gone.
    Shared,
}

/// Memory to look at.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// `None` for a variable.
    pub kind: Option<AllocationKind>,
}

struct Region {
    address: u64,
    size: u64,
    place: RegionSource,
    /// Host threads (managed memory; all memory of the CPU device) or other devices may write to it at any time.
    is_volatile: bool,
    /// Other processes or devices write to it, so the copy is hashed.
    is_shared: bool,
}

impl Region {
    fn new(address: u64, size: u64, kind: Option<AllocationKind>) -> Self {
        let place = match kind {
            Some(AllocationKind::Host) => RegionSource::Shared,
            _ if linker::cpu_device().is_some() => RegionSource::Direct,
            kind => RegionSource::Device { joined: kind == Some(AllocationKind::Arena) },
        };
        let is_own = matches!(kind, Some(AllocationKind::Arena | AllocationKind::Array));
        let is_volatile = !is_own || place == RegionSource::Direct;
        Self { address, size, place, is_volatile, is_shared: false }
    }

    fn is_hashed_by_device(&self) -> bool {
        matches!(self.place, RegionSource::Device { .. }) && self.address.is_multiple_of(chunk_hash::ALIGNMENT)
    }

    /// Its words, in pieces.
    fn words(&self) -> impl Iterator<Item = Stretch> + use<> {
        let start = self.address.next_multiple_of(addresses::WORD);
        let size = (self.address + self.size).saturating_sub(start);
        (0..size)
            .step_by(CHUNK as usize)
            .map(move |offset| Stretch { address: start + offset, length: CHUNK.min(size - offset) })
    }

    fn stretches(&self) -> impl Iterator<Item = Stretch> {
        (0..self.size)
            .step_by(CHUNK as usize)
            .map(|offset| Stretch { address: self.address + offset, length: CHUNK.min(self.size - offset) })
    }
}

/// Takes the state of these variables and allocations in the current context, which must be idle.
pub fn take(
    destination: &Destination<'_>,
    moment: Moment,
    variables: &[RecordedVariable],
    allocations: &[Allocation],
) -> Result<MemoryState, SnapshotError> {
    let regions = regions(variables, allocations);
    let chunks = with_reader(destination.context, |reader| read(reader, destination, &regions));
    let chunks = chunks.map_err(|error| unreadable::explain(error, variables))?;
    let header =
        Header { moment, variables: variables.to_vec(), allocations: allocations.to_vec(), ..Header::default() };
    Ok(MemoryState { header, chunks })
}

fn regions(variables: &[RecordedVariable], allocations: &[Allocation]) -> Vec<Region> {
    let variables = variables.iter().map(|variable| Region::new(variable.address, variable.size, None));
    let allocations = allocations.iter().map(|allocation| Region {
        is_shared: allocation.shared,
        ..Region::new(allocation.address, allocation.size, Some(allocation.kind))
    });
    variables.chain(allocations).collect()
}

fn with_reader<R>(
    context: usize,
    work: impl FnOnce(&mut Reader) -> Result<R, SnapshotError>,
) -> Result<R, SnapshotError> {
    if IS_LATE.load(Ordering::Relaxed) {
        return Err(SnapshotError::Late);
    }
    let known = idle().remove(&context);
    let mut reader = match known {
        Some(reader) => reader,
        None => Reader::create()?,
    };
    let result = work(&mut reader);
    if IS_LATE.load(Ordering::Relaxed) {
        // The device may still write to its tables.
        std::mem::forget(reader);
    } else {
        idle().insert(context, reader);
    }
    result
}

/// Which of these sorted, disjoint ranges the addresses in these variables and allocations lead into. The current
/// context must be idle. If the device cannot be asked, returns all ranges.
pub fn addresses_of(
    ranges: &[Range<u64>],
    context: usize,
    variables: &[RecordedVariable],
    allocations: &[Allocation],
) -> Result<Vec<bool>, SnapshotError> {
    let regions = regions(variables, allocations);
    let (on_device, here): (Vec<&Region>, Vec<&Region>) =
        regions.iter().partition(|region| matches!(region.place, RegionSource::Device { .. }));
    let stretches = |regions: Vec<&Region>| -> Vec<Stretch> { regions.into_iter().flat_map(Region::words).collect() };
    let mut found = addresses::scan(&stretches(here), ranges)?;
    let on_device = stretches(on_device);
    if !on_device.is_empty() && found.contains(&false) {
        let answers = with_reader(context, |reader| {
            reader.prepare(on_device.len().max(2 * ranges.len()), on_device.iter().map(|stretch| stretch.length).sum());
            match &mut reader.hasher {
                Some(hasher) => hasher.find(&on_device, ranges).map_err(|status| late_or(status, SnapshotError::Hash)),
                None if reader.may_hash => {
                    let mut found = vec![false; ranges.len()];
                    let mut copy = vec![0; CHUNK as usize];
                    for stretch in &on_device {
                        let copy = reader.copy(*stretch, &mut copy)?;
                        addresses::mark(copy, ranges, |range| found[range] = true);
                    }
                    Ok(found)
                }
                None => Ok(vec![true; ranges.len()]),
            }
        })?;
        found.iter_mut().zip(answers).for_each(|(found, answer)| *found |= answer);
    }
    Ok(found)
}

/// The present identities of regions, by region, without storing chunks. The current context must be idle.
pub fn look(context: usize, regions: &[Span]) -> Result<Vec<Vec<ChunkId>>, SnapshotError> {
    let regions: Vec<Region> = regions.iter().map(|span| Region::new(span.address, span.size, span.kind)).collect();
    with_reader(context, |reader| {
        reader.prepare_for(&regions);
        let mut copy = vec![0u8; CHUNK as usize];
        let mut look = |region: &Region| {
            let stretches: Vec<Stretch> = region.stretches().collect();
            match &mut reader.hasher {
                Some(hasher) if region.is_hashed_by_device() => {
                    hasher.hash(&stretches).map_err(|status| late_or(status, SnapshotError::Hash))
                }
                _ => stretches
                    .into_iter()
                    .map(|stretch| reader.identity_by_copy(region.place, stretch, &mut copy))
                    .collect(),
            }
        };
        regions.iter().map(&mut look).collect()
    })
}

fn read(
    reader: &mut Reader,
    destination: &Destination<'_>,
    regions: &[Region],
) -> Result<Vec<Vec<ChunkId>>, SnapshotError> {
    reader.prepare_for(regions);
    let is_hashed = |region: &&Region| match region.place {
        _ if region.is_shared => false,
        RegionSource::Direct => true,
        RegionSource::Device { .. } => reader.hasher.is_some() && region.is_hashed_by_device(),
        RegionSource::Shared => false,
    };
    let hashed: Vec<bool> = regions.iter().map(|region| is_hashed(&region)).collect();
    let stretches: Vec<Stretch> =
        regions.iter().zip(&hashed).filter(|(_, hashed)| **hashed).flat_map(|(region, _)| region.stretches()).collect();
    let ids = match &mut reader.hasher {
        Some(hasher) => hasher.hash(&stretches).map_err(|status| late_or(status, SnapshotError::Hash))?,
        None => hash_in_place(&stretches),
    };
    let new = destination.store.claim(&ids);
    let mut gathering = Gathering::new(reader, destination);
    let outcome = gather(&mut gathering, regions, &hashed, &ids, &new);
    let outcome = outcome.and_then(|chunks| gathering.finish().map(|()| chunks));
    if outcome.is_err() {
        destination.store.lose(ids.iter().zip(&new).filter(|(_, new)| **new).map(|(id, _)| id));
        let in_flight = gathering.in_flight.iter().flat_map(|(_, batch)| &batch.chunks);
        destination.store.lose(gathering.chunks.iter().chain(in_flight).map(|chunk| &chunk.id));
    }
    outcome
}

/// Puts new chunks into buffers. Returns the identities of all chunks.
fn gather(
    gathering: &mut Gathering<'_>,
    regions: &[Region],
    hashed: &[bool],
    ids: &[ChunkId],
    new: &[bool],
) -> Result<Vec<Vec<ChunkId>>, SnapshotError> {
    let mut chunks = Vec::with_capacity(regions.len());
    let mut first = 0;
    for (region, hashed) in regions.iter().zip(hashed) {
        if !hashed {
            chunks.push(
                region
                    .stretches()
                    .map(|stretch| gathering.fetch_and_hash(region.place, stretch))
                    .collect::<Result<_, _>>()?,
            );
            continue;
        }
        let range = first..first + chunk_count(region.size);
        first = range.end;
        for ((stretch, id), _) in
            region.stretches().zip(&ids[range.clone()]).zip(&new[range.clone()]).filter(|(_, new)| **new)
        {
            gathering.add(region, stretch, *id)?;
        }
        chunks.push(ids[range].to_vec());
    }
    Ok(chunks)
}

/// Divides work over all cores if that pays.
fn in_parallel<T: Sync, R: Send>(stretches: &[T], work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(stretches.len() / CHUNKS_OF_A_THREAD).max(1);
    let part = stretches.len().div_ceil(threads).max(1);
    let parts = Mutex::new(stretches.chunks(part).enumerate());
    let results: Vec<Mutex<Option<R>>> = stretches.chunks(part).map(|_| Mutex::new(None)).collect();
    let started = AtomicUsize::new(1);
    let work = || {
        loop {
            let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, part)) = next else { return };
            let result = work(part);
            *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    std::thread::scope(|scope| {
        // If the system provides fewer threads, these do all the work.
        while started.fetch_add(1, Ordering::Relaxed) < threads
            && own_threads::start_in(scope, threads::SMALL, work).is_ok()
        {}
        work();
    });
    results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// Copies memory of this process to the beginning of a buffer that is large enough. Returns the copy.
fn read_here(stretch: Stretch, place: &mut [u8]) -> Result<&[u8], SnapshotError> {
    let place = &mut place[..stretch.length as usize];
    if own_memory::read(stretch.address, place) {
        Ok(place)
    } else {
        Err(SnapshotError::Gone { address: stretch.address, bytes: stretch.length })
    }
}

/// The identities of the CPU device's memory, computed on all cores. The memory must not change during the call.
fn hash_in_place(stretches: &[Stretch]) -> Vec<ChunkId> {
    let hash = |stretch: &Stretch| {
        // SAFETY: live memory of the CPU device in this process; its kernels and copies wait at the gate.
        recorded_id(unsafe { std::slice::from_raw_parts(stretch.address as *const u8, stretch.length as usize) })
    };
    in_parallel(stretches, |stretches| stretches.iter().map(hash).collect::<Vec<_>>()).concat()
}

/// A copy that has not been started yet.
#[derive(Clone, Copy)]
struct Copy {
    address: u64,
    bytes: u64,
    /// The offset in the buffer.
    offset: usize,
    joined: bool,
}

impl Copy {
    /// The gap between the copy and a stretch by which it may be extended, bytes.
    fn gap_before(&self, region: &Region, stretch: Stretch) -> Option<u64> {
        let gap = stretch.address.wrapping_sub(self.address + self.bytes);
        let is_one_region = gap == 0 && stretch.address > region.address;
        let both_joined = self.joined && matches!(region.place, RegionSource::Device { joined: true });
        (is_one_region || (gap <= GAP && both_joined)).then_some(gap)
    }
}

/// Chunks on their way into buffers.
struct Gathering<'a> {
    reader: &'a Reader,
    destination: &'a Destination<'a>,
    pool: Arc<Pool>,
    buffer: Option<Buffer>,
    used: usize,
    copy: Option<Copy>,
    chunks: Vec<Chunk>,
    in_flight: VecDeque<(driver::CUevent, ChunkBatch)>,
    sealed: usize,
}

impl<'a> Gathering<'a> {
    fn new(reader: &'a Reader, destination: &'a Destination<'a>) -> Self {
        let pool = buffers::of_context(destination.context);
        Self {
            reader,
            destination,
            pool,
            buffer: None,
            used: 0,
            copy: None,
            chunks: Vec::new(),
            in_flight: VecDeque::new(),
            sealed: 0,
        }
    }

    /// Adds a new chunk to the copies.
    fn add(&mut self, region: &Region, stretch: Stretch, id: ChunkId) -> Result<(), SnapshotError> {
        let RegionSource::Device { joined } = region.place else {
            let offset = self.room(stretch.length)?;
            self.read_directly(stretch, offset)?;
            self.keep(id, offset, stretch.length, region.is_volatile);
            return Ok(());
        };
        if let Some(copy) = &mut self.copy {
            let gap = copy.gap_before(region, stretch);
            let offset = self.used + gap.unwrap_or(0) as usize;
            if let Some(gap) = gap
                && offset + stretch.length as usize <= buffers::SIZE
            {
                copy.bytes += gap + stretch.length;
                self.keep(id, offset, stretch.length, region.is_volatile);
                return Ok(());
            }
            self.start_copy()?;
        }
        let offset = self.room(stretch.length)?;
        self.copy = Some(Copy { address: stretch.address, bytes: stretch.length, offset, joined });
        self.keep(id, offset, stretch.length, region.is_volatile);
        Ok(())
    }

    /// Copies a chunk, hashes the copy, and keeps it if it is new.
    fn fetch_and_hash(&mut self, place: RegionSource, stretch: Stretch) -> Result<ChunkId, SnapshotError> {
        self.start_copy()?;
        let offset = self.room(stretch.length)?;
        if !matches!(place, RegionSource::Device { .. }) {
            self.read_directly(stretch, offset)?;
        } else {
            self.enqueue(Copy { address: stretch.address, bytes: stretch.length, offset, joined: false })?;
            let status = self.reader.own.finish(PATIENCE);
            if status != Status::SUCCESS {
                return Err(late_or(status, |status| failed(stretch, status)));
            }
        }
        // SAFETY: the copy is complete.
        let bytes = unsafe { self.buffer.as_ref().expect("there is room in it").bytes() };
        let id = recorded_id(&bytes[offset..offset + stretch.length as usize]);
        if self.destination.store.claim([&id]) == [true] {
            self.keep(id, offset, stretch.length, false);
        }
        Ok(id)
    }

    fn keep(&mut self, id: ChunkId, offset: usize, length: u64, is_doubtful: bool) {
        let end = offset + length as usize;
        self.chunks.push(Chunk { id, range: offset..end, is_doubtful });
        self.used = end;
    }

    /// Copies memory of this process.
    fn read_directly(&self, stretch: Stretch, offset: usize) -> Result<(), SnapshotError> {
        let buffer = self.buffer.as_ref().expect("there is room in it");
        // SAFETY: inside the borrowed buffer, which the device does not fill.
        let place = unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().add(offset), stretch.length as usize) };
        read_here(stretch, place).map(|_| ())
    }

    /// Reserves bytes in a buffer. Returns their offset.
    fn room(&mut self, bytes: u64) -> Result<usize, SnapshotError> {
        if !(self.destination.goes_on)() {
            return Err(SnapshotError::Taken);
        }
        if self.used + bytes as usize > buffers::SIZE {
            self.seal()?;
        }
        while self.buffer.is_none() {
            // Only this thread returns the buffers that the device fills, so these are submitted before it waits.
            self.buffer = self.pool.take(self.in_flight.is_empty())?;
            if self.buffer.is_none() {
                self.submit_oldest()?;
            }
        }
        Ok(self.used)
    }

    fn start_copy(&mut self) -> Result<(), SnapshotError> {
        match self.copy.take() {
            Some(copy) => self.enqueue(copy),
            None => Ok(()),
        }
    }

    fn enqueue(&self, copy: Copy) -> Result<(), SnapshotError> {
        let buffer = self.buffer.as_ref().expect("a copy goes into a buffer");
        let (address, bytes) = (copy.address, copy.bytes as usize);
        // SAFETY: inside the buffer, which is read only after the wait for the copy; the driver reports a bad source.
        let status = unsafe {
            let place: *mut c_void = buffer.as_ptr().add(copy.offset).cast();
            driver::hooked::cuMemcpyDtoHAsync_v2::call(place, address, bytes, self.reader.own.stream)
        };
        if status == Status::SUCCESS {
            Ok(())
        } else {
            Err(SnapshotError::Copy { address, bytes, status, names: String::new() })
        }
    }

    /// Closes the buffer, and lets the device fill it.
    fn seal(&mut self) -> Result<(), SnapshotError> {
        self.start_copy()?;
        self.used = 0;
        let Some(buffer) = self.buffer.take() else { return Ok(()) };
        let chunks = std::mem::take(&mut self.chunks);
        let batch = ChunkBatch { buffer, chunks, written: self.destination.written.clone() };
        if self.reader.own.stream.is_null() {
            self.destination.background.submit(batch);
            return Ok(());
        }
        if self.in_flight.len() == DEPTH {
            self.submit_oldest()?;
        }
        let event = self.reader.events[self.sealed % DEPTH];
        self.sealed += 1;
        // SAFETY: the recorder's event and stream. If recording fails, waiting fails too.
        let status = unsafe { driver::cuEventRecord(event, self.reader.own.stream) };
        self.in_flight.push_back((event, batch));
        if status == Status::SUCCESS { Ok(()) } else { Err(SnapshotError::Staging(status)) }
    }

    /// Waits until the device has filled the oldest buffer, and submits it.
    fn submit_oldest(&mut self) -> Result<(), SnapshotError> {
        let Some((event, batch)) = self.in_flight.pop_front() else { return Ok(()) };
        let status = waiting::finish(event, PATIENCE);
        if status != Status::SUCCESS {
            self.destination.store.lose(batch.chunks.iter().map(|chunk| &chunk.id));
            self.in_flight.push_front((event, batch));
            return Err(late_or(status, SnapshotError::Staging));
        }
        self.destination.background.submit(batch);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SnapshotError> {
        self.seal()?;
        while !self.in_flight.is_empty() {
            self.submit_oldest()?;
        }
        Ok(())
    }
}

impl Drop for Gathering<'_> {
    /// After a failure the device may still write to buffers, so these are leaked instead of returned if it does not
    /// finish.
    fn drop(&mut self) {
        if self.reader.own.stream.is_null() || (self.buffer.is_none() && self.in_flight.is_empty()) {
            return;
        }
        let is_late = || IS_LATE.load(Ordering::Relaxed);
        if !is_late() && self.reader.own.finish(PATIENCE) == Status::NOT_READY {
            IS_LATE.store(true, Ordering::Relaxed);
        }
        if is_late() {
            std::mem::forget(self.buffer.take());
            std::mem::forget(std::mem::take(&mut self.in_flight));
        }
    }
}

fn failed(stretch: Stretch, status: Status) -> SnapshotError {
    SnapshotError::Copy { address: stretch.address, bytes: stretch.length as usize, status, names: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver refuses a copy that spans two of its allocations, and variables of a module may be adjacent.
    #[test]
    fn only_memory_of_the_arena_is_read_together_with_its_neighbours() {
        let region = |address, joined| Region {
            address,
            size: 2 * CHUNK,
            place: RegionSource::Device { joined },
            is_volatile: false,
            is_shared: false,
        };
        let stretch = |address| Stretch { address, length: CHUNK };
        let copy = |joined| Copy { address: 0x1000, bytes: CHUNK, offset: 0, joined };
        let end = 0x1000 + CHUNK;
        for joined in [false, true] {
            assert_eq!(
                copy(joined).gap_before(&region(0x1000, joined), stretch(end)),
                Some(0),
                "the next chunk of one region"
            );
        }
        assert_eq!(copy(false).gap_before(&region(end, false), stretch(end)), None, "two variables side by side");
        assert_eq!(copy(true).gap_before(&region(end, false), stretch(end)), None);
        assert_eq!(copy(false).gap_before(&region(end, true), stretch(end)), None);
        assert_eq!(
            copy(true).gap_before(&region(end + 256, true), stretch(end + 256)),
            Some(256),
            "two allocations of the arena"
        );
        assert_eq!(copy(true).gap_before(&region(end + GAP + 8, true), stretch(end + GAP + 8)), None);
    }

    #[test]
    fn variables_that_cannot_be_read_are_named() {
        let variable = |name: &str, address| RecordedVariable {
            name: name.into(),
            address,
            size: 4,
            constant: false,
            code: false,
            functions: Vec::new(),
        };
        let variables = [variable("before", 0xffc), variable("first", 0x1000), variable("second", 0x1004)];
        let error = SnapshotError::Copy { address: 0x1000, bytes: 8, status: Status(1), names: String::new() };
        let text = unreadable::explain(error, &variables).to_string();
        assert!(text.contains("(variable first, second)"), "{text}");
    }
}
