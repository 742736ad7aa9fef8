//! Runs on inputs that differ from the recorded one, judged by code that is known to be right.
//!
//! `FreshInput::of` makes an input from a seed. [`FreshRuns::judge`] runs the code under test on it, in the module that
//! has run on the recorded input. It also runs the oracle (the application's own code), which computes the right result,
//! and compares both results by the rules in force.
//!
//! If the floating-point results differ from the oracle's, the code may only round differently, because compilers may
//! fuse multiplications and additions. Such code agrees if its results lie between the oracle's and those of the
//! recorded pipeline with and without fusing. These pipelines are built and run only if the code differs.
//!
//! Code may look up results by the input's contents and compute them otherwise. It is right on every input, but fast
//! only on those that it knows. So the times on fresh inputs are compared with those on the recorded one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use mneme_device::DeviceError;
use mneme_model::fresh::{PARTS, WAYS};
use mneme_model::hash::ChunkId;
use mneme_model::result::{Doubt, ReplayStatus};
use mneme_model::tolerance::DataType;
use mneme_model::tolerance::measure::{ElementValue, Errors};
use mneme_recording::manifest::CHUNK;
use mneme_recording::mask::Mask;
use mneme_recording::numbers::{self, Width};
use rayon::prelude::*;

use super::input::{FreshInput, live};
use super::left::{Contents, Digest, Left, StoredLeft};
use super::message::{Oracle, RunOutcome};
use super::report::{BufferFailure, MismatchLocation};
use super::resident::{RecordedPieces, ResidentMemory};
use super::series::Series;
use crate::verify::comparison::{Comparison, ElementTally, Part, RegionComparison};

/// Inputs are kept for other code while they take at most this many bytes.
const KEPT: usize = 256 << 20;
/// Time limit of the oracle: `SLOWER` times the run on the recorded input, plus `SLACK` in ns. It is generous, so a
/// busy machine does not discard inputs.
const SLOWER: u64 = 10;
const SLACK: u64 = 1_000_000_000;
/// Code is doubted if fresh inputs take `SLOW` times as long, and at least `TOLD` ns longer: device events cannot
/// resolve less. Before that, it runs on `MORE` further inputs.
const SLOW: f64 = 2.0;
const TOLD: u64 = 5_000;
const MORE: u64 = 6;
/// Runs on the recorded input to compare a fresh one with. One run is enough if it takes longer than this, in ns.
const USUAL: usize = 3;
const LONG: u64 = 20_000_000;
/// Numbers that differ by more than this part were not only rounded.
const NEAR: f64 = 0.01;
/// The errors of a run in a part of a region.
#[derive(Clone, Copy)]
struct PartTally {
    part: Part,
    /// Elements that are wrong individually.
    wrong: u64,
    errors: Errors,
}

/// Data shared by all runs on fresh inputs under the same rules.
#[derive(Default)]
pub struct FreshBasis {
    comparisons: Vec<RegionComparison>,
    /// The width of each region's numbers, if it holds some.
    widths: BTreeMap<usize, Option<Width>>,
    /// The errors of a kernel without effect in each piece, on the recorded input.
    idle: BTreeMap<usize, Vec<PartTally>>,
    /// Inputs by seed, and the bytes that they take.
    inputs: BTreeMap<u64, Rc<FreshInput>>,
    bytes: usize,
    /// The code of the oracle, and the results of its runs.
    oracle: Option<ChunkId>,
    answers: BTreeMap<u64, Answer>,
    usual_of_oracle: Option<u64>,
}

/// The oracle's result on an input.
#[derive(Clone)]
struct Answer {
    digest: Digest,
    /// The result itself, if it could be stored.
    left: Option<Rc<StoredLeft>>,
    /// Bytes that a kernel without effect gets wrong.
    shown: u64,
    /// Device time, ns.
    work: u64,
}

/// Runs of code and its oracle on the same inputs.
pub struct FreshRuns<'a, 'm> {
    pub code: &'a Series<'a>,
    pub oracle: &'a Series<'a>,
    /// The hash of the oracle's code.
    pub oracle_code: ChunkId,
    /// The recorded pipeline with and without fusing.
    pub pipelines: &'a [Series<'a>],
    /// Facts about the oracle.
    pub about: &'a Oracle,
    pub memory: &'a mut ResidentMemory<'m>,
    pub basis: &'a mut FreshBasis,
    pub done: &'a mut RunOutcome,
    /// Times matter.
    pub is_timed: bool,
    /// The code runs first: nothing that the oracle leaves may help it. The input is known to be useful.
    pub is_first: bool,
}

