//! A Gaussian process over a space's parameters, which predicts a configuration's value from others.
//!
//! The covariance is a product over the parameters of 1 + w·k, so it contains effects of single parameters, of pairs
//! and of more (Duvenaud, Nickisch and Rasmussen, "Additive Gaussian Processes", 2011). k is a Matérn function of the
//! distance between two values, mixed with a share for equal values only, because values such as powers of two may be
//! unlike their neighbours.

use super::axis::{Axis, EncodedValue};

/// The share of a parameter's covariance for equal values only.
const EQUAL: f64 = 0.3;
/// Means and standard deviations of the normal priors for the logarithms of a parameter's inverse length, of its
/// weight, and of the noise.
const INVERSE_LENGTH: (f64, f64) = (0.0, 1.0);
const WEIGHT: (f64, f64) = (-1.0, 1.0);
const NOISE: (f64, f64) = (-5.0, 1.5);
/// Steps of the fit.
const STEPS: usize = 20;
/// Points whose deviations are computed together: their sums fill the registers of a vector unit.
const LANES: usize = 16;
/// Limit on the values of an axis with a table of covariances.
const TABULATED: usize = 128;

/// The covariance and its parameters.
#[derive(Clone, Debug)]
pub struct Covariance {
    /// Logarithms of each axis' inverse length, of each axis' weight, and of the noise.
    parameters: Vec<f64>,
    factors: Vec<Factor>,
    noise: f64,
}

/// The factor of one axis.
#[derive(Clone, Debug)]
struct Factor {
    inverse_length: f64,
    weight: f64,
    /// By both indices, if values are counted.
    table: Vec<f64>,
    size: usize,
}

impl Factor {
    fn new(axis: &Axis, inverse_length: f64, weight: f64) -> Self {
        let size = axis.indices().filter(|size| *size <= TABULATED).unwrap_or(0);
        let mut factor = Self { inverse_length, weight, table: Vec::new(), size };
        factor.table = (0..size * size)
            .map(|place| {
                factor
                    .of_distance(axis.distance(&EncodedValue::Index(place / size), &EncodedValue::Index(place % size)))
            })
            .collect();
        factor
    }

    /// The Matérn function (5/2) plus the share for equal values.
    fn similarity(&self, distance: f64) -> f64 {
        let e = 5f64.sqrt() * distance * self.inverse_length;
        (1.0 - EQUAL) * (1.0 + e + e * e / 3.0) * (-e).exp() + if distance == 0.0 { EQUAL } else { 0.0 }
    }

    fn of_distance(&self, distance: f64) -> f64 {
        (1.0 + self.weight * self.similarity(distance)) / (1.0 + self.weight)
    }

    fn of(&self, axis: &Axis, a: &EncodedValue, b: &EncodedValue) -> f64 {
        match (a, b) {
            (EncodedValue::Index(a), EncodedValue::Index(b)) if self.size > 0 => self.table[a * self.size + b],
            _ => self.of_distance(axis.distance(a, b)),
        }
    }

    /// Derivatives of the factor's logarithm by the logarithms of inverse length and weight.
    fn slopes(&self, distance: f64) -> (f64, f64) {
        let (e, similarity) = (5f64.sqrt() * distance * self.inverse_length, self.similarity(distance));
        let slope = -(1.0 - EQUAL) * e * e / 3.0 * (1.0 + e) * (-e).exp();
        let whole = 1.0 + self.weight * similarity;
        (self.weight * slope / whole, self.weight * similarity / whole - self.weight / (1.0 + self.weight))
    }
}

impl Covariance {
    /// The covariance at the mode of the prior.
    pub fn new(axes: &[Axis]) -> Self {
        let parameters = [vec![INVERSE_LENGTH.0; axes.len()], vec![WEIGHT.0; axes.len()], vec![NOISE.0]].concat();
        Self::with(axes, parameters)
    }

    fn with(axes: &[Axis], parameters: Vec<f64>) -> Self {
        let count = axes.len();
        let factors = axes
            .iter()
            .enumerate()
            .map(|(at, axis)| Factor::new(axis, parameters[at].exp(), parameters[count + at].exp()));
        Self { factors: factors.collect(), noise: parameters[2 * count].exp(), parameters }
    }

