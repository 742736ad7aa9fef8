//! Parameters, their domains and points.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

/// Values by parameter. Parameters that do not apply are absent.
pub type Point = BTreeMap<String, Value>;

/// A parameter of a space.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    pub name: String,
    #[serde(flatten)]
    pub domain: Domain,
    /// The condition under which it applies, for people. [`super::SearchSpace::is_active`] decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

impl Parameter {
    pub fn new(name: impl Into<String>, domain: Domain) -> Self {
        Self { name: name.into(), domain, when: None }
    }

    #[must_use]
    pub fn when(self, condition: impl Into<String>) -> Self {
        Self { when: Some(condition.into()), ..self }
    }
}

/// The values that a parameter can have.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", content = "values", rename_all = "lowercase")]
pub enum Domain {
    /// `low`, `low + step`, … up to `high`. With `log`, `low` is at least 1, and samplers measure distances as ratios.
    Integer {
        low: i64,
        high: i64,
        step: i64,
        log: bool,
    },
    /// From `low` to `high` inclusive, in steps from `low` if there is a `step`. With `log`, `low` is above 0.
    Real {
        low: f64,
        high: f64,
        step: Option<f64>,
        log: bool,
    },
    /// One of these distinct values.
    Categorical(Vec<Value>),
    Boolean,
    /// All of these distinct values in some order. A value is an array.
    Permutation(Vec<Value>),
    /// A sequence of compiler passes. A value is an array of their names.
    Pipeline(PassChoice),
}

/// The possible sequences of passes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PassChoice {
    /// Names that may occur, any number of times.
    pub passes: Vec<String>,
    /// The sequence from which a search starts.
    pub start: Vec<String>,
    /// Minimum and maximum number of passes.
    pub shortest: usize,
    pub longest: usize,
}

impl Domain {
    /// The domain as the existing Mneme describes it.
    pub fn dimension(&self) -> Value {
        match self {
            Self::Integer { low, high, step, .. } => {
                json!({"type": "int_range", "low": low, "high": high, "step": step})
            }
            Self::Real { low, high, .. } => json!({"type": "real_range", "low": low, "high": high}),
            Self::Categorical(values) => match &values[..] {
                [value] => json!({"type": "fixed", "value": value}),
                values => json!({"type": "categorical", "choices": values}),
            },
            Self::Boolean => json!({"type": "bool", "choices": [true, false]}),
            Self::Permutation(values) => json!({"type": "permutation", "choices": values}),
            Self::Pipeline(choice) => json!({"type": "pipeline", "choices": choice.passes}),
        }
    }