/// How much each fresh input slows down the code, compared with the oracle.
#[derive(Default)]
struct Pace(Vec<f64>);

/// The verdict on the runs on an input.
enum Verdict {
    /// The code agrees. Contains the bytes that a kernel without effect would get wrong.
    Agrees(u64),
    Discarded,
    Differs(Vec<BufferFailure>),
    Fails(DeviceError),
}

impl FreshRuns<'_, '_> {
    /// Runs on the inputs of these seeds, until one shows that the code is wrong or the context is lost.
    ///
    /// # Errors
    /// If the device fails.
    pub fn judge(mut self, seeds: &[u64]) -> Result<(), DeviceError> {
        self.basis.follow(self.memory, &self.code.comparisons, self.oracle_code);
        let mut pace = Pace::default();
        self.judge_on(seeds.iter().copied(), &mut pace)?;
        if pace.gap().is_some() && !seeds.is_empty() && self.code.order.spec.further_inputs {
            // Inputs that are made like those that are known to be useful.
            let like = seeds.iter().cycle().zip(1..=MORE);
            let further = like.map(|(seed, place)| seed.wrapping_add(place * WAYS * PARTS));
            self.judge_on(further.collect::<Vec<_>>(), &mut pace)?;
        }
        if let Some(ratio) = pace.gap().filter(|_| self.done.status == ReplayStatus::Verified) {
            self.done.doubts.push(Doubt::SlowerOnFreshInputs { ratio });
        }
        Ok(())
    }

    fn judge_on(&mut self, seeds: impl IntoIterator<Item = u64>, pace: &mut Pace) -> Result<(), DeviceError> {
        for seed in seeds {
            if self.done.broken || self.done.status != ReplayStatus::Verified {
                break;
            }
            let input = self.basis.input(self.memory, self.code.arguments, seed);
            if input.arguments.is_some() && self.code.order.folds_arguments {
                continue;
            }
            let found = &mut self.done.fresh_inputs;
            found.tried += 1;
            found.seeds.push(seed);
            match self.on(seed, &input, pace)? {
                Verdict::Agrees(shown) => {
                    self.done.agreed.push(seed);
                    let found = &mut self.done.fresh_inputs;
                    found.agreed += 1;
                    // A pipeline only agrees with itself.
                    let is_vacuous = self.about.is_same && !self.about.is_own;
                    found.shown = found.shown.max(if is_vacuous { 0 } else { shown });
                }
                Verdict::Discarded => {
                    let is_lost = self.done.broken;
                    let found = &mut self.done.fresh_inputs;
                    found.discarded += 1;
                    found.lost += u32::from(is_lost);
                }
                Verdict::Differs(failures) => self.done.fail(failures, &format!("on the fresh input of seed {seed}, ")),
                Verdict::Fails(error) => {
                    self.done.status = ReplayStatus::RuntimeError;
                    self.done.error = format!(
                        "on the fresh input of seed {seed} the kernel failed, and the application's own code does not: {error}"
                    );
                }
            }
        }
        Ok(())
    }

