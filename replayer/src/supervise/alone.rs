//! Runs in processes of their own, for code that uses the device's heap.
//!
//! The heap lasts as long as a process's context, so a run may find results of earlier runs there: its own, or those of
//! other code that was tried before. Such code therefore runs in new processes alone. The usual runs take one. After
//! them, one process each runs it once on the recorded input, in a freshly loaded module, and then on a fresh input; and
//! one process for each fresh input runs it on nothing else.

use mneme_model::result::{Evidence, ReplayStatus};

use super::identity::Identity;
use crate::execute::message::{FirstRun, RunOutcome, RunSpec};

/// Runs on the recorded input.
const RUNS: usize = 5;

/// The runs of a configuration after the usual ones.
pub struct AloneRuns {
    /// The usual runs, their identity and their outcome, which further runs change.
    pub usual: RunSpec,
    pub identity: Identity,
    pub outcome: RunOutcome,
    /// Runs that have not begun, last one first.
    waiting: Vec<RunSpec>,
}

impl AloneRuns {
    /// The runs that follow the usual ones, which passed.
    pub fn after(usual: &RunSpec, identity: Identity, outcome: RunOutcome) -> Self {
        let seeds: Vec<u64> = usual.fresh_inputs.iter().copied().filter(|seed| outcome.agreed.contains(seed)).collect();
        let run = |first: FirstRun, seed: Option<u64>| RunSpec {
            iterations: 1,
            warmup: 0,
            stopping: None,
            energy: false,
            counters: Vec::new(),
            memory: None,
            needs_fresh_input: false,
            fresh_inputs: seed.into_iter().collect(),
            alone: Some(first),
            ..usual.clone()
        };
        let recorded = (0..RUNS).map(|at| run(FirstRun::Recorded, seeds.get(at % seeds.len().max(1)).copied()));
        let waiting = seeds.iter().map(|seed| run(FirstRun::Fresh, Some(*seed))).chain(recorded).collect();
        Self { usual: usual.clone(), identity, outcome, waiting }
    }

    pub fn next_run(&mut self) -> Option<RunSpec> {
        self.waiting.pop()
    }

    /// Adds the outcome of a run. The first one that does not pass ends them.
    pub fn note(&mut self, done: RunOutcome) {
        let evidence = self.outcome.evidence.get_or_insert_with(Evidence::default);
        if done.status == ReplayStatus::Verified {
            evidence.own_processes += 1;
            return;
        }
        self.waiting.clear();
        evidence.doubts.extend(done.doubts);
        self.outcome.status = done.status;
        self.outcome.error = format!("in a process of its own, {}", done.error);
        self.outcome.mismatches = done.mismatches;
        self.outcome.differing_buffers = done.differing_buffers;
    }
}
