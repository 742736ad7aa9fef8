//! The choice of the kernels and instances that a command works on.

use std::path::{Path, PathBuf};

use clap::Args;
use mneme_core::recording::database::{InstanceRecord, KernelRecord, kernels};
use mneme_core::recording::manifest::is_manifest;
use mneme_core::recording::{Moments, RecordingError};
use mneme_core::text::closest;

use crate::error::CommandError;

/// A recording, and optionally one instance in it.
#[derive(Debug, Args)]
pub struct Selection {
    /// A folder with recordings, or the STATIC-HASH.json of one kernel
    #[arg(value_name = "RECORDING", required_unless_present = "record_database")]
    path: Option<PathBuf>,
    /// The same as RECORDING (also -rdb)
    #[arg(long = "record-database", aliases = ["record-db", "rdb"], value_name = "RECORDING", conflicts_with = "path")]
    record_database: Option<PathBuf>,
    /// One instance (dynamic hash) only (also -rid)
    #[arg(long = "record-id", alias = "rid", value_name = "ID")]
    pub record_id: Option<String>,
}

/// A kernel's file with what is in it.
#[derive(Debug)]
pub struct KernelFile {
    pub path: PathBuf,
    pub record: KernelRecord,
}

impl KernelFile {
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// The instances meant: the one named, or all.
    pub fn instances(&self, id: Option<&str>) -> Result<Vec<(&str, &InstanceRecord)>, RecordingError> {
        match id {
            Some(id) => self.record.instance(&self.path, Some(id)).map(|found| vec![found]),
            None => Ok(self.record.instances.iter().map(|(id, instance)| (id.as_str(), instance)).collect()),
        }
    }
}

impl KernelFile {
    /// Whether a recorded launch changed memory; `None` if that takes reading all memory, as it does in recordings of
    /// the existing Mneme.
    pub fn changes_memory(&self, instance: &InstanceRecord) -> Option<bool> {
        if !is_manifest(&self.folder().join(&instance.prologue)).ok()? {
            return None;
        }
        let moments = Moments::open(self.folder(), &self.record, instance).ok()?;
        Some(moments.prologue.chunks != moments.epilogue.chunks)
    }

    /// Tells which of the instances change no memory.
    pub fn warn_of_unchanged(&self, id: Option<&str>) -> Result<(), RecordingError> {
        for (id, instance) in self.instances(id)? {
            if self.changes_memory(instance) == Some(false) {
                mneme_core::remark!(
                    "mneme: instance {id} of {} changes no memory; what its replays show depends on the bytes that the kernel only writes",
                    self.record.demangled_name
                );
            }
        }
        Ok(())
    }
}

/// Where a file is.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// What a selection is about.
#[derive(Debug, Default)]
pub struct Selected {
    pub kernels: Vec<KernelFile>,
    /// Why other files of the folder cannot be read.
    damaged: Vec<RecordingError>,
}

impl Selected {
    /// Reports files that cannot be read, after everything has been done with those that can.
    pub fn complete(mut self) -> Result<(), CommandError> {
        let last = self.damaged.pop();
        warn(&self.damaged);
        last.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn warn(damaged: &[RecordingError]) {
    for error in damaged {
        mneme_core::remark!("mneme: {error}");
    }
}

impl Selection {
    pub fn new(path: PathBuf, record_id: Option<String>) -> Self {
        Self { path: Some(path), record_database: None, record_id }
    }

    /// The folder that the selection is in, or is.
    pub fn folder(&self) -> &Path {
        if self.path().is_dir() { self.path() } else { folder_of(self.path()) }
    }

    pub fn path(&self) -> &Path {
        self.path.as_deref().or(self.record_database.as_deref()).unwrap_or(Path::new("."))
    }

    /// The kernels meant. With an instance named and a folder given, the kernel that has the instance. One file of a
    /// folder that cannot be read does not stand in the way of the others.
    pub fn kernels(&self) -> Result<Selected, CommandError> {
        let path = self.path();
        if !path.is_dir() {
            return Ok(Selected { kernels: vec![load(path.into())?], damaged: vec![] });
        }
        let mut found = Selected::default();
        for file in kernels(path)? {
            match load(file) {
                Ok(kernel) => found.kernels.push(kernel),
                Err(error) => found.damaged.push(error),
            }
        }
        if let Some(id) = &self.record_id {
            let known = closest(id, found.kernels.iter().flat_map(|kernel| kernel.record.instances.keys()));
            found.kernels.retain(|kernel| kernel.record.instances.contains_key(id));
            if found.kernels.is_empty() {
                warn(&found.damaged);
                return Err(RecordingError::NoInstance { path: path.into(), instance: id.clone(), known }.into());
            }
            // The instance is there, whatever the other files are.
            found.damaged.clear();
        }
        Ok(found)
    }
}

fn load(path: PathBuf) -> Result<KernelFile, RecordingError> {
    let record = KernelRecord::load(&path)?;
    Ok(KernelFile { path, record })
}
