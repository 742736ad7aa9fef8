//! The texts of a judgement, which are plain and short, because people and models read them.
//!
//! The feedback says what happened, where, and what to try or what is missing. Compilers, recordings and candidates
//! wrote parts of it.

use mneme_model::evaluation::{Bound, Counted, FEEDBACK, Floor, Judgement, Verdict};
use mneme_model::result::{Doubt, Evidence};
use mneme_model::text::{ratio, shorten};
use mneme_model::units::{bytes, figure, time};
use mneme_system::console::plain;

/// The longest text besides the feedback, characters, and the most texts of a list.
const LONGEST: usize = 500;
const MOST: usize = 20;
/// Counters in the feedback.
const MOST_COUNTED: usize = 8;
/// A time of fewer floors is near it: copying does not reach the device's limits to a tenth.
const NEAR: f64 = 1.1;

/// The judgement with its feedback. `reason` is the replayer's or the compiler's own.
pub fn complete(judgement: Judgement, reason: &str) -> Judgement {
    let feedback = of(&judgement, reason);
    with(judgement, &feedback)
}

/// The judgement with this feedback. Cleans all texts except for the id, which is the client's own.
pub fn with(mut judgement: Judgement, feedback: &str) -> Judgement {
    judgement.feedback = shorten(plain(feedback).trim_end(), FEEDBACK);
    let mut texts = Vec::new();
    if let Some(compiler) = &mut judgement.compiler {
        texts.push(&mut compiler.message);
        texts.extend(&mut compiler.file);
    }
    if let Some(wrong) = &mut judgement.first_wrong {
        texts.extend([&mut wrong.buffer, &mut wrong.dtype, &mut wrong.expected, &mut wrong.got]);
    }
    if let Some(evidence) = &mut judgement.evidence {
        texts.push(&mut evidence.not_searched);
        let named = evidence.doubts.iter_mut().filter_map(|doubt| match doubt {
            Doubt::KeepsState { variables } => Some(variables),
            _ => None,
        });
        for list in named.chain([&mut evidence.rules]) {
            list.truncate(MOST);
            texts.extend(list);
        }
    }
    texts.into_iter().for_each(|text| *text = shorten(&plain(text), LONGEST));
    judgement
}

/// The text for a judgement whose other fields are known.
fn of(judgement: &Judgement, reason: &str) -> String {
    let mut text = match judgement.verdict {
        Verdict::Faster | Verdict::Slower | Verdict::Inconclusive => compared(judgement),
        Verdict::Incorrect => incorrect(judgement, reason),
        Verdict::Unproven => format!("Unproven: {reason}."),
        Verdict::Invalid => invalid(judgement, reason),
    };
    if let Some(evidence) = judgement.evidence.as_ref().filter(|_| judgement.verdict != Verdict::Unproven) {
        text += &verified(evidence);
    }
    text
}

fn compared(judgement: &Judgement) -> String {
    let Some(speedup) = judgement.speedup else { return "Inconclusive: its times could not be compared.".into() };
    if speedup.rounds == 0 {
        return "Inconclusive: its machine code and launch are those of the application. Change what the kernel computes, \
                not how it is written."
            .into();
    }
    let (word, advice) = match judgement.verdict {
        Verdict::Faster => ("Faster", ""),
        Verdict::Slower => ("Slower", " Undo what made it slower, or try something else."),
        _ => ("Inconclusive", " The difference is too small to measure. Try a larger change."),
    };
    let times = judgement.exec_time.zip(judgement.baseline_time).map_or_else(String::new, |(own, baseline)| {
        format!(" It takes {}, the application's own code {}.", time(own), time(baseline))
    });
    let (estimate, low, high) = (ratio(speedup.estimate), ratio(speedup.low), ratio(speedup.high));
    let percent = speedup.confidence * 100.0;
    format!(
        "{word}: {estimate} times as fast as the application's own code ({percent} % interval {low} to {high}, {} rounds by \
         turns).{times}{}{}{}{advice}",
        speedup.rounds,
        judgement.floor.as_ref().map_or_else(String::new, above),
        resources(judgement),
        counted(judgement)
    )
}

