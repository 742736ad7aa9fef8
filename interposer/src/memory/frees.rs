//! Freeing memory of the arena as the vendor frees its own.
//!
//! `cuMemFree` waits for the context that owns the memory; applications rely on it. `cuMemFreeAsync`, which takes
//! memory of `cuMemAlloc` too, waits for nothing: such memory is deferred until its stream has come to the free, as
//! the vendor's would be. An event tells when; whoever next allocates or frees asks some of the events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mneme_abi::cuda::sys::CUevent_flags;
use mneme_core::recording::manifest::AllocationKind;

use super::allocations::{ALLOCATIONS, LiveAllocation};
use super::arena::vmm;
use super::sharing::{exports, imports};
use crate::driver::streams::CaptureMode;
use crate::driver::{self, CUcontext, CUdevice, CUevent, CUstream, STREAM_LEGACY, Status, captures, streams, waiting};
use crate::process::settings::settings;

const DISABLE_TIMING: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
/// Events that a call asks at most. Each call defers one at most, so that what has been passed becomes no more.
const ASKED: usize = 4;
/// How often an allocation that finds no memory asks for what is deferred.
const PAUSE: Duration = Duration::from_micros(100);

/// Memory that the application has freed, and that work may still use that was enqueued before.
struct Deferred {
    frees: Vec<Free>,
    /// How many there have been.
    count: u64,
    /// The next one to be asked.
    next: usize,
    /// A wait for these to pass has reached its limit: another one would, too.
    in_vain: bool,
    /// Events of each context that are not in use.
    events: BTreeMap<usize, Vec<Event>>,
}

struct Free {
    /// Counts from 0.
    number: u64,
    live: LiveAllocation,
    /// Of the stream.
    context: usize,
    mark: Mark,
}

/// What tells whether a stream has come to a free.
enum Mark {
    /// It stands behind the free.
    Event(Event),
    /// The legacy default stream could not take one while another was captured.
    Wanted,
    /// Nothing but a wait for the context.
    Wait,
    /// It has: the context is gone.
    Passed,
}

struct Event(CUevent);

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for Event {}

static DEFERRED: Mutex<Deferred> = Mutex::new(Deferred::new());
/// Whether there may be any, so that other allocations and frees cost nothing more.
static ANY: AtomicBool = AtomicBool::new(false);

fn deferred() -> MutexGuard<'static, Deferred> {
    DEFERRED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Deferred {
    const fn new() -> Self {
        Self { frees: Vec::new(), count: 0, next: 0, in_vain: false, events: BTreeMap::new() }
    }

    /// Takes out the free at an index; its event can be used again.
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

    /// Takes out the frees below a number in the streams of a context.
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

    /// Whether time alone may let one of these pass.
    fn may_pass(&self) -> bool {
        !self.in_vain && self.frees.iter().any(|free| !matches!(free.mark, Mark::Wait))
    }

    /// Asks some, and takes out what their streams have passed.
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
    /// Whether the stream has come to it; asks the vendor.
    fn is_passed(&mut self) -> bool {
        match &self.mark {
            Mark::Passed => true,
            Mark::Wait => false,
            // The end of its context marks it as passed.
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

/// Has a stream tell when it has come to here: by this event, if there is one, else by a new one.
fn mark(context: usize, stream: usize, event: Option<Event>) -> Mark {
    if stream == STREAM_LEGACY && captures::in_progress() {
        return Mark::Wanted;
    }
    let mut marked = Mark::Wait;
    in_context(context, || {
        let _mode = CaptureMode::relaxed();
        let mut event = event.map_or(std::ptr::null_mut(), |Event(event)| event);
        // SAFETY: a valid place; an event of ours, and the stream that the application frees in.
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

/// Keeps an allocation that is freed in a stream until that has come to it.
pub fn defer(live: LiveAllocation, stream: usize) {
    let context = streams::context_of(stream).or_else(driver::current_context).unwrap_or(live.context);
    let event = deferred().events.get_mut(&context).and_then(Vec::pop);
    let mark = mark(context, stream, event);
    deferred().push(live, context, mark);
    ANY.store(true, Ordering::Release);
}

/// Gives back some of what has been passed by now.
pub fn give_back_passed() {
    give_back(ASKED);
}

/// Asks so many of the deferred frees, and gives back what has been passed; whether there was any.
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
        // These calls of the vendor's wait for nothing, and come back to no hook of ours.
        let passed = deferred.take_passed(most, Free::is_passed);
        ANY.store(!deferred.frees.is_empty(), Ordering::Release);
        passed
    };
    passed.iter().for_each(release);
    !passed.is_empty()
}

/// Waits for a context (0 for the current one), and gives back what was deferred in it before.
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

/// Waits until something deferred is given back, for as long as a launch may hold the application, but only once for
/// the same frees; whether anything was.
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

/// Contexts that are being destroyed.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// As long as it lives no event is asked: a context, and its events with it, is being destroyed.
pub struct EndOfContext(());

impl Drop for EndOfContext {
    fn drop(&mut self) {
        ENDING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Keeps other threads from asking events while a context is destroyed.
pub fn end_of_context() -> EndOfContext {
    ENDING.fetch_add(1, Ordering::SeqCst);
    // Whoever has begun to ask has done so when the lock is free.
    drop(deferred());
    EndOfContext(())
}

/// Forgets the events of a context that is gone: what was freed in its streams has been passed.
pub fn forget_context(context: usize) {
    let mut deferred = deferred();
    deferred.events.remove(&context);
    deferred.frees.iter_mut().filter(|free| free.context == context).for_each(|free| free.mark = Mark::Passed);
}

/// The same of every context, where it is not known which one is gone: only waits tell of those that live.
pub fn forget_all_contexts() {
    let mut deferred = deferred();
    deferred.events.clear();
    deferred.frees.iter_mut().for_each(|free| free.mark = Mark::Wait);
}

/// Has memory belong to another context than the one in which it was allocated, which is gone.
pub fn inherit(from: usize, to: usize) {
    let belong = |live: &mut LiveAllocation| {
        if live.context == from {
            live.context = to;
        }
    };
    ALLOCATIONS.change(belong);
    for free in &mut deferred().frees {
        belong(&mut free.live);
        // Its events are gone with it, and nothing says that its work has ended.
        if free.context == from {
            (free.context, free.mark) = (to, Mark::Wait);
        }
    }
    imports::inherit(from, to);
}

/// Takes out memory that was deferred and matches.
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

/// Puts memory that nothing uses any more back into its arena.
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
    // That would end the capture. A free does not where the thread's capture mode allows it, else it fails.
    try_vendors().err().unwrap_or(Status::SUCCESS)
}

/// Allocates memory of the vendor's and frees it, which only the vendor knows whether a capture in progress allows.
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

/// Runs a call with a context current that is alive, and puts the thread's own back.
fn in_context(context: usize, call: impl FnOnce() -> Status) -> Status {
    let own = driver::current_context();
    if context == 0 || own == Some(context) || own.is_none() {
        return call();
    }
    // SAFETY: a context frees its memory, and there is memory of this one; the thread's own was current a moment ago.
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

/// Forgets what was destroyed with a context of a device, and gives its memory back: nothing says that a mapping
/// outlives the context in which it was made.
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

    /// One stream goes on and another does not: what is kept is what the second one holds, and little more.
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

    /// A wait that has been in vain is not made again for the same frees.
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
