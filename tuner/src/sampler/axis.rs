//! Domains for densities: distances between values, and kernels around them.

use std::f64::consts::{PI, SQRT_2};

use rand::{Rng, RngExt};
use serde_json::Value;
use statrs::function::erf::{erf, erf_inv};

use crate::space::{Domain, PassChoice};

use super::variation;
use crate::space::draw::draw_value;

/// Limit on the values of a grid. Larger domains are treated as real intervals.
const LARGEST_GRID: u64 = 4096;
/// Limit on edits between a sequence and one drawn around it.
const EDITS: usize = 3;

/// A parameter's domain, prepared for a density.
#[derive(Debug)]
pub enum Axis {
    /// Countable numbers, each with an interval of the axis (logarithmic if the domain is).
    Grid {
        domain: Domain,
        edges: Vec<f64>,
        centres: Vec<f64>,
    },
    /// Real numbers.
    Line {
        domain: Domain,
        low: f64,
        high: f64,
        log: bool,
    },
    /// Values without an order. Distances are between 0 and 1, if the values contain numbers.
    Choice {
        domain: Domain,
        distances: Option<Vec<Vec<f64>>>,
        /// Ranks in ascending order, if all values are numbers.
        ranks: Option<Vec<usize>>,
    },
    Order {
        domain: Domain,
        values: Vec<Value>,
    },
    /// Sequences of passes, which have neighbours but no density.
    Sequence(PassChoice),
}

/// A value on its axis.
#[derive(Clone, Debug, PartialEq)]
pub enum EncodedValue {
    /// The parameter does not apply.
    Absent,
    Index(usize),
    Number(f64),
    /// Indices of the values in an order.
    Order(Vec<usize>),
    /// Count of each pass in a sequence.
    Bag(Vec<u32>),
}

impl Axis {
    pub fn new(domain: &Domain) -> Self {
        let (log, half_step) = match domain {
            Domain::Integer { step, log, .. } => (*log, Some(*step as f64 / 2.0)),
            Domain::Real { step, log, .. } => (*log, step.map(|step| step / 2.0)),
            Domain::Categorical(values) => {
                return Self::Choice { domain: domain.clone(), distances: distances(values), ranks: ranks(values) };
            }
            Domain::Boolean => return Self::Choice { domain: domain.clone(), distances: None, ranks: None },
            Domain::Permutation(values) => return Self::Order { domain: domain.clone(), values: values.clone() },
            Domain::Pipeline(choice) => return Self::Sequence(choice.clone()),
        };
        let place = |number: f64| if log { number.ln() } else { number };
        match (domain.size().filter(|size| *size <= LARGEST_GRID), half_step) {
            (Some(size), Some(half)) => {
                let numbers: Vec<f64> = (0..size).filter_map(|index| domain.nth(index).as_f64()).collect();
                // On a logarithmic axis, the first interval must not reach down to 0.
                let first = if log { (numbers[0] - half).max(numbers[0] / SQRT_2) } else { numbers[0] - half };
                let edges =
                    std::iter::once(first).chain(numbers.iter().map(|number| number + half)).map(place).collect();
                Self::Grid { domain: domain.clone(), edges, centres: numbers.into_iter().map(place).collect() }
            }
            _ => {
                let (low, high) = match domain {
                    Domain::Integer { low, high, .. } => (*low as f64, *high as f64),
                    Domain::Real { low, high, .. } => (*low, *high),
                    _ => unreachable!("the others have returned"),
                };
                Self::Line { domain: domain.clone(), low: place(low), high: place(high), log }
            }
        }
    }

    /// Whether the axis has more than one value.
    pub fn varies(&self) -> bool {
        match self {
            Self::Grid { centres, .. } => centres.len() > 1,
            Self::Line { low, high, .. } => low < high,
            Self::Choice { domain, .. } => domain.size() != Some(1),
            Self::Order { values, .. } => values.len() > 1,
            Self::Sequence(_) => true,
        }
    }