    /// Fits the parameters to values with mean 0: approaches the mode of their posterior by resilient backpropagation
    /// (Riedmiller and Braun, 1993).
    #[must_use]
    pub fn fitted(&self, axes: &[Axis], points: &[&[EncodedValue]], values: &[f64]) -> Self {
        let mut at = self.parameters.clone();
        let (mut lengths, mut before) = (vec![0.2; at.len()], vec![0.0f64; at.len()]);
        let mut best: Option<(f64, Self)> = None;
        for _ in 0..STEPS {
            let covariance = Self::with(axes, at.clone());
            let Some((loss, slopes)) = covariance.loss(axes, points, values) else { break };
            for (place, slope) in slopes.iter().enumerate() {
                let turned = slope * before[place];
                lengths[place] = if turned > 0.0 {
                    f64::min(lengths[place] * 1.3, 1.0)
                } else {
                    lengths[place] * if turned < 0.0 { 0.5 } else { 1.0 }
                };
                let direction = if *slope == 0.0 { 0.0 } else { slope.signum() };
                at[place] = (at[place] - lengths[place] * direction).clamp(-5.0, 5.0);
            }
            let noise = at.len() - 1;
            at[noise] = at[noise].min(0.0);
            before = slopes;
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, covariance));
            }
        }
        best.map_or_else(|| self.clone(), |(_, covariance)| covariance)
    }

    /// The negative logarithm of the posterior density, and its slopes. Uses the most likely variance of the values.
    fn loss(&self, axes: &[Axis], points: &[&[EncodedValue]], values: &[f64]) -> Option<(f64, Vec<f64>)> {
        let (n, count) = (points.len(), axes.len());
        let posterior = Posterior::new(self.clone(), axes, points, values)?;
        let lower = &posterior.lower;
        // The columns of the inverse of the lower triangle.
        let mut inverse = vec![0.0; n * n];
        for column in 0..n {
            inverse[column * n + column] = 1.0 / lower[column * n + column];
            for row in column + 1..n {
                let sum = dot(&lower[row * n + column..row * n + row], &inverse[column * n + column..column * n + row]);
                inverse[column * n + row] = -sum / lower[row * n + row];
            }
        }
        let weights = &posterior.weights;
        let mut loss =
            (0..n).map(|at| lower[at * n + at].ln()).sum::<f64>() + 0.5 * (n as f64 + 1.0) * posterior.variance.ln();
        let mut slopes = vec![0.0; 2 * count + 1];
        let tables: Vec<Vec<(f64, f64)>> = self
            .factors
            .iter()
            .zip(axes)
            .map(|(factor, axis)| {
                let distance = |place| {
                    axis.distance(&EncodedValue::Index(place / factor.size), &EncodedValue::Index(place % factor.size))
                };
                (0..factor.size * factor.size).map(|place| factor.slopes(distance(place))).collect()
            })
            .collect();
        for i in 0..n {
            let row = &inverse[i * n + i..(i + 1) * n];
            let covariances = posterior.known.covariances(axes, points[i], i);
            for j in 0..i {
                let inverted = dot(row, &inverse[j * n + i..(j + 1) * n]);
                let weight = (inverted - weights[i] * weights[j] / posterior.variance) * covariances[j];
                for (at, factor) in self.factors.iter().enumerate() {
                    let (by_length, by_weight) = match (&points[i][at], &points[j][at]) {
                        (EncodedValue::Index(a), EncodedValue::Index(b)) if factor.size > 0 => {
                            tables[at][a * factor.size + b]
                        }
                        (a, b) => factor.slopes(axes[at].distance(a, b)),
                    };
                    slopes[at] += weight * by_length;
                    slopes[count + at] += weight * by_weight;
                }
            }
            slopes[2 * count] += 0.5 * (dot(row, row) - weights[i] * weights[i] / posterior.variance) * self.noise;
        }
        for (at, parameter) in self.parameters.iter().enumerate() {
            let (mean, deviation) = if at < count {
                INVERSE_LENGTH
            } else if at < 2 * count {
                WEIGHT
            } else {
                NOISE
            };
            let off = (parameter - mean) / deviation;
            loss += 0.5 * off * off;
            slopes[at] += off / deviation;
        }
        loss.is_finite().then_some((loss, slopes))
    }
}

/// Points, with precomputed factors of their covariances.
#[derive(Debug)]
struct Known {
    covariance: Covariance,
    points: Vec<Vec<EncodedValue>>,
    /// By axis: factors by value and point, so that covariances with all points are products of rows; empty if values
    /// are not counted.
    factors: Vec<Vec<f64>>,
}

impl Known {
    fn new(covariance: Covariance, axes: &[Axis], points: &[&[EncodedValue]]) -> Self {
        let factors = covariance.factors.iter().zip(axes).enumerate().map(|(at, (factor, axis))| {
            let row = |index| points.iter().map(move |point| factor.of(axis, &point[at], &EncodedValue::Index(index)));
            (0..factor.size).flat_map(row).collect()
        });
        let factors = factors.collect();
        Self { covariance, points: points.iter().map(|point| point.to_vec()).collect(), factors }
    }

