//! Comparing replayed memory with the recorded epilogue.
//!
//! Bytes are compared first; only a stretch that differs is looked at as floating-point elements, and only under a tolerance.

use serde::{Deserialize, Serialize};

/// What a region is made of, as far as the comparison cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Elements {
    Bytes,
    F32,
    F64,
}

impl Elements {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// An element passes where `|replayed - recorded| <= absolute + relative * |recorded|`, or where both are NaN.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    pub absolute: f64,
    pub relative: f64,
}

impl Tolerance {
    fn accepts(&self, recorded: f64, replayed: f64) -> bool {
        if recorded.is_finite() && replayed.is_finite() {
            (replayed - recorded).abs() <= self.absolute + self.relative * recorded.abs()
        } else {
            recorded == replayed || (recorded.is_nan() && replayed.is_nan())
        }
    }
}

/// What a comparison found so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Elements that differ.
    pub differing: u64,
    pub first: Option<Difference>,
    /// Largest absolute error among the differing elements; infinite where one is not a number.
    pub largest_error: Option<f64>,
}

/// One differing element.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Offset in the region, bytes.
    pub offset: u64,
    pub recorded: String,
    pub replayed: String,
    pub element_size: u32,
}

impl Tally {
    /// Adds what was found after this one.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.differing += later.differing;
        self.first = self.first.or(later.first);
        self.largest_error = match (self.largest_error, later.largest_error) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        self
    }

    fn add(&mut self, offset: u64, size: usize, values: impl FnOnce() -> (String, String)) {
        self.differing += 1;
        if self.first.is_none() {
            let (recorded, replayed) = values();
            self.first = Some(Difference { offset, recorded, replayed, element_size: size as u32 });
        }
    }
}

/// Compares a stretch that begins at `offset` of its region, which must be a multiple of the element size.
pub fn compare(recorded: &[u8], replayed: &[u8], offset: u64, elements: Elements, tolerance: Option<Tolerance>) -> Tally {
    assert_eq!(recorded.len(), replayed.len(), "both moments have the same length");
    if recorded == replayed {
        return Tally::default();
    }
    match (elements, tolerance) {
        (Elements::F32, Some(tolerance)) => floats(recorded, replayed, offset, tolerance, f32::from_le_bytes),
        (Elements::F64, Some(tolerance)) => floats(recorded, replayed, offset, tolerance, f64::from_le_bytes),
        _ => bytes(recorded, replayed, offset),
    }
}

fn bytes(recorded: &[u8], replayed: &[u8], offset: u64) -> Tally {
    let mut tally = Tally::default();
    for (at, (recorded, replayed)) in recorded.iter().zip(replayed).enumerate() {
        if recorded != replayed {
            tally.add(offset + at as u64, 1, || (format!("0x{recorded:02x}"), format!("0x{replayed:02x}")));
        }
    }
    tally
}

