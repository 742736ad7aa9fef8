//! Launches on trial: recorded for `mneme apply --verify-first`, and their verdicts.
//!
//! The first launches that a winner is for run the application's own code and are recorded. `mneme apply` replays them
//! with the tuned code in processes of its own, and what it finds is looked for here, by a thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mneme_core::recording::store::without_signals;
use mneme_core::tuned::{LaunchDimensions, TrialVerdict, WinnerTrial};

use super::candidate::WinnerCandidate;
use super::trials::Trials;
use super::{KernelReplacement, give_up};
use crate::kernels::kernel::Kernel;
use crate::process::log::info;
use crate::process::reentrancy;
use crate::process::settings::settings;

/// How often verdicts are looked for while there are trials.
const LOOK: Duration = Duration::from_millis(10);

/// A launch that is to be recorded for a trial.
pub struct OnTrial {
    kernel: Arc<Kernel>,
    /// Among the kernel's candidates.
    candidate: usize,
    shape: LaunchDimensions,
    number: u64,
}

/// Why a launch was not recorded.
pub struct NotRecorded {
    pub reason: String,
    /// The next launch may be recorded.
    pub may_pass: bool,
}

impl OnTrial {
    /// Takes a launch for the trial of a candidate; `None` where there are trials enough.
    pub fn take(
        kernel: &Arc<Kernel>,
        replacement: &KernelReplacement,
        candidate: &WinnerCandidate,
        shape: LaunchDimensions,
    ) -> Option<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let index = replacement.index_of(candidate)?;
        candidate.trials.take().then(|| Self {
            kernel: kernel.clone(),
            candidate: index,
            shape,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Distinguishes the launch from those that are alike in dimensions and arguments.
    pub fn distinguish(&self, dynamic_hash: u64) -> u64 {
        let words = [dynamic_hash, self.number, u64::from(std::process::id())];
        mneme_core::hash::checksum(words.map(u64::to_le_bytes).as_flattened())
    }

    /// The launch is over. A recording is on disk soon.
    pub fn end(self, static_hash: u64, dynamic_hash: u64, outcome: Result<(), NotRecorded>) {
        let Some((replacement, candidate)) = found(&self.kernel, self.candidate) else { return };
        let refuse = |reason| give_up(&self.kernel, replacement, candidate, format!("it cannot be verified: {reason}"));
        match outcome {
            Ok(()) => {}
            Err(NotRecorded { may_pass: true, .. }) if candidate.trials.retry() => return,
            Err(NotRecorded { reason, .. }) => return refuse(reason),
        }
        let winner = candidate.winner();
        let trial = WinnerTrial {
            kernel: winner.kernel.clone(),
            source: winner.source.clone(),
            recorded: winner.recorded,
            shape: self.shape,
            static_hash,
            dynamic_hash,
        };
        let name = format!("{}-{}", std::process::id(), self.number);
        match trial.save(&settings().folder, &name) {
            Ok(()) => wait_for(Waiting { name, kernel: self.kernel.clone(), candidate: self.candidate }),
            Err(error) => refuse(error.to_string()),
        }
    }
}

fn found(kernel: &Kernel, candidate: usize) -> Option<(&KernelReplacement, &WinnerCandidate)> {
    let replacement: &KernelReplacement = kernel.progress.replacement.get()?.downcast_ref()?;
    Some((replacement, replacement.candidate(candidate)?))
}

/// A trial without a verdict.
struct Waiting {
    name: String,
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
        let work = || reentrancy::bypassing(look);
        watch.is_on = without_signals(|| std::thread::Builder::new().name("mneme-trials".into()).spawn(work)).is_ok();
    }
}

/// Looks for verdicts until no trial waits for one.
fn look() {
    loop {
        std::thread::sleep(LOOK);
        let waiting: Vec<_> = watch().waiting.iter().map(|trial| (trial.name.clone(), trial.kernel.clone())).collect();
        for (name, kernel) in waiting {
            let verdict = TrialVerdict::load(&settings().folder, &name).or_else(|| lost(&kernel));
            let Some(verdict) = verdict else { continue };
            let judged = {
                let mut watch = watch();
                let place = watch.waiting.iter().position(|trial| trial.name == name);
                place.map(|place| watch.waiting.swap_remove(place))
            };
            if let Some(trial) = judged {
                take_in(&trial, verdict);
            }
        }
        let mut watch = watch();
        if watch.waiting.is_empty() {
            watch.is_on = false;
            return;
        }
    }
}

/// The verdict on a trial whose recording did not come to the disk.
fn lost(kernel: &Kernel) -> Option<TrialVerdict> {
    let recorded = kernel.progress.recorded();
    let reason = recorded.failures.keys().next().filter(|_| recorded.given_up)?;
    Some(TrialVerdict { refutation: Some(format!("it cannot be verified: {reason}")) })
}

fn take_in(trial: &Waiting, verdict: TrialVerdict) {
    let Some((replacement, candidate)) = found(&trial.kernel, trial.candidate) else { return };
    match verdict.refutation {
        Some(reason) => give_up(&trial.kernel, replacement, candidate, reason),
        None if candidate.trials.pass() => {
            let Trials { wanted, .. } = candidate.trials;
            info!("{} is verified on {wanted} launches of this run", trial.kernel.demangled);
        }
        None => {}
    }
}