    pub fn code(&self, value: Option<&Value>) -> EncodedValue {
        let Some(value) = value else { return EncodedValue::Absent };
        match self {
            Self::Grid { domain, centres, .. } => {
                let log = matches!(domain, Domain::Integer { log: true, .. } | Domain::Real { log: true, .. });
                let number = value.as_f64().unwrap_or(0.0);
                let number = if log { number.ln() } else { number };
                let above = centres.partition_point(|centre| *centre < number).min(centres.len() - 1);
                let below = above.saturating_sub(1);
                EncodedValue::Index(if (number - centres[below]).abs() < (centres[above] - number).abs() {
                    below
                } else {
                    above
                })
            }
            Self::Line { log, .. } => {
                let number = value.as_f64().unwrap_or(0.0);
                EncodedValue::Number(if *log { number.ln() } else { number })
            }
            Self::Choice { domain: Domain::Categorical(values), .. } => {
                values.iter().position(|known| known == value).map_or(EncodedValue::Absent, EncodedValue::Index)
            }
            Self::Choice { .. } => EncodedValue::Index(usize::from(value.as_bool().unwrap_or(false))),
            Self::Order { values, .. } => {
                let places = value.as_array().map(|order| {
                    order
                        .iter()
                        .filter_map(|wanted| values.iter().position(|known| known == wanted))
                        .collect::<Vec<_>>()
                });
                places.filter(|places| places.len() == values.len()).map_or(EncodedValue::Absent, EncodedValue::Order)
            }
            Self::Sequence(choice) => {
                let mut counts = vec![0; choice.passes.len()];
                for pass in value.as_array().into_iter().flatten() {
                    if let Some(place) = choice.passes.iter().position(|name| pass == name.as_str()) {
                        counts[place] += 1;
                    }
                }
                EncodedValue::Bag(counts)
            }
        }
    }

    /// Number of values, if an index counts them.
    pub fn indices(&self) -> Option<usize> {
        match self {
            Self::Grid { centres, .. } => Some(centres.len()),
            Self::Choice { domain, .. } => domain.size().map(|size| size as usize),
            _ => None,
        }
    }

