//! CUDA or HIP source that replaces a recorded kernel.
//!
//! clang compiles it in the same way as `mneme-cc` compiles the recorded code. NVRTC ([`nvrtc`]) takes the place of clang
//! on machines that have only a CUDA toolkit.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mneme_sandbox::confinement::{self, AllowedResources};
use mneme_sandbox::tools::{self, TransientFile};
use mneme_system::install;
use mneme_system::toolkits;
use thiserror::Error;

use crate::builders::written_by;
use crate::nvrtc::{self, NoOption};

/// The compiler if neither the command line nor the recorded code names one.
const DEFAULT_COMPILER: &str = "clang++-19";

/// Folders of headers that a confined compiler reads, besides the libraries that every confined process may load.
const HEADERS: [&str; 2] = ["/usr/include", "/usr/local/include"];

/// Options of clang whose value is a file or folder with headers, and those that name an installation.
const INCLUDING: [&str; 5] = ["-I", "-isystem", "-iquote", "-idirafter", "-include"];
const INSTALLED: [&str; 6] =
    ["-isysroot", "--sysroot=", "--cuda-path=", "--gcc-toolchain=", "--rocm-path=", "--rocm-device-lib-path="];

/// Where clang finds ROCm's headers and HIP's version.
const HIP_FOLDERS: [&str; 2] = ["/opt/rocm", "/usr/share/hip"];

/// Options that make clang write the IR from its front end, before any pass. `-O3` keeps the front end from marking
/// functions `optnone`, and makes it emit information for optimisations (lifetimes, alias information).
pub const IR_OPTIONS: [&str; 6] =
    ["-emit-llvm", "-c", "-O3", "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names"];

/// The compiler of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// The program, as a name or a path. It writes bitcode.
    Clang(PathBuf),
    /// The library. It writes PTX.
    Nvrtc(PathBuf),
}

impl Compiler {
    fn path(&self) -> &Path {
        let (Self::Clang(path) | Self::Nvrtc(path)) = self;
        path
    }

    /// Its name and version, for people; the path if they are unknown.
    pub fn version(&self) -> String {
        let said = match self {
            Self::Clang(program) => {
                found(program).and_then(|program| Command::new(program).arg("--version").stderr(Stdio::null()).output())
            }
            // Its name has the full version.
            Self::Nvrtc(library) => {
                return library.canonicalize().unwrap_or_else(|_| library.clone()).display().to_string();
            }
        };
        let line = said.ok().and_then(|said| Some(String::from_utf8_lossy(&said.stdout).lines().next()?.to_owned()));
        line.unwrap_or_else(|| self.path().display().to_string())
    }
}

/// How to compile a source file.
#[derive(Clone, Debug)]
pub struct KernelSource<'a> {
    pub file: &'a Path,
    pub compiler: &'a Compiler,
    /// The application's own flags for clang (`-I`, `-D`, `-std=`, …).
    pub flags: &'a [String],
    /// Architecture in the form of the recorded IR: "sm_90", or "gfx90a" for HIP.
    pub arch: &'a str,
    /// The compiler's time limit.
    pub limit: Duration,
    /// Whether this program is to end, and the compiler with it.
    pub has_to_stop: fn() -> bool,
    /// If a stranger may have written the source: the files that it may include. The compiler then runs confined:
    /// besides these it reads only its own installation, the system's headers, and toolkits.
    pub confined: Option<&'a [PathBuf]>,
}

/// The reason for missing code; each message is for the user.
#[derive(Debug, Error)]
pub enum SourceError {
    #[error("cannot pass the source to {compiler}: {source}")]
    NoFile { compiler: String, source: io::Error },
    #[error("{compiler} cannot be run ({source}); --clang names a clang")]
    NotRun { compiler: String, source: io::Error },
    #[error("NVRTC does not work: {0}")]
    NoNvrtc(String),
    #[error(transparent)]
    NoOption(#[from] NoOption),
    #[error(
        "{compiler} cannot be confined, because this system lacks Landlock (Linux 5.13) or seccomp; pass --unconfined if you trust who wrote the source"
    )]
    NotConfined { compiler: String },
    /// Includes the compiler's own text.
    #[error("{file} cannot be compiled:\n{text}")]
    Rejected { file: String, text: String },
    #[error("{compiler} wrote no code of {file}")]
    NoCode { compiler: String, file: String },
    #[error("the code of {file} cannot be read: {source}")]
    Unread { file: String, source: io::Error },
    #[error(
        "{file} took longer than {seconds} s to compile and was stopped; --timeout (mneme-tune: --trial-timeout) raises the limit"
    )]
    Late { file: String, seconds: f64 },
}

