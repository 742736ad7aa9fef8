//! Running programs with a time limit, and saying everything about them when they fail.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Seconds after which a program counts as hanging.
const LIMIT: &str = "180";

/// A command line to run.
#[derive(Clone, Debug)]
pub struct Run {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
}

/// What became of it.
#[derive(Debug)]
pub struct ProgramOutput {
    /// As a shell would report it: 128 + signal for a program that a signal ended, 124 for one over the time limit.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    line: String,
}

pub fn run(program: impl AsRef<OsStr>) -> Run {
    Run { program: program.as_ref().to_owned(), arguments: Vec::new(), environment: Vec::new(), folder: None }
}

impl Run {
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable for the program itself, not for the programs that watch over it (this matters for `LD_PRELOAD`).
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    pub fn outcome(self) -> ProgramOutput {
        let (mut command, line) = self.command();
        let output = command.output().unwrap_or_else(|error| panic!("{line}: {error}"));
        ProgramOutput::new(output.status, &output.stdout, &output.stderr, line)
    }

    /// The outcome of a command; `then` is done when a line of its standard error has this text.
    pub fn outcome_with(self, said: &str, then: impl FnOnce()) -> ProgramOutput {
        let (mut command, line) = self.command();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{line}: {error}"));
        let (mut stderr, mut then) = (Vec::new(), Some(then));
        for read in BufReader::new(child.stderr.take().expect("a pipe")).split(b'\n') {
            let read = read.unwrap_or_else(|error| panic!("{line}: {error}"));
            if String::from_utf8_lossy(&read).contains(said)
                && let Some(then) = then.take()
            {
                then();
            }
            stderr.extend(read.into_iter().chain([b'\n']));
        }
        let output = child.wait_with_output().unwrap_or_else(|error| panic!("{line}: {error}"));
        ProgramOutput::new(output.status, &output.stdout, &stderr, line)
    }

    /// The command under a time limit, and as a line.
    fn command(self) -> (Command, String) {
        let settings = self.environment.iter().map(|(name, value)| {
            let mut setting = name.clone();
            setting.push("=");
            setting.push(value);
            setting
        });
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT, "env"]).args(settings).arg(&self.program).args(&self.arguments);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let line = format!("{command:?}").replace('"', "");
        (command, line)
    }

    /// The outcome of a command that has to succeed.
    #[track_caller]
    pub fn succeed(self) -> ProgramOutput {
        self.exit_with(0)
    }

    /// The outcome of a command that has to end with this status.
    #[track_caller]
    pub fn exit_with(self, status: i32) -> ProgramOutput {
        let outcome = self.outcome();
        assert_eq!(outcome.status, status, "exit status of {outcome}");
        outcome
    }
}

impl ProgramOutput {
    fn new(status: ExitStatus, stdout: &[u8], stderr: &[u8], line: String) -> Self {
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        Self {
            status: status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0)),
            stdout: String::from_utf8_lossy(stdout).into_owned(),
            stderr: String::from_utf8_lossy(stderr).into_owned(),
            line,
        }
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("standard output is not JSON ({error}): {self}"))
    }

    /// Panics unless standard error contains the text.
    #[track_caller]
    pub fn complains(&self, text: &str) {
        assert!(self.stderr.contains(text), "standard error does not say '{text}': {self}");
    }
}

impl std::fmt::Display for ProgramOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nstatus {}\n--- stdout\n{}\n--- stderr\n{}", self.line, self.status, self.stdout, self.stderr)
    }
}
