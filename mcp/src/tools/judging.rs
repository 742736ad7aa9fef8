//! The tools that judge: candidates, a kernel itself, and a pipeline that breaks it.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use mneme_system::exit;
use mneme_system::files::{private, regular};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::tool::{Device, Place, Selection, Tool, option, parse, path_option, refuse_paths};
use crate::error::ToolError;
use crate::jobs::Plan;

/// The most candidates of a call, and their bytes together.
const MOST_CANDIDATES: usize = 100;
const LONGEST_CANDIDATES: usize = 2 << 20;

// A candidate: at most one of source, diff, blocks, ir and ptx.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Candidate {
    id: String,
    /// Whole file
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// Unified diff for source_base
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// SEARCH/REPLACE blocks
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ptx: Option<String>,
    /// Such as {"block": {"x": 64}}
    #[serde(default)]
    config: Map<String, Value>,
    /// Such as -DTILE=32
    #[serde(default)]
    options: Vec<String>,
}

impl Candidate {
    /// The configuration in a file, whose name is the id.
    fn of_config(file: &str, text: &str) -> Result<Self, ToolError> {
        let config: Map<String, Value> = serde_json::from_str(text).map_err(|error| wrong(file, 1, &error))?;
        serde_json::from_value(json!({"id": file, "config": config})).map_err(|error| wrong(file, 1, &error))
    }

    /// The lines of a file.
    fn of_lines(file: &str, text: &str) -> Result<Vec<Self>, ToolError> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let read = |(number, line): (usize, &str)| {
            let mut value: Value = serde_json::from_str(line).map_err(|error| wrong(file, number, &error))?;
            if let Some(id) = value.get("id").and_then(Value::as_u64) {
                value["id"] = id.to_string().into();
            }
            serde_json::from_value(value).map_err(|error| wrong(file, number, &error))
        };
        lines.map(read).collect()
    }
}

fn wrong(file: &str, line: usize, error: &serde_json::Error) -> ToolError {
    ToolError::Arguments(format!("line {line} of '{file}' isn't a valid candidate: {}", shorten(&error.to_string())))
}

fn shorten(text: &str) -> String {
    text.chars().take(200).collect()
}

fn too_large() -> ToolError {
    let (what, limit) = ("the list of candidates", "100 candidates of 2 MiB together");
    ToolError::TooLarge { what, limit, remedy: "pass some of them, or sources as files" }
}

