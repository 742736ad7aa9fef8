//! Finds the bytes that a kernel only writes, with code that is known to be right.
//!
//! [`Calibration::find`] fills bytes of the memory, runs the code, and checks the result:
//!
//! 1. Runs on the recorded memory show which results vary.
//! 2. Runs with some low bits of each element flipped show which elements the kernel writes: it did not write those
//!    whose flipped bits stay. The first runs flip bits of all buffers. The others flip only the written buffers, so
//!    the inputs are the recorded ones. Indices and sizes stay near their recorded values, so few kernels fail. The
//!    bits depend on the element and the run, so a copy of a flipped element does not look like an unchanged one.
//! 3. Each buffer's written bytes are filled with a pattern. If some of them, or anything else, then differ from the
//!    recorded result, the kernel reads them first, and they leave the set.
//! 4. All sets are filled together, several times from each of two complementary patterns. Bytes that stay filled leave
//!    the set.
//!
//! This removes padding, partly written words, races and data-dependent writes from the set.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mneme_device::DeviceError;
use mneme_recording::manifest::CHUNK;
use mneme_recording::mask::Mask;
use mneme_recording::poison::{PATTERN, PoisonMap, UnshownBytes};
use rayon::prelude::*;

use super::message::RunOutcome;
use super::resident::{RecordedPieces, ResidentMemory};
use super::series::Series;
use crate::verify::comparison::RegionComparison;
use crate::verify::evidence;

/// Runs from each pattern, and runs that show which results vary. One of each if runs are long.
const RUNS: usize = 3;
const LONG: Duration = Duration::from_secs(1);
/// Time limit for all runs. Memory not checked by then is not filled.
const BUDGET: Duration = Duration::from_secs(60);
/// Pieces in which bits are flipped at a time. All of them may have to be read back.
const WINDOW: usize = (256 << 20) / CHUNK as usize;
/// How often the combined sets may turn out to be too large.
const ROUNDS: usize = 4;
/// How often the bytes of one buffer may turn out to be too many.
const TRIES: usize = 3;
/// Bytes of an element of unknown type.
const ELEMENT: usize = 4;
/// Bytes of an address, and of the largest element.
const WORD: usize = 8;

/// Bytes of pieces, by their numbers.
type Sets = BTreeMap<usize, Mask>;
/// Contents of pieces that differ from the recording.
type Contents = BTreeMap<usize, Vec<u8>>;

/// Runs of right code on partly filled memory.
pub struct Calibration<'a, 'm> {
    series: &'a Series<'a>,
    memory: &'a mut ResidentMemory<'m>,
    done: &'a mut RunOutcome,
    /// The regions to calibrate.
    regions: BTreeSet<usize>,
    begin: Instant,
    runs: usize,
    /// Results that vary between runs.
    varying: Sets,
    /// The ranges of recorded memory, as first and last + 1 address, ascending.
    live: Vec<(u64, u64)>,
}

/// The state of filled bytes after a run.
#[derive(Default)]
struct Verdict {
    /// Bytes with the recorded result.
    right: Sets,
    /// Regions with filled bytes that hold neither the recorded result nor the pattern.
    wrong: BTreeSet<usize>,
    /// Elements with filled bytes that changed to something else.
    others: Sets,
    /// Whether an unfilled byte differs from the recording.
    is_elsewhere: bool,
}

/// The same for one piece: filled bytes without the recorded result, those of them that also lost the pattern, and
/// whether an unfilled byte differs from the recording.
struct PieceVerdict {
    wrong: Mask,
    others: Mask,
    is_elsewhere: bool,
}

impl Verdict {
    fn is_clean(&self) -> bool {
        !self.is_elsewhere && self.wrong.is_empty()
    }
}

impl<'a, 'm> Calibration<'a, 'm> {
    pub fn new(
        series: &'a Series<'a>,
        memory: &'a mut ResidentMemory<'m>,
        done: &'a mut RunOutcome,
        regions: &[usize],
    ) -> Self {
        let all = memory.regions();
        let regions = regions.iter().copied().filter(|it| all.get(*it).is_some_and(|it| it.can_be_poisoned()));
        let (regions, live) = (regions.collect(), memory.meaningful());
        Self { series, memory, done, regions, begin: Instant::now(), runs: RUNS, varying: Sets::new(), live }
    }

    /// The bytes of the regions that the kernel only writes.
    ///
    /// # Errors
    /// If the kernel or the device fails.
    pub fn find(mut self) -> Result<PoisonMap, DeviceError> {
        self.find_varying()?;
        let written = self.written()?;
        let steady = without(written.clone(), &self.varying_words());
        let mut found = Sets::new();
        for region in self.regions.clone() {
            if self.is_late() {
                break;
            }
            found.append(&mut self.only_written(&self.of_region(&steady, region))?);
        }
        let found = self.together(found)?;
        Ok(self.map(&written, &found))
    }

