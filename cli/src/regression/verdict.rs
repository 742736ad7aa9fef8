//! The comparison of two sets of results: verified, faster, slower or broken, with confidence.

use std::collections::BTreeMap;

use mneme_core::result::Status;
use serde::Serialize;

use super::stored::{CaseName, CaseResult, ResultsFile};

/// What became of a launch under a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is right, and there is nothing to compare its time with.
    Verified,
    /// As fast as before, or it cannot be told that it is not.
    Same,
    Faster,
    Slower,
    /// It is not right, or could not be run.
    Broken,
    /// It was tested before and is not now.
    Missing,
}

impl Verdict {
    /// Whether a test that has one ends with 1.
    pub fn fails(self) -> bool {
        matches!(self, Self::Slower | Self::Broken | Self::Missing)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Same => "same",
            Self::Faster => "faster",
            Self::Slower => "SLOWER",
            Self::Broken => "BROKEN",
            Self::Missing => "MISSING",
        }
    }
}

/// A launch under a pipeline, before and after.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    #[serde(flatten)]
    pub case: CaseName,
    pub verdict: Verdict,
    /// Empty, or one sentence.
    pub error: String,
    /// Median, ns.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// Time after over time before, with bounds of at least 95 % confidence.
    pub ratio: Option<Ratio>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// Compares results with those of before; times that differ by a smaller fraction than `threshold` are the same.
pub fn compare(before: Option<&ResultsFile>, after: &ResultsFile, threshold: f64) -> Vec<Compared> {
    let earlier: BTreeMap<&CaseName, &CaseResult> =
        before.iter().flat_map(|file| &file.results).map(|result| (&result.case, result)).collect();
    let now: BTreeMap<&CaseName, &CaseResult> = after.results.iter().map(|result| (&result.case, result)).collect();
    let mut compared: Vec<_> =
        after.results.iter().map(|result| one(earlier.get(&result.case).copied(), result, threshold)).collect();
    let missing = earlier.values().filter(|result| !now.contains_key(&result.case));
    compared.extend(missing.map(|result| Compared {
        case: result.case.clone(),
        verdict: Verdict::Missing,
        error: "it was tested before, and is not any more".into(),
        before: median(&result.times),
        after: None,
        ratio: None,
    }));
    compared
}

fn one(before: Option<&CaseResult>, after: &CaseResult, threshold: f64) -> Compared {
    // Times of what was wrong say nothing.
    let before = before.filter(|result| result.status == Status::Verified);
    let is_right = after.status == Status::Verified;
    let ratio = before.filter(|_| is_right).and_then(|before| ratio(&before.times, &after.times));
    let verdict = match (is_right, before.is_some(), ratio) {
        (false, ..) => Verdict::Broken,
        (true, false, _) => Verdict::Verified,
        (true, true, Some(ratio)) if ratio.low > 1.0 + threshold => Verdict::Slower,
        (true, true, Some(ratio)) if ratio.high < 1.0 / (1.0 + threshold) => Verdict::Faster,
        (true, true, _) => Verdict::Same,
    };
    let error = match after.error.as_str() {
        "" if !is_right => after.status.name().into(),
        error => error.to_owned(),
    };
    let times = |result: &CaseResult| median(&result.times);
    Compared {
        case: after.case.clone(),
        verdict,
        error,
        before: before.and_then(times),
        after: times(after).filter(|_| is_right),
        ratio,
    }
}

/// The quotient of two medians. Its bounds are those of the quotient's extremes, so that the confidence is higher than
/// that of each median.
fn ratio(before: &[u64], after: &[u64]) -> Option<Ratio> {
    let ((low, high), (old_low, old_high)) = (bounds(after)?, bounds(before)?);
    let estimate = median(after)? / median(before)?;
    (old_low > 0.0).then(|| Ratio { estimate, low: low / old_high, high: high / old_low })
}

pub fn median(times: &[u64]) -> Option<f64> {
    let sorted = sorted(times);
    let middle = sorted.len() / 2;
    Some(if sorted.len().is_multiple_of(2) {
        (sorted.get(middle.wrapping_sub(1))? + sorted[middle]) as f64 / 2.0
    } else {
        sorted[middle] as f64
    })
}