/// The text of a file with candidates.
fn text_of(file: &str, path: &Path) -> Result<String, ToolError> {
    let unread = |source| ToolError::Unread { path: file.to_owned(), source };
    let mut text = String::new();
    let read = regular::open(path).map_err(unread)?.take(LONGEST_CANDIDATES as u64 + 1).read_to_string(&mut text);
    if read.map_err(unread)? > LONGEST_CANDIDATES { Err(too_large()) } else { Ok(text) }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Evaluate {
    #[serde(flatten)]
    selection: Selection,
    #[serde(default)]
    all_instances: bool,
    #[serde(default)]
    candidates: Vec<Candidate>,
    /// Files: .cu, .diff, .ll, .ptx
    #[serde(default)]
    files: Vec<String>,
    /// Source that candidates change
    source_base: Option<String>,
    /// Folders for #include
    #[serde(default)]
    include: Vec<String>,
    /// Seconds for all
    timeout: Option<f64>,
    confirm_time: Option<f64>,
    /// Such as dram__bytes.sum
    #[serde(default)]
    counters: Vec<String>,
    device: Option<Device>,
}

impl Tool for Evaluate {
    const NAME: &'static str = "evaluate";
    const ABOUT: &'static str = "Judges changed code: compiles, verifies, compares with the application's own code. \
        feedback tells what to do next.";

    fn result() -> Value {
        let verdict = json!({"enum": ["faster", "slower", "inconclusive", "incorrect", "unproven", "invalid"]});
        let properties = json!({"id": {}, "verdict": verdict, "feedback": {"type": "string"}});
        let items = json!({"required": ["id", "verdict", "feedback"], "properties": properties});
        json!({"properties": {"verdicts": {"type": "array", "items": items}}})
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        if self.candidates.is_empty() && self.files.is_empty() {
            return Err(ToolError::Arguments("there are neither candidates nor files".to_owned()));
        }
        let folders = place.folders;
        let (mut candidates, mut files) = (self.candidates, Vec::new());
        for file in &self.files {
            let path = folders.existing(file)?;
            match path.extension().and_then(std::ffi::OsStr::to_str) {
                Some("json") => candidates.push(Candidate::of_config(file, &text_of(file, &path)?)?),
                Some("jsonl") => candidates.extend(Candidate::of_lines(file, &text_of(file, &path)?)?),
                _ => files.push(folders.shown(&path)),
            }
        }
        let mut ids = HashSet::new();
        for id in candidates.iter().map(|candidate| &candidate.id).chain(&files) {
            if !ids.insert(id) {
                return Err(ToolError::Arguments(format!("several candidates have the id '{}'", shorten(id))));
            }
        }
        let mut lines = String::new();
        for candidate in &candidates {
            refuse_paths(texts(&candidate.config))?;
            lines.push_str(&serde_json::to_string(candidate).expect("plain data serialises"));
            lines.push('\n');
        }
        if candidates.len() + files.len() > MOST_CANDIDATES || lines.len() > LONGEST_CANDIDATES {
            return Err(too_large());
        }
        let mut options = self.selection.options(place, "record-database")?;
        if let Some(base) = &self.source_base {
            options.push(path_option("source-base", &folders.existing(base)?));
        }
        for folder in &self.include {
            options.push(path_option("source-flag", Path::new(&format!("-I{}", folders.existing(folder)?.display()))));
        }
        options.extend(self.all_instances.then(|| "--all-instances".into()));
        options.extend(self.timeout.map(|seconds| option("timeout", seconds)));
        options.extend(self.confirm_time.map(|seconds| option("confirm-time", seconds)));
        options.extend(self.counters.iter().map(|name| option("counters", name)));
        options.extend(self.device.map(Device::option));
        let results = place.results()?;
        options.push(path_option("results-dir", &results));
        if !lines.is_empty() {
            let path = results.join("candidates.jsonl");
            private::write(&path, lines).map_err(|source| ToolError::Unwritten { path: path.clone(), source })?;
            options.push(path_option("candidates", &path));
        }
        let mut step = place.step("evaluate", options);
        step.arguments.push("--".into());
        step.arguments.extend(files.into_iter().map(Into::into));
        // A line of a file or an id may be bad, and the other candidates have verdicts.
        step.accepts = |status, printed| status == 0 || (status == exit::BAD_USAGE && !printed.is_empty());
        let shown = folders.shown(&results);
        Ok(place.job(vec![step], move |printed| {
            let mut verdicts = lines_of(&printed[0])?;
            for verdict in &mut verdicts {
                // A path that other tools take.
                if let Some(code) = verdict["code"].as_str() {
                    verdict["code"] = format!("{shown}/{code}").into();
                }
            }
            Ok(json!({"verdicts": verdicts}))
        }))
    }
}

/// The objects of JSON lines.
fn lines_of(printed: &[u8]) -> Result<Vec<Value>, ToolError> {
    let lines = printed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse("evaluate", line)).collect()
}

/// All texts in a configuration.
fn texts(config: &Map<String, Value>) -> Vec<&str> {
    let mut waiting: Vec<&Value> = config.values().collect();
    let mut found = Vec::new();
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => found.push(&**text),
            Value::Array(values) => waiting.extend(values),
            Value::Object(values) => waiting.extend(values.values()),
            _ => {}
        }
    }
    found
}

