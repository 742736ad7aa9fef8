//! A file of JSON lines to which one process at a time appends.
//!
//! Each line is written at once, and a partial line that a killed process left is cut off. Readers therefore find whole
//! lines only.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use mneme_system::files::private;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ResultsError, io};

#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: File,
}

impl JsonLines {
    /// Opens or creates a file, and returns its lines.
    ///
    /// # Errors Another process writes to it, it cannot be read, or a line is invalid.
    pub fn open<T: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<T>), ResultsError> {
        let mut file = private::append(path).map_err(io(path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ResultsError::InUse { folder: path.parent().unwrap_or(path).into() });
            }
            Err(TryLockError::Error(error)) => return Err(io(path)(error)),
        }
        let lines = read(path, &mut file)?;
        Ok((Self { path: path.into(), file }, lines))
    }

    /// Appends a line: all of it, or nothing.
    pub fn append(&mut self, value: &impl Serialize) -> Result<(), ResultsError> {
        // A single write hardly ever leaves a partial line.
        let mut line = serde_json::to_string(value).expect("plain data serialises");
        line.push('\n');
        let before = self.file.metadata().map(|file| file.len());
        self.file.write_all(line.as_bytes()).map_err(|source| {
            // If this fails too, the next process cuts off the partial line.
            let _ = before.and_then(|length| self.file.set_len(length));
            ResultsError::Write { path: self.path.clone(), source }
        })
    }

    /// Waits until the lines are on the disk: some file systems only notice then that they are full.
    pub fn sync(&self) -> Result<(), ResultsError> {
        self.file.sync_data().map_err(|source| ResultsError::Write { path: self.path.clone(), source })
    }
}

/// All lines. Cuts off a partial one.
fn read<T: DeserializeOwned>(path: &Path, file: &mut File) -> Result<Vec<T>, ResultsError> {
    let io = |source| ResultsError::Io { path: path.into(), source };
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut text)).map_err(io)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        file.set_len(whole as u64).map_err(io)?;
    }
    let lines = text[..whole].split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(index, line)| {
            serde_json::from_slice(line).map_err(|error| ResultsError::Damaged {
                path: path.into(),
                line: index + 1,
                problem: error.to_string(),
            })
        })
        .collect()
}
