//! Files about a fault of code generation or of the assembler.
//!
//! They hold the IR that the pipeline produces, the right and the wrong PTX made from it, and a smaller IR that still
//! shows the fault.

use std::rc::Rc;

use mneme_builds::Probe;
use mneme_builds::Replacement;
use mneme_builds::progress::Stage;
use mneme_model::configuration::Configuration;

use super::super::criterion::Criterion;
use super::super::experiments::{Experiment, ExperimentOutcome, ExperimentRunner, RunExperiments};
use super::super::finding::{BisectFinding, Files, Verdict};
use super::super::reduction::Reduction;
use super::super::stages::{with_least_assembly, with_least_codegen};
use super::super::{assembler_level, text};
use super::pass::again;
use super::{REDUCED, save};
use crate::cli::{Bisect, FailureKind};
use crate::error::Fatal;

/// The IR that the faulty stage receives.
pub const GIVEN: &str = "given.ll";
/// The right and the wrong PTX made from it. If the assembler is to blame, the PTX that it receives.
pub const GOOD: &str = "good.ptx";
pub const BAD: &str = "bad.ptx";
pub const PTX: &str = "kernel.ptx";
const DIFF: &str = "code.diff";
/// The files that [`write`] may leave.
pub const FILES: [&str; 5] = [GIVEN, GOOD, BAD, PTX, DIFF];

/// How to run the faulty stage on [`GIVEN`].
pub struct LaterStage {
    /// Levels of code generation and of the assembler that give right code, and levels that give wrong code.
    pub good: Levels,
    pub bad: Levels,
    /// The PTX made at the bad levels, or else at the good ones. Only on a GPU.
    pub ptx: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Levels {
    pub codegen: u8,
    pub assembler: u8,
}

impl Levels {
    fn of(experiment: &Experiment) -> Self {
        Self { codegen: experiment.configuration.codegen_opt, assembler: assembler_level(&experiment.configuration) }
    }
}

/// Writes the files. `given` is the build whose pipeline makes the IR. Returns `None` if it cannot get the IR.
pub fn write(
    runner: &mut ExperimentRunner<'_>,
    options: &Bisect,
    failing: &Configuration,
    criterion: &Criterion,
    finding: &BisectFinding,
    given: &Experiment,
    files: &mut Files,
) -> Result<Option<LaterStage>, Fatal> {
    runner.say("writing what code generation was given");
    let is_assembler = finding.verdict == Verdict::Assembler;
    let mut whole = given.clone();
    (whole.keep_ir, whole.probe.until) = (true, Some(Stage::Pipeline));
    let Some(ir) = runner.observe_one(whole)?.built().and_then(|built| built.texts.ir.clone()) else { return Ok(None) };
    save(&files.folder, GIVEN, &ir)?;

    let configuration = Configuration { passes: String::new(), ..again(runner, failing)? };
    let bad = Experiment {
        replacement: Some(Rc::new(Replacement::Ir(ir.as_bytes().to_vec()))),
        ..Experiment::of(&configuration)
    };
    let limited =
        |limit| Experiment { probe: Probe { codegen_passes: Some(limit), ..Probe::default() }, ..bad.clone() };
    // `good` differs from `bad` as little as is known. `without` omits every pass that may be to blame, because their
    // numbers change with the IR.
    let (good, without) = match (&finding.level, &finding.codegen_pass) {
        (Some(level), _) => {
            let mut good = bad.clone();
            match is_assembler {
                true => good.configuration.ptx_opt = Some(level.good),
                false => good.configuration.codegen_opt = level.good,
            }
            (good.clone(), good)
        }
        (None, Some(culprit)) => (limited(culprit.from.saturating_sub(1)), limited(0)),
        // A stage that crashes may do so at every level, so the stages before it are the reference.
        (None, None) if criterion.failing == FailureKind::Crash => {
            let mut before = bad.clone();
            before.probe.until = Some(if is_assembler { Stage::CodeGeneration } else { Stage::Pipeline });
            (before.clone(), before)
        }
        (None, None) if is_assembler => (with_least_assembly(&bad), with_least_assembly(&bad)),
        (None, None) => (with_least_codegen(&bad), with_least_codegen(&bad)),
    };
    let shown = match &finding.codegen_pass {
        Some(culprit) if criterion.failing != FailureKind::Crash => limited(culprit.pass.number),
        _ => bad.clone(),
    };
    let mut later = LaterStage { good: Levels::of(&good), bad: Levels::of(&bad), ptx: None };
    let ptx = |seen: &ExperimentOutcome| seen.built().and_then(|built| built.texts.ptx.clone());
    let seen = runner.observe(vec![good, shown])?;
    let (right, wrong) = (seen.first().and_then(ptx), seen.last().and_then(ptx));
    let named = if is_assembler {
        [(PTX, wrong.as_ref().or(right.as_ref())), (PTX, None)]
    } else {
        [(GOOD, right.as_ref()), (BAD, wrong.as_ref())]
    };
    for (name, text) in named {
        text.map_or(Ok(()), |text| save(&files.folder, name, text))?;
    }
    if let (Some(right), Some(wrong), Some(_)) = (&right, &wrong, &finding.codegen_pass) {
        let (diff, removed, added) = text::difference(right, wrong, (GOOD, BAD));
        files.diff_file = DIFF;
        save(&files.folder, files.diff_file, &diff)?;
        (files.function, files.removed, files.added, files.diff) = ("the PTX".into(), removed, added, diff);
    }
    later.ptx = wrong.or(right);
    if !options.reduce.is_zero() {
        let stage = if is_assembler { Stage::Assembly } else { Stage::CodeGeneration };
        let reduction =
            Reduction { failing: criterion.failing, stage, threshold: options.threshold(), without, with: bad, runner };
        if let Some(reduced) = reduction.run(&ir, options.reduce)? {
            save(&files.folder, REDUCED, &reduced.before)?;
            files.instructions = Some(reduced.instructions);
        }
    }
    Ok(Some(later))
}
