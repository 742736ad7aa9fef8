//! The stages of a build, and the search for the one at which good turns into bad.

use mneme_builds::Probe;
use mneme_builds::progress::{BuildPosition, Invocation, Stage};
use mneme_model::configuration::{Configuration, Field};

use super::assembler_level;
use super::criterion::Criterion;
use super::experiments::{Experiment, ExperimentOutcome, RunExperiments};
use super::finding::{BisectFinding, Culprit, FailingLevel, Verdict};
use super::search::{Judgement, PassSearch};
use crate::cli::FailureKind;
use crate::error::Fatal;

/// A configuration without the fields that allow a compiler more than the source does.
pub fn strict(configuration: &Configuration) -> Configuration {
    configuration.clone().reset(|field| field.relaxes)
}

/// How often to check a border between times before accepting it.
const CONFIRMATIONS: u32 = 4;
/// How often a border between right and wrong results may move while it is checked.
const MOST_CONFIRMATIONS: u32 = 16;
/// The fewest runs of its good side in such a check.
const CONFIRMING_RUNS: u32 = 16;

const UNSETTLED: &str = "no pass was found: runs of the same code are sometimes good and sometimes bad, and more runs \
                         moved the place where good turns into bad each time";

pub struct Stages<'l, B> {
    pub runner: &'l mut B,
    pub criterion: Criterion,
    /// The failing experiment.
    pub experiment: Experiment,
    /// Whether the border moved at every check.
    is_unsettled: bool,
}

/// The stage whose passes are searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passes {
    Pipeline,
    Codegen,
}

impl<'l, B: RunExperiments> Stages<'l, B> {
    pub fn new(runner: &'l mut B, criterion: Criterion, experiment: Experiment) -> Self {
        Self { runner, criterion, experiment, is_unsettled: false }
    }

    /// Finds the stage, and the pass if the stage has passes. `failed` is the outcome of the failing configuration.
    pub fn find(mut self, failed: &ExperimentOutcome, finding: &mut BisectFinding) -> Result<(), Fatal> {
        let crash = failed.not_built().and_then(|not_built| not_built.place.clone());
        if self.criterion.failing == FailureKind::Crash {
            return self.crash(crash, finding);
        }
        let failing = self.experiment.configuration.grounded();
        let allowances: Vec<&Field> = failing.differences(&strict(&failing)).collect();
        let mut experiments = vec![self.with_passes(Some(0)), with_least_assembly(&self.experiment)];
        experiments.extend(allowances.iter().map(|allowance| {
            let configuration = self.experiment.configuration.clone().reset(|field| field.name == allowance.name);
            Experiment { configuration, ..self.experiment.clone() }
        }));
        self.runner.say("replaying without passes");
        let judged = self.judge(experiments)?;
        finding.field = allowances
            .iter()
            .zip(&judged[2..])
            .find(|(_, judged)| **judged == Judgement::Good)
            .map(|(field, _)| field.name);

        let total = failed.probed().map_or(0, |probed| probed.passes.len() as u64);
        if (judged[0] != Judgement::Bad || self.criterion.measures()) && total > 0 {
            let start = (judged[0] == Judgement::Good).then_some(0);
            if let Some(culprit) = self.search(Passes::Pipeline, start, total, Some(failed))? {
                self.at_pass(culprit, finding)?;
                self.settle_field(finding);
                return Ok(());
            }
            if self.is_unsettled {
                finding.summary = UNSETTLED.into();
                return Ok(());
            }
        }
        let bare = self.with_passes(if judged[0] == Judgement::Bad { Some(0) } else { None });
        if judged[1] == Judgement::Good {
            self.assembler(&bare, finding)?;
        } else if self.judge_one(with_least_codegen(&bare))? == Judgement::Good {
            self.code_generation(&bare, finding)?;
        } else {
            finding.summary =
                "it fails without a single pass and with the least of code generation: what LLVM never leaves out makes the difference"
                    .into();
        }
        self.settle_field(finding);
        Ok(())
    }

