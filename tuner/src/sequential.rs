//! Sequential testing: decides how many runs a candidate needs.
//!
//! The question is whether a candidate may be among the best few, which are measured again before one of them is
//! reported. A run answers it if its distance from the last of the best few exceeds the noise between runs of one
//! candidate. The noise is estimated from all candidates of the session together, and Student's distribution accounts
//! for an estimate from few runs. The allowed error is divided among the looks at a candidate (Bonferroni), so a
//! candidate as fast as the last of the best is taken for slower no more often than that.
//!
//! A first run is cold: it serves as warm-up, never as measurement. For a long kernel it may still decide, because
//! another run would be expensive. The session learns how much slower first runs are than measured ones, and gives up a
//! candidate whose first run is slower than a cold run of the last of the best would be.

use mneme_model::protocol::{Near, StoppingRule};
use mneme_model::result::ReplayResult;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// After a first run of this length in ns, there is no further warm-up.
pub const LONG: u64 = 20_000_000;
/// Rounds and proofs are expensive if a run takes this time, ns.
pub const EXPENSIVE: f64 = 1e8;
/// Maximum of measured runs for such a kernel.
pub const LONG_RUNS: u32 = 3;
/// A candidate that is this many times slower than the last of the best is hopeless.
const HOPELESS: f64 = 3.0;
/// If the first run of a hopeless candidate takes this long in ns, it is the only warm-up.
const SHORT: u64 = 1_000_000;
/// Minimum noise, relative to the mean: reloading the same code changes its time.
const LEAST_NOISE: f64 = 0.001;
/// Number of first runs from which the session can tell how cold they are.
const ENOUGH: usize = 3;
/// First runs count as warm if they are slower by less than this share, with a probability of 1 - [`ERROR`].
const WARM: f64 = 0.02;
/// Probability that a candidate as fast as the last of the best is taken for slower.
const ERROR: f64 = 0.01;

/// The noise of a session, and its best.
#[derive(Clone, Debug)]
pub struct SequentialTest {
    /// Maximum of measured runs per candidate.
    iterations: u32,
    /// Sum of squared deviations of logarithmic times from their candidates' means, and the degrees of freedom.
    squares: f64,
    degrees: usize,
    /// Logarithms of the ratios of first runs to the geometric mean of measured runs.
    cold: Vec<f64>,
    /// Metrics in ns and numbers of runs of the best so far, best first.
    best: Vec<(f64, u32)>,
    most: usize,
}

impl SequentialTest {
    /// `finalists` is the number of the best that are measured again.
    pub fn new(iterations: u32, finalists: usize) -> Self {
        Self { iterations, squares: 0.0, degrees: 0, cold: Vec::new(), best: Vec::new(), most: finalists.max(1) }
    }

    /// Learns from a candidate's measured runs in ns and their `metric`.
    pub fn note(&mut self, runs: &[u64], metric: f64) {
        self.note_noise(runs);
        let place = self.best.partition_point(|(better, _)| *better <= metric);
        self.best.insert(place, (metric, runs.len() as u32));
        self.best.truncate(self.most);
    }

    /// Forgets a metric that a new measurement replaces.
    pub fn forget(&mut self, metric: f64) {
        if let Some(place) = self.best.iter().position(|(known, _)| *known == metric) {
            self.best.remove(place);
        }
    }

