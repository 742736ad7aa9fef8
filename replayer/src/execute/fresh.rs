//! Runs on inputs that differ from the recorded one, judged by code that is known to be right.
//!
//! `FreshInput::of` makes an input from a seed: it changes the recorded memory and leaves addresses alone.
//! [`FreshRuns::judge`] runs the code under test on it, in the module that has run on the recorded input, and the
//! oracle (the application's own code), which computes what is right, and compares what both left by the rules in
//! force.
//!
//! Code that looks up its results, by what the input holds, is right on every input, and fast on those that it knows.
//! So the times on fresh inputs are compared with those on the recorded one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mneme_device::DeviceError;
use mneme_model::hash::{ChunkId, chunk_id};
use mneme_model::result::{Doubt, ReplayStatus};
use mneme_model::tolerance::measure::Errors;
use mneme_recording::manifest::CHUNK;
use mneme_recording::mask::Mask;
use mneme_recording::numbers::{self, Width};

use super::message::{Oracle, RunOutcome};
use super::report::{BufferFailure, MismatchLocation};
use super::resident::ResidentMemory;
use super::series::Series;
use crate::recording::snapshot::SnapshotRegion;
use crate::verify::comparison::{Comparison, ElementTally, Part, RegionComparison};

/// Ways in which inputs are made from seeds.
pub const WAYS: u64 = 4;
/// The way whose inputs are nearest to the recorded one: for kernels that fail or run for long on others.
pub const GENTLE: u64 = WAYS - 1;
/// Pieces that are changed: one of so many, at least and at most so many. All have to be made and read back.
const PART: u64 = 50;
const FEW: u64 = (4 << 20) / CHUNK;
const MOST: u64 = (256 << 20) / CHUNK;
/// The oracle may take so many times as long as the run on the recorded input, and this besides, ns. That is much, so
/// that no input is left out because the machine is busy.
const SLOWER: u64 = 10;
const SLACK: u64 = 1_000_000_000;
/// Code that takes so many times as long on fresh inputs is doubted, if that is this much longer, ns: events of devices
/// tell no less. Before that it runs on so many further inputs.
const SLOW: f64 = 2.0;
const TOLD: u64 = 5_000;
const MORE: u64 = 6;
/// Runs on the recorded input that a fresh one is compared with; one of those that take longer than this, ns.
const USUAL: usize = 3;
const LONG: u64 = 20_000_000;
/// Bytes of an address, and of an element of unknown type that changes places.
const WORD: usize = 8;
/// Bytes of an element of unknown type whose lowest bits change, and which.
const SMALL: usize = 4;
const LOW: u8 = 7;

/// Contents of pieces, by their numbers.
type Contents = BTreeMap<usize, Vec<u8>>;

/// How an input is changed. Of [`WAYS`] seeds in a row each has another one, or changes another part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Floating-point numbers change in their last bits.
    LastBits,
    /// Floating-point numbers get other mantissas.
    Mantissas,
    /// Floating-point numbers change places, and the lowest bits of other elements change.
    Numbers,
    /// All words change places.
    Words,
    /// The lowest bits of all elements change: of small numbers, such as counts, and of codes.
    Bits,
}

impl Change {
    fn of(seed: u64, has_numbers: bool) -> Self {
        match (seed % WAYS, has_numbers) {
            (GENTLE, true) => Self::LastBits,
            (0, true) => Self::Mantissas,
            (1, true) => Self::Numbers,
            (0 | GENTLE, false) => Self::Bits,
            _ => Self::Words,
        }
    }
}

struct FreshInput {
    /// The pieces that are not as recorded.
    pieces: Contents,
    /// They differ in more than what the kernel only writes.
    is_other: bool,
}

/// Runs of code and its oracle on the same inputs.
pub struct FreshRuns<'a, 'm> {
    pub code: &'a Series<'a>,
    pub oracle: &'a Series<'a>,
    /// What is known of the oracle.
    pub about: &'a Oracle,
    pub memory: &'a mut ResidentMemory<'m>,
    pub done: &'a mut RunOutcome,
    /// Times matter.
    pub is_timed: bool,
}

/// By how much each fresh input slows the code down more than the oracle.
#[derive(Default)]
struct Pace(Vec<f64>);

