//! The reasons for a candidate's failure, in short for one line and in full.

use mneme_model::configuration::Configuration;
use mneme_model::result::{Mismatch, ReplayResult, ReplayStatus, sufficient_rtol};
use mneme_model::text::shorten;
use mneme_model::units::{counted, figure};

/// Width of an error in a candidate's line, characters.
const WIDTH: usize = 80;

/// The full reason, and how to find an invalid access.
pub fn in_full(result: &ReplayResult) -> String {
    let hint = result.hint_at_check().map_or_else(String::new, |hint| format!("; {hint}"));
    reason(result) + hint.as_str()
}

fn reason(result: &ReplayResult) -> String {
    match &result.mismatch {
        _ if !result.error.is_empty() => result.error.clone(),
        Some(_) => in_short(result),
        None if result.verified => "the result has no measured runs".into(),
        None if result.executed && !result.failed => "memory differs from the recording".into(),
        None => "no reason was given".into(),
    }
}

/// The short reason. The log and `trials.jsonl` have the full one.
pub fn in_short(result: &ReplayResult) -> String {
    match &result.mismatch {
        Some(mismatch) => difference(mismatch, result.differing_buffers),
        None => first_clause(&in_full(result)),
    }
}

fn difference(mismatch: &Mismatch, buffers: u64) -> String {
    let place = match (mismatch.region.as_str(), mismatch.tag.as_str()) {
        _ if buffers > 1 => format!("{buffers} buffers"),
        ("outside", _) => "the memory between its buffers".into(),
        ("allocation", "") => format!("a buffer of {} bytes", mismatch.size),
        ("allocation", tag) => tag.to_owned(),
        (name, _) => format!("the variable {name}"),
    };
    let bytes = u64::from(mismatch.element_size.max(1));
    let kind = match mismatch.element_size {
        1 => "bytes".into(),
        size if mismatch.largest.is_none() => format!("elements of {size} bytes"),
        _ => format!("{} values", mismatch.dtype),
    };
    let where_of = if buffers > 1 { " in the first" } else { "" };
    let error = mismatch
        .largest
        .map_or(String::new(), |largest| format!(", relative error {} at most", figure(largest.relative)));
    format!(
        "memory differs from the recording in {place}: {} of {} {kind}{where_of}{error}",
        mismatch.differing,
        mismatch.size / bytes
    )
}

/// If a candidate failed verification under another grid than the recorded one, a sentence that says so.
pub fn of_grid(result: &ReplayResult, config: &Configuration, recorded: &Configuration) -> Option<String> {
    let follows = result.status == ReplayStatus::FailedVerification
        && config.grid != recorded.grid
        && config.block != recorded.block;
    follows.then(|| {
        format!(
            "the grid followed the block: {} instead of the recorded {}",
            counted(usize::try_from(config.grid.count()).unwrap_or(usize::MAX), "block"),
            recorded.grid.count()
        )
    })
}

fn first_clause(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    shorten(line.split("; ").next().unwrap_or_default().trim_end(), WIDTH)
}

/// Counts candidates that failed only in the last digits of floating-point values, on the recorded input or a fresh one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rounding {
    candidates: usize,
    /// The largest relative error of all.
    largest: f64,
}

impl Rounding {
    pub fn note(&mut self, result: &ReplayResult) {
        if let Some(largest) = result.rounding() {
            self.candidates += 1;
            self.largest = self.largest.max(largest);
        }
    }

    /// Advice to the user on these candidates.
    pub fn advice(self) -> Option<String> {
        let Self { candidates, largest } = self;
        (candidates > 0).then(|| {
            format!(
                "{} failed only by rounding, with relative errors up to {}; if your application tolerates that, pass --rtol {} \
                 or more (other inputs may round more)",
                counted(candidates, "candidate"),
                figure(largest),
                sufficient_rtol(largest)
            )
        })
    }
}

/// The first trial that accessed memory wrongly, and how many did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InvalidAccesses {
    first: Option<(u64, String)>,
    trials: usize,
}

impl InvalidAccesses {
    pub fn note(&mut self, trial: u64, result: &ReplayResult) {
        if let Some(hint) = result.hint_at_check() {
            self.trials += 1;
            self.first.get_or_insert((trial, hint));
        }
    }

