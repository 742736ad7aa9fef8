//! Creates a folder with all of its files, or not at all.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

use crate::error::CommandError;

/// A new or empty folder. Its files are first written to a temporary folder on the same file system; dropping it
/// removes them.
pub struct NewFolder {
    path: PathBuf,
    is_there: bool,
    temporary: TempDir,
}

impl NewFolder {
    /// Prepares a folder without writing to it.
    ///
    /// # Errors It has files, its name is taken, or it or its parent cannot be written to.
    pub fn create(path: &Path) -> Result<Self, CommandError> {
        let refused = |what: &str| Err(CommandError::Usage(format!("{} {what}; name a new folder", path.display())));
        let is_there = path.exists();
        if is_there && !path.is_dir() {
            return refused("is not a folder");
        }
        if is_there && written(path, std::fs::read_dir(path))?.next().is_some() {
            return refused("is not empty");
        }
        // Missing parents are created at the end.
        let around = path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
        let mut builder = Builder::new();
        builder.prefix(".mneme-export.").suffix(".tmp").permissions(Permissions::from_mode(0o777));
        let temporary = written(around, builder.tempdir_in(around))?;
        Ok(Self { path: path.into(), is_there, temporary })
    }

    /// The path for writing a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    /// Moves the files to their place.
    pub fn publish(self) -> Result<(), CommandError> {
        let from = self.temporary.path();
        if !self.is_there {
            let above = self.path.parent().filter(|above| !above.as_os_str().is_empty());
            above.map_or(Ok(()), |above| written(above, std::fs::create_dir_all(above)))?;
            // Dropping the temporary folder then does nothing, because it was renamed.
            return written(&self.path, std::fs::rename(from, &self.path));
        }
        for entry in written(from, std::fs::read_dir(from))? {
            let entry = written(from, entry)?;
            let to = self.path.join(entry.file_name());
            written(&to, std::fs::rename(entry.path(), &to))?;
        }
        Ok(())
    }
}

pub fn written<T>(path: &Path, result: std::io::Result<T>) -> Result<T, CommandError> {
    result.map_err(|source| CommandError::Io { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn files_are_there_when_all_are_written() {
        let scratch = tempfile::tempdir().unwrap();
        let empty = scratch.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        for path in [scratch.path().join("a/b/new"), empty] {
            let folder = NewFolder::create(&path).unwrap();
            std::fs::write(folder.file("kernel.c"), "int x;").unwrap();
            assert!(!path.join("kernel.c").exists());
            folder.publish().unwrap();
            assert_eq!(names(&path), ["kernel.c"]);
            let again = NewFolder::create(&path).err().unwrap().to_string();
            assert!(again.ends_with("is not empty; name a new folder"), "{again}");
        }
        let mut left = names(scratch.path());
        left.sort_unstable();
        assert_eq!(left, ["a", "empty"]);
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = NewFolder::create(&scratch.path().join("a/new")).unwrap();
        std::fs::write(folder.file("kernel.c"), "int x;").unwrap();
        drop(folder);
        assert!(names(scratch.path()).is_empty());
        let file = scratch.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        assert!(NewFolder::create(&file).err().unwrap().to_string().contains("is not a folder"));
        assert!(NewFolder::create(&file.join("below")).and_then(NewFolder::publish).is_err());
        assert_eq!(names(scratch.path()), ["file"]);
    }
}