/// How far the time is from its floor.
fn above(floor: &Floor) -> String {
    let Floor { bytes: moved, bytes_per_s, flops, flops_per_s, bound, time: least, share } = *floor;
    let (work, advice) = match (bound, flops.zip(flops_per_s)) {
        (Bound::Arithmetic, Some((flops, rate))) => (
            format!(
                "performs as many floating-point operations as the application's own code ({} at {} a second)",
                figure(flops as f64),
                figure(rate)
            ),
            "compute less",
        ),
        _ => (
            format!(
                "copies as much memory as the application's own code has to move ({} at {} a second)",
                bytes(moved),
                bytes(bytes_per_s as u64)
            ),
            "move less memory",
        ),
    };
    let what = format!("{}, in which the device {work}", time(least));
    match 1.0 / share {
        near if near < NEAR => format!(" Its time is near the floor of {what}. To be much faster, it has to {advice}."),
        times => format!(" Its time is {} times the floor of {what}.", figure(times)),
    }
}

fn counted(judgement: &Judgement) -> String {
    let of = |(name, Counted { candidate, baseline }): (&String, &Counted)| {
        format!(" {name}: {} (the application's own code: {}).", figure(*candidate), figure(*baseline))
    };
    judgement.counters.iter().take(MOST_COUNTED).map(of).collect()
}

fn resources(judgement: &Judgement) -> String {
    let mut found = Vec::new();
    found.extend(judgement.registers.map(|registers| format!("{registers} registers a thread")));
    if let Some(spills) = judgement.spills {
        found.push(match spills.stores + spills.loads {
            0 => "no spills".into(),
            _ => format!("spills of {} bytes stored and {} loaded", spills.stores, spills.loads),
        });
    }
    found.extend(judgement.occupancy.map(|occupancy| format!("occupancy {:.0} %", occupancy * 100.0)));
    if found.is_empty() { String::new() } else { format!(" It has {}.", found.join(", ")) }
}

fn incorrect(judgement: &Judgement, reason: &str) -> String {
    let Some(wrong) = &judgement.first_wrong else {
        return format!("Incorrect: {reason}. Check bounds, addresses, and what the threads of a block wait for.");
    };
    // The replayer's own sentence adds something only if another input shows the difference.
    let reason = Some(reason).filter(|reason| !reason.starts_with("memory differs from the recording: first at"));
    format!(
        "Incorrect: memory differs from what the application's own code leaves. First wrong element: index {} of {} ({}): \
         expected {}, got {}; {} of {} elements are wrong. {}",
        wrong.index,
        wrong.buffer,
        wrong.dtype,
        wrong.expected,
        wrong.got,
        wrong.differing,
        wrong.elements,
        shorten(reason.unwrap_or_default(), 500)
    )
}

fn invalid(judgement: &Judgement, reason: &str) -> String {
    match (&judgement.compiler, judgement.time_limit) {
        (Some(compiler), _) => {
            let place = match (&compiler.file, compiler.line) {
                (Some(file), Some(line)) => format!("{file}, line {line}: "),
                _ => String::new(),
            };
            let all = if reason.trim() == compiler.message { String::new() } else { format!("\n{reason}") };
            format!("Invalid: it does not compile. {place}{}{all}", compiler.message)
        }
        (None, Some(limit)) => {
            format!(
                "Invalid: it did not end within the time limit of {limit} s ({reason}). Look for loops that do not end."
            )
        }
        (None, None) => format!("Invalid: {reason}"),
    }
}