    /// Learns the noise from one candidate's runs.
    pub fn note_noise(&mut self, runs: &[u64]) {
        let logarithms: Vec<f64> = runs.iter().map(|time| (*time as f64).ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        if mean.is_finite() {
            self.squares += logarithms.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
            self.degrees += logarithms.len() - 1;
        }
    }

    /// Learns from a result with warm-up runs how much slower first runs are.
    pub fn note_first(&mut self, result: &ReplayResult) {
        let measured = result.measured();
        let Some(first) = result.exec_time.first().filter(|_| result.warmup > 0 && !measured.is_empty()) else {
            return;
        };
        let mean = measured.iter().map(|time| (*time as f64).ln()).sum::<f64>() / measured.len() as f64;
        let cold = (*first as f64).ln() - mean;
        self.cold.extend(Some(cold).filter(|cold| cold.is_finite()));
    }

    /// Upper bound for how much slower the next first run is, as a difference of logarithms. `None` if too few are
    /// known.
    fn coldest(&self) -> Option<f64> {
        let count = self.cold.len() as f64;
        let mean = self.cold.iter().sum::<f64>() / count;
        let variance = self.cold.iter().map(|cold| (cold - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let student = Some(self.cold.len()).filter(|known| *known >= ENOUGH);
        let student = student.and_then(|known| StudentsT::new(0.0, 1.0, (known - 1) as f64).ok())?;
        Some(mean.max(0.0) + student.inverse_cdf(1.0 - ERROR) * (variance * (1.0 + 1.0 / count)).sqrt())
    }

    /// Whether first runs are as fast as later ones.
    pub fn is_warm_at_once(&self) -> bool {
        self.coldest().is_some_and(|coldest| coldest < WARM)
    }

    /// The noise between runs of one candidate: a standard deviation relative to the mean, and its degrees of freedom.
    /// `None` if no candidate was run twice.
    pub fn noise(&self) -> Option<(f64, usize)> {
        let variance = self.squares / self.degrees as f64;
        (self.degrees > 0).then(|| (variance.sqrt().max(LEAST_NOISE), self.degrees))
    }

    /// The stopping rule for the next candidate. `baseline` is the baseline's metric in ns and its number of runs: a
    /// slower candidate cannot win.
    pub fn rule(&self, baseline: Option<(f64, u32)>) -> StoppingRule {
        let last = self.best.get(self.most - 1).copied();
        let bound = last.into_iter().chain(baseline).min_by(|one, other| one.0.total_cmp(&other.0));
        let near = bound.zip(self.noise()).and_then(|((ns, runs), (noise, degrees))| {
            let looks = self.iterations.saturating_sub(1).max(1);
            let student = StudentsT::new(0.0, 1.0, degrees as f64).ok()?;
            Some(Near { ns, runs, within: noise * student.inverse_cdf(1.0 - ERROR / f64::from(looks)) })
        });
        let hopeless = near.map_or(LONG, |near| ((HOPELESS * near.ns) as u64).max(SHORT));
        let slower = |near: &Near| {
            let noise = near.within * (1.0 + 1.0 / f64::from(near.runs.max(1))).sqrt();
            self.coldest().map_or(HOPELESS, |coldest| (coldest + noise).exp().min(HOPELESS))
        };
        let hopeless_ns = near.as_ref().map(|near| ((near.ns * slower(near)) as u64).max(LONG));
        StoppingRule { long_ns: LONG.min(hopeless), long_runs: LONG_RUNS, near, hopeless_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confirm::{RoundSettings, confirm};
    use mneme_model::configuration::Configuration;
    use mneme_model::launch::Dim3;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Simulates the runs of a candidate with this time, as many of five as the rule wants.
    fn runs(rule: &StoppingRule, time: f64, noise: f64, rng: &mut ChaCha8Rng) -> Vec<u64> {
        let mut times = Vec::new();
        while times.len() < 5 && !rule.is_content(&times, 5, false) {
            // Normally distributed: twelve uniform numbers minus six.
            let normal = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            times.push((time * (noise * normal).exp()) as u64);
        }
        times
    }

    fn mean(times: &[u64]) -> f64 {
        times.iter().sum::<u64>() as f64 / times.len() as f64
    }

    #[test]
    fn who_is_as_fast_as_the_best_is_taken_for_slower_as_often_as_is_allowed() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let (mut wrong, mut count) = (0, 0);
        for _ in 0..4000 {
            let mut test = SequentialTest::new(5, 1);
            // Noise is estimated only from the three runs of the baseline.
            let baseline: Vec<u64> = (0..3).flat_map(|_| runs(&test.rule(None), 1e7, 0.01, &mut rng).pop()).collect();
            test.note_noise(&baseline);
            let rule = test.rule(Some((mean(&baseline), 3)));
            let times = runs(&rule, 1e7, 0.01, &mut rng);
            // It ended before its fifth run, and was slower.
            wrong += usize::from(times.len() < 5 && mean(&times) > mean(&baseline));
            count += 1;
        }
        assert!(wrong as f64 <= 0.015 * f64::from(count), "{wrong} of {count}, 1 % is allowed");
        assert!(wrong > 0, "the bound is one that is met");
    }

    #[test]
    fn most_candidates_are_run_once_and_the_best_is_not_lost() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (mut lost, mut all_runs) = (0, 0);
        for _ in 0..200 {
            let mut test = SequentialTest::new(5, 3);
            let baseline: Vec<u64> = (0..3).flat_map(|_| runs(&test.rule(None), 1e8, 0.003, &mut rng).pop()).collect();
            test.note_noise(&baseline);
            let mut found: Vec<(f64, usize)> = Vec::new();
            // From 0.6 to 2.5 times the baseline's time, all different, in any order.
            let truths: Vec<f64> = (0..60).map(|_| 1e8 * (0.6 + 1.9 * rng.random::<f64>())).collect();
            for (place, truth) in truths.iter().enumerate() {
                let times = runs(&test.rule(Some((mean(&baseline), 3))), *truth, 0.003, &mut rng);
                all_runs += times.len();
                test.note(&times, mean(&times));
                found.push((mean(&times), place));
            }
            found.sort_by(|one, other| one.0.total_cmp(&other.0));
            let best = (0..60).min_by(|one, other| truths[*one].total_cmp(&truths[*other])).unwrap();
            lost += usize::from(!found[..3].iter().any(|(_, place)| *place == best));
        }
        assert!(lost <= 1, "{lost} of 200 sessions lost their best");
        let each = all_runs as f64 / (200.0 * 60.0);
        assert!(each < 1.3, "{each} runs of a candidate");
    }

    #[test]
    fn without_noise_known_or_with_nothing_to_compare_all_runs_are_made() {
        let mut test = SequentialTest::new(5, 2);
        assert_eq!(test.rule(Some((100.0, 5))).near, None);
        test.note(&[100, 102, 101], 101.0);
        assert_eq!(test.rule(None).near, None, "one candidate of two");
        test.note(&[90], 90.0);
        let near = test.rule(None).near.unwrap();
        assert_eq!((near.ns, near.runs), (101.0, 3), "the second best");
        assert_eq!(test.rule(Some((95.0, 5))).near.unwrap().ns, 95.0, "the baseline is faster");
        // A long candidate that took three times as long at first is measured by that run alone.
        let mut slow = SequentialTest::new(5, 1);
        slow.note(&[4_000_000, 4_010_000], 4_005_000.0);
        assert_eq!(slow.rule(None).long_ns, 12_015_000);
        assert_eq!(test.rule(None).long_ns, SHORT);
    }

    #[test]
    fn a_first_run_decides_if_it_is_slower_than_a_cold_run_of_the_best() {
        let result = |first: u64, time: u64| ReplayResult {
            exec_time: vec![first, time, time],
            warmup: 1,
            ..ReplayResult::default()
        };
        let session = |cold: &[f64]| {
            let mut test = SequentialTest::new(5, 1);
            test.note(&[100_000_000, 100_300_000, 99_800_000, 100_100_000, 100_050_000], 1e8);
            cold.iter().for_each(|cold| test.note_first(&result((2e8 * cold) as u64, 200_000_000)));
            test
        };
        let hopeless = |cold: &[f64]| session(cold).rule(None).hopeless_ns.unwrap() as f64 / 1e8;
        assert!((hopeless(&[1.09, 1.08]) - 3.0).abs() < 1e-6, "too little is known of first runs");
        let noise = (1..20).map(|_| 1.0).collect::<Vec<f64>>();
        let (warm, cold) = (hopeless(&noise), hopeless(&noise.iter().map(|_| 1.09).collect::<Vec<f64>>()));
        assert!(warm > 1.0 && (cold / warm - 1.09).abs() < 1e-3 && cold < 3.0, "{warm} {cold}");
        assert!(hopeless(&[1.09, 1.08, 1.1]) > cold, "few first runs say less");
        assert_eq!(hopeless(&[9.0, 1.0, 4.0]), 3.0, "never more than hopeless");
        assert!(session(&[1.0, 1.001, 1.002, 1.0]).is_warm_at_once());
        assert!(!session(&[1.09, 1.08, 1.085]).is_warm_at_once() && !session(&[1.0; 2]).is_warm_at_once());
        // Short kernels are measured in any case.
        let mut short = SequentialTest::new(5, 1);
        short.note(&[1_000_000, 1_001_000], 1e6);
        assert_eq!(short.rule(None).hopeless_ns, Some(LONG));
    }

    /// Simulates a session whose candidates are all as fast as the baseline: measures them, and confirms the best
    /// three. Returns whether it reports an improvement. Runs differ by `noise`, and everything measured at one time by
    /// `drift`, which wanders.
    fn reports_one(seed: u64, noise: f64, drift: f64) -> bool {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut level = 0.0;
        let mut run = |rng: &mut ChaCha8Rng| {
            let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            level = 0.98 * level + drift * normal();
            // Another program disturbs one in fifty.
            let disturbed = if rng.random_bool(0.02) { 0.2 } else { 0.0 };
            let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            (1e6 * (level + noise * normal() + disturbed).exp()) as u64
        };
        let mut test = SequentialTest::new(5, 3);
        let baseline: Vec<u64> = (0..5).map(|_| run(&mut rng)).collect();
        test.note_noise(&baseline);
        let mut found: Vec<(f64, u32)> = Vec::new();
        for candidate in 1..=40 {
            let (rule, mut times) = (test.rule(Some((mean(&baseline), 5))), Vec::new());
            while times.len() < 5 && !rule.is_content(&times, 5, false) {
                times.push(run(&mut rng));
            }
            test.note(&times, mean(&times));
            found.push((mean(&times), candidate));
        }
        found.sort_by(|one, other| one.0.total_cmp(&other.0));
        let of = |number: u32| Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(number, 1, 1), 0);
        let finalists: Vec<Configuration> = found[..3].iter().map(|(_, candidate)| of(*candidate)).collect();
        let settings = RoundSettings { seed, ..RoundSettings::default() };
        let measure = |order: &[&Configuration]| {
            Ok::<_, std::convert::Infallible>(
                order.iter().map(|_| Some((0..5).map(|_| run(&mut rng)).collect())).collect(),
            )
        };
        confirm(&of(0), &finalists, &settings, measure).unwrap().significant
    }

    #[test]
    fn sessions_without_an_improvement_report_one_in_five_of_a_hundred_at_most() {
        for (noise, drift) in [(0.005, 0.0), (0.03, 0.01)] {
            let reported = (0..1000).filter(|seed| reports_one(*seed, noise, drift)).count();
            assert!(reported <= 50, "{reported} of 1000 sessions with noise of {noise} and drift of {drift}");
        }
    }
}
