//! The decoder: a forked process that fills the shared snapshot.
//!
//! It keeps the supervisor single-threaded.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mneme_sandbox::child::{Child, ChildStderr, ProcessEnd, pipe};

use crate::recording::instance::RecordedInstance;
use crate::recording::snapshot::Snapshot;

/// Why a snapshot is not usable.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The message of the decoder's own [`RecordingError`](mneme_recording::RecordingError).
    #[error("{0}")]
    Recording(String),
    #[error("the process that decodes the recording {0}; it needs memory for all of the recorded bytes")]
    Ended(ProcessEnd),
    #[error("the process that decodes the recording does not end")]
    Stuck,
}

/// A running decoder.
pub struct Decoder {
    child: Child,
    pipe: File,
    said: String,
}

impl Decoder {
    pub fn start(recorded: &RecordedInstance, snapshot: &Snapshot) -> std::io::Result<Self> {
        let (reader, writer) = pipe()?;
        let child = Child::start(ChildStderr::Kept, || {
            let decoded = recorded.store().and_then(|store| snapshot.decode(&store));
            let Err(error) = decoded else { return mneme_system::exit::VERIFIED };
            let _ = File::from(writer).write_all(error.to_string().as_bytes());
            mneme_system::exit::BAD_RECORDING
        })?;
        Ok(Self { child, pipe: File::from(reader), said: String::new() })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Reads the pipe. When the decoder is done, returns whether the snapshot is usable.
    pub fn progress(&mut self) -> Option<Result<(), DecodeError>> {
        let mut buffer = [0; 4096];
        match self.pipe.read(&mut buffer) {
            Ok(count) if count > 0 => {
                self.said += &String::from_utf8_lossy(&buffer[..count]);
                None
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => None,
            _ => Some(match self.child.wait(Duration::from_secs(5)) {
                Some(ProcessEnd::Exited(mneme_system::exit::VERIFIED)) => Ok(()),
                _ if !self.said.is_empty() => Err(DecodeError::Recording(std::mem::take(&mut self.said))),
                Some(end) => Err(DecodeError::Ended(end)),
                None => Err(DecodeError::Stuck),
            }),
        }
    }
}
