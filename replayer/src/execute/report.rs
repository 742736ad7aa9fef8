//! The report of a failed verification.

use mneme_model::result::{Largest, Mismatch};
use mneme_model::tolerance::Norm;
use mneme_model::units::{counted, figure};

use crate::recording::snapshot::{Buffer, SnapshotRegion};
use crate::verify::comparison::{Comparison, ElementTally};

/// The most buffers to report one by one.
pub const MOST_TOLD: usize = 32;

/// The location of a difference.
#[derive(Clone, Copy, Debug)]
pub enum MismatchLocation<'a> {
    /// A region with its number.
    Region(usize, &'a SnapshotRegion),
    /// Between regions: address and size of the piece, in bytes.
    Outside(u64, u64),
}

/// A buffer that failed.
#[derive(Clone, Debug)]
pub struct BufferFailure {
    /// Number of the region. `None` outside of all regions.
    pub region: Option<usize>,
    pub mismatch: Mismatch,
}

impl BufferFailure {
    /// `error` is the measure that the tolerance limits, if there is one.
    pub fn of(place: MismatchLocation<'_>, comparison: &Comparison, tally: &ElementTally, error: Option<f64>) -> Self {
        let offset = tally.first.as_ref().map_or(0, |first| first.offset);
        let (region, name, buffer, texel) = match place {
            MismatchLocation::Region(number, region) => {
                let buffer = region.buffer_at(offset);
                let texel = region.array.and_then(|array| array.place(offset));
                (Some(number), buffer.variable.unwrap_or("allocation"), buffer, texel)
            }
            MismatchLocation::Outside(address, size) => {
                (None, "outside", Buffer { variable: None, tag: "", offset: 0, address, size }, None)
            }
        };
        let dtype = comparison.dtype();
        let numbers = !comparison.is_exact() || comparison.shown.is_some();
        let largest = Some(tally.largest.finite()).filter(|_| numbers);
        let first = tally.first.clone().unwrap_or(crate::verify::comparison::Difference {
            offset: 0,
            recorded: String::new(),
            replayed: String::new(),
            element_size: dtype.size() as u32,
        });
        let mismatch = Mismatch {
            region: name.into(),
            tag: buffer.tag.into(),
            address: format!("0x{:x}", buffer.address),
            size: buffer.size,
            dtype: dtype.name().into(),
            tolerance: if comparison.is_exact() { "exact".into() } else { comparison.tolerance.to_string() },
            offset: first.offset - buffer.offset,
            texel,
            recorded: first.recorded,
            replayed: first.replayed,
            differing: tally.differing,
            element_size: first.element_size,
            largest,
            norm_error: error.filter(|_| comparison.tolerance.norm != Norm::None).map(|error| error.min(f64::MAX)),
        };
        Self { region, mismatch }
    }
}

/// One sentence and, for several buffers, one line each.
pub fn text(mismatches: &[Mismatch], buffers: u64) -> String {
    let lines: Vec<String> = mismatches.iter().map(line).collect();
    match lines.as_slice() {
        [one] => format!("memory differs from the recording: {one}"),
        several => {
            let untold = buffers.saturating_sub(several.len() as u64);
            let rest = if untold > 0 { format!("\n  and {untold} more") } else { String::new() };
            format!("memory differs from the recording in {buffers} buffers:\n  {}{rest}", several.join("\n  "))
        }
    }
}

/// JSON has no infinity. The greatest number stands for it.
fn is_infinite(error: f64) -> bool {
    error >= f64::MAX
}

fn line(mismatch: &Mismatch) -> String {
    let place = match (mismatch.region.as_str(), mismatch.tag.as_str()) {
        ("outside", _) => format!("address {}, outside all recorded memory", mismatch.address),
        ("allocation", "") => format!("the allocation at {} ({} bytes)", mismatch.address, mismatch.size),
        ("allocation", tag) => format!("{tag} ({} bytes at {})", mismatch.size, mismatch.address),
        (name, _) => format!("the variable {name}"),
    };
    let texel = mismatch.texel.map_or_else(String::new, |[x, y, z]| format!(", in the texel ({x}, {y}, {z})"));
    let errors = match mismatch.largest {
        Some(Largest { absolute, relative, ulp }) => {
            let ulp = if is_infinite(ulp) { "infinitely many".into() } else { ulp.to_string() };
            format!("; largest error {} absolute, {} relative, {ulp} ULP", figure(absolute), figure(relative))
        }
        None => String::new(),
    };
    let norm = mismatch
        .norm_error
        .map_or(String::new(), |error| format!("; {} where at most {} passes", figure(error), mismatch.tolerance));
    let differ = if mismatch.differing == 1 { "differs" } else { "differ" };
    // Outside of regions, the contents before a replay are not the application's.
    let before = if mismatch.region == "outside" { "filled with" } else { "recorded" };
    format!(
        "first at byte {} of {place}{texel}, {before} {} and replayed {}; {} of {} {differ}{errors}{norm}",
        mismatch.offset,
        mismatch.recorded,
        mismatch.replayed,
        counted(mismatch.differing as usize, "element"),
        counted(mismatch.element_size as usize, "byte"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::tolerance::{DataType, Tolerance};

    fn mismatch(offset: u64) -> Mismatch {
        let comparison = Comparison {
            tolerance: Tolerance { dtype: DataType::F32, ..Tolerance::default() },
            ..Comparison::default()
        };
        let tally = comparison.tally(&1_f32.to_le_bytes(), &1.5_f32.to_le_bytes(), offset);
        BufferFailure::of(MismatchLocation::Outside(0x1000, 64), &comparison, &tally, None).mismatch
    }

    #[test]
    fn what_is_no_number_differs_infinitely() {
        let comparison = Comparison {
            tolerance: Tolerance { dtype: DataType::F32, ..Tolerance::default() },
            ..Comparison::default()
        };
        let tally = comparison.tally(&249.3_f32.to_le_bytes(), &f32::NAN.to_le_bytes(), 0);
        let text = line(&BufferFailure::of(MismatchLocation::Outside(0x1000, 64), &comparison, &tally, None).mismatch);
        assert!(text.ends_with("; largest error infinite absolute, infinite relative, infinitely many ULP"), "{text}");
    }

    #[test]
    fn a_buffer_is_a_sentence_and_several_are_a_list() {
        assert_eq!(
            text(&[mismatch(8)], 1),
            "memory differs from the recording: first at byte 8 of address 0x1000, outside all recorded memory, filled with 1 and replayed 1.5; \
             1 element of 4 bytes differs; largest error 0.5 absolute, 0.5 relative, 4194304 ULP"
        );
        let several = text(&[mismatch(0), mismatch(4)], 3);
        assert!(
            several.starts_with("memory differs from the recording in 3 buffers:\n  first at byte 0 of"),
            "{several}"
        );
        assert!(several.ends_with("\n  and 1 more"), "{several}");
    }
}
