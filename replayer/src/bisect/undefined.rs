//! Tests whether a kernel breaks an assumption that passes may make.
//!
//! A pass that exploits such an assumption is right, and a real bug of a pass may need the assumption as well. So the
//! test removes each assumption from the failing configuration and from the reference. An assumption matters only if
//! its removal makes the failing configuration good, or the reference bad. The kernel is to blame only if a replay of
//! the reference *shows* that it breaks an assumption that matters.

use mneme_builds::probe::{Assumption, Revision};
use mneme_model::observation::{Fault, Finding, Observe};
use mneme_model::result::ReplayStatus;

use super::criterion::Criterion;
use super::experiments::{Experiment, ExperimentOutcome, RunExperiments};
use super::search::Judgement;
use crate::error::Fatal;

/// Two bytes without a common bit.
const FILLINGS: [u8; 2] = [0x55, 0xaa];
/// Faulty accesses to report.
const MOST: usize = 4;
/// All instructions.
const ALL: u64 = u64::MAX;

/// Each revision that removes an assumption, and the assumption in words.
const ASSUMPTIONS: [(Revision, &str); 5] = [
    (Revision::FillLocals(0), "that local variables are set before they are read"),
    (
        Revision::Forget(Assumption::Arithmetic),
        "that integers do not overflow, shifts do not go too far, and addresses stay inside of their object (nsw, nuw, \
         exact, inbounds)",
    ),
    (
        Revision::Forget(Assumption::Types),
        "that objects of different types do not overlap (strict aliasing, type-based alias analysis)",
    ),
    (Revision::Forget(Assumption::NoAlias), "that pointers declared __restrict__ (noalias) lead to different objects"),
    (Revision::Forget(Assumption::FastMath), "what fast-math flags in the source allow"),
];

/// The result for the kernel.
#[derive(Debug, Default)]
pub struct Trial {
    /// The observations, one sentence each.
    pub evidence: Vec<String>,
    /// The assumption that the kernel breaks and that matters.
    pub broken: Option<String>,
    /// Assumptions that matter, without proof that the kernel breaks them.
    pub needed: Vec<&'static str>,
}

/// Tests a kernel. `failing` is the failing experiment; `reference` is the good one, if there is one.
pub fn trial(
    runner: &mut impl RunExperiments,
    criterion: &Criterion,
    failing: &Experiment,
    reference: &Experiment,
    is_good: bool,
) -> Result<Trial, Fatal> {
    runner.say("looking for what the kernel must not do");
    let mut trial = Trial::default();
    let shown = shown(runner, reference, &mut trial.evidence)?;
    let without = |base: &Experiment, revision| {
        let mut experiment = revised(base, revision);
        (experiment.probe.listed, experiment.survey) = (false, false);
        experiment
    };
    let both =
        ASSUMPTIONS.iter().flat_map(|(revision, _)| [without(failing, *revision), without(reference, *revision)]);
    let seen = runner.observe(both.collect())?;
    let judged: Vec<Judgement> = seen.iter().map(|seen| criterion.judge(seen)).collect();
    for ((shown, (_, words)), judged) in shown.iter().zip(ASSUMPTIONS).zip(judged.chunks(2)) {
        // Without a good reference, the reference is the failing experiment.
        let is_cured = judged[usize::from(!is_good)] == Judgement::Good;
        let matters = is_cured || (is_good && judged[1] == Judgement::Bad);
        match shown {
            Some(shown) if matters => {
                trial.broken.get_or_insert_with(|| shown.clone());
            }
            _ if is_cured => {
                trial.evidence.push(format!("nothing fails if passes may not assume {words}"));
                trial.needed.push(words);
            }
            _ => {}
        }
    }
    Ok(trial)
}