    fn look(&self) -> Look<'_> {
        Look {
            pieces: self.memory.recorded_pieces(),
            comparisons: &self.series.comparisons,
            varying: &self.varying,
            live: &self.live,
        }
    }

    fn is_late(&self) -> bool {
        self.begin.elapsed() > BUDGET
    }

    fn find_varying(&mut self) -> Result<(), DeviceError> {
        let mut run = 0;
        while run < self.runs {
            let begin = Instant::now();
            let left = self.run(&BTreeMap::new())?;
            if begin.elapsed() > LONG {
                self.runs = 1;
            }
            let pieces = self.memory.recorded_pieces();
            let differing: Vec<(usize, Mask)> =
                left.par_iter().map(|(piece, bytes)| (*piece, Mask::differing(bytes, pieces.after(*piece)))).collect();
            for (piece, mask) in differing {
                self.varying.entry(piece).or_default().add(&mask);
            }
            run += 1;
        }
        Ok(())
    }

    /// The words with a varying byte. Bytes in them match the recording only by chance.
    fn varying_words(&self) -> Sets {
        let widened =
            |(piece, mask): (&usize, &Mask)| (*piece, mask.clone().widened(WORD, self.memory.after(*piece).len()));
        self.varying.iter().map(widened).collect()
    }

    /// The elements that the kernel writes on its recorded inputs, as far as flipped bits show.
    ///
    /// With flipped inputs a kernel writes other values to other places, so the first runs only show which buffers it
    /// writes. The second runs flip only the bits of these buffers.
    fn written(&mut self) -> Result<Sets, DeviceError> {
        let regions = self.regions.clone();
        let touched = self.written_among(&regions)?;
        let touched = touched.keys().filter_map(|piece| self.memory.chunk(*piece)).map(|(region, _)| region).collect();
        self.written_among(&touched)
    }

    /// The elements of these buffers that the kernel writes if their bits are flipped.
    fn written_among(&mut self, regions: &BTreeSet<usize>) -> Result<Sets, DeviceError> {
        let pieces = self.memory.region_pieces().filter(|(_, region)| regions.contains(region));
        let pieces: Vec<usize> = pieces.map(|(piece, _)| piece).collect();
        let mut written = Sets::new();
        let windows = pieces.chunks(WINDOW).flat_map(|window| (0..self.runs).map(move |run| (window, run)));
        for (window, run) in windows.collect::<Vec<_>>() {
            if self.is_late() {
                break;
            }
            let look = self.look();
            let flipped: Contents = window.par_iter().map(|piece| (*piece, look.flipped(*piece, run))).collect();
            let left = self.run(&flipped)?;
            let look = self.look();
            let of = |(piece, flipped): (&usize, &Vec<u8>)| {
                let left = left.get(piece).map_or_else(|| look.pieces.after(*piece), Vec::as_slice);
                (*piece, look.written_of(*piece, flipped, left))
            };
            let found: Vec<(usize, Mask)> = flipped.par_iter().map(of).filter(|(_, mask)| !mask.is_empty()).collect();
            for (piece, mask) in found {
                written.entry(piece).or_default().add(&mask);
            }
        }
        Ok(written)
    }

    fn of_region(&self, sets: &Sets, region: usize) -> Sets {
        let is_own = |piece: usize| self.memory.chunk(piece).is_some_and(|(own, _)| own == region);
        sets.iter().filter(|(piece, _)| is_own(**piece)).map(|(piece, mask)| (*piece, mask.clone())).collect()
    }

    /// The part of a buffer's written bytes that the kernel does not read first.
    fn only_written(&mut self, written: &Sets) -> Result<Sets, DeviceError> {
        let mut candidates = written.clone();
        for _ in 0..TRIES {
            if candidates.is_empty() || self.is_late() {
                break;
            }
            let verdict = self.fill(&candidates, PATTERN)?;
            if verdict.is_clean() {
                return Ok(verdict.right);
            }
            candidates = without(verdict.right, &verdict.others);
        }
        Ok(Sets::new())
    }

    /// The part of all sets that gets the recorded result from both patterns, every time.
    fn together(&mut self, mut sets: Sets) -> Result<Sets, DeviceError> {
        'round: for _ in 0..ROUNDS {
            if sets.is_empty() {
                return Ok(sets);
            }
            for run in 0..2 * self.runs {
                if self.is_late() {
                    return Ok(Sets::new());
                }
                let verdict = self.fill(&sets, if run % 2 == 0 { PATTERN } else { !PATTERN })?;
                let is_clean = verdict.is_clean();
                let wrong = verdict.wrong;
                sets = verdict.right;
                if !is_clean {
                    if wrong.is_empty() {
                        return Ok(Sets::new());
                    }
                    sets.retain(|piece, _| {
                        self.memory.chunk(*piece).is_none_or(|(region, _)| !wrong.contains(&region))
                    });
                    continue 'round;
                }
            }
            return Ok(sets);
        }
        Ok(Sets::new())
    }

    /// Runs the kernel with these bytes filled.
    fn fill(&mut self, sets: &Sets, pattern: u8) -> Result<Verdict, DeviceError> {
        let look = self.look();
        let of = |(piece, mask): (&usize, &Mask)| {
            let mut bytes = look.pieces.before(*piece).to_vec();
            mask.fill(&mut bytes, look.pieces.after(*piece), pattern);
            (*piece, bytes)
        };
        let filled: Contents = sets.par_iter().map(of).collect();
        let left = self.run(&filled)?;
        let look = self.look();
        let of = |(piece, bytes): (&usize, &Vec<u8>)| (*piece, look.judge(*piece, bytes, sets.get(piece), pattern));
        let judged: Vec<(usize, PieceVerdict)> = left.par_iter().map(of).collect();
        let mut verdict = Verdict { right: sets.clone(), ..Verdict::default() };
        for (piece, PieceVerdict { wrong, others, is_elsewhere }) in judged {
            verdict.is_elsewhere |= is_elsewhere;
            if let Some(right) = verdict.right.get_mut(&piece) {
                right.remove(&wrong);
            }
            if !others.is_empty() {
                verdict.others.entry(piece).or_default().add(&others);
                verdict.wrong.extend(self.memory.chunk(piece).map(|(region, _)| region));
            }
        }
        verdict.right.retain(|_, mask| !mask.is_empty());
        Ok(verdict)
    }

    /// Runs the kernel with these contents of pieces, and returns the result where it differs from the recording.
    fn run(&mut self, given: &Contents) -> Result<Contents, DeviceError> {
        self.series.once(self.memory, given, self.done)
    }

    fn map(&self, written: &Sets, found: &Sets) -> PoisonMap {
        let mut map = PoisonMap::default();
        // For each region, the written bytes and those that verification detects, by elements.
        let mut counts: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let none = Mask::default();
        for (piece, written) in written {
            let Some((region, chunk)) = self.memory.chunk(*piece) else { continue };
            let (before, after) = (self.memory.before(*piece), self.memory.after(*piece));
            let mask = found.get(piece);
            let (bytes, shown) = counts.entry(region).or_default();
            let comparison = &self.series.comparisons[region];
            for (part, cut) in comparison.cuts(chunk as u64 * CHUNK, before.len() as u64) {
                let size = evidence::element(comparison.part(part));
                let widened = |mask: Mask| mask.widened(size, before.len());
                let written = widened(written.clone());
                let mut found = Mask::differing(before, after);
                found.add(mask.unwrap_or(&none));
                let mut found = widened(found);
                found.keep(&written);
                *bytes += written.count(cut.clone());
                *shown += found.count(cut);
            }
            if let Some(mask) = mask {
                map.add(region as u32, chunk as u32, mask);
            }
        }
        let unshown = counts.into_iter().filter(|(_, (bytes, shown))| bytes > shown);
        map.unshown = unshown
            .map(|(region, (bytes, shown))| UnshownBytes { region: region as u32, bytes: bytes - shown })
            .collect();
        if self.is_late() {
            map.left_out = format!("looking for what the kernel only writes took longer than {} s", BUDGET.as_secs());
        }
        map
    }
}

