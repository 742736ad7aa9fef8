//! Reads files of tuned kernels for Proteus (`PROTEUS_TUNED_KERNELS`).
//!
//! The files name kernels and how to compile them. Code and launches come from a recording.

use std::path::Path;

use mneme_image::symbol::readable;
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use mneme_recording::RecordingError;
use mneme_recording::database::{self, InstanceRecord, KernelRecord};
use mneme_system::files::trust;
use serde::Deserialize;

use super::recording::TunedRecording;
use super::{AppliedWinner, ApplyError};

/// The fields that Proteus reads for a kernel.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Tuned {
    #[serde(default)]
    code_gen: Option<String>,
    #[serde(default)]
    launch_bounds: bool,
    #[serde(default)]
    specialize_dims: bool,
    #[serde(default)]
    specialize_dims_range: bool,
    #[serde(default)]
    opt_level: Option<u8>,
    #[serde(default)]
    pipeline: Option<String>,
    #[serde(default)]
    code_gen_opt_level: Option<u8>,
    #[serde(default)]
    tuned_max_threads: Option<u32>,
    #[serde(rename = "MinBlocksPerSM", default)]
    min_blocks_per_sm: u32,
    #[serde(default)]
    grid_dim: Option<Dim3>,
    #[serde(default)]
    block_dim: Option<Dim3>,
}

/// Finds the kernels of a file in a recording.
pub fn read(file: &Path, recordings: Option<&Path>) -> Result<Vec<AppliedWinner>, ApplyError> {
    let name = file.display();
    let text = trust::read(file).map_err(|source| ApplyError::Unread { path: file.into(), source })?;
    let tuned: std::collections::BTreeMap<String, Tuned> =
        serde_json::from_slice(&text).map_err(|source| ApplyError::NoTunedKernels { path: file.into(), source })?;
    let folder = recordings.ok_or_else(|| ApplyError::NoCode(file.into()))?;
    let recorded: Vec<(_, KernelRecord)> = database::kernels(folder)?
        .into_iter()
        .map(|path| Ok((path.clone(), KernelRecord::load_trusted(&path)?)))
        .collect::<Result<_, RecordingError>>()?;
    let mut found = Vec::new();
    for (kernel, tuned) in &tuned {
        if tuned.grid_dim.is_some() || tuned.block_dim.is_some() {
            mneme_system::remark!(
                "mneme: {name}: {kernel} keeps its dimensions; to change them, name the results folder of mneme tune"
            );
        }
        let of_name = recorded.iter().filter(|(_, record)| record.kernel_name == *kernel);
        let before = found.len();
        for (database, record) in of_name {
            found.extend(record.instances.iter().map(|(id, instance)| AppliedWinner {
                recording: TunedRecording::named(database.clone()),
                id: id.clone(),
                configuration: tuned.configuration(instance),
                architecture: None,
                rule: None,
                before: None,
                after: None,
                replay: Vec::new(),
                source: std::path::absolute(file).unwrap_or_else(|_| file.into()),
            }));
        }
        if found.len() == before {
            mneme_system::remark!(
                "mneme: {name}: {} has no recording of {}; it keeps its own code",
                folder.display(),
                readable(kernel)
            );
        }
    }
    Ok(found)
}

impl Tuned {
    /// The configuration for a recorded launch, whose dimensions stay.
    fn configuration(&self, instance: &InstanceRecord) -> Configuration {
        let recorded = instance.recorded_configuration();
        let by_level = || self.opt_level.map(|level| format!("default<O{level}>"));
        Configuration {
            passes: self.pipeline.clone().or_else(by_level).unwrap_or_else(|| recorded.passes.clone()),
            codegen_opt: self.code_gen_opt_level.unwrap_or(recorded.codegen_opt),
            codegen_method: self.code_gen.clone().unwrap_or_else(|| recorded.codegen_method.clone()),
            set_launch_bounds: self.launch_bounds,
            max_threads: self.tuned_max_threads.filter(|_| self.launch_bounds),
            min_blocks_per_sm: if self.launch_bounds { self.min_blocks_per_sm } else { 0 },
            specialize_dims: self.specialize_dims || self.specialize_dims_range,
            ..recorded
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tuner_writes_for_proteus_is_understood() {
        let text = r#"{"CodeGen": "serial", "LaunchBounds": true, "SpecializeDims": true, "SpecializeDimsRange": false, "OptLevel": 1,
            "Pipeline": "default<O1>", "CodeGenOptLevel": 2, "TunedMaxThreads": 128, "MinBlocksPerSM": 4,
            "GridDim": {"x": 9, "y": 1, "z": 1}, "BlockDim": {"x": 32, "y": 1, "z": 1}}"#;
        let tuned: Tuned = serde_json::from_str(text).unwrap();
        let instance = r#"{"Prologue": "p", "Epilogue": "e", "BlockDims": {"x": 64}, "GridDims": {"x": 3}, "SharedMem": 16,
            "Args": [], "Occurrences": 1}"#;
        let found = tuned.configuration(&serde_json::from_str(instance).unwrap());
        assert_eq!((found.block.x, found.grid.x, found.shared_mem), (64, 3, 16));
        assert_eq!((found.passes.as_str(), found.codegen_opt), ("default<O1>", 2));
        assert_eq!((found.max_threads, found.min_blocks_per_sm, found.specialize_dims), (Some(128), 4, true));
        assert!(serde_json::from_str::<Tuned>(r#"{"LaunchBound": true}"#).is_err());
        let error = |file: &str, text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(file), text).unwrap();
            read(&folder.path().join(file), None).err().unwrap()
        };
        assert!(matches!(error("a", "nonsense"), ApplyError::NoTunedKernels { .. }));
        assert!(matches!(error("b", r#"{"_Z1kv": {"OptLevel": 1}}"#), ApplyError::NoCode(_)));
    }
}
