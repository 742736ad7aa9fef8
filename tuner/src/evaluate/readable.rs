//! The files that a confined compiler may read for candidates.
//!
//! A recording often lies beside the kernel's source, and no candidate may see memory after the launch. Landlock can
//! allow a folder only with everything that is or will be in it. Each file is therefore allowed by itself.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use mneme_model::hash::checksum;
use mneme_system::files::regular;

/// The most files that are allowed; those in nearer folders come first.
const MOST: usize = 20_000;

/// Files and folders with headers, and the folders in them that compilers may not read.
#[derive(Clone, Debug, Default)]
pub struct Readable {
    pub roots: Vec<PathBuf>,
    pub private: Vec<PathBuf>,
}

impl Readable {
    /// All files that exist now, nearest first. Leaves out recordings, private folders, hidden names, and links.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut waiting: VecDeque<PathBuf> = self.roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        waiting.retain(|root| !root.ancestors().skip(1).any(is_recording));
        while let Some(path) = waiting.pop_front().filter(|_| found.len() < MOST) {
            if self.private.iter().any(|private| path.starts_with(private)) {
                continue;
            }
            if path.is_file() {
                found.push(path);
            } else if !is_recording(&path) {
                let mut names = names(&path);
                names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
                names.sort();
                waiting.extend(names.iter().map(|name| path.join(name)).filter(|path| !path.is_symlink()));
            }
        }
        found
    }

    /// Checksums of the headers that a source includes, and of those that they include. Conditions are not evaluated, and
    /// macros count if they contain a name.
    pub fn included(&self, source: String) -> Vec<u64> {
        let files: HashSet<PathBuf> = self.files().into_iter().collect();
        let roots: Vec<PathBuf> = self.roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        let mut found = BTreeMap::new();
        let mut waiting = vec![source];
        // Flags include roots that are files.
        let mut next: Vec<PathBuf> = roots.iter().filter(|root| root.is_file()).cloned().collect();
        loop {
            for path in next.drain(..).filter(|path| files.contains(path)) {
                found.entry(path).or_insert_with_key(|path| {
                    let bytes = regular::read(path).unwrap_or_default();
                    waiting.push(String::from_utf8_lossy(&bytes).into_owned());
                    checksum(&bytes)
                });
            }
            let Some(text) = waiting.pop() else { return found.into_values().collect() };
            let folders = || found.keys().filter_map(|path| path.parent()).chain(roots.iter().map(PathBuf::as_path));
            let folders: HashSet<&Path> = folders().collect();
            for name in named(&text) {
                next.extend(folders.iter().filter_map(|folder| folder.join(name).canonicalize().ok()));
            }
        }
    }
}

/// The files that directives name: the texts in quotes and angle brackets of lines with a `#`, also in a diff.
fn named(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| line.contains('#'));
    lines.flat_map(|line| line.split(['"', '<', '>']).skip(1)).filter(|name| !name.trim().is_empty()).collect()
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// Whether recorded memory is in a folder: manifests, packs, or snapshots of the existing Mneme.
fn is_recording(folder: &Path) -> bool {
    let is_memory = |name: &OsStr| {
        name.as_encoded_bytes().starts_with(b"DeviceState.")
            || Path::new(name).extension().is_some_and(|ending| ending == "mneme" || ending == "pack")
    };
    names(folder).iter().any(|name| is_memory(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_and_private_folders_beside_a_source_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for file in [
            "k.cuh", "sub/deep/h.h", "recording/1.json", "recording/DeviceState.epilogue.1.2.mneme",
            "recording/packs/1.pack", "old/packs/1.pack", "results/verdicts.jsonl", ".git/config",
        ] {
            std::fs::create_dir_all(base.join(file).parent().unwrap()).unwrap();
            std::fs::write(base.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink(base.join("recording/1.json"), base.join("link.h")).unwrap();
        let private = vec![base.join("results")];
        let of = |roots: &[&str]| {
            let roots = roots.iter().map(|root| base.join(root)).collect();
            let found = Readable { roots, private: private.clone() }.files();
            found.into_iter().map(|path| path.strip_prefix(&base).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of(&[""]), ["k.cuh", "sub/deep/h.h"].map(PathBuf::from));
        assert_eq!(
            of(&["recording", "recording/1.json", "recording/packs", "results", "nonesuch"]),
            [] as [PathBuf; 0]
        );
        assert_eq!(of(&["sub/deep/h.h"]), ["sub/deep/h.h"].map(PathBuf::from));
    }

    #[test]
    fn headers_of_headers_count() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        for (name, text) in
            [("a.h", "# include <sub/b.h>\n"), ("sub/b.h", "#include \"c.h\"\n"), ("sub/c.h", ""), ("d.h", "")]
        {
            write(name, text);
        }
        let readable = Readable { roots: vec![folder.path().into()], private: Vec::new() };
        let of = |text: &str| readable.included(text.into());
        assert_eq!([of("#include \"a.h\"").len(), of("x d.h").len(), of("#define A \"sub/b.h\"").len()], [3, 0, 2]);
        assert!(of("#include </etc/passwd>\n#include \"../nonesuch\"").is_empty());
        let before = of("+#include \"a.h\"");
        write("d.h", "other");
        assert_eq!(before, of("+#include \"a.h\""));
        write("sub/c.h", "other");
        assert_ne!(before, of("+#include \"a.h\""));
    }
}