    /// The distance between two values, from 0 to 1. Listed numbers are as far apart as there are others between them.
    pub fn distance(&self, a: &EncodedValue, b: &EncodedValue) -> f64 {
        match (self, a, b) {
            (_, EncodedValue::Absent, EncodedValue::Absent) => 0.0,
            (Self::Grid { centres, .. }, EncodedValue::Index(a), EncodedValue::Index(b)) => {
                (centres[*a] - centres[*b]).abs() / (centres[centres.len() - 1] - centres[0]).max(f64::MIN_POSITIVE)
            }
            (Self::Choice { ranks: Some(ranks), .. }, EncodedValue::Index(a), EncodedValue::Index(b)) => {
                ranks[*a].abs_diff(ranks[*b]) as f64 / (ranks.len() - 1).max(1) as f64
            }
            (Self::Choice { distances: Some(distances), .. }, EncodedValue::Index(a), EncodedValue::Index(b)) => {
                distances[*a][*b]
            }
            (Self::Line { low, high, .. }, EncodedValue::Number(a), EncodedValue::Number(b)) => {
                (a - b).abs() / (high - low).max(f64::MIN_POSITIVE)
            }
            (Self::Order { values, .. }, EncodedValue::Order(a), EncodedValue::Order(b)) => {
                inversions(a, b) as f64 / (values.len() * (values.len() - 1) / 2).max(1) as f64
            }
            (Self::Sequence(_), EncodedValue::Bag(a), EncodedValue::Bag(b)) => {
                let differing: u32 = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).sum();
                f64::from(differing) / f64::from(a.iter().chain(b).sum::<u32>().max(1))
            }
            (_, a, b) => f64::from(u8::from(a != b)),
        }
    }

    /// The logarithm of the uniform density at `x`.
    pub fn uniform(&self, x: &EncodedValue) -> f64 {
        match (self, x) {
            (Self::Grid { edges, .. }, EncodedValue::Index(index)) => {
                ((edges[index + 1] - edges[*index]) / (edges[edges.len() - 1] - edges[0])).ln()
            }
            (Self::Line { low, high, .. }, _) if low < high => -(high - low).ln(),
            (Self::Choice { domain, .. }, _) => -(domain.size().unwrap_or(1) as f64).ln(),
            (Self::Order { values, .. }, _) => -(1..=values.len()).map(|i| (i as f64).ln()).sum::<f64>(),
            _ => 0.0,
        }
    }

    /// Kernels of one width around every value that an observation can have.
    pub fn kernels(&self, width: f64, observations: usize) -> Kernels<'_> {
        let table: Vec<Vec<f64>> = match self {
            Self::Grid { edges, centres, .. } => {
                let extent = edges[edges.len() - 1] - edges[0];
                let sigma = width * extent;
                // Adds one imaginary observation with the uniform distribution.
                let ground = 1.0 / (observations as f64 + 1.0);
                let row = |centre: &f64| {
                    let cumulated: Vec<f64> = edges.iter().map(|edge| normal_below((edge - centre) / sigma)).collect();
                    let all = cumulated[cumulated.len() - 1] - cumulated[0];
                    let near = cumulated.windows(2).map(|pair| (pair[1] - pair[0]) / all);
                    let even = edges.windows(2).map(|pair| (pair[1] - pair[0]) / extent);
                    near.zip(even)
                        .map(|(near, even)| ((1.0 - ground) * near + ground * even).max(f64::MIN_POSITIVE))
                        .collect()
                };
                centres.iter().map(row).collect()
            }
            Self::Choice { domain, distances, .. } => {
                let count = domain.size().unwrap_or(1) as usize;
                // Adds imaginary observations of every value, which together weigh as much as one.
                let ground = 1.0 / (observations as f64 + 1.0);
                let near = |i: usize, j: usize| match distances {
                    Some(distances) => (-0.5 * (distances[i][j] / width).powi(2)).exp(),
                    None => f64::from(u8::from(i == j)),
                };
                let row = |i: usize| {
                    let weights: Vec<f64> = (0..count).map(|j| ground + near(i, j)).collect();
                    let all: f64 = weights.iter().sum();
                    weights.into_iter().map(|weight| weight / all).collect()
                };
                (0..count).map(row).collect()
            }
            _ => Vec::new(),
        };
        let logarithms = table.iter().flatten().map(|share| share.ln()).collect();
        Kernels { axis: self, width, table, logarithms }
    }
}

/// Kernels around the values of an axis.
pub struct Kernels<'a> {
    axis: &'a Axis,
    /// Relative to the axis' extent.
    width: f64,
    /// Probability by centre and value if values are counted, and all logarithms.
    table: Vec<Vec<f64>>,
    logarithms: Vec<f64>,
}

