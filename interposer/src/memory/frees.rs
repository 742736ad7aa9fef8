//! Frees memory of the arena as the vendor frees its own.
//!
//! `cuMemFree` waits for the context that owns the memory, and applications rely on that. `cuMemFreeAsync`, which
//! accepts memory of `cuMemAlloc` too, does not wait: such memory is deferred until its stream has reached the free, as
//! the vendor would do it. An event shows when; later allocations and frees poll some of the events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mneme_abi::cuda::sys::CUevent_flags;
use mneme_recording::manifest::AllocationKind;

use super::allocations::{ALLOCATIONS, LiveAllocation};
use super::arena::vmm;
use super::sharing::{exports, imports};
use crate::driver::streams::CaptureMode;
use crate::driver::{self, CUcontext, CUdevice, CUevent, CUstream, STREAM_LEGACY, Status, captures, streams, waiting};
use crate::process::settings::settings;

const DISABLE_TIMING: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
/// How many events a call polls at most. Each call defers one at most, so passed frees do not accumulate.
const ASKED: usize = 4;
/// How often an allocation that finds no memory polls the deferred frees.
const PAUSE: Duration = Duration::from_micros(100);

/// Memory that the application has freed, and that previously enqueued work may still use.
struct Deferred {
    frees: Vec<Free>,
    /// How many frees have been deferred so far.
    count: u64,
    /// The index to poll next.
    next: usize,
    /// A wait for these frees has reached its limit, so another wait would too.
    in_vain: bool,
    /// Unused events of each context.
    events: BTreeMap<usize, Vec<Event>>,
}

struct Free {
    /// Counts from 0.
    number: u64,
    live: LiveAllocation,
    /// The context of the stream.
    context: usize,
    mark: Mark,
}

/// How to tell whether a stream has reached a free.
enum Mark {
    /// An event after the free.
    Event(Event),
    /// An event is still needed: the legacy default stream could not record one while another stream was captured.
    Wanted,
    /// Only by waiting for the context.
    Wait,
    /// It has reached the free: the context is gone.
    Passed,
}

struct Event(CUevent);

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for Event {}

static DEFERRED: Mutex<Deferred> = Mutex::new(Deferred::new());
/// Whether frees may be deferred. If not, other allocations and frees cost nothing more.
static ANY: AtomicBool = AtomicBool::new(false);

fn deferred() -> MutexGuard<'static, Deferred> {
    DEFERRED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Deferred {
    const fn new() -> Self {
        Self { frees: Vec::new(), count: 0, next: 0, in_vain: false, events: BTreeMap::new() }
    }

    /// Removes the free at an index and makes its event available again.
    fn remove(&mut self, index: usize) -> LiveAllocation {
        let Free { live, context, mark, .. } = self.frees.swap_remove(index);
        self.in_vain = false;
        if let Mark::Event(event) = mark {
            self.events.entry(context).or_default().push(event);
        }
        live
    }

    fn push(&mut self, live: LiveAllocation, context: usize, mark: Mark) {
        self.frees.push(Free { number: self.count, live, context, mark });
        self.count += 1;
        self.in_vain = false;
    }

    /// Removes the frees below a number in the streams of a context.
    fn take_before(&mut self, number: u64, context: usize) -> Vec<LiveAllocation> {
        let indices = (0..self.frees.len()).rev();
        let is_meant = |free: &Free| free.number < number && free.context == context;
        let mut taken: Vec<LiveAllocation> = Vec::new();
        for index in indices {
            if is_meant(&self.frees[index]) {
                taken.push(self.remove(index));
            }
        }
        taken
    }

    /// Whether one of these may pass without a wait for its context.
    fn may_pass(&self) -> bool {
        !self.in_vain && self.frees.iter().any(|free| !matches!(free.mark, Mark::Wait))
    }

    /// Polls some frees and removes those that their streams have passed.
    fn take_passed(&mut self, most: usize, mut is_passed: impl FnMut(&mut Free) -> bool) -> Vec<LiveAllocation> {
        let mut passed = Vec::new();
        for _ in 0..most.min(self.frees.len()) {
            self.next = if self.next < self.frees.len() { self.next } else { 0 };
            if self.frees.get_mut(self.next).is_some_and(&mut is_passed) {
                passed.push(self.remove(self.next));
            } else {
                self.next += 1;
            }
        }
        passed
    }
}

