//! Code in the recorded kernel's place, from files that the command line names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mneme_builds::source::{CudaSource, SourceError};
use mneme_builds::{NotBuilt, Replacement};
use mneme_core::exit;
use mneme_core::hash::checksum;
use mneme_core::image::ptx;
use mneme_core::recording::database::CodeFile;
use mneme_core::recording::{CodeKind, RecordingError};
use mneme_core::result::ReplayStatus;

use crate::error::Fatal;
use crate::recording::instance::RecordedInstance;

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

    /// Reads, or compiles within `limit`, a file. A source that does not compile is a failed build.
    pub fn read(&self, recorded: &RecordedInstance, limit: Duration) -> Result<Result<Replacement, NotBuilt>, Fatal> {
        let bytes = read(self.path())?;
        Ok(Ok(match self {
            Self::Ir(_) => Replacement::Ir(bytes),
            Self::Cubin(_) => Replacement::Cubin(bytes),
            Self::Ptx(path) => {
                let is_no_text =
                    |_| Fatal::new(exit::BAD_USAGE, format!("{} is no PTX: it is not text", path.display()));
                Replacement::Ptx(String::from_utf8(bytes).map_err(is_no_text)?)
            }
            Self::Source { file, compiler, flags } => {
                let arch = Some(recorded.kernel.ours.ir_arch.as_str())
                    .filter(|arch| arch.starts_with("sm_"))
                    .unwrap_or("sm_90");
                let source = CudaSource { file, compiler, flags, arch, limit };
                return Ok(source.bitcode().map(Replacement::Ir).map_err(|error| {
                    let status = match error {
                        SourceError::Rejected(_) => ReplayStatus::CompileError,
                        SourceError::Late { .. } => ReplayStatus::Timeout,
                    };
                    NotBuilt::new(status, error.to_string())
                }));
            }
        }))
    }
}

/// The recorded code, where that is not IR.
pub fn recorded(recorded: &RecordedInstance) -> Result<Option<Replacement>, RecordingError> {
    let Some(name) = recorded.kernel.modules.first() else { return Ok(None) };
    let kind = CodeKind::of(name);
    if kind == CodeKind::Bitcode {
        return Ok(None);
    }
    let bytes = recorded.modules()?.remove(0);
    Ok(Some(match kind {
        CodeKind::Cubin | CodeKind::CodeObject => Replacement::Cubin(bytes),
        _ => {
            let damaged = |_| RecordingError::Damaged { path: recorded.folder.join(name), what: "it is no PTX".into() };
            Replacement::Ptx(String::from_utf8(bytes).map_err(damaged)?)
        }
    }))
}

/// The recorded code where that is PTX, else the PTX that the program had beside it; a remark says so where it is for
/// another architecture.
///
/// # Errors
/// There is none, or its file is not what was recorded.
pub fn ptx_beside(recorded: &RecordedInstance) -> Result<Replacement, Fatal> {
    if let Some(own @ Replacement::Ptx(_)) = self::recorded(recorded)? {
        return Ok(own);
    }
    let kernel = &recorded.kernel.kernel_name;
    let texts = recorded.instance.ours.original.iter().filter(|code| CodeKind::of(&code.file) == CodeKind::Ptx);
    for CodeFile { file, checksum: sum } in texts {
        let path = recorded.folder.join(file);
        let damaged = |what: String| RecordingError::Damaged { path: path.clone(), what };
        let bytes = std::fs::read(&path).map_err(|source| RecordingError::Io { path: path.clone(), source })?;
        if checksum(&bytes) != *sum {
            return Err(damaged("its checksum does not match".into()).into());
        }
        let text = String::from_utf8(bytes).map_err(|_| damaged("it is no PTX".into()))?;
        let Some(closure) = ptx::PtxModule::parse(&text).closure(kernel) else { continue };
        let target = closure.target.map_or_else(String::new, |target| target.to_string());
        let own = &recorded.kernel.ours.ir_arch;
        if target != *own {
            eprintln!(
                "mneme-replay: --from-ptx: the PTX is for {target}, and the recorded code is for {own}; \
                 the source may have told them apart"
            );
        }
        return Ok(Replacement::Ptx(ptx::with_visible_variables(&closure.text).into_owned()));
    }
    let error = "--from-ptx: the recording holds no PTX of the kernel; its program has none that compiles for the GPU, \
                 or was recorded by an older version: record it again";
    Err(Fatal::new(exit::BAD_USAGE, error))
}

fn read(path: &Path) -> Result<Vec<u8>, Fatal> {
    std::fs::read(path)
        .map_err(|error| Fatal::new(exit::BAD_USAGE, format!("{} cannot be read: {error}", path.display())))
}