impl Kernels<'_> {
    /// The logarithm of the density at `x` around `centre`.
    pub fn density(&self, centre: &EncodedValue, x: &EncodedValue) -> f64 {
        match (self.axis, centre, x) {
            (_, EncodedValue::Index(centre), EncodedValue::Index(x)) => self.logarithms[centre * self.table.len() + x],
            (Axis::Line { low, high, .. }, EncodedValue::Number(centre), EncodedValue::Number(x)) if low < high => {
                let sigma = self.width * (high - low);
                let inside = normal_below((high - centre) / sigma) - normal_below((low - centre) / sigma);
                -0.5 * ((x - centre) / sigma).powi(2) - (sigma * (2.0 * PI).sqrt() * inside).ln()
            }
            (Axis::Order { .. }, EncodedValue::Order(centre), EncodedValue::Order(x)) => {
                let spread = self.spread();
                let normal: f64 =
                    (1..=centre.len()).map(|i| ((1.0 - spread.powi(i as i32)) / (1.0 - spread)).ln()).sum();
                inversions(centre, x) as f64 * spread.ln() - normal
            }
            _ => self.axis.uniform(x),
        }
    }

    /// How much less likely an order becomes with each inverted pair (Mallows' model).
    fn spread(&self) -> f64 {
        self.width.clamp(0.01, 0.99)
    }

    /// Draws a value around `centre`.
    pub fn draw(&self, centre: &EncodedValue, origin: &Value, rng: &mut impl Rng) -> Value {
        match (self.axis, centre) {
            (Axis::Grid { domain, .. } | Axis::Choice { domain, .. }, EncodedValue::Index(centre)) => {
                domain.nth(pick(&self.table[*centre], rng) as u64)
            }
            (Axis::Line { domain, low, high, log }, EncodedValue::Number(centre)) if low < high => {
                let sigma = self.width * (high - low);
                let (from, to) = (normal_below((low - centre) / sigma), normal_below((high - centre) / sigma));
                let share = from + rng.random::<f64>() * (to - from);
                let place = (centre + sigma * SQRT_2 * erf_inv(2.0 * share - 1.0)).clamp(*low, *high);
                let number = if *log { place.exp() } else { place };
                match domain {
                    Domain::Real { low, high, step: None, .. } => number.clamp(*low, *high).into(),
                    Domain::Real { low, step: Some(step), .. } => {
                        domain.nth(((number - low) / step).round().max(0.0) as u64)
                    }
                    Domain::Integer { low, step, .. } => {
                        domain.nth(((number - *low as f64) / *step as f64).round().max(0.0) as u64)
                    }
                    _ => unreachable!("a line is made of numbers"),
                }
            }
            (Axis::Order { values, .. }, EncodedValue::Order(centre)) => {
                // Inserts each value of the centre from the end; positions further forward are less likely.
                let mut order: Vec<usize> = Vec::with_capacity(centre.len());
                for value in centre {
                    let weights: Vec<f64> = (0..=order.len()).map(|moved| self.spread().powi(moved as i32)).collect();
                    let all: f64 = weights.iter().sum();
                    let shares: Vec<f64> = weights.iter().map(|weight| weight / all).collect();
                    order.insert(order.len() - pick(&shares, rng), *value);
                }
                order.into_iter().map(|place| values[place].clone()).collect::<Vec<_>>().into()
            }
            (Axis::Sequence(choice), _) => {
                let mut sequence = origin.as_array().cloned().unwrap_or_default();
                for _ in 0..rng.random_range(1..=EDITS) {
                    sequence = variation::edit(choice, &sequence, rng);
                }
                sequence.into()
            }
            (
                Axis::Grid { domain, .. }
                | Axis::Line { domain, .. }
                | Axis::Choice { domain, .. }
                | Axis::Order { domain, .. },
                _,
            ) => draw_value(domain, rng),
        }
    }
}

/// Draws an index with these probabilities.
fn pick(shares: &[f64], rng: &mut impl Rng) -> usize {
    let mut left: f64 = rng.random();
    for (place, share) in shares.iter().enumerate() {
        left -= share;
        if left < 0.0 {
            return place;
        }
    }
    shares.len() - 1
}

/// The normal distribution function.
fn normal_below(x: f64) -> f64 {
    0.5 * (1.0 + erf(x / SQRT_2))
}

/// The number of inverted pairs between two orders (Kendall's distance).
fn inversions(a: &[usize], b: &[usize]) -> usize {
    let mut places = vec![0; b.len()];
    for (place, value) in b.iter().enumerate() {
        places[*value] = place;
    }
    (0..a.len())
        .flat_map(|i| (i + 1..a.len()).map(move |j| (i, j)))
        .filter(|(i, j)| places[a[*i]] > places[a[*j]])
        .count()
}

/// Ranks of numbers in ascending order; `None` if a value is not a number.
fn ranks(values: &[Value]) -> Option<Vec<usize>> {
    let numbers: Vec<f64> = values.iter().map(Value::as_f64).collect::<Option<_>>()?;
    Some(numbers.iter().map(|number| numbers.iter().filter(|other| *other < number).count()).collect())
}

