//! Finds the other recorded launches on which a winner verifies.
//!
//! A kernel may derive its work from its dimensions, so a winner's dimensions are used only for launches on which they
//! were verified: those of [`Verification::launches`], and every launch that the rule covers once [`ENOUGH`] launches
//! with different arguments have verified. The cache keeps verdicts with the code.

use std::collections::BTreeSet;
use std::path::Path;

use mneme_recording::database::{InstanceRecord, KernelRecord};
use mneme_recording::moments::Moments;
use mneme_winners::{LaunchDimensions, ReadRule, RuleInputs, VerifiedLaunch, Winner};

use super::AppliedWinner;
use super::arguments::{number, numbers};
use super::compile::{self, NotVerified};
use super::verdict::Verdict;
use crate::parallel::in_parallel;

/// Launches with different arguments, including the tuned one, that prove a rule for all launches.
const ENOUGH: usize = 3;
/// Limit on replayed launches of a recording, besides the tuned one.
const MOST: usize = 15;

/// The verdicts on a winner for the launches of its recording.
#[derive(Debug, Default)]
pub struct Verification {
    /// Whether its code verified with the dimensions of the launch that it was tuned for.
    pub bears_own_dimensions: bool,
    pub launches: Vec<VerifiedLaunch>,
    /// Whether the rule also holds for launches that were not recorded.
    pub proves_rule: bool,
    /// Whether the rule gave dimensions with which a recorded launch does not verify.
    pub refutes_rule: bool,
}

/// Replays launches of a recording.
pub struct Replays<'a> {
    pub found: &'a AppliedWinner,
    pub record: &'a KernelRecord,
    /// Dynamic hash of the launch that the winner was tuned for, and the checksums of its memory.
    pub id: &'a str,
    pub moments: [u64; 2],
    /// The winner with its code, and the rule that gave its dimensions.
    pub winner: &'a Winner,
    pub rule: Option<&'a ReadRule>,
    /// Recorded launches with winners from the same session, and those winners' dimensions.
    pub peers: &'a [(String, LaunchDimensions)],
}

/// A launch to replay.
struct Candidate {
    id: String,
    moments: [u64; 2],
    launch: VerifiedLaunch,
}

