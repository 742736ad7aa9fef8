//! The worker threads, which are started at the first launch.
//!
//! A launch begins with a *turn*, in which it has the workers to itself: as many as there are processors. One that is
//! not done at its end keeps its workers and [continues](Crew) beside others, for which further workers are started;
//! the system divides the processors between them. So a kernel may wait for as long as it likes for another one, or for
//! the host.
//!
//! The thread that launches never runs blocks, so that an application's own stacks and signal masks never come near
//! kernel code.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context::ThreadContext;
use super::fault::KernelFault;
use super::grid::Grid;
use super::limit::{self, LaunchTimeLimit};
use super::worker::Worker;
use super::{fibers, loops, processors, signals};
use crate::architecture::FAULTS;

/// A launch, and the workers that take part in it.
pub struct Crew {
    grid: Arc<Grid>,
    limit: LaunchTimeLimit,
    members: Mutex<Members>,
    changed: Condvar,
}

struct Members {
    /// Workers that have still to come or to leave.
    left: u64,
    /// The thread ids of those that are there.
    present: Vec<libc::pid_t>,
}

#[derive(Default)]
struct State {
    /// Launches that wait for workers, with how many each.
    wanted: VecDeque<(Arc<Crew>, u64)>,
    /// Threads that look for a launch, or are about to.
    available: u64,
    under_way: Vec<Arc<Crew>>,
    /// Whether the process ends, so that no further launch begins.
    ended: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { wanted: VecDeque::new(), available: 0, under_way: Vec::new(), ended: false });
static WORK: Condvar = Condvar::new();
/// Held by the launch that has its turn.
static TURN: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the launch its turn: runs it on at most `workers` workers, until it is done or for so long.
pub fn begin(grid: Grid, workers: u64, turn: Duration) -> std::io::Result<Arc<Crew>> {
    let _turn = lock(&TURN);
    let tickets = workers.min(processors::count());
    let crew = Arc::new(Crew {
        limit: LaunchTimeLimit::new(grid.launch.time_limit),
        grid: Arc::new(grid),
        members: Mutex::new(Members { left: tickets, present: Vec::new() }),
        changed: Condvar::new(),
    });
    let mut state = lock(&STATE);
    if state.ended {
        lock(&crew.members).left = 0;
        return Ok(crew);
    }
    let needed = tickets + state.wanted.iter().map(|(_, tickets)| tickets).sum::<u64>();
    while state.available < needed {
        without_signals(|| std::thread::Builder::new().name("mneme-cpu".into()).spawn(serve))?;
        state.available += 1;
    }
    state.wanted.push_back((crew.clone(), tickets));
    state.under_way.push(crew.clone());
    drop(state);
    for _ in 0..tickets {
        WORK.notify_one();
    }
    if !crew.wait(Some(turn)) {
        crew.grid.dispatch.note_continuing();
    }
    Ok(crew)
}

/// Stops all launches that are under way, and waits a little for their workers: the process ends, and with it what
/// kernels work on.
pub fn end() {
    const PATIENCE: Duration = Duration::from_millis(500);
    let crews = {
        let mut state = lock(&STATE);
        state.ended = true;
        state.under_way.clone()
    };
    let start = Instant::now();
    crews.iter().for_each(|crew| crew.grid.stop());
    for crew in crews {
        while !crew.wait(Some(limit::AGAIN)) && start.elapsed() < PATIENCE {
            crew.send_home(&lock(&crew.members));
        }
    }
}

impl Crew {
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Waits until the launch is done, or for so long; whether it is done. Stops it when its time is over.
    pub fn wait(&self, long: Option<Duration>) -> bool {
        let until = long.map(|long| Instant::now() + long);
        let mut members = lock(&self.members);
        while members.left > 0 {
            let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                return false;
            }
            let patience = [rest, self.limit.patience()].into_iter().flatten().min();
            members = match patience {
                None => self.changed.wait(members).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    self.changed.wait_timeout(members, patience).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if let Some(seconds) = self.limit.over()
                && members.left > 0
            {
                self.grid.fail(KernelFault::TimeLimit(seconds), String::new());
                self.send_home(&members);
            }
        }
        true
    }

    /// Asks the workers that are there to leave the kernel, which has been stopped.
    fn send_home(&self, members: &Members) {
        self.grid.dispatch.let_leave();
        if signals::are_ours(limit::SIGNAL) {
            members.present.iter().for_each(|worker| limit::request_exit(*worker));
        }
    }

    fn join(&self, worker: libc::pid_t) {
        lock(&self.members).present.push(worker);
    }

    /// Whether the worker was the last.
    fn leave(&self, worker: libc::pid_t) -> bool {
        let mut members = lock(&self.members);
        members.present.retain(|present| *present != worker);
        members.left -= 1;
        if members.left == 0 {
            self.changed.notify_all();
        }
        members.left == 0
    }
}

/// Threads inherit the signal mask: an application's signals are for its own threads.
pub fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: zeroed signal sets are valid, and all pointers outlive the calls.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for signal in FAULTS {
            libc::sigdelset(&mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

impl State {
    /// A launch that wants the calling worker.
    fn take(&mut self) -> Option<Arc<Crew>> {
        let (crew, tickets) = self.wanted.front_mut()?;
        let crew = crew.clone();
        *tickets -= 1;
        if *tickets == 0 {
            self.wanted.pop_front();
        }
        self.available -= 1;
        Some(crew)
    }
}

fn serve() {
    signals::prepare_thread();
    let mut worker = Worker::new();
    // SAFETY: asks for a number.
    let own = unsafe { libc::gettid() };
    let mut state = lock(&STATE);
    loop {
        let Some(crew) = state.take() else {
            // Those that were started for launches beside others are wanted no longer.
            if state.available > processors::count() {
                state.available -= 1;
                return;
            }
            state = WORK.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(state);
        crew.join(own);
        // A job reports its own failures; a panic must not leave those who wait for the launch waiting for ever.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut worker, &crew.grid)));
        worker.trim();
        state = lock(&STATE);
        // Before anybody hears that the launch is done: the next one needs no other worker.
        state.available += 1;
        if crew.leave(own) {
            state.under_way.retain(|other| !Arc::ptr_eq(other, &crew));
        }
    }
}

/// A worker's part: runs blocks until there are no more.
fn work(worker: &mut Worker, grid: &Grid) {
    let launch = &grid.launch;
    let context = ThreadContext {
        tid: [0; 3],
        ntid: launch.block,
        ctaid: [0; 3],
        nctaid: launch.grid,
        lane: 0,
        warp: 0,
        dynamic_shared_bytes: launch.dynamic_shared,
        total_shared_bytes: launch.shared_bytes(),
        shared: std::ptr::null_mut(),
        cluster: launch.cluster.unwrap_or([1; 3]),
        explicit_cluster: u32::from(launch.cluster.is_some()),
        stack: [0; 2],
    };
    if launch.collective {
        fibers::run(worker, grid, context);
    } else {
        loops::run(worker, grid, context);
    }
}
