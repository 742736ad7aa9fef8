//! Checksums of a kernel's recording: its code, its launches, and the rules beside it.
//!
//! Results belong to a recording only if all of these match. A kernel's hash does not identify a recording: the same
//! code may run on other memory, under other rules, and a recording's author chooses the hashes in it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use mneme_model::hash::checksum;
use mneme_system::files::regular;
use serde::{Deserialize, Serialize};

use super::database::KernelRecord;
use super::rules::Rules;
use crate::error::RecordingError;

/// A sum is 16 hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingSums {
    /// The sum of the kernel's record without its instances, and of all its modules.
    pub code: String,
    /// By dynamic hash: the sums of the launch and of both manifests, which name all memory and contain the
    /// application's own tolerances.
    pub instances: BTreeMap<String, String>,
    /// The sum of the rules beside the recording.
    pub tolerances: String,
}

impl RecordingSums {
    /// Computes the sums of a recording and of the rules beside it.
    ///
    /// # Errors
    /// An existing file cannot be read, or the record lacks an instance.
    pub fn of(database: &Path, record: &KernelRecord, ids: &[String]) -> Result<Self, RecordingError> {
        let folder = database.parent().unwrap_or(Path::new(""));
        let mut kernel = KernelRecord { instances: BTreeMap::new(), ..record.clone() };
        kernel.ours.checksum.clear();
        let mut code = vec![checksum(&json(&kernel))];
        for file in record.modules.iter().chain(&record.binary_blobs) {
            code.push(of_file(&folder.join(file))?);
        }
        let instance = |id: &String| {
            let mut instance = record.instance(database, Some(id))?.1.clone();
            // Ignore when and how often the launch happened.
            (instance.occurrences, instance.ours.recorded_at, instance.ours.gpu_time) = (0, 0, None);
            let manifests = (of_file(&folder.join(&instance.prologue))?, of_file(&folder.join(&instance.epilogue))?);
            Ok((id.clone(), all(&[checksum(&json(&instance)), manifests.0, manifests.1])))
        };
        Ok(Self {
            code: all(&code),
            instances: ids.iter().map(instance).collect::<Result<_, RecordingError>>()?,
            tolerances: all(&[checksum(&json(&Rules::load(database)?))]),
        })
    }

    /// The first difference from another recording; `None` if results are comparable.
    pub fn other_recording(&self, now: &Self) -> Option<&'static str> {
        if self.code != now.code {
            return Some("the kernel's code");
        }
        if self.instances != now.instances {
            return Some("the recorded launch or its memory");
        }
        (self.tolerances != now.tolerances).then_some("the file of tolerances beside it")
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data serialises")
}

fn all(sums: &[u64]) -> String {
    let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    format!("{:016x}", checksum(&bytes))
}

/// The sum of a file's contents. A missing file, without which a replay fails anyway, has a sum, too.
fn of_file(path: &Path) -> Result<u64, RecordingError> {
    let unreadable = |source| RecordingError::Io { path: path.into(), source };
    let mut file = match regular::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        file => file.map_err(unreadable)?,
    };
    // Memory recorded by the existing Mneme may be larger than this machine's.
    let (mut sums, mut block) = (Vec::new(), Vec::new());
    loop {
        block.clear();
        if Read::by_ref(&mut file).take(1 << 20).read_to_end(&mut block).map_err(unreadable)? == 0 {
            return Ok(checksum(&sums));
        }
        sums.extend(checksum(&block).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_results_depend_on_changes_a_sum() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let instance = serde_json::json!({
            "Prologue": "p", "Epilogue": "e", "BlockDims": {"x": 4, "y": 1, "z": 1}, "GridDims": {"x": 6, "y": 1, "z": 1},
            "SharedMem": 0, "Args": [7], "Occurrences": 3
        });
        let record = serde_json::json!({
            "StaticHash": 5, "VAddr": "0x0", "VASize": 0, "KernelName": "k", "DemangledName": "k()", "Modules": ["m.bc"],
            "BinaryBlobs": [], "ArgNames": [], "Specializations": [], "instances": {"1": instance, "2": instance}
        });
        let record: KernelRecord = serde_json::from_value(record).unwrap();
        for name in ["p", "e", "m.bc"] {
            std::fs::write(path(name), name).unwrap();
        }
        let of = |record: &KernelRecord| RecordingSums::of(&path("5.json"), record, &["1".into()]).unwrap();
        let before = of(&record);
        assert_eq!(before.other_recording(&of(&record)), None);
        assert!(RecordingSums::of(&path("5.json"), &record, &["3".into()]).is_err(), "no such instance");
        let mut again = record.clone();
        let seen = again.instances.get_mut("1").unwrap();
        (seen.occurrences, seen.ours.recorded_at) = (9, 77);
        again.instances.remove("2");
        assert_eq!(before.other_recording(&of(&again)), None, "launched more often, beside other instances");
        again.instances.get_mut("1").unwrap().args = vec![8];
        assert_eq!(before.other_recording(&of(&again)), Some("the recorded launch or its memory"));
        for (name, expected) in [
            ("p", "the recorded launch or its memory"),
            ("e", "the recorded launch or its memory"),
            ("m.bc", "the kernel's code"),
        ] {
            std::fs::write(path(name), "other").unwrap();
            assert_eq!(before.other_recording(&of(&record)), Some(expected), "{name}");
            std::fs::write(path(name), name).unwrap();
        }
        let rules = r#"{"version": 1, "rules": []}"#;
        std::fs::write(path("5.tolerances.json"), rules).unwrap();
        assert_eq!(before.other_recording(&of(&record)), None, "no rules are no rules");
        assert!(std::fs::remove_file(path("e")).is_ok() && before.other_recording(&of(&record)).is_some());
    }
}