    fn on(&mut self, seed: u64, input: &FreshInput, pace: &mut Pace) -> Result<Verdict, DeviceError> {
        if input.is_as_recorded() {
            return Ok(Verdict::Discarded);
        }
        let answer = self.basis.answers.get(&seed).cloned();
        let is_same = self.about.is_same;
        let rehearsal = match &answer {
            Some(answer) => Some(Rehearsal { digest: answer.digest.clone(), work: answer.work }),
            // The oracle itself needs no rehearsal.
            None if self.is_first || is_same => None,
            // The oracle runs again at last: on the CPU device the code could find its result in this process.
            None => match self.oracle_on(input) {
                Some(run) => Some(run.forget()),
                None => return Ok(Verdict::Discarded),
            },
        };
        let mut run = RunOutcome::default();
        let left = self.code.left_by_once(self.memory, input, &mut run);
        self.done.broken |= run.broken;
        let mut left = match left {
            Ok(left) => left,
            Err(_) if is_same => return Ok(Verdict::Discarded),
            Err(error) => return Ok(Verdict::Fails(error)),
        };
        // Times of other code say nothing about the oracle's.
        let usual = self.done.times.iter().max().copied().filter(|_| is_same);
        let limit = usual.map_or(u64::MAX, |usual| usual.saturating_mul(SLOWER).saturating_add(SLACK));
        if run.times.first().is_some_and(|time| *time > limit) {
            return Ok(Verdict::Discarded);
        }
        let own = left.digest();
        if let Some(answer) = answer.as_ref().filter(|answer| own == answer.digest) {
            self.note_pace(pace, input, (&run.work[..], answer.work))?;
            return Ok(Verdict::Agrees(answer.shown));
        }
        let stored = answer.and_then(|answer| answer.left);
        let known = stored.as_ref().and_then(|left| left.read().ok()).zip(rehearsal.as_ref());
        let known = known.map(|(left, run)| OracleRun { left, work: run.work });
        let Some(mut right) = known.or_else(|| self.oracle_on(input)) else { return Ok(Verdict::Discarded) };
        let digest = right.left.digest();
        let rehearsal = rehearsal.or_else(|| is_same.then_some(Rehearsal { digest: own, work: right.work }));
        let is_repeated = rehearsal.as_ref().is_some_and(|run| run.digest == digest);
        let stored = stored.or_else(|| right.left.store().filter(|_| is_repeated).map(Rc::new));
        // By how much the code is wrong is unknown.
        if !left.align(&mut right.left) {
            return Ok(Verdict::Discarded);
        }
        let (left, expected) = (left.pieces, &right.left);
        let touched = input.pieces.keys().chain(expected.pieces.keys()).copied().filter(|piece| expected.holds(*piece));
        let touched: BTreeSet<usize> = touched.collect();
        let expected = &expected.pieces;
        let others = self.basis.idle.iter().filter(|(piece, _)| !touched.contains(piece) && right.left.holds(**piece));
        let others = others.flat_map(|(_, tallies)| tallies.iter().copied());
        let shown = self.failing(others.chain(self.tallies(&touched, expected, |piece| self.if_idle(input, piece))));
        let repeated = self.tallies(&touched, expected, |piece| self.if_repeated(input, piece));
        if shown == 0 || self.failing(repeated) == 0 {
            return Ok(Verdict::Discarded);
        }
        let work = rehearsal.as_ref().map_or(right.work, |run| run.work.min(right.work));
        if is_repeated {
            self.basis.answers.insert(seed, Answer { digest, left: stored, shown, work });
        }
        let failures = self.failures(expected, &left);
        if failures.is_empty() {
            self.note_pace(pace, input, (&run.work[..], work))?;
            return Ok(Verdict::Agrees(shown));
        }
        // Code that varies on this input cannot judge other code.
        let is_steady = is_repeated
            || self.oracle_on(input).is_some_and(|mut again| {
                again.left.align(&mut right.left.clone()) && self.failures(expected, &again.left.pieces).is_empty()
            });
        if !is_steady {
            return Ok(Verdict::Discarded);
        }
        let is_rounded = self.rounds_alone(input, expected, left);
        match is_rounded.filter(|_| !self.done.broken) {
            // A pipeline has failed, or leaves too much to compare.
            None => Ok(Verdict::Discarded),
            Some(false) => Ok(Verdict::Differs(failures)),
            Some(true) => {
                self.done.fresh_inputs.rounded += 1;
                self.note_pace(pace, input, (&run.work[..], work))?;
                Ok(Verdict::Agrees(shown))
            }
        }
    }

    /// Whether what the code left lies between what the oracle and the pipelines leave. Asks for the pipelines if they
    /// are missing. `None` if they leave more than can be compared, or are unsound.
    fn rounds_alone(&mut self, input: &FreshInput, right: &Contents, left: Contents) -> Option<bool> {
        // Numbers that are far from the oracle's were not only rounded.
        if !self.is_right(right, self.without_rounding(std::slice::from_ref(right), true, left.clone())) {
            return Some(false);
        }
        self.done.wants_pipelines = !self.code.order.spec.pipelines;
        let mut all = vec![right.clone()];
        let last = right.keys().chain(left.keys()).max().copied().unwrap_or(0);
        let mut all_are_sound = true;
        for pipeline in self.pipelines {
            if !self.is_sound(pipeline) {
                all_are_sound = false;
            } else if let Some(others) = self.left_by(pipeline, input) {
                if !others.holds(last) {
                    return None;
                }
                all.push(others.pieces);
            }
        }
        let is_rounded = self.is_right(right, self.without_rounding(&all, false, left));
        (is_rounded || all_are_sound).then_some(is_rounded)
    }

