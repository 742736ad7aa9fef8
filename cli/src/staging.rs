//! Recording in the format of the existing Mneme, by way of our own.
//!
//! The recorder writes our format to a folder inside the one that is asked for; it is converted from there when the
//! application has ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mneme_core::recording::database::kernels;
use mneme_core::recording::export::{Format, export};
use mneme_core::recording::housekeeping::HousekeepingOutcome;
use mneme_core::summary::{RecorderSummary, RecordingFailure};

use crate::error::CommandError;
use crate::own_folder::{self, OwnFolder};

/// Begins the name of the folder, which other processes that record into the same one have beside it.
const PREFIX: &str = ".recording-";

pub struct Staging {
    target: PathBuf,
    folder: OwnFolder,
    format: Format,
}

impl Staging {
    /// Makes a folder in `target`, whose disk the recording is meant for.
    pub fn create(target: &Path, format: Format) -> Result<Self, CommandError> {
        own_folder::remove_abandoned(target, PREFIX);
        let folder = OwnFolder::create(target, PREFIX)
            .map_err(|source| CommandError::Io { path: target.to_path_buf(), source })?;
        Ok(Self { target: target.to_path_buf(), folder, format })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Converts what was recorded; kernels that cannot be converted count as not recorded.
    pub fn export(self, summaries: &mut [RecorderSummary]) {
        let mut outcomes: BTreeMap<String, Result<HousekeepingOutcome, String>> = BTreeMap::new();
        for database in kernels(self.path()).unwrap_or_default() {
            let hash = database.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            if let Some(hash) = hash {
                let outcome =
                    export(self.path(), &self.target, hash, None, self.format).map_err(|error| error.to_string());
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
                        // Of a kernel that several processes recorded once.
                        kernel.disk_bytes = std::mem::take(&mut outcome.bytes);
                    }
                    Some(Err(reason)) => {
                        let launches = std::mem::take(&mut kernel.instances) + std::mem::take(&mut kernel.repeats);
                        kernel.failures.push(RecordingFailure { reason: reason.clone(), launches, broken: true });
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

    /// As processes do that have one number, in two containers.
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