/// What the runs on an input came to.
enum Verdict {
    /// The code agrees, and this is what a kernel that does nothing would leave wrong, bytes.
    Agrees(u64),
    Discarded,
    Differs(Vec<BufferFailure>),
    Fails(DeviceError),
}

impl FreshRuns<'_, '_> {
    /// Runs on the inputs of these seeds, until one shows that the code is wrong or a context is lost.
    ///
    /// # Errors
    /// The device fails.
    pub fn judge(mut self, seeds: &[u64]) -> Result<(), DeviceError> {
        let mut pace = Pace::default();
        self.judge_on(seeds.iter().copied(), &mut pace)?;
        if pace.gap().is_some()
            && let Some(last) = seeds.last()
        {
            self.judge_on((1..=MORE).map(|further| last.wrapping_add(further)), &mut pace)?;
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
            let found = &mut self.done.fresh_inputs;
            found.tried += 1;
            found.seeds.push(seed);
            match self.on(seed, pace)? {
                Verdict::Agrees(shown) => {
                    let found = &mut self.done.fresh_inputs;
                    found.agreed += 1;
                    // A pipeline only agrees with itself.
                    let is_vacuous = self.about.is_same && !self.about.is_own;
                    found.shown = found.shown.max(if is_vacuous { 0 } else { shown });
                }
                Verdict::Discarded => self.done.fresh_inputs.discarded += 1,
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

    fn on(&mut self, seed: u64, pace: &mut Pace) -> Result<Verdict, DeviceError> {
        let FreshInput { pieces: input, is_other } = FreshInput::of(self.memory, &self.code.comparisons, seed);
        self.done.has_input |= is_other;
        if input.is_empty() {
            return Ok(Verdict::Discarded);
        }
        // The oracle runs last: on the CPU device the code could find its result in this process.
        let Some(rehearsal) = self.oracle_on(&input).map(OracleRun::forget) else { return Ok(Verdict::Discarded) };
        // Times of other code say nothing about the oracle's.
        let usual = self.done.times.iter().max().copied().filter(|_| self.about.is_same);
        if usual.is_some_and(|usual| rehearsal.time > usual.saturating_mul(SLOWER).saturating_add(SLACK)) {
            return Ok(Verdict::Discarded);
        }
        let mut run = RunOutcome::default();
        let left = self.code.once(self.memory, &input, &mut run);
        self.done.broken |= run.broken;
        let left = match left {
            Ok(left) => left,
            Err(error) => return Ok(Verdict::Fails(error)),
        };
        let Some(right) = self.oracle_on(&input) else { return Ok(Verdict::Discarded) };
        let shown = self.wrong(&right.left, &self.pieces_if_idle(&input), |piece| self.if_idle(&input, piece));
        let touched: BTreeSet<usize> = input.keys().chain(right.left.keys()).copied().collect();
        if shown == 0 || self.wrong(&right.left, &touched, |piece| self.if_repeated(&input, piece)) == 0 {
            return Ok(Verdict::Discarded);
        }
        let failures = self.failures(&right.left, &left);
        if failures.is_empty() {
            self.note_pace(pace, &input, (&run.work[..], right.work.min(rehearsal.work)))?;
            return Ok(Verdict::Agrees(shown));
        }
        // Code that varies on this input says nothing about other code.
        let is_steady = right.digest() == rehearsal.digest
            || self.oracle_on(&input).is_some_and(|again| self.failures(&right.left, &again.left).is_empty());
        Ok(if is_steady { Verdict::Differs(failures) } else { Verdict::Discarded })
    }

    /// Compares times on a fresh input, of code and oracle, with those that both take on the recorded one right after.
    /// Of runs that can be repeated, the fastest counts.
    fn note_pace(
        &mut self,
        pace: &mut Pace,
        input: &Contents,
        (code, mut oracle): (&[u64], u64),
    ) -> Result<(), DeviceError> {
        let [code, ..] = code else { return Ok(()) };
        if !self.is_timed || self.about.is_same {
            return Ok(());
        }
        let (mut usual, mut usual_of_oracle) = (u64::MAX, u64::MAX);
        for _ in 0..if *code < LONG { USUAL } else { 1 } {
            let mut run = RunOutcome::default();
            let left = self.code.once(self.memory, &Contents::new(), &mut run);
            self.done.broken |= run.broken;
            left?;
            usual = run.work.into_iter().fold(usual, u64::min);
            let Some(run) = self.oracle_on(&Contents::new()) else { return Ok(()) };
            usual_of_oracle = usual_of_oracle.min(run.work);
        }
        if *code < LONG {
            oracle = self.oracle_on(input).map_or(oracle, |run| run.work.min(oracle));
        }
        pace.note((*code, usual), (oracle, usual_of_oracle));
        Ok(())
    }

    /// A run of the oracle; `None` if it fails.
    fn oracle_on(&mut self, input: &Contents) -> Option<OracleRun> {
        let mut run = RunOutcome::default();
        let left = self.oracle.once(self.memory, input, &mut run);
        self.done.broken |= run.broken;
        let first = |of: &[u64]| of.first().copied().unwrap_or(0);
        left.ok().map(|left| OracleRun { left, time: first(&run.times), work: first(&run.work) })
    }

    /// The pieces in which a kernel that does nothing may leave something else than the oracle.
    fn pieces_if_idle(&self, input: &Contents) -> BTreeSet<usize> {
        let is_changed = |piece: &usize| !std::ptr::eq(self.memory.before(*piece), self.memory.after(*piece));
        let recorded = self.memory.region_pieces().map(|(piece, _)| piece).filter(is_changed);
        recorded.chain(input.keys().copied()).collect()
    }

    /// What a kernel that does nothing leaves of a piece.
    fn if_idle<'s>(&'s self, input: &'s Contents, piece: usize) -> Cow<'s, [u8]> {
        input.get(&piece).map_or_else(|| self.memory.before(piece), Vec::as_slice).into()
    }

    /// What a kernel leaves of a piece that writes the recorded result whatever its input is.
    fn if_repeated<'s>(&'s self, input: &'s Contents, piece: usize) -> Cow<'s, [u8]> {
        let (before, after) = (self.memory.before(piece), self.memory.after(piece));
        let Some(input) = input.get(&piece) else { return after.into() };
        let mut left = input.clone();
        Mask::differing(before, after).copy(&mut left, after);
        left.into()
    }

    /// The bytes of these pieces and of `expected` that fail if a kernel leaves this of them. Pieces that `expected` lacks
    /// are as recorded.
    fn wrong<'s>(
        &'s self,
        expected: &'s Contents,
        pieces: &BTreeSet<usize>,
        left: impl Fn(usize) -> Cow<'s, [u8]>,
    ) -> u64 {
        let mut parts: BTreeMap<Part, (u64, Errors)> = BTreeMap::new();
        for piece in pieces.iter().chain(expected.keys()).copied().collect::<BTreeSet<usize>>() {
            let expected = self.right(expected, piece);
            self.by_part(piece, expected, &left(piece), |part, rule, _, (expected, left)| {
                let (wrong, errors) = parts.entry(part).or_default();
                *wrong += rule.wrong(expected, left);
                *errors = measured(*errors, rule, (expected, left));
            });
        }
        let failing = parts.into_iter().filter(|(part, (wrong, errors))| !self.passes(*part, *wrong, errors));
        failing.map(|(part, (wrong, _))| wrong * self.rule(part).dtype().size() as u64).sum()
    }

    /// The buffers in which `left` fails. Pieces that are in neither are as recorded.
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
            self.by_part(piece, expected, left, |part, rule, offset, (expected, left)| {
                let (tally, errors) = parts.entry(part).or_default();
                *tally = std::mem::take(tally).and(rule.tally(expected, left, offset));
                *errors = measured(*errors, rule, (expected, left));
            });
        }
        let failing = parts.into_iter().filter(|(part, (tally, errors))| !self.passes(*part, tally.differing, errors));
        failures.extend(failing.map(|((region, part), (tally, _))| {
            let place = MismatchLocation::Region(region, &self.memory.regions()[region]);
            BufferFailure::of(place, self.rule((region, part)), &tally, None)
        }));
        failures
    }

