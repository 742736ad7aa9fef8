//! The worker threads, which start with the first launch.
//!
//! A launch begins with a *turn*, in which it has the workers to itself: as many as there are processors. A launch that
//! is not done at the end of its turn keeps its workers and [continues](Crew) beside others, for which further workers
//! are started; the system divides the processors between them. A kernel may therefore wait for another one, or for the
//! host, for any time.
//!
//! The thread that launches never runs blocks, so kernel code never meets an application's own stacks and signal masks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mneme_system::own_threads;

use super::context::ThreadContext;
use super::fault::KernelFault;
use super::grid::Grid;
use super::limit::{self, LaunchTimeLimit};
use super::worker::Worker;
use super::{fibers, loops, processors, signals};
use crate::architecture::FAULTS;

/// Stack of a thread, bytes.
const STACK: usize = 2 << 20;

/// A launch and the workers that take part in it.
pub struct Crew {
    grid: Arc<Grid>,
    limit: LaunchTimeLimit,
    members: Mutex<Members>,
    changed: Condvar,
}

struct Members {
    /// The number of workers that have not come yet or have not left yet.
    left: u64,
    /// The thread ids of the workers that have come and not left.
    present: Vec<libc::pid_t>,
}

#[derive(Default)]
struct State {
    /// Launches that wait for workers, with the number of workers for each.
    wanted: VecDeque<(Arc<Crew>, u64)>,
    /// The number of threads that look for a launch, or are about to.
    available: u64,
    under_way: Vec<Arc<Crew>>,
    /// Whether the process is ending, so no further launch may begin.
    ended: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { wanted: VecDeque::new(), available: 0, under_way: Vec::new(), ended: false });
static WORK: Condvar = Condvar::new();
/// The launch that has its turn holds this lock.
static TURN: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the launch its turn: runs it on at most `workers` workers, until it is done or the turn is over.
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
        match start_thread("mneme-cpu", serve) {
            Ok(()) => state.available += 1,
            // Fewer do the same.
            Err(_) if state.available > 0 => break,
            Err(error) => return Err(error),
        }
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

/// Stops all launches in progress and waits briefly for their workers, because the process ends and takes the kernels'
/// memory with it.
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

    /// Waits until the launch is done, or for `long`. Returns whether it is done. Stops the launch when its time limit
    /// is over.
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

    /// Asks the present workers to leave the kernel, after the launch was stopped.
    fn send_home(&self, members: &Members) {
        self.grid.dispatch.let_leave();
        if signals::are_ours(limit::SIGNAL) {
            members.present.iter().for_each(|worker| limit::request_exit(*worker));
        }
    }

    fn join(&self, worker: libc::pid_t) {
        lock(&self.members).present.push(worker);
    }

    /// Removes a worker. Returns whether it was the last.
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

/// Starts a thread that blocks all signals but those of faults, which kernels raise.
///
/// # Errors
/// The system has no room for one more.
pub fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    own_threads::start(name, STACK, move || {
        // SAFETY: a set of signals that outlives the calls; zeros are a valid one.
        unsafe {
            let mut faults: libc::sigset_t = std::mem::zeroed();
            for signal in FAULTS {
                libc::sigaddset(&mut faults, signal);
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &faults, std::ptr::null_mut());
        }
        work();
    })
}

impl State {
    /// Takes a launch that needs the calling worker.
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
    // SAFETY: a query without pointers.
    let own = unsafe { libc::gettid() };
    let mut state = lock(&STATE);
    loop {
        let Some(crew) = state.take() else {
            // More workers than processors were started for launches beside others. They end when idle.
            if state.available > processors::count() {
                state.available -= 1;
                return;
            }
            state = WORK.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(state);
        crew.join(own);
        // A job reports its own failures. A panic must not leave the threads that wait for the launch waiting forever.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut worker, &crew.grid)));
        worker.trim();
        state = lock(&STATE);
        // Counted before the end of the launch is announced, so the next launch starts no further worker.
        state.available += 1;
        if crew.leave(own) {
            state.under_way.retain(|other| !Arc::ptr_eq(other, &crew));
        }
    }
}

/// Runs blocks until none is left.
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
