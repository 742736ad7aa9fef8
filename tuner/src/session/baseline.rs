//! What candidates are compared with.

use mneme_core::configuration::Configuration;
use mneme_core::result::{ReplayResult, Status};

use super::{Session, SessionError, baseline_results, spokesman};
use crate::failure;
use crate::options::BaselineCode;
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
        self.live.above(|| self.lines.say(&format!("Baseline configuration:\n{text}")));
        self.summary.baseline_metric = baseline.metric;
        let Some(metric) = baseline.metric else { return Err(SessionError::Baseline(failure::in_full(&baseline.result))) };
        self.baseline = metric;
        let results = baseline_results(&baseline);
        let configurations: Vec<_> = if baseline.instances.is_empty() {
            vec![&baseline.config]
        } else {
            baseline.instances.iter().map(|instance| &instance.config).collect()
        };
        // What has no value here has none anywhere: better said now than after the last candidate.
        self.costs(&configurations, &results, Some(metric))?;
        self.baseline_trial = Some(baseline.clone());
        let samples: Vec<String> = baseline_results(&baseline).iter().map(samples).collect();
        let line = format!("Baseline {} exec_time = {metric} ({})", self.metric.name(), samples.join("; "));
        self.live.baseline(metric);
        self.live.above(|| self.lines.say(&line));
        Ok(())
    }

    /// The baseline of the session that is resumed, with the metric of this one.
    fn earlier_baseline(&self) -> Result<Option<Baseline>, SessionError> {
        let earlier = if self.plan.options.resume { self.results.read::<Baseline>(FILE)? } else { None };
        let Some(earlier) = earlier else { return Ok(None) };
        if earlier.kernel != self.plan.kernel || earlier.record_ids != self.record_ids() {
            let found = format!("{}, {}", earlier.kernel, earlier.record_ids.join(" "));
            return Err(ResultsError::Foreign { folder: self.results.folder().into(), found }.into());
        }
        let metric = self.condense(&baseline_results(&earlier));
        let is_meant = |hash: &str, space: &dyn crate::space::Space| {
            let pipeline = space.baseline();
            hash == pipeline.hash() || (self.wants_original() && hash == pipeline.of_original().hash())
        };
        let mut further = earlier.instances.iter().skip(1).zip(&self.plan.further);
        let same = is_meant(&earlier.config_hash, self.plan.search.space())
            && further.all(|(instance, space)| is_meant(&instance.config.hash(), &**space));
        Ok(Some(Baseline { metric, ..earlier }).filter(|_| same && metric.is_some() && !self.plan.options.rerun_baseline))
    }

    fn replay_baseline(&mut self) -> Result<Baseline, SessionError> {
        let spaces = std::iter::once(self.plan.search.space()).chain(self.plan.further.iter().map(|space| &**space));
        let mut configurations: Vec<_> = spaces.map(crate::space::Space::baseline).collect();
        let mut results = self.replay_all(configurations.clone())?;
        if self.wants_original() {
            let original: Vec<_> = configurations.iter().map(Configuration::of_original).collect();
            let of_original = self.replay_all(original.clone())?;
            match self.condense(&of_original) {
                Some(metric) => {
                    self.compare(metric, self.condense(&results));
                    (configurations, results) = (original, of_original);
                }
                None => {
                    let reason = failure::in_short(&spokesman(&of_original));
                    self.remark(&format!("speedups are over the first pipeline: the application's own code is no baseline ({reason})"));
                }
            }
        }
        let baseline = Baseline {
            config_hash: configurations[0].hash(),
            metric: self.condense(&results),
            result: spokesman(&results),
            instances: self.by_instance(&configurations, &results),
            config: configurations.into_iter().next().expect("there is an instance"),
            kernel: self.plan.kernel.clone(),
            record_ids: self.record_ids(),
        };
        self.results.write(FILE, &baseline)?;
        Ok(baseline)
    }

    /// Whether speedups are to be over the application's own code.
    fn wants_original(&self) -> bool {
        self.plan.options.baseline == Some(BaselineCode::Original)
    }

    fn replay_all(&mut self, configurations: Vec<Configuration>) -> Result<Vec<ReplayResult>, SessionError> {
        match self.evaluator.run(configurations, self.runs) {
            Ok(results) => Ok(results),
            Err(error @ ServerError::Died { .. }) => {
                Ok(vec![ReplayResult { failed: true, error: error.to_string(), status: Status::InternalError, ..ReplayResult::default() }])
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says where the first pipeline does not come to what the application runs: whatever it lacks is no gain of tuning.
    fn compare(&mut self, original: f64, pipeline: Option<f64>) {
        let passes = self.plan.search.space().baseline().passes;
        let sentence = match pipeline {
            None => format!("{passes} of the recorded IR does not verify, where the application's own code does"),
            Some(pipeline) if (pipeline / original - 1.0).abs() <= NEAR => return,
            Some(pipeline) => {
                let percent = (pipeline / original - 1.0) * 100.0;
                let word = if percent > 0.0 { "slower" } else { "faster" };
                format!(
                    "{passes} of the recorded IR is {:.1} % {word} than the application's own code, which speedups are over",
                    percent.abs()
                )
            }
        };
        self.remark(&sentence);
    }

    fn remark(&mut self, sentence: &str) {
        self.results.log(sentence);
        self.live.above(|| crate::remark!("mneme-tune: {sentence}"));
    }
}

/// Measured runs, then the others.
fn samples(result: &ReplayResult) -> String {
    let (warmup, measured) = result.exec_time.split_at(result.exec_time.len() - result.measured().len());
    let warmup = if warmup.is_empty() { String::new() } else { format!(", warm-up = {warmup:?}") };
    format!("samples = {measured:?}{warmup}")
}
