//! Records in the format of the existing Mneme, by conversion.
//!
//! The recorder writes Mneme's own format to a folder inside the requested one. After the application has ended, the
//! recording is converted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mneme_model::summary::{RecorderSummary, RecordingFailure};
use mneme_recording::RecordingError;
use mneme_recording::database::kernels;
use mneme_recording::export::{Format, export};
use mneme_recording::housekeeping::HousekeepingOutcome;

use crate::error::CommandError;
use crate::own_folder::{self, OwnFolder};

/// Prefix of the folder's name. Other processes that record into the same folder have one beside it.
const PREFIX: &str = ".recording-";

pub struct Staging {
    target: PathBuf,
    folder: OwnFolder,
    format: Format,
}

impl Staging {
    /// Makes a folder in `target`, so that the recording is on the intended disk.
    pub fn create(target: &Path, format: Format) -> Result<Self, CommandError> {
        own_folder::remove_abandoned(target, PREFIX);
        let folder = OwnFolder::create(target, PREFIX)
            .map_err(|source| CommandError::Io { path: target.to_path_buf(), source })?;
        Ok(Self { target: target.to_path_buf(), folder, format })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Converts the recording. Kernels that cannot be converted count as not recorded.
    pub fn export(self, summaries: &mut [RecorderSummary]) {
        let mut outcomes: BTreeMap<String, Result<HousekeepingOutcome, RecordingError>> = BTreeMap::new();
        for database in kernels(self.path()).unwrap_or_default() {
            let hash = database.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            if let Some(hash) = hash {
                let outcome = export(self.path(), &self.target, hash, None, self.format);
                outcomes.insert(database.display().to_string(), outcome);
            }
        }
        for summary in summaries {
            summary.folder = self.target.display().to_string();
            for kernel in &mut summary.kernels {
                let Some(file) = kernel.file.take() else { continue };
                match outcomes.get_mut(&file) {
                    Some(Ok(outcome)) => {
                        let name = Path::new(&file).file_name().unwrap_or_default();
                        kernel.file = Some(self.target.join(name).display().to_string());
                        // Several processes may have recorded a kernel once.
                        kernel.disk_bytes = std::mem::take(&mut outcome.bytes);
                    }
                    Some(Err(error)) => {
                        let launches = std::mem::take(&mut kernel.instances) + std::mem::take(&mut kernel.repeats);
                        kernel.failures.push(RecordingFailure { reason: error.to_string(), launches, broken: true });
                        kernel.disk_bytes = 0;
                    }
                    None => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The processes have the same number, in two containers.
    #[test]
    fn two_recordings_into_one_folder_do_not_share_theirs() {
        let target = tempfile::tempdir().unwrap();
        let create = || Staging::create(target.path(), Format::parse("diff").unwrap()).unwrap();
        let [one, other] = [create(), create()];
        assert_ne!(one.path(), other.path());
        let kept = other.path().to_owned();
        drop(one);
        assert!(kept.is_dir());
    }
}
