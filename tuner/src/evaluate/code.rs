//! Turns a candidate into code that a server can replay.
//!
//! Candidates are strangers: a source can name any file, in `#include`, `#embed` or a link. Its compiler therefore runs
//! confined, and options of candidates are limited to those that name no file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mneme_builds::source::{self, Compiler, KernelSource, SourceError};
use mneme_model::configuration::{Changes, Configuration, Effect, FIELDS};
use mneme_model::evaluation::CompilerMessage;
use mneme_model::hash::chunk_id;
use mneme_model::protocol::Code;
use mneme_model::result::ReplayStatus;
use mneme_recording::database::KernelRecord;
use mneme_system::files::{private, trust};

use super::error::EvaluateError;
use super::input::{Given, Request};
use super::options::EvaluateOptions;
use super::patch;
use super::readable::Readable;
use crate::interrupt;

/// Options of clang that a candidate may have: no other can name a file or start a program. The front end always works
/// for `-O3`; the field `passes` of a configuration chooses the optimisations.
const ALLOWED: [&str; 16] = [
    "-D", "-U", "-O3", "-std=", "-W", "-ffast-math", "-fno-fast-math", "-ffp-contract=",
    "-fgpu-flush-denormals-to-zero", "-fcuda-flush-denormals-to-zero", "-funroll-loops", "-fno-unroll-loops",
    "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-ffinite-math-only",
];

/// Why a candidate has no code.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub status: ReplayStatus,
    pub reason: String,
    /// The time limit that it exceeded, s.
    pub time_limit: Option<f64>,
}

impl Refusal {
    pub fn invalid(reason: impl ToString) -> Self {
        Self { status: ReplayStatus::InvalidConfig, reason: reason.to_string(), time_limit: None }
    }
}

/// The source that candidates change.
#[derive(Clone, Debug, Default)]
struct Base {
    text: String,
    folder: PathBuf,
}

/// Makes the code of candidates, and keeps it in the results folder.
pub struct Workshop {
    /// For a folder of each candidate.
    folder: PathBuf,
    base: Option<Base>,
    compiler: Compiler,
    flags: Vec<String>,
    arch: String,
    /// Headers for a confined compiler.
    readable: Readable,
    is_confined: bool,
    limit: Duration,
}

impl Workshop {
    pub fn open(
        options: &EvaluateOptions,
        database: &Path,
        record: &KernelRecord,
        results: &Path,
    ) -> Result<Self, EvaluateError> {
        let unread = |path: &Path| {
            let path = path.to_path_buf();
            move |source| EvaluateError::Unread { path, source }
        };
        let base = match &options.source_base {
            None => None,
            Some(path) => Some(Base { text: trust::read_text(path).map_err(unread(path))?, folder: folder_of(path) }),
        };
        let beside = options.source.iter().chain(&options.files).map(|path| folder_of(path));
        let mut includes: Vec<PathBuf> = base.iter().map(|base| base.folder.clone()).chain(beside).collect();
        includes.sort();
        includes.dedup();
        let mut flags = options.source_flags.clone();
        for folder in &includes {
            flags.extend(["-iquote".to_owned(), folder.display().to_string()]);
        }
        let trusted =
            |program: &PathBuf| trust::check_program(program).map_err(unread(program)).map(|()| program.clone());
        let arch = source::architecture(&record.ours.ir_arch);
        let compiler = match (&options.clang, &options.nvrtc) {
            (Some(program), _) => Compiler::Clang(trusted(program)?),
            (None, Some(_)) if source::is_hip(arch) => {
                return Err(EvaluateError::Usage(format!(
                    "--nvrtc compiles CUDA, and the kernel is of a HIP program, for {arch}; leave it out"
                )));
            }
            (None, Some(library)) => Compiler::Nvrtc(trusted(library)?),
            (None, None) => {
                let recording = database.parent().unwrap_or(Path::new(""));
                let modules: Vec<Vec<u8>> =
                    record.modules.iter().filter_map(|name| trust::read(&recording.join(name)).ok()).collect();
                source::usual_compiler(modules.iter().map(Vec::as_slice), arch)
            }
        };
        let folder = results.join("candidates");
        private::create_folder_quietly(&folder).map_err(unwritten(&folder))?;
        let folder = folder.canonicalize().map_err(unread(&folder))?;
        let private = [folder_of(database), folder_of(&folder)].into();
        let roots = [includes, source::included(&options.source_flags)].concat();
        Ok(Self {
            readable: Readable { roots, private },
            is_confined: !options.unconfined,
            folder,
            base,
            compiler,
            flags,
            arch: arch.into(),
            limit: Duration::ZERO,
        })
    }

