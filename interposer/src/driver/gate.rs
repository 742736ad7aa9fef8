//! The gate, which gives a recorded launch the device to itself.
//!
//! Every hooked call that can touch device memory holds the gate for reading while it is in the vendor's library. A
//! recorded launch holds it for writing from before its prologue until after its epilogue. It is the only lock that is
//! held across vendor calls.
//!
//! - The thread that holds the gate passes, and can record launches meanwhile: the launches of a graph's nodes.
//! - Waiting writers go first: otherwise a program that never pauses could never be recorded.
//! - A writer waits with a time limit, because a call in the vendor's library may itself wait for the launch.
//! - A call waits with a time limit too: the recorded kernel may wait for the thread that makes the call, and a writer
//!   may never come back (a signal handler jumps out of its call). So a writer states again and again for how long it
//!   wants the gate, and a call that has waited longer takes it.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Status;
use crate::process::flags::{FLAGS, GateSlot, OwnSlot, THREAD, ThreadFlags};

/// How many threads can pass without sharing a counter. Further threads share one.
const SLOTS: usize = 128;
/// How many times a writer checks without a pause whether the calls in progress have ended.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(50);
/// How much longer than its own limit others wait for a waiting writer.
const GRACE: Duration = Duration::from_secs(1);

struct Writers {
    inside: Option<Holder>,
    waiting: Vec<Holder>,
    /// How many writers there have been; the count numbers them.
    count: u64,
}

/// A writer that holds the gate or waits for it.
struct Holder {
    number: u64,
    /// From then on others need not wait for it.
    until: Instant,
}

/// The gate. Passing an open gate costs two stores to the thread's slot and one look at `closed`; everything else takes
/// the lock.
pub struct Gate {
    slots: [GateSlot; SLOTS],
    /// Passes held by threads without a slot.
    others: AtomicU32,
    /// True while a writer is inside or waits. Changed under the lock.
    closed: &'static AtomicBool,
    writers: Mutex<Writers>,
    changed: Condvar,
}

/// Null until the first fork; [`gate`] then uses its static gate.
static GATE_OF_CHILD: AtomicPtr<Gate> = AtomicPtr::new(std::ptr::null_mut());

fn gate() -> &'static Gate {
    static GATE: Gate = Gate::new(&FLAGS.closed);
    // SAFETY: null, or leaked and changed only through its lock.
    unsafe { GATE_OF_CHILD.load(Ordering::Acquire).as_ref() }.unwrap_or(&GATE)
}

thread_local! {
    static RETURNED: Return = const { Return };
}

/// Returns a thread's slot when the thread ends.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        if let OwnSlot::Slot(slot) = THREAD.with(|thread| thread.slot.replace(OwnSlot::None)) {
            slot.taken.store(false, Ordering::Release);
        }
    }
}

fn own_slot(gate: &'static Gate) -> Option<&'static GateSlot> {
    #[cold]
    fn take(gate: &'static Gate) -> Option<&'static GateSlot> {
        // A thread that is already ending gets no slot, because it could not return it.
        let free = || gate.slots.iter().find(|slot| !slot.taken.swap(true, Ordering::Acquire));
        let slot = RETURNED.try_with(|_| free()).ok().flatten();
        THREAD.with(|thread| thread.slot.set(slot.map_or(OwnSlot::None, OwnSlot::Slot)));
        slot
    }
    match THREAD.with(|thread| thread.slot.get()) {
        OwnSlot::Slot(slot) => Some(slot),
        OwnSlot::None => None,
        OwnSlot::Unknown => take(gate),
    }
}

/// Gives a forked child a new gate. The thread that had closed the parent's gate does not exist in the child, so it
/// would never open it.
pub fn renew() {
    THREAD.with(|thread| {
        thread.slot.set(OwnSlot::Unknown);
        thread.shared_passes.set(0);
        thread.closed.set(0);
    });
    FLAGS.closed.store(false, Ordering::SeqCst);
    GATE_OF_CHILD.store(Box::into_raw(Box::new(Gate::new(&FLAGS.closed))), Ordering::Release);
}

/// Runs a call that may touch device memory.
pub fn passing(call: &dyn Fn() -> Status) -> Status {
    let gate = gate();
    let _pass = gate.enter(own_slot(gate));
    call()
}

/// Returns a pass if the gate is open and this thread has a slot. The slot belongs to the gate of this process, because
/// [`renew`] makes it unknown.
#[inline]
pub fn pass_open(thread: &ThreadFlags) -> Option<Pass<'static>> {
    let OwnSlot::Slot(slot) = thread.slot.get() else { return None };
    let pass = Pass::by(slot);
    (!FLAGS.closed.load(Ordering::SeqCst)).then_some(pass)
}

/// Closes the gate for a recorded launch. Returns `None` if the calls in progress do not end in time. If this thread
/// holds the gate already, it stays closed for that.
pub fn close(limit: Duration) -> Option<Closed<'static>> {
    let (gate, number) = (gate(), THREAD.with(|thread| thread.closed.get()));
    if number != 0 && gate.keep(number, Instant::now() + limit) {
        return Some(Closed { gate, number, is_nested: true });
    }
    let closed = gate.close(limit)?;
    THREAD.with(|thread| thread.closed.set(closed.number));
    Some(closed)
}