    /// The covariances of a point with the first `count` points.
    fn covariances(&self, axes: &[Axis], point: &[EncodedValue], count: usize) -> Vec<f64> {
        let mut row = vec![1.0; count];
        for (at, (factor, axis)) in self.covariance.factors.iter().zip(axes).enumerate() {
            match point[at] {
                EncodedValue::Index(index) if factor.size > 0 => {
                    let factors = &self.factors[at][index * self.points.len()..][..count];
                    row.iter_mut().zip(factors).for_each(|(product, factor)| *product *= factor);
                }
                ref code => row
                    .iter_mut()
                    .zip(&self.points)
                    .for_each(|(product, known)| *product *= factor.of(axis, &known[at], code)),
            }
        }
        row
    }
}

/// The process, given values at some points.
#[derive(Debug)]
pub struct Posterior {
    known: Known,
    /// The lower triangle of the covariance's Cholesky decomposition, by rows.
    lower: Vec<f64>,
    /// The values multiplied by the triangle's inverse, and by the covariance's inverse.
    whitened: Vec<f64>,
    weights: Vec<f64>,
    variance: f64,
}

impl Posterior {
    /// `None` if the points' covariance is singular.
    pub fn new(covariance: Covariance, axes: &[Axis], points: &[&[EncodedValue]], values: &[f64]) -> Option<Self> {
        let n = points.len();
        let known = Known::new(covariance, axes, points);
        let mut lower = vec![0.0; n * n];
        for i in 0..n {
            let mut row = known.covariances(axes, points[i], i + 1);
            row[i] += known.covariance.noise;
            for j in 0..i {
                row[j] = (row[j] - dot(&row[..j], &lower[j * n..j * n + j])) / lower[j * n + j];
            }
            row[i] = (row[i] - dot(&row[..i], &row[..i])).sqrt();
            if row[i].is_nan() || row[i] < 1e-6 {
                return None;
            }
            lower[i * n..=i * n + i].copy_from_slice(&row);
        }
        let mut whitened: Vec<f64> = Vec::with_capacity(n);
        for i in 0..n {
            whitened.push((values[i] - dot(&lower[i * n..i * n + i], &whitened)) / lower[i * n + i]);
        }
        let mut weights = whitened.clone();
        for i in (0..n).rev() {
            weights[i] /= lower[i * n + i];
            let (before, weight) = weights.split_at_mut(i);
            before.iter_mut().zip(&lower[i * n..]).for_each(|(rest, factor)| *rest -= factor * weight[0]);
        }
        let variance = (dot(&whitened, &whitened) + 1.0) / (n as f64 + 1.0);
        Some(Self { known, lower, whitened, weights, variance })
    }

    /// The mean at a point.
    pub fn mean(&self, axes: &[Axis], point: &[EncodedValue]) -> f64 {
        dot(&self.known.covariances(axes, point, self.weights.len()), &self.weights)
    }

    /// Means and standard deviations at points.
    pub fn at(&self, axes: &[Axis], points: &[&[EncodedValue]]) -> Vec<(f64, f64)> {
        let n = self.weights.len();
        let mut rows = vec![[0.0; LANES]; n];
        let mut found = Vec::with_capacity(points.len());
        for together in points.chunks(LANES) {
            for (lane, point) in together.iter().enumerate() {
                let covariances = self.known.covariances(axes, point, n);
                rows.iter_mut().zip(covariances).for_each(|(row, covariance)| row[lane] = covariance);
            }
            let (mut means, mut left) = ([0.0; LANES], [1.0; LANES]);
            for i in 0..n {
                let (solved, row) = rows.split_at_mut(i);
                let mut sums = row[0];
                for (factor, solved) in self.lower[i * n..].iter().zip(solved) {
                    sums.iter_mut().zip(solved).for_each(|(sum, solved)| *sum -= factor * *solved);
                }
                for (lane, sum) in sums.iter_mut().enumerate() {
                    *sum /= self.lower[i * n + i];
                    means[lane] += *sum * self.whitened[i];
                    left[lane] -= *sum * *sum;
                }
                row[0] = sums;
            }
            let deviations = left.map(|left| (self.variance * left.max(1e-10)).sqrt());
            found.extend(means.into_iter().zip(deviations).take(together.len()));
        }
        found
    }
}

