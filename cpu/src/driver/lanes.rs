//! Work in progress, and the work that waits for it.
//!
//! A *lane* executes its work in order; a stream is a lane, and so is a branch of a graph. Work that can begin at once
//! runs inside the call that submits it ([`submit`]) and leaves no trace here. A launch that is not done at the end of
//! its turn continues, and so does a host function; one of the device's threads then attends to the lane. Later work is
//! queued, and the calls that submit it return. Calls that have to wait do so with [`Moment`]s.
//!
//! A moment only waits for earlier ones, so there is always one that waits for none.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context;
use crate::execution::{self, BegunLaunch, CheckedLaunch, launch};
use crate::status::{Status, StatusResult};

/// The identity of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneKey {
    /// The default stream of a context that synchronises with the other streams.
    Legacy(usize),
    /// A thread's own default stream in a context.
    PerThread(usize, u64),
    Stream(usize),
    /// A branch of a launched graph.
    Branch(u64),
}

/// The lane to which work is submitted.
#[derive(Clone, Copy)]
pub struct Place {
    pub key: LaneKey,
    pub context: usize,
    pub device: i32,
    /// Whether it synchronises with the legacy default stream.
    pub blocking: bool,
}

/// The end of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    lane: LaneKey,
    /// Work is numbered in the order of submission.
    number: u64,
}

/// A piece of work.
pub enum Task {
    /// Work that takes as long as its bytes need, and never waits.
    Quick(Box<dyn FnOnce() -> StatusResult + Send>),
    Kernel(Box<CheckedLaunch>),
    /// A function of the application, which may take any time. Its argument is the state of the device.
    Host(Box<dyn FnOnce(StatusResult) + Send>),
    /// The rest of a launch that has begun.
    Rest(BegunLaunch),
}

impl Task {
    pub fn quick(work: impl FnOnce() -> StatusResult + Send + 'static) -> Self {
        Self::Quick(Box::new(work))
    }

    /// Work that only marks a place.
    pub fn nothing() -> Self {
        Self::quick(|| Ok(()))
    }
}

enum Progress {
    /// A call that submitted it is running it; it ends soon.
    InCall,
    /// A thread of the device is running it.
    Attended,
    Queued {
        after: Vec<Moment>,
        task: Task,
    },
}

struct Entry {
    number: u64,
    progress: Progress,
}

/// The unfinished work of a lane. A lane without any is removed.
struct Lane {
    place: Place,
    entries: VecDeque<Entry>,
    /// Whether a thread of the device does its work.
    attended: bool,
}

struct State {
    lanes: BTreeMap<LaneKey, Lane>,
    /// The number of the next piece of work.
    next: u64,
    /// The number of threads that wait for a change.
    waiting: usize,
    /// Lanes marked as attended that no thread has taken yet.
    unattended: VecDeque<LaneKey>,
    /// The number of threads that look for such a lane, or are about to.
    available: usize,
}

static STATE: Mutex<State> =
    Mutex::new(State { lanes: BTreeMap::new(), next: 0, waiting: 0, unattended: VecDeque::new(), available: 0 });
static CHANGED: Condvar = Condvar::new();

/// How long a thread without work waits for more before it ends.
const LINGER: Duration = Duration::from_secs(1);

thread_local! {
    /// Whether this thread is running a host function, which may not wait for the device.
    static IS_ATTENDING: Cell<bool> = const { Cell::new(false) };
}

