//! Writes files about the pass with which the failure begins.
//!
//! The files are the module before and after the pass, one function that the pass changed (before, after, and the
//! difference), and, if the pass is to blame, a reduced module on which it still fails. [`write`] also finds the
//! pipeline that runs this pass alone, as `opt -passes` takes it.

use std::rc::Rc;

use mneme_builds::Probe;
use mneme_builds::Replacement;
use mneme_builds::progress::{Invocation, Stage};
use mneme_model::configuration::{Configuration, Effect, Specialize};

use super::super::criterion::Criterion;
use super::super::experiments::{Experiment, ExperimentOutcome, ExperimentRunner, RunExperiments};
use super::super::finding::{Culprit, Files};
use super::super::reduction::Reduction;
use super::super::text;
use super::{REDUCED, save};
use crate::cli::{Bisect, FailureKind};
use crate::error::Fatal;

const BEFORE: &str = "before.ll";
const AFTER: &str = "after.ll";
const FUNCTION_BEFORE: &str = "function-before.ll";
const FUNCTION_AFTER: &str = "function-after.ll";
const DIFF: &str = "pass.diff";
const REDUCED_AFTER: &str = "reduced-after.ll";
/// The files that [`write`] may leave.
pub const FILES: [&str; 6] = [BEFORE, AFTER, FUNCTION_BEFORE, FUNCTION_AFTER, DIFF, REDUCED_AFTER];

/// Writes the files about the pass. Reduces the reproducer only if the pass itself is to blame.
pub fn write(
    runner: &mut ExperimentRunner<'_>,
    options: &Bisect,
    failing: &Configuration,
    criterion: &Criterion,
    culprit: &Culprit,
    is_to_blame: bool,
    files: &mut Files,
) -> Result<(), Fatal> {
    runner.say("writing what the pass did");
    let crashes = criterion.failing == FailureKind::Crash && is_to_blame;
    let Some(around) = around(runner, failing, crashes, &culprit.pass)? else { return Ok(()) };
    save(&files.folder, BEFORE, &around.before)?;
    if let Some(after) = &around.after {
        save(&files.folder, AFTER, after)?;
        let changed = text::changed(&around.before, after);
        let named =
            |function: &text::FunctionText<'_>| culprit.pass.unit.ends_with(&format!("function {}", function.name));
        if let Some((function, now)) = changed.iter().find(|(function, _)| named(function)).or(changed.first()) {
            let (diff, removed, added) = text::difference(function.text, now, ("before", "after"));
            save(&files.folder, FUNCTION_BEFORE, function.text)?;
            save(&files.folder, FUNCTION_AFTER, now)?;
            files.diff_file = DIFF;
            save(&files.folder, files.diff_file, &diff)?;
            (files.function, files.removed, files.added, files.diff) = (function.name.to_owned(), removed, added, diff);
        }
    }
    let configuration = again(runner, failing)?;
    files.opt = alone(runner, &configuration, &culprit.pass, &around)?;
    if let Some(pass) = files.opt.as_ref().filter(|_| is_to_blame && !options.reduce.is_zero()) {
        let with = |passes: &str| Experiment::of(&Configuration { passes: passes.to_owned(), ..configuration.clone() });
        let reduction = Reduction {
            failing: criterion.failing,
            stage: Stage::Pipeline,
            threshold: options.threshold(),
            without: with(""),
            with: with(pass),
            runner,
        };
        if let Some(reduced) = reduction.run(&around.before, options.reduce)? {
            save(&files.folder, REDUCED, &reduced.before)?;
            if let Some(after) = &reduced.after {
                save(&files.folder, REDUCED_AFTER, after)?;
            }
            files.instructions = Some(reduced.instructions);
        }
    }
    Ok(())
}

/// A pass and the IR around it.
struct Around {
    before: String,
    /// Empty if the pass crashes.
    after: Option<String>,
    /// Every pass of the pipeline, with its parameters.
    pipeline: String,
}

fn around(
    runner: &mut ExperimentRunner<'_>,
    failing: &Configuration,
    crash: bool,
    pass: &Invocation,
) -> Result<Option<Around>, Fatal> {
    let mut experiment = Experiment::of(failing);
    experiment.probe = if crash {
        // A crash takes the module with it, so take the module from a build that stops before the pass.
        Probe { passes: Some(pass.number.saturating_sub(1)), expanded: true, ..Probe::default() }
    } else {
        Probe { passes: Some(pass.number), shown: Some(pass.number), expanded: true, ..Probe::default() }
    };
    (experiment.keep_ir, experiment.probe.until) = (crash, Some(Stage::Pipeline));
    let seen = runner.observe_one(experiment)?;
    let Some(built) = seen.built() else { return Ok(None) };
    let pipeline = built.looked.pipeline.clone().unwrap_or_default();
    let shown = built.looked.shown.clone().map(|(before, after)| (before, Some(after)));
    let found = if crash { built.texts.ir.clone().map(|before| (before, None)) } else { shown };
    Ok(found.map(|(before, after)| Around { before, after, pipeline }))
}

