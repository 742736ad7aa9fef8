//! Host threads that write to recorded memory.
//!
//! Where there are any, no moment has one state of it, and what the kernel leaves cannot be told from what they write.
//!
//! The gate keeps the application's calls out, but not its plain stores to managed and page-locked memory. So such
//! memory is looked at three times: as the prologue, again right before the launch, and as the epilogue. Where the
//! epilogue differs from the prologue, by the kernel or a host thread, it is looked at once more, after as long as the
//! launch took: who writes that often is seen.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use mneme_core::recording::manifest::{Allocation, MemoryState, RecordedVariable};

use crate::memory::access;
use crate::memory::allocations::LiveAllocation;
use crate::snapshot::{self, SnapshotError, Span};

/// How long the last look is waited for at least, and at most.
const WAIT: [Duration; 2] = [Duration::from_millis(25), Duration::from_secs(1)];

/// The recorded memory that host threads can write to.
pub struct HostWriteWatch {
    /// `CUcontext`, current.
    context: usize,
    /// Which regions of a state, and what they are.
    regions: Vec<(usize, Span)>,
    since: Instant,
}

impl HostWriteWatch {
    /// Of what is recorded of a launch; `live` is what is known of the allocations.
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

    /// Whether a state does not hold any more: somebody has written, and no kernel runs.
    pub fn has_changed_since(&self, state: &MemoryState) -> Result<bool, SnapshotError> {
        if self.regions.is_empty() {
            return Ok(false);
        }
        let spans: Vec<Span> = self.regions.iter().map(|(_, span)| *span).collect();
        let found = snapshot::look(self.context, &spans)?;
        Ok(self.regions.iter().zip(found).any(|((index, _), found)| state.chunks[*index] != found))
    }

    /// The same after the launch, where it left other memory than it found.
    pub fn changes_after(&self, prologue: &MemoryState, epilogue: &MemoryState) -> Result<bool, SnapshotError> {
        if self.regions.iter().all(|(index, _)| prologue.chunks[*index] == epilogue.chunks[*index]) {
            return Ok(false);
        }
        let [least, most] = WAIT;
        std::thread::sleep(self.since.elapsed().clamp(least, most));
        self.has_changed_since(epilogue)
    }
}
