//! The tools that run an application, and those that show its recorded kernels.

use std::cmp::Reverse;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::source_place::source_place;
use super::tool::{Device, Effect, Place, Selection, Tool, option, parse, parse_file, path_option};
use crate::error::ToolError;
use crate::folders::RESULTS;
use crate::jobs::{Plan, Step};

/// The folder with the checked code, while a kernel is shown.
const CHECKED: &str = "checked";
/// The most arguments of an application, and their bytes together.
const MOST_ARGUMENTS: usize = 1000;
const LONGEST_ARGUMENTS: usize = 64 << 10;

// An application to run.
#[derive(Debug, Deserialize, JsonSchema)]
struct Application {
    /// Program and arguments
    application: Vec<String>,
    /// Working folder
    folder: Option<String>,
    /// Regular expression of names
    kernels: Option<String>,
    device: Option<Device>,
}

impl Application {
    /// A job of `mneme record` or `mneme profile`.
    fn plan(
        self,
        place: &Place<'_>,
        command: &'static str,
        mut options: Vec<std::ffi::OsString>,
    ) -> Result<Plan, ToolError> {
        let Some((program, arguments)) = self.application.split_first() else {
            return Err(ToolError::Arguments("application names no program".to_owned()));
        };
        let bytes: usize = arguments.iter().map(String::len).sum();
        if arguments.len() > MOST_ARGUMENTS || bytes > LONGEST_ARGUMENTS || arguments.iter().any(|it| it.contains('\0'))
        {
            let (what, limit) = ("application", "1,000 arguments of 64 KiB together, without NUL");
            return Err(ToolError::TooLarge { what, limit, remedy: "put the arguments into a file" });
        }
        let program = place.folders.program(program)?;
        let folder = self.folder.as_deref().map(|folder| place.folders.existing(folder)).transpose()?;
        let summary = place.results()?.join("summary.json");
        options.push(path_option("json", &summary));
        options.extend(self.kernels.iter().map(|kernels| option("kernels", kernels)));
        options.extend(self.device.map(Device::option));
        let mut step = place.step(command, options);
        step.arguments.extend(["--".into(), program.into()]);
        step.arguments.extend(arguments.iter().map(Into::into));
        step.folder = folder.unwrap_or(step.folder);
        step.is_text = true;
        // The status is the application's, unless mneme says that it is not.
        step.accepts = |status, _| !(64..80).contains(&status);
        Ok(place.job(vec![step], move |_| {
            let report = parse_file(command, &summary)?;
            let mut kernels = report["kernels"].as_array().cloned().unwrap_or_default();
            kernels.sort_by_key(|kernel| Reverse(kernel["gpu_time"]["total"].as_u64()));
            Ok(json!({"exit_status": report["exit_status"], "kernels": kernels}))
        }))
    }
}

/// Schema of a list of kernels.
fn kernels() -> Value {
    json!({"type": "array"})
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Record {
    #[serde(flatten)]
    application: Application,
    /// Recording to create or extend [default: recording]
    recording: Option<String>,
    /// Instances of each kernel [default: 4]
    max: Option<u32>,
}

impl Tool for Record {
    const NAME: &'static str = "record";
    const ABOUT: &'static str =
        "Records an application's kernels: code, launches, memory before and after. Start here.";
    const EFFECT: Effect = Effect::Runs;

    fn result() -> Value {
        json!({"properties": {"exit_status": {"type": "integer"}, "kernels": kernels()}})
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        let recording = place.folders.folder(self.recording.as_deref().unwrap_or("recording"))?;
        // Clients can read what is there.
        if recording.starts_with(place.folders.results()) {
            return Err(ToolError::Arguments(format!("a recording can't be in {RESULTS}/, the folder for results")));
        }
        let mut options = vec![path_option("record-database", &recording)];
        options.extend(self.max.map(|max| option("max", max)));
        self.application.plan(place, "record", options)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Profile {
    #[serde(flatten)]
    application: Application,
}

impl Tool for Profile {
    const NAME: &'static str = "profile";
    const ABOUT: &'static str = "Runs an application and ranks its kernels by GPU time, to choose one.";
    const EFFECT: Effect = Effect::Runs;

    fn result() -> Value {
        Record::result()
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        self.application.plan(place, "profile", Vec::new())
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListKernels {
    #[serde(flatten)]
    selection: Selection,
}

impl Tool for ListKernels {
    const NAME: &'static str = "list_kernels";
    const ABOUT: &'static str = "Lists kernels of a recording (a folder, or a .json in it [default: recording]) and their instances: ids, shapes, \
        memory. Other tools take a part of the name as kernel, and an id as instance.";
    const EFFECT: Effect = Effect::Reads;

    fn result() -> Value {
        json!({"properties": {"kernels": kernels()}})
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        let mut options = vec!["--json".into()];
        options.extend(self.selection.options(place, "record-database")?);
        Ok(place.job(vec![place.step("ls", options)], |printed| Ok(json!({"kernels": parse("ls", &printed[0])?}))))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShowKernel {
    #[serde(flatten)]
    selection: Selection,
    /// Also compile one instance
    #[serde(default)]
    code: bool,
    device: Option<Device>,
}

impl Tool for ShowKernel {
    const NAME: &'static str = "show_kernel";
    const ABOUT: &'static str = "Shows parameters with values, launch, memory regions; with code also source place and files with IR, PTX, SASS.";

    fn result() -> Value {
        json!({"properties": {"kernels": kernels(), "source": {"type": "string"}}})
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        let mut options = vec!["--json".into()];
        options.extend(self.selection.options(place, "record-database")?);
        let mut steps = vec![place.step("show", options)];
        let folder = if self.code { Some(place.results()?) } else { None };
        if let Some(folder) = &folder {
            let replay = |output: &Path, more: &[&str]| {
                let mut options = self.selection.options(place, "record-db")?;
                options.extend(["--json", "--iterations=1", "--warmup=0"].iter().chain(more).map(Into::into));
                options.push(path_option("output-dir", output));
                options.extend(self.device.map(Device::option));
                Ok::<_, ToolError>(place.step("replay", options))
            };
            // The files are there whether or not the kernel verifies.
            steps.push(Step { accepts: |status, _| status < 64, ..replay(folder, &[])? });
            // Only a check keeps the source's lines in the IR. It is refused for machine code.
            let checked = replay(&folder.join(CHECKED), &["--check", "--timeout=20"])?;
            steps.push(Step { accepts: |_, _| true, ..checked });
        }
        Ok(place.job(steps, move |printed| {
            let mut found = json!({"kernels": parse("show", &printed[0])?});
            if let Some(folder) = folder {
                found["replay"] = parse("replay", &printed[1])?["Result"].take();
                let checked = folder.join(CHECKED);
                let source = found["kernels"].as_array().and_then(|kernels| {
                    let ir = std::fs::read_to_string(checked.join("before.ll")).ok()?;
                    kernels.iter().find_map(|kernel| source_place(&ir, kernel["mangled"].as_str()?))
                });
                if let Some(source) = source {
                    found["source"] = source.into();
                }
                let _ = std::fs::remove_dir_all(checked);
            }
            Ok(found)
        }))
    }
}
