//! The choice of fresh inputs for code.
//!
//! An input follows from its seed. The seed also determines the way in which memory is changed, and the changed part of
//! each buffer. [`SeedChoice`] finds inputs on which the application's own code does something useful, in all parts:
//! code with a hard-wired result may only check the beginning or the end.

use crate::result::ReplayResult;

/// Ways of changing memory; a seed's way is its remainder.
pub const WAYS: u64 = 4;
/// Seeds with this bit change arguments instead.
pub const OF_ARGUMENTS: u64 = 1 << 51;
/// The way whose inputs are closest to the recorded one, for kernels that fail or take long on others.
pub const GENTLE: u64 = WAYS - 1;
/// Parts of buffers to change, also by remainder: all, the second half, and the first.
pub const PARTS: u64 = 3;
/// The maximum number of contexts that a session loses.
pub const LOSSES: u32 = 2;
/// This many seeds cover every way with every part twice.
const SEEDS: u64 = 2 * WAYS * PARTS;
/// The maximum number of inputs to try for each requested one.
const TRIES: u32 = 3;

/// The result of the application's own code on an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputTrial {
    Useful,
    /// The code changes nothing, varies, or takes too long.
    Useless,
    /// The code fails.
    Lost,
}

impl InputTrial {
    /// The outcome of an input in all instances, from the results of the application's own code.
    pub fn of<'r>(results: impl IntoIterator<Item = &'r ReplayResult>) -> Self {
        let trial = |result: &ReplayResult| {
            let found = result.evidence.as_ref().map(|evidence| &evidence.fresh_inputs);
            match found {
                _ if !result.status.is_as_recorded() => Self::Lost,
                Some(found) if found.lost > 0 => Self::Lost,
                Some(found) if found.agreed > 0 => Self::Useful,
                _ => Self::Useless,
            }
        };
        let all: Vec<Self> = results.into_iter().map(trial).collect();
        let worst = [Self::Lost, Self::Useless].into_iter().find(|trial| all.contains(trial));
        worst.unwrap_or(Self::Useful)
    }
}

/// Chooses seeds until enough inputs are useful.
/// Chooses only gentle inputs after the first loss: a kernel that iterates until convergence may never end on
/// meaningless numbers.
#[derive(Clone, Debug)]
pub struct SeedChoice {
    wanted: u32,
    losses: u32,
    is_thrifty: bool,
    waiting: Vec<u64>,
    pub useful: Vec<u64>,
    pub discarded: Vec<u64>,
}

impl SeedChoice {
    /// Chooses among the seeds from `first` on, and always tries `first`.
    pub fn new(first: u64, wanted: u32) -> Self {
        let seeds = (0..SEEDS.max(u64::from(wanted))).map(|place| first.wrapping_add(place));
        let (gentle, usual): (Vec<u64>, Vec<u64>) = seeds.partition(|seed| is_gentle(*seed) && *seed != first);
        let of_arguments = (0..2 * WAYS).map(|place| (first.wrapping_add(place)) | OF_ARGUMENTS);
        let waiting = usual.into_iter().chain(gentle).chain(of_arguments.filter(|seed| *seed != first)).collect();
        Self { wanted, losses: 0, is_thrifty: false, waiting, useful: Vec::new(), discarded: Vec::new() }
    }

    /// Chooses only gentle seeds, or only those of arguments, if only such seeds were useful before.
    pub fn like(mut self, useful: &[u64]) -> Self {
        for is_alike in [is_gentle, is_of_arguments] {
            if !useful.is_empty() && useful.iter().copied().all(is_alike) {
                self.waiting.retain(|seed| is_alike(*seed));
            }
        }
        self
    }

    /// Once a way was useless, prefers those that were useful to untried ones: an input is expensive to try.
    #[must_use]
    pub fn thrifty(self, is_thrifty: bool) -> Self {
        Self { is_thrifty, ..self }
    }

    /// The first seed of a random selection.
    pub fn start(random: u64) -> u64 {
        // Fewer than 53 bits, because some readers of JSON support no more.
        (random >> 16) * WAYS
    }