/// Whether the application has left a recorded launch by a jump.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// Whether a recorded launch was [abandoned](abandon).
pub fn was_abandoned() -> bool {
    ABANDONED.load(Ordering::Relaxed)
}

/// Releases everything that a thread holds of the gate after its call was left by a jump.
pub fn abandon(thread: &ThreadFlags) {
    if let OwnSlot::Slot(slot) = thread.slot.get() {
        slot.depth.store(0, Ordering::Release);
    }
    gate().others.fetch_sub(thread.shared_passes.take(), Ordering::Release);
    let number = thread.closed.take();
    if number != 0 {
        ABANDONED.store(true, Ordering::Relaxed);
        drop(Closed { gate: gate(), number, is_nested: false });
    }
}

/// Held while a call is in the vendor's library.
pub enum Pass<'a> {
    Own(&'a GateSlot),
    /// Through the counter that threads without a slot share.
    Shared(&'a AtomicU32),
}

impl<'a> Pass<'a> {
    /// Enters through a slot. The caller must look at `closed` next: this store and that look are in one total order
    /// with the writer's store and its looks, so at least one side sees the other.
    #[inline]
    fn by(slot: &'a GateSlot) -> Self {
        slot.depth.store(slot.depth.load(Ordering::Relaxed) + 1, Ordering::SeqCst);
        Self::Own(slot)
    }
}

/// The closed gate, held by a writer.
pub struct Closed<'a> {
    gate: &'a Gate,
    number: u64,
    /// Another one opens the gate.
    is_nested: bool,
}

impl Closed<'_> {
    /// Keeps the gate for this long from now; afterwards a waiting call takes it. Returns false if one has taken it
    /// already.
    pub fn keep_for(&self, limit: Duration) -> bool {
        self.gate.keep(self.number, Instant::now() + limit)
    }

    pub fn is_kept(&self) -> bool {
        self.gate.lock().holder(self.number).is_some()
    }
}

impl Writers {
    fn holder(&mut self, number: u64) -> Option<&mut Holder> {
        self.inside.as_mut().filter(|holder| holder.number == number)
    }

    fn waiting(&mut self, number: u64) -> Option<&mut Holder> {
        self.waiting.iter_mut().find(|writer| writer.number == number)
    }
}

