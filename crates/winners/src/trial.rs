//! Trials of winners: recorded launches that are replayed with tuned code before it is used.
//!
//! The recorder library writes a [`WinnerTrial`] into the folder of the recording, and `mneme apply` its
//! [`TrialVerdict`] beside it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::mailbox;
use crate::rule::LaunchDimensions;
use crate::winner::WinnerIdentity;

/// The environment variable for the number of launches on which to try a winner. `mneme apply` sets it, and sets
/// `MNEME_DATA_DIR` to the folder of the recording and the trials.
pub const TRIALS_VARIABLE: &str = "MNEME_VERIFY_FIRST";

const TRIAL: &str = "trial";
const VERDICT: &str = "verdict";

/// A recorded launch, and the winner to try on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WinnerTrial {
    pub winner: WinnerIdentity,
    /// The winner's dimensions for the launch.
    pub shape: LaunchDimensions,
    /// The recording of the launch. Part of the dynamic hash is random, so each trial has a different one.
    pub static_hash: u64,
    pub dynamic_hash: u64,
}

/// Whether the replay verified, and the reason if it did not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialVerdict {
    pub trial: WinnerTrial,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refutation: Option<String>,
}

impl WinnerTrial {
    /// Writes the trial to the folder; returns its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn ask(&self, folder: &Path) -> std::io::Result<String> {
        mailbox::ask(self, folder, TRIAL)
    }

    /// The trials in a folder without a verdict, with their names. Unreadable files are skipped.
    pub fn waiting(folder: &Path) -> Vec<(String, Self)> {
        mailbox::waiting(folder, TRIAL, VERDICT)
    }

    /// The verdict on this trial, once a file has its name. A verdict on another trial counts as a refutation.
    pub fn verdict(&self, folder: &Path, name: &str) -> Option<TrialVerdict> {
        let verdict: TrialVerdict = mailbox::load(folder, name, VERDICT)?;
        if verdict.trial == *self {
            return Some(verdict);
        }
        let refutation = Some("it cannot be verified: the verdict is on another launch".to_owned());
        Some(TrialVerdict { trial: self.clone(), refutation })
    }
}

impl TrialVerdict {
    /// Writes the verdict on the trial with this name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, folder: &Path, name: &str) -> std::io::Result<()> {
        mailbox::save(self, folder, name, VERDICT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(dynamic_hash: u64) -> WinnerTrial {
        WinnerTrial {
            winner: WinnerIdentity { kernel: "_Z1kv".into(), source: "results".into(), ..WinnerIdentity::default() },
            shape: LaunchDimensions { shared_mem: 8, ..LaunchDimensions::default() },
            static_hash: u64::MAX,
            dynamic_hash,
        }
    }

    #[test]
    fn a_trial_waits_until_its_verdict_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [trial(1), trial(2)];
        let [first, second] = [&one, &other].map(|trial| trial.ask(folder.path()).unwrap());
        std::fs::write(folder.path().join("0.trial"), "{").unwrap();
        let names = || WinnerTrial::waiting(folder.path()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!((names().len(), one.verdict(folder.path(), &first)), (2, None));
        let verdict = TrialVerdict { trial: one.clone(), refutation: Some("its memory differs".into()) };
        verdict.save(folder.path(), &first).unwrap();
        assert_eq!((names(), one.verdict(folder.path(), &first)), (vec![second.clone()], Some(verdict)));
        assert_eq!(WinnerTrial::waiting(folder.path())[0].1, other);
    }

    #[test]
    fn a_verdict_on_another_trial_is_a_refutation() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [trial(1), trial(2)];
        let name = one.ask(folder.path()).unwrap();
        TrialVerdict { trial: other, refutation: None }.save(folder.path(), &name).unwrap();
        let found = one.verdict(folder.path(), &name).unwrap();
        assert!(found.trial == one && found.refutation.is_some());
    }
}
