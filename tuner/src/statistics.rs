//! Confidence intervals and medians of repeated measurements.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// An estimate, and the interval that contains the true value with a given confidence.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The interval of a quantity, given the interval of its logarithm. The result is finite, because JSON has no
    /// infinity.
    #[must_use]
    pub fn exp(self) -> Self {
        let exp = |logarithm: f64| logarithm.exp().min(f64::MAX);
        Self { estimate: exp(self.estimate), low: exp(self.low), high: exp(self.high) }
    }

    /// Widens the interval to at least `half` on each side of the estimate.
    #[must_use]
    pub fn at_least(self, half: f64) -> Self {
        let Self { estimate, low, high } = self;
        Self { estimate, low: low.min(estimate - half), high: high.max(estimate + half) }
    }
}

/// Student's interval for the mean of independent samples. `None` for fewer than two.
pub fn mean(samples: &[f64], confidence: f64) -> Option<Interval> {
    if samples.len() < 2 {
        return None;
    }
    let count = samples.len() as f64;
    let estimate = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|sample| (sample - estimate).powi(2)).sum::<f64>() / (count - 1.0);
    let quantile = StudentsT::new(0.0, 1.0, count - 1.0).ok()?.inverse_cdf(0.5 + confidence / 2.0);
    let half = quantile * (variance / count).sqrt();
    Some(Interval { estimate, low: estimate - half, high: estimate + half })
}

/// The median; of two middle values their mean. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len().is_multiple_of(2) {
        (sorted.get(middle.wrapping_sub(1))? + sorted[middle]) / 2.0
    } else {
        sorted[middle]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn students_interval_by_hand() {
        // Mean 3, standard deviation sqrt(2.5); t(4, 0.975) = 2.776445, from tables.
        let found = mean(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
        let half = 2.776_445 * (2.5f64 / 5.0).sqrt();
        assert!((found.estimate - 3.0).abs() < 1e-12);
        assert!((found.low - (3.0 - half)).abs() < 1e-5 && (found.high - (3.0 + half)).abs() < 1e-5, "{found:?}");
        // t(1, 0.95) = 6.313752
        let found = mean(&[0.0, 2.0], 0.9).unwrap();
        assert!((found.high - (1.0 + 6.313_752)).abs() < 1e-4, "{found:?}");
        assert_eq!(mean(&[1.0], 0.95), None);
        assert_eq!(mean(&[2.0, 2.0], 0.95), Some(Interval { estimate: 2.0, low: 2.0, high: 2.0 }));
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let rounds = 4000;
        let held = (0..rounds)
            .filter(|_| {
                // Sums of twelve uniform numbers, with mean 6.
                let samples: Vec<f64> = (0..10).map(|_| (0..12).map(|_| rng.random::<f64>()).sum()).collect();
                let found = mean(&samples, 0.9).unwrap();
                (found.low..=found.high).contains(&6.0)
            })
            .count();
        let share = held as f64 / f64::from(rounds);
        assert!((share - 0.9).abs() < 0.015, "{share}");
    }

    #[test]
    fn medians_by_hand() {
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
