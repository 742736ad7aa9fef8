//! Errors of a recording, each in one sentence for the user.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use mneme_model::units;
use mneme_system::console::is_full;
use mneme_system::exit;

#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("{path}: {source}", path = path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A path named by the user.
    #[error("{path} is missing; name the folder that mneme record wrote (-rdb), or the .json file of a kernel in it", path = path.display())]
    Missing { path: PathBuf },
    /// Another user can change the code to run; a sentence.
    #[error("{0}")]
    Stranger(String),
    #[error("{path} is damaged: {what}; record the kernel again, into another folder", path = path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{path} has format version {found}, this Mneme reads up to {supported}; use a newer Mneme", path = path.display())]
    Version { path: PathBuf, found: u32, supported: u32 },
    #[error("{path} is no recorded kernel; name the STATIC-HASH.json of one, or the folder that it is in", path = path.display())]
    NoRecord { path: PathBuf },
    #[error("{path} holds no recorded kernel; name the folder that mneme record wrote (-rdb)", path = path.display())]
    Empty { path: PathBuf },
    /// A sentence: the selection matches no kernel, or several.
    #[error("{0}")]
    Choice(String),
    #[error("{path} has no instance {instance}; it has {known}", path = path.display())]
    NoInstance { path: PathBuf, instance: String, known: String },
    #[error("{path} has several instances ({known}); choose one with -rid", path = path.display())]
    Ambiguous { path: PathBuf, known: String },
    #[error("{path} has instance {instance} of another recording; remove it there first, or name another folder", path = path.display())]
    Taken { path: PathBuf, instance: String },
    #[error("{path} is not the recording that was tuned: {what} is not the same; name that one with -rdb, or tune this one", path = path.display())]
    OtherThanTuned { path: PathBuf, what: &'static str },
    #[error("{path} names the file '{name}', which is outside its folder; refused", path = path.display())]
    Outside { path: PathBuf, name: String },
    #[error("{path} cannot be used: {what}; correct it, or remove it to compare without its rules", path = path.display())]
    Rules { path: PathBuf, what: String },
    #[error("{path} cannot be written as the existing Mneme writes it: {what}", path = path.display())]
    NotUpstreams { path: PathBuf, what: NoPlace },
    #[error("chunk {chunk} is in no pack file of {path}; the recording is incomplete, record the kernel again, into another folder", path = path.display())]
    MissingChunk { path: PathBuf, chunk: String },
}

/// Data that the existing Mneme's files do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    #[error("its code is no LLVM bitcode; build the program with mneme-cc")]
    Code,
    #[error("the memory at {0:#x} is gone after the launch")]
    GoneMemory(u64),
    #[error("the {size} bytes at {address:#x} are no memory of the recorder's arena")]
    OutsideArena { address: u64, size: u64 },
    #[error("its kernel uses texture or surface objects")]
    Images,
    #[error("memory at the end of all addresses")]
    LastAddress,
    #[error("its memory spans {} of addresses, which the existing Mneme maps in one piece; copy its instances into folders of their own (-rid)", units::bytes(*.0))]
    Span(u64),
}

impl RecordingError {
    /// Whether the command line is at fault, not the recording: it does not select one kernel and instance.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Ambiguous { .. } | Self::Choice(_) | Self::NoInstance { .. })
    }

    /// The exit status of a program that fails with this error.
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Io { source, .. } if is_full(source) => exit::INTERNAL,
            Self::Missing { .. } => exit::NO_INPUT,
            error if error.is_usage() => exit::BAD_USAGE,
            _ => exit::BAD_RECORDING,
        }
    }

    /// The error for a file or folder named by the user that cannot be opened.
    pub(crate) fn named(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| match source.kind() {
            std::io::ErrorKind::NotFound => Self::Missing { path: path.into() },
            _ => Self::Io { path: path.into(), source },
        }
    }

    /// Adds the file to an error.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    pub fn damaged(path: impl Into<PathBuf>, what: impl Display) -> Self {
        Self::Damaged { path: path.into(), what: what.to_string() }
    }
}
