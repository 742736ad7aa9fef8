//! The tools: their descriptions for clients, and the jobs that they start.

mod judging;
mod recording;
mod searching;
mod source_place;
mod tool;

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, ToolAnnotations};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use self::tool::{Effect, Place, Tool};
use crate::error::ToolError;
use crate::folders::Folders;
use crate::jobs::Plan;

/// A tool that starts a job.
pub struct Entry {
    pub name: &'static str,
    /// Its description for clients.
    pub described: rmcp::model::Tool,
    plan: fn(JsonObject, &Place<'_>) -> Result<Plan, ToolError>,
}

impl Entry {
    fn of<T: Tool>() -> Self {
        let (reads, runs) = (T::EFFECT == Effect::Reads, T::EFFECT == Effect::Runs);
        // Hints that are left out are the worst case.
        let mut annotations = ToolAnnotations::new().read_only(reads);
        if !runs {
            annotations = annotations.destructive(false).open_world(false);
        }
        let described = rmcp::model::Tool::new(T::NAME, T::ABOUT, input_schema::<T>())
            .with_raw_output_schema(Arc::new(output_schema(T::result())))
            .with_annotations(annotations);
        let plan = |arguments: JsonObject, place: &Place<'_>| {
            let arguments = serde_json::from_value::<T>(Value::Object(arguments));
            arguments.map_err(|error| ToolError::Arguments(error.to_string()))?.plan(place)
        };
        Self { name: T::NAME, described, plan }
    }

    /// The job for these arguments.
    pub fn plan(&self, arguments: JsonObject, folders: &Folders) -> Result<Plan, ToolError> {
        check_names(&self.described.input_schema, &arguments)?;
        let place = Place::new(folders, self.name);
        (self.plan)(arguments, &place).inspect_err(|_| place.clear())
    }
}

/// Fails if the schema has no such argument.
pub fn check_names(schema: &JsonObject, arguments: &JsonObject) -> Result<(), ToolError> {
    let known = schema.get("properties").and_then(Value::as_object);
    match arguments.keys().find(|name| !known.is_some_and(|known| known.contains_key(*name))) {
        Some(name) => {
            Err(ToolError::Arguments(format!("there is no argument '{}'", name.chars().take(100).collect::<String>())))
        }
        None => Ok(()),
    }
}

pub static ENTRIES: LazyLock<[Entry; 10]> = LazyLock::new(|| {
    [
        Entry::of::<recording::Record>(),
        Entry::of::<recording::Profile>(),
        Entry::of::<recording::ListKernels>(),
        Entry::of::<recording::ShowKernel>(),
        Entry::of::<judging::Evaluate>(),
        Entry::of::<judging::Check>(),
        Entry::of::<judging::Bisect>(),
        Entry::of::<searching::Tune>(),
        Entry::of::<searching::Compare>(),
        Entry::of::<searching::Report>(),
    ]
});

/// The tool that waits for jobs, lists and cancels them.
pub const JOB: &str = "job";

/// The description of [`JOB`].
pub static JOB_TOOL: LazyLock<rmcp::model::Tool> = LazyLock::new(|| {
    let about = "Polls a job of a tool (up to wait seconds), cancels it, or lists all jobs.";
    let input = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["action"],
        "properties": {
            "action": {"type": "string", "enum": ["poll", "cancel", "list"]},
            "job": {"type": "string"},
            "wait": {"type": "number", "maximum": 600, "description": "Seconds to wait [default: 30]"},
        },
    });
    let mut output = output_schema(json!({}));
    // A list of jobs has no state.
    output.remove("required");
    if let Some(properties) = output.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("jobs".to_owned(), json!({"type": "array"}));
    }
    let annotations = ToolAnnotations::new().read_only(false).destructive(false).idempotent(true).open_world(false);
    rmcp::model::Tool::new(JOB, about, object(input))
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(annotations)
});

fn object(value: Value) -> JsonObject {
    if let Value::Object(object) = value { object } else { JsonObject::new() }
}

/// The schema of a tool's arguments, as short as it can be: clients give it to models.
fn input_schema<T: Tool>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    shorten(&mut schema);
    schema["additionalProperties"] = false.into();
    schema["properties"]["wait"] = json!({"type": "number"});
    object(schema)
}

