//! Keeps the better winner of two sessions that wrote to one folder where `mneme apply` looks for it.

use std::fmt;
use std::path::{Path, PathBuf};

use mneme_core::files::trust;
use mneme_core::text::ratio;
use serde_json::Value;

use crate::options::Options;
use crate::results::{ResultsError, free_name};
use crate::statistics::Interval;

/// An earlier session's winner that stays in the folder.
#[derive(Debug, PartialEq)]
pub struct Kept {
    folder: PathBuf,
    /// Where the later session is.
    later: PathBuf,
    earlier_speedup: f64,
    later_speedup: Option<f64>,
}

impl fmt::Display for Kept {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, later) = (self.folder.display(), self.later.display());
        let compared = match self.later_speedup {
            Some(speedup) => format!("and this one's {}x", ratio(speedup)),
            None => "and this one has none".into(),
        };
        write!(
            to,
            "the winner of the session before is {}x as fast as the baseline, {compared}: {folder} holds the session \
             before, and this one is in {later}",
            ratio(self.earlier_speedup)
        )
    }
}

/// Exchanges a session's folder with that of the session before if that has the better confirmed winner of the same
/// recording and baseline.
///
/// # Errors
/// The folders cannot be exchanged.
pub fn keep_better(folder: &Path, aside: &Path) -> Result<Option<Kept>, ResultsError> {
    if subject(folder) != subject(aside) {
        return Ok(None);
    }
    let (Some(earlier), later) = (winner(aside), winner(folder)) else { return Ok(None) };
    if later.is_some_and(|later| later.estimate >= earlier.estimate) {
        return Ok(None);
    }
    let between = free_name(aside);
    for (from, to) in [(folder, &*between), (aside, folder), (&*between, aside)] {
        std::fs::rename(from, to).map_err(|source| ResultsError::Io { path: from.into(), source })?;
    }
    Ok(Some(Kept {
        folder: folder.into(),
        later: aside.into(),
        earlier_speedup: earlier.estimate,
        later_speedup: later.map(|later| later.estimate),
    }))
}

/// The confirmed speedup of a session's winner.
fn winner(folder: &Path) -> Option<Interval> {
    serde_json::from_value(read(&folder.join("best.json"))["confirmed"].clone()).ok()
}

/// What a session's speedups are about: a recording, and a baseline of it.
fn subject(folder: &Path) -> Option<(Value, Value)> {
    let config = serde_json::from_value::<Options>(read(&folder.join("config.json"))).ok()?;
    let baseline = read(&folder.join("baseline.json"));
    Some((serde_json::to_value(config.measured?).ok()?, baseline["config_hash"].clone()))
}

fn read(path: &Path) -> Value {
    trust::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A session's folder with a winner of this speedup.
    fn session(path: &Path, speedup: Option<f64>, baseline: &str) {
        std::fs::create_dir_all(path).unwrap();
        let write = |name: &str, value: Value| std::fs::write(path.join(name), value.to_string()).unwrap();
        write("config.json", json!({"measured": crate::measured::Measured::default()}));
        write("baseline.json", json!({"config_hash": baseline}));
        let interval = speedup.map(|it| Interval { estimate: it, low: it, high: it });
        write("best.json", json!({"confirmed": interval}));
    }

    #[test]
    fn the_better_winner_of_the_same_baseline_stays() {
        for (earlier, later, baseline, stays) in [
            (Some(2.0), Some(1.5), "a", true),
            (Some(2.0), None, "a", true),
            (Some(2.0), Some(2.5), "a", false),
            (None, Some(1.5), "a", false),
            (Some(2.0), Some(1.5), "b", false),
        ] {
            let work = tempfile::tempdir().unwrap();
            let (folder, aside) = (work.path().join("results"), work.path().join("results.1"));
            session(&aside, earlier, "a");
            session(&folder, later, baseline);
            let kept = keep_better(&folder, &aside).unwrap();
            assert_eq!(kept.is_some(), stays, "{earlier:?} {later:?}");
            let found = |path: &Path| winner(path).map(|winner| winner.estimate);
            let expected = if stays { (earlier, later) } else { (later, earlier) };
            assert_eq!((found(&folder), found(&aside)), expected);
            assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 2);
        }
    }
}