    /// Number of values; `None` if infinite or too large to count.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Integer { low, high, step, .. } => (high.abs_diff(*low) / step.unsigned_abs()).checked_add(1),
            Self::Real { low, high, step, .. } => match step {
                _ if low == high => Some(1),
                Some(step) => Some(((high - low) / step + STEP_SLACK).floor() as u64 + 1),
                None => None,
            },
            Self::Categorical(values) => Some(values.len() as u64),
            Self::Boolean => Some(2),
            Self::Permutation(values) => (1..=values.len() as u64).try_fold(1u64, u64::checked_mul),
            Self::Pipeline(choice) => {
                let names = choice.passes.len() as u64;
                (choice.shortest..=choice.longest)
                    .try_fold(0u64, |sum, length| sum.checked_add(names.checked_pow(u32::try_from(length).ok()?)?))
            }
        }
    }

    /// Value number `index` of a domain with a [`size`](Self::size). Larger indices give the last value.
    pub fn nth(&self, index: u64) -> Value {
        let index = self.size().map_or(index, |size| index.min(size.saturating_sub(1)));
        match self {
            Self::Integer { low, step, .. } => {
                low.saturating_add(i64::try_from(index).unwrap_or(i64::MAX).saturating_mul(*step)).into()
            }
            Self::Real { low, high, step, .. } => (low + index as f64 * step.unwrap_or(0.0)).min(*high).into(),
            Self::Categorical(values) => values[index as usize].clone(),
            Self::Boolean => (index > 0).into(),
            Self::Permutation(values) => nth_permutation(values, index).into(),
            Self::Pipeline(choice) => choice.nth(index).into(),
        }
    }

    /// The index of a value in a domain with ordered values: numbers, including an ascending list of numbers.
    pub fn place(&self, value: &Value) -> Option<u64> {
        match self {
            Self::Integer { low, step, .. } => Some(value.as_i64()?.abs_diff(*low) / step.unsigned_abs()),
            Self::Real { low, step: Some(step), .. } => Some(((value.as_f64()? - low) / step).round().max(0.0) as u64),
            Self::Categorical(values) => {
                let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
                numbers?.is_sorted().then(|| values.iter().position(|it| it == value))?.map(|place| place as u64)
            }
            Self::Real { step: None, .. } | Self::Boolean | Self::Permutation(_) | Self::Pipeline(_) => None,
        }
    }

    /// The value at `position`, from 0 to 1. Equal intervals contain equally many values or, with `log`, equal ratios.
    pub fn at(&self, position: f64) -> Value {
        let position = position.clamp(0.0, 1.0 - f64::EPSILON);
        match self {
            Self::Real { low, high, step: None, log } => {
                if *log {
                    (low * (high / low).powf(position)).clamp(*low, *high).into()
                } else {
                    (low + position * (high - low)).into()
                }
            }
            Self::Integer { low, high, step, log: true } => {
                // Each value covers the interval from half a step below to half a step above it.
                let (from, to) = (*low as f64 - 0.5 * *step as f64, *high as f64 + 0.5 * *step as f64);
                let from = from.max(*low as f64 * 0.5);
                let value = from * (to / from).powf(position);
                let index = ((value - *low as f64) / *step as f64).round().max(0.0);
                self.nth(index as u64)
            }
            Self::Real { low, high, step: Some(step), log: true } => {
                let value = low * (high / low).powf(position);
                self.nth(((value - low) / step).round() as u64)
            }
            _ => match self.size() {
                Some(size) => self.nth((position * size as f64) as u64),
                // Too many orders or sequences to count: the position's digits choose one.
                None => match self {
                    Self::Permutation(values) => nth_permutation(values, (position * u64::MAX as f64) as u64).into(),
                    Self::Pipeline(choice) => choice.nth((position * u64::MAX as f64) as u64).into(),
                    _ => unreachable!("all other domains are counted, or a stretch of real numbers"),
                },
            },
        }
    }

    /// Whether the domain contains this value.
    pub fn contains(&self, value: &Value) -> bool {
        match self {
            Self::Integer { low, high, step, .. } => {
                value.as_i64().is_some_and(|value| (*low..=*high).contains(&value) && (value - low) % step == 0)
            }
            Self::Real { low, high, step, .. } => value.as_f64().is_some_and(|value| {
                let on_step = step.is_none_or(|step| {
                    let steps = (value - low) / step;
                    (steps - steps.round()).abs() < STEP_SLACK
                });
                (*low..=*high).contains(&value) && on_step
            }),
            Self::Categorical(values) => values.contains(value),
            Self::Boolean => value.is_boolean(),
            Self::Permutation(values) => value
                .as_array()
                .is_some_and(|order| order.len() == values.len() && values.iter().all(|wanted| order.contains(wanted))),
            Self::Pipeline(choice) => value.as_array().is_some_and(|sequence| {
                (choice.shortest..=choice.longest).contains(&sequence.len())
                    && sequence
                        .iter()
                        .all(|pass| pass.as_str().is_some_and(|pass| choice.passes.iter().any(|name| name == pass)))
            }),
        }
    }
}

/// Tolerance for rounding in a number of steps.
const STEP_SLACK: f64 = 1e-9;

/// Number `index` among the orders of `values`, in lexicographic order of positions.
fn nth_permutation(values: &[Value], mut index: u64) -> Vec<Value> {
    let mut left: Vec<&Value> = values.iter().collect();
    let mut digits = Vec::with_capacity(values.len());
    for radix in 1..=values.len() as u64 {
        digits.push(index % radix);
        index /= radix;
    }
    digits.iter().rev().map(|digit| left.remove(*digit as usize).clone()).collect()
}