/// The result of replaying the reference for each of [`ASSUMPTIONS`]. Adds all observations to the evidence.
fn shown(
    runner: &mut impl RunExperiments,
    reference: &Experiment,
    evidence: &mut Vec<String>,
) -> Result<[Option<String>; ASSUMPTIONS.len()], Fatal> {
    let bare = Experiment::of(&reference.configuration);
    let plain = Experiment { digest: true, runs: 2, ..bare.clone() };
    let watched = Experiment { observe: Some(Observe::Faults), ..bare };
    let mut experiments: Vec<Experiment> = FILLINGS.map(|byte| revised(&plain, Revision::FillLocals(byte))).to_vec();
    experiments.extend([plain.clone(), watched]);
    experiments.extend(ASSUMPTIONS.iter().filter_map(|(revision, _)| trapping(&plain, *revision, 0, ALL)));
    let seen = runner.observe(experiments)?;
    let mut shown = [const { None }; ASSUMPTIONS.len()];
    let [one, other, usual, watched, trapped @ ..] = &seen[..] else { return Ok(shown) };
    let depends = one.has_run() && other.has_run() && one.digest != other.digest;
    shown[0] = depends.then(|| "the result depends on what local variables hold before they are set".to_owned());
    for ((place, (revision, _)), trapped) in shown.iter_mut().zip(ASSUMPTIONS).skip(1).zip(trapped) {
        if usual.has_run() && trapped.result.status == ReplayStatus::RuntimeError {
            *place = Some(first_broken(runner, &plain, revision)?);
        }
    }
    evidence.extend(shown.iter().flatten().cloned());
    evidence.extend(watched.result.faults.iter().flat_map(|faults| &faults.findings).take(MOST).map(access));
    Ok(shown)
}

fn revised(base: &Experiment, revision: Revision) -> Experiment {
    let mut experiment = base.clone();
    experiment.probe.revisions = vec![revision];
    experiment
}

/// The experiment in which some instructions trap if they break the assumption that `forgotten` removes.
fn trapping(base: &Experiment, forgotten: Revision, from: u64, to: u64) -> Option<Experiment> {
    let Revision::Forget(assumption) = forgotten else { return None };
    Some(Experiment { runs: 1, ..revised(base, Revision::Trap { assumption, from, to }) })
}

/// The first instruction that breaks an assumption by itself, and how.
fn first_broken(runner: &mut impl RunExperiments, base: &Experiment, forgotten: Revision) -> Result<String, Fatal> {
    let mut observe = |from: usize, to: usize| match trapping(base, forgotten, from as u64, to as u64) {
        Some(experiment) => runner.observe_one(experiment).map(Some),
        None => Ok(None),
    };
    let listed = observe(0, 0)?;
    let checked = listed
        .as_ref()
        .and_then(ExperimentOutcome::probed)
        .map_or_else(Vec::new, |probed| probed.inventory.checked.clone());
    let (mut from, mut to) = (0, checked.len());
    while from + 1 < to {
        let middle = (from + to) / 2;
        let ended = observe(from, middle)?.is_some_and(|seen| seen.result.status == ReplayStatus::RuntimeError);
        (from, to) = if ended { (from, middle) } else { (middle, to) };
    }
    let what = checked.get(from).map_or("an instruction", String::as_str);
    Ok(match forgotten {
        Revision::Forget(Assumption::Types) => {
            format!("{what} reads as one type what the same thread has stored as another (strict aliasing)")
        }
        Revision::Forget(Assumption::NoAlias) => format!(
            "{what} accesses bytes that the same thread accesses through another pointer, and one of the two is declared __restrict__"
        ),
        Revision::Forget(Assumption::FastMath) => {
            format!("{what} meets a NaN or an infinity, which its fast-math flags rule out")
        }
        _ => format!(
            "{what} has no defined result for the recorded values: the kernel overflows, shifts too far, divides by zero or goes where it promised not to go"
        ),
    })
}