/// Facts about all pieces, shared by several threads.
#[derive(Clone, Copy)]
struct Look<'s> {
    pieces: RecordedPieces<'s>,
    comparisons: &'s [RegionComparison],
    varying: &'s Sets,
    live: &'s [(u64, u64)],
}

impl Look<'_> {
    /// A piece with low bits of each element flipped. Addresses stay.
    fn flipped(&self, piece: usize, run: usize) -> Vec<u8> {
        let mut bytes = self.pieces.before(piece).to_vec();
        let (start, addresses) = (self.pieces.address(piece), self.addresses(piece));
        for at in (0..bytes.len()).step_by(self.step(piece)) {
            if !addresses.has(at) {
                bytes[at] ^= low_bits(start + at as u64, run);
            }
        }
        bytes
    }

    /// The elements of a piece that differ from their contents before the run, or that the launch changed.
    fn written_of(&self, piece: usize, flipped: &[u8], left: &[u8]) -> Mask {
        let (before, after) = (self.pieces.before(piece), self.pieces.after(piece));
        let mut mask = Mask::differing(flipped, left);
        mask.add(&Mask::differing(before, after));
        let mut mask = mask.widened(self.step(piece), before.len());
        mask.remove(&self.addresses(piece));
        mask
    }

    /// The size of the piece's smallest elements, at most [`ELEMENT`], so every element gets flipped bits.
    fn step(&self, piece: usize) -> usize {
        let Some((region, chunk)) = self.pieces.chunk(piece) else { return ELEMENT };
        let Some(comparison) = self.comparisons.get(region) else { return ELEMENT };
        let parts = comparison.cuts(chunk as u64 * CHUNK, CHUNK);
        let sizes =
            parts.map(|(part, _)| comparison.part(part).shown.map_or(ELEMENT, |dtype| dtype.size().min(ELEMENT)));
        sizes.min().unwrap_or(ELEMENT)
    }

    /// Bytes of aligned words that may be addresses of recorded memory. A kernel that follows a wrong address fails.
    fn addresses(&self, piece: usize) -> Mask {
        let lowest = self.live.first().map_or(u64::MAX, |(start, _)| *start);
        let is_address = |word: u64| {
            // Few words are addresses.
            if word < lowest {
                return false;
            }
            let place = self.live.partition_point(|(start, _)| *start <= word);
            place.checked_sub(1).is_some_and(|place| word <= self.live[place].1)
        };
        let mut mask = Mask::default();
        for (number, word) in self.pieces.before(piece).as_chunks::<WORD>().0.iter().enumerate() {
            if is_address(u64::from_le_bytes(*word)) {
                mask.add_word(number * WORD);
            }
        }
        mask
    }

    /// Judges a piece in which `filled` was filled.
    fn judge(&self, piece: usize, left: &[u8], filled: Option<&Mask>, pattern: u8) -> PieceVerdict {
        let after = self.pieces.after(piece);
        let wrong = Mask::differing(left, after);
        let (none, varying) = (Mask::default(), self.varying.get(&piece));
        let varying = varying.unwrap_or(&none);
        let mut elsewhere = wrong.clone();
        elsewhere.remove(filled.unwrap_or(&none));
        elsewhere.remove(varying);
        let mut others = Mask::default();
        if let Some(filled) = filled {
            let mut pattern_of_result = after.to_vec();
            pattern_of_result.iter_mut().for_each(|byte| *byte ^= pattern);
            others = Mask::differing(left, &pattern_of_result);
            others.keep(&wrong);
            others.keep(filled);
            others.remove(varying);
            // If a value was computed from filled bytes, some of its bytes may be right by chance.
            others = others.widened(WORD, left.len());
        }
        PieceVerdict { wrong, others, is_elsewhere: !elsewhere.is_empty() }
    }
}

