//! Crosses two versions of LLVM: each compiles the IR that the other's passes produce.

use std::rc::Rc;

use mneme_builds::progress::Stage;
use mneme_builds::{Probe, Replacement};
use mneme_model::configuration::Configuration;

use super::criterion::Criterion;
use super::experiments::{Experiment, ExperimentRunner, RunExperiments};
use super::files::again;
use super::finding::BisectFinding;
use super::search::Judgement;
use crate::cli::FailureKind;
use crate::error::Fatal;

/// Lets the failing version generate code from the `good` version's optimised IR. Then lets the good version generate
/// code from the failing version's IR, both up to the culprit and up to the pass before it. Adds the results to the
/// evidence. `failing` is the experiment of the failing version, and sets the number of runs.
pub fn cross(
    runner: &mut ExperimentRunner<'_>,
    criterion: &Criterion,
    good: u32,
    failing: &Experiment,
    finding: &mut BisectFinding,
) -> Result<(), Fatal> {
    runner.say("compiling with one version what the passes of the other have made");
    let (runs, warmup, failing) = (failing.runs, failing.warmup, &failing.configuration);
    let Some(bad) = failing.llvm else { return Ok(()) };
    let bare = Configuration { passes: String::new(), ..again(runner, failing)? };
    let mut of = |passes: Option<u64>, from: u32, by: u32| {
        let made = Configuration { llvm: Some(from), ..failing.clone() };
        let Some(ir) = optimised(runner, &made, passes)? else { return Ok::<_, Fatal>(None) };
        let mut experiment = Experiment::of(&Configuration { llvm: Some(by), ..bare.clone() });
        experiment.replacement = Some(Rc::new(Replacement::Ir(ir.into_bytes())));
        (experiment.runs, experiment.warmup) = (runs, warmup);
        Ok(Some(criterion.judge(&runner.observe_one(experiment)?)))
    };
    if let Some(judged) = of(None, good, bad)? {
        finding.evidence.push(format!(
            "code generation of LLVM {bad} {} what the passes of LLVM {good} make",
            description(criterion, judged)
        ));
    }
    let Some(number) = finding.pass.as_ref().map(|culprit| culprit.pass.number).filter(|number| *number > 0) else {
        return Ok(());
    };
    for (limit, which) in [(number - 1, "before"), (number, "up to")] {
        if let Some(judged) = of(Some(limit), bad, good)? {
            finding.evidence.push(format!(
                "code generation of LLVM {good} {} what the passes of LLVM {bad} {which} that one make",
                description(criterion, judged)
            ));
        }
    }
    Ok(())
}

fn description(criterion: &Criterion, judged: Judgement) -> &'static str {
    match (judged, criterion.failing) {
        (Judgement::Good, _) => "compiles",
        (Judgement::Bad, FailureKind::Wrong) => "gets wrong",
        (Judgement::Bad, FailureKind::Slow) => "makes slow code of",
        (Judgement::Bad, FailureKind::Regs) => "needs too many registers for",
        (Judgement::Bad, FailureKind::Crash) | (Judgement::Unclear, _) => "does not read, or cannot compile,",
    }
}

/// The IR after the first passes of a configuration's pipeline, or after all.
fn optimised(
    runner: &mut ExperimentRunner<'_>,
    configuration: &Configuration,
    passes: Option<u64>,
) -> Result<Option<String>, Fatal> {
    let mut experiment = Experiment::of(configuration);
    experiment.keep_ir = true;
    experiment.probe = Probe { passes, until: Some(Stage::Pipeline), ..Probe::default() };
    Ok(runner.observe_one(experiment)?.built().and_then(|built| built.texts.ir.clone()))
}