    /// Whether a pipeline's result on the recorded input differs from the recorded one only by rounding. If not, it can't
    /// judge other code.
    fn is_sound(&mut self, pipeline: &Series<'_>) -> bool {
        let Some(left) = self.left_by(pipeline, &FreshInput::default()).filter(|left| left.holds(usize::MAX - 1))
        else {
            return false;
        };
        let recorded = Contents::new();
        self.is_right(&recorded, self.without_rounding(std::slice::from_ref(&recorded), true, left.pieces))
    }

    /// What a pipeline leaves; `None` if it fails or the context is lost.
    fn left_by(&mut self, pipeline: &Series<'_>, input: &FreshInput) -> Option<Left> {
        if self.done.broken {
            return None;
        }
        let mut run = RunOutcome::default();
        let left = pipeline.left_by_once(self.memory, input, &mut run);
        self.done.broken |= run.broken;
        left.ok()
    }

    fn is_right(&self, right: &Contents, left: Contents) -> bool {
        self.failures(right, &left).is_empty()
    }

    /// What was left, with the first of `all` in place of numbers that lie among those of `all`, or, if `near`, that are
    /// near to the first.
    fn without_rounding(&self, all: &[Contents], near: bool, mut left: Contents) -> Contents {
        let pieces: BTreeSet<usize> = all[0].keys().chain(left.keys()).copied().collect();
        for piece in pieces {
            let Some((region, chunk)) = self.memory.chunk(piece) else { continue };
            let all: Vec<&[u8]> = all.iter().map(|contents| self.right(contents, piece)).collect();
            let mut own = self.right(&left, piece).to_vec();
            for (part, bytes) in self.code.comparisons[region].cuts(chunk as u64 * CHUNK, own.len() as u64) {
                let Some(kind) = self.basis.number_kind(region, self.rule((region, part))) else { continue };
                let size = kind.dtype.size();
                let elements = bytes.clone().step_by(size).map(|at| at..at + size);
                for element in elements.take_while(|element| element.end <= bytes.end) {
                    let mut others = all.iter().map(|bytes| &bytes[element.clone()]);
                    let is_alike = if near {
                        kind.is_near(&own[element.clone()], &all[0][element.clone()])
                    } else {
                        kind.is_among(&own[element.clone()], &mut others)
                    };
                    if is_alike {
                        own[element.clone()].copy_from_slice(&all[0][element]);
                    }
                }
            }
            left.insert(piece, own);
        }
        left
    }

    /// Compares the times of code and oracle on a fresh input with their times on the recorded one right after. The
    /// fastest of repeatable runs counts.
    fn note_pace(
        &mut self,
        pace: &mut Pace,
        input: &FreshInput,
        (code, mut oracle): (&[u64], u64),
    ) -> Result<(), DeviceError> {
        let [code, ..] = code else { return Ok(()) };
        if !self.is_timed || self.about.is_same {
            return Ok(());
        }
        if *code >= LONG
            && let Some(usual) = self.done.work.iter().copied().min()
            && let Some(usual_of_oracle) = self.usual_of_oracle()
        {
            pace.note((*code, usual), (oracle, usual_of_oracle));
            return Ok(());
        }
        let (mut usual, mut usual_of_oracle) = (u64::MAX, u64::MAX);
        for _ in 0..USUAL {
            let mut run = RunOutcome::default();
            let left = self.code.left_by_once(self.memory, &FreshInput::default(), &mut run);
            self.done.broken |= run.broken;
            left?;
            usual = run.work.into_iter().fold(usual, u64::min);
            let Some(run) = self.oracle_on(&FreshInput::default()) else { return Ok(()) };
            usual_of_oracle = usual_of_oracle.min(run.work);
        }
        oracle = self.oracle_on(input).map_or(oracle, |run| run.work.min(oracle));
        pace.note((*code, usual), (oracle, usual_of_oracle));
        Ok(())
    }

    /// The time of one run of the oracle on the recorded input, ns, for oracles with long runs. Measured once.
    fn usual_of_oracle(&mut self) -> Option<u64> {
        if self.basis.usual_of_oracle.is_none() {
            self.basis.usual_of_oracle = self.oracle_on(&FreshInput::default()).map(|run| run.work);
        }
        self.basis.usual_of_oracle
    }

