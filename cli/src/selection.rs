//! Selects the kernels and instances for a command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use mneme_recording::choice;
use mneme_recording::database::{InstanceRecord, KernelRecord, kernels};
use mneme_recording::manifest::is_manifest;
use mneme_recording::poison::{self, PoisonMap};
use mneme_recording::{Moments, RecordingError, USUAL};

use crate::error::CommandError;

/// A recording, and optionally one kernel and one instance in it.
#[derive(Debug, Args)]
pub struct Selection {
    /// A folder with recordings, or the STATIC-HASH.json of one kernel [default: recording]
    #[arg(value_name = "RECORDING")]
    path: Option<PathBuf>,
    /// The same as RECORDING (also -rdb)
    #[arg(long = "record-database", aliases = ["record-db", "rdb"], value_name = "RECORDING", conflicts_with = "path")]
    record_database: Option<PathBuf>,
    /// Only kernels with this in their name, mangled or demangled
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Only this instance: its dynamic hash, or the beginning of it (also -rid)
    #[arg(long = "record-id", alias = "rid", value_name = "ID")]
    pub record_id: Option<String>,
}

/// A kernel's file with its content.
#[derive(Debug)]
pub struct KernelFile {
    pub path: PathBuf,
    pub record: KernelRecord,
}

impl KernelFile {
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// The selected instances: the named one, or all.
    pub fn instances(&self, id: Option<&str>) -> Result<Vec<(&str, &InstanceRecord)>, RecordingError> {
        match id {
            Some(id) => self.record.instance(&self.path, Some(id)).map(|found| vec![found]),
            None => Ok(self.record.instances.iter().map(|(id, instance)| (id.as_str(), instance)).collect()),
        }
    }
}

impl KernelFile {
    /// Whether a recorded launch changed memory; `None` if that requires reading all memory, as in recordings of the
    /// existing Mneme.
    pub fn changes_memory(&self, instance: &InstanceRecord) -> Option<bool> {
        if !is_manifest(&self.folder().join(&instance.prologue)).ok()? {
            return None;
        }
        let moments = Moments::open(self.folder(), &self.record, instance).ok()?;
        Some(moments.prologue.chunks != moments.epilogue.chunks)
    }

    /// The maps of bytes that the kernel only writes, by the kind of device that found them.
    pub fn poison_maps(&self, id: &str, instance: &InstanceRecord) -> BTreeMap<&'static str, PoisonMap> {
        let Ok(moments) = Moments::open(self.folder(), &self.record, instance) else { return BTreeMap::new() };
        let made_from = poison::identity(&moments.prologue, &moments.epilogue);
        let of = |device| Some((device, PoisonMap::load(&poison::path(&self.path, id, device), &made_from)?));
        poison::DEVICES.into_iter().filter_map(of).collect()
    }

    /// Warns of instances that change no memory.
    pub fn warn_of_unchanged(&self, id: Option<&str>) -> Result<(), RecordingError> {
        for (id, instance) in self.instances(id)? {
            if self.changes_memory(instance) == Some(false) {
                let maps = self.poison_maps(id, instance);
                let filled = maps.values().map(PoisonMap::filled).max();
                let what = match filled {
                    None => "how much its replays show depends on the bytes that the kernel only writes".to_owned(),
                    Some(0) => "its replays are proof only if they agree on fresh inputs".to_owned(),
                    Some(bytes) => format!("its replays fill the {bytes} bytes that the kernel only writes"),
                };
                mneme_system::remark!(
                    "mneme: instance {id} of {} changes no memory; {what}",
                    self.record.demangled_name
                );
            }
        }
        Ok(())
    }
}

/// The folder that contains a file.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The kernels of a selection.
#[derive(Debug, Default)]
pub struct Selected {
    pub kernels: Vec<KernelFile>,
    /// Errors of other files in the folder.
    damaged: Vec<RecordingError>,
}