    /// The next seed to try; `None` if there are enough, or if success is unlikely.
    pub fn next_seed(&mut self) -> Option<u64> {
        let tried = self.useful.len() + self.discarded.len();
        let is_over = self.useful.len() >= self.wanted as usize
            || self.losses >= LOSSES
            || tried >= (TRIES * self.wanted.max(PARTS as u32)) as usize;
        if is_over {
            return None;
        }
        if self.losses > 0 {
            self.waiting.retain(|seed| is_gentle(*seed));
        }
        // A way that was useless will be so again, and inputs of the same part add less information.
        let is_way_of = |seeds: &[u64], seed: u64| seeds.iter().any(|other| way(*other) == way(seed));
        let is_thrifty = self.is_thrifty && !self.discarded.is_empty() && !self.useful.is_empty();
        let is_useless = |seed: u64| is_way_of(&self.discarded, seed) || (is_thrifty && !is_way_of(&self.useful, seed));
        let is_new = |seed: u64| self.useful.iter().all(|useful| useful % PARTS != seed % PARTS);
        let place = (0..self.waiting.len())
            .min_by_key(|place| (is_useless(self.waiting[*place]), !is_new(self.waiting[*place])))?;
        Some(self.waiting.remove(place))
    }

    pub fn note(&mut self, seed: u64, trial: InputTrial) {
        self.losses += u32::from(trial == InputTrial::Lost);
        if trial == InputTrial::Useful { self.useful.push(seed) } else { self.discarded.push(seed) }
    }
}

fn is_gentle(seed: u64) -> bool {
    seed % WAYS == GENTLE
}

pub fn is_of_arguments(seed: u64) -> bool {
    seed & OF_ARGUMENTS != 0
}

/// The way of a seed. Changed arguments are another way.
fn way(seed: u64) -> u64 {
    if is_of_arguments(seed) { WAYS } else { seed % WAYS }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// All seeds tried.
    fn chosen(first: u64, wanted: u32, trial: impl Fn(u64) -> InputTrial) -> (SeedChoice, Vec<u64>) {
        let (mut choice, mut tried) = (SeedChoice::new(first, wanted), Vec::new());
        while let Some(seed) = choice.next_seed() {
            tried.push(seed);
            choice.note(seed, trial(seed));
        }
        (choice, tried)
    }

    proptest! {
        #[test]
        fn all_parts_change_whichever_way_is_useful(first: u64, way in 0..WAYS) {
            let trial = |seed: u64| if seed % WAYS == way { InputTrial::Useful } else { InputTrial::Useless };
            let (choice, tried) = chosen(first & !OF_ARGUMENTS, 9, trial);
            let parts: BTreeSet<u64> = choice.useful.iter().map(|seed| seed % PARTS).collect();
            prop_assert!(way == GENTLE || parts.len() == 3, "{choice:?}");
            prop_assert!(tried[0] == first & !OF_ARGUMENTS && tried.iter().collect::<BTreeSet<_>>().len() == tried.len());
            let mut thrifty = SeedChoice::new(first & !OF_ARGUMENTS, 3).thrifty(true);
            let mut tried = 0;
            while let Some(seed) = thrifty.next_seed() {
                tried += 1;
                thrifty.note(seed, trial(seed));
            }
            prop_assert!(tried <= if first % WAYS == way { 4 } else { 7 }, "{thrifty:?}");
            let (choice, _) = chosen(first, 3, |_| InputTrial::Useful);
            prop_assert_eq!(choice.useful.iter().map(|seed| seed % PARTS).collect::<BTreeSet<_>>().len(), 3);
        }

        #[test]
        fn arguments_change_if_memory_has_no_effect(first in 0..OF_ARGUMENTS) {
            let trial = |seed| if is_of_arguments(seed) { InputTrial::Useful } else { InputTrial::Useless };
            let (choice, tried) = chosen(first, 3, trial);
            prop_assert_eq!((choice.useful.len(), tried.len()), (3, 7), "after each way of changing memory");
            let known = SeedChoice::new(first, 3).like(&choice.useful);
            prop_assert!(known.waiting.iter().copied().all(is_of_arguments));
        }

        #[test]
        fn after_a_loss_only_gentle_inputs_are_tried(first: u64) {
            let trial = |seed: u64| if seed % WAYS == GENTLE { InputTrial::Useful } else { InputTrial::Lost };
            let (choice, tried) = chosen(first / WAYS * WAYS, 3, trial);
            prop_assert_eq!((choice.useful.len(), tried.len()), (3, 4));
            let known = [GENTLE, WAYS + GENTLE];
            prop_assert_eq!(SeedChoice::new(first, 3).like(&known).next_seed().map(is_gentle), Some(true));
            prop_assert_eq!(SeedChoice::new(first, 3).like(&[0, GENTLE]).next_seed(), Some(first));
            let (_, tried) = chosen(first, 3, |_| InputTrial::Lost);
            prop_assert_eq!(tried.len() as u32, LOSSES);
        }
    }
}
