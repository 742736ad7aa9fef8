//! Finds the launches of a kernel that repeat, and the arguments that these share.

use mneme_model::launch::Dim3;
use mneme_winners::LaunchDimensions;

/// How many similar launches it takes before code is made for them.
const REPEATS: u32 = 16;
/// An argument with more values than this does not count as one that repeats.
const MOST_VALUES: usize = 8;
/// How many kinds of launches are distinguished at a time.
const MOST_KINDS: usize = 32;
/// How many arguments are observed.
pub const MOST_ARGUMENTS: usize = 16;

/// The properties that similar launches share, except the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likeness {
    pub recorded: LaunchDimensions,
    /// The dimensions that they have so far.
    pub shape: LaunchDimensions,
    pub cluster: Option<Dim3>,
    /// Which of the kernel's winners they have so far.
    pub base: Option<usize>,
}

/// An argument that may be folded.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    pub index: u32,
    /// Offset in the parameter buffer and size, bytes.
    pub offset: u32,
    pub size: usize,
}

/// The observed launches of a kernel.
pub struct Observed {
    pub arguments: Vec<Watched>,
    values: Vec<Vec<u64>>,
    /// Whether the argument had too many values.
    varies: Vec<bool>,
    kinds: Vec<Kind>,
    /// Launches since the last find.
    idle: u32,
}

struct Kind {
    likeness: Likeness,
    values: [u64; MOST_ARGUMENTS],
    count: u32,
    is_found: bool,
}

/// The result of observing a launch.
#[derive(Debug, PartialEq)]
pub enum Observation {
    Nothing,
    /// It repeats: the arguments, counted from 0, that all launches like it share.
    Repeats(Vec<u32>),
    /// No repetition was found among [`PATIENCE`] launches.
    Idle,
}

/// How many launches without a find end the observation.
const PATIENCE: u32 = 10_000;

impl Observed {
    pub fn new(mut arguments: Vec<Watched>) -> Self {
        arguments.truncate(MOST_ARGUMENTS);
        let count = arguments.len();
        Self { arguments, values: vec![Vec::new(); count], varies: vec![false; count], kinds: Vec::new(), idle: 0 }
    }

    /// Notes a launch. `values` are those of its arguments, in the order of `arguments`.
    pub fn note(&mut self, likeness: Likeness, mut values: [u64; MOST_ARGUMENTS]) -> Observation {
        for ((value, seen), varies) in values.iter_mut().zip(&mut self.values).zip(&mut self.varies) {
            if !*varies && !seen.contains(value) {
                seen.push(*value);
                if seen.len() > MOST_VALUES {
                    *varies = true;
                    // Kinds that differed only in this argument are now the same.
                    self.kinds.retain(|kind| kind.is_found);
                }
            }
            if *varies {
                *value = 0;
            }
        }
        values[self.arguments.len()..].fill(0);
        self.idle += 1;
        let known = self.kinds.iter_mut().find(|kind| kind.likeness == likeness && kind.values == values);
        if let Some(kind) = known {
            kind.count = kind.count.saturating_add(1);
            if kind.is_found || kind.count < REPEATS {
                return if self.idle > PATIENCE { Observation::Idle } else { Observation::Nothing };
            }
            (kind.is_found, self.idle) = (true, 0);
            let common = self.arguments.iter().zip(&self.varies).filter(|(_, varies)| !**varies);
            return Observation::Repeats(common.map(|(argument, _)| argument.index).collect());
        }
        if self.kinds.len() == MOST_KINDS {
            // Replaces the rarest kind. The new one starts its own count.
            let rarest =
                self.kinds.iter().enumerate().filter(|(_, kind)| !kind.is_found).min_by_key(|(_, it)| it.count);
            let Some(rarest) = rarest.map(|(index, _)| index) else { return Observation::Idle };
            self.kinds.swap_remove(rarest);
        }
        self.kinds.push(Kind { likeness, values, count: 1, is_found: false });
        if self.idle > PATIENCE { Observation::Idle } else { Observation::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(count: u32) -> Observed {
        Observed::new((0..count).map(|index| Watched { index: 2 * index, offset: 8 * index, size: 4 }).collect())
    }

    fn likeness(block: u32) -> Likeness {
        let recorded = LaunchDimensions { block: Dim3::new(block, 1, 1), ..LaunchDimensions::default() };
        Likeness { recorded, shape: recorded, cluster: None, base: None }
    }

    fn values(first: u64, second: u64) -> [u64; MOST_ARGUMENTS] {
        let mut values = [0; MOST_ARGUMENTS];
        (values[0], values[1]) = (first, second);
        values
    }

    #[test]
    fn a_launch_that_repeats_is_found_once() {
        let mut observed = observed(2);
        let found: Vec<Observation> =
            (0..3 * REPEATS).map(|round| observed.note(likeness(32 << (round % 2)), values(7, 1))).collect();
        let repeats: Vec<usize> = found
            .iter()
            .enumerate()
            .filter(|(_, it)| **it == Observation::Repeats(vec![0, 2]))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(repeats, [2 * REPEATS as usize - 2, 2 * REPEATS as usize - 1], "one for each block");
    }

    #[test]
    fn an_argument_that_has_many_values_is_left_out() {
        let mut observed = observed(2);
        let found = (0..100).map(|round| observed.note(likeness(32), values(7, round)));
        let repeats: Vec<Observation> = found.filter(|it| *it != Observation::Nothing).collect();
        assert_eq!(repeats, [Observation::Repeats(vec![0])]);
    }

    #[test]
    fn what_never_repeats_is_given_up() {
        let mut observed = observed(1);
        let last = (0..=PATIENCE).map(|round| observed.note(likeness(round), values(0, 0))).last();
        assert_eq!(last, Some(Observation::Idle));
    }
}