impl Free {
    /// Whether the stream has reached the free; asks the vendor.
    fn is_passed(&mut self) -> bool {
        match &self.mark {
            Mark::Passed => true,
            Mark::Wait => false,
            // When the context ends, the free is marked as passed.
            Mark::Event(Event(event)) => waiting::reached(*event) == Some(Status::SUCCESS),
            Mark::Wanted => {
                if !captures::in_progress() {
                    self.mark = mark(self.context, STREAM_LEGACY, None);
                }
                false
            }
        }
    }
}

/// Records an event in a stream: this one if given, else a new one.
fn mark(context: usize, stream: usize, event: Option<Event>) -> Mark {
    if stream == STREAM_LEGACY && captures::in_progress() {
        return Mark::Wanted;
    }
    let mut marked = Mark::Wait;
    in_context(context, || {
        let _mode = CaptureMode::relaxed();
        let mut event = event.map_or(std::ptr::null_mut(), |Event(event)| event);
        // SAFETY: a valid place; the recorder's event, and the stream that the application frees in.
        unsafe {
            if event.is_null() && driver::cuEventCreate(&mut event, DISABLE_TIMING) != Status::SUCCESS {
                return Status::SUCCESS;
            }
            if driver::cuEventRecord(event, stream as CUstream) == Status::SUCCESS {
                marked = Mark::Event(Event(event));
            } else {
                driver::cuEventDestroy_v2(event);
            }
        }
        Status::SUCCESS
    });
    marked
}

/// Defers an allocation that is freed in a stream until the stream has reached the free.
pub fn defer(live: LiveAllocation, stream: usize) {
    let context = streams::context_of(stream).or_else(driver::current_context).unwrap_or(live.context);
    let event = deferred().events.get_mut(&context).and_then(Vec::pop);
    let mark = mark(context, stream, event);
    deferred().push(live, context, mark);
    ANY.store(true, Ordering::Release);
}

/// Releases some of the frees that have been passed.
pub fn give_back_passed() {
    give_back(ASKED);
}

/// Polls up to `most` deferred frees and releases the passed ones. Returns whether there were any.
fn give_back(most: usize) -> bool {
    if !ANY.load(Ordering::Acquire) {
        return false;
    }
    let _mode = captures::in_progress().then(CaptureMode::relaxed);
    let passed = {
        let mut deferred = deferred();
        if ENDING.load(Ordering::SeqCst) > 0 {
            return false;
        }
        // These calls of the vendor do not wait and do not re-enter hooks.
        let passed = deferred.take_passed(most, Free::is_passed);
        ANY.store(!deferred.frees.is_empty(), Ordering::Release);
        passed
    };
    passed.iter().for_each(release);
    !passed.is_empty()
}

/// Waits for a context (0 for the current one), then releases what was deferred in it before.
pub fn wait(context: usize) -> Status {
    let of = if context == 0 { driver::current_context().unwrap_or(0) } else { context };
    let before = deferred().count;
    let status = in_context(context, wait_as_the_vendor_does);
    if status == Status::SUCCESS && ANY.load(Ordering::Acquire) {
        let passed = deferred().take_before(before, of);
        passed.iter().for_each(release);
    }
    status
}

