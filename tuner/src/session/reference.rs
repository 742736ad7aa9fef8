//! Reference runs: repeated runs of the baseline, which detect drift and throttling.

use std::time::{Duration, Instant};

use mneme_model::device::CPU_DEVICE;
use mneme_model::result::ReplayResult;

use super::disturbance::{Disturbances, TrialConditions};
use super::{Session, Stop};
use crate::candidate::CandidateNumber;
use crate::evaluator::Evaluated;
use crate::results::{References, Trial};
use crate::server::Runs;

/// The identifier of references among evaluations. Candidates count from 0.
pub const REFERENCE: CandidateNumber = CandidateNumber(u64::MAX);
/// A session spends at most 1/`SHARE` of its time on references, and makes the first one no earlier than after a
/// second.
const SHARE: u32 = 30;
const SOONEST: Duration = Duration::from_secs(1);
/// Changes below this share of the baseline's time are not reported.
const LEAST: f64 = 0.02;

/// When the next reference is due.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceSchedule {
    /// When the last reference, or the baseline, ended.
    last: Instant,
    /// When the reference in flight was submitted.
    begun: Option<Instant>,
    cost: Duration,
}

impl ReferenceSchedule {
    pub fn new() -> Self {
        Self { last: Instant::now(), begun: None, cost: Duration::ZERO }
    }

    /// Notes that the baseline or a reference has ended, and its time on the device.
    fn ended(&mut self, result: &ReplayResult) {
        self.last = Instant::now();
        self.begun = None;
        self.cost = Duration::from_nanos(result.exec_time.iter().sum());
    }

    fn is_due(&self, now: Instant) -> bool {
        self.begun.is_none() && now.saturating_duration_since(self.last) >= (self.cost * SHARE).max(SOONEST)
    }
}

impl Session {
    /// Submits the baseline again if a reference is due.
    pub(super) fn refer(&mut self) {
        if self.schedule.is_due(Instant::now()) {
            self.submit_reference();
        }
    }

    /// Submits a last reference if trials were measured since the previous one. Returns whether it did.
    pub(super) fn refer_at_end(&mut self, stop: Option<&Stop>) -> bool {
        stop == Some(&Stop::Complete) && self.disturbances.are_open() && self.submit_reference()
    }

    fn submit_reference(&mut self) -> bool {
        let Some(baseline) = self.standings.baseline.as_ref().filter(|_| self.refers()) else { return false };
        let device = Some(baseline.result.gpu_id);
        let runs = Runs { iterations: 1, fresh: true, device, proven: true, ..self.criteria.runs.clone() }.of_time();
        self.evaluator.submit(REFERENCE, vec![baseline.config.clone()], runs);
        self.schedule.begun = Some(Instant::now());
        true
    }

    /// Whether the session makes references: the times of a single instance decide, and a GPU measures them.
    /// Simulations replay recorded times, and the machine disturbs the CPU device all the time.
    fn refers(&self) -> bool {
        self.test.is_some() && !self.evaluator.is_simulated() && self.evaluator.greeting().device != CPU_DEVICE
    }

    /// Schedules the first reference by the time that the baseline took.
    pub(super) fn begin_references(&mut self) {
        if let Some(baseline) = self.standings.baseline.as_ref() {
            self.schedule.ended(&baseline.result);
            self.disturbances =
                Disturbances::of_baseline(baseline.result.measured().len(), throttled(&baseline.result));
        }
    }

    /// Notes when a trial was measured, if this session measured it and its runs are not shared with another trial.
    pub(super) fn note_measured(&mut self, trial: &Trial) {
        let is_own = !trial.cached && trial.metric.is_some() && trial.result.shared_with.is_none();
        let Some(baseline) = self.standings.baseline.as_ref().filter(|_| is_own && self.refers()) else { return };
        let is_watched = trial.result.gpu_id == baseline.result.gpu_id;
        let conditions = TrialConditions { trial: trial.trial, is_watched, throttled: throttled(&trial.result) };
        self.disturbances.measured(conditions, trial.repeated.is_some());
    }

    /// Counts the trials that remain in doubt.
    pub(super) fn count_in_doubt(&mut self) {
        let in_doubt = self.disturbances.count() as u64;
        if let Some(references) = &mut self.standings.summary.references {
            references.in_doubt = in_doubt;
        }
    }