/// The configuration that builds IR from the middle of a pipeline. That IR is already specialised.
pub fn again(runner: &mut ExperimentRunner<'_>, failing: &Configuration) -> Result<Configuration, Fatal> {
    let static_memory = failing.specialize == Specialize::All
        && runner.observe_one(Experiment::of(failing))?.built().is_some_and(|built| built.shared_is_static);
    Ok(Configuration {
        shared_mem: if static_memory { 0 } else { failing.shared_mem },
        ..failing.clone().reset(|field| field.effect == Effect::Preparation)
    })
}

/// Returns the pass as `opt -passes` takes it. Runs it on `before` to check that it gives the same result as in its
/// pipeline.
fn alone(
    runner: &mut ExperimentRunner<'_>,
    configuration: &Configuration,
    pass: &Invocation,
    around: &Around,
) -> Result<Option<String>, Fatal> {
    let candidates = candidates(pass, &around.pipeline);
    let (before, after) = (around.before.as_str(), around.after.as_deref());
    let replacement = Rc::new(Replacement::Ir(before.as_bytes().to_vec()));
    let experiments = candidates.iter().map(|passes| Experiment {
        replacement: Some(replacement.clone()),
        keep_ir: true,
        probe: Probe { until: Some(Stage::Pipeline), ..Probe::default() },
        ..Experiment::of(&Configuration { passes: passes.clone(), ..configuration.clone() })
    });
    let seen = runner.observe(experiments.collect())?;
    let wanted = after.map(|after| text::changed(before, after));
    let equal = |ir: &str| {
        let functions = text::functions(ir);
        wanted.iter().flatten().all(|(function, now)| {
            functions
                .iter()
                .any(|found| found.name == function.name && text::comparable(found.text) == text::comparable(now))
        })
    };
    let fits = |observation: &ExperimentOutcome| match (after, observation.built()) {
        (Some(_), Some(built)) => built.texts.ir.as_deref().is_some_and(equal),
        (None, None) => observation.not_built().is_some_and(|not_built| not_built.place.is_some()),
        _ => false,
    };
    Ok(candidates.into_iter().zip(&seen).find(|(_, observation)| fits(observation)).map(|(passes, _)| passes))
}

/// Ways to run one pass on its input, with the parameters that it has in the pipeline.
fn candidates(pass: &Invocation, pipeline: &str) -> Vec<String> {
    let mut forms: Vec<String> = forms(&pass.pass, pipeline);
    if forms.is_empty() {
        forms.push(pass.pass.clone());
    }
    let around: &[(&str, &str)] = match pass.unit.split(' ').next() {
        Some("function") => &[("function(", ")"), ("require<globals-aa>,function(", ")")],
        Some("loop") => &[
            ("function(loop-mssa(", "))"),
            ("function(loop(", "))"),
            ("require<globals-aa>,function(loop-mssa(", "))"),
        ],
        Some("call") => &[("cgscc(", ")"), ("require<globals-aa>,cgscc(", ")")],
        _ => &[("", "")],
    };
    forms.iter().flat_map(|form| around.iter().map(move |(head, tail)| format!("{head}{form}{tail}"))).collect()
}

/// The pass with each distinct set of parameters that it has in a pipeline, in order.
fn forms(name: &str, pipeline: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let part_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    for (at, _) in pipeline.match_indices(name) {
        let (before, rest) = (&pipeline[..at], &pipeline[at + name.len()..]);
        if before.ends_with(part_of_name) || rest.starts_with(part_of_name) {
            continue;
        }
        let form = format!("{name}{}", parameters(rest));
        if !found.contains(&form) {
            found.push(form);
        }
    }
    found
}

/// The text in angle brackets at the start of `text`, including the brackets.
fn parameters(text: &str) -> &str {
    if !text.starts_with('<') {
        return "";
    }
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        if depth == 0 {
            return &text[..=at];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPELINE: &str = "function(simplifycfg<a;b>,sroa<modify-cfg>),cgscc(inline<only-mandatory>,inline,function(simplifycfg<c>,\
                            early-cse<memssa>,simplifycfg<a;b>,loop-mssa(licm<allowspeculation>)))";

    fn pass(name: &str, unit: &str) -> Invocation {
        Invocation { number: 1, pass: name.into(), unit: unit.into() }
    }

    #[test]
    fn a_pass_has_the_parameters_of_its_pipeline() {
        assert_eq!(forms("simplifycfg", PIPELINE), ["simplifycfg<a;b>", "simplifycfg<c>"]);
        assert_eq!(forms("inline", PIPELINE), ["inline<only-mandatory>", "inline"]);
        assert_eq!(forms("cse", PIPELINE), [""; 0]);
        assert!(
            candidates(&pass("licm", "loop l of function f"), PIPELINE)
                .contains(&"function(loop-mssa(licm<allowspeculation>))".into())
        );
        assert_eq!(candidates(&pass("globaldce", "the module"), PIPELINE), ["globaldce"]);
    }
}
