//! Confirmation: measures finalists and baseline again, in alternating order.
//!
//! The fastest of many noisy measurements also had luck, so finalists are measured again. Each round measures all of
//! them and the baseline once, in a random order. Drift (clocks, temperature) then affects all alike, and effects on
//! the next configuration (caches, heat) meet each of the others equally often.
//!
//! The speedup of a round is the ratio of medians. The logarithms of a finalist's speedups have a mean with Student's
//! interval, which is at least as wide as the clock's step requires. The confidence holds for all statements together:
//! the allowed error is divided among finalists and looks at the data (Bonferroni), so neither frequent looks nor many
//! finalists produce false winners. A finalist that fails verification in any round is out.

use std::collections::BTreeSet;

use mneme_model::text::ratio;
use mneme_model::units;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::sequential::LONG;
use crate::statistics::{self, Interval};

/// Measured runs in a round, and warm-up runs before them.
const RUNS: (u32, u32) = (5, 1);
/// The same for kernels that take long, as the comparison is between rounds, not runs. There is no warm-up if first runs
/// are known to be as fast as later ones.
const LONG_RUNS: (u32, u32) = (1, 1);
const WARM_RUNS: (u32, u32) = (1, 0);
/// Rounds of long kernels before the first look at the data: three rounds show a great difference, and a round is
/// expensive.
const LONG_LOOK: usize = 3;

/// When to look at the data, and when to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundSettings {
    /// Probability that every interval contains the true value.
    pub confidence: f64,
    /// Numbers of rounds after which to look at the data, ascending. The last one ends the comparison.
    pub looks: Vec<usize>,
    /// Time after which no further round begins, even without a decision.
    pub end: Option<std::time::Instant>,
    /// Seed for the order within rounds.
    pub seed: u64,
}

impl Default for RoundSettings {
    fn default() -> Self {
        Self { confidence: 0.95, looks: vec![6, 12, 24, 48], end: None, seed: 0 }
    }
}

impl RoundSettings {
    /// Fits the looks to a kernel whose launch takes `time` ns. Returns the measured runs in a round, and the warm-up
    /// runs before them.
    pub fn fit(&mut self, time: f64, is_warm: bool) -> (u32, u32) {
        let is_long = time >= LONG as f64;
        if is_long {
            self.looks.insert(0, LONG_LOOK);
        }
        match is_long {
            true if is_warm => WARM_RUNS,
            true => LONG_RUNS,
            false => RUNS,
        }
    }
}

/// The result for a finalist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    /// Its index in the list of finalists.
    #[serde(skip)]
    pub place: usize,
    /// Its trial in the session, filled in by the caller.
    pub trial: u64,
    /// The baseline's time divided by its own; `None` if it failed, or with fewer than two rounds to compare.
    pub speedup: Option<Interval>,
    /// Geometric mean of its rounds, ns.
    #[serde(default)]
    pub time: Option<f64>,
    /// Number of its rounds.
    pub rounds: usize,
    /// Set if its first runs in freshly loaded modules take longer than later ones, unlike the baseline's. Code that
    /// reuses results of earlier launches looks like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_run_gap: Option<FirstRunGap>,
    #[serde(rename = "fate")]
    pub outcome: FinalistOutcome,
}

/// The slowdown of a finalist's first runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstRunGap {
    /// Time of a first run divided by the median of later ones.
    pub ratio: f64,
    /// The same ratio for the baseline.
    pub baseline: f64,
}

/// If the ends of an interval are further apart than this factor, the result is inconclusive.
const TELLING: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalistOutcome {
    // Best first: the order is that of the ranking.
    /// Its interval is above 1.
    Faster,
    /// Its interval contains 1.
    Undecided,
    /// Its interval is not below 1, but another finalist's is above it. Its measurement may have ended early.
    Outrun,
    /// Its interval is below 1.
    Slower,
    /// Its interval is above 1, but it was not proven, since another one won.
    Unproven,
    /// It did not verify in a round, or on an instance of `--verify-all`.
    Failed,
}

/// The outcome of a confirmation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    pub confidence: f64,
    pub rounds: usize,
    /// The device of all rounds, as in results.
    #[serde(default)]
    pub gpu_id: Option<i32>,
    /// Geometric mean of the baseline's rounds, ns. Divided by a finalist's time it gives the finalist's speedup.
    pub baseline: Option<f64>,
    /// Rounds in which the baseline itself did not verify.
    #[serde(default)]
    pub baseline_failures: usize,
    /// The best finalist's index, if it is faster than the baseline.
    #[serde(skip)]
    pub winner: Option<usize>,
    /// Whether there is a winner.
    pub significant: bool,
    /// Best first.
    pub finalists: Vec<Finalist>,
}

