//! The best configuration in Proteus's format.

use mneme_model::configuration::Configuration;
use serde_json::{Map, Value, json};

/// The file for Proteus in the results folder.
pub const FILE: &str = "proteus_tuned_kernels.json";

/// The fields of a configuration that the file has settings for, or that Proteus does anyway.
const EXPRESSED: [&str; 8] = [
    "passes", "codegen_opt", "codegen_method", "set_launch_bounds", "max_threads", "min_blocks_per_sm",
    "specialize_dims", "internalize",
];

/// The fields by which the best configuration compiles other code than the recorded one, and that Proteus cannot be told.
pub fn lost(best: &Configuration, recorded: Option<&Configuration>) -> Vec<&'static str> {
    let default = Configuration::default();
    let changed = best.differences(recorded.unwrap_or(&default));
    let is_lost = |name: &&str| !EXPRESSED.contains(name);
    changed.filter(|field| field.effect.changes_code()).map(|field| field.name).filter(is_lost).collect()
}

/// The file beside it that tells people how to use it.
pub const USAGE: &str = "proteus_usage.txt";

/// The content of `proteus_tuned_kernels.json`, which Proteus reads through `PROTEUS_TUNED_KERNELS`.
///
/// Proteus launches every call with the dimensions of the file, so they are left out if they are `recorded`, and without
/// a recorded configuration.
pub fn proteus_tuned_kernels(kernel: &str, best: &Configuration, recorded: Option<&Configuration>) -> Value {
    // Proteus numbers the levels 0 to 3. It ignores the level for other pipelines.
    let level = best
        .passes
        .strip_prefix("default<O")
        .and_then(|rest| rest.strip_suffix('>'))
        .and_then(|level| level.parse().ok())
        .unwrap_or(2u8);
    let threads = best.max_threads.filter(|_| best.set_launch_bounds).map_or(best.block.count(), u64::from);
    let mut tuned = json!({
        "CodeGen": best.codegen_method,
        "LaunchBounds": best.set_launch_bounds,
        "SpecializeDims": best.specialize_dims,
        "SpecializeDimsRange": false,
        "OptLevel": level,
        "Pipeline": best.passes,
        "CodeGenOptLevel": best.codegen_opt,
        "TunedMaxThreads": threads,
        "MinBlocksPerSM": best.min_blocks_per_sm,
    });
    if recorded.is_some_and(|it| (it.grid, it.block) != (best.grid, best.block)) {
        tuned["GridDim"] = json!(best.grid);
        tuned["BlockDim"] = json!(best.block);
    }
    Value::Object(std::iter::once((kernel.to_owned(), tuned)).collect())
}

/// The entries of several kernels in one file.
pub fn merged(files: impl IntoIterator<Item = Value>) -> Value {
    let entries = files.into_iter().filter_map(|file| match file {
        Value::Object(entries) => Some(entries),
        _ => None,
    });
    Value::Object(entries.flatten().collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    #[test]
    fn another_launch_is_told() {
        let recorded = Configuration::recorded(Dim3::new(4, 1, 1), Dim3::new(128, 1, 1), 0);
        let best = Configuration { grid: Dim3::new(8, 1, 1), block: Dim3::new(64, 1, 1), ..recorded.clone() };
        let tuned = &proteus_tuned_kernels("_Z1kv", &best, Some(&recorded))["_Z1kv"];
        assert_eq!((&tuned["GridDim"]["x"], &tuned["BlockDim"]), (&json!(8), &json!({"x": 64, "y": 1, "z": 1})));
        assert!(proteus_tuned_kernels("_Z1kv", &best, None)["_Z1kv"].get("GridDim").is_none());
    }

    #[test]
    fn proteus_gets_its_keys() {
        let configuration = Configuration {
            passes: "default<O1>".into(),
            ..Configuration::recorded(Dim3::new(4, 1, 1), Dim3::new(128, 1, 1), 0)
        };
        let value = proteus_tuned_kernels("_Z1kv", &configuration, Some(&configuration));
        let tuned = &value["_Z1kv"];
        assert_eq!((&tuned["OptLevel"], &tuned["Pipeline"]), (&json!(1), &json!("default<O1>")));
        assert_eq!((&tuned["TunedMaxThreads"], &tuned["LaunchBounds"]), (&json!(128), &json!(false)));
        assert_eq!(tuned.as_object().unwrap().len(), 9);
        let both = merged([value, proteus_tuned_kernels("_Z1lv", &configuration, None)]);
        assert_eq!(both.as_object().unwrap().keys().collect::<Vec<_>>(), ["_Z1kv", "_Z1lv"]);
    }
}
