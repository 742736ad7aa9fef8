//! Judges winners that are tried on launches of the application: `--verify-first`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mneme_image::symbol::readable;
use mneme_recording::database::KernelRecord;
use mneme_winners::{TrialVerdict, Winner, WinnerTrial};

use super::AppliedWinner;
use super::compile::{self, NotVerified};
use super::recording::TunedRecording;
use super::run_folder::Answers;
use super::specialise::UsedWinners;

/// Time between looks for trials.
const LOOK: Duration = Duration::from_millis(10);
/// Time after a trial within which its recording must be on the disk: enough to write very much memory.
const PATIENCE: Duration = Duration::from_secs(600);

/// Judges the trials of a run until it is over.
pub fn judge(answers: &Answers, winners: &UsedWinners) {
    let folder = answers.folder();
    let mut first_seen: HashMap<String, Instant> = HashMap::new();
    // Trials whose verdict could not be written. Their winners stay untried, and the others are judged.
    let mut lost: HashSet<String> = HashSet::new();
    loop {
        let mut waiting = WinnerTrial::waiting(folder);
        waiting.retain(|(name, _)| !lost.contains(name));
        for (name, trial) in waiting {
            let since = *first_seen.entry(name.clone()).or_insert_with(Instant::now);
            let database = folder.join(format!("{}.json", trial.static_hash));
            let is_recorded = KernelRecord::load(&database)
                .is_ok_and(|record| record.instances.contains_key(&trial.dynamic_hash.to_string()));
            let tried = winners.of(&trial.winner);
            let refutation = match &tried {
                None => Some("mneme apply does not know its winner".to_owned()),
                Some((found, winner)) if is_recorded => replay(found, winner, &trial, database).err().map(|it| it.why),
                Some(_) if since.elapsed() < PATIENCE => continue,
                Some(_) => Some("it cannot be verified: its launch was not recorded".to_owned()),
            };
            let kernel = trial.winner.kernel.clone();
            let verdict = TrialVerdict { trial, refutation };
            match answers.give(|folder| verdict.save(folder, &name)) {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    mneme_system::remark!("mneme: {} stays untried: {}: {error}", readable(&kernel), folder.display());
                    lost.insert(name);
                }
                None => return,
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Replays the recorded launch with the winner's code and dimensions.
fn replay(found: &AppliedWinner, winner: &Winner, trial: &WinnerTrial, database: PathBuf) -> Result<(), NotVerified> {
    let tried = AppliedWinner { recording: TunedRecording::named(database), ..found.clone() };
    compile::verify(&tried, &trial.dynamic_hash.to_string(), winner, trial.shape)
}
