//! Making the reproducer smaller: parts are taken out of the IR before the pass for as long as the pass still makes a difference.
//!
//! What is left computes something else than the recorded kernel did, so that the recording is no measure any more. The measure is the
//! IR itself: it is replayed without the pass and with it, and what the two leave in memory has to differ. Without the pass it has to
//! run to its end and leave the same every time.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_compiler::pipeline::revise::{Inventory, Part, Revision};
use mneme_compiler::progress::Stage;
use mneme_core::configuration::Configuration;

use super::lab::{Experiment, Lab, Observation};
use crate::arguments::Failing;
use crate::builder::Probe;
use crate::replacement::Replacement;
use crate::supervisor::Fatal;

/// A smaller kernel may run for ever: it is given this long.
const LIMIT_S: f64 = 1.0;

/// IR before a pass, and after it where the pass does not crash.
pub struct Reduced {
    pub before: String,
    pub after: Option<String>,
    /// Instructions at first and at last.
    pub instructions: (u64, u64),
}

/// What is made smaller, and how it is tried.
pub struct Reduction<'l, 's> {
    pub lab: &'l mut Lab<'s>,
    /// Builds IR from the middle of a pipeline.
    pub configuration: Configuration,
    pub failing: Failing,
    /// The pass as `opt -passes` takes it.
    pub pass: String,
}

/// A module that is still of interest.
struct Step {
    before: String,
    after: Option<String>,
    inventory: Inventory,
}

impl Reduction<'_, '_> {
    /// Reduces `ir` for as long as `budget`. `None` where not even all of it fails by itself.
    pub fn run(mut self, ir: &str, budget: Duration) -> Result<Option<Reduced>, Fatal> {
        let deadline = Instant::now() + budget;
        let nothing = Revision::Remove { part: Part::Functions, from: 0, to: 0 };
        let bare = Revision::Remove { part: Part::Everything, from: 0, to: 0 };
        let Some(whole) = self.attempt(ir, vec![nothing])?.pop().flatten() else { return Ok(None) };
        let first = whole.inventory.instructions;
        let mut now = self.attempt(ir, vec![bare])?.pop().flatten().unwrap_or(whole);
        loop {
            let size = now.inventory.instructions;
            for (kind, part) in Part::ALL.into_iter().enumerate() {
                now = self.remove(now, kind, part, deadline)?;
            }
            if now.inventory.instructions == size || Instant::now() > deadline {
                break;
            }
        }
        Ok(Some(Reduced { before: now.before, after: now.after, instructions: (first, now.inventory.instructions) }))
    }

    /// Takes out parts of one kind: half of them, then quarters, and so on down to single ones.
    fn remove(&mut self, mut now: Step, kind: usize, part: Part, deadline: Instant) -> Result<Step, Fatal> {
        let mut size = now.inventory.parts[kind];
        while size > 0 {
            // From behind: what uses a value stands after it.
            let mut end = now.inventory.parts[kind];
            while end > 0 && Instant::now() < deadline {
                let starts: Vec<u64> = (1..=self.lab.width() as u64).map(|at| end.saturating_sub(at * size)).collect();
                let mut revisions = Vec::new();
                let mut to = end;
                for from in starts {
                    if from < to {
                        revisions.push(Revision::Remove { part, from, to });
                    }
                    to = from;
                }
                self.lab.say(&format!("reducing: {} instructions left", now.inventory.instructions));
                let tried = revisions.len() as u64;
                let found = self.attempt(&now.before, revisions)?;
                let smaller = found
                    .into_iter()
                    .enumerate()
                    .find_map(|(at, step)| step.filter(|step| smaller(step, &now, kind)).map(|step| (at, step)));
                match smaller {
                    Some((at, step)) => {
                        end = end.saturating_sub((at as u64 + 1) * size).min(step.inventory.parts[kind]);
                        now = step;
                    }
                    None => end = end.saturating_sub(tried * size),
                }
            }
            size = if size == 1 { 0 } else { (size / 2).min(now.inventory.parts[kind].max(1)) };
        }
        Ok(now)
    }

    /// Which revisions of `ir` are still of interest.
    fn attempt(&mut self, ir: &str, revisions: Vec<Revision>) -> Result<Vec<Option<Step>>, Fatal> {
        let code = Rc::new(Replacement::Ir(ir.as_bytes().to_vec()));
        let crash = self.failing == Failing::Crash;
        let mut experiments = Vec::new();
        for revision in &revisions {
            let with = |passes: &str, runs| {
                let configuration = Configuration { passes: passes.to_owned(), timeout_s: Some(LIMIT_S), ..self.configuration.clone() };
                let probe = Probe { revisions: vec![*revision], before: true, ..Probe::default() };
                Experiment { probe, replacement: Some(code.clone()), runs, digest: true, keep_ir: true, ..Experiment::of(&configuration) }
            };
            experiments.extend([with("", if crash { 1 } else { 2 }), with(&self.pass, 1)]);
        }
        let seen = self.lab.observe(experiments)?;
        let step = |pair: &[Observation]| {
            let [without, with] = pair else { return None };
            let plain = without.built()?;
            let of_interest = match self.failing {
                Failing::Crash => with.not_built().is_some_and(|not_built| {
                    not_built.place.as_ref().is_some_and(|place| place.stage == Stage::Pipeline && place.pass.is_some())
                }),
                Failing::Regs => with.result.reg_usage > without.result.reg_usage,
                Failing::Slow => false,
                Failing::Wrong => {
                    without.has_run() && !without.varies() && (with.has_run() && with.digest != without.digest || with.has_failed())
                }
            };
            let after = with.built().and_then(|built| built.ir.clone());
            of_interest.then(|| Step {
                before: plain.ir_before.clone().unwrap_or_default(),
                after,
                inventory: plain.looked.inventory.clone(),
            })
        };
        Ok(seen.chunks(2).map(step).collect())
    }
}

/// Progress, or it would never end.
fn smaller(step: &Step, now: &Step, kind: usize) -> bool {
    let size = |step: &Step| (step.inventory.instructions, step.inventory.parts[kind]);
    size(step).0 < size(now).0 || (size(step).0 == size(now).0 && size(step).1 < size(now).1)
}
