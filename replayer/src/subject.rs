//! What is replayed: one instance of one recorded kernel.

use std::path::{Path, PathBuf};

use mneme_core::configuration::Configuration;
use mneme_core::hash::checksum;
use mneme_core::launch::LaunchAttributes;
use mneme_core::recording::RecordingError;
use mneme_core::recording::database::{Instance, KernelRecord};
use mneme_core::recording::manifest::State;

/// A recorded launch, read but for the contents of memory.
pub struct Subject {
    /// The folder of the recording.
    pub folder: PathBuf,
    /// Its `<static-hash>.json`.
    pub database: PathBuf,
    pub kernel: KernelRecord,
    pub instance: Instance,
    pub prologue: State,
    pub epilogue: State,
}

impl Subject {
    /// Reads the database and the manifests of instance `id`, or of the only one.
    pub fn open(database: &Path, id: Option<&str>) -> Result<Self, RecordingError> {
        let kernel = KernelRecord::load(database)?;
        let instance = kernel.instance(database, id)?.1.clone();
        let folder = match database.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let prologue = State::load(&folder.join(&instance.prologue))?;
        let epilogue = State::load(&folder.join(&instance.epilogue))?;
        Ok(Self { folder, database: database.to_path_buf(), kernel, instance, prologue, epilogue })
    }

    /// The bitcode of the kernel's closure, its own unit first.
    pub fn modules(&self) -> Result<Vec<Vec<u8>>, RecordingError> {
        if self.kernel.modules.is_empty() {
            let what = "it holds no LLVM IR of the kernel; build the program with mneme-cc".into();
            return Err(RecordingError::Damaged { path: self.database.clone(), what });
        }
        let sums = &self.kernel.ours.module_checksums;
        let read = |(index, name): (usize, &String)| {
            let path = self.folder.join(name);
            let bitcode = std::fs::read(&path).map_err(|source| RecordingError::Io { path: path.clone(), source })?;
            match sums.get(index) {
                Some(sum) if *sum != checksum(&bitcode) => {
                    Err(RecordingError::Damaged { path, what: "its checksum does not match".into() })
                }
                _ => Ok(bitcode),
            }
        };
        self.kernel.modules.iter().enumerate().map(read).collect()
    }

    /// The recorded launch under the default compilation.
    pub fn recorded_configuration(&self) -> Configuration {
        Configuration::recorded(self.instance.grid_dims, self.instance.block_dims, self.instance.shared_mem)
    }

    pub fn attributes(&self) -> LaunchAttributes {
        self.instance.ours.attributes
    }

    /// Whether the recording was made on the CPU device.
    pub fn recorded_on_cpu(&self) -> bool {
        self.kernel.ours.device_arch == "cpu"
    }
}