    /// A piece of contents; one that is not in them is as recorded.
    fn right<'s>(&'s self, contents: &'s Contents, piece: usize) -> &'s [u8] {
        contents.get(&piece).map_or_else(|| self.memory.after(piece), Vec::as_slice)
    }

    fn rule(&self, (region, part): Part) -> &Comparison {
        self.code.comparisons[region].part(part)
    }

    /// Whether a part of a region passes in which so many elements are wrong by themselves.
    fn passes(&self, part: Part, wrong: u64, errors: &Errors) -> bool {
        let rule = self.rule(part);
        let comparison = &self.code.comparisons[part.0];
        if rule.is_exact() {
            wrong == 0
        } else {
            rule.passes(errors, || self.memory.reference(part.0, comparison, part.1))
        }
    }

    /// Cuts a piece that differs by the rules of its region: the part, its rule, its offset in the region, and the bytes.
    fn by_part(
        &self,
        piece: usize,
        expected: &[u8],
        left: &[u8],
        mut each: impl FnMut(Part, &Comparison, u64, (&[u8], &[u8])),
    ) {
        let Some((region, chunk)) = self.memory.chunk(piece).filter(|_| expected != left) else { return };
        let (comparison, offset) = (&self.code.comparisons[region], chunk as u64 * CHUNK);
        for (part, bytes) in comparison.cuts(offset, left.len() as u64) {
            let (start, both) = (offset + bytes.start as u64, (&expected[bytes.clone()], &left[bytes]));
            each((region, part), comparison.part(part), start, both);
        }
    }
}

