//! The recorded instance of a replay.

use std::path::{Path, PathBuf};

use mneme_builds::RecordedKernel;
use mneme_builds::builders::Builders;
use mneme_model::configuration::Configuration;
use mneme_model::hash::checksum;
use mneme_model::launch::LaunchAttributes;
use mneme_recording::database::{ArgumentLayout, InstanceRecord, KernelRecord};
use mneme_recording::store::Store;
use mneme_recording::{CodeKind, Moments, RecordingError};

use crate::recording::interface;

/// A recorded launch, without the contents of memory.
pub struct RecordedInstance {
    /// The folder of the recording.
    pub folder: PathBuf,
    /// Its `<static-hash>.json`.
    pub database: PathBuf,
    pub kernel: KernelRecord,
    pub instance: InstanceRecord,
    pub moments: Moments,
}

impl RecordedInstance {
    /// Reads the database and the manifests of instance `id`, or of the only one. For a recording of the existing Mneme
    /// also reads all memory, and lets one of `builders` read the IR. The caller must have only one thread.
    pub fn open(database: &Path, id: Option<&str>, builders: &Builders) -> Result<Self, RecordingError> {
        let kernel = KernelRecord::load_trusted(database)?;
        let instance = kernel.instance(database, id)?.1.clone();
        let folder = match database.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let moments = Moments::open(&folder, &kernel, &instance)?;
        let mut recorded = Self { folder, database: database.to_path_buf(), kernel, instance, moments };
        if recorded.moments.are_upstreams() {
            recorded.ask_the_ir(builders)?;
        }
        Ok(recorded)
    }

    /// Completes a recording of the existing Mneme from its IR.
    fn ask_the_ir(&mut self, builders: &Builders) -> Result<(), RecordingError> {
        let header = &self.moments.prologue.header;
        let is_complete = !self.kernel.ours.arguments.is_empty() || header.arguments.is_empty();
        let is_ir = self.kernel.modules.first().is_some_and(|name| CodeKind::of(name) == CodeKind::Bitcode);
        if !is_ir || (is_complete && header.variables.is_empty()) {
            return Ok(());
        }
        let module = self.folder.join(&self.kernel.modules[0]);
        let found = interface::read(builders, &self.modules()?, &self.kernel.kernel_name)
            .map_err(|error| RecordingError::damaged(module, error))?;
        let header = &mut self.moments.prologue.header;
        for variable in &mut header.variables {
            variable.constant = found.constants.contains(&variable.name);
        }
        let ours = &mut self.kernel.ours;
        if ours.arguments.is_empty() {
            let layout = |it: &mneme_image::ir_section::IrArgument| ArgumentLayout {
                offset: it.offset,
                size: it.size,
                kind: it.kind.clone(),
            };
            ours.arguments = found.arguments.iter().map(layout).collect();
            let prologue = self.folder.join(&self.instance.prologue);
            let placed = self.moments.place_arguments(&ours.arguments);
            placed.map_err(|misfit| RecordingError::damaged(prologue, misfit))?;
        }
        if ours.ir_arch.is_empty() {
            ours.ir_arch = found.arch;
            ours.triple = found.triple;
        }
        Ok(())
    }

    /// The chunks of the recording.
    pub fn store(&self) -> Result<Store, RecordingError> {
        self.moments.store(&self.folder)
    }

    /// The bitcode of the kernel's closure, its own unit first.
    pub fn modules(&self) -> Result<Vec<Vec<u8>>, RecordingError> {
        if self.kernel.modules.is_empty() {
            let what = "it has no LLVM IR of the kernel; build the program with mneme-cc".into();
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

    /// The parts that builds need.
    pub fn for_builds(&self) -> RecordedKernel {
        let header = &self.moments.prologue.header;
        RecordedKernel {
            folder: self.folder.clone(),
            name: self.kernel.kernel_name.clone(),
            arguments: header.arguments.clone(),
            variables: header.variables.clone(),
            allocations: header.allocations.clone(),
            launches: self.kernel.instances.values().map(|instance| instance.args.clone()).collect(),
            signature: self.kernel.ours.arguments.clone(),
            compiled: self.instance.ours.compiled.clone(),
            original: self.instance.ours.original.clone(),
        }
    }

    /// The configuration of the recorded launch, compiled as the application's code was, if that is known.
    pub fn recorded_configuration(&self) -> Configuration {
        self.instance.recorded_configuration()
    }

    /// The instance's dynamic hash.
    pub fn id(&self) -> &str {
        let own = |(_, instance): &(&String, &InstanceRecord)| instance.prologue == self.instance.prologue;
        self.kernel.instances.iter().find(own).map_or("", |(id, _)| id)
    }

    pub fn attributes(&self) -> LaunchAttributes {
        self.instance.ours.attributes
    }

    /// Whether the recording was made on the CPU device.
    pub fn recorded_on_cpu(&self) -> bool {
        self.kernel.ours.device_arch == "cpu"
    }
}
