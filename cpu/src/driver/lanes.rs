//! Work that is under way, and what waits for it.
//!
//! A *lane* is work that is done in order: that of a stream, or of a branch of a graph. Work whose turn it is at once
//! is done inside the call that submits it ([`submit`]), and nothing of it stays here. A launch that is not done at the
//! end of its turn continues, and so does a function of the host; a thread of ours attends to the lane then. What comes
//! after it is queued, and the call that submits it returns. A call that has to wait does so by [`Moment`]s.
//!
//! A moment only ever waits for earlier ones, so there is always one that waits for none.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context;
use crate::execution::{self, BegunLaunch, CheckedLaunch, launch};
use crate::status::{Status, StatusResult};

/// Which lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneKey {
    /// The default stream of a context that waits for the others and has them wait.
    Legacy(usize),
    /// A thread's own default stream in a context.
    PerThread(usize, u64),
    Stream(usize),
    /// A branch of a graph that was launched.
    Branch(u64),
}

/// Where work is submitted to.
#[derive(Clone, Copy)]
pub struct Place {
    pub key: LaneKey,
    pub context: usize,
    pub device: i32,
    /// Whether it waits for the legacy default stream, and that one for it.
    pub blocking: bool,
}

/// When a piece of work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    lane: LaneKey,
    /// Work is numbered in the order in which it was submitted.
    number: u64,
}

/// What there is to do.
pub enum Task {
    /// What takes no longer than its bytes do.
    Quick(Box<dyn FnOnce() -> StatusResult + Send>),
    Kernel(Box<CheckedLaunch>),
    /// A function of the application, which may take as long as it likes; it is told how the device is.
    Host(Box<dyn FnOnce(StatusResult) + Send>),
    /// The rest of a launch.
    Rest(BegunLaunch),
}

impl Task {
    pub fn quick(work: impl FnOnce() -> StatusResult + Send + 'static) -> Self {
        Self::Quick(Box::new(work))
    }

    /// For work that only marks a place.
    pub fn nothing() -> Self {
        Self::quick(|| Ok(()))
    }
}

enum Progress {
    /// Done inside the call that submitted it, so not for long.
    InCall,
    /// A thread of ours does it.
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

/// What a lane has still to do; there is none without.
struct Lane {
    place: Place,
    entries: VecDeque<Entry>,
    /// Whether a thread of ours does its work.
    attended: bool,
}

struct State {
    lanes: BTreeMap<LaneKey, Lane>,
    /// The number of the next piece of work.
    next: u64,
    /// Threads that wait for a change.
    waiting: usize,
    /// Lanes that are marked as attended, and that no thread has come to yet.
    unattended: VecDeque<LaneKey>,
    /// Threads that look for such a lane, or are about to.
    available: usize,
}

static STATE: Mutex<State> =
    Mutex::new(State { lanes: BTreeMap::new(), next: 0, waiting: 0, unattended: VecDeque::new(), available: 0 });
static CHANGED: Condvar = Condvar::new();

/// How long a thread of ours looks for further work.
const LINGER: Duration = Duration::from_secs(1);

thread_local! {
    /// Whether this thread runs a function of the host for a lane, which may not wait for the device.
    static IS_ATTENDING: Cell<bool> = const { Cell::new(false) };
}

/// `CUDA_ERROR_NOT_PERMITTED`: a function of the host made a call that waits.
const NOT_PERMITTED: Status = Status(800);

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn is_reached(&self, moment: &Moment) -> bool {
        let first = self.lanes.get(&moment.lane).and_then(|lane| lane.entries.front());
        first.is_none_or(|first| first.number > moment.number)
    }

    /// Whether all until a moment is done inside calls.
    fn is_in_call(&self, moment: &Moment) -> bool {
        let entries = self.lanes.get(&moment.lane).into_iter().flat_map(|lane| &lane.entries);
        let mut until = entries.take_while(|entry| entry.number <= moment.number);
        until.all(|entry| matches!(entry.progress, Progress::InCall))
    }