impl Gate {
    const fn new(closed: &'static AtomicBool) -> Self {
        Self {
            slots: [const { GateSlot { depth: AtomicU32::new(0), taken: AtomicBool::new(false) } }; SLOTS],
            others: AtomicU32::new(0),
            closed,
            writers: Mutex::new(Writers { inside: None, waiting: Vec::new(), count: 0 }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Writers> {
        // The state consists of counters, which are valid after any panic.
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters through the thread's own slot if it has one.
    fn enter<'a>(&'a self, slot: Option<&'a GateSlot>) -> Pass<'a> {
        loop {
            let pass = match slot {
                Some(slot) => Pass::by(slot),
                None => {
                    THREAD.with(|thread| thread.shared_passes.update(|count| count + 1));
                    self.others.fetch_add(1, Ordering::SeqCst);
                    Pass::Shared(&self.others)
                }
            };
            if !self.closed.load(Ordering::SeqCst) || self.is_held_here() {
                return pass;
            }
            drop(pass);
            let mut writers = self.lock();
            while self.closed.load(Ordering::SeqCst) {
                writers = self.wait(writers);
            }
        }
    }

    fn is_held_here(&self) -> bool {
        let number = THREAD.with(|thread| thread.closed.get());
        number != 0 && self.lock().holder(number).is_some()
    }

    /// Waits for a change, and takes the gate from a writer whose time is over. If no writer is inside, waiting writers
    /// have closed the gate; each gives up in time unless its thread has left.
    fn wait<'a>(&self, mut writers: MutexGuard<'a, Writers>) -> MutexGuard<'a, Writers> {
        let until = match &writers.inside {
            Some(holder) => Some(holder.until),
            None => writers.waiting.iter().map(|writer| writer.until + GRACE).max(),
        };
        let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        if !left.is_zero() {
            return self.changed.wait_timeout(writers, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if writers.inside.take().is_none() {
            writers.waiting.clear();
        }
        self.open(&writers);
        writers
    }

    /// Sets the time from which the gate may be taken from a writer. Returns whether the writer still has it. Waiting
    /// calls see the new time when the old one is over.
    fn keep(&self, number: u64, until: Instant) -> bool {
        let mut writers = self.lock();
        let Some(holder) = writers.holder(number) else { return false };
        let is_sooner = until < holder.until;
        holder.until = until;
        if is_sooner {
            self.changed.notify_all();
        }
        true
    }

    fn is_empty(&self) -> bool {
        self.slots.iter().map(|slot| &slot.depth).chain([&self.others]).all(|count| count.load(Ordering::SeqCst) == 0)
    }

    fn close(&self, limit: Duration) -> Option<Closed<'_>> {
        let mut writers = self.lock();
        writers.count += 1;
        let number = writers.count;
        writers.waiting.push(Holder { number, until: Instant::now() + limit });
        self.closed.store(true, Ordering::SeqCst);
        let mut looks = 0;
        while writers.inside.is_some() || !self.is_empty() {
            if writers.inside.is_some() {
                // Another launch is being recorded, and its time is limited.
                writers = self.wait(writers);
                writers.waiting(number)?.until = Instant::now() + limit;
                continue;
            }
            if Instant::now() >= writers.waiting(number)?.until {
                writers.waiting.retain(|writer| writer.number != number);
                self.open(&writers);
                return None;
            }
            looks += 1;
            // Threads that leave through a slot do not notify.
            if looks > LOOKS {
                writers = self.changed.wait_timeout(writers, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                std::thread::yield_now();
            }
        }
        // If the others have stopped waiting for this writer, the gate is open and not entered.
        writers.waiting(number)?;
        writers.waiting.retain(|writer| writer.number != number);
        writers.inside = Some(Holder { number, until: Instant::now() + limit });
        Some(Closed { gate: self, number, is_nested: false })
    }

    /// Lets readers in again, unless a writer holds the gate or waits.
    fn open(&self, writers: &Writers) {
        if writers.inside.is_none() && writers.waiting.is_empty() {
            self.closed.store(false, Ordering::SeqCst);
        }
        self.changed.notify_all();
    }
}

impl Drop for Pass<'_> {
    /// Leaves with a plain store to the thread's own slot. An atomic subtraction would wait until the processor has
    /// written out the last write of the vendor's library, the doorbell of the GPU across PCIe: 0.03 us of every launch
    /// on an H200.
    #[inline]
    fn drop(&mut self) {
        match self {
            // The depth is already 0 if the call was abandoned and returned nevertheless.
            Self::Own(slot) => {
                slot.depth.store(slot.depth.load(Ordering::Relaxed).saturating_sub(1), Ordering::Release);
            }
            Self::Shared(count) => THREAD.with(|thread| {
                let own = thread.shared_passes.get();
                thread.shared_passes.set(own.saturating_sub(1));
                count.fetch_sub(own.min(1), Ordering::Release);
            }),
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if self.is_nested {
            return;
        }
        THREAD.with(|thread| thread.closed.set(0));
        let mut writers = self.gate.lock();
        if writers.holder(self.number).is_some() {
            writers.inside = None;
            self.gate.open(&writers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    const LONG: Duration = Duration::from_secs(60);

    fn open_gate() -> Gate {
        Gate::new(Box::leak(Box::default()))
    }

    #[test]
    fn the_thread_that_holds_the_gate_passes_and_closes_it_again() {
        let passed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let outer = close(LONG).unwrap();
            outer.keep_for(LONG);
            let other = scope.spawn(|| {
                passing(&|| {
                    passed.store(true, Ordering::SeqCst);
                    Status::SUCCESS
                })
            });
            assert_eq!(passing(&|| Status(7)), Status(7));
            let inner = close(Duration::ZERO).unwrap();
            assert!(inner.keep_for(LONG) && inner.is_kept());
            drop(inner);
            std::thread::sleep(Duration::from_millis(20));
            assert!(outer.is_kept() && !passed.load(Ordering::SeqCst));
            drop(outer);
            assert_eq!(other.join().unwrap(), Status::SUCCESS);
        });
    }

    #[test]
    fn a_closed_gate_is_exclusive() {
        let gate = open_gate();
        let (inside, passes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            // Two threads with slots, and two without.
            for slot in [Some(&gate.slots[0]), Some(&gate.slots[1]), None, None] {
                let (gate, inside, passes) = (&gate, &inside, &passes);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let _pass = gate.enter(slot);
                        inside.fetch_add(1, Ordering::SeqCst);
                        passes.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _closed = gate.close(LONG).unwrap();
                        assert_eq!(inside.fetch_add(1000, Ordering::SeqCst), 0);
                        inside.fetch_sub(1000, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(passes.into_inner(), 2000);
    }

    #[test]
    fn closing_gives_up_and_lets_the_others_in_again() {
        let gate = open_gate();
        let pass = gate.enter(Some(&gate.slots[0]));
        assert!(gate.close(Duration::from_millis(10)).is_none());
        let _second = gate.enter(None);
        drop(pass);
        assert!(gate.close(Duration::from_millis(10)).is_none());
        drop(_second);
        assert!(gate.close(LONG).is_some());
    }

    #[test]
    fn who_waits_for_too_long_takes_the_gate() {
        let gate = open_gate();
        let closed = gate.close(LONG).unwrap();
        assert!(closed.keep_for(Duration::from_millis(10)));
        std::thread::sleep(Duration::from_millis(20));
        assert!(closed.is_kept() && closed.keep_for(Duration::from_millis(10)), "nobody waits");
        drop(gate.enter(None));
        assert!(!closed.is_kept() && !closed.keep_for(LONG));
        // Another writer has it now, which the first one's end leaves alone.
        let second = gate.close(LONG).unwrap();
        drop(closed);
        assert!(second.is_kept() && gate.closed.load(Ordering::SeqCst));
        second.keep_for(Duration::ZERO);
        let third = gate.close(LONG).unwrap();
        assert!(!second.is_kept() && third.is_kept());
        drop(third);
        assert!(!gate.closed.load(Ordering::SeqCst));
    }

    #[test]
    fn who_waits_already_takes_the_gate_when_less_time_is_wanted() {
        let gate = open_gate();
        let closed = gate.close(LONG).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(gate.enter(None)));
            std::thread::sleep(Duration::from_millis(20));
            closed.keep_for(Duration::from_millis(10));
            waiting.join().unwrap();
        });
        assert!(!closed.is_kept());
    }

    /// A signal handler has jumped out of the writer's call.
    #[test]
    fn a_writer_that_is_gone_is_not_waited_for() {
        let gate = open_gate();
        gate.closed.store(true, Ordering::SeqCst);
        gate.lock().waiting.push(Holder { number: 7, until: Instant::now() });
        drop(gate.enter(None));
        assert!(gate.lock().waiting.is_empty() && !gate.closed.load(Ordering::SeqCst));
        std::mem::forget(gate.close(Duration::from_millis(10)).unwrap());
        drop(gate.enter(None));
        assert!(gate.close(LONG).is_some());
    }

    #[test]
    fn a_thread_has_a_place_until_it_ends() {
        let gate: &Gate = Box::leak(Box::new(open_gate()));
        let taken = || gate.slots.iter().filter(|slot| slot.taken.load(Ordering::SeqCst)).count();
        std::thread::scope(|scope| {
            let slot = || own_slot(gate).map(std::ptr::from_ref).map(|slot| slot as usize);
            let first = scope.spawn(move || (slot(), slot(), taken())).join().unwrap();
            assert!(first.0.is_some() && first.0 == first.1 && first.2 == 1);
        });
        assert_eq!(taken(), 0);
        let all = std::sync::Barrier::new(SLOTS + 2);
        let with_place = std::thread::scope(|scope| {
            let thread = || {
                let has = own_slot(gate).is_some();
                all.wait();
                has
            };
            let threads: Vec<_> = (0..SLOTS + 2).map(|_| scope.spawn(thread)).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap().then_some(())).count()
        });
        assert_eq!(with_place, SLOTS);
        assert_eq!(taken(), 0);
    }
}
