//! The energy of a launch, from a counter that is much too coarse for one.
//!
//! The driver counts millijoules, and updates its count every 20 to 100 ms. So a launch is repeated for a second, and what counts lies
//! between the first update that is seen and the last: whole updates and whole repetitions. A repetition has to put memory back as
//! well; repetitions that do nothing else tell what that costs.

use std::time::Duration;

/// Between two looks at the counter, each of which takes some ten microseconds.
const LOOK: Duration = Duration::from_millis(1);
/// Updates between the first and the last, and the least time that they have to take.
const UPDATES: u32 = 10;
const LEAST: Duration = Duration::from_secs(1);
/// No more updates are waited for.
const MOST: Duration = Duration::from_secs(5);
/// With fewer there is no answer.
const FEWEST_UPDATES: u32 = 4;

/// Joules of one repetition of `body`; `None` where `counter` (millijoules) says nothing, or changes too seldom. `clock` is the time since
/// any moment.
///
/// # Errors
/// Those of `body`.
pub fn of_repetition<E>(
    mut counter: impl FnMut() -> Option<u64>,
    mut clock: impl FnMut() -> Duration,
    mut body: impl FnMut() -> Result<(), E>,
) -> Result<Option<f64>, E> {
    let Some(mut seen) = counter() else { return Ok(None) };
    // Repetitions and millijoules at the first update, and at the last.
    let (mut first, mut last): (Option<(u32, u64)>, (u32, u64)) = (None, (0, 0));
    let (mut repetitions, mut updates) = (0, 0);
    let start = clock();
    let mut looked = start;
    loop {
        body()?;
        repetitions += 1;
        let now = clock();
        if now - looked >= LOOK {
            looked = now;
            let Some(count) = counter() else { return Ok(None) };
            if count != seen {
                seen = count;
                last = (repetitions, count);
                updates += u32::from(first.is_some());
                first.get_or_insert(last);
            }
        }
        let time = now - start;
        if (time >= LEAST && updates >= UPDATES) || time >= MOST {
            break;
        }
    }
    let joules = |first: (u32, u64)| last.1.saturating_sub(first.1) as f64 / 1e3 / f64::from(last.0 - first.0);
    Ok(first.filter(|first| updates >= FEWEST_UPDATES && last.0 > first.0).map(joules))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::convert::Infallible;

    /// A device whose repetitions take `time` each, at 300 W, and whose counter is updated every `update`.
    fn measured(time: Duration, update: Duration) -> (Option<f64>, Duration) {
        let now = Cell::new(Duration::from_micros(12_345));
        let updated = || now.get().as_micros() / update.as_micros() * update.as_micros();
        let counter = || Some(7_000 + (updated() as f64 * 300.0 / 1e3) as u64);
        let body = || -> Result<(), Infallible> {
            now.set(now.get() + time);
            Ok(())
        };
        (of_repetition(counter, || now.get(), body).unwrap(), now.get())
    }

    #[test]
    fn the_energy_of_short_and_long_repetitions() {
        for (micros, update) in [(60, 100), (60, 20), (700, 100), (9_000, 100), (150_000, 100)] {
            let (energy, took) = measured(Duration::from_micros(micros), Duration::from_millis(update));
            let truth = micros as f64 * 300.0 / 1e6;
            let energy = energy.expect("a counter that counts");
            assert!((energy / truth - 1.0).abs() < 0.1, "{micros} us: {energy} J where it is {truth} J");
            assert!(took < MOST + Duration::from_millis(200), "{took:?}");
        }
        let (energy, _) = measured(Duration::from_micros(60), Duration::from_millis(20));
        assert!((energy.unwrap() / 0.018 - 1.0).abs() < 0.01, "{energy:?}");
    }

    #[test]
    fn a_counter_that_is_too_coarse_or_missing_says_nothing() {
        assert_eq!(measured(Duration::from_micros(60), Duration::from_secs(2)).0, None);
        let never: Result<_, Infallible> = of_repetition(|| None, || Duration::ZERO, || panic!("nothing to measure with"));
        assert_eq!(never, Ok(None));
        assert_eq!(of_repetition(|| Some(1), || Duration::ZERO, || Err("a fault")), Err("a fault"));
    }
}