/// The order statistics between which the median of the distribution lies with at least 97.5 % confidence, whatever the
/// distribution; `None` of fewer than seven.
fn bounds(times: &[u64]) -> Option<(f64, f64)> {
    let sorted = sorted(times);
    let count = sorted.len();
    // Of `count` tosses of a coin fewer than `rank` are heads with this probability.
    let mut probability = 0.5f64.powi(i32::try_from(count).ok()?);
    let (mut below, mut rank) = (0.0, 0);
    while below + probability <= 0.0125 && rank < count / 2 {
        below += probability;
        probability *= (count - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    (rank > 0).then(|| (sorted[rank - 1] as f64, sorted[count - rank] as f64))
}

fn sorted(times: &[u64]) -> Vec<u64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(passes: &str, status: Status, times: &[u64]) -> CaseResult {
        let case =
            CaseName { kernel: "k(int)".into(), static_hash: "1".into(), instance: "2".into(), passes: passes.into() };
        CaseResult { case, status, error: String::new(), times: times.to_vec(), registers: 8 }
    }

    fn verdicts(before: &[CaseResult], after: &[CaseResult], threshold: f64) -> Vec<Verdict> {
        let file = |results: &[CaseResult]| ResultsFile::new(results.to_vec(), Default::default());
        compare(Some(&file(before)), &file(after), threshold).iter().map(|compared| compared.verdict).collect()
    }

    /// Eleven times around a median.
    fn around(median: u64) -> Vec<u64> {
        (0..11).map(|index| median - 5 + index).collect()
    }

    #[test]
    fn a_verdict_needs_more_than_the_threshold_and_confidence() {
        let of = |median: u64| [result("", Status::Verified, &around(median))];
        assert_eq!(verdicts(&of(1000), &of(1000), 0.05), [Verdict::Same]);
        assert_eq!(verdicts(&of(1000), &of(1040), 0.05), [Verdict::Same]);
        assert_eq!(verdicts(&of(1000), &of(1100), 0.05), [Verdict::Slower]);
        assert_eq!(verdicts(&of(1000), &of(900), 0.05), [Verdict::Faster]);
        assert_eq!(verdicts(&of(1000), &of(1100), 0.2), [Verdict::Same]);
        // Times that scatter as widely as they differ tell nothing, nor do few.
        let wide: Vec<u64> = (0..11).map(|index| 500 + 120 * index).collect();
        assert_eq!(verdicts(&of(1000), &[result("", Status::Verified, &wide)], 0.05), [Verdict::Same]);
        assert_eq!(verdicts(&of(1000), &[result("", Status::Verified, &[2000; 6])], 0.05), [Verdict::Same]);
        assert_eq!(verdicts(&of(1000), &[result("", Status::Verified, &[2000; 7])], 0.05), [Verdict::Slower]);
    }

    #[test]
    fn what_is_wrong_or_gone_is_told() {
        let good = result("", Status::Verified, &around(1000));
        let bad = result("", Status::FailedVerification, &around(10));
        assert_eq!(verdicts(std::slice::from_ref(&good), std::slice::from_ref(&bad), 0.05), [Verdict::Broken]);
        assert_eq!(verdicts(std::slice::from_ref(&bad), std::slice::from_ref(&good), 0.05), [Verdict::Verified]);
        let other = result("default<O1>", Status::Verified, &around(1000));
        assert_eq!(
            verdicts(std::slice::from_ref(&good), std::slice::from_ref(&other), 0.05),
            [Verdict::Verified, Verdict::Missing]
        );
    }

    /// The share of samples whose bounds hold the median of what they are drawn from.
    #[test]
    fn bounds_hold_the_median_as_often_as_they_say() {
        let mut state = 1u64;
        let mut random = || {
            // A linear congruential generator of Knuth's.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for count in [7, 11, 20] {
            let rounds = 4000;
            let held = (0..rounds)
                .filter(|_| {
                    let sample: Vec<u64> = (0..count).map(|_| random()).collect();
                    let (low, high) = bounds(&sample).unwrap();
                    (low..=high).contains(&((1u64 << 30) as f64))
                })
                .count();
            assert!(held as f64 / f64::from(rounds) > 0.97, "{count}: {held}");
        }
        assert_eq!(bounds(&[1; 6]), None);
        assert_eq!(bounds(&[1, 2, 3, 4, 5, 6, 7]), Some((1.0, 7.0)));
    }
}
