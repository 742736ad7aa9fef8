//! The instances of one kernel that other processes have written to the recording folder.

use std::collections::HashSet;
use std::path::Path;

use mneme_model::launch::Moment;
use mneme_recording::database::KernelRecord;

/// Instances of one kernel, by dynamic hash. The database lists thousands, so it is read only if it may contain a new
/// one, not for each launch.
#[derive(Default)]
pub struct KnownInstances {
    read: Option<HashSet<u64>>,
}

/// The name of a manifest of an instance that replaces an earlier one.
pub fn further_manifest(moment: Moment, static_hash: u64, dynamic_hash: u64) -> String {
    manifest(moment, static_hash, dynamic_hash).replace(".mneme", ".further.mneme")
}

/// The name of a manifest.
pub fn manifest(moment: Moment, static_hash: u64, dynamic_hash: u64) -> String {
    let moment = match moment {
        Moment::Prologue => "prologue",
        Moment::Epilogue => "epilogue",
    };
    format!("DeviceState.{moment}.{static_hash}.{dynamic_hash}.mneme")
}

impl KnownInstances {
    /// Whether the folder has an instance.
    pub fn contains(&mut self, folder: &Path, static_hash: u64, dynamic_hash: u64) -> bool {
        let read = || {
            let record = KernelRecord::load(&folder.join(format!("{static_hash}.json")));
            let names = record.map(|record| record.instances).unwrap_or_default();
            names.into_keys().filter_map(|name| name.parse().ok()).collect::<HashSet<u64>>()
        };
        let known = self.read.get_or_insert_with(read);
        // Another process has added it since, or was killed before it could; only the database tells.
        if !known.contains(&dynamic_hash) && folder.join(manifest(Moment::Prologue, static_hash, dynamic_hash)).exists()
        {
            *known = read();
        }
        known.contains(&dynamic_hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;
    use mneme_recording::database::{InstanceDetails, InstanceRecord, KernelDetails, add_instance};

    fn kernel() -> KernelRecord {
        KernelRecord {
            static_hash: 42,
            arena_address: String::new(),
            arena_size: 0,
            kernel_name: "k".into(),
            demangled_name: "k".into(),
            modules: vec![],
            binary_blobs: vec![],
            arg_names: vec![],
            specializations: vec![],
            instances: Default::default(),
            ours: KernelDetails::default(),
        }
    }

    fn add(folder: &Path, dynamic_hash: u64) {
        let [prologue, epilogue] =
            [Moment::Prologue, Moment::Epilogue].map(|moment| manifest(moment, 42, dynamic_hash));
        std::fs::write(folder.join(&prologue), "state").unwrap();
        let instance = InstanceRecord {
            prologue,
            epilogue,
            block_dims: Dim3::default(),
            grid_dims: Dim3::default(),
            shared_mem: 0,
            args: vec![],
            occurrences: 1,
            ours: InstanceDetails::default(),
        };
        add_instance(folder, &kernel(), &dynamic_hash.to_string(), instance).unwrap();
    }

    #[test]
    fn what_others_add_is_known_and_what_nothing_names_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut known = KnownInstances::default();
        let mut contains = |hash| known.contains(folder.path(), 42, hash);
        assert!(!contains(7), "nothing is there");
        add(folder.path(), 7);
        assert!(contains(7) && !contains(8));
        add(folder.path(), 8);
        assert!(contains(8));
        std::fs::write(folder.path().join(manifest(Moment::Prologue, 42, 9)), "left by one that was killed").unwrap();
        assert!(!contains(9) && contains(7));
    }
}