impl PassChoice {
    /// Sequence number `index`: shorter ones first, the last pass varying fastest.
    fn nth(&self, mut index: u64) -> Vec<Value> {
        let names = self.passes.len() as u64;
        let mut length = self.shortest;
        while length < self.longest
            && let Some(count) = names.checked_pow(length as u32).filter(|count| index >= *count)
        {
            index -= count;
            length += 1;
        }
        let mut sequence = Vec::with_capacity(length);
        for _ in 0..length {
            sequence.push(Value::from(self.passes[(index % names) as usize].as_str()));
            index /= names;
        }
        sequence.reverse();
        sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn domains() -> impl Strategy<Value = Domain> {
        let integer = (1i64..50, 0i64..500, 1i64..20, any::<bool>())
            .prop_map(|(low, extent, step, log)| Domain::Integer { low, high: low + extent, step, log });
        let real = (0.01f64..10.0, 0.0f64..100.0, proptest::option::of(0.1f64..3.0), any::<bool>())
            .prop_map(|(low, extent, step, log)| Domain::Real { low, high: low + extent, step, log });
        let values = |most| (1..most).prop_map(|count: u64| (0..count).map(Value::from).collect::<Vec<_>>());
        let pipeline = (1usize..4, 0usize..3, 0usize..3).prop_map(|(count, shortest, more)| {
            Domain::Pipeline(PassChoice {
                passes: names(&["gvn", "licm", "sroa"][..count]),
                start: Vec::new(),
                shortest,
                longest: shortest + more,
            })
        });
        prop_oneof![
            integer,
            real,
            values(9u64).prop_map(Domain::Categorical),
            Just(Domain::Boolean),
            values(6u64).prop_map(Domain::Permutation),
            pipeline
        ]
    }

    #[test]
    fn values_in_order_have_places() {
        let list = |values: &[i64]| Domain::Categorical(values.iter().map(|value| (*value).into()).collect());
        assert_eq!(list(&[1, 2, 8]).place(&8.into()), Some(2));
        assert_eq!(list(&[2, 1, 8]).place(&8.into()), None, "in no order");
        assert_eq!(Domain::Integer { low: 32, high: 512, step: 32, log: false }.place(&96.into()), Some(2));
        assert_eq!(Domain::Real { low: 0.5, high: 2.0, step: Some(0.25), log: false }.place(&1.25.into()), Some(3));
        assert_eq!(Domain::Boolean.place(&true.into()), None);
    }

    proptest! {
        #[test]
        fn every_position_is_in_the_domain(domain in domains(), position in 0.0f64..=1.0) {
            let value = domain.at(position);
            prop_assert!(domain.contains(&value), "{value} of {domain:?}");
        }

        #[test]
        fn a_finite_domain_is_counted_and_its_values_are_distinct(domain in domains()) {
            if let Some(size) = domain.size() {
                let values: BTreeSet<String> = (0..size)
                    .map(|index| domain.nth(index))
                    .inspect(|value| assert!(domain.contains(value), "{value}"))
                    .map(|value| value.to_string())
                    .collect();
                prop_assert_eq!(values.len() as u64, size);
                prop_assert!(values.contains(&domain.nth(size).to_string()));
            }
        }
    }

    #[test]
    fn ends_are_included() {
        let blocks = Domain::Integer { low: 64, high: 1024, step: 64, log: false };
        assert_eq!((blocks.size(), blocks.at(0.0), blocks.at(1.0)), (Some(16), json!(64), json!(1024)));
        let fraction = Domain::Real { low: 0.0, high: 1.0, step: Some(0.1), log: false };
        assert_eq!((fraction.size(), fraction.at(1.0)), (Some(11), json!(1.0)));
        let uneven = Domain::Integer { low: 1, high: 10, step: 4, log: false };
        assert_eq!((uneven.size(), uneven.nth(2), uneven.nth(7)), (Some(3), json!(9), json!(9)));
    }

    #[test]
    fn a_logarithmic_domain_gives_every_octave_its_share() {
        let domain = Domain::Integer { low: 1, high: 1023, step: 1, log: true };
        let below_32 = (0..1000).filter(|i| domain.at(f64::from(*i) / 1000.0).as_i64().unwrap() < 32).count();
        assert!((480..=620).contains(&below_32), "{below_32}");
        assert_eq!((domain.at(0.0), domain.at(1.0)), (json!(1), json!(1023)));
    }
}
