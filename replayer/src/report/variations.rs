//! The report of a survey of repeated runs.
//!
//! It consists of a text and the tolerances that the kernel needs.

use mneme_model::result::{Largest, Variation};
use mneme_model::tolerance::{DataType, Threshold, Tolerance};
use mneme_model::units::figure;
use mneme_recording::RecordingError;
use mneme_recording::rules::{RuleTarget, Rules, ToleranceRule};

use crate::recording::instance::RecordedInstance;
use crate::verify::elements;

/// A factor for further runs, which may differ by more than the observed ones.
const MARGIN: f64 = 4.0;
/// Larger relative errors come from values near zero, for which an absolute threshold is better.
const LARGEST_RELATIVE: f64 = 1e-2;

/// One line for each buffer.
pub fn text(variations: &[Variation], runs: usize) -> String {
    if variations.is_empty() {
        return format!("all {runs} runs left the same memory, as recorded");
    }
    variations.iter().map(|variation| line(variation, runs)).collect::<Vec<_>>().join("\n")
}

fn line(variation: &Variation, runs: usize) -> String {
    let name = match (variation.region.as_str(), variation.tag.as_str()) {
        ("outside", _) => format!("memory outside all buffers at {}", variation.address),
        ("allocation", "") => format!("the allocation at {} ({} bytes)", variation.address, variation.size),
        ("allocation", tag) => format!("{tag} ({} bytes at {})", variation.size, variation.address),
        (name, _) => format!("the variable {name}"),
    };
    let errors = variation.largest.map_or_else(String::new, |Largest { absolute, relative, ulp }| {
        format!("; largest error {} absolute, {} relative, {ulp} ULP", figure(absolute), figure(relative))
    });
    let dtype = &variation.dtype;
    if variation.runs == 0 {
        return format!(
            "{name}: the same in all {runs} runs, but {} {dtype} elements differ from the recording{errors}",
            variation.from_recorded
        );
    }
    let (different, elements) = (variation.runs, variation.elements);
    format!("{name}: {different} of {runs} runs differ from the first, in up to {elements} {dtype} elements{errors}")
}

/// Adds the rules for varying buffers of floats to the file next to the recording. Returns those rules, and the varying
/// buffers of other types: users must decide how far those may differ.
pub fn write<'a>(
    recorded: &RecordedInstance,
    variations: &'a [Variation],
) -> Result<(Vec<ToleranceRule>, Vec<&'a Variation>), RecordingError> {
    let arguments = elements::argument_pointers(recorded);
    let mut rules = Rules::load(&recorded.database)?;
    let (mut written, mut left) = (Vec::new(), Vec::new());
    for variation in variations.iter().filter(|variation| variation.runs > 0) {
        match (tolerance(variation), target(variation, &arguments)) {
            (Some(tolerance), Some(target)) => {
                let rule = ToleranceRule { memory: target.into(), tolerance };
                rules.set(rule.clone());
                written.push(rule);
            }
            _ => left.push(variation),
        }
    }
    if !written.is_empty() {
        rules.save(&recorded.database)?;
    }
    Ok((written, left))
}

fn tolerance(variation: &Variation) -> Option<Tolerance> {
    accepting(float_type(&variation.dtype)?, variation.largest?)
}

/// The floating-point type of this name.
pub fn float_type(name: &str) -> Option<DataType> {
    DataType::ALL.into_iter().find(|dtype| dtype.name() == name && dtype.is_float())
}

/// A tolerance that accepts these errors with a margin.
pub fn accepting(dtype: DataType, errors: Largest) -> Option<Tolerance> {
    let Largest { absolute, relative, .. } = errors;
    let (error, kind) =
        if relative <= LARGEST_RELATIVE { (relative, Threshold::Relative) } else { (absolute, Threshold::Absolute) };
    let threshold = round_up(error * MARGIN);
    (threshold < f64::MAX).then(|| Tolerance { dtype, threshold, kind, ..Tolerance::default() })
}

/// The next number with one digit.
fn round_up(value: f64) -> f64 {
    let exponent = value.log10().floor();
    let (digit, exponent) = ((value / 10f64.powf(exponent)).ceil(), exponent as i32);
    format!("{digit}e{exponent}").parse().unwrap_or(value)
}

fn target(variation: &Variation, arguments: &[Option<u64>]) -> Option<RuleTarget> {
    let address = u64::from_str_radix(variation.address.strip_prefix("0x")?, 16).ok()?;
    match variation.region.as_str() {
        "outside" => None,
        "allocation" if !variation.tag.is_empty() => Some(RuleTarget::Tag(variation.tag.clone())),
        "allocation" => {
            let within = |value: &Option<u64>| {
                value.and_then(|value| value.checked_sub(address)).is_some_and(|offset| offset < variation.size)
            };
            let argument = arguments.iter().position(within).and_then(|index| u32::try_from(index).ok());
            Some(argument.map_or(RuleTarget::Address(address), RuleTarget::Argument))
        }
        name => Some(RuleTarget::Variable(name.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variation() -> Variation {
        Variation {
            region: "allocation".into(),
            address: "0x1000".into(),
            size: 64,
            dtype: "f32".into(),
            runs: 3,
            elements: 7,
            from_recorded: 8,
            largest: Some(Largest { absolute: 0.5, relative: 3e-7, ulp: 4.0 }),
            ..Variation::default()
        }
    }

    #[test]
    fn thresholds_have_a_margin_and_one_digit() {
        let found = tolerance(&variation()).unwrap();
        assert_eq!((found.dtype, found.kind, found.threshold), (DataType::F32, Threshold::Relative, 2e-6));
        let near_zero = Variation { largest: Some(Largest { absolute: 0.5, relative: 0.5, ulp: 4.0 }), ..variation() };
        assert_eq!(tolerance(&near_zero).map(|it| (it.kind, it.threshold)), Some((Threshold::Absolute, 2.0)));
        assert_eq!(tolerance(&Variation { dtype: "i32".into(), ..variation() }), None);
        assert_eq!(tolerance(&Variation { largest: Some(Largest::INFINITE.finite()), ..variation() }), None);
        assert_eq!((round_up(1.2e-6), round_up(9.5), round_up(3.0)), (2e-6, 10.0, 3.0));
    }

    #[test]
    fn buffers_are_named_by_what_lasts_longest() {
        assert_eq!(target(&variation(), &[None, Some(0x1010)]), Some(RuleTarget::Argument(1)));
        assert_eq!(target(&variation(), &[Some(0x1040)]), Some(RuleTarget::Address(0x1000)));
        assert_eq!(
            target(&Variation { tag: "sums".into(), ..variation() }, &[Some(0x1000)]),
            Some(RuleTarget::Tag("sums".into()))
        );
        assert_eq!(
            target(&Variation { region: "total".into(), ..variation() }, &[]),
            Some(RuleTarget::Variable("total".into()))
        );
    }

    #[test]
    fn a_line_says_what_varies() {
        let expected = "the allocation at 0x1000 (64 bytes): 3 of 20 runs differ from the first, in up to 7 f32 elements; \
                        largest error 0.5 absolute, 3e-7 relative, 4 ULP";
        assert_eq!(text(&[variation()], 20), expected);
        assert_eq!(text(&[], 20), "all 20 runs left the same memory, as recorded");
    }
}
