//! Run-time specialisation of one kernel: the launches that repeat, and the code made for them.
//!
//! Launches never wait: each is noted, and uses code that is ready.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};

use mneme_model::launch::Launch;
use mneme_winners::{FoldedKinds, LaunchDimensions};

use super::candidate::{WinnerCandidate, shape_of};
use super::observed::{Likeness, MOST_ARGUMENTS, Observation, Observed, Watched};
use crate::kernels::code::KernelCode;
use crate::kernels::request::LaunchArguments;

/// For how many kinds of launches of a kernel code is made.
pub const MOST_VARIANTS: usize = 8;

/// The specialisation of one kernel.
pub struct Specialisation {
    /// The search for further launches has ended.
    is_over: AtomicBool,
    observed: Mutex<Observed>,
    requested: AtomicU32,
    /// Requests without an answer.
    pending: AtomicU32,
    variants: [OnceLock<WinnerCandidate>; MOST_VARIANTS],
    launched: AtomicU64,
    /// Why all requests, or some of them, have failed.
    refusal: OnceLock<String>,
}

/// Code to make.
pub struct Wanted {
    /// The index in the kernel's variants.
    pub place: usize,
    /// The folded arguments, counted from 0.
    pub folded: Vec<u32>,
    /// Which of the kernel's winners such launches have so far.
    pub base: Option<usize>,
}

impl Specialisation {
    pub fn new(code: &KernelCode, kinds: FoldedKinds) -> Self {
        let watched = code.parameters.foldable(kinds).map(|(index, offset, size)| Watched { index, offset, size });
        Self {
            is_over: AtomicBool::new(false),
            observed: Mutex::new(Observed::new(watched.collect())),
            requested: AtomicU32::new(0),
            pending: AtomicU32::new(0),
            variants: Default::default(),
            launched: AtomicU64::new(0),
            refusal: OnceLock::new(),
        }
    }

    /// The variants in use: verified, or still in need of trials.
    pub fn usable(&self) -> impl Iterator<Item = &WinnerCandidate> {
        let is_usable =
            |it: &&WinnerCandidate| it.broken.get().is_none() && (it.trials.are_passed() || it.trials.wants());
        self.variants.iter().filter_map(OnceLock::get).filter(is_usable)
    }

    pub fn variant(&self, place: usize) -> Option<&WinnerCandidate> {
        self.variants.get(place)?.get()
    }

    /// Whether a launch may still get specialised code later.
    pub fn is_alive(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
            || self.pending.load(Ordering::Relaxed) > 0
            || self.variants.iter().filter_map(OnceLock::get).any(|variant| variant.broken.get().is_none())
    }

    /// Whether code was requested, so the user hears the outcome.
    pub fn was_wanted(&self) -> bool {
        self.requested.load(Ordering::Relaxed) > 0 || self.refusal.get().is_some()
    }

    /// Why it has no code, or no longer has it.
    pub fn refusal(&self) -> Option<&String> {
        self.refusal.get()
    }

    pub fn count(&self) {
        self.launched.fetch_add(1, Ordering::Relaxed);
    }

    pub fn launched(&self) -> u64 {
        self.launched.load(Ordering::Relaxed)
    }

    /// Notes a launch without a variant, which has the winner at `base` and these dimensions. Returns the code to make
    /// once the launch repeats.
    pub fn note(
        &self,
        launch: &Launch,
        arguments: &LaunchArguments,
        base: Option<usize>,
        shape: LaunchDimensions,
    ) -> Option<Wanted> {
        if self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let mut observed = match self.observed.try_lock() {
            Ok(observed) => observed,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Does not wait for another thread; missing this launch does no harm.
            Err(TryLockError::WouldBlock) => return None,
        };
        let values = values(&observed.arguments, arguments)?;
        let likeness = Likeness { recorded: shape_of(launch), shape, cluster: launch.attributes.cluster, base };
        match observed.note(likeness, values) {
            Observation::Nothing => None,
            Observation::Idle => {
                self.is_over.store(true, Ordering::Relaxed);
                None
            }
            Observation::Repeats(folded) => {
                let place = self.requested.fetch_add(1, Ordering::Relaxed) as usize;
                if place + 1 >= MOST_VARIANTS {
                    self.is_over.store(true, Ordering::Relaxed);
                }
                (place < MOST_VARIANTS).then(|| {
                    self.pending.fetch_add(1, Ordering::Relaxed);
                    Wanted { place, folded, base }
                })
            }
        }
    }

    /// Adds a variant that was made.
    pub fn add(&self, place: usize, variant: WinnerCandidate) {
        if let Some(free) = self.variants.get(place) {
            let _ = free.set(variant);
        }
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes that a variant could not be made. With `is_final`, ends the requests, because the next one would fail too.
    pub fn refuse(&self, reason: &str, is_final: bool) {
        let _ = self.refusal.set(reason.to_owned());
        if is_final {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn all(&self) -> impl Iterator<Item = &WinnerCandidate> {
        self.variants.iter().filter_map(OnceLock::get)
    }
}

/// The values of arguments of a launch in progress. `None` if it has fewer.
fn values(watched: &[Watched], arguments: &LaunchArguments) -> Option<[u64; MOST_ARGUMENTS]> {
    // SAFETY: the arguments are the kernel's, and the launch is in progress.
    let places = unsafe { arguments.places() }?;
    let mut values = [0; MOST_ARGUMENTS];
    for (value, watched) in values.iter_mut().zip(watched) {
        // SAFETY: as above.
        let start = unsafe { places.of(watched.index, watched.offset, watched.size) }?;
        let mut word = [0; 8];
        // SAFETY: a value of the parameter's size starts there.
        word.get_mut(..watched.size)?.copy_from_slice(unsafe { std::slice::from_raw_parts(start, watched.size) });
        *value = u64::from_le_bytes(word);
    }
    Some(values)
}