    /// Compares a reference with the baseline.
    pub(super) fn compare_reference(&mut self, evaluated: &Evaluated) {
        let Some(result) = evaluated.results.first() else { return };
        self.schedule.ended(result);
        let (Some(metric), Some(test)) = (self.criteria.metric.of(result.measured()), &self.test) else { return };
        let (baseline, runs) = (self.standings.baseline_metric, result.measured().len() as f64);
        let noise = test.noise().map_or(LEAST, |(noise, _)| noise);
        let change = metric / baseline - 1.0;
        let throttled = throttled(result).join(", ");
        let noise = (4.0 * noise * (1.0 + 1.0 / runs).sqrt()).max(LEAST);
        let is_far = change.abs() > noise;
        self.disturbances.refer(change, noise);
        self.standings.summary.references.get_or_insert_default().note(change, is_far, &throttled);
        if is_far {
            let why = if throttled.is_empty() { String::new() } else { format!(" ({throttled})") };
            self.records.log(&format!("reference: the baseline took {metric} ns, {:+.1} %{why}", 100.0 * change));
        }
    }
}

/// Reasons for low clocks during this measurement.
fn throttled(result: &ReplayResult) -> Vec<String> {
    result.environment.clocks.as_ref().map(|clocks| clocks.throttled.clone()).unwrap_or_default()
}

impl References {
    /// Counts a reference whose time differs from the baseline's by `change`, a share of it.
    fn note(&mut self, change: f64, is_far: bool, throttled: &str) {
        self.count += 1;
        if is_far {
            self.disturbed += 1;
            if change.abs() > self.largest_change.abs() {
                self.largest_change = change;
            }
            if !throttled.is_empty() && !self.throttled.iter().any(|known| known == throttled) {
                self.throttled.push(throttled.into());
            }
        }
    }

    /// A summary for the end of the session; `None` if no disturbance was seen.
    pub fn sentence(&self) -> Option<String> {
        let why = if self.throttled.is_empty() { String::new() } else { format!(" ({})", self.throttled.join("; ")) };
        let Self { count, disturbed, repeated, in_doubt, .. } = self;
        let again = match repeated {
            0 => String::new(),
            1 => "; 1 trial was measured again".into(),
            _ => format!("; {repeated} trials were measured again"),
        };
        let in_doubt = match in_doubt {
            0 => String::new(),
            1 => "; the first measurement of 1 trial may be off by as much".into(),
            _ => format!("; the first measurements of {in_doubt} trials may be off by as much"),
        };
        if *disturbed == 0 && *repeated == 0 {
            return None;
        }
        let change = 100.0 * self.largest_change;
        let changed = match disturbed {
            0 => ": its clocks were low".into(),
            _ => format!(
                ": in {disturbed} of {count} looks the baseline's time had changed, by {change:+.1} % at most{why}"
            ),
        };
        Some(format!("the device was not always as fast{changed}{again}{in_doubt}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_take_their_share_of_the_time() {
        let mut schedule = ReferenceSchedule::new();
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        assert!(!schedule.is_due(start) && schedule.is_due(start + 2 * second));
        schedule.ended(&ReplayResult { exec_time: vec![260_000_000; 3], ..ReplayResult::default() });
        assert!(!schedule.is_due(start + 20 * second) && schedule.is_due(start + 25 * second));
        schedule.begun = Some(start);
        assert!(!schedule.is_due(start + 60 * second), "one at a time");
    }

    #[test]
    fn what_was_disturbed_is_said_with_its_reason() {
        let mut references = References::default();
        references.note(0.001, false, "");
        assert_eq!(references.sentence(), None);
        references.note(0.12, true, "power cap");
        references.note(-0.03, true, "power cap");
        (references.repeated, references.in_doubt) = (1, 3);
        assert_eq!(
            references.sentence().unwrap(),
            "the device was not always as fast: in 2 of 3 looks the baseline's time had changed, by +12.0 % at most \
             (power cap); 1 trial was measured again; the first measurements of 3 trials may be off by as much"
        );
        let throttled = References { count: 2, repeated: 4, ..References::default() };
        assert_eq!(
            throttled.sentence().unwrap(),
            "the device was not always as fast: its clocks were low; 4 trials were measured again"
        );
    }
}
