//! The worker threads: one for each processor, started at the first launch.
//!
//! The thread that launches waits, so that an application's own stacks and signal masks never come near kernel code.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use mneme_core::environment;

use super::limit::{self, LaunchTimeLimit};
use super::shared::SharedMemoryPool;
use super::signals;
use super::stack::{FIBER, LOOP, Stacks};
use crate::architecture::FAULTS;

/// What a worker keeps from launch to launch.
pub struct Worker {
    pub loops: Stacks,
    pub fibers: Stacks,
    pub shared: SharedMemoryPool,
}

/// A borrowed job whose borrow [`share`] upholds: it does not return before every ticket is handed in.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(&mut Worker) + Sync));

// SAFETY: the closure is `Sync`, and `share` keeps it alive while workers use it.
unsafe impl Send for Job {}

#[derive(Default)]
struct State {
    job: Option<Job>,
    /// Workers still to take part in the job.
    tickets: u64,
    /// Workers taking part.
    busy: u64,
    /// Their thread ids, of all workers.
    members: Vec<libc::pid_t>,
}

struct Pool {
    process: u32,
    size: u64,
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

static POOL: Mutex<Option<Arc<Pool>>> = Mutex::new(None);
/// Launches run one after another: all streams share the one set of processors.
static TURN: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the job on at most `wanted` workers and waits for all of them; the limit begins with the job's turn.
pub fn share(wanted: u64, job: &(dyn Fn(&mut Worker) + Sync), limit: &mut LaunchTimeLimit<'_>) -> std::io::Result<()> {
    let pool = pool()?;
    let _turn = lock(&TURN);
    let tickets = wanted.min(pool.size);
    // SAFETY: only the lifetime changes; the wait below ends after the last use.
    let job = Job(unsafe {
        std::mem::transmute::<*const (dyn Fn(&mut Worker) + Sync + '_), *const (dyn Fn(&mut Worker) + Sync + 'static)>(
            job,
        )
    });
    let mut state = lock(&pool.state);
    state.job = Some(job);
    state.tickets = tickets;
    for _ in 0..tickets {
        pool.work.notify_one();
    }
    limit.begin();
    while state.tickets > 0 || state.busy > 0 {
        state = match limit.patience() {
            None => pool.done.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => pool.done.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0,
        };
        if state.busy > 0 && limit.is_over() && signals::are_ours(limit::SIGNAL) {
            state.members.iter().for_each(|worker| limit::request_exit(*worker));
        }
    }
    state.job = None;
    Ok(())
}

/// How many threads run blocks: the processors this process may use, or `MNEME_CPU_THREADS`.
pub fn width() -> u64 {
    static WIDTH: OnceLock<u64> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        let threads =
            environment::variable("MNEME_CPU_THREADS").and_then(|text| text.parse().ok()).filter(|count| *count > 0);
        threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u64))
    })
}

/// The pool of this process; a forked child has the parent's in memory, but not its threads.
fn pool() -> std::io::Result<Arc<Pool>> {
    let mut current = lock(&POOL);
    if let Some(pool) = current.as_ref().filter(|pool| pool.process == std::process::id()) {
        return Ok(pool.clone());
    }
    let pool = Arc::new(Pool {
        process: std::process::id(),
        size: width(),
        state: Mutex::default(),
        work: Condvar::new(),
        done: Condvar::new(),
    });
    without_signals(|| -> std::io::Result<()> {
        for index in 0..pool.size {
            let pool = pool.clone();
            std::thread::Builder::new().name(format!("mneme-cpu-{index}")).spawn(move || serve(&pool))?;
        }
        Ok(())
    })?;
    *current = Some(pool.clone());
    Ok(pool)
}

/// Threads inherit the signal mask: an application's signals are for its own threads.
fn without_signals<T>(body: impl FnOnce() -> T) -> T {
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

fn serve(pool: &Pool) {
    signals::prepare_thread();
    let mut worker =
        Worker { loops: Stacks::new(LOOP), fibers: Stacks::new(FIBER), shared: SharedMemoryPool::default() };
    let mut state = lock(&pool.state);
    // SAFETY: asks for a number.
    state.members.push(unsafe { libc::gettid() });
    loop {
        let job = match state.job {
            Some(job) if state.tickets > 0 => job,
            _ => {
                state = pool.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
        };
        state.tickets -= 1;
        state.busy += 1;
        drop(state);
        // SAFETY: `share` waits until `busy` is zero again, so the closure is alive.
        let run = unsafe { &*job.0 };
        // A job reports its own failures; a panic must not leave the launching thread waiting for ever.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&mut worker)));
        worker.fibers.trim(pool.size);
        worker.loops.trim(pool.size);
        worker.shared.trim();
        state = lock(&pool.state);
        state.busy -= 1;
        if state.busy == 0 && state.tickets == 0 {
            pool.done.notify_all();
        }
    }
}
