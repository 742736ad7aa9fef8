//! Honest winners: the best few candidates against the baseline, again, in turns.
//!
//! The fastest of many noisy measurements is fast by luck as well. So the finalists are measured anew, each round all of them and the
//! baseline once, in an order that rotates: what drifts (clocks, temperature) drifts for all. The speedup of a round is the ratio of
//! medians; the logarithms of a finalist's rounds have a mean with Student's interval. The confidence is for all statements together: the
//! error that is allowed is shared out between finalists and looks at the data (Bonferroni), so that neither looking often nor having many
//! finalists makes winners.

use mneme_core::configuration::Configuration;
use serde::{Deserialize, Serialize};

use crate::statistics::{self, Interval};
use crate::text::ratio;

/// How long to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Probability that every interval holds the truth.
    pub confidence: f64,
    /// Numbers of rounds after which the data are looked at, ascending; the last one ends the comparison.
    pub looks: Vec<usize>,
    /// When no further round begins, whatever is decided by then.
    pub end: Option<std::time::Instant>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { confidence: 0.95, looks: vec![6, 12, 24, 48], end: None }
    }
}

/// What became of a finalist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    /// Its place in the list that was given.
    #[serde(skip)]
    pub place: usize,
    /// Its trial in the session; whoever gave the list fills it in.
    pub trial: u64,
    /// Baseline's time over its own; `None` where there were not two rounds, or it failed.
    pub speedup: Option<Interval>,
    /// Rounds that it took part in.
    pub rounds: usize,
    pub fate: Fate,
}

/// An interval whose ends are further apart than this factor says nothing.
const TELLING: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Its interval is above 1.
    Faster,
    /// Its interval holds 1.
    Undecided,
    /// Its interval is below 1.
    Slower,
    /// Another finalist's interval is above its own; it was not measured to the end.
    Outrun,
    /// It did not verify in a round, or on an instance of `--verify-all`.
    Failed,
}

/// The outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    pub confidence: f64,
    pub rounds: usize,
    /// The device of all rounds, as in results.
    #[serde(default)]
    pub gpu_id: Option<i32>,
    /// Median of the baseline's rounds, ns.
    pub baseline: Option<f64>,
    /// The best finalist's place, where it is faster than the baseline.
    #[serde(skip)]
    pub winner: Option<usize>,
    /// Whether there is one.
    pub significant: bool,
    /// Best first.
    pub finalists: Vec<Finalist>,
}

impl Confirmation {
    /// A finalist turned out not to verify after all: it comes last and wins nothing.
    pub fn reject(&mut self, trial: u64) {
        let Some(place) = self.finalists.iter().position(|finalist| finalist.trial == trial) else { return };
        let rejected = self.finalists.remove(place);
        self.finalists.push(Finalist { speedup: None, fate: Fate::Failed, ..rejected });
        self.significant = self.finalists[0].fate == Fate::Faster;
    }

    /// Whether a trial was found to be slower than the baseline.
    pub fn is_slower(&self, trial: u64) -> bool {
        self.finalists.iter().any(|finalist| finalist.trial == trial && finalist.fate == Fate::Slower)
    }

    /// The outcome in one sentence.
    pub fn sentence(&self) -> String {
        let percent = self.confidence * 100.0;
        let interval = |speedup: Interval| format!("{} ({} to {})", ratio(speedup.estimate), ratio(speedup.low), ratio(speedup.high));
        match self.finalists.first() {
            Some(Finalist { speedup: Some(speedup), fate: Fate::Faster, .. }) => {
                format!("confirmed: speedup {} over the baseline at {percent} % confidence, {} rounds", interval(*speedup), self.rounds)
            }
            Some(Finalist { speedup: Some(speedup), fate: Fate::Slower, .. }) => {
                format!(
                    "no improvement: the best candidate is slower than the baseline, speedup {} at {percent} % confidence, {} rounds",
                    interval(*speedup),
                    self.rounds
                )
            }
            // Of two rounds or three, an interval may hold everything.
            Some(Finalist { speedup: Some(speedup), .. }) if speedup.high < TELLING * speedup.low => {
                format!(
                    "no significant improvement: speedup {} over the baseline at {percent} % confidence, {} rounds",
                    interval(*speedup),
                    self.rounds
                )
            }
            Some(Finalist { fate: Fate::Failed, .. }) => "no significant improvement: no candidate verified again".into(),
            Some(_) => {
                format!("no significant improvement: nothing can be told after {} rounds; --confirm-time SECONDS allows more", self.rounds)
            }
            None => "no significant improvement: every candidate has the baseline's code and launch".into(),
        }
    }
}