impl Confirmation {
    /// Rejects a finalist that failed a later verification: it comes last, cannot win, and no longer outruns others.
    pub fn reject(&mut self, trial: u64) {
        for rejected in self.finalists.iter_mut().filter(|finalist| finalist.trial == trial) {
            (rejected.speedup, rejected.time, rejected.outcome) = (None, None, FinalistOutcome::Failed);
        }
        self.settle();
    }

    /// Marks faster finalists of other trials as unproven.
    pub fn keep_proven(&mut self, trials: &BTreeSet<u64>) {
        let faster = self.finalists.iter_mut().filter(|finalist| finalist.outcome == FinalistOutcome::Faster);
        faster.filter(|it| !trials.contains(&it.trial)).for_each(|it| it.outcome = FinalistOutcome::Unproven);
    }

    /// The finalist of a trial, if any.
    pub fn finalist(&self, trial: u64) -> Option<&Finalist> {
        self.finalists.iter().find(|finalist| finalist.trial == trial)
    }

    /// Sets the outcomes of all finalists that did not fail, from their intervals, and sorts them best first: by
    /// outcome, then those that do not seem slower, then by the low end of the interval.
    fn settle(&mut self) {
        let low = |finalist: &Finalist| finalist.speedup.map_or(f64::NEG_INFINITY, |speedup| speedup.low);
        let standing = self.finalists.iter().filter(|finalist| finalist.outcome != FinalistOutcome::Failed);
        let leading = standing.map(low).fold(f64::NEG_INFINITY, f64::max);
        for finalist in self.finalists.iter_mut().filter(|finalist| finalist.outcome != FinalistOutcome::Failed) {
            finalist.outcome = match finalist.speedup {
                Some(speedup) if speedup.high < 1.0 => FinalistOutcome::Slower,
                Some(speedup) if speedup.high < leading => FinalistOutcome::Outrun,
                Some(speedup) if speedup.low > 1.0 => FinalistOutcome::Faster,
                _ => FinalistOutcome::Undecided,
            };
        }
        let seems_slower = |finalist: &Finalist| finalist.speedup.is_some_and(|speedup| speedup.estimate < 1.0);
        self.finalists.sort_by(|a, b| {
            (a.outcome, seems_slower(a)).cmp(&(b.outcome, seems_slower(b))).then(low(b).total_cmp(&low(a)))
        });
        self.winner = self
            .finalists
            .first()
            .filter(|finalist| finalist.outcome == FinalistOutcome::Faster)
            .map(|finalist| finalist.place);
        self.significant = self.winner.is_some();
    }

    /// The outcome in one sentence.
    pub fn sentence(&self) -> String {
        let doubt = match self.baseline_failures {
            0 => String::new(),
            failures => format!("; the baseline itself did not verify in {failures} of {}", rounds(self.rounds)),
        };
        self.outcome() + doubt.as_str()
    }

    fn outcome(&self) -> String {
        let measured = rounds(self.rounds);
        let interval = |speedup: &Interval| {
            let percent = self.confidence * 100.0;
            format!("{percent} % interval {}x to {}x, {measured}", ratio(speedup.low), ratio(speedup.high))
        };
        let Some(first) = self.finalists.first() else {
            return "no configuration was faster than the baseline: every candidate has the baseline's code and launch"
                .into();
        };
        match &first.speedup {
            Some(speedup) if first.outcome == FinalistOutcome::Faster => {
                let times = first.time.zip(self.baseline).map_or(String::new(), |(time, baseline)| {
                    format!("; {} instead of {}, geometric means", units::time(time), units::time(baseline))
                });
                format!(
                    "confirmed: {}x as fast as the baseline ({}{times})",
                    ratio(speedup.estimate),
                    interval(speedup)
                )
            }
            // After two or three rounds an interval may contain almost everything.
            Some(speedup) if speedup.high < TELLING * speedup.low => {
                format!(
                    "no configuration was faster than the baseline (best: {}x, {})",
                    ratio(speedup.estimate),
                    interval(speedup)
                )
            }
            _ if first.outcome == FinalistOutcome::Failed => {
                "no configuration was faster than the baseline: no candidate verified again".into()
            }
            _ => format!("inconclusive after {measured}; to allow more rounds, raise --confirm-time"),
        }
    }
}