/// The dot product in eight lanes, which the compiler vectorises.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (&a[..a.len().min(b.len())], &b[..a.len().min(b.len())]);
    let (a_parts, b_parts) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_parts.remainder().iter().zip(b_parts.remainder()).map(|(a, b)| a * b).sum();
    let mut lanes = [0.0; 8];
    for (a, b) in a_parts.zip(b_parts) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Domain;
    use serde_json::json;

    fn axes() -> Vec<Axis> {
        let width = Domain::Integer { low: 1, high: 16, step: 1, log: false };
        [width, Domain::Boolean, Domain::Real { low: 0.0, high: 1.0, step: None, log: false }]
            .iter()
            .map(Axis::new)
            .collect()
    }

    fn point(axes: &[Axis], number: u32) -> Vec<EncodedValue> {
        let values =
            [json!(1 + number * 7 % 16), json!(number.is_multiple_of(2)), json!(f64::from(number * 13 % 29) / 29.0)];
        axes.iter().zip(&values).map(|(axis, value)| axis.code(Some(value))).collect()
    }

    fn data() -> (Vec<Axis>, Vec<Vec<EncodedValue>>, Vec<f64>) {
        let axes = axes();
        let points: Vec<Vec<EncodedValue>> = (0..24).map(|number| point(&axes, number)).collect();
        let values: Vec<f64> = (0..24u32)
            .map(|number| (f64::from(number * 7 % 16) / 4.0).sin() + f64::from(number % 2) * 0.5 - 0.25)
            .collect();
        (axes, points, values)
    }

    #[test]
    fn slopes_are_those_of_the_loss() {
        let (axes, points, values) = data();
        let points: Vec<&[EncodedValue]> = points.iter().map(Vec::as_slice).collect();
        let at: Vec<f64> = (0..7).map(|place| -1.0 + 0.3 * f64::from(place)).collect();
        let (_, slopes) = Covariance::with(&axes, at.clone()).loss(&axes, &points, &values).unwrap();
        for (place, slope) in slopes.iter().enumerate() {
            let loss = |step: f64| {
                let mut moved = at.clone();
                moved[place] += step;
                Covariance::with(&axes, moved).loss(&axes, &points, &values).unwrap().0
            };
            let expected = (loss(1e-4) - loss(-1e-4)) / 2e-4;
            assert!((slope - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{place}: {slope} for {expected}");
        }
    }

    #[test]
    fn what_was_measured_is_known_and_what_is_far_is_not() {
        let (axes, points, values) = data();
        let known: Vec<&[EncodedValue]> = points.iter().map(Vec::as_slice).collect();
        let covariance = Covariance::new(&axes).fitted(&axes, &known, &values);
        let posterior = Posterior::new(covariance, &axes, &known, &values).unwrap();
        let off: f64 =
            posterior.at(&axes, &known).iter().zip(&values).map(|((mean, _), value)| (mean - value).abs()).sum::<f64>()
                / 24.0;
        assert!(off < 0.15, "{off}");
        let few = Posterior::new(Covariance::new(&axes), &axes, &known[..1], &values[..1]).unwrap();
        let deviations = few.at(&axes, &known);
        assert!(deviations[0].1 < 0.3 * deviations[9].1);
    }

    #[test]
    fn points_together_are_as_each_alone() {
        let (axes, points, values) = data();
        let known: Vec<&[EncodedValue]> = points.iter().map(Vec::as_slice).collect();
        let posterior = Posterior::new(Covariance::new(&axes), &axes, &known[..20], &values[..20]).unwrap();
        let others: Vec<Vec<EncodedValue>> = (0..2 * LANES as u32 + 3).map(|number| point(&axes, number)).collect();
        let others: Vec<&[EncodedValue]> = others.iter().map(Vec::as_slice).collect();
        let together = posterior.at(&axes, &others);
        assert_eq!(together.len(), others.len());
        for (other, found) in others.iter().zip(together) {
            assert_eq!(posterior.at(&axes, &[other]), [found]);
            assert!((posterior.mean(&axes, other) - found.0).abs() < 1e-9);
        }
    }

    #[test]
    fn covariances_by_rows_are_products_of_the_axes_factors() {
        let (axes, mut points, _) = data();
        points[3][1] = EncodedValue::Absent;
        let known: Vec<&[EncodedValue]> = points.iter().map(Vec::as_slice).collect();
        let table = Known::new(Covariance::new(&axes), &axes, &known);
        for point in &points {
            let expected = points.iter().map(|other| -> f64 {
                let factors = table.covariance.factors.iter().zip(&axes).enumerate();
                factors.map(|(at, (factor, axis))| factor.of(axis, &other[at], &point[at])).product()
            });
            assert_eq!(table.covariances(&axes, point, points.len()), expected.collect::<Vec<f64>>());
        }
    }
}
