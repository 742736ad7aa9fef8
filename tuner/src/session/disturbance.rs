//! Finds trials that were measured while the device was disturbed, by references and clocks.
//!
//! The usual state of the device is the median of the references' times. It can differ from the baseline's: clocks may
//! have risen, or fallen for good, since then. A trial was disturbed if a reference right before or after it was off,
//! or if clocks were low for a reason that neither the baseline nor most trials had. Such a trial is measured again,
//! once, as soon as a reference shows the usual state.

use std::collections::{HashMap, HashSet, VecDeque};

/// The conditions under which a trial was measured.
#[derive(Clone, Debug)]
pub struct TrialConditions {
    /// Number in the results.
    pub trial: u64,
    /// Whether the trial ran on the device of the references.
    pub is_watched: bool,
    /// Reasons for low clocks.
    pub throttled: Vec<String>,
}

#[derive(Clone, Debug)]
struct Measured {
    conditions: TrialConditions,
    /// Number of references before it.
    before: usize,
    is_repeat: bool,
}

/// Evidence of disturbances, from references and clocks.
#[derive(Clone, Debug, Default)]
pub struct Disturbances {
    /// Runs of the baseline, each of which counts as a reference without a change.
    runs: usize,
    /// Reasons for low clocks during the baseline.
    throttled: Vec<String>,
    /// Changes of references: time relative to the baseline's, minus one.
    changes: Vec<f64>,
    /// Largest change that noise explains.
    noise: f64,
    trials: Vec<Measured>,
    /// Trials that are to be measured again.
    due: VecDeque<u64>,
}

impl Disturbances {
    /// Starts from a baseline with this number of runs and these reasons for low clocks.
    pub fn of_baseline(runs: usize, throttled: Vec<String>) -> Self {
        Self { runs, throttled, ..Self::default() }
    }

    /// Notes a trial. `is_repeat` says that it was measured before.
    pub fn measured(&mut self, conditions: TrialConditions, is_repeat: bool) {
        let measured = Measured { conditions, before: self.changes.len(), is_repeat };
        match self.trials.iter_mut().find(|it| it.conditions.trial == measured.conditions.trial) {
            Some(earlier) => *earlier = measured,
            None => self.trials.push(measured),
        }
    }

    /// Notes a reference with this change; changes up to `noise` are noise.
    pub fn refer(&mut self, change: f64, noise: f64) {
        self.changes.push(change);
        self.noise = noise;
        if (change - self.usual()).abs() <= noise {
            let due = self.disturbed().into_iter().filter(|it| !it.is_repeat).map(|it| it.conditions.trial);
            let due: Vec<u64> = due.filter(|trial| !self.due.contains(trial)).collect();
            self.due.extend(due);
        }
    }

    /// The next trial to measure again.
    pub fn next(&mut self) -> Option<u64> {
        self.due.pop_front()
    }

    /// Whether trials were measured since the last reference. Always false before the first reference.
    pub fn are_open(&self) -> bool {
        let last = self.changes.len();
        last > 0 && self.trials.iter().any(|it| it.before == last)
    }

    /// Number of trials whose measurement is in doubt.
    pub fn count(&self) -> usize {
        self.disturbed().len()
    }

    /// The usual change: the median, and of two middle values the one nearer to the baseline.
    fn usual(&self) -> f64 {
        let mut all = self.changes.clone();
        all.resize(all.len() + self.runs.max(1), 0.0);
        all.sort_by(f64::total_cmp);
        let (one, other) = (all[(all.len() - 1) / 2], all[all.len() / 2]);
        if one.abs() <= other.abs() { one } else { other }
    }

    fn disturbed(&self) -> Vec<&Measured> {
        let (usual, unusual) = (self.usual(), self.unusual_reasons());
        let is_off = |change: &f64| (change - usual).abs() > self.noise;
        let was_disturbed = |trial: &&Measured| {
            let before = trial.before.checked_sub(1).map_or(Some(&0.0), |place| self.changes.get(place));
            let around = before.into_iter().chain(self.changes.get(trial.before));
            let conditions = &trial.conditions;
            (conditions.is_watched && around.into_iter().any(is_off))
                || conditions.throttled.iter().any(|reason| unusual.contains(reason.as_str()))
        };
        self.trials.iter().filter(was_disturbed).collect()
    }

