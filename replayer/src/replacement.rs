//! Code in the recorded kernel's place: files that the command line names.

use std::path::Path;
use std::time::Duration;

use mneme_compiler::source::{Source, SourceError};
use mneme_core::exit;
use mneme_core::recording::{CodeKind, RecordingError};
use mneme_core::result::Status;

use crate::arguments::CodeOptions;
use crate::builder::NotBuilt;
use crate::subject::Subject;
use crate::supervisor::Fatal;

/// What is built in the recorded code's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// LLVM assembly or bitcode.
    Ir(Vec<u8>),
    Ptx(String),
    Cubin(Vec<u8>),
}

impl Replacement {
    /// Reads, or compiles within `limit`, what the options name. A source that does not compile is a failed build.
    pub fn read(options: &CodeOptions, subject: &Subject, limit: Duration) -> Result<Result<Option<Self>, NotBuilt>, Fatal> {
        let Some(path) = &options.source else { return Self::read_file(options).map(Ok) };
        file(path)?;
        let arch = Some(subject.kernel.ours.ir_arch.as_str()).filter(|arch| arch.starts_with("sm_")).unwrap_or("sm_90");
        let source = Source { file: path, compiler: &options.clang, flags: &options.source_flags, arch, limit };
        Ok(source.bitcode().map(|bytes| Some(Self::Ir(bytes))).map_err(|error| {
            let status = match error {
                SourceError::Rejected(_) => Status::CompileError,
                SourceError::Late { .. } => Status::Timeout,
            };
            NotBuilt::new(status, error.to_string())
        }))
    }

    fn read_file(options: &CodeOptions) -> Result<Option<Self>, Fatal> {
        if let Some(path) = &options.ir {
            return file(path).map(|bytes| Some(Self::Ir(bytes)));
        }
        if let Some(path) = &options.ptx {
            let text = String::from_utf8(file(path)?);
            return text
                .map(|text| Some(Self::Ptx(text)))
                .map_err(|_| Fatal::new(exit::BAD_USAGE, format!("{} is no PTX: it is not text", path.display())));
        }
        options.cubin.as_deref().map(|path| file(path).map(Self::Cubin)).transpose()
    }

    /// # Errors
    /// PTX that is not text.
    pub fn of(kind: CodeKind, bytes: Vec<u8>) -> Result<Self, String> {
        match kind {
            CodeKind::Bitcode => Ok(Self::Ir(bytes)),
            CodeKind::Ptx => String::from_utf8(bytes).map(Self::Ptx).map_err(|_| "the PTX is not text".into()),
            CodeKind::Cubin => Ok(Self::Cubin(bytes)),
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
    pub fn recorded(subject: &Subject) -> Result<Option<Self>, RecordingError> {
        let Some(name) = subject.kernel.modules.first() else { return Ok(None) };
        let kind = CodeKind::of(name);
        if kind == CodeKind::Bitcode {
            return Ok(None);
        }
        let bytes = subject.modules()?.remove(0);
        Ok(Some(match kind {
            CodeKind::Cubin => Self::Cubin(bytes),
            _ => {
                let damaged = |_| RecordingError::Damaged { path: subject.folder.join(name), what: "it is no PTX".into() };
                Self::Ptx(String::from_utf8(bytes).map_err(damaged)?)
            }
        }))
    }
}

fn file(path: &Path) -> Result<Vec<u8>, Fatal> {
    std::fs::read(path).map_err(|error| Fatal::new(exit::BAD_USAGE, format!("{} cannot be read: {error}", path.display())))
}
