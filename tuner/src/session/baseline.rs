//! The baseline, with which candidates are compared.

use mneme_model::configuration::Configuration;
use mneme_model::result::{Environment, ReplayResult, ReplayStatus};
use mneme_model::text::ratio;
use mneme_model::units;

use super::criteria::{baseline_results, spokesman};
use super::resume::has_evidence;
use super::{Session, SessionError};
use crate::archive::plain;
use crate::failure;
use crate::results::{BASELINE, Baseline, ResultsError};
use crate::sequential::LONG;
use crate::server::{Runs, ServerError};
use crate::statistics::{self, Interval};

/// The first pipeline's time may differ from the application's by this share without a remark.
const NEAR: f64 = 0.03;
/// Pairs of visits in turns, if the pipeline seems to be off. The first results do not count: a shared device may have
/// been busy during one of them, which is then the only reason for the pairs.
const VISITS: usize = 3;
const CONFIDENCE: f64 = 0.95;

impl Session {
    /// Replays the baseline. A resumed session keeps its baseline, unless the user asks to measure it again.
    pub(super) fn measure_baseline(&mut self) -> Result<(), SessionError> {
        let baseline = match self.earlier_baseline()? {
            Some(earlier) => earlier,
            None => self.replay_baseline()?,
        };
        self.progress.say(&described(&baseline.config));
        self.standings.summary.baseline_metric = baseline.metric;
        let Some(metric) = baseline.metric else {
            let reason = failure::in_full(&baseline.result);
            return Err(match baseline.result.status {
                ReplayStatus::InternalError => SessionError::BaselineUntried(reason),
                ReplayStatus::Unproven => SessionError::Unproven(reason),
                _ => SessionError::Baseline(reason),
            });
        };
        self.standings.baseline_metric = metric;
        let results = baseline_results(&baseline);
        let configurations: Vec<_> = if baseline.instances.is_empty() {
            vec![&baseline.config]
        } else {
            baseline.instances.iter().map(|instance| &instance.config).collect()
        };
        // An objective without a value for the baseline has none for any candidate, so report that now.
        self.criteria.costs(&configurations, &results, Some(metric))?;
        if let Some(test) = &mut self.test {
            test.note_noise(results[0].measured());
            test.note_first(&results[0]);
        }
        let samples: Vec<String> = results.iter().map(samples).collect();
        self.standings.baseline = Some(baseline);
        self.begin_references();
        let timer = results.first().map(timer).unwrap_or_default();
        let (name, time) = (self.criteria.metric.name(), units::time(metric));
        let line = format!("Baseline {name} exec_time = {time} ({}){timer}", samples.join("; "));
        self.progress.baseline(metric);
        self.progress.say(&line);
        Ok(())
    }

    /// The baseline of the resumed session, with this session's metric.
    fn earlier_baseline(&self) -> Result<Option<Baseline>, SessionError> {
        let earlier = if self.settings.resume { self.records.results.read::<Baseline>(BASELINE)? } else { None };
        let Some(earlier) = earlier else { return Ok(None) };
        if earlier.kernel != self.kernel || earlier.record_ids != self.criteria.record_ids() {
            let found = format!("{}, {}", earlier.kernel, earlier.record_ids.join(" "));
            return Err(ResultsError::Foreign { folder: self.records.results.folder().into(), found }.into());
        }
        let metric = self.criteria.condense(&baseline_results(&earlier));
        let is_meant = |hash: &str, space: &dyn crate::space::SearchSpace| {
            let pipeline = space.baseline();
            hash == pipeline.hash() || (self.settings.over_original && hash == pipeline.of_original().hash())
        };
        let mut further = earlier.instances.iter().skip(1).zip(&self.proposals.further);
        let same = is_meant(&earlier.config_hash, self.proposals.space())
            && further.all(|(instance, space)| is_meant(&instance.config.hash(), &**space));
        Ok(Some(Baseline { metric, ..earlier })
            .filter(|it| same && metric.is_some() && !self.settings.rerun_baseline && has_evidence(&it.result)))
    }

