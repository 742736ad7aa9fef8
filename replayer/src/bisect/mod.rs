//! Finds out why a kernel is right with one configuration and wrong with another.
//!
//! The search goes through the stages of a build in order: the passes of the pipeline, the passes of code generation,
//! the levels of code generation and of the assembler, and the fields of the configuration that allow a compiler more
//! than the source does. Each question is one replay. Several replays run at a time, and equal code runs once.

mod compilers;
mod criterion;
mod experiments;
mod files;
mod finding;
mod rate;
mod reduction;
mod report;
mod search;
mod stages;
mod text;
mod undefined;

use std::time::Duration;

use mneme_model::configuration::Configuration;
use mneme_model::observation::Observe;
use mneme_model::result::{ReplayStatus, sufficient_rtol};
use mneme_system::exit;

use self::criterion::Criterion;
use self::experiments::{Experiment, ExperimentOutcome, ExperimentRunner, RunExperiments};
use self::finding::{BisectFinding, Verdict};
use self::rate::FailureRate;
use self::search::Judgement;
use self::stages::Stages;
use crate::calibration;
use crate::cli::{Bisect, FailureKind};
use crate::context::settings::ReplaySettings;
use crate::error::Fatal;

/// Runs of the reference. They must all give the same result.
const REFERENCE_RUNS: u32 = 5;
/// Warm-up runs before the timed ones.
const WARMUP: u32 = 2;

/// Bisects, and returns the exit status.
pub fn run(options: &Bisect) -> Result<i32, Fatal> {
    if options.code.external().is_some() {
        let error = "passes in another program cannot be searched; leave --opt, --opt-arg and --load-pass-plugin out";
        return Err(Fatal::new(exit::BAD_USAGE, error));
    }
    if options.code.original {
        let error = "--original replays the application's own code, which has no passes to search; leave it out";
        return Err(Fatal::new(exit::BAD_USAGE, error));
    }
    if options.fields.all_llvms {
        let error = "--llvm all compares compilers; a bisection is of one, or of two with --good-llvm and --bad-llvm";
        return Err(Fatal::new(exit::BAD_USAGE, error));
    }
    let context = calibration::open(ReplaySettings {
        code: options.code.file(),
        llvm: options.bad_llvm.or(options.fields.llvm()),
        standby: true,
        quiet: true,
        ..options.common.settings()
    })?;
    if let Some(unbuilt) = &context.unbuilt {
        // The exit status of a replay would look like a verdict.
        return Err(Fatal::new(Verdict::Unclear.exit_status(), unbuilt.error.clone()));
    }
    if options.failing == FailureKind::Regs && context.is_cpu() {
        return Err(Fatal::new(
            exit::BAD_USAGE,
            "the CPU device has no registers to count; --failing regs needs a GPU",
        ));
    }
    for version in [options.good_llvm, options.bad_llvm].into_iter().flatten() {
        context.programs.chosen(Some(version), context.written_by)?;
    }
    let mut failing = options.configuration(&context.recorded.recorded_configuration())?;
    failing.lift |= context.is_ptx();
    // The search needs an explicit level.
    let own = context.recorded.instance.ours.compiled.as_ref().map_or(3, |application| application.ptx_opt);
    failing.ptx_opt = Some(failing.ptx_opt.unwrap_or(own));
    failing.check().map_err(|error| Fatal::new(exit::BAD_USAGE, error))?;
    let mut runner = ExperimentRunner::open(&context)?;
    let found = Bisection { options, failing: &failing, runner: &mut runner }.find();
    runner.hush();
    runner.close();
    let finding = found?;
    report::print(&finding, options)?;
    Ok(finding.verdict.exit_status())
}

/// One bisection.
struct Bisection<'o, 'l, 's> {
    options: &'o Bisect,
    failing: &'o Configuration,
    runner: &'l mut ExperimentRunner<'s>,
}

