//! The recorded kernel for which a winner was found.

use std::path::{Path, PathBuf};

use mneme_recording::database::{KernelRecord, kernels};
use mneme_recording::{RecordingError, RecordingSums};
use serde_json::Value;

use super::ApplyError;

/// The place of the kernel's file, with the means to check that it was the one tuned.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedRecording {
    pub database: PathBuf,
    /// Checksums from the session; `None` for sessions of earlier releases, and for Proteus's files.
    sums: Option<RecordingSums>,
    /// The static hash of the tuned kernel, if known.
    static_hash: Option<u64>,
    /// Whether the user named the place. A copy of the kernel may hold less memory, but must have the same code.
    is_named: bool,
}

impl TunedRecording {
    /// A recording that the user has named, without known checksums.
    pub fn named(database: PathBuf) -> Self {
        Self { database, sums: None, static_hash: None, is_named: true }
    }

    /// The recording of a session with these options and results. Does not search the current folder or folders above
    /// the results, because others may write to those.
    ///
    /// # Errors The recording is missing.
    pub fn of(options: &Value, results: &Path, recordings: Option<&Path>) -> Result<Self, ApplyError> {
        let measured = &options["measured"];
        let database = options["record_database"].as_str().or_else(|| options["record_database"][0].as_str());
        let database = database.map(Path::new).ok_or_else(|| ApplyError::NoRecording(results.join("config.json")))?;
        let sums: Option<RecordingSums> = serde_json::from_value(measured.clone()).ok();
        let static_hash = database.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        let found = |database| Self {
            database,
            sums: sums.filter(|sums| !sums.code.is_empty()),
            static_hash,
            is_named: recordings.is_some(),
        };
        if let Some(recordings) = recordings {
            let path = recordings.join(database.file_name().unwrap_or_default());
            return kernel(path.clone()).map(found).ok_or(ApplyError::MissingRecording(path));
        }
        let stored = |name: &str| measured[name].as_str().map(|path| results.join(path));
        // Earlier releases stored a path beside the results, or an absolute one.
        let beside = results.parent().map(|folder| folder.join(database));
        let places = [stored("database_from_results"), stored("database"), Some(results.join(database)), beside];
        places
            .into_iter()
            .flatten()
            .find_map(kernel)
            .map(found)
            .ok_or_else(|| ApplyError::LostRecording { results: results.into(), database: database.into() })
    }

    /// Reads the kernel, for instance `id`.
    ///
    /// # Errors A stranger can change the recording, or it is not the one that was tuned.
    pub fn load(&self, id: &str) -> Result<KernelRecord, RecordingError> {
        let record = KernelRecord::load_trusted(&self.database)?;
        let Some(sums) = &self.sums else { return Ok(record) };
        let now = RecordingSums::of(&self.database, &record, &[id.to_owned()])?;
        let is_same = |id: &str| sums.instances.get(id).is_none_or(|sum| now.instances.get(id) == Some(sum));
        let what = match (sums.code == now.code, self.is_named || is_same(id)) {
            (true, true) => return Ok(record),
            // Whoever made a recording could choose its hash, so an equal hash proves nothing.
            (false, _) if self.static_hash == Some(record.static_hash) => {
                "the file with its code (not the kernel's hash: another kernel of that file may have changed)"
            }
            (false, _) => "the kernel's code",
            _ => "the recorded launch or its memory",
        };
        Err(RecordingError::OtherThanTuned { path: self.database.clone(), what })
    }
}

/// A kernel's file: the path itself, or the only kernel in the folder.
fn kernel(path: PathBuf) -> Option<PathBuf> {
    match path.is_dir() {
        false => path.is_file().then_some(path),
        true => kernels(&path).ok().filter(|found| found.len() == 1)?.pop(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn recordings_are_found_beside_the_results_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["work/results/7", "work/rec", "rec", "moved"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["work/rec/7.json", "rec/7.json"] {
            std::fs::write(at(name), "").unwrap();
        }
        let of = |options: &Value, results: &str, named: Option<&str>| {
            let named = named.map(at);
            TunedRecording::of(options, &at(results), named.as_deref()).map(|found| found.database)
        };
        let earlier = json!({"record_database": "rec/7.json"});
        assert_eq!(of(&earlier, "work/results", None).unwrap(), at("work/rec/7.json"));
        let above = of(&earlier, "work/results/7", None);
        assert!(matches!(above, Err(ApplyError::LostRecording { .. })), "a folder above");
        assert_eq!(of(&earlier, "moved", Some("work/rec")).unwrap(), at("work/rec/7.json"));
        let missing = of(&earlier, "work/results", Some("moved"));
        assert!(matches!(missing, Err(ApplyError::MissingRecording(path)) if path == at("moved/7.json")));
        let stored = |relative: &str, absolute: PathBuf| {
            json!({"record_database": "rec/7.json",
                   "measured": {"database_from_results": relative, "database": absolute}})
        };
        let found = of(&stored("../../rec/7.json", at("none")), "work/results/7", None).unwrap();
        assert_eq!(found.canonicalize().unwrap(), at("work/rec/7.json").canonicalize().unwrap());
        assert_eq!(of(&stored("../none", at("work/rec/7.json")), "moved", None).unwrap(), at("work/rec/7.json"));
        assert!(matches!(of(&json!({}), "moved", None), Err(ApplyError::NoRecording(_))));
    }
}