    /// When all is done that lanes have to do now.
    fn ends(&self, is_meant: impl Fn(&Place) -> bool) -> Vec<Moment> {
        let lanes = self.lanes.iter().filter(|(_, lane)| is_meant(&lane.place));
        lanes.filter_map(|(key, lane)| Some(Moment { lane: *key, number: lane.entries.back()?.number })).collect()
    }

    /// What work that is submitted to a place now comes after, but for what is done.
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

    /// Makes sure that a thread of ours does what a lane has to do.
    fn attend(&mut self, key: LaneKey) {
        let Some(lane) = self.lanes.get_mut(&key).filter(|lane| !lane.attended) else { return };
        lane.attended = true;
        self.unattended.push_back(key);
        if self.available < self.unattended.len() {
            let new = || std::thread::Builder::new().name("mneme-cpu-lane".into()).spawn(serve);
            match execution::without_signals(new) {
                Ok(_) => self.available += 1,
                Err(error) => {
                    crate::say!("no thread could be started for a stream; its work is done inside calls: {error}")
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

    /// The first piece of work of a lane is done.
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

/// Waits for a change, at most so long.
fn wait_for_change(mut state: MutexGuard<'static, State>, long: Option<Duration>) -> MutexGuard<'static, State> {
    state.waiting += 1;
    let mut state = match long {
        None => CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner),
        Some(long) => CHANGED.wait_timeout(state, long).unwrap_or_else(PoisonError::into_inner).0,
    };
    state.waiting -= 1;
    state
}

/// Has work done when all before it is, in its lane and otherwise: inside this call, or later, and then at the moment
/// that it gives.
///
/// # Errors
/// Those of work that is done inside the call; later ones become the device's fault, as those of kernels do.
pub fn submit(place: &Place, after: &[Moment], task: Task) -> Result<Option<Moment>, Status> {
    let mut state = lock();
    let before = loop {
        let before = state.before(place, after);
        // Other threads' calls end soon, so that fast work of several threads is done inside their calls.
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
        // A function of the host is mostly done at once.
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

/// The launch itself has succeeded; what the kernel ran into is for later calls to say, as on a GPU.
fn note_fault(done: StatusResult, device: i32) -> StatusResult {
    if let Err(status) = done {
        context::set_fault(device, status);
    }
    Ok(())
}

/// Does work to its end. After a fault of the device nothing runs but what takes note of it.
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

/// A thread of ours: does what lanes have to do.
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

/// Does the work of lanes inside this call if no thread could be started for them.
fn relieve(mut state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
    while state.available < state.unattended.len() && !IS_ATTENDING.get() {
        let Some(key) = state.unattended.pop_front() else { break };
        state = do_all(key, state);
    }
    state
}

/// Does what a lane has to do, until there is no more.
fn do_all(key: LaneKey, mut state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
    while let Some((place, first)) = state.lanes.get(&key).and_then(|lane| Some((lane.place, lane.entries.front()?))) {
        let is_free = match &first.progress {
            Progress::Queued { after, .. } => after.iter().all(|moment| moment.lane == key || state.is_reached(moment)),
            // Another thread's call, which ends soon.
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

/// Waits until the moments have come, at most so long; whether they have.
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

/// Waits until the moments have come, and shows what kernels have printed by then.
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

/// When all is done that belongs to a context, by now.
pub fn of_context(context: usize) -> Vec<Moment> {
    lock().ends(|place| place.context == context)
}

/// The same of all contexts.
pub fn of_all() -> Vec<Moment> {
    lock().ends(|_| true)
}

/// When work that is submitted to a place now would begin.
pub fn before(place: &Place) -> Vec<Moment> {
    lock().before(place, &[])
}

/// When a stream has done what it has to do; the legacy default stream stands for all that it waits for.
pub fn of_stream(place: &Place) -> Vec<Moment> {
    let state = lock();
    match place.key {
        LaneKey::Legacy(_) => state.before(place, &[]),
        key => state.ends(|other| other.key == key),
    }
}

/// A branch that no other work is in.
pub fn new_branch(of: &Place) -> Place {
    let mut state = lock();
    state.next += 1;
    Place { key: LaneKey::Branch(state.next), blocking: false, ..*of }
}
