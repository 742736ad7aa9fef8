//! A launch: the state that all workers share while they run it.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::dispatch::Dispatch;
use super::fault::KernelFault;
use super::heap::Heap;
use super::images::Images;
use super::processors;
use super::stack::IN_USE;

/// The entry of a kernel, which runs one thread.
pub type KernelEntry = unsafe extern "C" fn(*const u8);

/// A checked launch with all that it needs, because it may run long after the call that made it.
pub struct CheckedLaunch {
    /// The kernel's name, for messages.
    pub name: String,
    /// The entry's address, in a loaded object that `owner` keeps.
    pub entry: KernelEntry,
    #[expect(dead_code, reason = "only keeps the object loaded")]
    pub owner: Option<Arc<dyn Any + Send + Sync>>,
    /// Whether threads may wait for each other.
    pub collective: bool,
    /// Whether all blocks run at once, with a workspace in which they can wait for each other.
    pub cooperative: bool,
    pub parameters: Parameters,
    /// The textures and surfaces that existed at the call.
    pub images: Arc<Images>,
    /// The heap of the context.
    pub heap: Arc<Heap>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks of a cluster along each axis, divisors of the grid's extents; `None` without clusters.
    pub cluster: Option<[u32; 3]>,
    /// Lanes of a warp: 32 or 64.
    pub warp_size: u32,
    /// Offset of dynamic shared memory in the block's shared memory, bytes.
    pub dynamic_shared_offset: u32,
    /// Dynamic shared memory, bytes.
    pub dynamic_shared: u32,
    /// Addresses of the object that contains the entry.
    pub code: Range<usize>,
    /// The time limit in seconds, if there is one.
    pub time_limit: Option<u64>,
}

impl CheckedLaunch {
    pub fn shared_bytes(&self) -> u32 {
        self.dynamic_shared_offset + self.dynamic_shared
    }

    /// Blocks of a cluster.
    pub fn cluster_blocks(&self) -> u32 {
        self.cluster.map_or(1, |cluster| cluster.iter().product())
    }

    fn blocks(&self) -> u64 {
        self.grid.iter().map(|extent| u64::from(*extent)).product()
    }

    /// The number of workers, and how many blocks each may have in flight (stacks, if threads run one after another).
    fn at_once(&self) -> (u64, u64) {
        let threads = self.block.iter().product::<u32>();
        let stacks = if self.collective { (IN_USE / u64::from(threads).max(1)).max(1) } else { IN_USE };
        let workers = processors::count().min(self.blocks()).min(stacks).max(1);
        let memories = SHARED_IN_USE / u64::from(self.shared_bytes()).max(1);
        (workers, (stacks.min(memories) / workers).max(1).max(u64::from(self.cluster_blocks())))
    }

    /// Whether all blocks can be in flight at once.
    pub fn fits_at_once(&self) -> bool {
        let (workers, in_flight) = self.at_once();
        self.blocks() <= workers * in_flight
    }
}

/// The most shared memory of all blocks in flight, in bytes. Each worker may have one block regardless.
const SHARED_IN_USE: u64 = 1 << 30;

/// Alignment of the parameters in bytes. Code for AMD GPUs reads aggregates in place and relies on the alignment that
/// their types declare.
const PARAMETER_LINE: usize = 256;

/// An aligned piece of the parameters.
#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct ParameterLine([u8; PARAMETER_LINE]);

/// The parameter buffer, with the alignment that kernels may rely on.
pub struct Parameters(Vec<ParameterLine>);

impl Parameters {
    pub fn new(bytes: &[u8]) -> Self {
        let mut lines = vec![ParameterLine([0; PARAMETER_LINE]); bytes.len().div_ceil(PARAMETER_LINE).max(1)];
        for (line, bytes) in lines.iter_mut().zip(bytes.chunks(PARAMETER_LINE)) {
            line.0[..bytes.len()].copy_from_slice(bytes);
        }
        Self(lines)
    }

