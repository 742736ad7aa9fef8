//! The verdicts of an evaluation, in its results folder.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use mneme_model::evaluation::{CandidateId, Judgement};
use mneme_recording::database::KernelRecord;
use mneme_system::files::private;

use super::error::EvaluateError;
use crate::measured::Measured;
use crate::results::{self, JsonLines, ResultsError};

const VERDICTS: &str = "verdicts.jsonl";
const MEASURED: &str = "recording.json";
const JUDGED: &str = "judged.json";

/// The conditions of verdicts besides the recording and the candidate, such as tolerances, by name.
pub type Conditions = BTreeMap<String, String>;

/// The file of verdicts, and what is in it.
pub struct Verdicts {
    folder: PathBuf,
    file: JsonLines,
    known: HashMap<String, Judgement>,
    conditions: Conditions,
}

impl Verdicts {
    /// Opens the folder, creating it if needed. Without `resume` it must hold no verdict.
    pub fn open(
        folder: &Path,
        resume: bool,
        database: &Path,
        record: &KernelRecord,
        ids: &[String],
    ) -> Result<Self, EvaluateError> {
        results::refuse_recording(folder)?;
        let unwritten = |source| ResultsError::Io { path: folder.into(), source };
        private::create_folder(folder).map_err(unwritten)?;
        let (file, known) = JsonLines::open::<Judgement>(&folder.join(VERDICTS))?;
        if !known.is_empty() && !resume {
            return Err(EvaluateError::Taken(folder.into()));
        }
        let now = Measured::of(database, record, ids, folder)?;
        let path = folder.join(MEASURED);
        match results::read_file::<Measured>(&path)?.filter(|_| !known.is_empty()) {
            Some(earlier) => {
                if let Some(what) = earlier.other_recording(&now) {
                    return Err(EvaluateError::Foreign { folder: folder.into(), what });
                }
            }
            None => results::write_whole(&path, &now)?,
        }
        let named = |it: Judgement| Some((it.id.as_ref()?.to_string(), it));
        let known: HashMap<_, _> = known.into_iter().filter_map(named).collect();
        let earlier = results::read_file(&folder.join(JUDGED))?.filter(|_| !known.is_empty());
        Ok(Self { folder: folder.into(), file, known, conditions: earlier.unwrap_or_default() })
    }

    /// Notes what verdicts depend on.
    ///
    /// # Errors
    /// Verdicts that are in the folder depend on something else.
    pub fn depend_on(&mut self, conditions: Conditions) -> Result<(), EvaluateError> {
        for (what, now) in conditions {
            let before = self.conditions.entry(what.clone()).or_insert_with(|| now.clone());
            if *before != now {
                let (folder, before) = (self.folder.clone(), before.clone());
                return Err(EvaluateError::Otherwise { folder, what, before, now });
            }
        }
        Ok(results::write_whole(&self.folder.join(JUDGED), &self.conditions)?)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn count(&self) -> u64 {
        self.known.len() as u64
    }

    pub fn of(&self, id: &CandidateId) -> Option<&Judgement> {
        self.known.get(&id.to_string())
    }

    /// Writes a verdict; it is on the disk afterwards.
    pub fn add(&mut self, judgement: &Judgement) -> Result<(), EvaluateError> {
        self.file.append(judgement)?;
        self.file.sync()?;
        let id = judgement.id.as_ref().map(ToString::to_string).unwrap_or_default();
        self.known.insert(id, judgement.clone());
        Ok(())
    }
}
