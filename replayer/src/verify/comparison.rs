//! Compares replayed memory with the recorded epilogue.
//!
//! [`mneme_model::tolerance::measure`] defines which differences a tolerance accepts. This module adds the report of a
//! failure: the first wrong element, how many are wrong, and the largest errors.

use std::ops::Range;

use mneme_model::result::Largest;
use mneme_model::tolerance::measure::{self, ElementValue, Errors};
use mneme_model::tolerance::{DataType, Norm, Threshold, Tolerance};
use serde::{Deserialize, Serialize};

/// The rule for comparing a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The accepted difference. Its type is the type of the elements.
    pub tolerance: Tolerance,
    /// An element with an absolute error of at most this also passes.
    pub slack: f64,
    /// The type for showing elements if bits must be equal; bytes if it is unknown.
    pub shown: Option<DataType>,
}

impl Comparison {
    pub fn exact(shown: Option<DataType>) -> Self {
        Self { shown, ..Self::default() }
    }

    /// Whether bits must be equal.
    pub fn is_exact(&self) -> bool {
        self.tolerance.is_exact() && self.slack == 0.0
    }

    /// The type of an element.
    pub fn dtype(&self) -> DataType {
        if self.is_exact() { self.shown.unwrap_or_default() } else { self.tolerance.dtype }
    }

    /// Whether an element that differs in its bits passes. A norm judges the buffer as a whole, so then no such element
    /// passes here.
    fn accepts(&self, recorded: ElementValue, replayed: ElementValue) -> bool {
        let error = |kind| measure::error(self.dtype(), kind, recorded, replayed);
        if self.is_exact() {
            return false;
        }
        let bound = if self.tolerance.norm == Norm::None { self.tolerance.threshold } else { 0.0 };
        error(self.tolerance.kind) <= bound || (self.slack > 0.0 && error(Threshold::Absolute) <= self.slack)
    }

    /// Whether parts of a region, measured by [`measure`](Self::measure), pass. `reference` returns the errors of the
    /// whole, which norms need.
    pub fn passes(&self, parts: &Errors, reference: impl FnOnce() -> Errors) -> bool {
        match self.tolerance.norm {
            _ if self.tolerance.ignore => true,
            Norm::None => parts.beyond == 0,
            _ => parts.within(&reference()).pass(&self.tolerance),
        }
    }

    /// The errors of a stretch that begins with an element.
    pub fn measure(&self, recorded: &[u8], replayed: &[u8]) -> Errors {
        let mut errors = Errors::of(&self.tolerance, recorded, replayed);
        if self.slack > 0.0 && self.tolerance.norm == Norm::None {
            errors.beyond = self.tally(recorded, replayed, 0).differing;
        }
        errors
    }

    /// The same comparison in another unit, element by element, without a limit.
    pub fn in_unit(&self, kind: Threshold) -> Self {
        let tolerance = Tolerance { kind, threshold: f64::INFINITY, norm: Norm::None, ..self.tolerance };
        Self { tolerance, slack: 0.0, shown: self.shown }
    }

    /// How many elements of a stretch that begins with one are not accepted.
    pub fn wrong(&self, recorded: &[u8], replayed: &[u8]) -> u64 {
        if !self.is_exact() {
            return self.tally(recorded, replayed, 0).differing;
        }
        let size = self.dtype().size();
        // Most differing bytes are near other differing bytes, and most bytes are equal.
        let blocks = recorded.chunks(size * 512).zip(replayed.chunks(size * 512));
        let differing = blocks.filter(|(recorded, replayed)| recorded != replayed);
        let elements = differing.flat_map(|(recorded, replayed)| recorded.chunks(size).zip(replayed.chunks(size)));
        elements.filter(|(recorded, replayed)| recorded != replayed).count() as u64
    }