    /// Advice to the user on these trials.
    pub fn advice(&self) -> Option<String> {
        let (trial, hint) = self.first.as_ref()?;
        let others = match self.trials - 1 {
            0 => String::new(),
            others => format!(" and {}", counted(others, "other")),
        };
        Some(format!("Trial {trial}{others}: {hint} with the trial's configuration"))
    }
}

#[cfg(test)]
mod tests {
    use mneme_model::result::Largest;

    use super::*;

    fn mismatch(dtype: &str, error: Option<f64>) -> Mismatch {
        let (region, tolerance) = ("allocation".into(), "exact".into());
        let dtype = dtype.into();
        Mismatch {
            region,
            tolerance,
            dtype,
            size: 3600,
            element_size: 4,
            differing: 189,
            largest: error.map(|relative| Largest { relative, ..Largest::default() }),
            ..Mismatch::default()
        }
    }

    fn failed(mismatches: &[Mismatch]) -> ReplayResult {
        ReplayResult {
            error: "memory differs from the recording: first at …".into(),
            mismatch: mismatches.first().cloned(),
            more_mismatches: mismatches.iter().skip(1).cloned().collect(),
            differing_buffers: mismatches.len() as u64,
            ..ReplayResult::default()
        }
    }

    #[test]
    fn a_difference_is_told_by_how_much_and_where() {
        let one = failed(&[mismatch("f32", Some(1.312_228e-5))]);
        let text = "memory differs from the recording in a buffer of 3600 bytes: 189 of 900 f32 values, relative error 1.31e-5 at most";
        assert_eq!(in_short(&one), text);
        assert_eq!(in_full(&one), "memory differs from the recording: first at …");
        let bytes = Mismatch { tag: "density".into(), ..mismatch("u8", None) };
        assert_eq!(
            in_short(&failed(&[bytes])),
            "memory differs from the recording in density: 189 of 900 elements of 4 bytes"
        );
        let two = failed(&[mismatch("f32", Some(f64::MAX)), mismatch("f64", Some(1.0))]);
        let text = "memory differs from the recording in 2 buffers: 189 of 900 f32 values in the first, relative error infinite at most";
        assert_eq!(in_short(&two), text);
    }

    #[test]
    fn an_error_is_cut_to_what_it_is_about() {
        let short = |error: &str| in_short(&ReplayResult { error: error.into(), ..ReplayResult::default() });
        assert_eq!(short("unknown pass 'x'; see opt --print-passes\nat 1"), "unknown pass 'x'");
        assert_eq!(short("LLVM crashed\nStack dump:"), "LLVM crashed");
        assert_eq!(short(&"x".repeat(500)).chars().count(), WIDTH);
        assert_eq!(short(""), "no reason was given");
    }

    #[test]
    fn candidates_that_only_round_otherwise_are_counted() {
        let mut rounding = Rounding::default();
        rounding.note(&ReplayResult { verified: true, ..ReplayResult::default() });
        rounding.note(&failed(&[mismatch("f32", Some(0.1))]));
        assert_eq!(rounding.advice(), None);
        rounding.note(&failed(&[mismatch("f32", Some(1.31e-5)), mismatch("f64", Some(1e-12))]));
        rounding.note(&failed(&[mismatch("f32", Some(2e-7))]));
        let advice = rounding.advice().unwrap();
        assert!(advice.starts_with("2 candidates ") && advice.contains("--rtol 2e-5 or more"), "{advice}");
    }

    #[test]
    fn invalid_accesses_lead_to_the_checker() {
        let mut accesses = InvalidAccesses::default();
        accesses.note(1, &failed(&[mismatch("f32", Some(0.1))]));
        assert_eq!(accesses.advice(), None);
        let crashed = ReplayResult { status: ReplayStatus::RuntimeError, ..ReplayResult::default() };
        (2..4).for_each(|trial| accesses.note(trial, &crashed));
        assert!(accesses.advice().unwrap().starts_with("Trial 2 and 1 other: "));
        assert!(in_full(&crashed).contains("--check"));
    }
}
