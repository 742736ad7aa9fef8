//! The helper process for Python: search spaces that are classes, and Optuna.
//!
//! The tuner does not link Python. It starts `python3 -m mneme.tuning.bridge` and sends one request at a time, as a
//! line of JSON (`python/mneme/tuning/bridge.py` lists the messages). If the process ends, the session cannot continue,
//! but its results stay.

mod space;
mod study;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use mneme_system::files::{private, trust};
use mneme_system::install;
use serde_json::Value;

pub use self::space::PythonSpace;
pub use self::study::{OptunaPruner, OptunaSampler, StudyOptions};

/// Variable with the Python to use if no option names one.
const PYTHON: &str = "MNEME_PYTHON";
/// The module that answers.
const MODULE: &str = "mneme.tuning.bridge";

/// Runs the module without the current folder in Python's search path.
const ELSEWHERE: &str = "import sys; del sys.path[0]; import runpy; \
                         runpy.run_module('mneme.tuning.bridge', run_name='__main__', alter_sys=True)";

#[derive(Clone, Debug, thiserror::Error)]
pub enum BridgeError {
    #[error("cannot start {python} ({problem}), which --space-module and Optuna need; install Python 3.9 or later, or pass --python", python = python.display())]
    Start { python: PathBuf, problem: String },
    #[error(
        "{python} has no module mneme.tuning, which --space-module and Optuna need; install the package (pip install ./python), or pass --python with a Python that has it",
        python = python.display()
    )]
    NoPackage { python: PathBuf },
    #[error("--space-module {path} cannot be read: {problem}", path = path.display())]
    Unread { path: PathBuf, problem: String },
    /// The user's code or Optuna refuses; one sentence.
    #[error("{0}")]
    Refused(String),
    #[error("the helper process {python} ended unexpectedly ({how}); its last output is in {log}", python = python.display(), log = log.display())]
    Died { python: PathBuf, how: String, log: PathBuf },
}

/// A running helper process, shared by its clones.
#[derive(Clone, Debug)]
pub struct Bridge(Rc<RefCell<Process>>);

#[derive(Debug)]
struct Process {
    python: PathBuf,
    log: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    answered: bool,
    /// Why the process no longer answers.
    failure: Option<BridgeError>,
}

impl Bridge {
    /// Starts the process, and appends its standard error to `log`.
    ///
    /// # Errors Python cannot be started. A missing package only shows at the first request.
    pub fn start(python: Option<&Path>, log: &Path) -> Result<Self, BridgeError> {
        let python = python
            .map(Path::to_path_buf)
            .or_else(|| std::env::var_os(PYTHON).map(PathBuf::from))
            .unwrap_or_else(|| "python3".into());
        let failed = |error: std::io::Error| BridgeError::Start { python: python.clone(), problem: error.to_string() };
        trust::check_program(&python).map_err(failed)?;
        let errors = private::append(log).map_err(failed)?;
        let mut command = Command::new(&python);
        // Python looks for modules in the current folder first, and strangers may have put some there.
        let is_ours = std::env::current_dir().is_ok_and(|folder| trust::check(&folder).is_ok());
        command
            .args(if is_ours { ["-m", MODULE] } else { ["-c", ELSEWHERE] })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors);
        // Ctrl-C in a terminal must only reach the session.
        command.process_group(0);
        if let Some(path) = search_path() {
            command.env("PYTHONPATH", path);
        }
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        Ok(Self(Rc::new(RefCell::new(Process {
            python,
            log: log.into(),
            child,
            input,
            output,
            answered: false,
            failure: None,
        }))))
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors The process refuses, or is gone.
    pub fn ask(&self, request: &Value) -> Result<Value, BridgeError> {
        let mut process = self.0.borrow_mut();
        let mut line = request.to_string();
        line.push('\n');
        let written = process.input.as_mut().is_some_and(|input| input.write_all(line.as_bytes()).is_ok());
        let mut answer = String::new();
        if !written || !matches!(process.output.read_line(&mut answer), Ok(1..)) {
            let failure = process.ended();
            process.failure = Some(failure.clone());
            return Err(failure);
        }
        process.answered = true;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|_| BridgeError::Refused(format!("the helper process sent an invalid answer: '{answer}'")))?;
        match answer["error"].as_str() {
            Some(error) => Err(BridgeError::Refused(error.into())),
            None => Ok(answer),
        }
    }
}

impl Bridge {
    /// Why the process no longer answers.
    pub fn failure(&self) -> Option<BridgeError> {
        self.0.borrow().failure.clone()
    }

    /// Notes an error that ends the session.
    fn fail(&self, error: BridgeError) {
        self.0.borrow_mut().failure.get_or_insert(error);
    }
}

impl Process {
    fn ended(&mut self) -> BridgeError {
        self.input = None;
        let status = self.child.wait();
        // Python's exit status if a module is missing or broken.
        if !self.answered && status.as_ref().is_ok_and(|status| status.code() == Some(1)) {
            return BridgeError::NoPackage { python: self.python.clone() };
        }
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        BridgeError::Died { python: self.python.clone(), how, log: self.log.clone() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// `PYTHONPATH` with this installation's package at the end, so that a package from the user or in Python itself comes
/// first. `None` if this installation has no package.
fn search_path() -> Option<OsString> {
    let ours = install::prefix()?;
    let places = [ours.join("lib/python"), ours.join("../../python")];
    let package = places.into_iter().find(|folder| folder.join("mneme/tuning/bridge.py").is_file())?;
    let before = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let paths =
        std::env::split_paths(&before).filter(|path| !path.as_os_str().is_empty()).chain(std::iter::once(package));
    std::env::join_paths(paths).ok()
}
