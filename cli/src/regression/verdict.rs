//! Compares two sets of results with confidence: verified, faster, slower or broken.

use std::collections::BTreeMap;

use mneme_model::result::ReplayStatus;
use mneme_model::text;
use serde::Serialize;

use super::stored::{CaseName, CaseResult, ResultsFile};

/// The verdict on a launch under a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseVerdict {
    /// It is right, without an earlier time to compare.
    Verified,
    /// It is as fast as before: no difference of more than the threshold is likely, nor one of [`NOISE`].
    Same,
    /// It is right, but its times vary so much that a difference of [`NOISE`] would not show.
    Inconclusive,
    Faster,
    Slower,
    /// It is right, but its times come from another timer than the earlier ones, or from too few starts.
    NotComparable,
    /// It is wrong, or could not be built or run.
    Broken,
    /// Memory is as recorded, but that shows too little.
    Unproven,
    /// A part of Mneme is missing or broke, so the result is unknown.
    Untested,
    /// It was tested before, but not now.
    Missing,
}

impl CaseVerdict {
    /// Whether a test with this verdict fails.
    pub fn fails(self) -> bool {
        matches!(
            self,
            Self::Inconclusive | Self::Slower | Self::Broken | Self::Unproven | Self::Untested | Self::Missing
        )
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Same => "same",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Faster => "faster",
            Self::Slower => "SLOWER",
            Self::NotComparable => "not comparable",
            Self::Broken => "BROKEN",
            Self::Unproven => "UNPROVEN",
            Self::Untested => "UNTESTED",
            Self::Missing => "MISSING",
        }
    }
}

/// A launch under a pipeline, before and after.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    #[serde(flatten)]
    pub case: CaseName,
    pub verdict: CaseVerdict,
    /// Why it is broken, untested, missing, inconclusive or not comparable, in one sentence; otherwise empty.
    pub error: String,
    /// Median in ns of the right results.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// Time after divided by time before, with bounds of at least 95 % confidence.
    pub ratio: Option<Ratio>,
    /// The full result of each side.
    pub result_before: Option<CaseOutcome>,
    pub result: Option<CaseOutcome>,
}

/// The result of replaying a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseOutcome {
    pub status: ReplayStatus,
    /// Empty, or one sentence.
    pub error: String,
    /// Times of the measured runs in ns, start after start.
    pub times: Vec<u64>,
    /// Starts of the replayer.
    pub starts: usize,
    /// The timer; empty if the launch did not run.
    pub timer: String,
    /// The LLVM that compiled the launch; empty if none did, or if unknown.
    pub llvm: String,
    /// Registers of a thread; -1 if the device does not report them.
    pub registers: i64,
}