    /// A run of the oracle; `None` if it fails.
    fn oracle_on(&mut self, input: &FreshInput) -> Option<OracleRun> {
        let mut run = RunOutcome::default();
        let left = self.oracle.left_by_once(self.memory, input, &mut run);
        self.done.broken |= run.broken;
        left.ok().map(|left| OracleRun { left, work: run.work.first().copied().unwrap_or(0) })
    }

    /// The contents of a piece after a kernel without effect.
    fn if_idle<'s>(&'s self, input: &'s FreshInput, piece: usize) -> Cow<'s, [u8]> {
        input.pieces.get(&piece).map_or_else(|| self.memory.before(piece), Vec::as_slice).into()
    }

    /// The contents of a piece after a kernel that always writes the recorded result.
    fn if_repeated<'s>(&'s self, input: &'s FreshInput, piece: usize) -> Cow<'s, [u8]> {
        let (before, after) = (self.memory.before(piece), self.memory.after(piece));
        let Some(input) = input.pieces.get(&piece) else { return after.into() };
        let mut left = input.clone();
        Mask::differing(before, after).copy(&mut left, after);
        left.into()
    }

    /// The errors if a kernel leaves these contents of these pieces. Pieces missing from `expected` are as recorded.
    fn tallies<'s>(
        &'s self,
        pieces: &'s BTreeSet<usize>,
        expected: &'s Contents,
        left: impl Fn(usize) -> Cow<'s, [u8]> + 's,
    ) -> impl Iterator<Item = PartTally> + 's {
        let known = self.memory.recorded_pieces();
        pieces.iter().flat_map(move |piece| {
            tallies(&self.code.comparisons, known, *piece, self.right(expected, *piece), &left(*piece))
        })
    }

    /// The bytes in parts that fail.
    fn failing(&self, tallies: impl Iterator<Item = PartTally>) -> u64 {
        let mut parts: BTreeMap<Part, (u64, Errors)> = BTreeMap::new();
        for PartTally { part, wrong, errors } in tallies {
            let all = parts.entry(part).or_default();
            *all = (all.0 + wrong, all.1.and(errors, self.rule(part).tolerance.norm));
        }
        let failing = parts.into_iter().filter(|(part, (wrong, errors))| !self.passes(*part, *wrong, errors));
        failing.map(|(part, (wrong, _))| wrong * self.rule(part).dtype().size() as u64).sum()
    }

    /// The buffers in which `left` fails. Pieces in neither are as recorded.
    fn failures(&self, expected: &Contents, left: &Contents) -> Vec<BufferFailure> {
        let mut parts: BTreeMap<Part, (ElementTally, Errors)> = BTreeMap::new();
        let mut failures = Vec::new();
        for piece in expected.keys().chain(left.keys()).copied().collect::<BTreeSet<usize>>() {
            let (expected, left) = (self.right(expected, piece), self.right(left, piece));
            if expected != left && self.memory.chunk(piece).is_none() {
                let tally = Comparison::default().tally(expected, left, 0);
                let place = MismatchLocation::Outside(self.memory.address(piece), left.len() as u64);
                failures.push(BufferFailure::of(place, &Comparison::default(), &tally, None));
            }
            let known = self.memory.recorded_pieces();
            by_part(&self.code.comparisons, known, piece, (expected, left), |part, rule, offset, (expected, left)| {
                let (tally, errors) = parts.entry(part).or_default();
                *tally = std::mem::take(tally).and(rule.tally(expected, left, offset));
                *errors = errors.and(measured(rule, (expected, left)), rule.tolerance.norm);
            });
        }
        let failing = parts.into_iter().filter(|(part, (tally, errors))| !self.passes(*part, tally.differing, errors));
        failures.extend(failing.map(|((region, part), (tally, _))| {
            let place = MismatchLocation::Region(region, &self.memory.regions()[region]);
            BufferFailure::of(place, self.rule((region, part)), &tally, None)
        }));
        failures
    }

    /// A piece of contents, or else of the recording.
    fn right<'s>(&'s self, contents: &'s Contents, piece: usize) -> &'s [u8] {
        contents.get(&piece).map_or_else(|| self.memory.after(piece), Vec::as_slice)
    }

    fn rule(&self, (region, part): Part) -> &Comparison {
        self.code.comparisons[region].part(part)
    }

    /// Whether a part of a region passes with this many individually wrong elements.
    fn passes(&self, part: Part, wrong: u64, errors: &Errors) -> bool {
        let rule = self.rule(part);
        let comparison = &self.code.comparisons[part.0];
        if rule.is_exact() {
            wrong == 0
        } else {
            rule.passes(errors, || self.memory.reference(part.0, comparison, part.1))
        }
    }
}