/// `CUDA_ERROR_NOT_PERMITTED`: a host function made a call that waits.
const NOT_PERMITTED: Status = Status(800);

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn is_reached(&self, moment: &Moment) -> bool {
        let first = self.lanes.get(&moment.lane).and_then(|lane| lane.entries.front());
        first.is_none_or(|first| first.number > moment.number)
    }

    /// Whether all work up to a moment is running inside calls.
    fn is_in_call(&self, moment: &Moment) -> bool {
        let entries = self.lanes.get(&moment.lane).into_iter().flat_map(|lane| &lane.entries);
        let mut until = entries.take_while(|entry| entry.number <= moment.number);
        until.all(|entry| matches!(entry.progress, Progress::InCall))
    }

    /// The moments at which the lanes have done all their present work.
    fn ends(&self, is_meant: impl Fn(&Place) -> bool) -> Vec<Moment> {
        let lanes = self.lanes.iter().filter(|(_, lane)| is_meant(&lane.place));
        lanes.filter_map(|(key, lane)| Some(Moment { lane: *key, number: lane.entries.back()?.number })).collect()
    }

    /// The unfinished work that work submitted to a place now has to wait for.
    fn before(&self, place: &Place, after: &[Moment]) -> Vec<Moment> {
        if self.lanes.is_empty() {
            return Vec::new();
        }
        let is_legacy = matches!(place.key, LaneKey::Legacy(_));
        let mut before = self.ends(|other| {
            let is_ordered = other.blocking && is_legacy || place.blocking && matches!(other.key, LaneKey::Legacy(_));
            other.key == place.key || other.context == place.context && is_ordered
        });
        before.extend(after.iter().filter(|moment| !self.is_reached(moment)));
        before
    }

    fn push(&mut self, place: &Place, progress: Progress) -> Moment {
        let number = self.next;
        self.next += 1;
        let new = || Lane { place: *place, entries: VecDeque::new(), attended: false };
        self.lanes.entry(place.key).or_insert_with(new).entries.push_back(Entry { number, progress });
        Moment { lane: place.key, number }
    }

    /// Assigns a thread of the device to a lane.
    fn attend(&mut self, key: LaneKey) {
        let Some(lane) = self.lanes.get_mut(&key).filter(|lane| !lane.attended) else { return };
        lane.attended = true;
        self.unattended.push_back(key);
        if self.available < self.unattended.len() {
            match execution::start_thread("mneme-cpu-lane", serve) {
                Ok(()) => self.available += 1,
                Err(error) => {
                    crate::report::say!(
                        "a thread for a stream could not be started, so its work runs inside calls: {error}"
                    )
                }
            }
        }
        self.tell();
    }

    fn tell(&self) {
        if self.waiting > 0 {
            CHANGED.notify_all();
        }
    }

    /// Removes the first piece of work of a lane, which is done.
    fn complete(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.entries.pop_front();
            if lane.entries.is_empty() {
                self.lanes.remove(&key);
            } else {
                self.attend(key);
            }
        }
        self.tell();
    }
}

/// Waits for a change of the state, with an optional limit.
fn wait_for_change(mut state: MutexGuard<'static, State>, long: Option<Duration>) -> MutexGuard<'static, State> {
    state.waiting += 1;
    let mut state = match long {
        None => CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner),
        Some(long) => CHANGED.wait_timeout(state, long).unwrap_or_else(PoisonError::into_inner).0,
    };
    state.waiting -= 1;
    state
}

/// Submits work, which runs when all earlier work of its lane and all of `after` is done. It runs inside this call if
/// it can; otherwise the result is the moment at which it will be done.
///
/// # Errors
/// Those of work that ran inside the call. Later errors become faults of the device, as errors of kernels do.
pub fn submit(place: &Place, after: &[Moment], task: Task) -> Result<Option<Moment>, Status> {
    let mut state = lock();
    let before = loop {
        let before = state.before(place, after);
        // Other threads' calls end soon, so waiting for them lets fast work of several threads run inside their calls.
        if before.is_empty() || !before.iter().all(|moment| state.is_in_call(moment)) {
            break before;
        }
        state = wait_for_change(state, None);
    };
    let is_next = before.is_empty();
    if !is_next || matches!(task, Task::Host(_)) {
        let moment = state.push(place, Progress::Queued { after: before, task });
        state.attend(place.key);
        state = relieve(state);
        // Most host functions return at once.
        let waits = is_next && wait_until(state, &[moment], Some(launch::turn()));
        return Ok((!waits).then_some(moment));
    }
    let moment = state.push(place, Progress::InCall);
    drop(state);
    let done = match task {
        Task::Kernel(checked) => match execution::begin(*checked) {
            Ok(begun) if !begun.is_done() => {
                let mut state = lock();
                if let Some(first) = state.lanes.get_mut(&place.key).and_then(|lane| lane.entries.front_mut()) {
                    first.progress = Progress::Queued { after: Vec::new(), task: Task::Rest(begun) };
                }
                state.attend(place.key);
                state.tell();
                drop(relieve(state));
                return Ok(Some(moment));
            }
            begun => note_fault(begun.and_then(BegunLaunch::finish), place.device),
        },
        other => perform(other, place.device),
    };
    let mut state = lock();
    state.complete(place.key);
    drop(relieve(state));
    done.map(|()| None)
}

/// Records a kernel's error for later calls. As on a GPU, the launch itself succeeds.
fn note_fault(done: StatusResult, device: i32) -> StatusResult {
    if let Err(status) = done {
        context::set_fault(device, status);
    }
    Ok(())
}