/// A faulty access as one sentence.
fn access(finding: &Finding) -> String {
    let what = match finding.fault {
        Fault::OutOfBounds => "is outside of all memory that it may touch",
        Fault::Uninitialised => "reads what nothing has written",
        Fault::Race => "races with another thread of its block",
        Fault::Misaligned => "is misaligned",
    };
    let site = &finding.site;
    let place = site.source.first().map_or_else(String::new, |line| format!(" ({}:{})", line.file, line.line));
    let example = finding.examples.first().map_or_else(String::new, |example| {
        format!(", first by thread {} of block {} at {}", example.thread, example.block, example.place)
    });
    format!("'{}' in {}{place} {what}, {} times{example}", site.instruction.trim(), site.function, finding.count)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use mneme_builds::{Built, ProbeResult};
    use mneme_model::configuration::Configuration;
    use mneme_model::launch::Dim3;
    use mneme_model::result::ReplayResult;

    use super::*;
    use crate::cli::FailureKind;

    /// A model kernel whose failing configuration needs an assumption. The kernel may break it or not.
    struct Kernel {
        needs: Option<usize>,
        breaks: bool,
        /// The assumption makes the reference good, instead of making the failing configuration bad.
        is_reversed: bool,
    }

    impl RunExperiments for Kernel {
        fn width(&self) -> usize {
            4
        }

        fn assembles(&self) -> bool {
            false
        }

        fn say(&self, _: &str) {}

        fn observe(&mut self, experiments: Vec<Experiment>) -> Result<Vec<ExperimentOutcome>, Fatal> {
            let observe = |experiment: &Experiment| {
                let revision = experiment.probe.revisions.first();
                let is_without = self.needs.is_some_and(|needs| revision == Some(&ASSUMPTIONS[needs].0));
                let is_failing = experiment.configuration.passes == "failing";
                let is_bad = if self.is_reversed { is_failing || is_without } else { is_failing && !is_without };
                let ends = match revision {
                    Some(Revision::Trap { from: 0, to: 0, .. }) => false,
                    Some(Revision::Trap { assumption, .. }) => {
                        let needed = self.needs.map(|needs| ASSUMPTIONS[needs].0);
                        self.breaks && needed == Some(Revision::Forget(*assumption))
                    }
                    _ => false,
                };
                let filled = matches!(revision, Some(Revision::FillLocals(0x55))) && self.needs == Some(0);
                let status = match (ends, is_bad) {
                    (true, _) => ReplayStatus::RuntimeError,
                    (_, true) => ReplayStatus::FailedVerification,
                    _ => ReplayStatus::Verified,
                };
                let mut looked = ProbeResult::default();
                looked.inventory.checked = vec!["'add nsw'".into()];
                ExperimentOutcome {
                    result: ReplayResult { status, executed: true, ..ReplayResult::default() },
                    outcome: Some(Rc::new(Ok((Built { looked, ..Built::default() }, Vec::new())))),
                    digest: if filled && self.breaks { "other".into() } else { "usual".into() },
                }
            };
            Ok(experiments.iter().map(observe).collect())
        }
    }

    fn tried(mut kernel: Kernel) -> Trial {
        let configuration = |passes: &str| Configuration {
            passes: passes.into(),
            ..Configuration::recorded(Dim3::default(), Dim3::default(), 0)
        };
        let criterion = Criterion { failing: FailureKind::Wrong, bound: f64::INFINITY };
        let [failing, reference] = ["failing", "good"].map(|passes| Experiment::of(&configuration(passes)));
        trial(&mut kernel, &criterion, &failing, &reference, true).unwrap_or_else(|_| panic!("no bench fails here"))
    }

    #[test]
    fn a_kernel_is_to_blame_if_it_is_seen_to_break_what_the_failure_needs() {
        for number in 0..ASSUMPTIONS.len() {
            for is_reversed in [false, true] {
                let kernel = |breaks| Kernel { needs: Some(number), breaks, is_reversed };
                let (broken, kept) = (tried(kernel(true)), tried(kernel(false)));
                assert!(broken.broken.is_some() && broken.needed.is_empty(), "{number} {is_reversed}: {broken:?}");
                assert!(kept.broken.is_none(), "{number}: {kept:?}");
                assert_eq!(kept.needed.is_empty(), is_reversed, "{number}: {kept:?}");
            }
        }
        let none = tried(Kernel { needs: None, breaks: true, is_reversed: false });
        assert!(none.broken.is_none() && none.needed.is_empty(), "{none:?}");
    }
}