    /// Sets the compiler's time limit.
    pub fn limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// The compiler and its version.
    pub fn compiler(&self) -> String {
        self.compiler.version()
    }

    /// A checksum of a candidate, of the source that it changes, and of the headers that either includes.
    pub fn digest(&self, request: &Request) -> String {
        let base = self.base.as_ref().map_or("", |base| &base.text);
        let own = request.digest(base);
        let source = match &request.given {
            Given::Ir(_) | Given::Ptx(_) => return own,
            Given::Recorded if request.options.is_empty() => return own,
            Given::Recorded => base.to_owned(),
            Given::Source(text) => text.clone(),
            Given::Diff(text) | Given::Blocks(text) => format!("{base}\n{text}"),
        };
        let headers = self.readable.included(source);
        let all = headers.iter().flat_map(|sum| sum.to_le_bytes());
        if headers.is_empty() { own } else { chunk_id(&own.bytes().chain(all).collect::<Vec<_>>()).to_string() }
    }

    /// The candidate's code; `None` for the recorded code.
    ///
    /// # Errors
    /// The results folder cannot be written, or there is no compiler.
    pub fn code(&self, request: &Request, digest: &str) -> Result<Result<Option<Code>, Refusal>, EvaluateError> {
        let text = match (&request.given, &self.base) {
            (Given::Source(text), _) => text.clone(),
            (Given::Recorded, _) if request.options.is_empty() => return Ok(Ok(None)),
            (Given::Ir(_) | Given::Ptx(_), _) if !request.options.is_empty() => {
                return Ok(Err(Refusal::invalid(
                    "options are for the compiler of a source, and this candidate has none",
                )));
            }
            (Given::Ir(bytes), _) => {
                let name = if bytes.starts_with(b"BC") { "kernel.bc" } else { "kernel.ll" };
                return self.write(digest, name, bytes).map(|path| Ok(Some(Code::IrFile(path))));
            }
            (Given::Ptx(text), _) => {
                return self.write(digest, "kernel.ptx", text.as_bytes()).map(|path| Ok(Some(Code::PtxFile(path))));
            }
            (_, None) => {
                let reason =
                    "a diff, blocks or compiler options change the kernel's source; name it with --source-base";
                return Ok(Err(Refusal::invalid(reason)));
            }
            (Given::Recorded, Some(base)) => base.text.clone(),
            (Given::Diff(diff), Some(base)) => match patch::diff(&base.text, diff) {
                Ok(text) => text,
                Err(error) => return Ok(Err(Refusal::invalid(error))),
            },
            (Given::Blocks(blocks), Some(base)) => match patch::blocks(&base.text, blocks) {
                Ok(text) => text,
                Err(error) => return Ok(Err(Refusal::invalid(error))),
            },
        };
        if let Some(option) = request.options.iter().find(|option| !is_allowed(option)) {
            let reason =
                format!("a candidate may not have the compiler option {option}; allowed are {}", ALLOWED.join(", "));
            return Ok(Err(Refusal::invalid(reason)));
        }
        let name = if source::is_hip(&self.arch) { "kernel.hip" } else { "kernel.cu" };
        let file = self.write(digest, name, text.as_bytes())?;
        let flags = [&self.flags[..], &request.options].concat();
        let readable = self.is_confined.then(|| self.readable.files());
        let source = KernelSource {
            file: &file,
            compiler: &self.compiler,
            flags: &flags,
            arch: &self.arch,
            limit: self.limit,
            has_to_stop: || interrupt::check().is_err(),
            confined: readable.as_deref(),
        };
        match source.compile() {
            Ok(code) => Ok(Ok(Some(match self.compiler {
                Compiler::Clang(_) => Code::IrFile(self.write(digest, "kernel.bc", &code)?),
                Compiler::Nvrtc(_) => Code::PtxFile(self.write(digest, "kernel.ptx", &code)?),
            }))),
            Err(error @ SourceError::NoOption(_)) => Ok(Err(Refusal::invalid(error))),
            Err(SourceError::Late { seconds, .. }) => Ok(Err(Refusal {
                status: ReplayStatus::Timeout,
                reason: format!("its source takes more than {seconds} s to compile"),
                time_limit: Some(seconds),
            })),
            Err(SourceError::Rejected { text, .. }) => {
                let text = text.replace(&format!("{}/", file.parent().unwrap_or(&file).display()), "");
                let reason = text.lines().map(without_refusal).collect::<Vec<_>>().join("\n");
                Ok(Err(Refusal { status: ReplayStatus::CompileError, reason, time_limit: None }))
            }
            Err(error) => Err(EvaluateError::Compiler(error)),
        }
    }