/// Distances between positive numbers, or objects of them with the same keys (shapes), by ratio relative to the
/// largest. `None` for other values, or fewer than three.
fn distances(values: &[Value]) -> Option<Vec<Vec<f64>>> {
    let place = |value: &Value| -> Option<Vec<f64>> {
        let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0).map(f64::ln);
        match value {
            Value::Object(fields) => fields.values().map(number).collect(),
            other => Some(vec![number(other)?]),
        }
    };
    let places: Vec<Vec<f64>> = values.iter().map(place).collect::<Option<_>>()?;
    if places.len() < 3 || places.iter().any(|place| place.len() != places[0].len()) {
        return None;
    }
    let between = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    let table: Vec<Vec<f64>> = places.iter().map(|a| places.iter().map(|b| between(a, b)).collect()).collect();
    let largest = table.iter().flatten().copied().fold(0.0, f64::max);
    (largest > 0.0)
        .then(|| table.into_iter().map(|row| row.into_iter().map(|distance| distance / largest).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use serde_json::json;

    fn axes() -> Vec<Axis> {
        [
            Domain::Integer { low: 32, high: 1024, step: 32, log: false },
            Domain::Integer { low: 1, high: 1024, step: 1, log: true },
            Domain::Real { low: 0.5, high: 2.0, step: Some(0.25), log: false },
            Domain::Categorical(vec![json!("a"), json!("b"), json!("c")]),
            Domain::Categorical(vec![json!(8), json!(16), json!(64), json!(1024)]),
            Domain::Boolean,
            Domain::Permutation((0..5).map(Value::from).collect()),
        ]
        .iter()
        .map(Axis::new)
        .collect()
    }

    /// All values of an axis with counted values.
    fn values(axis: &Axis) -> Vec<Value> {
        let (Axis::Grid { domain, .. } | Axis::Choice { domain, .. } | Axis::Order { domain, .. }) = axis else {
            panic!("not counted")
        };
        (0..domain.size().unwrap()).map(|index| domain.nth(index)).collect()
    }

    #[test]
    fn kernels_and_the_uniform_distribution_sum_to_one() {
        for axis in axes() {
            let values = values(&axis);
            let codes: Vec<EncodedValue> = values.iter().map(|value| axis.code(Some(value))).collect();
            let kernels = axis.kernels(0.1, 5);
            let all: f64 = codes.iter().map(|x| axis.uniform(x).exp()).sum();
            assert!((all - 1.0).abs() < 1e-9, "{axis:?}: {all}");
            for centre in [&codes[0], &codes[codes.len() / 2], &codes[codes.len() - 1]] {
                let all: f64 = codes.iter().map(|x| kernels.density(centre, x).exp()).sum();
                assert!((all - 1.0).abs() < 1e-9, "{axis:?}: {all}");
            }
        }
        let line = Axis::new(&Domain::Real { low: 1.0, high: 3.0, step: None, log: true });
        let (kernels, centre) = (line.kernels(0.2, 5), line.code(Some(&json!(1.2))));
        let places = 100_000;
        let sum: f64 = (0..places)
            .map(|i| {
                kernels
                    .density(&centre, &EncodedValue::Number(3f64.ln() * (f64::from(i) + 0.5) / f64::from(places)))
                    .exp()
                    * 3f64.ln()
                    / f64::from(places)
            })
            .sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn draws_have_the_frequencies_of_the_density() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        for axis in axes() {
            let values = values(&axis);
            let kernels = axis.kernels(0.3, 5);
            let centre = axis.code(Some(&values[1]));
            let draws = 20_000;
            let mut counts = vec![0; values.len()];
            for _ in 0..draws {
                let value = kernels.draw(&centre, &values[1], &mut rng);
                counts[values.iter().position(|known| *known == value).expect("a value of the domain")] += 1;
            }
            for (value, count) in values.iter().zip(counts) {
                let expected = kernels.density(&centre, &axis.code(Some(value))).exp();
                let found = f64::from(count) / f64::from(draws);
                assert!((found - expected).abs() < 0.015, "{value} of {axis:?}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn shapes_are_near_by_their_ratios() {
        let shapes = [json!({"x": 32, "y": 1}), json!({"x": 64, "y": 1}), json!({"x": 32, "y": 16})];
        let found = distances(&shapes).unwrap();
        assert!(found[0][1] < found[0][2] && found[1][2] == 1.0);
        assert_eq!(distances(&[json!("O1"), json!("O2"), json!("O3")]), None);
        assert_eq!(inversions(&[0, 1, 2, 3], &[3, 2, 1, 0]), 6);
    }
}
