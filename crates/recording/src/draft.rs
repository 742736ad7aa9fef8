//! A draft of an instance.
//!
//! Its files have temporary names until [`publish`](super::publication::publish) renames them.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use mneme_system::files::Temporary;

use super::database;
use super::manifest::MemoryState;
use crate::error::RecordingError;

/// The files of an instance that is not in its folder yet; dropping it removes them.
pub struct Draft<'a> {
    folder: &'a Path,
    files: Vec<(String, Temporary, u64)>,
}

impl<'a> Draft<'a> {
    pub fn new(folder: &'a Path) -> Self {
        Self { folder, files: Vec::new() }
    }

    /// Writes a manifest. Sync the chunks that it names before you publish the instance.
    pub fn add_state(&mut self, name: &str, state: &MemoryState) -> Result<u64, RecordingError> {
        let bytes = state.encode();
        let path = self.folder.join(name);
        self.add(name, |file| file.write_all(&bytes).map(|()| bytes.len() as u64).map_err(RecordingError::io(path)))
    }

    /// Writes a file, replacing one added under this name; `write` receives it and returns its length, bytes.
    pub fn add(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut File) -> Result<u64, RecordingError>,
    ) -> Result<u64, RecordingError> {
        let (file, bytes) = database::write_temporary(&self.folder.join(name), write)?;
        self.files.retain(|(known, ..)| known != name);
        self.files.push((name.to_owned(), file, bytes));
        Ok(bytes)
    }

    /// The files, which are not durable yet.
    pub(super) fn files(&self) -> impl Iterator<Item = &Temporary> {
        self.files.iter().map(|(_, file, _)| file)
    }

    /// Renames the files to their final names; returns their total size, bytes.
    pub(super) fn take_names(self) -> Result<u64, RecordingError> {
        let mut bytes = 0;
        for (name, file, length) in self.files {
            file.take_name().map_err(RecordingError::io(self.folder.join(name)))?;
            bytes += length;
        }
        Ok(bytes)
    }
}