impl From<&CaseResult> for CaseOutcome {
    fn from(result: &CaseResult) -> Self {
        let CaseResult { case: _, status, error, times, starts, timer, llvm, registers } = result.clone();
        Self { status, error, times, starts, timer, llvm, registers }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ratio {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// Whether a time that changed by this factor lies within the bounds.
    fn hides(self, factor: f64) -> bool {
        self.high > factor || self.low < factor.recip()
    }
}

/// The factor of a change that a test has to show, if its threshold is not above that.
const NOISE: f64 = 1.5;

/// Compares results with earlier ones. Times that differ by less than the share `threshold` are the same.
pub fn compare(before: Option<&ResultsFile>, after: &ResultsFile, threshold: f64) -> Vec<Compared> {
    let earlier: BTreeMap<&CaseName, &CaseResult> =
        before.iter().flat_map(|file| &file.results).map(|result| (&result.case, result)).collect();
    let now: BTreeMap<&CaseName, &CaseResult> = after.results.iter().map(|result| (&result.case, result)).collect();
    let mut compared: Vec<_> =
        after.results.iter().map(|result| one(earlier.get(&result.case).copied(), result, threshold)).collect();
    let missing = earlier.values().filter(|result| !now.contains_key(&result.case));
    compared.extend(missing.map(|result| Compared {
        case: result.case.clone(),
        verdict: CaseVerdict::Missing,
        error: match result.status {
            ReplayStatus::InternalError => "it was among the tests before, but is not any more".into(),
            _ => "it was tested before, but is not any more".into(),
        },
        before: median(&result.times),
        after: None,
        ratio: None,
        result_before: Some(CaseOutcome::from(*result)),
        result: None,
    }));
    compared
}

fn one(before: Option<&CaseResult>, after: &CaseResult, threshold: f64) -> Compared {
    // Times of wrong results are meaningless.
    let right_before = before.filter(|result| result.status == ReplayStatus::Verified);
    let is_right = after.status == ReplayStatus::Verified;
    // Timers differ in what they count around a kernel.
    let clocks = right_before.filter(|before| is_right && before.timer != after.timer);
    let ratio = right_before.filter(|_| is_right && clocks.is_none()).and_then(|it| ratio(it, after));
    let verdict = match (is_right, right_before.is_some(), ratio) {
        (false, ..) if after.status == ReplayStatus::InternalError => CaseVerdict::Untested,
        (false, ..) if after.status == ReplayStatus::Unproven => CaseVerdict::Unproven,
        (false, ..) => CaseVerdict::Broken,
        (true, false, _) => CaseVerdict::Verified,
        (true, true, None) => CaseVerdict::NotComparable,
        (true, true, Some(ratio)) if ratio.low > 1.0 + threshold => CaseVerdict::Slower,
        (true, true, Some(ratio)) if ratio.high < 1.0 / (1.0 + threshold) => CaseVerdict::Faster,
        (true, true, Some(ratio)) if ratio.hides(NOISE.max(1.0 + threshold)) => CaseVerdict::Inconclusive,
        (true, true, Some(_)) => CaseVerdict::Same,
    };
    let error = match (after.error.as_str(), clocks) {
        ("", Some(before)) => format!("timed by {} before, but by {} now", clock(&before.timer), clock(&after.timer)),
        ("", None) if !is_right => after.status.name().into(),
        ("", None) if verdict == CaseVerdict::NotComparable => {
            let starts = |result: &CaseResult| result.by_start().count();
            let (before, now) = (right_before.map_or(0, starts), starts(after));
            format!(
                "timed in {before} starts before and {now} now; to compare times, test with at least {MIN_STARTS} starts each"
            )
        }
        ("", None) if verdict == CaseVerdict::Inconclusive => {
            let Ratio { low, high, .. } = ratio.unwrap_or_default();
            format!(
                "too noisy to tell: it takes between {} and {} times as long as before; test with more --starts, while the \
                 device is idle",
                text::ratio(low),
                text::ratio(high)
            )
        }
        (error, _) => error.to_owned(),
    };
    let times = |result: &CaseResult| median(&result.times);
    Compared {
        case: after.case.clone(),
        verdict,
        error,
        before: right_before.and_then(times),
        after: times(after).filter(|_| is_right),
        ratio,
        result_before: before.map(CaseOutcome::from),
        result: Some(after.into()),
    }
}

fn clock(timer: &str) -> &str {
    if timer.is_empty() { "an unknown timer" } else { timer }
}

/// The ratio of two medians, with bounds. Runs of one start have much in common (memory addresses, the machine's
/// state), so each start counts once, by its median. The bounds are the extremes of the ratio, so their confidence is
/// higher than that of each side.
fn ratio(before: &CaseResult, after: &CaseResult) -> Option<Ratio> {
    let medians = |result: &CaseResult| result.by_start().filter_map(median).collect::<Vec<f64>>();
    let ((low, high), (old_low, old_high)) = (bounds(&medians(after))?, bounds(&medians(before))?);
    let estimate = median(&after.times)? / median(&before.times)?;
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

/// With fewer starts, two equal programs come out as one slower than the other more often than one time in 20.
const MIN_STARTS: usize = 4;

/// The order statistics that contain the median of any distribution with at least 97.5 % confidence. For fewer than 7
/// samples no such pair exists, so these are the extremes: that all samples of one side are slower than all of the other
/// happens by chance in 2.9 % of cases with 4 of each, and 0.8 % with 5. `None` for fewer than [`MIN_STARTS`].
fn bounds(samples: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    if count < MIN_STARTS {
        return None;
    }
    // The probability that fewer than `rank` of `count` coin tosses are heads.
    let mut probability = 0.5f64.powi(i32::try_from(count).ok()?);
    let (mut below, mut rank) = (0.0, 0);
    while below + probability <= 0.0125 && rank < count / 2 {
        below += probability;
        probability *= (count - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    let rank = rank.max(1);
    Some((sorted[rank - 1], sorted[count - rank]))
}

fn sorted(times: &[u64]) -> Vec<u64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(passes: &str, status: ReplayStatus, times: &[u64]) -> CaseResult {
        let case =
            CaseName { kernel: "k(int)".into(), static_hash: "1".into(), instance: "2".into(), passes: passes.into() };
        let timer = if status == ReplayStatus::Verified { "events" } else { "" };
        CaseResult {
            case,
            status,
            error: String::new(),
            times: times.to_vec(),
            starts: times.len().div_ceil(2),
            timer: timer.into(),
            llvm: String::new(),
            registers: 8,
        }
    }

    fn verdicts(before: &[CaseResult], after: &[CaseResult], threshold: f64) -> Vec<CaseVerdict> {
        let file = |results: &[CaseResult]| ResultsFile::new(results.to_vec(), Default::default());
        compare(Some(&file(before)), &file(after), threshold).iter().map(|compared| compared.verdict).collect()
    }

    /// Eleven times around a median.
    fn around(median: u64) -> Vec<u64> {
        (0..11).map(|index| median - 5 + index).collect()
    }

    #[test]
    fn too_few_starts_are_not_compared() {
        let of = |times: &[u64]| ResultsFile::new(vec![result("", ReplayStatus::Verified, times)], Default::default());
        let few = MIN_STARTS - 1;
        for (before, now, starts) in [
            (&around(1000)[..], &vec![9000; 2 * few][..], (6, few)),
            (&[], &around(1000), (0, 6)),
            (&[0; 9], &[5; 9], (5, 5)),
        ] {
            let found = &compare(Some(&of(before)), &of(now), 0.05)[0];
            assert_eq!(found.verdict, CaseVerdict::NotComparable, "{found:?}");
            let (before, now) = starts;
            assert!(found.error.starts_with(&format!("timed in {before} starts before and {now} now")), "{found:?}");
        }
    }

    #[test]
    fn a_start_counts_once_however_many_runs_it_has() {
        let of = |starts: &[u64]| {
            let times: Vec<u64> = starts.iter().flat_map(|start| (0..11).map(move |run| start + run)).collect();
            [CaseResult { starts: starts.len(), ..result("", ReplayStatus::Verified, &times) }]
        };
        // Each start takes 1000 or 2000, with either program.
        let (before, after) = (of(&[1000, 1000, 2000, 1000, 1000]), of(&[2000, 2000, 2000, 1000, 2000]));
        assert_eq!(verdicts(&before, &after, 0.05), [CaseVerdict::Inconclusive]);
        assert_eq!(verdicts(&before, &after, 1.0), [CaseVerdict::Same], "no slower than the threshold");
        assert_eq!(verdicts(&before, &of(&[2200, 2200, 2300, 2200, 2300]), 0.05), [CaseVerdict::Slower]);
        let one = [CaseResult { starts: 1, ..before[0].clone() }];
        assert_eq!(verdicts(&one, &after, 0.05), [CaseVerdict::NotComparable], "a file of before");
    }

    #[test]
    fn a_verdict_needs_more_than_the_threshold_and_confidence() {
        let of = |median: u64| [result("", ReplayStatus::Verified, &around(median))];
        assert_eq!(verdicts(&of(1000), &of(1000), 0.05), [CaseVerdict::Same]);
        assert_eq!(verdicts(&of(1000), &of(1040), 0.05), [CaseVerdict::Same]);
        assert_eq!(verdicts(&of(1000), &of(1100), 0.05), [CaseVerdict::Slower]);
        assert_eq!(verdicts(&of(1000), &of(900), 0.05), [CaseVerdict::Faster]);
        assert_eq!(verdicts(&of(1000), &of(1100), 0.2), [CaseVerdict::Same]);
        // Times that scatter widely show nothing, and few are not compared.
        let wide: Vec<u64> = (0..11).map(|index| 500 + 120 * (index * 4 % 11)).collect();
        assert_eq!(
            verdicts(&of(1000), &[result("", ReplayStatus::Verified, &wide)], 0.05),
            [CaseVerdict::Inconclusive]
        );
        assert_eq!(verdicts(&of(1000), &[result("", ReplayStatus::Verified, &[2000; 7])], 0.05), [CaseVerdict::Slower]);
    }

    #[test]
    fn what_is_wrong_or_gone_is_told() {
        let good = result("", ReplayStatus::Verified, &around(1000));
        let bad = result("", ReplayStatus::FailedVerification, &around(10));
        assert_eq!(verdicts(std::slice::from_ref(&good), std::slice::from_ref(&bad), 0.05), [CaseVerdict::Broken]);
        assert_eq!(verdicts(std::slice::from_ref(&bad), std::slice::from_ref(&good), 0.05), [CaseVerdict::Verified]);
        let unproven = result("", ReplayStatus::Unproven, &around(10));
        assert_eq!(verdicts(std::slice::from_ref(&good), &[unproven], 0.05), [CaseVerdict::Unproven]);
        let unknown = result("", ReplayStatus::InternalError, &[]);
        assert_eq!(verdicts(std::slice::from_ref(&good), &[unknown], 0.05), [CaseVerdict::Untested]);
        let other = result("default<O1>", ReplayStatus::Verified, &around(1000));
        assert_eq!(
            verdicts(std::slice::from_ref(&good), std::slice::from_ref(&other), 0.05),
            [CaseVerdict::Verified, CaseVerdict::Missing]
        );
    }

    #[test]
    fn times_of_two_clocks_are_not_compared() {
        let file = |timer: &str, status| {
            let case = CaseResult { timer: timer.into(), ..result("", status, &around(1000)) };
            ResultsFile::new(vec![case], Default::default())
        };
        let of = |before: &str, after: &str, status| {
            compare(Some(&file(before, ReplayStatus::Verified)), &file(after, status), 0.05).remove(0)
        };
        let compared = of("cupti", "events", ReplayStatus::Verified);
        assert_eq!((compared.verdict, compared.ratio), (CaseVerdict::NotComparable, None));
        assert_eq!(compared.error, "timed by cupti before, but by events now");
        assert!(!compared.verdict.fails());
        assert_eq!(
            of("", "events", ReplayStatus::Verified).error,
            "timed by an unknown timer before, but by events now"
        );
        // A wrong result is broken with any timer.
        assert_eq!(of("cupti", "events", ReplayStatus::FailedVerification).verdict, CaseVerdict::Broken);
        assert_eq!(of("cupti", "", ReplayStatus::CompileError).error, "compile_error");
        assert_eq!(of("cupti", "cupti", ReplayStatus::Verified).verdict, CaseVerdict::Same);
    }

    /// Asserts the share of samples whose bounds contain the true median.
    #[test]
    fn bounds_hold_the_median_as_often_as_they_say() {
        let mut state = 1u64;
        let mut random = || {
            // Knuth's linear congruential generator.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for count in [7, 11, 20] {
            let rounds = 4000;
            let held = (0..rounds)
                .filter(|_| {
                    let sample: Vec<f64> = (0..count).map(|_| random() as f64).collect();
                    let (low, high) = bounds(&sample).unwrap();
                    (low..=high).contains(&(f64::from(1u32 << 30)))
                })
                .count();
            assert!(held as f64 / f64::from(rounds) > 0.97, "{count}: {held}");
        }
        assert_eq!(bounds(&[1.0; MIN_STARTS - 1]), None);
        assert_eq!(bounds(&[2.0, 1.0, 3.0, 4.0, 5.0, 7.0, 6.0]), Some((1.0, 7.0)));
    }
}
