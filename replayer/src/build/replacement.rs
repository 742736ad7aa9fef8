//! Code in the recorded kernel's place, from files that the command line names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mneme_compiler::source::{Source, SourceError};
use mneme_core::exit;
use mneme_core::recording::{CodeKind, RecordingError};
use mneme_core::result::Status;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::outcome::NotBuilt;
use crate::error::Fatal;
use crate::recording::instance::RecordedInstance;

/// What is built in the recorded code's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replacement {
    /// LLVM assembly or bitcode.
    Ir(#[serde(serialize_with = "to_base64", deserialize_with = "from_base64")] Vec<u8>),
    Ptx(String),
    /// Machine code of a GPU, NVIDIA's or AMD's.
    Cubin(#[serde(serialize_with = "to_base64", deserialize_with = "from_base64")] Vec<u8>),
}

/// A file with code, by what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplacementFile {
    Ir(PathBuf),
    Ptx(PathBuf),
    Cubin(PathBuf),
    /// CUDA source, which `compiler` (a clang) compiles with `flags`.
    Source {
        file: PathBuf,
        compiler: PathBuf,
        flags: Vec<String>,
    },
}

impl ReplacementFile {
    pub fn path(&self) -> &Path {
        let (Self::Ir(path) | Self::Ptx(path) | Self::Cubin(path) | Self::Source { file: path, .. }) = self;
        path
    }
}

impl Replacement {
    /// Reads, or compiles within `limit`, a file. A source that does not compile is a failed build.
    pub fn read(
        file: &ReplacementFile,
        recorded: &RecordedInstance,
        limit: Duration,
    ) -> Result<Result<Self, NotBuilt>, Fatal> {
        let bytes = read(file.path())?;
        Ok(Ok(match file {
            ReplacementFile::Ir(_) => Self::Ir(bytes),
            ReplacementFile::Cubin(_) => Self::Cubin(bytes),
            ReplacementFile::Ptx(path) => {
                let is_no_text =
                    |_| Fatal::new(exit::BAD_USAGE, format!("{} is no PTX: it is not text", path.display()));
                Self::Ptx(String::from_utf8(bytes).map_err(is_no_text)?)
            }
            ReplacementFile::Source { file, compiler, flags } => {
                let arch = Some(recorded.kernel.ours.ir_arch.as_str())
                    .filter(|arch| arch.starts_with("sm_"))
                    .unwrap_or("sm_90");
                let source = Source { file, compiler, flags, arch, limit };
                return Ok(source.bitcode().map(Self::Ir).map_err(|error| {
                    let status = match error {
                        SourceError::Rejected(_) => Status::CompileError,
                        SourceError::Late { .. } => Status::Timeout,
                    };
                    NotBuilt::new(status, error.to_string())
                }));
            }
        }))
    }

    /// # Errors
    /// PTX that is not text.
    pub fn of(kind: CodeKind, bytes: Vec<u8>) -> Result<Self, String> {
        match kind {
            CodeKind::Bitcode => Ok(Self::Ir(bytes)),
            CodeKind::Ptx => String::from_utf8(bytes).map(Self::Ptx).map_err(|_| "the PTX is not text".into()),
            CodeKind::Cubin | CodeKind::CodeObject => Ok(Self::Cubin(bytes)),
            CodeKind::CpuObject => Err("a code object of the CPU device replaces no other code".into()),
        }
    }

    pub fn kind(&self) -> CodeKind {
        match self {
            Self::Ir(_) => CodeKind::Bitcode,
            Self::Ptx(_) => CodeKind::Ptx,
            Self::Cubin(_) => CodeKind::Cubin,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Ir(bytes) | Self::Cubin(bytes) => bytes,
            Self::Ptx(text) => text.as_bytes(),
        }
    }

    /// The recorded code, where that is not IR.
    pub fn recorded(recorded: &RecordedInstance) -> Result<Option<Self>, RecordingError> {
        let Some(name) = recorded.kernel.modules.first() else { return Ok(None) };
        let kind = CodeKind::of(name);
        if kind == CodeKind::Bitcode {
            return Ok(None);
        }
        let bytes = recorded.modules()?.remove(0);
        Ok(Some(match kind {
            CodeKind::Cubin | CodeKind::CodeObject => Self::Cubin(bytes),
            _ => {
                let damaged =
                    |_| RecordingError::Damaged { path: recorded.folder.join(name), what: "it is no PTX".into() };
                Self::Ptx(String::from_utf8(bytes).map_err(damaged)?)
            }
        }))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Fatal> {
    std::fs::read(path)
        .map_err(|error| Fatal::new(exit::BAD_USAGE, format!("{} cannot be read: {error}", path.display())))
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    BASE64_STANDARD.decode(text).map_err(serde::de::Error::custom)
}