/// Runs work to its end. After a fault of the device, only work that handles the fault itself runs.
fn perform(task: Task, device: i32) -> StatusResult {
    let state = context::fault_of(device);
    match task {
        Task::Quick(work) => work(),
        Task::Kernel(_) if state.is_err() => Ok(()),
        Task::Kernel(checked) => note_fault(execution::begin(*checked).and_then(BegunLaunch::finish), device),
        Task::Rest(begun) => note_fault(begun.finish(), device),
        Task::Host(call) => {
            IS_ATTENDING.set(true);
            call(state);
            IS_ATTENDING.set(false);
            Ok(())
        }
    }
}

/// The main function of the device's threads: does the work of lanes.
fn serve() {
    let mut state = lock();
    let mut since = Instant::now();
    loop {
        if let Some(key) = state.unattended.pop_front() {
            state.available -= 1;
            state = do_all(key, state);
            state.available += 1;
            since = Instant::now();
        } else if since.elapsed() >= LINGER {
            state.available -= 1;
            return;
        } else {
            state = wait_for_change(state, Some(LINGER));
        }
    }
}

/// Does the work of lanes inside this call, if no thread could be started for them.
fn relieve(mut state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
    while state.available < state.unattended.len() && !IS_ATTENDING.get() {
        let Some(key) = state.unattended.pop_front() else { break };
        state = do_all(key, state);
    }
    state
}

/// Does the work of a lane until none is left.
fn do_all(key: LaneKey, mut state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
    while let Some((place, first)) = state.lanes.get(&key).and_then(|lane| Some((lane.place, lane.entries.front()?))) {
        let is_free = match &first.progress {
            Progress::Queued { after, .. } => after.iter().all(|moment| moment.lane == key || state.is_reached(moment)),
            // Another thread's call runs it, and ends soon.
            Progress::InCall | Progress::Attended => false,
        };
        if !is_free {
            state = wait_for_change(state, None);
            continue;
        }
        let first = state.lanes.get_mut(&key).and_then(|lane| lane.entries.front_mut());
        let taken = first.map(|first| std::mem::replace(&mut first.progress, Progress::Attended));
        drop(state);
        if let Some(Progress::Queued { task, .. }) = taken {
            let done = context::within(place.context, || perform(task, place.device));
            let _ = done.inspect_err(|status| context::set_fault(place.device, *status));
        }
        state = lock();
        state.complete(key);
    }
    state
}

/// Waits until all moments have come, with an optional limit. Returns whether they have.
fn wait_until(mut state: MutexGuard<'static, State>, moments: &[Moment], long: Option<Duration>) -> bool {
    let start = Instant::now();
    loop {
        if moments.iter().all(|moment| state.is_reached(moment)) {
            return true;
        }
        let rest = long.map(|long| long.saturating_sub(start.elapsed()));
        if rest.is_some_and(|rest| rest.is_zero()) {
            return false;
        }
        state = wait_for_change(state, rest);
    }
}

/// Waits until all moments have come, and prints the output of the kernels that ran until then.
pub fn wait(moments: &[Moment]) -> StatusResult {
    if !are_reached(moments) {
        if IS_ATTENDING.get() {
            return Err(NOT_PERMITTED);
        }
        wait_until(lock(), moments, None);
    }
    execution::printf::flush();
    Ok(())
}

pub fn are_reached(moments: &[Moment]) -> bool {
    let state = lock();
    moments.iter().all(|moment| state.is_reached(moment))
}

/// The end of all present work of a context.
pub fn of_context(context: usize) -> Vec<Moment> {
    lock().ends(|place| place.context == context)
}

/// The end of all present work of all contexts.
pub fn of_all() -> Vec<Moment> {
    lock().ends(|_| true)
}

/// The moments that work submitted to a place now would wait for.
pub fn before(place: &Place) -> Vec<Moment> {
    lock().before(place, &[])
}

/// The end of a stream's present work. For the legacy default stream, that includes all streams it waits for.
pub fn of_stream(place: &Place) -> Vec<Moment> {
    let state = lock();
    match place.key {
        LaneKey::Legacy(_) => state.before(place, &[]),
        key => state.ends(|other| other.key == key),
    }
}

/// A new branch without other work.
pub fn new_branch(of: &Place) -> Place {
    let mut state = lock();
    state.next += 1;
    Place { key: LaneKey::Branch(state.next), blocking: false, ..*of }
}