impl KernelSource<'_> {
    /// The device's code: clang's bitcode with libdevice linked in, before any pass, or NVRTC's PTX.
    ///
    /// # Errors
    /// The compiler refuses the source, cannot be run, or takes too long.
    pub fn compile(&self) -> Result<Vec<u8>, SourceError> {
        let (file, compiler) = (self.file.display().to_string(), self.compiler.path().display().to_string());
        let nvrtc = match self.compiler {
            Compiler::Nvrtc(library) => Some((library, self.nvrtc_options()?)),
            Compiler::Clang(_) => None,
        };
        let pass =
            || TransientFile::new(&[]).map_err(|source| SourceError::NoFile { compiler: compiler.clone(), source });
        let (mut output, mut words) = (pass()?, pass()?);
        let status =
            output.for_writing().and_then(|output| Ok((output, words.for_writing()?))).and_then(|(output, words)| {
                let mut command = match (self.compiler, &nvrtc) {
                    (_, Some((library, options))) => self.nvrtc(library, options)?,
                    (compiler, None) => self.clang(compiler.path())?,
                };
                tools::run(command.stdout(output).stderr(words), self.limit, self.has_to_stop)
            });
        let status = status.map_err(|source| match source.kind() {
            io::ErrorKind::Unsupported => SourceError::NotConfined { compiler: compiler.clone() },
            _ => SourceError::NotRun { compiler: compiler.clone(), source },
        })?;
        let Some(status) = status else { return Err(SourceError::Late { file, seconds: self.limit.as_secs_f64() }) };
        if !status.success() {
            let words = words.read().unwrap_or_default();
            let text = String::from_utf8_lossy(&words).trim_end().to_owned();
            let is_unusable = nvrtc.is_some() && status.code() != Some(nvrtc::REJECTED);
            return Err(if is_unusable { SourceError::NoNvrtc(text) } else { SourceError::Rejected { file, text } });
        }
        match output.read() {
            Ok(bitcode) if bitcode.is_empty() => Err(SourceError::NoCode { compiler, file }),
            bitcode => bitcode.map_err(|source| SourceError::Unread { file, source }),
        }
    }

    /// clang, which writes the IR to its standard output.
    fn clang(&self, compiler: &Path) -> io::Result<Command> {
        let program = found(compiler)?;
        let mut command = Command::new(&program);
        let is_hip = is_hip(self.arch);
        let (option, installed) = match is_hip {
            true => ("--rocm-device-lib-path", self.device_libraries()),
            false => ("--cuda-path", toolkit()),
        };
        if let Some(folder) = installed.as_ref().filter(|_| !self.flags.iter().any(|flag| flag.starts_with(option))) {
            command.arg(format!("{option}={}", folder.display()));
        }
        // Debug information does not change optimised code, and lets findings name lines. The application's flags may
        // override it.
        command
            .arg("-gline-tables-only")
            .args(self.flags)
            .arg("--cuda-device-only")
            .arg(format!("--offload-arch={}", self.arch));
        command
            .args(IR_OPTIONS)
            .args(is_hip.then_some("--no-gpu-bundle-output"))
            .args(["-Wno-unknown-cuda-version", "-Qunused-arguments", "-x", if is_hip { "hip" } else { "cuda" }])
            .arg(self.file)
            .args(["-o", "-"]);
        // clang's report of its own crash would contain other files.
        command.arg("-fno-crash-diagnostics");
        // An installation has its programs in bin/ and its headers in lib/ beside it.
        let program = program.canonicalize()?;
        let installation = program.ancestors().nth(2).filter(|folder| *folder != Path::new("/usr")).map(Path::to_owned);
        let hip = if is_hip { &HIP_FOLDERS[..] } else { &[] };
        let headers = HEADERS.iter().chain(hip).map(PathBuf::from);
        self.confine(command, &program, headers.chain(installation).chain(installed))
    }

    /// ROCm's device libraries for the compiler: those that the environment names, or the installed ones.
    fn device_libraries(&self) -> Option<PathBuf> {
        let named = std::env::var_os(toolkits::LIBRARIES_VARIABLE).map(PathBuf::from);
        named.or_else(|| toolkits::device_libraries(toolkits::clang_version(&self.compiler.version())?))
    }

    /// This program, which compiles with NVRTC if it is started so.
    fn nvrtc(&self, library: &Path, options: &[String]) -> io::Result<Command> {
        let program = std::env::current_exe()?.canonicalize()?;
        let mut command = Command::new(&program);
        command.arg(nvrtc::COMMAND).arg(library).arg(self.file).args(options);
        // The library loads another one that lies beside it.
        let beside = library.canonicalize()?.parent().map(Path::to_owned);
        self.confine(command, &program, beside.into_iter().chain(toolkit()))
    }

    fn nvrtc_options(&self) -> Result<Vec<String>, SourceError> {
        let mut options = nvrtc::options(self.flags.iter().map(String::as_str), self.arch)?;
        options.extend(toolkit().map(|toolkit| format!("-I{}", toolkit.join("include").display())));
        Ok(options)
    }

    /// Confines a compiler if it may read only some files: `installed`, the source, and what it may include.
    fn confine(
        &self,
        mut command: Command,
        program: &Path,
        installed: impl Iterator<Item = PathBuf>,
    ) -> io::Result<Command> {
        command.stdin(Stdio::null());
        let Some(included) = self.confined else { return Ok(command) };
        let named = values(self.flags, &INSTALLED);
        let readable = installed.chain(named).chain(included.iter().cloned()).chain([self.file.to_owned()]).collect();
        let allowed = AllowedResources { readable, ..AllowedResources::default() };
        confinement::confine(&mut command, program, &allowed).map_err(io::Error::other)?;
        Ok(command)
    }
}