    /// Checks every element of a stretch that begins with an element, at `offset` of its region, bytes.
    pub fn tally(&self, recorded: &[u8], replayed: &[u8], offset: u64) -> ElementTally {
        assert_eq!(recorded.len(), replayed.len(), "both moments have the same length");
        let mut tally = ElementTally::default();
        if recorded == replayed {
            return tally;
        }
        let dtype = self.dtype();
        let size = dtype.size();
        for (at, (recorded, replayed)) in recorded.chunks(size).zip(replayed.chunks(size)).enumerate() {
            if recorded == replayed {
                continue;
            }
            let place = offset + (at * size) as u64;
            if recorded.len() < size {
                tally.add(place, recorded.len(), Largest::INFINITE, || (hex(recorded), hex(replayed)));
                continue;
            }
            let (before, after) = (ElementValue::read(dtype, recorded), ElementValue::read(dtype, replayed));
            if self.accepts(before, after) {
                continue;
            }
            let error = |kind| measure::error(dtype, kind, before, after);
            let errors = Largest {
                absolute: error(Threshold::Absolute),
                relative: error(Threshold::Relative),
                ulp: error(Threshold::Ulp),
            };
            tally.add(place, size, errors, || match self.shown {
                None if self.is_exact() => (hex(recorded), hex(replayed)),
                _ => (before.to_string(), after.to_string()),
            });
        }
        tally
    }
}

/// The numbers of a region and of a part of it.
pub type Part = (usize, usize);

/// The comparison of a region in parts, each from its offset to the next one's.
///
/// Most regions have one part. An allocation to which arguments of several types point has one for each stretch.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionComparison {
    /// The offset of each part in the region, ascending from 0.
    parts: Vec<(u64, Comparison)>,
}

impl RegionComparison {
    /// Combines parts with their offsets, ascending from 0. Merges neighbours with equal comparisons, unless they have a
    /// norm: it is for one part as a whole.
    pub fn new(mut parts: Vec<(u64, Comparison)>) -> Self {
        parts.dedup_by(|later, earlier| later.1 == earlier.1 && later.1.tolerance.norm == Norm::None);
        Self { parts }
    }

    pub fn part(&self, number: usize) -> &Comparison {
        &self.parts[number].1
    }

    /// The offsets of a part in a region of `size` bytes.
    pub fn range(&self, number: usize, size: u64) -> Range<u64> {
        self.parts[number].0..self.parts.get(number + 1).map_or(size, |(next, _)| *next)
    }

    /// Divides `length` bytes at `offset` of the region: for each affected part, its number, and the range counted from
    /// `offset`.
    pub fn cuts(&self, offset: u64, length: u64) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let end = offset + length;
        let of = move |number| {
            let part = self.range(number, u64::MAX);
            let (from, to) = (part.start.max(offset), part.end.min(end));
            (from < to).then(|| (number, (from - offset) as usize..(to - offset) as usize))
        };
        let first = self.parts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let last = self.parts.partition_point(|(start, _)| *start < end);
        (first..last).filter_map(of)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().fold("0x".into(), |text, byte| format!("{text}{byte:02x}"))
}

/// The result of checking elements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ElementTally {
    /// How many elements are not accepted.
    pub differing: u64,
    pub first: Option<Difference>,
    /// The largest errors among them.
    pub largest: Largest,
}

/// One differing element.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Offset in the region, bytes.
    pub offset: u64,
    pub recorded: String,
    pub replayed: String,
    /// Its size, bytes.
    pub element_size: u32,
}