    fn replay_baseline(&mut self) -> Result<Baseline, SessionError> {
        let spaces = std::iter::once(self.proposals.space()).chain(self.proposals.further.iter().map(|space| &**space));
        let mut configurations: Vec<_> = spaces.map(crate::space::SearchSpace::baseline).collect();
        let mut results = self.replay_all(configurations.clone())?;
        if self.settings.over_original {
            let original: Vec<_> = configurations.iter().map(Configuration::of_original).collect();
            let of_original = self.replay_all(original.clone())?;
            if let Some(test) = self.test.as_mut().filter(|_| self.criteria.condense(&results).is_some()) {
                test.note_noise(results[0].measured());
            }
            match self.criteria.condense(&of_original) {
                Some(_) => {
                    self.compare((&original, &of_original), (&configurations, &results))?;
                    (configurations, results) = (original, of_original);
                }
                None => {
                    let reason = failure::in_short(&spokesman(&of_original));
                    self.remark(&format!(
                        "speedups compare with the first pipeline, because the application's own code cannot be the baseline ({reason})"
                    ));
                }
            }
        }
        let baseline = Baseline {
            config_hash: configurations[0].hash(),
            metric: self.criteria.condense(&results),
            result: spokesman(&results),
            instances: self.criteria.by_instance(&configurations, &results),
            config: configurations.into_iter().next().expect("there is an instance"),
            kernel: self.kernel.clone(),
            record_ids: self.criteria.record_ids(),
        };
        self.records.results.write(BASELINE, &baseline)?;
        Ok(baseline)
    }

    fn replay_all(&mut self, configurations: Vec<Configuration>) -> Result<Vec<ReplayResult>, SessionError> {
        match self.evaluator.run(configurations, self.criteria.runs.clone()) {
            Ok(mut results) => {
                self.name_shared(&mut results);
                Ok(results)
            }
            Err(error @ ServerError::Died { .. }) => Ok(vec![ReplayResult {
                failed: true,
                error: error.to_string(),
                status: ReplayStatus::InternalError,
                ..ReplayResult::default()
            }]),
            Err(error) => Err(error.into()),
        }
    }

    /// Remarks if the first pipeline's speed differs from that of the application's own code.
    fn compare(
        &mut self,
        (original, of_original): (&[Configuration], &[ReplayResult]),
        (pipeline, of_pipeline): (&[Configuration], &[ReplayResult]),
    ) -> Result<(), SessionError> {
        let result = spokesman(of_pipeline);
        let sentence = match self.criteria.times(of_original).zip(self.criteria.times(of_pipeline)) {
            Some((application, times)) => {
                let mut ratios = ratios(&application, &times);
                let is_long = application.iter().any(|time| *time >= LONG);
                if difference(&ratios).is_some_and(|seen| !is_about(1.0, seen.estimate)) && !is_long {
                    ratios.clear();
                    for pair in 0..VISITS {
                        let visits = if pair % 2 == 0 {
                            (self.visit(original)?, self.visit(pipeline)?)
                        } else {
                            let second = self.visit(pipeline)?;
                            (self.visit(original)?, second)
                        };
                        ratios.extend(visits.0.zip(visits.1).map(|(application, time)| (application / time).ln()));
                    }
                    if ratios.len() < VISITS {
                        ratios.clear();
                    }
                }
                difference(&ratios).and_then(told)
            }
            None if result.status == ReplayStatus::InternalError => {
                Some(format!("could not be tried: {}", failure::in_full(&result)))
            }
            None => Some("does not verify, although the application's own code does".into()),
        };
        if let Some(sentence) = sentence {
            self.remark(&format!("{} of the recorded IR {sentence}", self.proposals.space().baseline().passes));
        }
        Ok(())
    }

    /// The metric of one more visit.
    fn visit(&mut self, configurations: &[Configuration]) -> Result<Option<f64>, SessionError> {
        let runs = Runs { fresh: true, proven: true, ..self.criteria.runs.clone() }.of_time();
        let results = self.evaluator.run(configurations.to_vec(), runs)?;
        Ok(self.criteria.condense(&results))
    }

