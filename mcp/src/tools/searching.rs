//! The tools that search configurations, and those that show what a search has found.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tool::{Device, Place, Selection, Tool, option, parse, parse_file, path_option, refuse_paths};
use crate::error::ToolError;
use crate::jobs::Plan;

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Space {
    Quick,
    Standard,
    Launch,
    Compiler,
    Full,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Sampler {
    Auto,
    Exhaustive,
    Random,
    Passes,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Tune {
    #[serde(flatten)]
    selection: Selection,
    #[serde(default)]
    all_instances: bool,
    /// Configurations to search [default: standard]
    space: Option<Space>,
    sampler: Option<Sampler>,
    trials: Option<u32>,
    /// Seconds for the search
    timeout: Option<f64>,
    confirm_time: Option<f64>,
    seed: Option<u64>,
    /// Such as `default<O2>`
    #[serde(default)]
    passes: Vec<String>,
    device: Option<Device>,
}

/// The word for an option's value.
fn word(value: impl Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

/// The summary of a session, and its best configuration.
fn session(folder: &Path) -> Result<Value, ToolError> {
    let summary = parse_file("tune", &folder.join("summary.json"))?;
    // A session whose baseline failed has none.
    let best = parse_file("tune", &folder.join("best.json")).unwrap_or_default();
    Ok(json!({"summary": summary, "best": best}))
}

fn session_schema() -> Value {
    let status = json!({"required": ["status"], "properties": {"status": {"type": "string"}}});
    json!({"required": ["summary"], "properties": {"summary": status}})
}

impl Tool for Tune {
    const NAME: &'static str = "tune";
    const ABOUT: &'static str = "Searches launch shapes and pipelines, verifies each, and confirms the best. \
        The user applies it: mneme apply --tuned FOLDER -- APPLICATION.";

    fn result() -> Value {
        session_schema()
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        refuse_paths(self.passes.iter().map(String::as_str))?;
        let mut options = self.selection.options(place, "record-database")?;
        options.extend(self.all_instances.then(|| "--all-instances".into()));
        options.extend(self.space.map(|space| option("space-preset", word(space))));
        options.extend(self.sampler.map(|sampler| option("sampler", word(sampler))));
        options.extend(self.trials.map(|trials| option("trials", trials)));
        options.extend(self.timeout.map(|seconds| option("timeout", seconds)));
        options.extend(self.confirm_time.map(|seconds| option("confirm-time", seconds)));
        options.extend(self.seed.map(|seed| option("seed", seed)));
        options.extend(self.passes.iter().map(|passes| option("passes", passes)));
        options.extend(self.device.map(Device::option));
        let results = place.results()?;
        options.push(path_option("results-dir", &results));
        let mut step = place.step("tune", options);
        step.is_text = true;
        // A session without a winner has a summary, too.
        step.accepts = |status, _| [0, 1, 2, 6].contains(&status);
        Ok(place.job(vec![step], move |_| session(&results)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Compare {
    one: String,
    other: String,
}

impl Tool for Compare {
    const NAME: &'static str = "compare";
    const ABOUT: &'static str = "Compares two tuning sessions (folders): winners, times, parameters.";

    fn result() -> Value {
        json!({"required": ["rows"], "properties": {"rows": {"type": "array"}}})
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        let folders = [place.folders.tree(&self.one)?, place.folders.tree(&self.other)?];
        let mut options = vec!["compare".into(), "--json".into()];
        options.push(path_option("output", &place.results()?.join("comparison.html")));
        let mut step = place.step("tune", options);
        step.arguments.push("--".into());
        step.arguments.extend(folders.map(Into::into));
        Ok(place.job(vec![step], |printed| parse("tune compare", &printed[0])))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Report {
    /// Folder of a tuning session
    results: String,
}

impl Tool for Report {
    const NAME: &'static str = "report";
    const ABOUT: &'static str = "Writes the report of a tuning session (HTML) and its trials (CSV).";

    fn result() -> Value {
        session_schema()
    }

    fn plan(self, place: &Place<'_>) -> Result<Plan, ToolError> {
        let folder = place.folders.tree(&self.results)?;
        let results = place.results()?;
        let mut options = vec!["report".into()];
        options.push(path_option("output", &results.join("report.html")));
        options.push(path_option("csv", &results.join("trials.csv")));
        let mut step = place.step("tune", options);
        step.arguments.extend(["--".into(), folder.clone().into()]);
        step.is_text = true;
        Ok(place.job(vec![step], move |_| session(&folder)))
    }
}