    /// Prefers a field of the configuration that the failure needs to the pass that exploits it. Options of LLVM are an
    /// exception: they control passes, and passes have to be right with any option.
    fn settle_field(&self, finding: &mut BisectFinding) {
        let Some(field) = finding.field else { return };
        if field == "llvm_options" && finding.verdict != Verdict::Unclear {
            finding.evidence.push("without the options in llvm_options nothing fails".into());
            return;
        }
        finding.evidence.push(format!("without {field} nothing fails"));
        let user = finding.pass.as_ref().map_or_else(String::new, |culprit| format!("; {culprit} makes use of it"));
        finding.verdict = Verdict::Configuration;
        finding.summary = format!("{field} allows the compiler what this kernel does not bear{user}");
    }

    /// Decides whether the culprit itself is to blame, or a later stage that mishandles its output.
    fn at_pass(&mut self, culprit: Culprit, finding: &mut BisectFinding) -> Result<(), Fatal> {
        let base = self.with_passes(Some(culprit.pass.number));
        let judged = self.judge(vec![with_least_codegen(&base), with_least_assembly(&base)])?;
        let assembles = self.runner.assembles() && assembler_level(&base.configuration) > 0;
        if !self.criterion.measures() && assembles && judged[1] == Judgement::Good {
            self.assembler(&base, finding)?;
            finding.evidence.push(format!("{culprit} makes the code that the assembler gets wrong"));
        } else if !self.criterion.measures() && judged[0] == Judgement::Good {
            self.code_generation(&base, finding)?;
            finding.evidence.push(format!("{culprit} makes the IR that code generation gets wrong"));
        } else {
            finding.verdict = Verdict::IrPass;
            finding.summary = culprit.to_string();
        }
        finding.pass = Some(culprit);
        Ok(())
    }

    /// Finds the first failing level of the assembler.
    fn assembler(&mut self, base: &Experiment, finding: &mut BisectFinding) -> Result<(), Fatal> {
        let bad = assembler_level(&base.configuration);
        let experiments = (0..bad).map(|level| {
            let mut experiment = base.clone();
            experiment.configuration.ptx_opt = Some(level);
            experiment
        });
        let judged = self.judge(experiments.collect())?;
        let level = level("ptx_opt", &judged, bad);
        finding.verdict = Verdict::Assembler;
        finding.given = Some(base.clone());
        finding.summary =
            format!("the assembler at optimisation level {}; at level {} the same PTX is good", level.bad, level.good);
        finding.level = Some(level);
        Ok(())
    }

    /// Finds the failing pass of code generation, or else the first failing level.
    fn code_generation(&mut self, base: &Experiment, finding: &mut BisectFinding) -> Result<(), Fatal> {
        finding.verdict = Verdict::BackEnd;
        finding.given = Some(base.clone());
        let limited = |limit| Experiment {
            probe: Probe { codegen_passes: limit, listed: true, ..base.probe.clone() },
            ..base.clone()
        };
        self.runner.say("searching the passes of code generation");
        let none = self.judge_one(limited(Some(0)))?;
        let all = self.runner.observe_one(limited(None))?;
        let total = all.probed().map_or(0, |probed| probed.codegen_passes.len() as u64);
        if none == Judgement::Good && total > 0 {
            let saved = std::mem::replace(&mut self.experiment, base.clone());
            let culprit = self.search(Passes::Codegen, Some(0), total, Some(&all));
            self.experiment = saved;
            if let Some(culprit) = culprit? {
                finding.summary = format!("code generation, {culprit}");
                finding.codegen_pass = Some(culprit);
                return Ok(());
            }
            if self.is_unsettled {
                (finding.verdict, finding.given) = (Verdict::Unclear, None);
                finding.summary = UNSETTLED.into();
                return Ok(());
            }
        }
        let bad = base.configuration.codegen_opt;
        let experiments = (0..bad).map(|level| {
            let mut experiment = base.clone();
            experiment.configuration.codegen_opt = level;
            experiment
        });
        let judged = self.judge(experiments.collect())?;
        let level = level("codegen_opt", &judged, bad);
        finding.summary = format!(
            "code generation at level {}, by what LLVM does not leave out; level {} is good",
            level.bad, level.good
        );
        finding.level = Some(level);
        Ok(())
    }