/// Waits until a deferred free is released, within the time that a launch may delay the application, but only once for
/// the same frees. Returns whether one was released.
pub fn reclaim() -> bool {
    let deadline = Instant::now() + settings().kernel_limit;
    loop {
        if give_back(usize::MAX) {
            return true;
        }
        if !deferred().may_pass() {
            return false;
        }
        if Instant::now() >= deadline {
            deferred().in_vain = true;
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// How many contexts are being destroyed.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// Guard of [`end_of_context`].
pub struct EndOfContext(());

impl Drop for EndOfContext {
    fn drop(&mut self) {
        ENDING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Keeps other threads from polling events until the result is dropped, because the context and its events are being
/// destroyed.
pub fn end_of_context() -> EndOfContext {
    ENDING.fetch_add(1, Ordering::SeqCst);
    // A thread that has begun to poll holds the lock.
    drop(deferred());
    EndOfContext(())
}

/// Forgets the events of a context that has ended; all frees in its streams have passed.
pub fn forget_context(context: usize) {
    let mut deferred = deferred();
    deferred.events.remove(&context);
    deferred.frees.iter_mut().filter(|free| free.context == context).for_each(|free| free.mark = Mark::Passed);
}

/// Forgets the events of all contexts if it is unknown which one has ended. Only waits tell about those that live.
pub fn forget_all_contexts() {
    let mut deferred = deferred();
    deferred.events.clear();
    deferred.frees.iter_mut().for_each(|free| free.mark = Mark::Wait);
}

/// Transfers the memory of a context that has ended to another context.
pub fn inherit(from: usize, to: usize) {
    let belong = |live: &mut LiveAllocation| {
        if live.context == from {
            live.context = to;
        }
    };
    ALLOCATIONS.change(belong);
    for free in &mut deferred().frees {
        belong(&mut free.live);
        // The events died with the context, and its work may not have ended.
        if free.context == from {
            (free.context, free.mark) = (to, Mark::Wait);
        }
    }
    imports::inherit(from, to);
}

/// Removes and returns matching deferred memory.
pub fn take(mut matches: impl FnMut(&LiveAllocation) -> bool) -> Vec<LiveAllocation> {
    let mut deferred = deferred();
    let mut taken = Vec::new();
    for index in (0..deferred.frees.len()).rev() {
        if matches(&deferred.frees[index].live) {
            taken.push(deferred.remove(index));
        }
    }
    taken
}

/// Returns unused memory to its arena.
pub fn release(live: &LiveAllocation) {
    if let Some(arena) = vmm::of_address(live.address) {
        exports::forget(live.address);
        arena.arena.free(&arena.mapper, live.address, live.size);
    }
}

fn wait_as_the_vendor_does() -> Status {
    if !captures::in_progress() {
        // SAFETY: no arguments.
        return unsafe { driver::cuCtxSynchronize() };
    }
    // Synchronising would end the capture. A free does not if the thread's capture mode allows it, otherwise it fails.
    try_vendors().err().unwrap_or(Status::SUCCESS)
}

/// Allocates and frees memory of the vendor, because only the vendor knows whether a capture in progress allows it.
pub fn try_vendors() -> Result<(), Status> {
    let mut address = 0;
    // SAFETY: a valid place; what is freed has just been allocated.
    let status = unsafe {
        match driver::hooked::cuMemAlloc_v2::call(&mut address, 1) {
            Status::SUCCESS => driver::hooked::cuMemFree_v2::call(address),
            error => error,
        }
    };
    if status == Status::SUCCESS { Ok(()) } else { Err(status) }
}

/// Runs a call with a live context current and then restores the thread's own.
fn in_context(context: usize, call: impl FnOnce() -> Status) -> Status {
    let own = driver::current_context();
    if context == 0 || own == Some(context) || own.is_none() {
        return call();
    }
    // SAFETY: the context is alive because it has memory, which it would free when it ends; the thread's own was
    // current a moment ago.
    unsafe {
        match driver::cuCtxSetCurrent(context as CUcontext) {
            Status::SUCCESS => {
                let status = call();
                driver::cuCtxSetCurrent(own.unwrap_or_default() as CUcontext);
                status
            }
            error => error,
        }
    }
}

/// Forgets memory that was destroyed with a context of a device, and unmaps its slabs: the driver's documentation does
/// not promise that a mapping outlives the context in which it was made.
pub fn forget(device: Option<CUdevice>, mut died: impl FnMut(&LiveAllocation) -> bool) {
    let mut arenas: Vec<CUdevice> = device.into_iter().collect();
    let deferred = take(&mut died);
    for live in ALLOCATIONS.remove_where(died).into_iter().chain(deferred) {
        if live.kind == AllocationKind::Arena {
            release(&live);
            arenas.push(live.device);
        } else {
            imports::forget(live.address);
        }
    }
    arenas.sort_unstable();
    arenas.dedup();
    for arena in arenas.into_iter().filter_map(vmm::reserved) {
        arena.arena.trim(&arena.mapper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::allocations::KernelAccess;

    fn allocation(address: u64, context: usize) -> LiveAllocation {
        let (kind, access) = (AllocationKind::Arena, KernelAccess::Peers);
        LiveAllocation { address, size: 1, kind, access, device: 0, context, shared: false }
    }

    fn event(number: usize) -> Mark {
        Mark::Event(Event(std::ptr::without_provenance_mut(number)))
    }

    fn addresses(taken: &[LiveAllocation]) -> Vec<u64> {
        taken.iter().map(|live| live.address).collect()
    }

    /// One stream makes progress and another does not: only a little more than the second one's memory is kept.
    #[test]
    fn a_stream_that_stands_still_keeps_only_its_own() {
        let mut deferred = Deferred::new();
        let is_passed = |free: &mut Free| free.live.address.is_multiple_of(2);
        let mut given = 0;
        for address in 0..1000 {
            given += deferred.take_passed(ASKED, is_passed).len();
            let (address, number) = if address < 200 { (address, 1) } else { (2 * address, 2) };
            deferred.push(allocation(address, 7), 7, event(number));
        }
        let held = deferred.frees.iter().filter(|free| free.live.address % 2 == 1).count();
        assert_eq!(held, 100);
        assert!(deferred.frees.len() < held + 100, "{} are kept", deferred.frees.len());
        assert_eq!(given + deferred.frees.len(), 1000);
        assert_eq!(deferred.events[&7].len(), given, "their events are used again");
    }

    #[test]
    fn a_wait_takes_what_was_freed_in_its_context() {
        let mut deferred = Deferred::new();
        for (address, context, mark) in [(1, 7, event(1)), (2, 8, event(2)), (3, 7, Mark::Wait)] {
            deferred.push(allocation(address, context), context, mark);
        }
        let before = deferred.count;
        deferred.push(allocation(4, 7), 7, event(4));
        assert_eq!(addresses(&deferred.take_before(before, 7)), [3, 1]);
        assert_eq!(addresses(&deferred.take_before(u64::MAX, 7)), [4]);
        assert_eq!(addresses(&deferred.take_passed(9, |_| true)), [2]);
        assert!(deferred.take_passed(9, |_| true).is_empty());
    }

    /// A wait that has failed is not repeated for the same frees.
    #[test]
    fn what_cannot_pass_is_waited_for_once() {
        let mut deferred = Deferred::new();
        deferred.push(allocation(1, 7), 7, Mark::Wait);
        assert!(!deferred.may_pass());
        deferred.push(allocation(2, 7), 7, event(2));
        assert!(deferred.may_pass());
        deferred.in_vain = true;
        assert!(!deferred.may_pass());
        deferred.push(allocation(3, 7), 7, event(3));
        assert!(deferred.may_pass());
        deferred.in_vain = true;
        assert_eq!(deferred.take_passed(9, |free| free.number == 2).len(), 1);
        assert!(deferred.may_pass(), "what stood before it may have gone on");
    }
}
