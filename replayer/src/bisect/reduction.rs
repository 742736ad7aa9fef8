//! Reduction of the reproducer's IR.
//!
//! The reduction removes parts as long as the culprit (a pass, code generation, the assembler) still makes a
//! difference.
//!
//! Reduced IR no longer computes what the recorded kernel did, so the recording cannot judge it. Instead, the IR is
//! replayed with and without the culprit, and the resulting memory or the times have to differ. Without the culprit,
//! the kernel has to finish and leave the same memory every time.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_builds::probe::{Inventory, ModulePart, Revision};
use mneme_builds::progress::Stage;

use super::experiments::{Experiment, ExperimentOutcome, ExperimentRunner, RunExperiments};
use crate::cli::FailureKind;
use crate::error::Fatal;
use mneme_builds::Probe;
use mneme_builds::Replacement;

/// The time limit of a run: a reduced kernel may loop for ever.
const LIMIT_S: f64 = 1.0;
/// Timed runs, and warm-up runs before them.
const TIMED: u32 = 3;
const WARMUP: u32 = 1;

/// Reduced IR, and the same after the pipeline of [`Reduction::with`] unless that crashes.
pub struct Reduced {
    pub before: String,
    pub after: Option<String>,
    /// Instructions before and after.
    pub instructions: (u64, u64),
}

/// How to test reduced IR.
pub struct Reduction<'l, 's> {
    pub runner: &'l mut ExperimentRunner<'s>,
    pub failing: FailureKind,
    /// The stage at which a failing build has to fail.
    pub stage: Stage,
    /// The slowdown that counts as a failure, as a factor.
    pub threshold: f64,
    /// Build the IR without and with the culprit. The IR is not part of these experiments.
    pub without: Experiment,
    pub with: Experiment,
}

/// A module that still shows the difference.
struct Step {
    before: String,
    after: Option<String>,
    inventory: Inventory,
}

impl Reduction<'_, '_> {
    /// Reduces `ir` until `budget` is used up. Returns `None` if the unreduced IR does not show the difference.
    pub fn run(mut self, ir: &str, budget: Duration) -> Result<Option<Reduced>, Fatal> {
        let deadline = Instant::now() + budget;
        let nothing = Revision::Remove { part: ModulePart::Functions, from: 0, to: 0 };
        let bare = Revision::Remove { part: ModulePart::Everything, from: 0, to: 0 };
        let Some(whole) = self.attempt(ir, vec![nothing])?.pop().flatten() else { return Ok(None) };
        let first = whole.inventory.instructions;
        let mut now = self.attempt(ir, vec![bare])?.pop().flatten().unwrap_or(whole);
        loop {
            let size = now.inventory.instructions;
            for (kind, part) in ModulePart::ALL.into_iter().enumerate() {
                now = self.remove(now, kind, part, deadline)?;
            }
            if now.inventory.instructions == size || Instant::now() > deadline {
                break;
            }
        }
        Ok(Some(Reduced { before: now.before, after: now.after, instructions: (first, now.inventory.instructions) }))
    }

    /// Removes parts of one kind: first halves, then quarters, and so on down to single parts.
    fn remove(&mut self, mut now: Step, kind: usize, part: ModulePart, deadline: Instant) -> Result<Step, Fatal> {
        let mut size = now.inventory.parts[kind];
        while size > 0 {
            // Start at the end, because uses come after definitions.
            let mut end = now.inventory.parts[kind];
            while end > 0 && Instant::now() < deadline {
                let starts: Vec<u64> =
                    (1..=self.runner.width() as u64).map(|at| end.saturating_sub(at * size)).collect();
                let mut revisions = Vec::new();
                let mut to = end;
                for from in starts {
                    if from < to {
                        revisions.push(Revision::Remove { part, from, to });
                    }
                    to = from;
                }
                self.runner.say(&format!("reducing: {} instructions left", now.inventory.instructions));
                let tried = revisions.len() as u64;
                let found = self.attempt(&now.before, revisions)?;
                let smaller = found
                    .into_iter()
                    .enumerate()
                    .find_map(|(at, step)| step.filter(|step| smaller(step, &now, kind)).map(|step| (at, step)));
                match smaller {
                    Some((at, step)) if self.lasts(&step)? => {
                        end = end.saturating_sub((at as u64 + 1) * size).min(step.inventory.parts[kind]);
                        now = step;
                    }
                    _ => end = end.saturating_sub(tried * size),
                }
            }
            size = if size == 1 { 0 } else { (size / 2).min(now.inventory.parts[kind].max(1)) };
        }
        Ok(now)
    }