    /// Reasons for low clocks that apply to fewer than half of the trials and not to the baseline.
    fn unusual_reasons(&self) -> HashSet<&str> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for reason in self.trials.iter().flat_map(|it| &it.conditions.throttled) {
            *counts.entry(reason).or_default() += 1;
        }
        counts.retain(|reason, count| 2 * *count < self.trials.len() && !self.throttled.iter().any(|it| it == reason));
        counts.into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISE: f64 = 0.02;

    fn trial(trial: u64) -> TrialConditions {
        TrialConditions { trial, is_watched: true, throttled: Vec::new() }
    }

    fn due(disturbances: &mut Disturbances) -> Vec<u64> {
        std::iter::from_fn(|| disturbances.next()).collect()
    }

    #[test]
    fn what_was_measured_beside_a_reference_that_is_off_is_measured_again_when_that_is_over() {
        let mut disturbances = Disturbances::of_baseline(3, Vec::new());
        // Five periods: quiet, disturbed at the end, at both ends, at the start, quiet.
        for (id, change) in [0.001, 0.2, 0.15, -0.004].into_iter().enumerate() {
            disturbances.measured(trial(id as u64), false);
            disturbances.refer(change, NOISE);
            assert_eq!(due(&mut disturbances), if id == 3 { vec![1, 2, 3] } else { vec![] }, "{id}");
        }
        assert_eq!(disturbances.count(), 3, "until they were");
        (1..4).for_each(|id| disturbances.measured(trial(id), true));
        assert!(disturbances.are_open());
        disturbances.refer(0.0, NOISE);
        assert_eq!((disturbances.count(), disturbances.are_open(), due(&mut disturbances)), (0, false, vec![]));
    }

    #[test]
    fn nothing_is_measured_a_third_time() {
        let mut disturbances = Disturbances::of_baseline(9, Vec::new());
        disturbances.measured(trial(0), false);
        disturbances.refer(0.2, NOISE);
        disturbances.refer(0.0, NOISE);
        assert_eq!(due(&mut disturbances), [0]);
        disturbances.measured(trial(0), true);
        disturbances.refer(0.2, NOISE);
        disturbances.refer(0.0, NOISE);
        assert_eq!((due(&mut disturbances), disturbances.count()), (vec![], 1));
    }

    #[test]
    fn a_change_that_stays_is_the_usual_state_once_most_references_show_it() {
        let mut disturbances = Disturbances::of_baseline(2, Vec::new());
        for id in 0..4 {
            disturbances.measured(trial(id), false);
            disturbances.refer(-0.1, NOISE);
        }
        assert_eq!(due(&mut disturbances), [0], "which began in the other");
        disturbances.measured(trial(0), true);
        disturbances.measured(trial(4), false);
        disturbances.refer(-0.1, NOISE);
        assert_eq!(disturbances.count(), 0);
        // A disturbance that is not over leaves its trials in doubt.
        disturbances.measured(trial(5), false);
        disturbances.refer(0.0, NOISE);
        assert_eq!((due(&mut disturbances), disturbances.count()), (vec![], 1));
    }

    #[test]
    fn clocks_that_are_low_for_an_unusual_reason_are_a_disturbance_on_every_device() {
        let mut disturbances = Disturbances::of_baseline(3, vec!["power cap".into()]);
        for id in 0..9 {
            let mut throttled = vec!["power cap".to_owned(), "application clocks".to_owned()];
            throttled.extend((id == 4).then(|| "temperature (hardware)".to_owned()));
            disturbances.measured(TrialConditions { throttled, is_watched: id != 4, ..trial(id) }, false);
        }
        disturbances.refer(0.0, NOISE);
        assert_eq!(due(&mut disturbances), [4]);
    }

    #[test]
    fn other_devices_are_not_disturbed_by_what_one_is() {
        let mut disturbances = Disturbances::of_baseline(3, Vec::new());
        disturbances.measured(TrialConditions { is_watched: false, ..trial(0) }, false);
        disturbances.refer(0.2, NOISE);
        disturbances.refer(0.0, NOISE);
        assert_eq!((due(&mut disturbances), disturbances.count()), (vec![], 0));
    }
}