/// These errors and those of further bytes, if the rule needs them.
fn measured(errors: Errors, rule: &Comparison, (expected, left): (&[u8], &[u8])) -> Errors {
    if rule.is_exact() { errors } else { errors.and(rule.measure(expected, left), rule.tolerance.norm) }
}

/// A run of the oracle: what it left, the time that it took, and what it took of the device, ns.
struct OracleRun {
    left: Contents,
    time: u64,
    work: u64,
}

/// The digest and times of a run of the oracle, without its memory.
struct Rehearsal {
    digest: Vec<ChunkId>,
    time: u64,
    work: u64,
}

impl OracleRun {
    fn digest(&self) -> Vec<ChunkId> {
        self.left.values().map(|bytes| chunk_id(bytes)).collect()
    }

    /// Wipes what it left.
    fn forget(mut self) -> Rehearsal {
        let digest = self.digest();
        for bytes in self.left.values_mut() {
            bytes.fill(0);
            std::hint::black_box(bytes);
        }
        Rehearsal { digest, time: self.time, work: self.work }
    }
}

impl Pace {
    /// Notes what both take on a fresh input and on the recorded one, ns.
    fn note(&mut self, code: (u64, u64), oracle: (u64, u64)) {
        let of = |(fresh, recorded): (u64, u64)| fresh.max(1) as f64 / recorded.max(1) as f64;
        let expected = code.1 as f64 * of(oracle);
        let is_told = (code.0 as f64 - expected).abs() > TOLD as f64;
        self.0.push(if is_told { of(code) / of(oracle) } else { 1.0 });
    }

    /// By how much the code is slower on fresh inputs, if that is too much. The input on which it is least counts.
    fn gap(&self) -> Option<f64> {
        self.0.iter().copied().min_by(f64::total_cmp).filter(|ratio| *ratio >= SLOW)
    }
}

impl FreshInput {
    /// The input of a seed. It is empty if there is nothing that can be changed so.
    fn of(memory: &ResidentMemory<'_>, comparisons: &[RegionComparison], seed: u64) -> Self {
        let live: Vec<Range<u64>> = memory.live().into_iter().map(|(start, end)| start..end).collect();
        let regions = memory.regions();
        let pieces: Vec<(usize, usize)> =
            memory.region_pieces().filter(|(_, region)| regions[*region].can_be_poisoned()).collect();
        let mut widths: BTreeMap<usize, Option<Width>> = BTreeMap::new();
        for (piece, region) in &pieces {
            let known = widths.entry(*region).or_default();
            *known = known.or_else(|| width(memory, &comparisons[*region], *piece, &live));
        }
        let has_numbers = widths.values().any(Option::is_some);
        let change = Change::of(seed, has_numbers);
        let mut state = seed;
        let of_all = pieces.len() as u64;
        let wanted = (of_all / PART).clamp(FEW, MOST);
        let (mut changed, mut is_other) = (Contents::new(), false);
        for (piece, region) in pieces {
            let own = numbers::next(&mut state);
            if own % of_all.max(1) >= wanted {
                continue;
            }
            let before = memory.before(piece);
            let mut bytes = before.to_vec();
            let part = part(seed, &regions[region], memory.chunk(piece).map_or(0, |(_, chunk)| chunk), bytes.len());
            apply(change, &mut bytes[part], widths[&region], &live, own);
            memory.fill(piece, &mut bytes, before);
            is_other |= bytes != before;
            // What is filled stays so, or is what an earlier launch on the recorded input has left: code that only
            // works if it finds nonsense there is wrong.
            memory.fill(
                piece,
                &mut bytes,
                if matches!(change, Change::Mantissas | Change::LastBits) { before } else { memory.after(piece) },
            );
            if bytes != before {
                changed.insert(piece, bytes);
            }
        }
        Self { pieces: changed, is_other }
    }
}

