//! The number by which configurations are ranked.

use clap::ValueEnum;
use mneme_model::result::ReplayResult;
use serde::{Deserialize, Serialize};

/// How measured times become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    Mean,
    Median,
    Min,
    Max,
}

impl Metric {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    /// Condenses times, keeping their unit. `None` without times, or if one is 0: no launch takes no time, so the clock
    /// stood still.
    pub fn of(self, times: &[u64]) -> Option<f64> {
        let (min, max) = (*times.iter().min().filter(|min| **min > 0)?, *times.iter().max()?);
        Some(match self {
            Self::Min => min as f64,
            Self::Max => max as f64,
            Self::Mean => times.iter().map(|time| *time as f64).sum::<f64>() / times.len() as f64,
            Self::Median => {
                let mut sorted = times.to_vec();
                sorted.sort_unstable();
                let middle = sorted.len() / 2;
                if sorted.len().is_multiple_of(2) {
                    (sorted[middle - 1] as f64 + sorted[middle] as f64) / 2.0
                } else {
                    sorted[middle] as f64
                }
            }
        })
    }
}

/// The time of each run, ns, as the weighted mean of all instances; `None` unless each has a verified result.
pub fn weighted_times(weights: &[f64], results: &[ReplayResult]) -> Option<Vec<u64>> {
    if results.len() < weights.len() || !results.iter().all(|result| result.verified) {
        return None;
    }
    let all: f64 = weights.iter().sum();
    let runs = results.iter().map(|result| result.measured().len()).min().filter(|runs| *runs > 0)?;
    if results.iter().any(|result| result.measured().contains(&0)) {
        return None;
    }
    let of = |run: usize| -> f64 {
        let measured = weights.iter().zip(results);
        measured.map(|(weight, result)| weight * result.measured()[run] as f64 / all).sum()
    };
    Some((0..runs).map(|run| of(run).round() as u64).collect())
}

/// The mean of a value of each instance; `None` unless each has one.
pub fn weighted_mean(weights: &[f64], values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    let sum: f64 = weights.iter().zip(&values).map(|(weight, value)| weight * value).sum();
    (values.len() == weights.len()).then(|| sum / weights.iter().sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_by_hand() {
        let times = [40, 10, 30, 20];
        let all = [Metric::Mean, Metric::Median, Metric::Min, Metric::Max].map(|metric| metric.of(&times).unwrap());
        assert_eq!(all, [25.0, 25.0, 10.0, 40.0]);
        assert_eq!(Metric::Median.of(&[9, 1, 2]), Some(2.0));
        assert_eq!(Metric::Mean.of(&[86280, 84600, 88561, 81040, 81360, 80721, 74720]), Some(82468.85714285714));
    }

    #[test]
    fn instances_count_by_their_launches() {
        assert_eq!(weighted_mean(&[1.0, 3.0], [4.0, 8.0]), Some(7.0));
        assert_eq!(weighted_mean(&[1.0, 3.0], [4.0]), None);
    }

    #[test]
    fn nothing_measured_has_no_metric() {
        assert_eq!(Metric::Max.of(&[]), None);
        assert_eq!(Metric::Mean.of(&[7, 0, 7]), None);
    }
}
