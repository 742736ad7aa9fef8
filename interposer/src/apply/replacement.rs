//! The tuned replacement of one kernel, and counts of replaced launches.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use mneme_model::summary::{Applied, KeptDimensions, RecordingFailure};
use mneme_winners::Winner;

use super::candidate::WinnerCandidate;
use super::error::ApplyError;
use super::index::WinnerIndex;
use super::specialisation::{MOST_VARIANTS, Specialisation};
use super::{CROWDED, UNVERIFIED};

/// The replacement of one kernel.
pub struct KernelReplacement {
    /// Or the reason why it has no replacement.
    pub candidates: Result<Vec<WinnerCandidate>, ApplyError>,
    pub index: WinnerIndex,
    /// Present if code is made for launches that repeat.
    pub specialisation: Option<Specialisation>,
    replaced: AtomicU64,
    reshaped: AtomicU64,
    /// The first winner that was launched.
    first: OnceLock<&'static Winner>,
    /// The most threads of a block of the application's own code, if the vendor reports it.
    pub own_threads: OnceLock<Option<u64>>,
    /// Static shared memory of a block of that code, bytes.
    pub own_shared: OnceLock<i64>,
    /// Why launches kept the application's own code, and why others kept only its dimensions.
    kept: Reasons,
    kept_dimensions: Reasons,
}