/// Compares finalists with the baseline. `measure` runs configurations one after the other in the given order, each anew, and gives their
/// times, ns; `None` where one did not verify.
///
/// # Errors
/// Those of `measure`.
pub fn confirm<E>(
    baseline: &Configuration,
    finalists: &[Configuration],
    settings: &Settings,
    mut measure: impl FnMut(&[&Configuration]) -> Result<Vec<Option<Vec<u64>>>, E>,
) -> Result<Confirmation, E> {
    let last = settings.looks.last().copied().unwrap_or(0);
    let error = (1.0 - settings.confidence) / (finalists.len().max(1) * settings.looks.len().max(1)) as f64;
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); finalists.len()];
    let mut fates: Vec<Option<Fate>> = vec![None; finalists.len()];
    let mut baselines: Vec<f64> = Vec::new();
    let mut rounds = 0;
    let in_time = || settings.end.is_none_or(|end| std::time::Instant::now() < end);
    while rounds < last && fates.contains(&None) && in_time() {
        // `None` is the baseline.
        let mut order: Vec<Option<usize>> =
            std::iter::once(None).chain((0..finalists.len()).filter(|place| fates[*place].is_none()).map(Some)).collect();
        let turn = rounds % order.len();
        order.rotate_left(turn);
        let configurations: Vec<&Configuration> = order.iter().map(|place| place.map_or(baseline, |place| &finalists[place])).collect();
        let times: Vec<Option<f64>> = measure(&configurations)?.iter().map(|times| median(times.as_deref()?)).collect();
        rounds += 1;
        let base = order.iter().position(Option::is_none).and_then(|place| times.get(place).copied().flatten());
        if let Some(base) = base {
            baselines.push(base);
        }
        for (place, time) in order.iter().zip(&times) {
            match (place, time, base) {
                (Some(place), None, _) => fates[*place] = Some(Fate::Failed),
                (Some(place), Some(time), Some(base)) => ratios[*place].push((base / time).ln()),
                // A baseline that fails once tells nothing about the others' round.
                (Some(_), Some(_), None) | (None, ..) => {}
            }
        }
        if settings.looks.contains(&rounds) {
            let intervals: Vec<Option<Interval>> = ratios.iter().map(|ratios| statistics::mean(ratios, 1.0 - error)).collect();
            let running = |place: &usize| fates[*place].is_none();
            let leading = (0..finalists.len())
                .filter(running)
                .filter_map(|place| intervals[place])
                .map(|it| it.low)
                .fold(f64::NEG_INFINITY, f64::max);
            let mut decided = true;
            for place in 0..finalists.len() {
                if let (None, Some(interval)) = (fates[place], intervals[place]) {
                    if interval.high < leading {
                        fates[place] = Some(Fate::Outrun);
                    } else {
                        decided &= interval.low > 0.0 || interval.high < 0.0;
                    }
                }
            }
            if decided {
                break;
            }
        }
    }
    let mut found: Vec<Finalist> = (0..finalists.len())
        .map(|place| {
            let interval = statistics::mean(&ratios[place], 1.0 - error);
            let fate = fates[place].unwrap_or(match interval {
                Some(interval) if interval.low > 0.0 => Fate::Faster,
                Some(interval) if interval.high < 0.0 => Fate::Slower,
                _ => Fate::Undecided,
            });
            Finalist { place, trial: 0, speedup: interval.map(Interval::exp), rounds: ratios[place].len(), fate }
        })
        .collect();
    let worth = |finalist: &Finalist| match (finalist.fate, finalist.speedup) {
        (Fate::Failed, _) | (_, None) => f64::NEG_INFINITY,
        // Fewer rounds, and beaten.
        (Fate::Outrun, Some(speedup)) => speedup.estimate - 1e9,
        (_, Some(speedup)) => speedup.estimate,
    };
    found.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let winner = found.first().filter(|finalist| finalist.fate == Fate::Faster).map(|finalist| finalist.place);
    Ok(Confirmation {
        confidence: settings.confidence,
        rounds,
        gpu_id: None,
        baseline: statistics::median(&baselines),
        winner,
        significant: winner.is_some(),
        finalists: found,
    })
}

