//! Trial launches, recorded for `mneme apply --verify-first`, and their verdicts.
//!
//! The first launches that a winner applies to run the application's own code and are recorded. `mneme apply` replays
//! them with the tuned code in separate processes. A thread here looks for the verdicts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mneme_system::random;
use mneme_winners::{LaunchDimensions, WinnerTrial};

use super::candidate::WinnerCandidate;
use super::trials::Trials;
use super::{KernelReplacement, give_up};
use crate::kernels::kernel::Kernel;
use crate::process::log::info;
use crate::process::settings::settings;
use crate::process::threads;

/// How often to look for verdicts while there are trials.
const LOOK: Duration = Duration::from_millis(10);

/// A launch to record for a trial.
pub struct OnTrial {
    kernel: Arc<Kernel>,
    /// The index in the kernel's candidates.
    candidate: usize,
    shape: LaunchDimensions,
    /// Unique among the trials of all processes that write to the folder.
    number: u64,
}

/// Why a launch was not recorded.
pub struct NotRecorded {
    pub reason: String,
    /// The next launch may be recorded.
    pub may_pass: bool,
}

impl OnTrial {
    /// Takes a launch for the trial of a candidate. `None` if there are enough trials.
    pub fn take(
        kernel: &Arc<Kernel>,
        replacement: &KernelReplacement,
        candidate: &WinnerCandidate,
        shape: LaunchDimensions,
    ) -> Option<Self> {
        let number = random::number().ok()?;
        let index = replacement.index_of(candidate)?;
        candidate.trials.take().then(|| Self { kernel: kernel.clone(), candidate: index, shape, number })
    }

    /// Makes the hash differ from those of launches with equal dimensions and arguments.
    pub fn distinguish(&self, dynamic_hash: u64) -> u64 {
        let words = [dynamic_hash, self.number];
        mneme_model::hash::checksum(words.map(u64::to_le_bytes).as_flattened())
    }

    /// Leaves the trial to a later launch.
    pub fn postpone(self) {
        if let Some((_, candidate)) = found(&self.kernel, self.candidate) {
            candidate.trials.postpone();
        }
    }

    /// Ends the launch. Its recording is on disk soon.
    pub fn end(self, static_hash: u64, dynamic_hash: u64, outcome: Result<(), NotRecorded>) {
        let Some((replacement, candidate)) = found(&self.kernel, self.candidate) else { return };
        let refuse = |reason| give_up(&self.kernel, replacement, candidate, format!("cannot verify it: {reason}"));
        match outcome {
            Ok(()) => {}
            Err(NotRecorded { may_pass: true, .. }) if candidate.trials.retry() => return,
            Err(NotRecorded { reason, .. }) => return refuse(reason),
        }
        let trial = WinnerTrial { winner: candidate.winner().identity(), shape: self.shape, static_hash, dynamic_hash };
        match trial.ask(&settings().folder) {
            Ok(name) => wait_for(Waiting { name, trial, kernel: self.kernel.clone(), candidate: self.candidate }),
            Err(error) => refuse(error.to_string()),
        }
    }
}

fn found(kernel: &Kernel, candidate: usize) -> Option<(&KernelReplacement, &WinnerCandidate)> {
    let replacement: &KernelReplacement = kernel.progress.replacement.get()?.downcast_ref()?;
    Some((replacement, replacement.candidate(candidate)?))
}

/// A trial without a verdict.
#[derive(Clone)]
struct Waiting {
    name: String,
    trial: WinnerTrial,
    kernel: Arc<Kernel>,
    candidate: usize,
}

#[derive(Default)]
struct Watch {
    waiting: Vec<Waiting>,
    /// A thread looks for verdicts.
    is_on: bool,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch { waiting: Vec::new(), is_on: false });

fn watch() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_for(trial: Waiting) {
    let mut watch = watch();
    watch.waiting.push(trial);
    if !watch.is_on {
        watch.is_on = threads::start("mneme-trials", threads::LARGE, look);
    }
}

/// Looks for verdicts until all trials have one.
fn look() {
    loop {
        std::thread::sleep(LOOK);
        let waiting = watch().waiting.clone();
        for one in waiting {
            let verdict = one.trial.verdict(&settings().folder, &one.name);
            let Some(refutation) = verdict.map(|verdict| verdict.refutation).or_else(|| lost(&one.kernel)) else {
                continue;
            };
            watch().waiting.retain(|other| other.name != one.name);
            take_in(&one, refutation);
        }
        let mut watch = watch();
        if watch.waiting.is_empty() {
            watch.is_on = false;
            return;
        }
    }
}

/// The refutation of a trial whose recording did not reach the disk.
fn lost(kernel: &Kernel) -> Option<Option<String>> {
    let recorded = kernel.progress.recorded();
    let reason = recorded.failures.keys().next().filter(|_| recorded.given_up)?;
    Some(Some(format!("cannot verify it: {reason}")))
}

fn take_in(trial: &Waiting, refutation: Option<String>) {
    let Some((replacement, candidate)) = found(&trial.kernel, trial.candidate) else { return };
    match refutation {
        Some(reason) => give_up(&trial.kernel, replacement, candidate, reason),
        None if candidate.trials.pass() => {
            let Trials { wanted, .. } = candidate.trials;
            info!("{} is verified on {wanted} launches of this run", trial.kernel.demangled);
        }
        None => {}
    }
}
