//! Trials of winners: recorded launches that are replayed with tuned code before it is used.
//!
//! The recorder library writes a trial into the folder of the recording, and `mneme apply` its verdict beside it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{LaunchDimensions, Winner, mailbox};

/// The environment variable with the number of launches on which a winner is tried; `mneme apply` sets it, and
/// `MNEME_DATA_DIR`, which the recording and the trials go to.
pub const TRIALS_VARIABLE: &str = "MNEME_VERIFY_FIRST";

const TRIAL: &str = "trial";
const VERDICT: &str = "verdict";

/// A recorded launch, and the winner that is tried on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WinnerTrial {
    /// Mangled.
    pub kernel: String,
    /// Of the winner.
    pub source: PathBuf,
    pub recorded: LaunchDimensions,
    /// What the launch is to be with the winner.
    pub shape: LaunchDimensions,
    /// Where the launch is recorded.
    pub static_hash: u64,
    pub dynamic_hash: u64,
}

/// Whether the replay verified; why not, if it did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialVerdict {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refutation: Option<String>,
}

impl WinnerTrial {
    /// Whether it is a trial of this winner.
    pub fn is_of(&self, winner: &Winner) -> bool {
        (&self.kernel, &self.source, self.recorded) == (&winner.kernel, &winner.source, winner.recorded)
    }

    /// Writes it under a name that no other trial of the folder has.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, folder: &Path, name: &str) -> std::io::Result<()> {
        mailbox::save(self, folder, name, TRIAL)
    }

    /// Those of a folder that wait for their verdict, with their names. What cannot be read is none.
    pub fn waiting(folder: &Path) -> Vec<(String, Self)> {
        mailbox::waiting(folder, TRIAL, VERDICT)
    }
}

impl TrialVerdict {
    /// Writes the verdict on a trial.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, folder: &Path, name: &str) -> std::io::Result<()> {
        mailbox::save(self, folder, name, VERDICT)
    }

    /// The verdict on a trial, once there is one.
    pub fn load(folder: &Path, name: &str) -> Option<Self> {
        mailbox::load(folder, name, VERDICT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_waits_until_its_verdict_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let trial = WinnerTrial {
            kernel: "_Z1kv".into(),
            source: "results".into(),
            recorded: LaunchDimensions::default(),
            shape: LaunchDimensions { shared_mem: 8, ..LaunchDimensions::default() },
            static_hash: u64::MAX,
            dynamic_hash: 1,
        };
        trial.save(folder.path(), "7-0").unwrap();
        trial.save(folder.path(), "7-1").unwrap();
        std::fs::write(folder.path().join("7-2.trial"), "{").unwrap();
        let names = || WinnerTrial::waiting(folder.path()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!((names().len(), TrialVerdict::load(folder.path(), "7-0")), (2, None));
        let verdict = TrialVerdict { refutation: Some("its memory differs".into()) };
        verdict.save(folder.path(), "7-0").unwrap();
        assert_eq!((names(), TrialVerdict::load(folder.path(), "7-0")), (vec!["7-1".to_owned()], Some(verdict)));
        assert_eq!(WinnerTrial::waiting(folder.path())[0].1, trial);
    }
}