/// Splits a piece that differs by the rules of its region: the part, its rule, its offset in the region, and the bytes.
fn by_part(
    comparisons: &[RegionComparison],
    known: RecordedPieces<'_>,
    piece: usize,
    (expected, left): (&[u8], &[u8]),
    mut each: impl FnMut(Part, &Comparison, u64, (&[u8], &[u8])),
) {
    let Some((region, chunk)) = known.chunk(piece).filter(|_| expected != left) else { return };
    let (comparison, offset) = (&comparisons[region], chunk as u64 * CHUNK);
    for (part, bytes) in comparison.cuts(offset, left.len() as u64) {
        let (start, both) = (offset + bytes.start as u64, (&expected[bytes.clone()], &left[bytes]));
        each((region, part), comparison.part(part), start, both);
    }
}

/// The errors of a piece, by the parts of its region.
fn tallies(
    comparisons: &[RegionComparison],
    known: RecordedPieces<'_>,
    piece: usize,
    expected: &[u8],
    left: &[u8],
) -> Vec<PartTally> {
    let mut found = Vec::new();
    by_part(comparisons, known, piece, (expected, left), |part, rule, _, (expected, left)| {
        let wrong = rule.wrong(expected, left);
        found.push(PartTally { part, wrong, errors: measured(rule, (expected, left)) });
    });
    found
}

/// The errors of these bytes, if the rule needs them.
fn measured(rule: &Comparison, (expected, left): (&[u8], &[u8])) -> Errors {
    if rule.is_exact() { Errors::default() } else { rule.measure(expected, left) }
}

/// Numbers whose rounding may differ.
struct NumberKind {
    dtype: DataType,
    /// Nobody says that they are numbers; they look like some.
    guessed: Option<Width>,
}

impl NumberKind {
    /// The value of an element; `None` if it doesn't look like a number.
    fn value(&self, bytes: &[u8]) -> Option<f64> {
        if self.guessed.is_some_and(|width| !width.is_number(bytes)) {
            return None;
        }
        match ElementValue::read(self.dtype, bytes) {
            ElementValue::Integer(value) => Some(value as f64),
            ElementValue::Float(value, _) => Some(value),
        }
    }

    /// Whether two numbers are equal but for a few digits. NaNs are equal.
    fn is_near(&self, one: &[u8], other: &[u8]) -> bool {
        let (Some(one), Some(other)) = (self.value(one), self.value(other)) else { return false };
        (one.is_nan() && other.is_nan()) || one == other || (one - other).abs() <= NEAR * one.abs().max(other.abs())
    }

    /// Whether a number lies among others. NaNs are equal.
    fn is_among<'s>(&self, own: &[u8], others: impl Iterator<Item = &'s [u8]>) -> bool {
        let Some(own) = self.value(own) else { return false };
        let others: Vec<f64> = others.filter_map(|bytes| self.value(bytes)).collect();
        if own.is_nan() {
            return others.iter().any(|other| other.is_nan());
        }
        others.iter().any(|other| *other <= own) && others.iter().any(|other| *other >= own)
    }
}

impl FreshBasis {
    /// Starts again if the rules or the oracle changed.
    fn follow(&mut self, memory: &ResidentMemory<'_>, comparisons: &[RegionComparison], oracle: ChunkId) {
        if self.oracle != Some(oracle) {
            (self.oracle, self.usual_of_oracle) = (Some(oracle), None);
            self.answers.clear();
        }
        if self.comparisons == comparisons && !comparisons.is_empty() {
            return;
        }
        let known = memory.recorded_pieces();
        let pieces: Vec<(usize, usize)> = memory.region_pieces().collect();
        let idle = pieces
            .par_iter()
            .filter(|(piece, _)| known.may_change(*piece))
            .map(|(piece, _)| (*piece, tallies(comparisons, known, *piece, known.after(*piece), known.before(*piece))));
        let (idle, live) = (idle.collect(), live(memory));
        let mut widths: BTreeMap<usize, Option<Width>> = BTreeMap::new();
        for (piece, region) in pieces.iter().filter(|(_, region)| memory.regions()[*region].can_be_poisoned()) {
            let width_of = widths.entry(*region).or_default();
            *width_of = width_of.or_else(|| width(memory, &comparisons[*region], *piece, &live));
        }
        *self = Self { comparisons: comparisons.to_vec(), widths, idle, oracle: Some(oracle), ..Self::default() };
    }

