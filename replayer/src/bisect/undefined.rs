//! A test of whether a kernel has undefined behaviour.
//!
//! A pass that makes use of that is right.
//!
//! What is replayed here is the reference, so that what shows is the source's own and no pass's doing.

use mneme_builds::probe::Revision;
use mneme_core::configuration::Configuration;
use mneme_core::observation::{Fault, Finding, Observe};
use mneme_core::result::ReplayStatus;

use super::experiments::{Experiment, ExperimentRunner, RunExperiments};
use crate::error::Fatal;

/// Two bytes with no bit in common.
const FILLINGS: [u8; 2] = [0x55, 0xaa];
/// Faulty accesses that are told.
const MOST: usize = 4;
/// All instructions.
const ALL: u64 = u64::MAX;

/// What was seen, a sentence each; none where the kernel behaved. Accesses are watched as mneme-replay --check does.
pub fn evidence(runner: &mut ExperimentRunner<'_>, reference: &Configuration) -> Result<Vec<String>, Fatal> {
    runner.say("looking for undefined behaviour of the kernel");
    let plain = Experiment { digest: true, runs: 2, ..Experiment::of(reference) };
    let revised = |revision| {
        let mut experiment = plain.clone();
        experiment.probe.revisions = vec![revision];
        experiment
    };
    let fillings = FILLINGS.map(|byte| revised(Revision::FillLocals(byte)));
    let trap = |from, to| Experiment { runs: 1, ..revised(Revision::TrapUndefined { from, to }) };
    let [one, other] = fillings;
    let watched = Experiment { observe: Some(Observe::Faults), ..Experiment::of(reference) };
    let seen = runner.observe(vec![plain.clone(), one, other, trap(0, ALL), watched])?;
    let mut evidence = Vec::new();
    let [usual, one, other, trapped, watched] = &seen[..] else { return Ok(evidence) };
    if one.has_run() && other.has_run() && one.digest != other.digest {
        evidence.push("the result depends on what local variables hold before they are set".into());
    }
    evidence.extend(watched.result.faults.iter().flat_map(|faults| &faults.findings).take(MOST).map(access));
    if usual.has_run() && trapped.result.status == ReplayStatus::RuntimeError {
        // The first that ends the kernel by itself.
        let checked =
            runner.observe_one(trap(0, 0))?.probed().map_or_else(Vec::new, |probed| probed.inventory.checked.clone());
        let (mut from, mut to) = (0, checked.len());
        while from + 1 < to {
            let middle = (from + to) / 2;
            let ended =
                runner.observe_one(trap(from as u64, middle as u64))?.result.status == ReplayStatus::RuntimeError;
            (from, to) = if ended { (from, middle) } else { (middle, to) };
        }
        let what = checked.get(from).map_or("an instruction", String::as_str);
        evidence.push(format!("{what} has no defined result for the recorded values: the kernel overflows, shifts too far, divides by zero or goes where it promised not to go"));
    }
    Ok(evidence)
}

/// A faulty access in one sentence.
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