    pub fn address(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
}

/// A launch in progress.
pub struct Grid {
    pub launch: CheckedLaunch,
    /// The properties that kernels can query.
    pub dispatch: Dispatch,
    /// The first block that no worker has taken.
    next: AtomicU64,
    blocks: u64,
    /// How many blocks a worker takes at a time.
    together: u64,
    /// How many blocks a worker may have in flight (stacks, if threads run one after another).
    pub in_flight: usize,
    stop: AtomicBool,
    fault: Mutex<Option<(KernelFault, String)>>,
}

impl Grid {
    /// Prepares a launch. Returns also how many workers should take part.
    pub fn new(launch: CheckedLaunch) -> (Self, u64) {
        let blocks = launch.blocks();
        let threads = launch.block.iter().product::<u32>();
        let (workers, in_flight) = launch.at_once();
        let dispatch = Dispatch::new(
            launch.grid,
            launch.block,
            launch.dynamic_shared,
            launch.shared_bytes(),
            launch.parameters.address() as u64,
            launch.images.clone(),
            launch.code.clone(),
        )
        .with_heap(launch.heap.clone());
        let grid = Self {
            dispatch: if launch.cooperative { dispatch.cooperative() } else { dispatch },
            next: AtomicU64::new(0),
            blocks,
            // In a cooperative launch, blocks are taken one by one: the others would wait for a block that a worker has
            // taken but has no room for.
            together: match launch.cooperative {
                true => 1,
                false => (WORTH_TAKING / u64::from(threads).max(1)).min(blocks / (PARTS * processors::count())).max(1),
            }
            .next_multiple_of(u64::from(launch.cluster_blocks())),
            in_flight: in_flight as usize,
            stop: AtomicBool::new(false),
            fault: Mutex::new(None),
            launch,
        };
        (grid, workers)
    }

    /// The blocks for one worker, until none is left or the launch has failed.
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks { grid: self, taken: 0..0 }
    }

    /// Ends the launch. The first fault is the one that is reported; `place` says where it happened.
    pub fn fail(&self, fault: KernelFault, place: String) {
        self.stop.store(true, Ordering::Relaxed);
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((fault, place));
    }

    /// Ends the launch without a fault.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the launch is to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The first fault and where it happened, after the launch has ended.
    pub fn take_fault(&self) -> Option<(KernelFault, String)> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn threads(&self) -> u32 {
        self.launch.block.iter().product()
    }
}

/// The blocks of one worker. Small blocks are taken together with their neighbours, so workers rarely contend for the
/// counter or for the cache lines that neighbours write to.
pub struct Blocks<'a> {
    grid: &'a Grid,
    taken: Range<u64>,
}

/// The number of threads that make taking blocks worthwhile.
const WORTH_TAKING: u64 = 512;
/// Each worker's share of a launch is divided into at least this many parts, because some take longer than others.
const PARTS: u64 = 8;

impl Iterator for Blocks<'_> {
    type Item = [u32; 3];

    fn next(&mut self) -> Option<[u32; 3]> {
        let Grid { next, blocks, together, launch, .. } = self.grid;
        if self.grid.stopped() {
            return None;
        }
        if self.taken.is_empty() {
            let first = next.fetch_add(*together, Ordering::Relaxed);
            self.taken = first..(first + together).min(*blocks);
        }
        let index = self.taken.next()?;
        let place = |index: u64, [x, y, _]: [u32; 3]| {
            let (x, y) = (u64::from(x), u64::from(y));
            [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
        };
        let Some(shape) = launch.cluster else { return Some(place(index, launch.grid)) };
        // Blocks of a cluster are consecutive.
        let each = u64::from(launch.cluster_blocks());
        let clusters = [0, 1, 2].map(|axis| launch.grid[axis] / shape[axis]);
        let (cluster, own) = (place(index / each, clusters), place(index % each, shape));
        Some([0, 1, 2].map(|axis| cluster[axis] * shape[axis] + own[axis]))
    }
}

/// How a worker waits while all of its threads wait for a write to memory.
#[derive(Default)]
pub struct Waits(u32);

/// A worker that waits sleeps from time to time if the launch continues after its call, because the wait may be long
/// and others need the processor.
const PAUSES_PER_NAP: u32 = 64;
const NAP: std::time::Duration = std::time::Duration::from_micros(50);

impl Waits {
    pub fn pause(&mut self, grid: &Grid) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(PAUSES_PER_NAP) && grid.dispatch.continues() {
            std::thread::sleep(NAP);
        } else {
            std::thread::yield_now();
        }
    }
}