/// Some of the lowest four bits, at least one. They depend on the address and the run.
fn low_bits(address: u64, run: usize) -> u8 {
    let mixed = (address ^ (run as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1 + ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as u8 % 15
}

/// Removes the bytes of other sets from sets.
fn without(mut sets: Sets, others: &Sets) -> Sets {
    for (piece, others) in others {
        if let Some(mask) = sets.get_mut(piece) {
            mask.remove(others);
        }
    }
    sets.retain(|_, mask| !mask.is_empty());
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipped_bits_are_few_and_differ() {
        let of = |run| (0..4000u64).map(move |at| low_bits(0x1000_0000_0000 + 4 * at, run));
        assert!(of(0).all(|bits| (1..16).contains(&bits)));
        let same = |shift: usize| of(0).zip(of(0).skip(shift)).filter(|(one, other)| one == other).count();
        assert!([1, 2, 64, 1024].iter().all(|shift| same(*shift) < 600), "a copy is seen in most places");
        assert!(of(0).zip(of(1)).filter(|(one, other)| one == other).count() < 600, "and in others in another run");
    }

    #[test]
    fn an_element_that_is_wrong_leaves_its_set() {
        let (mut own, mut others) = (Mask::default(), Mask::default());
        (0..16).for_each(|byte| own.set(byte, true));
        (8..16).for_each(|byte| others.set(byte, true));
        let left = without(Sets::from([(3, own.clone()), (4, own)]), &Sets::from([(3, others)]));
        assert_eq!((left[&3].count(0..64), left[&4].count(0..64)), (8, 16));
    }
}