    /// Decides whether the pass at which the build crashed is to blame.
    fn crash(mut self, place: Option<BuildPosition>, finding: &mut BisectFinding) -> Result<(), Fatal> {
        let Some(place) = place else {
            finding.summary = format!("the build fails before it begins: {}", finding.error);
            return Ok(());
        };
        let culprit = |pass: Invocation| Culprit { of: None, from: pass.number, pass };
        match (place.stage, place.pass) {
            (Stage::Pipeline, Some(pass)) => {
                let number = pass.number;
                finding.verdict = Verdict::IrPass;
                if number > 0 && self.judge_one(self.with_passes(Some(number - 1)))? != Judgement::Good {
                    finding.evidence.push("with only the passes before it the build fails as well, later".into());
                }
                let culprit = culprit(pass);
                finding.summary = culprit.to_string();
                finding.pass = Some(culprit);
            }
            (Stage::CodeGeneration, pass) => {
                finding.verdict = Verdict::BackEnd;
                finding.given = Some(self.experiment.clone());
                let last = pass.map_or(0, |pass| pass.number);
                let base = self.experiment.clone();
                if last > 0 {
                    self.experiment = base.clone();
                    if let Some(found) = self.search(Passes::Codegen, None, last, None)? {
                        finding.summary = format!("code generation, {found}");
                        finding.codegen_pass = Some(found);
                        return Ok(());
                    }
                }
                let judged = self.judge_one(with_least_codegen(&base))?;
                let hint = if judged == Judgement::Good { "; level 0 of code generation is good" } else { "" };
                finding.summary = format!("code generation, in what LLVM does not leave out{hint}");
                self.who_makes_it(finding)?;
            }
            (Stage::Assembly, _) => {
                finding.verdict = Verdict::Assembler;
                finding.given = Some(self.experiment.clone());
                finding.summary = "the assembler gives up".into();
                self.who_makes_it(finding)?;
            }
            _ => {
                finding.summary = format!("the build fails before any pass runs: {}", finding.error);
            }
        }
        Ok(())
    }

    /// Finds the pipeline pass after which a later stage crashes, if there is one.
    fn who_makes_it(&mut self, finding: &mut BisectFinding) -> Result<(), Fatal> {
        let mut listed = self.experiment.clone();
        (listed.probe.listed, listed.probe.until) = (true, Some(Stage::Pipeline));
        let all = self.runner.observe_one(listed)?;
        let total = all.probed().map_or(0, |probed| probed.passes.len() as u64);
        if total > 0 {
            finding.pass = self.search(Passes::Pipeline, None, total, Some(&all))?;
        }
        finding.evidence.extend(finding.pass.iter().map(|culprit| format!("{culprit} makes what it gives up on")));
        Ok(())
    }