fn median(times: &[u64]) -> Option<f64> {
    statistics::median(&times.iter().map(|time| *time as f64).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::launch::Dim3;
    use rand::{RngExt, SeedableRng};

    fn block(x: u32) -> Configuration {
        Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(x, 1, 1), 0)
    }

    /// Runs blocks of `x` threads for about 10000 + 100 `x` ns, with noise of about `noise`, on a device that becomes slower as it goes.
    /// Blocks of 999 threads fail.
    fn against(blocks: &[u32], noise: f64, seed: u64) -> Confirmation {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut drift = 1.0;
        let finalists: Vec<Configuration> = blocks.iter().map(|x| block(*x)).collect();
        let measure = |order: &[&Configuration]| -> Result<_, std::convert::Infallible> {
            Ok(order
                .iter()
                .map(|configuration| {
                    drift *= 1.001;
                    let x = configuration.block.x;
                    let mut time = || ((10_000.0 + 100.0 * f64::from(x)) * drift * (1.0 + noise * (rng.random::<f64>() - 0.5))) as u64;
                    (x != 999).then(|| (0..5).map(|_| time()).collect())
                })
                .collect())
        };
        confirm(&block(32), &finalists, &Settings::default(), measure).unwrap()
    }

    #[test]
    fn a_faster_candidate_wins_with_its_interval() {
        let found = against(&[16, 8, 32], 0.05, 1);
        assert_eq!((found.winner, found.finalists[0].fate), (Some(1), Fate::Faster));
        let speedup = found.finalists[0].speedup.unwrap();
        let truth = 13_200.0 / 10_800.0;
        assert!(speedup.low < truth && truth < speedup.high && speedup.high - speedup.low < 0.1, "{speedup:?}");
        assert_eq!(found.finalists.iter().find(|finalist| finalist.place == 2).unwrap().fate, Fate::Outrun);
        assert!(found.sentence().starts_with("confirmed: speedup 1.2"), "{}", found.sentence());
        assert!((found.baseline.unwrap() / 13_200.0 - 1.0).abs() < 0.1);
    }

    #[test]
    fn who_is_rejected_afterwards_leaves_the_place_to_the_next() {
        let mut found = against(&[16, 8], 0.01, 1);
        for (place, trial) in [(0, 11), (1, 10)] {
            found.finalists[place].trial = trial;
        }
        found.reject(11);
        assert_eq!((found.finalists[0].trial, found.finalists[1].trial, found.finalists[1].fate), (10, 11, Fate::Failed));
        found.reject(10);
        assert!(!found.significant && found.sentence().contains("no candidate verified again"), "{}", found.sentence());
    }

    #[test]
    fn equals_are_not_told_apart_more_often_than_is_allowed() {
        let wrong = (0..200).filter(|seed| against(&[32, 32, 32], 0.1, *seed).winner.is_some()).count();
        assert!(wrong <= 10, "{wrong} of 200, 5 % are allowed");
        let found = against(&[32], 0.1, 3);
        assert_eq!(found.rounds, 48, "undecided to the end");
        assert!(
            found.sentence().starts_with("no significant improvement: speedup 1.0")
                || found.sentence().starts_with("no significant improvement: speedup 0.9"),
            "{}",
            found.sentence()
        );
    }

    #[test]
    fn slower_and_failing_candidates_are_told() {
        let found = against(&[999, 64], 0.02, 2);
        assert_eq!(found.winner, None);
        assert_eq!((found.finalists[0].place, found.finalists[0].fate), (1, Fate::Slower));
        assert_eq!((found.finalists[1].fate, found.finalists[1].rounds), (Fate::Failed, 0));
        assert_eq!(found.rounds, 6);
        assert!(against(&[999], 0.02, 2).sentence().contains("verified again"));
        let mut early = against(&[8], 0.02, 2);
        (early.rounds, early.finalists[0].speedup, early.finalists[0].fate) = (1, None, Fate::Undecided);
        assert!(early.sentence().contains("after 1 rounds"), "{}", early.sentence());
        let nothing = against(&[], 0.1, 1);
        assert_eq!(nothing.rounds, 0);
        assert!(nothing.sentence().ends_with("the baseline's code and launch"), "{}", nothing.sentence());
    }
}
