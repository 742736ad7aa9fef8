//! Runs programs with a time limit, and shows full details if they fail.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The number of seconds after which a program counts as hanging. Kernels that spin take ten times as long on a busy
/// machine.
const LIMIT: &str = "400";

/// A command line to run.
#[derive(Clone, Debug)]
pub struct Run {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
}

/// The outcome of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    /// The status as in a shell: 128 + signal if a signal ended the program, 124 if it exceeded the time limit.
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

    /// Sets a variable only for the program, and not for the programs that supervise it. This matters for `LD_PRELOAD`.
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

    /// Runs a command, and calls `then` when a line of its standard error contains this text.
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

    /// The command with its time limit, and as one line of text.
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

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn succeed(self) -> ProgramOutput {
        self.exit_with(0)
    }

    /// Runs a command that must end with this status.
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