    /// Writes a file to the candidate's folder, and returns its path.
    fn write(&self, digest: &str, name: &str, bytes: &[u8]) -> Result<PathBuf, EvaluateError> {
        let folder = self.folder.join(digest);
        let path = folder.join(name);
        private::create_folder_quietly(&folder)
            .and_then(|()| private::write(&path, bytes))
            .map_err(unwritten(&path))?;
        Ok(path)
    }
}

fn unwritten(path: &Path) -> impl FnOnce(std::io::Error) -> EvaluateError {
    let path = path.to_path_buf();
    move |source| EvaluateError::Unwritten { path, source }
}

/// The folder of a file, as an absolute path.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().unwrap_or_else(|_| folder.into())
}

fn is_allowed(option: &str) -> bool {
    let is_switch = |allowed: &str| allowed.starts_with("-f") && !allowed.ends_with('=');
    let is_whole = |allowed: &str| allowed == "-O3" || is_switch(allowed);
    // Without a value, an option takes the next one for it.
    let fits = |allowed: &&str| match option.strip_prefix(*allowed) {
        Some("") => is_whole(allowed) || *allowed == "-W",
        Some(_) => !is_whole(allowed),
        None => false,
    };
    // -Wa, -Wl and -Wp pass options to other programs.
    let passes_on = option.starts_with("-W") && option.contains(',');
    ALLOWED.iter().any(fits) && !passes_on
}

/// The configuration of a candidate.
///
/// # Errors
/// A field is unknown or invalid, or not the candidate's to choose.
pub fn configuration(changes: &Changes, recorded: &Configuration) -> Result<Configuration, Refusal> {
    let is_set = |name: &str| changes.0.contains_key(name);
    if let Some(field) = FIELDS.iter().find(|it| matches!(it.effect, Effect::Runs | Effect::Limit) && is_set(it.name)) {
        let reason = format!("{} decides how candidates are judged, so a candidate cannot set it", field.name);
        return Err(Refusal::invalid(reason));
    }
    let configuration = changes.apply(recorded).map_err(Refusal::invalid)?;
    let options = configuration.llvm_options.iter().chain(configuration.ptxas_options.iter().flatten());
    let names_file =
        |option: &&String| ["/", "file", "optf", "load", "plugin"].iter().any(|word| option.contains(word));
    let passes = Some(&configuration.passes).filter(|passes| passes.contains('/') || passes.contains("file"));
    match options.into_iter().find(names_file).or(passes) {
        Some(option) => Err(Refusal::invalid(format!("a candidate may not have {option}, which may name a file"))),
        None => Ok(configuration),
    }
}

/// clang's error for a file that confinement refuses, in the words for a file that is not there.
fn without_refusal(line: &str) -> Cow<'_, str> {
    let refused = line.strip_suffix("': Permission denied").and_then(|line| line.split_once("cannot open file '"));
    refused.map_or(line.into(), |(place, file)| format!("{place}'{file}' file not found").into())
}