impl ElementTally {
    /// Adds a later tally.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.differing += later.differing;
        self.first = self.first.or(later.first);
        self.largest = self.largest.and(later.largest);
        self
    }

    fn add(&mut self, offset: u64, size: usize, errors: Largest, values: impl FnOnce() -> (String, String)) {
        self.differing += 1;
        self.largest = self.largest.and(errors);
        if self.first.is_none() {
            let (recorded, replayed) = values();
            self.first = Some(Difference { offset, recorded, replayed, element_size: size as u32 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_cut_where_its_parts_begin() {
        let typed = |dtype| Comparison::exact(Some(dtype));
        let (floats, integers) = (typed(DataType::F32), typed(DataType::I32));
        let region = RegionComparison::new(vec![(0, floats), (8, floats), (16, integers), (24, floats)]);
        let cuts = |offset, length| region.cuts(offset, length).collect::<Vec<_>>();
        assert_eq!(cuts(0, 40), [(0, 0..16), (1, 16..24), (2, 24..40)]);
        assert_eq!(cuts(8, 8), [(0, 0..8)]);
        assert_eq!(cuts(20, 8), [(1, 0..4), (2, 4..8)]);
        assert_eq!((region.range(0, 40), region.range(2, 40)), (0..16, 24..40));
        assert_eq!((region.part(1), region.part(2)), (&integers, &floats));
        let tolerance = Tolerance { norm: Norm::L2, ..Tolerance::default() };
        let norm = Comparison { tolerance, ..Comparison::default() };
        let fields = RegionComparison::new(vec![(0, norm), (8, norm)]);
        assert_eq!(fields.cuts(4, 8).collect::<Vec<_>>(), [(0, 0..4), (1, 4..8)], "a norm for each field");
    }

    fn bytes<const N: usize, T: Copy>(values: &[T], of: fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| of(*value)).collect()
    }

    fn singles(values: &[f32]) -> Vec<u8> {
        bytes(values, f32::to_le_bytes)
    }

    fn within(dtype: DataType, kind: Threshold, threshold: f64) -> Comparison {
        Comparison { tolerance: Tolerance { dtype, threshold, kind, ..Tolerance::default() }, ..Comparison::default() }
    }

    #[test]
    fn without_a_tolerance_every_bit_counts() {
        let (recorded, replayed) = (singles(&[1.0, 0.0]), singles(&[1.0, -0.0]));
        let tally = Comparison::default().tally(&recorded, &replayed, 64);
        assert_eq!(tally.differing, 1);
        let first = tally.first.unwrap();
        assert_eq!((first.offset, first.element_size), (64 + 7, 1));
        assert_eq!((first.recorded.as_str(), first.replayed.as_str()), ("0x00", "0x80"));
        let typed = Comparison::exact(Some(DataType::F32)).tally(&recorded, &replayed, 64);
        let first = typed.first.unwrap();
        assert_eq!((typed.differing, first.offset, first.element_size), (1, 64 + 4, 4));
        assert_eq!((first.recorded.as_str(), first.replayed.as_str()), ("0", "-0"));
    }

    #[test]
    fn a_tolerance_accepts_and_says_by_how_much_not() {
        let (recorded, near, far) = (singles(&[1.0, 100.0]), singles(&[1.0, 100.05]), singles(&[1.0, 101.0]));
        let relative = within(DataType::F32, Threshold::Relative, 1e-3);
        assert_eq!((relative.tally(&recorded, &near, 0).differing, relative.measure(&recorded, &near).beyond), (0, 0));
        let tally = relative.tally(&recorded, &far, 0);
        assert_eq!((tally.differing, tally.largest.absolute, tally.largest.relative), (1, 1.0, 0.01));
        let first = tally.first.unwrap();
        assert_eq!((first.offset, first.element_size), (4, 4));
        assert_eq!((first.recorded.as_str(), first.replayed.as_str()), ("100", "101"));
        assert!(!relative.passes(&relative.measure(&recorded, &far), Errors::default));
        let integers = within(DataType::I16, Threshold::Absolute, 2.0);
        let (recorded, replayed) = (bytes(&[-1_i16, 7], i16::to_le_bytes), bytes(&[1_i16, 4], i16::to_le_bytes));
        assert_eq!(integers.tally(&recorded, &replayed, 0).first.unwrap().offset, 2);
    }

    #[test]
    fn the_slack_accepts_what_is_near_zero() {
        let (recorded, replayed) = (singles(&[0.0, 100.0]), singles(&[1e-9, 100.0]));
        let strict = within(DataType::F32, Threshold::Relative, 1e-5);
        assert_eq!(strict.measure(&recorded, &replayed).beyond, 1);
        let slack = Comparison { slack: 1e-8, ..strict };
        assert_eq!(
            (slack.measure(&recorded, &replayed).beyond, slack.tally(&recorded, &replayed, 0).differing),
            (0, 0)
        );
    }

    #[test]
    fn not_a_number_equals_itself_only() {
        let (quiet, other) = (f32::from_bits(0x7fc0_0001), f32::from_bits(0x7fc0_0002));
        let relative = within(DataType::F32, Threshold::Relative, 1.0);
        assert_eq!(relative.tally(&singles(&[quiet]), &singles(&[other]), 0).differing, 0);
        let tally = relative.tally(&singles(&[quiet]), &singles(&[1.0]), 0);
        assert_eq!((tally.differing, tally.largest.absolute), (1, f64::INFINITY));
    }

    #[test]
    fn a_norm_judges_the_whole() {
        let norm = Tolerance {
            dtype: DataType::F32,
            threshold: 0.5,
            kind: Threshold::Relative,
            norm: Norm::L1,
            ignore: false,
        };
        let comparison = Comparison { tolerance: norm, ..Comparison::default() };
        let (recorded, replayed) = (singles(&[1.0, 3.0]), singles(&[2.0, 3.0]));
        // Only the first element was checked, because the second is in an equal part.
        let parts = comparison.measure(&recorded[..4], &replayed[..4]);
        let reference = || Errors::of(&norm, &recorded, &recorded);
        assert!(comparison.passes(&parts, reference), "1 of 4 is below 0.5");
        let tight = Comparison { tolerance: Tolerance { threshold: 0.2, ..norm }, ..comparison };
        assert!(!tight.passes(&parts, reference));
        assert_eq!(tight.tally(&recorded, &replayed, 0).differing, 1, "differing elements are reported");
    }

    #[test]
    fn a_tail_shorter_than_an_element_is_compared_by_bytes() {
        let (recorded, mut replayed) = ([singles(&[1.0]), vec![1, 2]].concat(), [singles(&[1.0]), vec![1, 2]].concat());
        replayed[5] = 3;
        let tally = within(DataType::F32, Threshold::Relative, 1.0).tally(&recorded, &replayed, 0);
        let first = tally.first.unwrap();
        assert_eq!((tally.differing, first.offset, first.recorded.as_str()), (1, 4, "0x0201"));
    }

    #[test]
    fn errors_are_measured_in_every_unit() {
        let (recorded, replayed) = (singles(&[2.0, 100.0, -0.0]), singles(&[2.5, 101.0, 0.0]));
        let norm = Tolerance {
            dtype: DataType::F32,
            threshold: 2.0,
            kind: Threshold::Absolute,
            norm: Norm::L2,
            ignore: false,
        };
        for comparison in
            [within(DataType::F32, Threshold::Ulp, 1.0), Comparison { tolerance: norm, ..Comparison::default() }]
        {
            let largest = |kind| {
                let errors = comparison.in_unit(kind).measure(&recorded, &replayed);
                assert_eq!(errors.beyond, 0);
                errors.largest
            };
            assert_eq!(Threshold::ALL.map(largest), [1.0, 0.25, 2_097_152.0], "{comparison:?}");
        }
    }

    #[test]
    fn tallies_add_up() {
        let exact = within(DataType::F32, Threshold::Absolute, 0.0);
        let one = exact.tally(&singles(&[1.0]), &singles(&[2.0]), 0);
        let two = exact.tally(&singles(&[1.0]), &singles(&[4.0]), 4);
        let sum = one.and(two);
        assert_eq!((sum.differing, sum.largest.absolute, sum.first.unwrap().offset), (2, 3.0, 0));
    }
}
