//! The baseline, which candidates are compared with.

use mneme_core::configuration::Configuration;
use mneme_core::result::{ReplayResult, ReplayStatus};

use super::criteria::{baseline_results, spokesman};
use super::resume::has_evidence;
use super::{Session, SessionError};
use crate::failure;
use crate::results::{Baseline, ResultsError};
use crate::server::ServerError;

const FILE: &str = "baseline.json";
/// By how much of the application's time the first pipeline may be off without being told.
const NEAR: f64 = 0.03;

impl Session {
    /// Replays the baseline; one of the session that is resumed stands, unless it is to be measured again.
    pub(super) fn measure_baseline(&mut self) -> Result<(), SessionError> {
        let baseline = match self.earlier_baseline()? {
            Some(earlier) => earlier,
            None => self.replay_baseline()?,
        };
        let text = serde_json::to_string_pretty(&baseline.config).expect("plain data serialises");
        self.progress.say(&format!("Baseline configuration:\n{text}"));
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
        // What has no value here has none anywhere: better said now than after the last candidate.
        self.criteria.costs(&configurations, &results, Some(metric))?;
        if let Some(test) = &mut self.test {
            test.note_noise(results[0].measured());
        }
        let samples: Vec<String> = results.iter().map(samples).collect();
        self.standings.baseline = Some(baseline);
        self.begin_references();
        let line = format!("Baseline {} exec_time = {metric} ({})", self.criteria.metric.name(), samples.join("; "));
        self.progress.baseline(metric);
        self.progress.say(&line);
        Ok(())
    }

    /// The baseline of the session that is resumed, with the metric of this one.
    fn earlier_baseline(&self) -> Result<Option<Baseline>, SessionError> {
        let earlier = if self.settings.resume { self.records.results.read::<Baseline>(FILE)? } else { None };
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
            match self.criteria.condense(&of_original) {
                Some(metric) => {
                    self.compare(metric, &results);
                    (configurations, results) = (original, of_original);
                }
                None => {
                    let reason = failure::in_short(&spokesman(&of_original));
                    self.remark(&format!(
                        "speedups are over the first pipeline: the application's own code is no baseline ({reason})"
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
        self.records.results.write(FILE, &baseline)?;
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

    /// Says where the first pipeline does not come to what the application runs.
    fn compare(&mut self, original: f64, results: &[ReplayResult]) {
        let pipeline = self.criteria.condense(results).ok_or_else(|| {
            let result = spokesman(results);
            match result.status {
                ReplayStatus::InternalError => format!("could not be tried: {}", failure::in_full(&result)),
                _ => "does not verify, where the application's own code does".into(),
            }
        });
        if let Some(sentence) = difference(&self.proposals.space().baseline().passes, original, pipeline) {
            self.remark(&sentence);
        }
    }

    fn remark(&mut self, sentence: &str) {
        self.records.log(sentence);
        self.progress.remark(sentence);
    }
}

/// How far code of a pipeline is from the application's, by their times, or why it has none; `None` where it is not
/// far. Whatever it lacks is no gain of tuning.
fn difference(passes: &str, original: f64, pipeline: Result<f64, String>) -> Option<String> {
    let pipeline = match pipeline {
        Ok(time) => time,
        Err(reason) => return Some(format!("{passes} of the recorded IR {reason}")),
    };
    let percent = (pipeline / original - 1.0) * 100.0;
    let word = if percent > 0.0 { "slower" } else { "faster" };
    let sentence = || {
        format!(
            "{passes} of the recorded IR is {:.1} % {word} than the application's own code, which speedups are over",
            percent.abs()
        )
    };
    (percent.abs() > NEAR * 100.0).then(sentence)
}

/// Measured runs, then the others.
fn samples(result: &ReplayResult) -> String {
    let (warmup, measured) = result.exec_time.split_at(result.exec_time.len() - result.measured().len());
    let warmup = if warmup.is_empty() { String::new() } else { format!(", warm-up = {warmup:?}") };
    format!("samples = {measured:?}{warmup}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_that_is_not_the_applications_code_is_told() {
        let told = |pipeline| difference("default<O3>", 200.0, pipeline).unwrap_or_default();
        assert_eq!((told(Ok(205.0)), told(Ok(195.0))), (String::new(), String::new()));
        assert!(
            told(Ok(207.0))
                .starts_with("default<O3> of the recorded IR is 3.5 % slower than the application's own code")
        );
        assert!(told(Ok(150.0)).starts_with("default<O3> of the recorded IR is 25.0 % faster than"));
        assert_eq!(told(Err("does not verify".into())), "default<O3> of the recorded IR does not verify");
    }
}
