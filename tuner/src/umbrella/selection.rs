//! Which recorded kernels and instances a command is about.

use std::path::{Path, PathBuf};

use clap::Args;
use mneme_core::recording::RecordingError;
use mneme_core::recording::database::{Instance, KernelRecord, kernels};

use super::Error;

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
pub struct Kernel {
    pub path: PathBuf,
    pub record: KernelRecord,
}

impl Kernel {
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// The instances meant: the one named, or all.
    pub fn instances(&self, id: Option<&str>) -> Result<Vec<(&str, &Instance)>, RecordingError> {
        match id {
            Some(id) => self.record.instance(&self.path, Some(id)).map(|found| vec![found]),
            None => Ok(self.record.instances.iter().map(|(id, instance)| (id.as_str(), instance)).collect()),
        }
    }
}

impl Selection {
    pub fn new(path: PathBuf, record_id: Option<String>) -> Self {
        Self { path: Some(path), record_database: None, record_id }
    }

    pub fn path(&self) -> &Path {
        self.path.as_deref().or(self.record_database.as_deref()).unwrap_or(Path::new("."))
    }

    /// The kernels meant. With an instance named and a folder given, the kernel that has the instance.
    pub fn kernels(&self) -> Result<Vec<Kernel>, Error> {
        let path = self.path();
        if !path.is_dir() {
            return Ok(vec![load(path.into())?]);
        }
        let mut found = kernels(path)?.into_iter().map(load).collect::<Result<Vec<_>, _>>()?;
        if let Some(id) = &self.record_id {
            let known = found.iter().flat_map(|kernel| kernel.record.instances.keys().cloned()).collect::<Vec<_>>().join(", ");
            found.retain(|kernel| kernel.record.instances.contains_key(id));
            if found.is_empty() {
                return Err(RecordingError::NoInstance { path: path.into(), instance: id.clone(), known }.into());
            }
        }
        Ok(found)
    }
}

fn load(path: PathBuf) -> Result<Kernel, RecordingError> {
    let record = KernelRecord::load(&path)?;
    Ok(Kernel { path, record })
}
