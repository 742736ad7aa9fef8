//! Measures the energy of a launch with a counter that is too coarse for a single one.
//!
//! The driver counts millijoules, updates its count every 20 to 100 ms, and takes milliseconds to return it. So the
//! launch is repeated, with memory restored each time, while another thread polls the counter. Only whole updates and
//! whole repetitions between two updates count. Repetitions that only restore memory measure that cost. Both kinds
//! alternate, because a device uses more energy as it gets warmer. The spread of their differences decides whether the
//! result is usable.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Clocks of an idle device rise in steps, so measuring starts later.
const WARM_UP: Duration = Duration::from_millis(500);
/// A turn's first updates still contain earlier work: the counter of an H200 lags by up to 60 ms.
const SETTLING: usize = 2;
/// The shortest measured part of a turn, and its longest total time.
const TURN: Duration = Duration::from_millis(300);
const LONGEST_TURN: Duration = Duration::from_secs(2);
/// Pairs of turns.
const FEWEST: usize = 3;
const MOST: usize = 8;
/// Relative standard errors of the mean. Below the first, measuring ends early. Above the second, there is no result.
const FINE: f64 = 0.02;
const COARSEST: f64 = 0.2;

/// Joules that one repetition of `with` uses beyond one of `without`. `None` if `counter` (millijoules) returns nothing
/// or changes too seldom, or if the difference is smaller than the noise.
///
/// # Errors
/// Errors of the repetitions.
pub fn of_difference<E>(
    counter: impl Fn() -> Option<u64> + Sync,
    with: impl Fn() -> Result<(), E>,
    without: impl Fn() -> Result<(), E>,
) -> Result<Option<f64>, E> {
    if counter().is_none() {
        return Ok(None);
    }
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        with()?;
    }
    let mut differences = Vec::new();
    while differences.len() < MOST {
        let Some(more) = per_repetition(&turn(&counter, &with)?) else { return Ok(None) };
        let Some(less) = per_repetition(&turn(&counter, &without)?) else { return Ok(None) };
        differences.push(more - less);
        if differences.len() >= FEWEST && known_to(&differences, FINE).is_some() {
            break;
        }
    }
    Ok(known_to(&differences, COARSEST))
}

/// An update of the counter.
#[derive(Clone, Copy, Debug)]
struct Update {
    millijoules: u64,
    /// Repetitions that had ended by then.
    repetitions: u32,
}

/// Collects the updates while `body` is repeated.
fn turn<E>(counter: &(impl Fn() -> Option<u64> + Sync), body: &impl Fn() -> Result<(), E>) -> Result<Vec<Update>, E> {
    let (repetitions, over) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let updates = watch(counter, &repetitions, &over);
            over.store(true, Ordering::Relaxed);
            updates
        });
        let mut outcome = Ok(());
        while outcome.is_ok() && !over.load(Ordering::Relaxed) {
            outcome = body();
            repetitions.fetch_add(1, Ordering::Relaxed);
        }
        over.store(true, Ordering::Relaxed);
        let updates = watching.join().unwrap_or_default();
        outcome.map(|()| updates)
    })
}

/// Polls the counter until there are enough updates, or until continuing is useless.
fn watch(counter: &impl Fn() -> Option<u64>, repetitions: &AtomicU32, over: &AtomicBool) -> Vec<Update> {
    let (start, mut settled) = (Instant::now(), None);
    let (mut updates, mut seen) = (Vec::new(), None);
    while !over.load(Ordering::Relaxed) && start.elapsed() < LONGEST_TURN {
        let Some(millijoules) = counter() else { return Vec::new() };
        if seen.replace(millijoules).is_some_and(|before| before != millijoules) {
            updates.push(Update { millijoules, repetitions: repetitions.load(Ordering::Relaxed) });
            if updates.len() == SETTLING {
                settled = Some(Instant::now());
            }
            if settled.is_some_and(|settled| settled.elapsed() >= TURN) {
                break;
            }
        }
        // Limits the polling rate for counters that answer at once.
        std::thread::sleep(Duration::from_micros(200));
    }
    updates
}

/// Joules of one repetition, from the updates of a turn.
fn per_repetition(updates: &[Update]) -> Option<f64> {
    let [first, .., last] = updates.get(SETTLING - 1..)? else { return None };
    let repetitions = last.repetitions.checked_sub(first.repetitions).filter(|count| *count > 0)?;
    Some(last.millijoules.saturating_sub(first.millijoules) as f64 / 1e3 / f64::from(repetitions))
}

/// The mean, if its relative standard error is at most `part`.
fn known_to(values: &[f64], part: f64) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let error = (variance / count).sqrt();
    tracing::debug!(mean, error, "joules of a launch");
    (error <= part * mean).then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_updates_and_whole_repetitions_count() {
        let updates = |all: &[(u64, u32)]| -> Vec<Update> {
            all.iter()
                .map(|(millijoules, repetitions)| Update { millijoules: *millijoules, repetitions: *repetitions })
                .collect()
        };
        // The first interval contains earlier work.
        let turn = updates(&[(1_000, 3), (9_000, 50), (12_000, 150), (15_000, 250)]);
        assert_eq!(per_repetition(&turn), Some(0.03));
        assert_eq!(per_repetition(&turn[..2]), None, "one update after settling");
        assert_eq!(per_repetition(&updates(&[(1, 7), (2, 7), (3, 7)])), None, "no repetition ended");
        assert_eq!(per_repetition(&[]), None);
    }

    #[test]
    fn what_is_lost_in_noise_is_not_told() {
        assert_eq!(known_to(&[0.030, 0.030, 0.030], FINE), Some(0.030));
        assert_eq!(known_to(&[0.030, 0.025, 0.035], FINE), None);
        assert!(known_to(&[0.030, 0.025, 0.035], COARSEST).is_some());
        assert_eq!(known_to(&[0.003, -0.002, 0.001, 0.004], COARSEST), None);
        assert_eq!(known_to(&[-0.01, -0.01, -0.01], COARSEST), None, "less than nothing");
    }

    #[test]
    fn a_counter_without_an_answer_and_a_launch_that_fails_end_it() {
        let never = || -> Result<(), &str> { panic!("nothing to measure with") };
        assert_eq!(of_difference(|| None, never, never), Ok(None));
        assert_eq!(of_difference(|| Some(1), || Err("a fault"), || Ok(())), Err("a fault"));
    }

    #[test]
    fn a_counter_that_counts_is_watched_beside_the_repetitions() {
        let start = Instant::now();
        // 100 W, updated every 20 ms.
        let counter = || Some(start.elapsed().as_millis() as u64 / 20 * 2_000);
        let body = || -> Result<(), ()> {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        let updates = turn(&counter, &body).unwrap();
        assert!(updates.len() > SETTLING && updates.is_sorted_by_key(|update| update.repetitions), "{updates:?}");
        // A repetition takes 1 ms at least, and a busy machine sees updates late.
        assert!(per_repetition(&updates).is_some_and(|joules| joules > 0.05), "{updates:?}");
    }
}