/// What the comparison of memory shows.
fn verified(evidence: &Evidence) -> String {
    let fresh = &evidence.fresh_inputs;
    format!(
        " Verified in {} runs: {} of {} written bytes would be wrong if it did nothing, and it agrees with the application's own code \
         on {} of {} fresh inputs.",
        evidence.runs,
        evidence.shown,
        evidence.written,
        fresh.agreed,
        fresh.tried.saturating_sub(fresh.discarded)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::evaluation::{CandidateId, CompilerMessage, WrongElement};
    use std::collections::BTreeMap;

    #[test]
    fn times_stand_beside_the_floor() {
        let line = serde_json::json!({
            "schema": 1, "id": 1, "verdict": "faster", "feedback": "", "exec_time": 2e6, "baseline_time": 4e6,
            "speedup": {"estimate": 2, "low": 1.9, "high": 2.1, "confidence": 0.95, "rounds": 6},
        });
        let judgement: Judgement = serde_json::from_value(line).unwrap();
        let memory = Floor {
            bytes: 1 << 20,
            bytes_per_s: 3e12,
            flops: Some(6_000_000_000),
            flops_per_s: Some(5e13),
            bound: Bound::Memory,
            time: 0.0,
            share: 0.0,
        };
        let with = |bound, time: f64, counters| {
            let floor = Floor { bound, time, share: time / 2e6, ..memory };
            complete(Judgement { floor: Some(floor), counters, ..judgement.clone() }, "").feedback
        };
        let of = |time, counters| with(Bound::Memory, time, counters);
        let far = of(4e5, [("x__y.sum".to_owned(), Counted { candidate: 3.0, baseline: 6e9 })].into());
        assert!(
            far.contains(" Its time is 5 times the floor of 400.0 µs") && far.contains("1.00 MiB at 2.73 TiB"),
            "{far}"
        );
        assert!(far.contains(" x__y.sum: 3 (the application's own code: 6e9)."), "{far}");
        for near in [of(1.9e6, BTreeMap::new()), of(3e6, BTreeMap::new())] {
            assert!(near.contains("near the floor of") && !near.contains("times the floor"), "{near}");
        }
        let computing = with(Bound::Arithmetic, 4e5, BTreeMap::new());
        assert!(computing.contains("floating-point operations") && computing.contains("6e9 at 5e13"), "{computing}");
        assert!(with(Bound::Arithmetic, 1.9e6, BTreeMap::new()).contains("compute less"));
        assert!(!complete(judgement, "").feedback.contains("floor"));
    }

    #[test]
    fn texts_are_short_and_steer_no_terminal() {
        let long = "\u{1b}[31m\u{202e}".repeat(10_000);
        let id = CandidateId::Text(long.clone());
        let wrong = WrongElement {
            buffer: long.clone(),
            dtype: "f32".into(),
            index: 3,
            elements: u64::MAX,
            expected: "0.1".into(),
            got: long.clone(),
            differing: 1,
        };
        let compiler = CompilerMessage { message: long.clone(), file: Some(long.clone()), line: Some(7), column: None };
        let line = serde_json::json!({"schema": 1, "id": id, "verdict": "invalid", "feedback": ""});
        let draft = with(serde_json::from_value(line).unwrap(), &long);
        let judgement = Judgement { first_wrong: Some(wrong), compiler: Some(compiler), elapsed: 0.1, ..draft.clone() };
        for judgement in [complete(judgement.clone(), &long), draft] {
            assert_eq!((judgement.id.as_ref(), judgement.verdict), (Some(&id), Verdict::Invalid));
            assert!(judgement.feedback.starts_with("Invalid") || judgement.feedback.starts_with("\\u001b"));
            let texts = serde_json::to_string(&Judgement { id: None, ..judgement.clone() }).unwrap();
            assert!(texts.len() < 5000 && !texts.replace("\\\\u", "").contains("\\u"), "{texts}");
            assert!(!texts.contains('\u{202e}') && judgement.feedback.chars().count() < 1500);
        }
        let found = complete(judgement, "").first_wrong.unwrap();
        assert_eq!((found.index, found.elements, found.expected.as_str()), (3, u64::MAX, "0.1"));
    }
}
