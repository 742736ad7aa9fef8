//! One `mneme-build-NN` program: starts it and asks it questions.

use std::cell::{Cell, OnceCell};
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mneme_model::result::ReplayStatus;
use mneme_sandbox::child::{Child, ChildStderr};
use mneme_sandbox::frame::{self, Inbox};
use mneme_system::install;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::outcome::{BuildOutcome, NotBuilt};
use crate::plan::BuildPlan;
use crate::protocol::{BuildOrder, BuildReply, BuilderGreeting, CodeParts, Greeted, Opening, Question, Refusal};
use crate::spec::BuildSpec;
use crate::target::Target;

/// The time limit for a greeting; a busy machine takes a while to start programs.
const GREETING_LIMIT: Duration = Duration::from_secs(60);

/// The reason for a missing or unusable builder; each message is for the user and names the remedy.
#[derive(Debug, Error)]
pub enum ProgramError {
    #[error(
        "no {}NN is installed beside this program, which needs one to compile (NN is the version of its LLVM); install it there, or name the installation in MNEME_HOME",
        install::BUILDER
    )]
    Missing,
    #[error("the IR was written by LLVM {found}, and no builder that is installed reads it: {}; {}", versions(installed), reader_of(*found))]
    NewerIr { found: u32, installed: Vec<u32> },
    #[error(
        "llvm is {requested}, and {}{requested} is not installed: {}; ask for one of these, or {}",
        install::BUILDER,
        versions(installed),
        to_install(*requested)
    )]
    NotInstalled { requested: u32, installed: Vec<u32> },
    #[error(
        "llvm is {requested}, and the IR was written by LLVM {found}, which an older one does not read; ask for {found} or a newer one"
    )]
    OlderThanIr { requested: u32, found: u32 },
    #[error("{} {what}; install it again, or name another installation in MNEME_HOME", path.display())]
    Useless { path: PathBuf, what: String },
    #[error("{} cannot be started: {source}", path.display())]
    Start { path: PathBuf, source: std::io::Error },
}

impl ProgramError {
    /// The status of a configuration that this program was to build. A missing program proves nothing about the
    /// configuration, so you may try it again once the program is installed.
    pub fn status(&self) -> ReplayStatus {
        match self {
            Self::OlderThanIr { .. } => ReplayStatus::InvalidConfig,
            Self::Missing
            | Self::NewerIr { .. }
            | Self::NotInstalled { .. }
            | Self::Useless { .. }
            | Self::Start { .. } => ReplayStatus::InternalError,
        }
    }
}

impl From<ProgramError> for NotBuilt {
    fn from(error: ProgramError) -> Self {
        Self::new(error.status(), error)
    }
}

/// The reason for a missing answer.
#[derive(Debug, Error)]
pub enum AskError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// How the process ended, and the most informative line of its output.
    #[error("the process of {}NN {how}{}", install::BUILDER, complaint.as_ref().map_or_else(String::new, |said| format!(": {}", said.trim())))]
    Unanswered { how: String, complaint: Option<String> },
}

/// The preparation of a process before builds are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// The process warms up LLVM and the assembler, and later keeps the recorded IR in memory.
    Full,
    /// No preparation. A crash that ended another process then happens to the builder, and counts as its
    /// configuration's result.
    None,
}

/// A process of the program that has not received its [`Opening`] yet.
pub struct BuildProcess {
    pub child: Child,
    pub stream: UnixStream,
}

/// "19 and 22 are": the installed builders.
fn versions(installed: &[u32]) -> String {
    let numbers: Vec<String> = installed.iter().map(u32::to_string).collect();
    match numbers.split_last() {
        None => "none is".into(),
        Some((last, [])) => format!("{last} is"),
        Some((last, others)) => format!("{} and {last} are", others.join(", ")),
    }
}

/// The remedy for IR of LLVM `found`, which every installed builder is too old to read.
fn reader_of(found: u32) -> String {
    let newest = *install::LLVM_VERSIONS.end();
    if found > newest {
        return format!(
            "this version of Mneme has builders of LLVM {newest} and older ones alone: compile the program with clang {newest}, or install a newer Mneme"
        );
    }
    to_install(found.max(*install::LLVM_VERSIONS.start()))
}

/// The remedy for a missing builder.
fn to_install(version: u32) -> String {
    let known = install::LLVM_VERSIONS;
    if !known.contains(&version) {
        return format!("install one of LLVM {} to {}", known.start(), known.end());
    }
    let name = format!("{}{version}", install::BUILDER);
    format!(
        "install {name} (cargo build --release -p mneme-compiler --no-default-features --features llvm{version} --bin {name})"
    )
}

/// A program of this installation, and its first process.
pub struct BuildProgram {
    path: PathBuf,
    first: Cell<Option<BuildProcess>>,
    llvm: OnceCell<String>,
}

