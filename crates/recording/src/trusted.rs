//! Checks that only the user and root can change a recorded kernel, because a replay runs its code.

use std::io;
use std::path::Path;

use mneme_system::files::trust::{self, Folder};

use super::database::{InstanceRecord, KernelRecord};
use super::rules::Rules;
use super::store;
use crate::error::RecordingError;

impl KernelRecord {
    /// Reads a kernel's file like [`KernelRecord::load`], for running its code: the folder, the file, and all files of
    /// the kernel's instances must be trusted. Missing files are not errors here; reading them fails later.
    ///
    /// # Errors
    /// Those of [`KernelRecord::load`]; [`RecordingError::Stranger`].
    pub fn load_trusted(path: &Path) -> Result<Self, RecordingError> {
        let record = Self::load(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match check(folder, path, &record) {
            Err(error) if trust::is_refusal(&error) => Err(RecordingError::Stranger(error.to_string())),
            Err(error) => Err(RecordingError::io(path)(error)),
            Ok(()) => Ok(record),
        }
    }
}

fn check(folder: &Path, database: &Path, record: &KernelRecord) -> io::Result<()> {
    let folder = Folder::open(folder)?;
    let check = |name: &Path| match folder.check(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        found => found.map(drop),
    };
    let rules = Rules::path(database);
    for name in [database, &rules].into_iter().filter_map(Path::file_name) {
        check(name.as_ref())?;
    }
    let names = record.modules.iter().chain(&record.binary_blobs);
    let of_instance = |instance: &InstanceRecord| {
        let code = instance.ours.original.iter().map(|code| code.file.clone());
        [instance.prologue.clone(), instance.epilogue.clone()].into_iter().chain(code).collect::<Vec<_>>()
    };
    let of_instances = record.instances.values().flat_map(of_instance);
    names.cloned().chain(of_instances).try_for_each(|name| check(name.as_ref()))?;
    let packs = match folder.folder(store::FOLDER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        packs => packs?,
    };
    for pack in std::fs::read_dir(packs.path())? {
        packs.check(pack?.file_name())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::fixture;
    use super::*;

    #[test]
    fn whatever_a_kernel_needs_must_be_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (mut record, path) = (fixture::kernel(), at("42.json"));
        record.instances.insert("7".into(), fixture::instance());
        record.save(&path).unwrap();
        std::fs::create_dir(at(store::FOLDER)).unwrap();
        let names = ["RecordedIR_42.bc", "42.tolerances.json", "packs/1", "DeviceState.prologue.42.7.mneme"];
        names.iter().for_each(|name| std::fs::write(at(name), "x").unwrap());
        KernelRecord::load_trusted(&path).unwrap();
        for name in names.into_iter().chain(["42.json", "packs", "."]) {
            let before = at(name).metadata().unwrap().permissions();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o777)).unwrap();
            assert!(matches!(KernelRecord::load_trusted(&path), Err(RecordingError::Stranger(_))), "{name}");
            KernelRecord::load(&path).unwrap();
            std::fs::set_permissions(at(name), before).unwrap();
        }
        KernelRecord::load_trusted(&path).unwrap();
    }
}