    /// Whether a step shows the difference again, because times vary.
    fn lasts(&mut self, step: &Step) -> Result<bool, Fatal> {
        let nothing = Revision::Remove { part: ModulePart::Functions, from: 0, to: 0 };
        Ok(self.failing != FailureKind::Slow || self.attempt(&step.before, vec![nothing])?.iter().all(Option::is_some))
    }

    /// Tries revisions of `ir`, and returns those that still show the difference.
    fn attempt(&mut self, ir: &str, revisions: Vec<Revision>) -> Result<Vec<Option<Step>>, Fatal> {
        let code = Rc::new(Replacement::Ir(ir.as_bytes().to_vec()));
        let timed = self.failing == FailureKind::Slow;
        let (runs, warmup) = if timed { (TIMED, WARMUP) } else { (1, 0) };
        let mut experiments = Vec::new();
        for revision in &revisions {
            let revised = |experiment: &Experiment, runs| {
                let mut experiment = experiment.clone();
                experiment.configuration.timeout_s = Some(LIMIT_S);
                experiment.probe = Probe { revisions: vec![*revision], before: true, ..experiment.probe };
                Experiment {
                    replacement: Some(code.clone()),
                    runs,
                    warmup,
                    digest: true,
                    keep_ir: true,
                    fresh: timed,
                    ..experiment
                }
            };
            let twice = if self.failing == FailureKind::Wrong { 2 } else { runs };
            experiments.extend([revised(&self.without, twice), revised(&self.with, runs)]);
        }
        let seen = self.runner.observe(experiments)?;
        let step = |pair: &[ExperimentOutcome]| {
            let [without, with] = pair else { return None };
            let plain = without.built()?;
            let time = |seen: &ExperimentOutcome| seen.result.measured().iter().min().map(|time| *time as f64);
            let of_interest = match self.failing {
                FailureKind::Crash => with.not_built().is_some_and(|not_built| {
                    let place = not_built.place.as_ref().filter(|place| place.stage == self.stage);
                    place.is_some_and(|place| place.stage != Stage::Pipeline || place.pass.is_some())
                }),
                FailureKind::Regs => with.result.reg_usage > without.result.reg_usage,
                FailureKind::Slow => {
                    let both = without.has_run() && with.has_run();
                    both && time(without).zip(time(with)).is_some_and(|(usual, slow)| slow > usual * self.threshold)
                }
                FailureKind::Wrong => {
                    without.has_run()
                        && !without.varies()
                        && (with.has_run() && with.digest != without.digest || with.has_failed())
                }
            };
            let after = with.built().and_then(|built| built.texts.ir.clone());
            of_interest.then(|| Step {
                before: plain.texts.ir_before.clone().unwrap_or_default(),
                after,
                inventory: plain.looked.inventory.clone(),
            })
        };
        Ok(seen.chunks(2).map(step).collect())
    }
}

/// Whether a step made progress. Without this check the reduction would not terminate.
fn smaller(step: &Step, now: &Step, kind: usize) -> bool {
    let size = |step: &Step| (step.inventory.instructions, step.inventory.parts[kind]);
    size(step).0 < size(now).0 || (size(step).0 == size(now).0 && size(step).1 < size(now).1)
}