/// Compares finalists with the baseline. `measure` runs some of them in the given order, each freshly loaded, and
/// returns their times in ns, or `None` for one that did not verify.
///
/// # Errors Those of `measure`.
pub fn confirm<T, E>(
    baseline: &T,
    finalists: &[T],
    settings: &RoundSettings,
    mut measure: impl FnMut(&[&T]) -> Result<Vec<Option<Vec<u64>>>, E>,
) -> Result<Confirmation, E> {
    let last = settings.looks.last().copied().unwrap_or(0);
    let error = (1.0 - settings.confidence) / (finalists.len().max(1) * settings.looks.len().max(1)) as f64;
    let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut races: Vec<Race> = vec![Race::default(); finalists.len()];
    let mut baselines: Vec<f64> = Vec::new();
    let (mut rounds, mut baseline_failures) = (0, 0);
    let mut step = 0;
    let in_time = || settings.end.is_none_or(|end| std::time::Instant::now() < end);
    while rounds < last && races.iter().any(|race| race.state == State::Running) && in_time() {
        // `None` is the baseline.
        let running = (0..finalists.len()).filter(|place| races[*place].state == State::Running);
        let mut order: Vec<Option<usize>> = std::iter::once(None).chain(running.map(Some)).collect();
        order.shuffle(&mut rng);
        let measured: Vec<&T> = order.iter().map(|place| place.map_or(baseline, |place| &finalists[place])).collect();
        let times = measure(&measured)?;
        step = times.iter().flatten().flatten().copied().fold(step, greatest_common_divisor);
        let times: Vec<Option<f64>> = times.iter().map(|times| median(times.as_deref()?)).collect();
        rounds += 1;
        let base = order.iter().position(Option::is_none).and_then(|place| times.get(place).copied().flatten());
        match base {
            Some(base) => baselines.push(base),
            None => baseline_failures += 1,
        }
        for (place, time) in order.iter().zip(&times) {
            match (place, time, base) {
                (Some(place), None, _) => races[*place].state = State::Failed,
                (Some(place), Some(time), Some(base)) => races[*place].rounds.push((base, *time)),
                // If the baseline fails in one round, that round says nothing about the finalists.
                (Some(_), Some(_), None) | (None, ..) => {}
            }
        }
        if order.iter().flatten().any(|place| races[*place].state == State::Failed) {
            // Finalists that were outrun by a candidate that fails are back in the race.
            races.iter_mut().filter(|race| race.state == State::Outrun).for_each(|race| race.state = State::Running);
        }
        if settings.looks.contains(&rounds) {
            let intervals: Vec<Option<Interval>> = races.iter().map(|race| race.interval(step, 1.0 - error)).collect();
            let standing = races.iter().zip(&intervals).filter(|(race, _)| race.state != State::Failed);
            let leading =
                standing.filter_map(|(_, interval)| *interval).map(|it| it.low).fold(f64::NEG_INFINITY, f64::max);
            let mut decided = true;
            for (race, interval) in races.iter_mut().zip(intervals).filter(|(race, _)| race.state == State::Running) {
                match interval {
                    Some(interval) if interval.high < leading => race.state = State::Outrun,
                    Some(interval) => decided &= interval.low > 0.0 || interval.high < 0.0,
                    None => decided = false,
                }
            }
            if decided {
                break;
            }
        }
    }
    let of = |(place, race): (usize, &Race)| {
        let (outcome, speedup, time) = match race.state {
            State::Failed => (FinalistOutcome::Failed, None, None),
            State::Running | State::Outrun => {
                (FinalistOutcome::Undecided, race.interval(step, 1.0 - error).map(Interval::exp), race.time())
            }
        };
        Finalist { place, trial: 0, speedup, time, rounds: race.rounds.len(), first_run_gap: None, outcome }
    };
    let mut confirmation = Confirmation {
        confidence: settings.confidence,
        rounds,
        gpu_id: None,
        baseline: geometric_mean(&baselines),
        baseline_failures,
        winner: None,
        significant: false,
        finalists: races.iter().enumerate().map(of).collect(),
    };
    confirmation.settle();
    Ok(confirmation)
}