    fn remark(&mut self, sentence: &str) {
        self.records.log(sentence);
        self.progress.remark(sentence);
    }
}

/// Logarithms of the speedups over the application's code, run by run.
fn ratios(application: &[u64], times: &[u64]) -> Vec<f64> {
    application.iter().zip(times).map(|(application, time)| (*application as f64 / *time as f64).ln()).collect()
}

/// The speedup of a pipeline over the application's code, from the logarithms of several.
fn difference(ratios: &[f64]) -> Option<Interval> {
    statistics::mean(ratios, CONFIDENCE).map(Interval::exp)
}

fn is_about(one: f64, other: f64) -> bool {
    (one - other).abs() <= NEAR
}

/// A remark on a pipeline with this speedup; `None` if it is close to 1. Tells the user that making up for a slower
/// pipeline is not a gain of tuning.
fn told(speedup: Interval) -> Option<String> {
    if is_about(1.0, speedup.estimate) {
        return None;
    }
    let Interval { estimate, low, high } = speedup;
    let bounds = format!("{} % interval {}x to {}x", CONFIDENCE * 100.0, ratio(low), ratio(high));
    let is = if (low..=high).contains(&1.0) {
        "is not measurably faster or slower than".to_owned()
    } else {
        format!("runs {}x as fast as", ratio(estimate))
    };
    Some(format!("{is} the application's own code ({bounds}); speedups below compare with the application's own code"))
}

/// The baseline's launch and, unless it is the application's own code, the compiler settings other than the defaults.
fn described(config: &Configuration) -> String {
    let Configuration { grid, block, shared_mem, .. } = config;
    let memory = if *shared_mem > 0 { format!(", {shared_mem} bytes of shared memory") } else { String::new() };
    let code = match config.original {
        true => "the application's own code".to_owned(),
        false => {
            // Without settings that do not apply.
            let config = config.grounded();
            let values = serde_json::to_value(&config).expect("plain data serialises");
            let changed =
                config.differences(&Configuration::default().grounded()).filter(|field| field.effect.changes_code());
            let set = |name: &str| format!("{name} {}", plain(&values[name]));
            let others = changed.map(|field| field.name).filter(|name| *name != "passes").map(set);
            std::iter::once(config.passes.clone()).chain(others).collect::<Vec<_>>().join(", ")
        }
    };
    format!("Baseline configuration: grid {grid}, block {block}{memory}; {code}")
}

/// Measured runs, then the others.
fn samples(result: &ReplayResult) -> String {
    let times = |times: &[u64]| times.iter().map(|time| units::time(*time as f64)).collect::<Vec<_>>().join(", ");
    let (warmup, measured) = result.exec_time.split_at(result.exec_time.len() - result.measured().len());
    let warmup = if warmup.is_empty() { String::new() } else { format!("; warm-up = {}", times(warmup)) };
    format!("samples = {}{warmup}", times(measured))
}

/// What timed the kernels of a result, and why events did if the device's own clock was to.
fn timer(result: &ReplayResult) -> String {
    let Environment { timer, timer_reason, .. } = &result.environment;
    match (timer.as_str(), timer_reason.as_str()) {
        ("", _) => String::new(),
        (timer, "") => format!(", timed by {timer}"),
        (timer, reason) => format!(", timed by {timer}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_that_is_not_the_applications_code_is_told() {
        let said = |times: &[u64]| difference(&ratios(&[200, 200, 200], times)).and_then(told).unwrap_or_default();
        assert_eq!((said(&[204, 205, 206]), said(&[195, 195, 196])), (String::new(), String::new()));
        assert!(said(&[240, 241, 239]).starts_with("runs 0.833x as fast"), "{}", said(&[240, 241, 239]));
        assert!(said(&[150, 150, 151]).starts_with("runs 1.33x as fast"), "{}", said(&[150, 150, 151]));
        assert!(said(&[150, 240, 300]).starts_with("is not measurably"), "{}", said(&[150, 240, 300]));
    }
}