impl BuildProgram {
    /// The program at this path, without starting a process.
    pub fn at(path: PathBuf) -> Self {
        Self { path, first: Cell::new(None), llvm: OnceCell::new() }
    }

    /// Starts a process, which prepares while the caller does other work. The caller must be single-threaded.
    ///
    /// # Errors
    /// The system cannot start another process.
    pub fn start(&self, preparation: Preparation) -> Result<(), ProgramError> {
        self.first.set(Some(self.begin(preparation, ChildStderr::Shown)?));
        Ok(())
    }

    /// A process for builds, which may not have greeted yet: the first process if it is still unused, otherwise a new
    /// one.
    ///
    /// # Errors
    /// See [`BuildProgram::start`].
    pub fn process(&self, preparation: Preparation) -> Result<BuildProcess, ProgramError> {
        match self.first.take() {
            Some(first) if preparation == Preparation::Full => Ok(first),
            _ => self.begin(preparation, ChildStderr::Shown),
        }
    }

    /// The builder's version of LLVM, if a process has reported it.
    pub fn known_llvm(&self) -> Option<&str> {
        self.llvm.get().map(String::as_str)
    }

    /// The builder's version of LLVM. Starts a process if none has reported it yet.
    ///
    /// # Errors
    /// The process fails to report it.
    pub fn llvm(&self) -> Result<&str, ProgramError> {
        if self.llvm.get().is_none() {
            let mut process = self.process(Preparation::Full)?;
            self.wait_for_greeting(&mut process.child, &mut process.stream, &mut Inbox::default())?;
        }
        Ok(self.known_llvm().unwrap_or_default())
    }

    /// Waits for a process's greeting. `inbox` holds bytes already read from its stream.
    ///
    /// # Errors
    /// The process does not greet, or is of another version.
    pub fn wait_for_greeting(
        &self,
        child: &mut Child,
        stream: &mut UnixStream,
        inbox: &mut Inbox,
    ) -> Result<(), ProgramError> {
        let read = stream.set_read_timeout(Some(GREETING_LIMIT)).and_then(|()| inbox.wait::<Greeted>(stream));
        match read {
            Ok(Some((greeted, _))) => self.check(greeted),
            Ok(None) | Err(_) => {
                let end = child.wait(Duration::from_secs(5));
                Err(self.useless(end.map_or_else(|| "does not answer".into(), |end| end.to_string())))
            }
        }
    }

    /// Checks that a process speaks this program's protocol.
    ///
    /// # Errors
    /// The process is incompatible, or could not be started.
    pub fn check(&self, greeted: Greeted) -> Result<(), ProgramError> {
        let BuilderGreeting { version, source, llvm } = greeted.map_err(|Refusal(what)| self.useless(what))?;
        let own = BuilderGreeting::of(String::new());
        if version != own.version {
            return Err(self.useless(format!("is of version {version}, and this program of {}", own.version)));
        }
        if source != own.source {
            return Err(
                self.useless(format!("is of version {version} as this program is, but of another source of it"))
            );
        }
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(number) =
            name.strip_prefix(install::BUILDER).filter(|number| !llvm.starts_with(&format!("{number}.")))
        {
            return Err(self.useless(format!("has LLVM {llvm}, and its name says {number}")));
        }
        self.llvm.get_or_init(|| llvm);
        Ok(())
    }

    /// Starts a separate process to answer a question about `blob`. Returns the answer and its blob.
    ///
    /// # Errors
    /// The process cannot be started, takes longer than `limit`, or ends without an answer.
    pub fn ask<T: DeserializeOwned>(
        &self,
        question: Question,
        blob: &[u8],
        limit: Duration,
    ) -> Result<(T, Vec<u8>), AskError> {
        let BuildProcess { mut child, mut stream } = self.begin(Preparation::None, ChildStderr::Kept)?;
        self.wait_for_greeting(&mut child, &mut stream, &mut Inbox::default())?;
        let answer = stream
            .set_read_timeout(Some(limit))
            .and_then(|()| stream.set_write_timeout(Some(limit)))
            .and_then(|()| frame::write(&mut stream, &Opening::Question(question), blob))
            .and_then(|()| frame::read::<T>(&mut stream));
        if let Ok(Some(answer)) = answer {
            return Ok(answer);
        }
        let late = matches!(&answer, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        let end = if late { None } else { child.wait(Duration::from_secs(5)) };
        let how = end.map_or_else(|| "does not end".into(), |end| end.to_string());
        Err(AskError::Unanswered { how, complaint: child.complaint() })
    }

    /// Starts a separate process for one build and waits for it. Other output of the process is hidden.
    ///
    /// # Errors
    /// The process cannot be started, ends without an answer, or takes much longer than `limit`.
    pub fn build(
        &self,
        plan: BuildPlan,
        modules: &[Vec<u8>],
        spec: BuildSpec,
        target: Target,
        limit: Duration,
    ) -> Result<BuildOutcome, AskError> {
        let BuildProcess { mut child, mut stream } = self.begin(Preparation::None, ChildStderr::Kept)?;
        self.wait_for_greeting(&mut child, &mut stream, &mut Inbox::default())?;
        let (parts, blob) = CodeParts::join(modules, None);
        let order = BuildOrder { number: 1, target, spec, limit };
        let patience = limit.saturating_add(GREETING_LIMIT);
        let answer = stream
            .set_read_timeout(Some(patience))
            .and_then(|()| stream.set_write_timeout(Some(patience)))
            .and_then(|()| frame::write(&mut stream, &Opening::Plan(Box::new(plan), parts), &blob))
            .and_then(|()| frame::write(&mut stream, &order, &[]))
            .and_then(|()| frame::read::<BuildReply>(&mut stream));
        match answer {
            Ok(Some((BuildReply { outcome: Some(outcome), .. }, image))) => Ok(outcome.map(|built| (built, image))),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                Err(AskError::Unanswered { how: "does not end".into(), complaint: child.complaint() })
            }
            _ => {
                drop(stream);
                let end = child.wait(Duration::from_secs(5));
                let how = end.map_or_else(|| "does not answer".into(), |end| end.to_string());
                Err(AskError::Unanswered { how, complaint: child.complaint() })
            }
        }
    }