impl Selected {
    /// Adds the kernels and errors of another selection.
    pub fn append(&mut self, mut other: Self) {
        self.kernels.append(&mut other.kernels);
        self.damaged.append(&mut other.damaged);
    }

    /// Reports files that cannot be read, after all others have been processed.
    pub fn complete(mut self) -> Result<(), CommandError> {
        let last = self.damaged.pop();
        warn(&self.damaged);
        last.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn warn(damaged: &[RecordingError]) {
    for error in damaged {
        mneme_system::remark!("mneme: {error}");
    }
}

impl Selection {
    pub fn new(path: PathBuf, record_id: Option<String>) -> Self {
        Self { path: Some(path), record_database: None, kernel: None, record_id }
    }

    /// The same selection, limited to kernels with this name.
    #[must_use]
    pub fn named(self, kernel: Option<String>) -> Self {
        Self { kernel, ..self }
    }

    /// Fails if the selection names nothing, for commands that change recordings.
    pub fn refuse_unnamed(&self) -> Result<(), CommandError> {
        match self.path.as_ref().or(self.record_database.as_ref()) {
            Some(_) => Ok(()),
            None => Err(CommandError::Usage("name the recording, a folder or the STATIC-HASH.json of a kernel".into())),
        }
    }

    /// Whether it selects the whole recording.
    pub fn is_whole(&self) -> bool {
        self.kernel.is_none() && self.record_id.is_none()
    }

    /// The folder of the selection.
    pub fn folder(&self) -> &Path {
        if self.path().is_dir() { self.path() } else { folder_of(self.path()) }
    }

    pub fn path(&self) -> &Path {
        self.path.as_deref().or(self.record_database.as_deref()).unwrap_or(Path::new(USUAL))
    }

    /// The only kernel that it selects.
    pub fn single(&self) -> Result<KernelFile, CommandError> {
        let path = choice::choose(self.path(), self.record_id.as_deref(), self.kernel.as_deref())?;
        Ok(load(path)?)
    }

    /// The selected kernels. With a folder and an instance or name, the kernels that have them. A file that cannot be
    /// read does not affect the others.
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
        if !self.is_whole() {
            self.narrow(&mut found)?;
        }
        Ok(found)
    }

    /// The selected kernels, for commands that need one.
    pub fn some_kernels(&self) -> Result<Selected, CommandError> {
        let found = self.kernels()?;
        if found.kernels.is_empty() && found.damaged.is_empty() {
            return Err(RecordingError::Empty { path: self.path().into() }.into());
        }
        Ok(found)
    }

    /// Keeps only the named kernels.
    fn narrow(&self, found: &mut Selected) -> Result<(), CommandError> {
        let (id, name) = (self.record_id.as_deref(), self.kernel.as_deref());
        let all: Vec<String> = found.kernels.iter().map(|kernel| kernel.record.demangled_name.clone()).collect();
        let ids: Vec<String> = found.kernels.iter().flat_map(|it| it.record.instances.keys().cloned()).collect();
        choice::narrow(&mut found.kernels, |kernel| &kernel.record, id, name);
        if found.kernels.is_empty() {
            warn(&found.damaged);
            return Err(choice::missing(self.path(), id, name, &all, &ids).into());
        }
        let is_whole_id = |kernel: &KernelFile| id.is_none_or(|id| kernel.record.instances.contains_key(id));
        if found.kernels.len() > 1 && !found.kernels.iter().all(is_whole_id) {
            return Err(RecordingError::Choice(format!(
                "instances of several kernels in {} begin with {}; pass more digits of the id",
                self.path().display(),
                id.unwrap_or_default()
            ))
            .into());
        }
        // The selected kernels were found, so damage to other files does not matter.
        found.damaged.clear();
        Ok(())
    }
}

fn load(path: PathBuf) -> Result<KernelFile, RecordingError> {
    let record = KernelRecord::load(&path)?;
    Ok(KernelFile { path, record })
}