/// The first error in the text of a compiler.
pub fn message(text: &str) -> CompilerMessage {
    let is_error = |line: &&str| line.contains("error:") || line.contains("fatal");
    let line = text.lines().find(is_error).or_else(|| text.lines().next()).unwrap_or_default();
    let (place, message) = line.split_once("error:").unwrap_or(("", line));
    let place = place.trim_end();
    let kinds = ["fatal", "catastrophic"].into_iter();
    let place =
        kinds.filter_map(|kind| place.strip_suffix(kind)).next().unwrap_or(place).trim_end().trim_end_matches(':');
    // NVRTC writes `kernel.cu(12): error: …`.
    let place = place.strip_suffix(')').map_or(place.into(), |place| place.replacen('(', ":", 1));
    let mut parts = place.split(':');
    let file = parts.next().filter(|file| !file.is_empty()).map(str::to_owned);
    let mut number = || parts.next().and_then(|number| number.trim().parse().ok());
    let (line, column) = (number(), number());
    // NVRTC's words; clang's are "file not found".
    let remedy = match message.contains("cannot open source file") {
        true => "; NVRTC compiles device code alone, so guard that of the host by #ifndef __CUDACC_RTC__",
        false => "",
    };
    let message = format!("{}{remedy}", message.trim());
    CompilerMessage { message, file: file.filter(|_| line.is_some()), line, column }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    #[test]
    fn options_of_candidates_name_no_files() {
        for option in ["-DTILE=32", "-O3", "-std=c++20", "-ffast-math", "-ffp-contract=off", "-Wno-all", "-UX"] {
            assert!(is_allowed(option), "{option}");
        }
        for option in [
            "-I/etc", "-include", "/etc/passwd", "@file", "-fplugin=x.so", "-ffast-mathematics", "-Xclang", "-o", "-D",
            "-U", "-std=", "-O0", "-O2", "-Wa,-I/etc", "-Wp,-MD,/tmp/x", "--cuda-path=/", "-fpass-plugin=x",
        ] {
            assert!(!is_allowed(option), "{option}");
        }
    }

    #[test]
    fn candidates_do_not_choose_how_they_are_judged() {
        let recorded = Configuration::recorded(Dim3::new(4, 1, 1), Dim3::new(64, 1, 1), 0);
        let of = |json: &str| configuration(&serde_json::from_str(json).unwrap(), &recorded);
        assert_eq!(of(r#"{"block": {"x": 32}, "maxnreg": 40}"#).unwrap().maxnreg, 40);
        for json in [
            r#"{"tolerance": {"dtype": "f32", "threshold": 1, "kind": "relative"}}"#,
            r#"{"timeout_s": 9000}"#,
            r#"{"iterations": 1}"#,
            r#"{"cache": "cold"}"#,
            r#"{"maxnregs": 3}"#,
            r#"{"llvm_options": ["-load=x.so"]}"#,
            r#"{"ptxas_options": ["--options-file", "x"]}"#,
            r#"{"llvm_options": ["-x=/etc/passwd"]}"#,
            r#"{"passes": "memprof-use<profile-filename=x>"}"#,
            r#"{"passes": "default<O3>,print</etc/passwd>"}"#,
        ] {
            assert_eq!(of(json).unwrap_err().status, ReplayStatus::InvalidConfig, "{json}");
        }
    }

    #[test]
    fn the_first_error_has_its_place() {
        let text = "kernel.cu:1:2: warning: x\nkernel.cu:12:5: error: use of undeclared identifier 'a'\n  a;\n";
        let found = message(text);
        assert_eq!((found.file.as_deref(), found.line, found.column), (Some("kernel.cu"), Some(12), Some(5)));
        assert_eq!(found.message, "use of undeclared identifier 'a'");
        let found = message("kernel.cu:3:10: fatal error: 'x.h' file not found");
        assert_eq!((found.line, found.message.as_str()), (Some(3), "'x.h' file not found"));
        let found = message("error: invalid value 'c++99' in '-std=c++99'");
        assert_eq!((found.file, found.line), (None, None));
        assert_eq!(message("LLVM crashed").message, "LLVM crashed");
        let found = message("kernel.cu(7): error: identifier \"f(x)\" is undefined");
        assert_eq!((found.file.as_deref(), found.line, found.column), (Some("kernel.cu"), Some(7), None));
        assert_eq!(found.message, "identifier \"f(x)\" is undefined");
        let found = message("kernel.cu(1): catastrophic error: cannot open source file \"x.h\"");
        assert_eq!((found.file.as_deref(), found.line), (Some("kernel.cu"), Some(1)));
        assert!(found.message.starts_with("cannot open source file \"x.h\"; NVRTC "), "{}", found.message);
    }

    #[test]
    fn refused_files_are_not_found() {
        let found = |line| without_refusal(line).into_owned();
        let there = "kernel.cu:1:10: fatal error: cannot open file '/root/.bashrc': Permission denied";
        assert_eq!(found(there), "kernel.cu:1:10: fatal error: '/root/.bashrc' file not found");
        for line in ["#include \"x\" // cannot open file 'é", "cannot open file ': Permission denied", ""] {
            assert_eq!(found(line), line);
        }
    }
}