    /// The floating-point numbers that a part holds; `None` if it holds none.
    fn number_kind(&self, region: usize, rule: &Comparison) -> Option<NumberKind> {
        let stated = if rule.is_exact() { rule.shown } else { Some(rule.dtype()) };
        if let Some(dtype) = stated {
            return dtype.is_float().then_some(NumberKind { dtype, guessed: None });
        }
        let width = self.widths.get(&region).copied().flatten()?;
        let (dtype, guessed) = match width {
            // Whether they are numbers of the other kind of 16 bits doesn't matter: both have the same order.
            Width::Half => (DataType::F16, None),
            Width::Single => (DataType::F32, Some(width)),
            Width::Double => (DataType::F64, Some(width)),
        };
        Some(NumberKind { dtype, guessed })
    }

    /// The input of a seed.
    fn input(&mut self, memory: &ResidentMemory<'_>, arguments: &[Vec<u8>], seed: u64) -> Rc<FreshInput> {
        if let Some(known) = self.inputs.get(&seed) {
            return known.clone();
        }
        let input = Rc::new(FreshInput::of(memory, arguments, &self.widths, seed));
        let bytes: usize = input.pieces.values().map(Vec::len).sum();
        if self.bytes + bytes <= KEPT {
            self.bytes += bytes;
            self.inputs.insert(seed, input.clone());
        }
        input
    }
}

/// A run of the oracle: its result, and its device time in ns.
struct OracleRun {
    left: Left,
    work: u64,
}

/// The digest and device time of a run of the oracle, without its memory.
struct Rehearsal {
    digest: Digest,
    work: u64,
}

impl OracleRun {
    /// Wipes the result from memory.
    fn forget(self) -> Rehearsal {
        let digest = self.left.digest();
        self.left.wipe();
        Rehearsal { digest, work: self.work }
    }
}

impl Pace {
    /// Notes the times of both on a fresh input and on the recorded one, ns.
    fn note(&mut self, code: (u64, u64), oracle: (u64, u64)) {
        let of = |(fresh, recorded): (u64, u64)| fresh.max(1) as f64 / recorded.max(1) as f64;
        let expected = code.1 as f64 * of(oracle);
        let is_told = (code.0 as f64 - expected).abs() > TOLD as f64;
        self.0.push(if is_told { of(code) / of(oracle) } else { 1.0 });
    }

    /// The slowdown of the code on fresh inputs, if it is too large. The input with the smallest one counts.
    fn gap(&self) -> Option<f64> {
        self.0.iter().copied().min_by(f64::total_cmp).filter(|ratio| *ratio >= SLOW)
    }
}

/// The width of a piece's numbers, if it holds some.
fn width(
    memory: &ResidentMemory<'_>,
    comparison: &RegionComparison,
    piece: usize,
    live: &[Range<u64>],
) -> Option<Width> {
    let (_, chunk) = memory.chunk(piece)?;
    let bytes = memory.recorded(piece);
    let (part, _) = comparison.cuts(chunk as u64 * CHUNK, bytes.len() as u64).next()?;
    match comparison.part(part).shown {
        Some(dtype) if !dtype.is_float() => None,
        _ => numbers::width(bytes, live),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_knows_the_recorded_input_is_told_by_its_times() {
        let pace = |runs: &[(u64, u64, u64)]| {
            let mut pace = Pace::default();
            runs.iter().for_each(|(code, usual, oracle)| pace.note((*code, *usual), (*oracle, 1_000_000)));
            pace.gap().map(f64::round)
        };
        assert_eq!(
            pace(&[(110_000, 100_000, 1_000_000), (90_000, 100_000, 900_000), (2_000_000, 100_000, 1_000_000)]),
            None
        );
        assert_eq!(pace(&[(400_000, 100_000, 4_000_000); 3]), None, "such inputs take longer");
        assert_eq!(pace(&[(1_000_000, 100_000, 1_000_000); 3]), Some(10.0));
        let mut short = Pace::default();
        (0..3).for_each(|_| short.note((6_500, 2_000), (2_000, 2_000)));
        assert_eq!(short.gap(), None, "events tell no less");
    }
}
