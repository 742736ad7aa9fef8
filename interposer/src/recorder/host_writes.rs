//! Detects host threads that write to recorded memory.
//!
//! If host threads write to it, the memory has no consistent state, and their writes cannot be told from the kernel's.
//!
//! The gate stops the application's calls, but not its plain stores to managed and page-locked memory. So this memory
//! is read three times: for the prologue, again right before the launch, and for the epilogue. If the epilogue differs
//! from the prologue, because of the kernel or a host thread, the memory is read once more, after as long as the launch
//! took. This detects threads that write that often.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use mneme_recording::manifest::{Allocation, MemoryState, RecordedVariable};

use crate::memory::access;
use crate::memory::allocations::LiveAllocation;
use crate::snapshot::{self, SnapshotError, Span};

/// The least and the greatest time to wait before the last look.
const WAIT: [Duration; 2] = [Duration::from_millis(25), Duration::from_secs(1)];

/// The recorded memory that host threads can write to.
pub struct HostWriteWatch {
    /// The current `CUcontext`.
    context: usize,
    /// The indices of the regions in a state, and the regions.
    regions: Vec<(usize, Span)>,
    since: Instant,
}

impl HostWriteWatch {
    /// Watches the recorded memory of a launch. `live` describes the allocations.
    pub fn new(
        context: usize,
        variables: &[RecordedVariable],
        allocations: &[Allocation],
        live: &[LiveAllocation],
    ) -> Self {
        let variables = variables
            .iter()
            .map(|it| (Span { address: it.address, size: it.size, kind: None }, access::is_managed(it.address)));
        let visible: HashSet<u64> =
            live.iter().filter(|live| live.is_host_visible()).map(|live| live.address).collect();
        let is_visible = |address: u64| visible.contains(&address);
        let allocations = allocations
            .iter()
            .map(|it| (Span { address: it.address, size: it.size, kind: Some(it.kind) }, is_visible(it.address)));
        let regions = variables.chain(allocations).enumerate().filter(|(_, (_, is_visible))| *is_visible);
        Self { context, regions: regions.map(|(index, (span, _))| (index, span)).collect(), since: Instant::now() }
    }

    /// Whether the memory differs from a state, which means that a host thread has written to it, since no kernel runs.
    pub fn has_changed_since(&self, state: &MemoryState) -> Result<bool, SnapshotError> {
        if self.regions.is_empty() {
            return Ok(false);
        }
        let spans: Vec<Span> = self.regions.iter().map(|(_, span)| *span).collect();
        let found = snapshot::look(self.context, &spans)?;
        Ok(self.regions.iter().zip(found).any(|((index, _), found)| state.chunks[*index] != found))
    }

    /// [`has_changed_since`](Self::has_changed_since) for the epilogue, if the launch changed watched memory.
    pub fn changes_after(&self, prologue: &MemoryState, epilogue: &MemoryState) -> Result<bool, SnapshotError> {
        if self.regions.iter().all(|(index, _)| prologue.chunks[*index] == epilogue.chunks[*index]) {
            return Ok(false);
        }
        let [least, most] = WAIT;
        std::thread::sleep(self.since.elapsed().clamp(least, most));
        self.has_changed_since(epilogue)
    }
}