impl Replays<'_> {
    /// Replays launches without a verdict in `known`, and adds their verdicts.
    pub fn verify(&self, known: &mut Vec<Verdict>) -> Verification {
        let Winner { recorded, tuned, arguments, numbers, .. } = self.winner;
        let own_launch = VerifiedLaunch {
            recorded: *recorded,
            tuned: *recorded,
            arguments: arguments.clone(),
            numbers: numbers.clone(),
        };
        let own = (tuned != recorded && self.winner.allows(recorded)).then(|| own_launch.clone());
        let own = own.map(|launch| Candidate { id: self.id.to_owned(), moments: self.moments, launch });
        let mut candidates = self.others();
        let has_own = own.is_some();
        candidates.extend(own);
        let mut verdicts = in_parallel(&candidates, |candidate| self.verdict(candidate, known));
        known.retain(|verdict| !verdicts.iter().flatten().any(|new| new.is_on(verdict)));
        known.extend(verdicts.iter().flatten().cloned());
        let own = if has_own { verdicts.pop().flatten() } else { None };
        let is =
            |wanted: bool| move |verdict: &Option<Verdict>| verdict.as_ref().is_some_and(|it| it.is_verified == wanted);
        let launches: Vec<VerifiedLaunch> = candidates
            .into_iter()
            .zip(&verdicts)
            .filter(|(_, verdict)| is(true)(verdict))
            .map(|(candidate, _)| candidate.launch)
            .collect();
        let mut different: BTreeSet<Vec<u8>> = launches.iter().chain(&self.of_peers()).map(values).collect();
        different.insert(values(&own_launch));
        let refutes_rule = verdicts.iter().any(is(false));
        Verification {
            bears_own_dimensions: tuned == recorded || is(true)(&own),
            launches,
            proves_rule: !refutes_rule && different.len() >= ENOUGH,
            refutes_rule,
        }
    }

    /// Whether the winner has dimensions that other launches could use.
    fn has_dimensions(&self) -> bool {
        let Winner { tuned, recorded, keeps_dimensions, prints, .. } = self.winner;
        tuned != recorded && !keeps_dimensions && !prints
    }

    /// Other launches of the recording that could use the winner's dimensions and have no winner.
    fn others(&self) -> Vec<Candidate> {
        let has_own = |id: &String| self.peers.iter().any(|(peer, _)| peer == id);
        let others =
            self.record.instances.iter().filter(|(id, _)| self.has_dimensions() && *id != self.id && !has_own(id));
        others.filter_map(|(id, instance)| self.candidate(id, instance)).take(MOST).collect()
    }

    /// Launches whose own winners have the dimensions that this winner's rule gives. They were verified when they were
    /// compiled.
    fn of_peers(&self) -> Vec<VerifiedLaunch> {
        let peers = self.peers.iter().filter(|(id, _)| self.has_dimensions() && id != self.id).take(MOST);
        let verified = peers.filter_map(|(id, tuned)| {
            let launch = self.candidate(id, self.record.instances.get(id)?)?.launch;
            (launch.tuned == *tuned).then_some(launch)
        });
        verified.collect()
    }

    fn candidate(&self, id: &str, instance: &InstanceRecord) -> Option<Candidate> {
        let Winner { recorded, tuned, cluster, cooperative, folded, .. } = self.winner;
        let InstanceRecord { grid_dims: grid, block_dims: block, shared_mem, .. } = *instance;
        let launch = LaunchDimensions { grid, block, shared_mem };
        let attributes = &instance.ours.attributes;
        let is_alike = (launch.block, launch.shared_mem) == (recorded.block, recorded.shared_mem)
            && (attributes.cluster, attributes.cooperative) == (*cluster, *cooperative);
        if !is_alike || (self.rule.is_none() && launch != *recorded) {
            return None;
        }
        let folder = self.found.recording.database.parent().filter(|folder| !folder.as_os_str().is_empty());
        let moments = Moments::open(folder.unwrap_or(Path::new(".")), self.record, instance).ok()?;
        let header = moments.prologue.header;
        let is_same = |index: &u32| header.arguments.get(*index as usize) == self.winner.arguments.get(*index as usize);
        if !folded.arguments.iter().all(is_same) {
            return None;
        }
        let arguments: Vec<Option<u64>> = header.arguments.iter().map(|argument| number(&argument.bytes)).collect();
        let inputs = RuleInputs { launch, recorded: *recorded, tuned: *tuned, arguments: &arguments };
        let shape = self.rule.map_or(Some(*tuned), |rule| rule.shape_elsewhere(&inputs))?;
        let numbers = numbers(&header.arguments, &header.allocations);
        let launch = VerifiedLaunch { recorded: launch, tuned: shape, arguments: header.arguments, numbers };
        let is_candidate = shape != launch.recorded && self.winner.allows(&shape);
        is_candidate.then(|| Candidate { id: id.to_owned(), moments: moments.checksums, launch })
    }

    /// `None` if the replay gives no answer.
    fn verdict(&self, candidate: &Candidate, known: &[Verdict]) -> Option<Verdict> {
        let Candidate { id, moments, launch } = candidate;
        let mut verdict = Verdict { id: id.clone(), moments: *moments, shape: launch.tuned, is_verified: false };
        if let Some(known) = known.iter().find(|known| known.is_on(&verdict)) {
            return Some(known.clone());
        }
        let replayed = compile::verify(self.found, id, self.winner, launch.tuned);
        match replayed {
            Ok(()) => {}
            Err(NotVerified { is_refuted: false, .. }) => return None,
            Err(NotVerified { why, .. }) => {
                mneme_system::remark!(
                    "mneme: {}: a recorded launch of {} does not verify with grid {} and block {} ({why})",
                    self.found.source.display(),
                    self.record.demangled_name,
                    launch.tuned.grid,
                    launch.tuned.block
                );
                return Some(verdict);
            }
        }
        let more_threads = launch.tuned.has_more_threads_than(&launch.recorded);
        if more_threads && !compile::touches_no_other_memory(self.found, id, &self.winner.architecture, &launch.tuned) {
            return None;
        }
        verdict.is_verified = true;
        Some(verdict)
    }
}

/// The bytes of a launch's arguments that are not addresses.
fn values(launch: &VerifiedLaunch) -> Vec<u8> {
    let VerifiedLaunch { arguments, numbers, .. } = launch;
    let words = (0..).zip(arguments).flat_map(|(index, argument)| {
        (0..).step_by(8).zip(argument.bytes.chunks(8)).map(move |(offset, word)| (index, offset, word))
    });
    let is_value = |(index, offset, word): &(u32, u32, &[u8])| word.len() < 8 || numbers.contains(&(*index, *offset));
    words.filter(is_value).flat_map(|(_, _, word)| word).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_recording::manifest::RecordedArgument;

    #[test]
    fn launches_differ_in_their_numbers_and_not_in_their_addresses() {
        let argument = |offset, bytes: &[u8]| RecordedArgument { offset, bytes: bytes.into() };
        let of = |address: u8, count: u8, long: u8| {
            let arguments = vec![argument(0, &[address; 8]), argument(8, &[count; 4]), argument(16, &[long; 8])];
            values(&VerifiedLaunch { arguments, numbers: vec![(2, 0)], ..VerifiedLaunch::default() })
        };
        assert_eq!(of(1, 2, 3), of(9, 2, 3));
        assert_ne!(of(1, 2, 3), of(1, 4, 3));
        assert_ne!(of(1, 2, 3), of(1, 2, 4));
    }
}
