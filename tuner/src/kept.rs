//! Keeps the better winner of two sessions in the folder where `mneme apply` looks for it.

use std::fmt;
use std::path::{Path, PathBuf};

use mneme_model::text::ratio;
use mneme_system::files::trust;
use serde_json::Value;

use crate::options::Options;
use crate::results::{ResultsError, free_name};
use crate::statistics::Interval;

/// The winners of two sessions that used the same folder.
#[derive(Debug, PartialEq)]
pub struct Kept {
    /// The folder of the session with the better winner.
    folder: PathBuf,
    /// The folder of the other session.
    aside: PathBuf,
    earlier: f64,
    later: Option<f64>,
    /// Whether the earlier session has the better winner.
    pub is_earlier: bool,
}

impl fmt::Display for Kept {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, aside) = (self.folder.display(), self.aside.display());
        let later = self
            .later
            .map_or_else(|| "has none".into(), |speedup| format!("has one that is {}x as fast", ratio(speedup)));
        let (holds, other) =
            if self.is_earlier { ("the earlier session", "this one") } else { ("this session", "the earlier one") };
        write!(
            to,
            "the winner of the earlier session is {}x as fast as the baseline, and this session {later}: {folder} holds \
             {holds}, {other} is in {aside}",
            ratio(self.earlier),
        )
    }
}

/// Compares a session with the earlier one, which was moved `aside`, and exchanges their folders if the earlier one has
/// the better confirmed winner. `None` if they have another recording or baseline, or if the earlier session has no
/// winner.
///
/// # Errors The folders cannot be exchanged.
pub fn keep_better(folder: &Path, aside: &Path) -> Result<Option<Kept>, ResultsError> {
    if subject(folder) != subject(aside) {
        return Ok(None);
    }
    let (Some(earlier), later) = (winner(aside), winner(folder)) else { return Ok(None) };
    let is_earlier = later.is_none_or(|later| later.estimate < earlier.estimate);
    if is_earlier {
        let between = free_name(aside);
        for (from, to) in [(folder, &*between), (aside, folder), (&*between, aside)] {
            std::fs::rename(from, to).map_err(|source| ResultsError::Io { path: from.into(), source })?;
        }
    }
    Ok(Some(Kept {
        folder: folder.into(),
        aside: aside.into(),
        earlier: earlier.estimate,
        later: later.map(|later| later.estimate),
        is_earlier,
    }))
}

/// The confirmed speedup of a session's winner.
fn winner(folder: &Path) -> Option<Interval> {
    serde_json::from_value(read(&folder.join("best.json"))["confirmed"].clone()).ok()
}

/// The recording and the baseline that a session's speedups refer to.
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

    /// Creates a session's folder with a winner of this speedup.
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
            assert_eq!(kept.is_some_and(|kept| kept.is_earlier), stays, "{earlier:?} {later:?}");
            let found = |path: &Path| winner(path).map(|winner| winner.estimate);
            let expected = if stays { (earlier, later) } else { (later, earlier) };
            assert_eq!((found(&folder), found(&aside)), expected);
            assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 2);
        }
    }
}