/// Removes titles, formats, defaults that say nothing, and the alternative `null` of values that may be left out.
fn shorten(schema: &mut Value) {
    match schema {
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(fields) => {
            for name in ["title", "format", "$schema"] {
                fields.remove(name);
            }
            if fields
                .get("default")
                .is_some_and(|it| it.is_null() || *it == json!([]) || *it == json!({}) || *it == false)
            {
                fields.remove("default");
            }
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = &types[..] {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(values)) = fields.get_mut("enum") {
                values.retain(|value| !value.is_null());
                fields.remove("type");
            }
            if fields.get("minimum").is_some_and(|least| *least == 0) {
                fields.remove("minimum");
            }
            if let Some(Value::Array(mut choices)) = fields.remove("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                match <[Value; 1]>::try_from(choices) {
                    Ok([only]) => object(only).into_iter().for_each(|(name, value)| {
                        fields.entry(name).or_insert(value);
                    }),
                    Err(choices) => drop(fields.insert("anyOf".to_owned(), choices.into())),
                }
            }
            fields.values_mut().for_each(shorten);
        }
        _ => {}
    }
}

/// The schema of an answer with this result.
fn output_schema(result: Value) -> JsonObject {
    object(json!({
        "type": "object",
        "required": ["state"],
        "properties": {
            "state": {"enum": ["running", "done", "cancelled", "failed"]},
            "result": result,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients put the list into every prompt.
    #[test]
    fn the_list_of_tools_is_short() {
        let mut tools: Vec<_> = ENTRIES.iter().map(|entry| &entry.described).collect();
        tools.push(&JOB_TOOL);
        assert!(tools.len() <= 12);
        let text = serde_json::to_string(&tools).unwrap();
        // The answer has a few fields around the list.
        assert!(text.len() < 9_800, "{} bytes: {text}", text.len());
        for tool in tools {
            let input = Value::Object(tool.input_schema.as_ref().clone());
            assert_eq!((&input["type"], &input["additionalProperties"]), (&json!("object"), &json!(false)));
            assert!(tool.output_schema.is_some() && tool.annotations.as_ref().unwrap().read_only_hint.is_some());
            assert!(!input.to_string().contains("null"), "{input}");
        }
    }

    #[test]
    fn arguments_are_strict() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("recording")).unwrap();
        let folders = Folders::new(&[folder.path().into()], &[]).unwrap();
        for (name, text) in [
            ("lines.jsonl", "{\"id\": \"8\"}\n\n{\"id\": 9}\n".to_owned()),
            ("file.json", r#"{"passes": "memprof-use<profile-filename=/etc/passwd>"}"#.to_owned()),
            ("bad.jsonl", "{\"id\": 1}\n{\"id\"".to_owned()),
            ("many.jsonl", (0..101).map(|id| format!("{{\"id\": {id}}}\n")).collect()),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let plan = |tool: &str, arguments: Value| {
            let entry = ENTRIES.iter().find(|entry| entry.name == tool).unwrap();
            entry.plan(object(arguments), &folders).map(|plan| plan.steps.len())
        };
        assert_eq!(plan("show_kernel", json!({"code": true})).unwrap(), 3);
        assert_eq!(plan("tune", json!({"space": "quick", "sampler": "random", "seed": 7})).unwrap(), 1);
        for (tool, arguments) in [
            ("tune", json!({"space": "huge"})),
            ("tune", json!({"trials": -1})),
            ("tune", json!({"trials": "many"})),
            ("tune", json!({"passes": ["x</etc/passwd>"]})),
            ("tune", json!({"results_dir": "x"})),
            ("check", json!({"device": "tpu"})),
            ("check", json!({"code": "recording"})),
            ("evaluate", json!({})),
            ("evaluate", json!({"candidates": [{"id": "a", "sauce": "x"}]})),
            ("evaluate", json!({"candidates": [{"id": "a", "config": {"llvm_options": ["-load=/tmp/a.so"]}}]})),
            ("evaluate", json!({"candidates": [{"id": "a"}, {"id": "a"}]})),
            ("evaluate", json!({"candidates": [{"id": "9"}], "files": ["lines.jsonl"]})),
            ("evaluate", json!({"files": ["file.json"]})),
            ("evaluate", json!({"files": ["bad.jsonl"]})),
            ("record", json!({"application": []})),
            ("record", json!({})),
        ] {
            assert!(matches!(plan(tool, arguments.clone()), Err(ToolError::Arguments(_))), "{tool} {arguments}");
        }
        assert_eq!(plan("evaluate", json!({"files": ["lines.jsonl"]})).unwrap(), 1);
        let many = json!({"files": ["many.jsonl"]});
        assert!(matches!(plan("evaluate", many), Err(ToolError::TooLarge { .. })));
        let large = json!({"candidates": [{"id": "a", "source": "x".repeat(3 << 20)}]});
        assert!(matches!(plan("evaluate", large), Err(ToolError::TooLarge { .. })));
        // Calls that fail leave no folder.
        let left: Vec<_> =
            folder.path().join("mneme-mcp").read_dir().unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left.len(), 3, "{left:?}");
    }
}
