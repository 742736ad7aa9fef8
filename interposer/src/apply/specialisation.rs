//! Run-time specialisation of one kernel: which launches repeat, and the code that was made for them.
//!
//! A launch is never waited with: what it is like is noted, and code that is there is used.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};

use mneme_core::launch::Launch;
use mneme_core::tuned::{FoldedKinds, LaunchDimensions};

use super::candidate::{WinnerCandidate, shape_of};
use super::observed::{Likeness, MOST_ARGUMENTS, Observation, Observed, Watched};
use crate::kernels::code::KernelCode;
use crate::kernels::request::LaunchArguments;

/// Kinds of launches of a kernel that code is made for.
pub const MOST_VARIANTS: usize = 8;

/// Of one kernel.
pub struct Specialisation {
    /// Nothing more is looked for.
    is_over: AtomicBool,
    observed: Mutex<Observed>,
    requested: AtomicU32,
    /// Requests without an answer.
    pending: AtomicU32,
    variants: [OnceLock<WinnerCandidate>; MOST_VARIANTS],
    launched: AtomicU64,
    /// Why there is no code, or none of some request.
    refusal: OnceLock<String>,
}

/// Code that is to be made.
pub struct Wanted {
    /// Among the kernel's variants.
    pub place: usize,
    /// Arguments, counted from 0.
    pub folded: Vec<u32>,
    /// Among the kernel's winners, the one that such launches get so far.
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

    /// Those that are there and are still used: verified, or with launches to be tried on.
    pub fn usable(&self) -> impl Iterator<Item = &WinnerCandidate> {
        let is_usable =
            |it: &&WinnerCandidate| it.broken.get().is_none() && (it.trials.are_passed() || it.trials.wants());
        self.variants.iter().filter_map(OnceLock::get).filter(is_usable)
    }

    pub fn variant(&self, place: usize) -> Option<&WinnerCandidate> {
        self.variants.get(place)?.get()
    }

    /// Whether a launch may still get code of its own one day.
    pub fn is_alive(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
            || self.pending.load(Ordering::Relaxed) > 0
            || self.variants.iter().filter_map(OnceLock::get).any(|variant| variant.broken.get().is_none())
    }

    /// Whether anything was wanted, so that the user is told what came of it.
    pub fn was_wanted(&self) -> bool {
        self.requested.load(Ordering::Relaxed) > 0 || self.refusal.get().is_some()
    }

    /// Why it has no code (any more).
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    pub fn count(&self) {
        self.launched.fetch_add(1, Ordering::Relaxed);
    }

    pub fn launched(&self) -> u64 {
        self.launched.load(Ordering::Relaxed)
    }

    /// Notes a launch that no variant is for, and gets the winner at `base` and these dimensions; what is to be made
    /// for it, once it repeats.
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
            // A thread is not waited for, and this launch not missed.
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

    /// Takes in what was made.
    pub fn add(&self, place: usize, variant: WinnerCandidate) {
        if let Some(free) = self.variants.get(place) {
            let _ = free.set(variant);
        }
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes in that nothing was made. Nothing more is asked for where the next request would come to the same.
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

/// The values of arguments of a launch under way; `None` where it has fewer.
fn values(watched: &[Watched], arguments: &LaunchArguments) -> Option<[u64; MOST_ARGUMENTS]> {
    // SAFETY: the arguments are the kernel's, and the launch is under way.
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