/// Counts of launches by reason.
#[derive(Default)]
struct Reasons(RwLock<BTreeMap<&'static str, AtomicU64>>);

impl Reasons {
    fn count(&self, reason: &'static str) {
        if let Some(count) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(reason) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut reasons = self.0.write().unwrap_or_else(PoisonError::into_inner);
        reasons.entry(reason).or_default().fetch_add(1, Ordering::Relaxed);
    }

    fn all(&self) -> Vec<(&'static str, u64)> {
        let reasons = self.0.read().unwrap_or_else(PoisonError::into_inner);
        reasons.iter().map(|(reason, count)| (*reason, count.load(Ordering::Relaxed))).collect()
    }
}

impl KernelReplacement {
    pub fn new(candidates: Result<Vec<WinnerCandidate>, ApplyError>, specialisation: Option<Specialisation>) -> Self {
        let winners = candidates.as_deref().unwrap_or_default();
        let arguments = winners.first().map(WinnerCandidate::all_arguments).unwrap_or_default();
        Self {
            index: WinnerIndex::new(winners.iter().map(WinnerCandidate::needs), arguments),
            candidates,
            specialisation,
            replaced: AtomicU64::new(0),
            reshaped: AtomicU64::new(0),
            first: OnceLock::new(),
            own_threads: OnceLock::new(),
            own_shared: OnceLock::new(),
            kept: Reasons::default(),
            kept_dimensions: Reasons::default(),
        }
    }

    /// Those winners with these numbers that are still in use.
    pub fn usable<'a>(&'a self, numbers: &[usize]) -> impl Iterator<Item = &'a WinnerCandidate> {
        let winners = numbers.iter().filter_map(move |number| self.winners().get(*number));
        winners.filter(|candidate| candidate.broken.get().is_none())
    }

    /// Code that was made for launches of this run and is still in use.
    pub fn usable_variants(&self) -> impl Iterator<Item = &WinnerCandidate> {
        self.specialisation.iter().flat_map(Specialisation::usable)
    }

    /// All candidates that ever existed.
    pub fn all(&self) -> impl Iterator<Item = &WinnerCandidate> {
        self.specialisation.iter().flat_map(Specialisation::all).chain(self.candidates.iter().flatten())
    }

    /// The index of a candidate: winners come first, followed by variants.
    pub fn index_of(&self, candidate: &WinnerCandidate) -> Option<usize> {
        let winners = self.winners();
        let is_it = |one: &WinnerCandidate| std::ptr::eq(one, candidate);
        let distance = std::ptr::from_ref(candidate).addr().wrapping_sub(winners.as_ptr().addr());
        let place = distance / size_of::<WinnerCandidate>();
        winners.get(place).filter(|winner| is_it(winner)).map(|_| place).or_else(|| {
            let variant = (0..MOST_VARIANTS).find(|place| self.variant(*place).is_some_and(is_it))?;
            Some(winners.len() + variant)
        })
    }

    /// The candidate with an index from [`index_of`](Self::index_of).
    pub fn candidate(&self, index: usize) -> Option<&WinnerCandidate> {
        let winners = self.winners();
        winners.get(index).or_else(|| self.variant(index.checked_sub(winners.len())?))
    }

    fn winners(&self) -> &[WinnerCandidate] {
        self.candidates.as_deref().unwrap_or_default()
    }

    fn variant(&self, place: usize) -> Option<&WinnerCandidate> {
        self.specialisation.as_ref()?.variant(place)
    }

    /// Why the kernel keeps its own code from now on.
    pub fn given_up(&self) -> Option<&dyn Display> {
        if self.specialisation.as_ref().is_some_and(Specialisation::is_alive) {
            return None;
        }
        match &self.candidates {
            Err(error) => {
                let refusal = self.specialisation.as_ref().and_then(Specialisation::refusal);
                Some(refusal.map_or(error as &dyn Display, |reason| reason))
            }
            Ok(candidates) => {
                let reasons = candidates.iter().map(|candidate| candidate.broken.get());
                reasons.collect::<Option<Vec<_>>>()?.first().map(|reason| *reason as &dyn Display)
            }
        }
    }

    /// Whether no launch was replaced so far.
    pub fn is_untouched(&self) -> bool {
        self.first.get().is_none()
    }

    /// How many launches were replaced so far.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Counts a launch of tuned code. `kept` is the reason if it kept the application's dimensions.
    pub fn count(&self, winner: &'static Winner, is_reshaped: bool, is_variant: bool, kept: Option<&'static str>) {
        if let Some(reason) = kept {
            self.kept_dimensions.count(reason);
        }
        if let Some(specialisation) = self.specialisation.as_ref().filter(|_| is_variant) {
            specialisation.count();
        }
        self.replaced.fetch_add(1, Ordering::Relaxed);
        self.reshaped.fetch_add(u64::from(is_reshaped), Ordering::Relaxed);
        if self.first.get().is_none() {
            let _ = self.first.set(winner);
        }
    }

    /// Counts a launch of the application's own code.
    pub fn count_kept(&self, reason: &'static str) {
        self.kept.count(reason);
    }

    /// How many launches kept the application's dimensions although a winner has others, and why, with tuned code and
    /// without.
    fn kept_dimensions(&self) -> Vec<KeptDimensions> {
        let with_code = self.kept_dimensions.all().into_iter().map(|(reason, launches)| (reason, launches, launches));
        let own = self.kept.all().into_iter().filter(|(reason, _)| [UNVERIFIED, CROWDED].contains(reason));
        let mut kept: Vec<KeptDimensions> = Vec::new();
        for (reason, launches, replaced) in with_code.chain(own.map(|(reason, launches)| (reason, launches, 0))) {
            match kept.iter_mut().find(|known| known.reason == reason) {
                Some(known) => known.launches += launches,
                None => kept.push(KeptDimensions { reason: reason.to_owned(), launches, replaced }),
            }
        }
        kept
    }

    /// The outcome of this number of launches.
    pub fn outcome(&self, launches: u64) -> (Applied, Vec<RecordingFailure>) {
        let replaced = self.replaced.load(Ordering::Relaxed);
        let failure = |reason: &str, launches, broken| RecordingFailure { reason: reason.to_owned(), launches, broken };
        let mut failures: Vec<RecordingFailure> =
            self.kept.all().into_iter().map(|(reason, launches)| failure(reason, launches, false)).collect();
        let known: u64 = failures.iter().map(|failure| failure.launches).sum();
        // After giving up, launches are only counted.
        let rest = launches.saturating_sub(replaced + known);
        if rest > 0 {
            let reason = self.given_up().unwrap_or(&"it was given up");
            failures.push(failure(&reason.to_string(), rest, true));
        }
        let winner = self.first.get();
        let applied = Applied {
            replaced,
            reshaped: self.reshaped.load(Ordering::Relaxed),
            specialised: self.specialisation.as_ref().map_or(0, Specialisation::launched),
            kept_dimensions: self.kept_dimensions(),
            before: winner.and_then(|winner| winner.before),
            after: winner.and_then(|winner| winner.after),
        };
        (applied, failures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ALWAYS_OWN;
    use super::*;

    #[test]
    fn every_launch_has_one_outcome() {
        let replacement = KernelReplacement::new(Err(ApplyError::Parameters), None);
        replacement.count_kept("inside a stream capture");
        replacement.count_kept("inside a stream capture");
        let (applied, failures) = replacement.outcome(5);
        assert_eq!(applied, Applied::default());
        let found: Vec<_> = failures.iter().map(|it| (it.reason.as_str(), it.launches, it.broken)).collect();
        let parameters = ApplyError::Parameters.to_string();
        assert_eq!(found, [("inside a stream capture", 2, false), (&*parameters, 3, true)]);
        let replacement = KernelReplacement::new(Ok(Vec::new()), None);
        assert!(replacement.outcome(0).1.is_empty());
    }

    #[test]
    fn launches_that_keep_their_dimensions_are_counted_with_tuned_code_and_without() {
        let replacement = KernelReplacement::new(Ok(Vec::new()), None);
        for reason in [UNVERIFIED, UNVERIFIED, ALWAYS_OWN] {
            replacement.kept_dimensions.count(reason);
        }
        for reason in [UNVERIFIED, CROWDED, "inside a stream capture"] {
            replacement.count_kept(reason);
        }
        let kept = replacement.outcome(6).0.kept_dimensions;
        let mut found: Vec<_> = kept.iter().map(|it| (it.reason.as_str(), it.launches, it.replaced)).collect();
        let mut expected = vec![(UNVERIFIED, 3, 2), (ALWAYS_OWN, 1, 1), (CROWDED, 1, 0)];
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
