//! The folders that tools may use, and the paths in them.
//!
//! A path is accepted if it has no `..`, lies in an allowed folder as written, and still does after all links are
//! followed. For a folder with many files, such as a recording, no link in it may lead outside either.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use mneme_system::install;
use nix::unistd::{AccessFlags, access};

use crate::error::ToolError;

/// The longest path, bytes.
const LONGEST: usize = 4096;
/// The most files of a folder that are looked at for links.
const MOST_FILES: usize = 200_000;

/// The name of the folder for results in the first allowed folder.
pub const RESULTS: &str = "mneme-mcp";

pub struct Folders {
    /// As the user wrote them, made absolute, and with links followed.
    allowed: Vec<(PathBuf, PathBuf)>,
    programs: Vec<PathBuf>,
}

impl Folders {
    /// # Errors
    /// A folder or a program does not exist.
    pub fn new(folders: &[PathBuf], programs: &[PathBuf]) -> Result<Self, ToolError> {
        let unread = |path: &Path| {
            let path = path.display().to_string();
            move |source| ToolError::Unread { path, source }
        };
        let folder = |path: &PathBuf| {
            let found = path.canonicalize().map_err(unread(path))?;
            if !found.is_dir() {
                return Err(unread(path)(io::ErrorKind::NotADirectory.into()));
            }
            Ok((std::path::absolute(path).map_err(unread(path))?, found))
        };
        let program = |path: &PathBuf| match path.is_file() {
            true => std::path::absolute(path).map_err(unread(path)),
            false => Err(unread(path)(io::ErrorKind::NotFound.into())),
        };
        Ok(Self {
            allowed: folders.iter().map(folder).collect::<Result<_, _>>()?,
            programs: programs.iter().map(program).collect::<Result<_, _>>()?,
        })
    }

    /// The first allowed folder, in which relative paths start.
    pub fn base(&self) -> &Path {
        &self.allowed[0].1
    }

    /// The path of an existing file or folder.
    pub fn existing(&self, path: &str) -> Result<PathBuf, ToolError> {
        self.follow(path, &self.written(path)?)
    }

    /// The path of an existing file or folder, with everything that belongs to it: what is in the folder, or what is
    /// beside the file.
    pub fn tree(&self, path: &str) -> Result<PathBuf, ToolError> {
        let found = self.existing(path)?;
        let folder = if found.is_dir() { Some(&*found) } else { found.parent() };
        self.check_links(path, folder.unwrap_or(&found))?;
        Ok(found)
    }

    /// The path of a folder that may not exist yet.
    pub fn folder(&self, path: &str) -> Result<PathBuf, ToolError> {
        let written = self.written(path)?;
        let exists = written.ancestors().find(|it| it.symlink_metadata().is_ok()).unwrap_or(&written);
        let found = self.follow(path, exists)?;
        if exists == written {
            self.check_links(path, &found)?;
        }
        let missing = written.strip_prefix(exists).unwrap_or(Path::new(""));
        Ok(missing.components().fold(found, |folder, name| folder.join(name)))
    }

    /// The path of a program to record: a file in the folders, or one that the user named.
    pub fn program(&self, name: &str) -> Result<PathBuf, ToolError> {
        let is_named = |path: &&PathBuf| {
            path.as_path() == Path::new(name) || path.file_name().is_some_and(|file| file == std::ffi::OsStr::new(name))
        };
        if let Some(program) = self.programs.iter().find(is_named) {
            return Ok(program.clone());
        }
        let path = self.existing(name).map_err(|error| match error {
            ToolError::Unread { path, .. } => ToolError::NoProgram(path),
            other => other,
        })?;
        // A link to one of Mneme's own programs would give a model their other options.
        let is_ours = install::own_folder().is_some_and(|own| path.starts_with(own));
        let runs = path.is_file() && access(&path, AccessFlags::X_OK).is_ok();
        if runs && !is_ours { Ok(path) } else { Err(ToolError::NoProgram(name.to_owned())) }
    }

    /// The folder for results, which has a folder for each job.
    pub fn results(&self) -> PathBuf {
        self.base().join(RESULTS)
    }