fn floats<const SIZE: usize, F>(recorded: &[u8], replayed: &[u8], offset: u64, tolerance: Tolerance, value: fn([u8; SIZE]) -> F) -> Tally
where
    F: Copy + Into<f64> + std::fmt::Display,
{
    let mut tally = Tally::default();
    let (recorded, recorded_tail) = recorded.as_chunks::<SIZE>();
    let (replayed, replayed_tail) = replayed.as_chunks::<SIZE>();
    for (at, (recorded, replayed)) in recorded.iter().zip(replayed).enumerate() {
        let (recorded, replayed) = (value(*recorded), value(*replayed));
        if tolerance.accepts(recorded.into(), replayed.into()) {
            continue;
        }
        let error = (replayed.into() - recorded.into()).abs();
        let error = if error.is_nan() { f64::INFINITY } else { error };
        tally.largest_error = Some(tally.largest_error.map_or(error, |largest: f64| largest.max(error)));
        tally.add(offset + (at * SIZE) as u64, SIZE, || (recorded.to_string(), replayed.to_string()));
    }
    tally.and(bytes(recorded_tail, replayed_tail, offset + (recorded.len() * SIZE) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Option<Tolerance> = Some(Tolerance { absolute: 0.0, relative: 0.0 });

    fn relative(relative: f64) -> Option<Tolerance> {
        Some(Tolerance { absolute: 0.0, relative })
    }

    fn singles(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn doubles(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn without_a_tolerance_every_bit_counts() {
        let (recorded, replayed) = (singles(&[1.0, 0.0]), singles(&[1.0, -0.0]));
        let tally = compare(&recorded, &replayed, 64, Elements::F32, None);
        assert_eq!(tally.differing, 1);
        let first = tally.first.unwrap();
        assert_eq!((first.offset, first.element_size), (64 + 7, 1));
        assert_eq!((first.recorded.as_str(), first.replayed.as_str()), ("0x00", "0x80"));
    }

    #[test]
    fn both_types_obey_the_tolerance() {
        for (elements, recorded, near, far) in [
            (Elements::F32, singles(&[1.0, 100.0]), singles(&[1.0, 100.05]), singles(&[1.0, 101.0])),
            (Elements::F64, doubles(&[1.0, 100.0]), doubles(&[1.0, 100.05]), doubles(&[1.0, 101.0])),
        ] {
            assert_eq!(compare(&recorded, &near, 0, elements, relative(1e-3)).differing, 0);
            assert_eq!(compare(&recorded, &near, 0, elements, EXACT).differing, 1);
            let tally = compare(&recorded, &far, 0, elements, relative(1e-3));
            assert_eq!(tally.differing, 1);
            assert_eq!(tally.largest_error, Some(1.0));
            let first = tally.first.unwrap();
            assert_eq!((first.offset, first.element_size as usize), (elements.size() as u64, elements.size()));
            assert_eq!((first.recorded.as_str(), first.replayed.as_str()), ("100", "101"));
        }
    }

    #[test]
    fn not_a_number_equals_itself_only() {
        let quiet = f32::from_bits(0x7fc0_0001);
        let other = f32::from_bits(0x7fc0_0002);
        assert_eq!(compare(&singles(&[quiet]), &singles(&[other]), 0, Elements::F32, EXACT).differing, 0);
        let tally = compare(&singles(&[quiet]), &singles(&[1.0]), 0, Elements::F32, relative(1.0));
        assert_eq!((tally.differing, tally.largest_error), (1, Some(f64::INFINITY)));
        assert_eq!(compare(&singles(&[1.0]), &singles(&[quiet]), 0, Elements::F32, relative(1.0)).differing, 1);
    }

    #[test]
    fn infinities_match_by_sign() {
        let recorded = doubles(&[f64::INFINITY, 2.0]);
        assert_eq!(compare(&recorded, &doubles(&[f64::INFINITY, 2.5]), 0, Elements::F64, relative(0.5)).differing, 0);
        // The bound relative to an infinite value is infinite too, and yet nothing else is near it.
        assert_eq!(compare(&recorded, &doubles(&[f64::NEG_INFINITY, 2.0]), 0, Elements::F64, relative(0.5)).differing, 1);
        assert_eq!(compare(&recorded, &doubles(&[1.0, 2.0]), 0, Elements::F64, relative(0.5)).differing, 1);
    }

    #[test]
    fn a_tail_shorter_than_an_element_is_compared_bitwise() {
        let mut recorded = singles(&[1.0]);
        recorded.extend([1, 2]);
        let mut replayed = recorded.clone();
        replayed[5] = 3;
        let tally = compare(&recorded, &replayed, 0, Elements::F32, relative(1.0));
        assert_eq!((tally.differing, tally.first.unwrap().offset), (1, 5));
    }

    #[test]
    fn tallies_add_up() {
        let one = Tally { differing: 1, first: None, largest_error: Some(1.0) };
        let two = compare(&singles(&[1.0]), &singles(&[4.0]), 8, Elements::F32, EXACT);
        let sum = one.and(two);
        assert_eq!((sum.differing, sum.largest_error), (2, Some(3.0)));
        assert_eq!(sum.first.unwrap().offset, 8);
    }
}
