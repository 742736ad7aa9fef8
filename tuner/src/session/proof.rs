//! Replays finalists on fresh inputs.
//!
//! The replayer makes an input from a seed by changing recorded memory, and the application's own code computes the
//! right result for it. The session draws the seeds after the search, so they cannot have influenced the choice of
//! candidates.

use std::collections::BTreeSet;

use mneme_model::configuration::Configuration;
use mneme_model::fresh::{InputTrial, SeedChoice};
use mneme_model::result::{FreshInputs, ReplayResult};

use super::confirm::of_instances;
use super::{Session, SessionError};
use crate::evaluator::Evaluator;
use crate::results::Trial;
use crate::sequential::EXPENSIVE;
use crate::server::{Runs, ServerError};

/// Inputs that a finalist must pass.
const INPUTS: u32 = 3;
/// The time limit for the baseline's runs on an input: so many seconds, and so many runs as the longest one, with a
/// nanosecond for each byte of memory.
const LEAST_LIMIT: f64 = 5.0;
const RUNS_ON_INPUT: f64 = 12.0;

/// The fresh inputs of a session, and the trials that passed them.
#[derive(Debug, Default)]
pub struct Proof {
    seeds: Option<Vec<u64>>,
    pub proven: BTreeSet<u64>,
}

impl Session {
    /// Whether all these finalists pass the fresh inputs. Refutes those that do not.
    pub(super) fn are_proven(&mut self, proof: &mut Proof, finalists: &[Trial]) -> Result<bool, SessionError> {
        let waiting: Vec<&Trial> = finalists.iter().filter(|trial| !proof.proven.contains(&trial.trial)).collect();
        if waiting.is_empty() {
            return Ok(true);
        }
        let Some(baseline) = self.standings.baseline.clone().filter(|_| !self.evaluator.is_simulated()) else {
            return Ok(true);
        };
        let seeds = match &proof.seeds {
            Some(seeds) => seeds.clone(),
            None => {
                let mut configurations = of_instances(&baseline.config, &baseline.instances);
                let limit = input_limit(&baseline.result);
                configurations.iter_mut().for_each(|it| it.timeout_s = it.timeout_s.or(limit));
                proof.seeds.insert(self.fresh_inputs(&configurations, &baseline.result)?).clone()
            }
        };
        let mut all = true;
        for trial in waiting {
            let configurations = of_instances(&trial.config, &trial.instances);
            let runs =
                Runs { iterations: 1, fresh: true, fresh_inputs: seeds.clone(), thorough: true, ..Runs::default() };
            let results = self.evaluator.run(configurations.clone(), runs)?;
            let is_proven = |result: &ReplayResult| is_proven(result, !seeds.is_empty());
            if results.len() == configurations.len() && results.iter().all(is_proven) {
                proof.proven.insert(trial.trial);
            } else {
                self.refute_again(trial.trial, &configurations, &results, "in many runs on fresh inputs");
                all = false;
            }
        }
        Ok(all)
    }

    /// Seeds of useful inputs, which the summary notes. `result` is the baseline's.
    fn fresh_inputs(&mut self, baseline: &[Configuration], result: &ReplayResult) -> Result<Vec<u64>, SessionError> {
        let UsefulInputs { seeds, summary } = useful_inputs(&mut self.evaluator, baseline, result)?;
        self.records.log(&format!("fresh inputs: {} of {} are useful: {seeds:?}", summary.agreed, summary.tried));
        self.standings.summary.fresh_inputs = summary;
        Ok(seeds)
    }
}

/// Fresh inputs on which the baseline does something useful.
#[derive(Debug, Default)]
pub struct UsefulInputs {
    pub seeds: Vec<u64>,
    /// Also counts the discarded ones.
    pub summary: FreshInputs,
}

/// Draws inputs that are useful in all instances, judged by the baseline. None if the baseline cannot run on fresh
/// inputs. `result` is its result on the recorded input.
pub fn useful_inputs(
    evaluator: &mut Evaluator,
    baseline: &[Configuration],
    result: &ReplayResult,
) -> Result<UsefulInputs, ServerError> {
    let Ok(random) = mneme_system::random::number() else { return Ok(UsefulInputs::default()) };
    let known = result.evidence.as_ref().map(|evidence| &evidence.fresh_inputs);
    let known = known.filter(|inputs| inputs.agreed > 0).map_or(&[][..], |inputs| &inputs.seeds);
    let is_expensive = result.exec_time.iter().min().is_some_and(|time| *time as f64 >= EXPENSIVE);
    let mut choice = SeedChoice::new(SeedChoice::start(random), INPUTS).like(known).thrifty(is_expensive);
    let mut summary = FreshInputs::default();
    // A run on the recorded input tells how long one on a fresh input may take.
    let iterations = u32::from(!is_expensive);
    while let Some(seed) = choice.next_seed() {
        let runs = Runs { iterations, fresh: true, fresh_inputs: vec![seed], ..Runs::default() };
        let results = evaluator.run(baseline.to_vec(), runs)?;
        let tried = |result: &ReplayResult| result.evidence.as_ref().is_none_or(|it| it.fresh_inputs.tried > 0);
        if results.len() < baseline.len() || !results.iter().all(tried) {
            break;
        }
        summary.tried += 1;
        summary.seeds.push(seed);
        choice.note(seed, InputTrial::of(&results));
    }
    let SeedChoice { useful: seeds, discarded, .. } = choice;
    (summary.agreed, summary.discarded) = (seeds.len() as u32, discarded.len() as u32);
    Ok(UsefulInputs { seeds, summary })
}

/// The time limit for a fresh input, s: on some, a kernel never ends. `None` if the kernel's time is unknown.
pub fn input_limit(baseline: &ReplayResult) -> Option<f64> {
    let longest = baseline.exec_time.iter().max()?;
    let bytes = baseline.evidence.as_ref().map_or(0, |evidence| evidence.compared);
    Some(LEAST_LIMIT + RUNS_ON_INPUT * (*longest + bytes) as f64 * 1e-9)
}

/// Whether a finalist passed without doubts, and on an input if there are any.
pub fn is_proven(result: &ReplayResult, has_inputs: bool) -> bool {
    let Some(evidence) = &result.evidence else { return result.status.is_as_recorded() && !has_inputs };
    // Code for the recorded arguments alone runs on no other ones.
    let agrees = !has_inputs || evidence.fresh_inputs.agreed > 0 || evidence.fresh_inputs.tried == 0;
    result.status.is_as_recorded() && evidence.doubts.is_empty() && agrees
}