/// The program's path, if it is only a name.
fn found(program: &Path) -> io::Result<PathBuf> {
    if program.components().count() > 1 {
        return Ok(program.to_owned());
    }
    let there = install::search_path().into_iter().map(|folder| folder.join(program)).find(|path| path.is_file());
    there.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The clang of the LLVM that wrote the recorded IR, if it is on PATH: another version generates different code.
pub fn usual_clang<'a>(modules: impl IntoIterator<Item = &'a [u8]>) -> PathBuf {
    let name = written_by(modules).map(|version| PathBuf::from(format!("clang++-{version}")));
    name.filter(|name| found(name).is_ok()).unwrap_or_else(|| DEFAULT_COMPILER.into())
}

/// The usual clang, or for CUDA NVRTC if that is not installed.
pub fn usual_compiler<'a>(modules: impl IntoIterator<Item = &'a [u8]>, arch: &str) -> Compiler {
    let clang = usual_clang(modules);
    match nvrtc::library().filter(|_| !is_hip(arch) && found(&clang).is_err()) {
        Some(library) => Compiler::Nvrtc(library),
        None => Compiler::Clang(clang),
    }
}

/// The architecture to compile for: that of the recorded IR.
pub fn architecture(recorded: &str) -> &str {
    if recorded.starts_with("sm_") || is_hip(recorded) { recorded } else { "sm_90" }
}

/// Whether sources for this architecture are HIP.
pub fn is_hip(arch: &str) -> bool {
    arch.starts_with("gfx")
}

/// The files and folders with headers that flags name.
pub fn included(flags: &[String]) -> Vec<PathBuf> {
    values(flags, &INCLUDING)
}

/// The values of these options.
fn values(flags: &[String], options: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let Some(value) = options.iter().find_map(|option| flag.strip_prefix(*option)) else { continue };
        found.extend(if value.is_empty() { flags.next().map(PathBuf::from) } else { Some(value.into()) });
    }
    found
}

/// The first toolkit that contains CUDA's headers.
fn toolkit() -> Option<PathBuf> {
    toolkits::toolkits().into_iter().find(|root| root.join("include/cuda_runtime.h").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_what_a_compiler_reads() {
        let flags =
            ["-Iinclude", "-I", "other", "-DX=1", "-isystem", "/sdk", "--cuda-path=/cuda", "-O3"].map(str::to_owned);
        assert_eq!(included(&flags), ["include", "other", "/sdk"].map(PathBuf::from));
        assert_eq!(values(&flags, &INSTALLED), [PathBuf::from("/cuda")]);
    }
}