impl Bisection<'_, '_, '_> {
    fn find(mut self) -> Result<BisectFinding, Fatal> {
        self.runner.say("replaying the reference and the failing configuration");
        let references = self.references();
        let mut experiments: Vec<Experiment> =
            references.iter().map(|configuration| self.reference(configuration)).collect();
        let mut failing = Experiment::of(self.failing);
        (failing.runs, failing.probe.listed) = (self.options.repeat, true);
        failing.warmup = if self.options.failing == FailureKind::Slow { WARMUP } else { 0 };
        experiments.push(failing.clone());
        let mut seen = self.runner.observe(experiments)?;
        let mut failed = seen.pop().ok_or_else(|| Fatal::new(exit::INTERNAL, "a replay has no result"))?;

        let mut finding = self.blank(&references[0]);
        finding.error = failed.result.error.clone();
        finding.mismatch = failed.result.mismatch.clone();
        finding.hint = failed.result.hint_at_check().unwrap_or_default();
        let is_mistake = |seen: &&ExperimentOutcome| {
            let is_no_pipeline = seen.not_built().is_some_and(|failed| failed.is_no_pipeline);
            seen.result.status == ReplayStatus::InvalidConfig || is_no_pipeline
        };
        if let Some(invalid) = seen.iter().chain([&failed]).find(is_mistake) {
            return Err(Fatal::new(exit::BAD_USAGE, invalid.result.error.clone()));
        }
        let good = |seen: &ExperimentOutcome| seen.result.status.is_as_recorded();
        // With one version of LLVM, accept a reference that does not build either. With two, the good one must build.
        let crash = (self.options.failing == FailureKind::Crash).then_some(Criterion::crash());
        let builds = |seen: &ExperimentOutcome| {
            let judged = crash.map(|crash| crash.judge(seen));
            judged.is_some_and(|judged| self.options.good_llvm.is_none() || judged == Judgement::Good)
        };
        let Some(chosen) = seen.iter().position(good).or_else(|| seen.iter().position(builds)) else {
            let mut finding = self.without_reference(finding, &seen[0]);
            if finding.verdict == Verdict::Unclear && crash.is_none() {
                let criterion = Criterion { failing: self.options.failing, bound: f64::INFINITY };
                let reference = self.reference(&references[0]);
                self.put_on_trial((&criterion, &failing, &reference), false, &mut finding)?;
            }
            return Ok(self.done(finding));
        };
        finding.reference = describe(&references[chosen]);
        let mut criterion = Criterion { failing: self.options.failing, bound: f64::INFINITY };
        if criterion.measures() {
            let figures = criterion.figure(&seen[chosen].result).zip(criterion.figure(&failed.result));
            criterion.bound = figures.map_or(f64::INFINITY, |(reference, _)| reference * self.options.threshold());
            finding.figures = figures;
        }
        let mut reference = self.reference(&references[chosen]);
        let hangs = failed.result.status == ReplayStatus::Timeout;
        if self.options.failing == FailureKind::Wrong && !hangs && criterion.judge(&failed) != Judgement::Unclear {
            self.runner.say("counting how often it fails");
            let (rate, example) = FailureRate::of(&mut *self.runner, &criterion, &failing)?;
            if let Some(example) = example.filter(|_| criterion.judge(&failed) == Judgement::Good) {
                finding.error.clone_from(&example.result.error);
                finding.mismatch.clone_from(&example.result.mismatch);
                finding.hint = example.result.hint_at_check().unwrap_or_default();
                failed = example;
            }
            if criterion.judge(&failed) == Judgement::Bad && !rate.is_certain() {
                finding.failure_rate = Some(rate);
                finding.evidence.push(format!("the failing configuration fails in {rate}"));
                let most = self.most_runs(&seen[chosen]);
                let Some(runs) = rate.needed(self.options.repeat, most) else {
                    finding.summary = format!("it fails in {rate}, which is too seldom to find out why");
                    return Ok(self.done(finding));
                };
                (failing.runs, reference.runs) = (runs, runs.max(reference.runs));
                reference.fresh = true;
                let again = self.runner.observe_one(reference.clone())?;
                if !good(&again) {
                    return Ok(self.done(self.without_reference(finding, &again)));
                }
                finding.evidence.push(format!("the reference does not fail in {} runs", reference.runs));
                reference.fresh = false;
            }
        }
        match criterion.judge(&failed) {
            Judgement::Bad => {}
            Judgement::Good if failed.result.status == ReplayStatus::Unproven => {
                finding.summary.clone_from(&failed.result.error);
                return Ok(self.done(finding));
            }
            Judgement::Good => {
                finding.verdict = Verdict::Good;
                finding.summary = match (self.options.failing, finding.figures) {
                    (FailureKind::Wrong, _) => "the configuration verifies".into(),
                    (FailureKind::Crash, _) => "the configuration is built".into(),
                    (_, Some((reference, figure))) => {
                        format!(
                            "{figure} is not more than {} times the reference's {reference}",
                            self.options.threshold()
                        )
                    }
                    (_, None) => "it does not fail".into(),
                };
                return Ok(self.done(finding));
            }
            Judgement::Unclear => {
                finding.summary =
                    format!("the failing configuration does not fail as --failing says: {}", failed.result.error);
                return Ok(self.done(finding));
            }
        }
        let template = failing.clone();
        Stages::new(&mut *self.runner, criterion, failing).find(&failed, &mut finding)?;
        finding.effort.search_seconds = self.runner.seconds();
        finding.keep_when_interrupted("no file was written yet");
        if let Some(good) = self.options.good_llvm {
            compilers::cross(&mut *self.runner, &criterion, good, &template, &mut finding)?;
        }
        if self.options.failing == FailureKind::Wrong && finding.verdict != Verdict::Configuration {
            self.put_on_trial((&criterion, &template, &reference), true, &mut finding)?;
        }
        self.name_writer(&mut finding)?;
        files::write(&mut *self.runner, self.options, self.failing, &criterion, &mut finding)?;
        Ok(self.done(finding))
    }

    /// Blames the kernel if its undefined behaviour causes the failure, whichever pass exploits it.
    fn put_on_trial(
        &mut self,
        (criterion, failing, reference): (&Criterion, &Experiment, &Experiment),
        is_good: bool,
        finding: &mut BisectFinding,
    ) -> Result<(), Fatal> {
        let trial = undefined::trial(&mut *self.runner, criterion, failing, reference, is_good)?;
        if let Some(broken) = &trial.broken {
            let user = finding.pass.as_ref().map_or_else(String::new, |culprit| format!("; {culprit} makes use of it"));
            finding.summary = format!("{broken}{user}");
            finding.verdict = Verdict::Kernel;
        } else if !trial.needed.is_empty() && is_good && finding.verdict != Verdict::Unclear {
            finding.summary = format!(
                "either {} is wrong, or the kernel breaks an assumption that it makes use of: {}",
                finding.summary,
                trial.needed.join("; ")
            );
            finding.verdict = Verdict::Unclear;
        }
        finding.assumptions = trial.needed;
        finding.evidence.extend(trial.evidence);
        Ok(())
    }

    /// The number of runs that fit into the time, estimated from the reference's runs.
    fn most_runs(&self, reference: &ExperimentOutcome) -> u32 {
        let longest = reference.result.measured().iter().max().copied().unwrap_or_default();
        // A run also restores and compares memory.
        let run = Duration::from_nanos(3 * longest) + Duration::from_millis(2);
        let runs = self.options.common.timeout.as_nanos() / 2 / run.as_nanos();
        rate::MOST.min(runs as u32).max(1)
    }

    /// Names the last writer of the first differing element in the failing configuration.
    fn name_writer(&mut self, finding: &mut BisectFinding) -> Result<(), Fatal> {
        let Some(mismatch) = &finding.mismatch else { return Ok(()) };
        let start = mismatch.address.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let Some(address) = start.map(|start| start + mismatch.offset) else { return Ok(()) };
        let mut experiment = Experiment::of(self.failing);
        experiment.observe = Some(Observe::Writes { address, bytes: mismatch.element_size.clamp(1, 8) });
        self.runner.say("looking for who wrote it");
        finding.writer = self.runner.observe_one(experiment)?.result.last_write;
        Ok(())
    }

    fn blank(&self, reference: &Configuration) -> BisectFinding {
        BisectFinding::unclear(self.options.failing, &self.options.passes, &describe(reference))
    }

    fn done(&self, mut finding: BisectFinding) -> BisectFinding {
        let effort = &mut finding.effort;
        (effort.builds, effort.replays) = self.runner.effort();
        effort.seconds = self.runner.seconds();
        finding
    }

    /// The known-good pipeline with the failing configuration's other fields, without those that allow more than the
    /// source does. As a fallback, the same with minimal code generation.
    fn references(&self) -> Vec<Configuration> {
        if let Some(good) = self.options.good_llvm {
            return vec![Configuration { llvm: Some(good), ..self.failing.clone() }];
        }
        let usual = Configuration { passes: self.options.reference.clone(), ..stages::strict(self.failing) };
        if self.options.failing != FailureKind::Wrong {
            return vec![usual];
        }
        let least = Configuration { codegen_opt: 0, ptx_opt: Some(0), ..usual.clone() };
        vec![usual, least]
    }

    fn reference(&self, configuration: &Configuration) -> Experiment {
        let mut experiment = Experiment::of(configuration);
        experiment.runs = self.options.repeat.max(REFERENCE_RUNS);
        experiment.warmup = if self.options.failing == FailureKind::Slow { WARMUP } else { 0 };
        // Differences between runs of the same code come from the kernel.
        experiment.survey = self.options.failing == FailureKind::Wrong;
        experiment
    }

    /// The finding if the reference is unusable, because its runs differ from each other or for an unknown reason.
    fn without_reference(&self, mut finding: BisectFinding, reference: &ExperimentOutcome) -> BisectFinding {
        let varying = reference.result.variations.iter().flatten().find(|variation| variation.runs > 0);
        match varying {
            Some(variation) => {
                finding.verdict = Verdict::Kernel;
                let tag = if variation.tag.is_empty() { String::new() } else { format!(" '{}'", variation.tag) };
                finding.evidence.push(format!(
                    "{} of {} runs of the same code ({}) differ from the first, in up to {} elements of the {}{tag} at {}",
                    variation.runs,
                    reference.result.exec_time.len(),
                    finding.reference,
                    variation.elements,
                    variation.region,
                    variation.address
                ));
                finding.summary =
                    "the kernel's result differs from run to run with the same code: a race, or an order that it does not fix".into();
            }
            None => {
                let another = match self.options.good_llvm {
                    Some(_) => "--good-llvm",
                    None => "--reference",
                };
                let result = &reference.result;
                let remedy = match (result.hint_at_check(), result.rounding()) {
                    (Some(hint), _) => {
                        finding.hint.clone_from(&hint);
                        hint
                    }
                    (None, Some(largest)) => format!(
                        "it differs only by rounding, which --rtol {} and --tolerance allow",
                        sufficient_rtol(largest)
                    ),
                    (None, None) => "mneme replay --check finds invalid accesses".into(),
                };
                finding.summary = format!(
                    "the reference ({}) is not good itself: {}; {remedy}; {another} names another",
                    finding.reference, result.error
                );
            }
        }
        finding
    }
}

/// Describes a reference in words.
fn describe(configuration: &Configuration) -> String {
    let Configuration { passes, codegen_opt, llvm, .. } = configuration;
    let llvm = llvm.map_or_else(String::new, |version| format!("LLVM {version}, "));
    format!("{llvm}{passes}, code generation {codegen_opt}, assembler {}", assembler_level(configuration))
}

/// The assembler's level. Every configuration here sets it.
fn assembler_level(configuration: &Configuration) -> u8 {
    configuration.ptx_opt.unwrap_or(3)
}