    fn begin(&self, preparation: Preparation, words: ChildStderr) -> Result<BuildProcess, ProgramError> {
        let (stream, theirs) = UnixStream::pair().map_err(|error| self.failed(error))?;
        let line = command_line(&self.path, preparation).map_err(|error| self.failed(error.into()))?;
        // A driver in this process may have threads, so the forked child executes another program at once.
        let child = Child::start(words, || become_program(&line, &theirs));
        let child = child.map_err(|error| self.failed(error))?;
        Ok(BuildProcess { child, stream })
    }

    /// The error for a process whose socket could not be set up.
    pub fn failed(&self, source: std::io::Error) -> ProgramError {
        ProgramError::Start { path: self.path.clone(), source }
    }

    /// The error for a process that has ended or is of another version.
    pub fn useless(&self, what: String) -> ProgramError {
        ProgramError::Useless { path: self.path.clone(), what }
    }
}

fn command_line(path: &Path, preparation: Preparation) -> Result<Vec<CString>, std::ffi::NulError> {
    let level = tracing::level_filters::LevelFilter::current().to_string();
    let prepared = match preparation {
        Preparation::Full => "--prepare=full",
        Preparation::None => "--prepare=none",
    };
    let words = [path.as_os_str().as_bytes(), prepared.as_bytes(), b"--log", level.as_bytes()];
    words.into_iter().map(CString::new).collect()
}

/// In a child: executes the program, with the stream as its standard input. Returns only on failure, after sending the
/// error as the greeting.
fn become_program(line: &[CString], mut stream: &UnixStream) -> i32 {
    // SAFETY: takes no pointers; both descriptors are this process's own, which has one thread.
    unsafe { libc::dup2(stream.as_raw_fd(), libc::STDIN_FILENO) };
    let Err(error) = nix::unistd::execv(&line[0], line);
    // If the starting process is gone, there is no reader for this message.
    let _ = frame::write(&mut stream, &Greeted::Err(Refusal(format!("cannot be run: {error}"))), &[]);
    mneme_system::exit::INTERNAL
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A builder that is this script; without one, a file that is not a program.
    fn program(folder: &Path, script: Option<&str>) -> BuildProgram {
        let path = folder.join("mneme-build-19");
        match script {
            Some(text) => mneme_fixtures::script(&path, text),
            None => std::fs::write(&path, "#!/bin/sh\n").unwrap(),
        }
        BuildProgram::at(path)
    }

    #[test]
    fn what_is_no_builder_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        for (script, expected) in [
            (None, "cannot be run: EACCES"),
            (Some("#!/bin/sh\nexit 7\n"), "exited with status 7"),
            (Some("#!/bin/sh\nkill -SEGV $$\n"), "was ended by SIGSEGV"),
        ] {
            let program = program(folder.path(), script);
            let error = program.llvm().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("mneme-build"), "{error}");
            assert!(error.contains("install it again"), "{error}");
        }
        let program = program(folder.path(), None);
        let own = BuilderGreeting::of("19.1.7".into());
        let other = BuilderGreeting { version: "0.0.1".into(), ..own.clone() };
        let error = program.check(Ok(other)).unwrap_err().to_string();
        assert!(error.contains("is of version 0.0.1") && program.known_llvm().is_none(), "{error}");
        let error = program.check(Ok(BuilderGreeting { source: "0".into(), ..own.clone() })).unwrap_err().to_string();
        assert!(error.contains("another source") && program.known_llvm().is_none(), "{error}");
        program.check(Ok(own)).unwrap();
        assert_eq!(program.known_llvm(), Some("19.1.7"));
    }
}