/// A finalist during the rounds.
#[derive(Clone, Debug, Default)]
struct Race {
    /// Times of the baseline and the finalist by round, ns.
    rounds: Vec<(f64, f64)>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    /// It is not measured as long as the finalist that outran it stands.
    Outrun,
    Failed,
}

impl Race {
    /// The mean of its times, ns.
    fn time(&self) -> Option<f64> {
        geometric_mean(&self.rounds.iter().map(|(_, time)| *time).collect::<Vec<_>>())
    }

    /// The interval of the speedup's logarithm. All times are multiples of `step` ns: a clock is accurate to half of
    /// its step at best, even if it shows the same time in each run.
    fn interval(&self, step: u64, confidence: f64) -> Option<Interval> {
        let ratios: Vec<f64> = self.rounds.iter().map(|(base, time)| (base / time).ln()).collect();
        let interval = statistics::mean(&ratios, confidence)?;
        let coarse: f64 = self.rounds.iter().map(|(base, time)| step as f64 / 2.0 * (1.0 / base + 1.0 / time)).sum();
        Some(interval.at_least(coarse / ratios.len() as f64))
    }
}

/// The geometric mean to a picosecond, to go with speedups, which are means of logarithms. `None` without times.
fn geometric_mean(times: &[f64]) -> Option<f64> {
    let sum: f64 = times.iter().map(|time| time.ln()).sum();
    (!times.is_empty()).then(|| ((sum / times.len() as f64).exp() * 1e3).round() / 1e3)
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// `None` without times, or if one is 0 because the clock stood still.
fn median(times: &[u64]) -> Option<f64> {
    if times.contains(&0) {
        return None;
    }
    statistics::median(&times.iter().map(|time| *time as f64).collect::<Vec<_>>())
}

fn rounds(number: usize) -> String {
    if number == 1 { "1 round".into() } else { format!("{number} rounds") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::configuration::Configuration;
    use mneme_model::launch::Dim3;
    use rand::{RngExt, SeedableRng};

    fn block(x: u32) -> Configuration {
        Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(x, 1, 1), 0)
    }

    /// Runs blocks of `x` threads for about 10000 + 100 `x` ns, with noise of about `noise`, on a device that slows
    /// down over time. Blocks of 999 threads fail.
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
                    let mut time = || {
                        ((10_000.0 + 100.0 * f64::from(x)) * drift * (1.0 + noise * (rng.random::<f64>() - 0.5))) as u64
                    };
                    (x != 999).then(|| (0..5).map(|_| time()).collect())
                })
                .collect())
        };
        confirm(&block(32), &finalists, &RoundSettings::default(), measure).unwrap()
    }

    #[test]
    fn a_faster_candidate_wins_with_its_interval() {
        let found = against(&[16, 8, 32], 0.05, 1);
        assert_eq!((found.winner, found.finalists[0].outcome), (Some(1), FinalistOutcome::Faster));
        let speedup = found.finalists[0].speedup.unwrap();
        let truth = 13_200.0 / 10_800.0;
        assert!(speedup.low < truth && truth < speedup.high && speedup.high - speedup.low < 0.1, "{speedup:?}");
        assert_eq!(
            found.finalists.iter().find(|finalist| finalist.place == 2).unwrap().outcome,
            FinalistOutcome::Outrun
        );
        assert!(found.sentence().starts_with("confirmed: 1.2"), "{}", found.sentence());
        assert!((found.baseline.unwrap() / 13_200.0 - 1.0).abs() < 0.1);
    }

    #[test]
    fn who_is_rejected_afterwards_leaves_the_place_to_the_next() {
        let mut found = against(&[16, 8], 0.01, 1);
        for (place, trial) in [(0, 11), (1, 10)] {
            found.finalists[place].trial = trial;
        }
        found.reject(11);
        assert_eq!(
            (found.finalists[0].trial, found.finalists[1].trial, found.finalists[1].outcome),
            (10, 11, FinalistOutcome::Failed)
        );
        found.reject(10);
        assert!(!found.significant && found.finalists.iter().all(|it| it.outcome == FinalistOutcome::Failed));
    }

    #[test]
    fn equals_are_not_told_apart_more_often_than_is_allowed() {
        let wrong = (0..200).filter(|seed| against(&[32, 32, 32], 0.1, *seed).winner.is_some()).count();
        assert!(wrong <= 10, "{wrong} of 200, 5 % are allowed");
        let found = against(&[32], 0.1, 3);
        assert_eq!(found.rounds, 48, "undecided to the end");
        assert!(!found.significant && found.finalists[0].outcome == FinalistOutcome::Undecided, "{found:?}");
    }

    #[test]
    fn slower_and_failing_candidates_are_told() {
        let found = against(&[999, 64], 0.02, 2);
        assert_eq!(found.winner, None);
        assert_eq!((found.finalists[0].place, found.finalists[0].outcome), (1, FinalistOutcome::Slower));
        assert_eq!((found.finalists[1].outcome, found.finalists[1].rounds), (FinalistOutcome::Failed, 0));
        assert_eq!(found.rounds, 6);
        let mut early = against(&[8], 0.02, 2);
        (early.rounds, early.finalists[0].speedup, early.finalists[0].outcome) = (1, None, FinalistOutcome::Undecided);
        assert!(early.sentence().contains("after 1 round;"), "{}", early.sentence());
        let nothing = against(&[], 0.1, 1);
        assert_eq!(nothing.rounds, 0);
        assert!(!nothing.significant && nothing.finalists.is_empty());
    }

    /// The time of a simulated configuration in ns, and how much its runs and rounds vary.
    #[derive(Clone, Copy)]
    struct Model {
        time: f64,
        noise: f64,
        /// Shared by the runs of a round: whatever affects one launch affects all launches of that round.
        of_round: f64,
        /// Factor on the time of the configuration measured next.
        leaves: f64,
    }

    const EVEN: Model = Model { time: 10_000.0, noise: 0.02, of_round: 0.0, leaves: 1.0 };

    /// Simulates rounds of the baseline (first) and finalists with these models.
    fn session(models: &[Model], seed: u64) -> Confirmation {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let configurations: Vec<Configuration> = (0..models.len()).map(|place| block(place as u32)).collect();
        let mut left = 1.0;
        let measure = |order: &[&Configuration]| -> Result<_, std::convert::Infallible> {
            let mut of = |configuration: &&Configuration| {
                let model = models[configuration.block.x as usize];
                let mut around = |width: f64| 1.0 + width * (rng.random::<f64>() - 0.5);
                let mean = model.time * left * around(model.of_round);
                left = model.leaves;
                Some((0..5).map(|_| (mean * around(model.noise)) as u64).collect())
            };
            Ok(order.iter().map(&mut of).collect())
        };
        let settings = RoundSettings { seed, ..RoundSettings::default() };
        confirm(&configurations[0], &configurations[1..], &settings, measure).unwrap()
    }

    #[test]
    fn who_is_proven_faster_wins_over_who_may_be() {
        // One finalist is always 5 % faster; the other is about as much faster on average, but varies widely.
        let steady = Model { time: 9_500.0, ..EVEN };
        let wild = Model { time: 9_450.0, of_round: 0.6, ..EVEN };
        let lost = (0..200).filter(|seed| {
            let found = session(&[EVEN, wild, steady], *seed);
            found.finalists.iter().any(|finalist| finalist.speedup.is_some_and(|it| it.low > 1.0))
                && found.winner.is_none()
        });
        assert_eq!(lost.count(), 0, "of 200 sessions");
        let least = (0..200).all(|seed| {
            let found = session(&[EVEN, wild, steady, Model { time: 9_300.0, ..EVEN }], seed);
            let lows = found.finalists.iter().filter_map(|finalist| finalist.speedup).map(|it| it.low);
            lows.fold(0.0, f64::max) == found.finalists[0].speedup.unwrap().low
        });
        assert!(least, "the winner is the one that is worth most at least");
    }

    #[test]
    fn what_one_leaves_behind_makes_no_winners() {
        // All are equally fast, but the last one slows down its successor. In a fixed order that would always be the
        // baseline.
        let models = [EVEN, EVEN, EVEN, Model { leaves: 1.05, ..EVEN }];
        let wrong = (0..200).filter(|seed| session(&models, *seed).winner.is_some_and(|winner| winner < 2)).count();
        assert!(wrong <= 10, "{wrong} of 200");
    }

    /// Two finalists that are twice and 1.1 times as fast as the baseline, the first of which verifies for this many
    /// rounds, and a third that varies too much for an early decision.
    fn with_one_that_verifies(rounds: u32) -> Confirmation {
        let (mut rng, mut seen) = (rand_chacha::ChaCha8Rng::seed_from_u64(5), 0);
        let finalists = [block(2), block(3), block(4)];
        confirm(&block(1), &finalists, &RoundSettings::default(), |order| {
            seen += 1;
            let mut of = |configuration: &&Configuration| match configuration.block.x {
                1 => Some(vec![11_000, 11_001]),
                2 => (seen <= rounds).then(|| vec![5_500, 5_501]),
                3 => Some(vec![10_000, 10_001]),
                _ => Some(vec![(4_000.0 + 6_000.0 * rng.random::<f64>()) as u64]),
            };
            Ok::<_, std::convert::Infallible>(order.iter().map(&mut of).collect())
        })
        .unwrap()
    }

    #[test]
    fn who_was_beaten_by_a_candidate_that_fails_was_not_beaten() {
        let mut found = with_one_that_verifies(u32::MAX);
        let of =
            |found: &Confirmation, place: usize| found.finalists.iter().find(|it| it.place == place).unwrap().clone();
        assert_eq!((found.winner, of(&found, 1).outcome), (Some(0), FinalistOutcome::Outrun), "{found:?}");
        found.finalists.retain(|it| it.place != 2);
        (found.finalists[0].trial, found.finalists[1].trial) = (7, 8);
        found.reject(7);
        let outcomes: Vec<_> = found.finalists.iter().map(|it| (it.trial, it.outcome, it.speedup.is_some())).collect();
        assert_eq!(outcomes, [(8, FinalistOutcome::Faster, true), (7, FinalistOutcome::Failed, false)]);
        assert!(
            found.significant
                && found.winner == Some(1)
                && found.finalists[0].time == Some(10_000.5)
                && found.sentence().starts_with("confirmed: 1.1"),
            "{found:?}"
        );
        // It fails after it has outrun the other, which is then measured again.
        let found = with_one_that_verifies(10);
        assert!(
            (of(&found, 0).outcome, of(&found, 0).speedup) == (FinalistOutcome::Failed, None)
                && found.winner != Some(0),
            "{found:?}"
        );
        assert!(of(&found, 1).rounds > 6 && of(&found, 1).speedup.is_some_and(|it| it.low > 1.0), "{found:?}");
    }

    #[test]
    fn a_clock_tells_nothing_below_its_step() {
        // Speedups of 2 to 4 % are found with a clock step of 1 % of that, but not with a step as long as the
        // difference.
        let by = |step: u64| {
            let times = |configuration: &&Configuration| {
                Some(vec![if configuration.block.x == 1 { 4_096 } else { 4_096 - 64 } / step * step; 3])
            };
            let jitter = 4_096 - step;
            let mut round = 0;
            confirm(&block(1), &[block(2)], &RoundSettings::default(), |order| {
                round += 1;
                let mut all: Vec<_> = order.iter().map(times).collect();
                // One run of the first round reveals the clock's step.
                if let (1, Some(Some(first))) = (round, all.first_mut()) {
                    first[0] = jitter;
                }
                Ok::<_, std::convert::Infallible>(all)
            })
            .unwrap()
        };
        assert_eq!(by(1).finalists[0].outcome, FinalistOutcome::Faster);
        let coarse = by(64);
        assert_eq!((coarse.finalists[0].outcome, coarse.winner), (FinalistOutcome::Undecided, None), "{coarse:?}");
    }

    #[test]
    fn a_clock_that_stands_still_measures_nothing() {
        let times = |configuration: &&Configuration| Some(vec![if configuration.block.x == 1 { 1_000 } else { 0 }; 5]);
        let measure = |order: &[&Configuration]| Ok::<_, std::convert::Infallible>(order.iter().map(times).collect());
        let found = confirm(&block(1), &[block(2)], &RoundSettings::default(), measure).unwrap();
        assert_eq!(
            (found.finalists[0].outcome, found.finalists[0].speedup, found.winner),
            (FinalistOutcome::Failed, None, None)
        );
        let measure =
            |order: &[&Configuration]| Ok::<_, std::convert::Infallible>(order.iter().map(|_| None).collect());
        let found = confirm(&block(1), &[block(2)], &RoundSettings::default(), measure).unwrap();
        assert_eq!(found.baseline_failures, 1);
        assert!(
            found.sentence().ends_with("the baseline itself did not verify in 1 of 1 round"),
            "{}",
            found.sentence()
        );
    }
}
