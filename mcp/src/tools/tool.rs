//! The interface of a tool, and the parts that several tools share.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use mneme_system::files::{private, regular};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ToolError;
use crate::folders::{Folders, RESULTS};
use crate::jobs::{Plan, Step};

/// How a tool changes its surroundings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Not at all.
    Reads,
    /// It adds files to the folder for results.
    Adds,
    /// It runs an application, which may do anything.
    Runs,
}

/// A tool: its arguments, as a client passes them.
pub trait Tool: DeserializeOwned + JsonSchema {
    const NAME: &'static str;
    const ABOUT: &'static str;
    const EFFECT: Effect = Effect::Adds;

    /// The schema of its result.
    fn result() -> Value;

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError>;
}

/// Where a tool works.
pub struct Place<'a> {
    pub folders: &'a Folders,
    tool: &'static str,
    results: OnceCell<PathBuf>,
}

impl<'a> Place<'a> {
    pub fn new(folders: &'a Folders, tool: &'static str) -> Self {
        Self { folders, tool, results: OnceCell::new() }
    }

    /// The folder for this call's results, which is created at the first request.
    pub fn results(&self) -> Result<PathBuf, ToolError> {
        if let Some(folder) = self.results.get() {
            return Ok(folder.clone());
        }
        let root = self.folders.results();
        let unwritten = |source| ToolError::Unwritten { path: root.clone(), source };
        private::create_folder_quietly(&root).map_err(unwritten)?;
        if root.canonicalize().map_err(unwritten)? != root {
            return Err(ToolError::Outside(RESULTS.to_owned()));
        }
        for number in 1.. {
            let folder = root.join(format!("{}-{number}", self.tool));
            match private::create_new_folder(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unwritten(error)),
                Ok(()) => return Ok(self.results.get_or_init(|| folder).clone()),
            }
        }
        unreachable!("there are more numbers than files")
    }

    /// A job of one run. Its results are in the folder, if one was requested.
    pub fn job<F>(&self, steps: Vec<Step>, finish: F) -> Plan
    where
        F: FnOnce(&[Vec<u8>]) -> Result<Value, ToolError> + Send + 'static,
    {
        Plan { folder: self.results.get().cloned(), steps, finish: Box::new(finish) }
    }

    /// A run of `mneme` that prints JSON.
    pub fn step(&self, command: &'static str, arguments: Vec<OsString>) -> Step {
        Step {
            command,
            arguments,
            folder: self.folders.base().into(),
            accepts: |status, _| status == 0,
            is_text: false,
        }
    }

    /// Removes the folder if a plan has failed and left it empty.
    pub fn clear(&self) {
        if let Some(folder) = self.results.get() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// `--NAME=VALUE` as one argument. A value that begins with a dash would otherwise be read as an option.
pub fn option(name: &str, value: impl Display) -> OsString {
    format!("--{name}={value}").into()
}

pub fn path_option(name: &str, path: &Path) -> OsString {
    let mut word: OsString = format!("--{name}=").into();
    word.push(path);
    word
}

// Schemas contain the documentation of types and fields; it is short, because clients give it to models.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    Cpu,
    Cuda,
    Hip,
}

impl Device {
    pub fn option(self) -> OsString {
        let name = match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        };
        option("device", name)
    }
}

// A recording, and what is chosen of it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Selection {
    recording: Option<String>,
    kernel: Option<String>,
    instance: Option<String>,
}

impl Selection {
    /// The options for a program that calls the recording so.
    pub fn options(&self, place: &Place<'_>, recording: &str) -> Result<Vec<OsString>, ToolError> {
        let mut options =
            vec![path_option(recording, &place.folders.tree(self.recording.as_deref().unwrap_or("recording"))?)];
        options.extend(self.kernel.iter().map(|kernel| option("kernel", kernel)));
        options.extend(self.instance.iter().map(|instance| option("record-id", instance)));
        Ok(options)
    }
}

/// The JSON that a program printed.
pub fn parse(command: &'static str, printed: &[u8]) -> Result<Value, ToolError> {
    serde_json::from_slice(printed).map_err(|_| ToolError::Garbled(command))
}

/// The JSON in a file of results.
pub fn parse_file(command: &'static str, path: &Path) -> Result<Value, ToolError> {
    let bytes = regular::read(path).map_err(|source| ToolError::Unread { path: path.display().to_string(), source })?;
    parse(command, &bytes)
}

/// Fails if one of these texts names a file. Options and pipelines of LLVM may.
pub fn refuse_paths<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<(), ToolError> {
    match texts.into_iter().find(|text| text.contains('/')) {
        Some(text) => {
            Err(ToolError::Arguments(format!("'{}' has a slash", text.chars().take(100).collect::<String>())))
        }
        None => Ok(()),
    }
}