    /// Searches the passes up to `total`, which fails; `start` is known to be good. Returns `None` if no number of
    /// passes is good.
    fn search(
        &mut self,
        passes: Passes,
        start: Option<u64>,
        total: u64,
        all: Option<&ExperimentOutcome>,
    ) -> Result<Option<Culprit>, Fatal> {
        let mut search = PassSearch::new(total);
        if let Some(start) = start {
            search.learn(start, Judgement::Good);
        }
        let is_timed = self.criterion.failing == FailureKind::Slow;
        let mut confirmations = if is_timed { CONFIRMATIONS } else { MOST_CONFIRMATIONS };
        let mut names: Vec<Invocation> =
            all.and_then(ExperimentOutcome::probed).map_or_else(Vec::new, |probed| of(passes, probed).to_vec());
        loop {
            let mut points = search.next(self.runner.width());
            let mut fresh = false;
            if points.is_empty() {
                // Times vary, and wrong results may vary, so confirm them before accepting the border.
                let varies = is_timed || self.criterion.failing == FailureKind::Wrong;
                let Some(border) = search.border().filter(|_| varies && !(is_timed && confirmations == 0)) else {
                    break;
                };
                if confirmations == 0 {
                    self.is_unsettled = true;
                    return Ok(None);
                }
                (points, fresh) = (vec![border.good, border.bad], true);
                if !is_timed {
                    // Each run has its own time limit.
                    let more = CONFIRMING_RUNS.div_ceil(self.experiment.runs.max(1)) - 1;
                    points.extend(std::iter::repeat_n(border.good, more as usize));
                }
                confirmations -= 1;
            }
            let left = search.border().map_or(total, |border| border.bad - border.good);
            self.runner.say(&format!("{left} of {total} passes left"));
            let experiments = points.iter().map(|point| {
                let mut experiment = self.experiment.clone();
                experiment.probe.listed = true;
                experiment.fresh = fresh;
                match passes {
                    Passes::Pipeline => experiment.probe.passes = Some(*point),
                    Passes::Codegen => experiment.probe.codegen_passes = Some(*point),
                }
                experiment
            });
            let seen = self.runner.observe(experiments.collect())?;
            let before = search.border();
            let mut judged: Vec<(u64, Judgement)> =
                points.into_iter().zip(seen.iter().map(|seen| self.criterion.judge(seen))).collect();
            // A point that failed once is bad.
            judged.sort_by_key(|(_, judgement)| *judgement == Judgement::Bad);
            judged.into_iter().for_each(|(point, judgement)| search.learn(point, judgement));
            if fresh && search.border() == before {
                break;
            }
            // The last pass of a build has the build's number. A build that crashes reports no passes.
            names.extend(
                seen.iter()
                    .filter_map(ExperimentOutcome::probed)
                    .filter_map(|probed| of(passes, probed).last().cloned()),
            );
        }
        let Some(border) = search.border() else { return Ok(None) };
        let name = names.into_iter().rfind(|pass| pass.number == border.bad);
        let pass =
            name.unwrap_or_else(|| Invocation { number: border.bad, pass: "a pass".into(), unit: "something".into() });
        // The number of passes is unknown for a build that crashes.
        let of = (self.criterion.failing != FailureKind::Crash || all.is_some()).then_some(total);
        Ok(Some(Culprit { pass, of, from: border.good + 1 }))
    }

    fn judge(&mut self, experiments: Vec<Experiment>) -> Result<Vec<Judgement>, Fatal> {
        let seen = self.runner.observe(experiments)?;
        Ok(seen.iter().map(|observation| self.criterion.judge(observation)).collect())
    }

    fn judge_one(&mut self, experiment: Experiment) -> Result<Judgement, Fatal> {
        Ok(self.criterion.judge(&self.runner.observe_one(experiment)?))
    }

    fn with_passes(&self, limit: Option<u64>) -> Experiment {
        let probe = Probe { passes: limit, ..self.experiment.probe.clone() };
        Experiment { probe, ..self.experiment.clone() }
    }
}

/// The same experiment with minimal code generation.
pub fn with_least_codegen(base: &Experiment) -> Experiment {
    let mut experiment = base.clone();
    experiment.configuration.codegen_opt = 0;
    experiment.probe.codegen_passes = Some(0);
    experiment
}

/// The same experiment with minimal assembly.
pub fn with_least_assembly(base: &Experiment) -> Experiment {
    let mut experiment = base.clone();
    experiment.configuration.ptx_opt = Some(0);
    experiment
}

fn of(passes: Passes, looked: &mneme_builds::ProbeResult) -> &[Invocation] {
    match passes {
        Passes::Pipeline => &looked.passes,
        Passes::Codegen => &looked.codegen_passes,
    }
}

/// The highest good level below `bad`, and the one above it.
fn level(field: &'static str, judged: &[Judgement], bad: u8) -> FailingLevel {
    let good = judged.iter().rposition(|judged| *judged == Judgement::Good).unwrap_or(0) as u8;
    FailingLevel { field, good, bad: (good + 1).min(bad) }
}

#[cfg(test)]
mod tests;