    /// The path as results show it: relative to the first folder, if it is in it.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(self.base()).unwrap_or(path).display().to_string()
    }

    fn written(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.is_empty() || path.len() > LONGEST || path.contains('\0') {
            return Err(ToolError::Arguments(format!("a path has 1 to {LONGEST} bytes and no NUL")));
        }
        let written = self.base().join(path);
        let climbs = Path::new(path).components().any(|part| part == Component::ParentDir);
        // Before anything is looked up, so that the answer does not tell which files exist elsewhere.
        let is_inside = self.allowed.iter().any(|(one, other)| written.starts_with(one) || written.starts_with(other));
        if climbs || !is_inside { Err(ToolError::Outside(path.to_owned())) } else { Ok(written) }
    }

    fn follow(&self, path: &str, written: &Path) -> Result<PathBuf, ToolError> {
        let unread = |source| ToolError::Unread { path: path.to_owned(), source };
        let found = written.canonicalize().map_err(unread)?;
        if self.contains(&found) { Ok(found) } else { Err(ToolError::Outside(path.to_owned())) }
    }

    fn contains(&self, found: &Path) -> bool {
        self.allowed.iter().any(|(_, allowed)| found.starts_with(allowed))
    }

    fn check_links(&self, path: &str, folder: &Path) -> Result<(), ToolError> {
        let unread = |source| ToolError::Unread { path: path.to_owned(), source };
        let mut waiting = vec![folder.to_path_buf()];
        let (mut seen, mut count) = (BTreeSet::new(), 0);
        while let Some(folder) = waiting.pop() {
            for entry in folder.read_dir().map_err(unread)? {
                let entry = entry.map_err(unread)?;
                count += 1;
                if count > MOST_FILES {
                    let (what, limit) = ("the number of files in the folder", "200,000");
                    return Err(ToolError::TooLarge { what, limit, remedy: "name a smaller folder" });
                }
                let mut found = entry.path();
                let mut kind = entry.file_type().map_err(unread)?;
                if kind.is_symlink() {
                    // A link that leads nowhere harms nobody.
                    let Ok(target) = found.canonicalize() else { continue };
                    if !self.contains(&target) {
                        return Err(ToolError::Link { path: path.to_owned(), link: found });
                    }
                    kind = target.metadata().map_err(unread)?.file_type();
                    found = target;
                }
                if kind.is_dir() && seen.insert(found.clone()) {
                    waiting.push(found);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_stay_in_the_folders() {
        let all = tempfile::tempdir().unwrap();
        let (inside, outside) = (all.path().join("inside"), all.path().join("outside"));
        for folder in [&inside, &outside, &inside.join("recording"), &inside.join("bad")] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(outside.join("secret"), "").unwrap();
        std::fs::write(inside.join("a.cu"), "").unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(inside.join("a.cu"), inside.join("recording/fine")).unwrap();
        symlink("../../outside/secret", inside.join("bad/link")).unwrap();
        symlink(all.path().join("nowhere"), inside.join("dangling")).unwrap();
        let folders = Folders::new(std::slice::from_ref(&inside), &[]).unwrap();
        let base = inside.canonicalize().unwrap();

        assert_eq!(folders.existing("a.cu").unwrap(), base.join("a.cu"));
        assert_eq!(folders.existing(inside.join("a.cu").to_str().unwrap()).unwrap(), base.join("a.cu"));
        assert_eq!(folders.tree("recording").unwrap(), base.join("recording"));
        assert_eq!(folders.folder("new/one").unwrap(), base.join("new/one"));
        assert_eq!(folders.folder("recording").unwrap(), base.join("recording"));
        let secret = outside.join("secret");
        for path in [
            "..",
            "recording/../../outside/secret",
            "link/secret",
            "link",
            "/etc/passwd",
            "/nonesuch",
            secret.to_str().unwrap(),
        ] {
            assert!(matches!(folders.existing(path), Err(ToolError::Outside(_))), "{path}");
            assert!(matches!(folders.folder(path), Err(ToolError::Outside(_))), "{path}");
        }
        assert!(matches!(folders.folder("link/new"), Err(ToolError::Outside(_))));
        assert!(matches!(folders.folder("dangling/new"), Err(ToolError::Unread { .. })));
        assert!(matches!(folders.tree("bad"), Err(ToolError::Link { .. })));
        assert!(matches!(folders.folder("bad"), Err(ToolError::Link { .. })));
        assert!(matches!(folders.existing("none"), Err(ToolError::Unread { .. })));
        for path in ["", "a\0b", &"x".repeat(5000)] {
            assert!(matches!(folders.existing(path), Err(ToolError::Arguments(_))));
        }
    }

    #[test]
    fn only_programs_in_the_folders_or_named_ones_run() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("text"), "").unwrap();
        let folders = Folders::new(&[folder.path().into()], &["/bin/sh".into()]).unwrap();
        assert_eq!(folders.program("sh").unwrap(), Path::new("/bin/sh"));
        assert_eq!(folders.program("/bin/sh").unwrap(), Path::new("/bin/sh"));
        assert!(matches!(folders.program("/bin/ls"), Err(ToolError::Outside(_))));
        assert!(matches!(folders.program("./text"), Err(ToolError::NoProgram(_))));
        assert!(matches!(folders.program("ls"), Err(ToolError::NoProgram(_))));
    }
}
