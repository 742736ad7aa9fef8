//! Code in place of the recorded kernel's, from files on the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mneme_builds::source::{self, Compiler, KernelSource, SourceError};
use mneme_builds::{NotBuilt, Replacement};
use mneme_image::ptx;
use mneme_model::hash::checksum;
use mneme_model::result::ReplayStatus;
use mneme_recording::database::CodeFile;
use mneme_recording::{CodeKind, RecordingError};
use mneme_system::exit;
use mneme_system::files::trust;

use crate::error::Fatal;
use crate::recording::instance::RecordedInstance;

/// A file with code, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplacementFile {
    Ir(PathBuf),
    Ptx(PathBuf),
    Cubin(PathBuf),
    /// CUDA or HIP source, which `compiler` (a clang) compiles with `flags`. The default is the clang of the recorded IR's
    /// version.
    Source {
        file: PathBuf,
        compiler: Option<PathBuf>,
        flags: Vec<String>,
    },
}

impl ReplacementFile {
    pub fn path(&self) -> &Path {
        let (Self::Ir(path) | Self::Ptx(path) | Self::Cubin(path) | Self::Source { file: path, .. }) = self;
        path
    }

    /// Reads a file, or compiles it within `limit`. A source that does not compile is a failed build.
    pub fn read(&self, recorded: &RecordedInstance, limit: Duration) -> Result<Result<Replacement, NotBuilt>, Fatal> {
        let bytes = read(self.path())?;
        Ok(Ok(match self {
            Self::Ir(_) => Replacement::Ir(bytes),
            Self::Cubin(_) => Replacement::Cubin(bytes),
            Self::Ptx(path) => {
                let is_no_text =
                    |_| Fatal::new(exit::BAD_USAGE, format!("{} is not PTX, because it is not text", path.display()));
                Replacement::Ptx(String::from_utf8(bytes).map_err(is_no_text)?)
            }
            Self::Source { file, compiler, flags } => {
                let arch = source::architecture(&recorded.kernel.ours.ir_arch);
                if let Some(compiler) = compiler {
                    trust::check_program(compiler).map_err(|error| Fatal::new(exit::BAD_USAGE, error))?;
                }
                let modules = || recorded.modules().unwrap_or_default();
                let compiler =
                    compiler.clone().unwrap_or_else(|| source::usual_clang(modules().iter().map(Vec::as_slice)));
                let compiler = Compiler::Clang(compiler);
                let (has_to_stop, confined): (fn() -> bool, _) = (|| false, None);
                let source = KernelSource { file, compiler: &compiler, flags, arch, limit, has_to_stop, confined };
                return Ok(source.compile().map(Replacement::Ir).map_err(|error| {
                    let status = match error {
                        SourceError::Late { .. } => ReplayStatus::Timeout,
                        _ => ReplayStatus::CompileError,
                    };
                    NotBuilt::new(status, error.to_string())
                }));
            }
        }))
    }
}

/// The recorded code, if that is not IR.
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
            let damaged =
                |_| RecordingError::Damaged { path: recorded.folder.join(name), what: "it is not PTX".into() };
            Replacement::Ptx(String::from_utf8(bytes).map_err(damaged)?)
        }
    }))
}

/// The recorded code, if it can be compiled in other ways.
pub fn compilable(recorded: &RecordedInstance) -> Option<Replacement> {
    match self::recorded(recorded).ok()? {
        Some(Replacement::Cubin(_)) => None,
        Some(code) => Some(code),
        None => <[Vec<u8>; 1]>::try_from(recorded.modules().ok()?).ok().map(|[module]| Replacement::Ir(module)),
    }
}

/// Code that is stored next to the recorded code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeBeside {
    /// PTX that the program contains in addition to machine code.
    Ptx,
    /// LLVM IR that Triton kept.
    Llir,
}

impl CodeBeside {
    /// Reads the code. If the recorded code is PTX, returns that. Prints a remark if the PTX is for another
    /// architecture.
    ///
    /// # Errors
    /// The recording has no such code, or its file has changed.
    pub fn read(self, recorded: &RecordedInstance) -> Result<Replacement, Fatal> {
        match self {
            Self::Ptx => ptx_beside(recorded),
            Self::Llir => match files_beside(recorded, CodeKind::Llir).next() {
                Some(found) => Ok(Replacement::Ir(found?.1)),
                None => Err(Fatal::new(
                    exit::BAD_USAGE,
                    "--from-llir: the recording has no IR from Triton: the kernel is not Triton's, or was not in \
                     its cache when it was recorded; leave the option out",
                )),
            },
        }
    }
}

fn ptx_beside(recorded: &RecordedInstance) -> Result<Replacement, Fatal> {
    if let Some(own @ Replacement::Ptx(_)) = self::recorded(recorded)? {
        return Ok(own);
    }
    for found in files_beside(recorded, CodeKind::Ptx) {
        let (path, bytes) = found?;
        let damaged = |_| RecordingError::Damaged { path, what: "it is not PTX".into() };
        let text = String::from_utf8(bytes).map_err(damaged)?;
        let Some(closure) = ptx::PtxModule::parse(&text).closure(&recorded.kernel.kernel_name) else { continue };
        let target = closure.target.unwrap_or_default();
        let own = &recorded.kernel.ours.ir_arch;
        if target != *own {
            mneme_system::remark!(
                "mneme-replay: --from-ptx: the PTX is for {target}, and the recorded code is for {own}; \
                 the source may differ between them"
            );
        }
        return Ok(Replacement::Ptx(ptx::with_visible_variables(&closure.text).into_owned()));
    }
    let error = "--from-ptx: the recording has no PTX of the kernel; its program has none that compiles for the GPU, \
                 or was recorded by an older version: record it again";
    Err(Fatal::new(exit::BAD_USAGE, error))
}

/// The code of one kind that is stored next to the recorded code.
fn files_beside(
    recorded: &RecordedInstance,
    kind: CodeKind,
) -> impl Iterator<Item = Result<(PathBuf, Vec<u8>), RecordingError>> {
    let files = recorded.instance.ours.original.iter().filter(move |code| CodeKind::of(&code.file) == kind);
    files.map(|CodeFile { file, checksum: sum }| {
        let path = recorded.folder.join(file);
        let bytes = std::fs::read(&path).map_err(|source| RecordingError::Io { path: path.clone(), source })?;
        if checksum(&bytes) != *sum {
            return Err(RecordingError::Damaged { path, what: "its checksum does not match".into() });
        }
        Ok((path, bytes))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Fatal> {
    trust::read(path).map_err(|error| Fatal::unread(path, &error))
}
