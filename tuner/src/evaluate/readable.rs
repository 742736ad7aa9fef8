//! The files that a confined compiler may read for candidates.
//!
//! A recording often lies beside the kernel's source, and no candidate may see memory after the launch. Landlock can
//! allow a folder only with everything that is or will be in it. Each file is therefore allowed by itself.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The most files that are allowed; those in nearer folders come first.
const MOST: usize = 20_000;

/// Files and folders with headers, and folders below them that nobody may read.
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
}