/// The part of a piece that changes: all of it, or what is in one half of its region. So code is found out that looks
/// at the beginning or the end of its input, and takes the rest for what it knows.
fn part(seed: u64, region: &SnapshotRegion, chunk: usize, length: usize) -> Range<usize> {
    let half = region.size as usize / 2 / WORD * WORD;
    let cut = half.saturating_sub(chunk * CHUNK as usize).min(length);
    match seed % 3 {
        0 => 0..length,
        1 => cut..length,
        _ => 0..cut,
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

fn apply(change: Change, bytes: &mut [u8], width: Option<Width>, live: &[Range<u64>], seed: u64) {
    match (change, width) {
        (Change::Mantissas, Some(width)) => {
            numbers::replace(bytes, width, live, seed);
        }
        (Change::Bits | Change::Numbers, None) => flip(bytes, live, seed),
        (Change::Numbers | Change::Words | Change::Bits, Some(width)) => permute(bytes, width as usize, live, seed),
        (Change::Words, None) => {
            let before = bytes.to_vec();
            permute(bytes, WORD, live, seed);
            if bytes == before {
                flip(bytes, live, seed);
            }
        }
        (Change::LastBits, Some(width)) => {
            numbers::nudge(bytes, width, live, seed);
        }
        (Change::Mantissas | Change::LastBits, None) => {}
    }
}

/// Changes the lowest bits of elements.
fn flip(bytes: &mut [u8], live: &[Range<u64>], seed: u64) {
    let mut state = seed;
    for word in bytes.chunks_mut(WORD).filter(|word| !numbers::is_address(word, live)) {
        for element in word.chunks_mut(SMALL) {
            element[0] ^= numbers::next(&mut state) as u8 & LOW;
        }
    }
}

/// Has elements of so many bytes change places. Words that may be addresses stay where they are.
fn permute(bytes: &mut [u8], size: usize, live: &[Range<u64>], seed: u64) {
    let words = bytes.chunks(WORD).enumerate().filter(|(_, word)| !numbers::is_address(word, live));
    let places = words.flat_map(|(word, bytes)| (0..bytes.len() / size).map(move |part| word * WORD + part * size));
    let places: Vec<usize> = places.collect();
    let mut state = seed;
    for last in (1..places.len()).rev() {
        let other = (numbers::next(&mut state) % (last as u64 + 1)) as usize;
        for byte in 0..size {
            bytes.swap(places[last] + byte, places[other] + byte);
        }
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

    #[test]
    fn elements_change_places_and_addresses_stay() {
        let recorded: Range<u64> = 0x1000_0000_0000..0x1000_0000_1000;
        let live = std::slice::from_ref(&recorded);
        let words: Vec<u64> = (0..100).map(|word| if word % 10 == 0 { recorded.start + word } else { word }).collect();
        let before: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes = before.clone();
        permute(&mut bytes, 8, live, 7);
        let after: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert!((0..100).step_by(10).all(|place| after[place] == words[place]));
        let moved = after.iter().zip(&words).filter(|(after, before)| after != before).count();
        assert!(moved > 70, "{moved}");
        let (mut sorted, mut all) = (after, words);
        sorted.sort_unstable();
        all.sort_unstable();
        assert_eq!(sorted, all);
        let mut again = before;
        permute(&mut again, 8, live, 7);
        assert_eq!(again, bytes, "of a seed follows an input");
    }

    #[test]
    fn a_rest_that_is_no_element_stays() {
        let mut bytes = *b"abcdefghijk";
        permute(&mut bytes, 8, &[], 3);
        assert_eq!(&bytes, b"abcdefghijk", "there is one whole element");
        permute(&mut bytes, 4, &[], 3);
        assert_eq!(&bytes[8..], b"ijk");
    }
}
