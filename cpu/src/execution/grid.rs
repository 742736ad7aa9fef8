//! One launch: what all workers share while they run it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::faults::Fault;
use super::stack::IN_USE;
use super::{block, faults, pool};
use crate::status::Status;

/// The entry of a kernel: runs one thread.
pub type Entry = unsafe extern "C" fn(*const u8);

/// A checked launch.
pub struct Launch<'a> {
    /// The kernel's name, for messages.
    pub name: &'a str,
    /// The entry's address, in a loaded object that outlives the launch.
    pub entry: Entry,
    /// Whether threads may wait for one another.
    pub collective: bool,
    /// The parameter buffer.
    pub parameters: &'a [u8],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Offset of dynamic shared memory in the block's shared memory, bytes.
    pub dynamic_shared_offset: u32,
    /// Dynamic shared memory, bytes.
    pub dynamic_shared: u32,
}

/// A launch under way.
pub struct Grid<'a> {
    pub launch: &'a Launch<'a>,
    /// Aligned copy of the parameters.
    pub parameters: Vec<u128>,
    next: AtomicU64,
    blocks: u64,
    stop: AtomicBool,
    fault: Mutex<Option<(Fault, String)>>,
}

impl Grid<'_> {
    /// Takes the next block; `None` when there is none or the launch has failed.
    pub fn take(&self) -> Option<[u32; 3]> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.blocks {
            return None;
        }
        let [x, y, _] = self.launch.grid.map(u64::from);
        Some([(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32])
    }

    /// Ends the launch; the first fault is the one reported. `place` says where it happened.
    pub fn fail(&self, fault: Fault, place: String) {
        self.stop.store(true, Ordering::Relaxed);
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((fault, place));
    }

    pub fn threads(&self) -> u32 {
        self.launch.block.iter().product()
    }
}

/// Runs a launch to its end.
///
/// # Errors
/// The status that the device is in from then on: a kernel's fault is not undone.
pub fn run(launch: &Launch<'_>) -> Result<(), Status> {
    faults::install();
    let mut parameters = vec![0u128; launch.parameters.len().div_ceil(16).max(1)];
    for (word, bytes) in parameters.iter_mut().zip(launch.parameters.chunks(16)) {
        let mut full = [0; 16];
        full[..bytes.len()].copy_from_slice(bytes);
        *word = u128::from_le_bytes(full);
    }
    let grid = Grid {
        launch,
        parameters,
        next: AtomicU64::new(0),
        blocks: launch.grid.iter().map(|extent| u64::from(*extent)).product(),
        stop: AtomicBool::new(false),
        fault: Mutex::new(None),
    };
    let stacks = if launch.collective { (IN_USE / u64::from(grid.threads()).max(1)).max(1) } else { u64::MAX };
    pool::share(grid.blocks.min(stacks), &|worker| block::work(worker, &grid)).map_err(|error| {
        crate::say!("no worker threads could be started: {error}");
        Status::OPERATING_SYSTEM
    })?;
    match grid.fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some((fault, place)) => {
            if let Some(sentence) = fault.sentence() {
                crate::say!("kernel {} {sentence}{place}", crate::report::readable(launch.name));
            }
            Err(fault.status())
        }
    }
}