/// The options for code in the kernel's place: IR or PTX, such as the code of a verdict.
fn code(place: &Place<'_>, path: Option<&str>) -> Result<Option<std::ffi::OsString>, ToolError> {
    let Some(path) = path else { return Ok(None) };
    let found = place.folders.existing(path)?;
    let name = match found.extension().and_then(std::ffi::OsStr::to_str) {
        Some("ll" | "bc") => "ir",
        Some("ptx") => "ptx",
        _ => return Err(ToolError::Arguments(format!("'{path}' is neither IR (.ll, .bc) nor PTX (.ptx)"))),
    };
    let found = regular::open(&found).map(|_| found);
    let found = found.map_err(|source| ToolError::Unread { path: path.to_owned(), source })?;
    Ok(Some(path_option(name, &found)))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Check {
    #[serde(flatten)]
    selection: Selection,
    /// IR or PTX file, such as a verdict's code
    code: Option<String>,
    device: Option<Device>,
}

impl Tool for Check {
    const NAME: &'static str = "check";
    const ABOUT: &'static str = "Finds accesses out of bounds, races, misaligned accesses and reads of uninitialised \
        memory, with source lines.";

    fn result() -> Value {
        json!({"required": ["has_faults"], "properties": {
            "has_faults": {"type": "boolean"},
            "faults": {"type": "object"},
        }})
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        let mut options = self.selection.options(place, "record-db")?;
        options.extend(["--check".into(), "--json".into()]);
        options.extend(code(place, self.code.as_deref())?);
        options.extend(self.device.map(Device::option));
        let mut step = place.step("replay", options);
        step.accepts = |status, _| status <= 1;
        Ok(place.job(vec![step], |printed| {
            let mut result = parse("replay", &printed[0])?["Result"].take();
            let has_faults = result["faults"]["findings"].as_array().is_some_and(|findings| !findings.is_empty());
            let (verified, faults) = (result["verified"].take(), result["faults"].take());
            Ok(json!({"has_faults": has_faults, "verified": verified, "faults": faults}))
        }))
    }
}

// The kind of failure to search for.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Failing {
    Wrong,
    Crash,
    Slow,
    Regs,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Bisect {
    #[serde(flatten)]
    selection: Selection,
    /// Failing LLVM pipeline; `default<O3>` if absent
    pipeline: Option<String>,
    /// Good pipeline; `default<O0>` if absent
    reference: Option<String>,
    failing: Option<Failing>,
    code: Option<String>,
    device: Option<Device>,
}

impl Tool for Bisect {
    const NAME: &'static str = "bisect";
    const ABOUT: &'static str = "Finds why a kernel is right under one pipeline and wrong (or slow) under another: \
        the pass, the back end, the assembler, or the kernel itself.";

    fn result() -> Value {
        let verdicts = json!(["good", "ir_pass", "back_end", "assembler", "kernel", "configuration", "unclear"]);
        let properties = json!({"verdict": {"enum": verdicts}, "summary": {"type": "string"}});
        json!({"required": ["verdict"], "properties": properties})
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        refuse_paths(self.pipeline.iter().chain(&self.reference).map(String::as_str))?;
        let mut options = self.selection.options(place, "record-db")?;
        options.push("--json".into());
        options.extend(self.reference.iter().map(|reference| option("reference", reference)));
        options.extend(self.failing.map(|failing| option("failing", json!(failing).as_str().unwrap_or_default())));
        options.extend(code(place, self.code.as_deref())?);
        options.extend(self.device.map(Device::option));
        options.push(path_option("output", &place.results()?));
        let mut step = place.step("bisect", options);
        if let Some(pipeline) = self.pipeline {
            step.arguments.extend(["--".into(), pipeline.into()]);
        }
        step.accepts = |status, _| status <= 5 || status == 125;
        Ok(place.job(vec![step], |printed| parse("bisect", &printed[0])))
    }
}
