//! Finds the parts of an installation, starting from any one of them.
//!
//! Two layouts exist: a cargo target folder with all files side by side, and an installed prefix with `bin/` and `lib/`
//! (as packed by `scripts/bundle`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::environment;
use crate::error::FolderError;
use crate::files::trust;

pub const RECORDER: &str = "libmneme_rec.so";
pub const CPU_DEVICE: &str = "libmneme_cpu.so";
pub const COMPILER: &str = "mneme-cc";
/// Name prefix of the programs that contain LLVM, which [`REPLAYER`] and [`COMPILER`] start; the version follows, as in
/// `mneme-build-19`. See [`builders`].
pub const BUILDER: &str = "mneme-build-";
/// The supported versions of LLVM.
pub const LLVM_VERSIONS: std::ops::RangeInclusive<u32> = 19..=23;
pub const REPLAYER: &str = "mneme-replay";
/// In an installation a link to [`REPLAYER`].
pub const BISECTOR: &str = "mneme-bisect";
pub const TUNER: &str = "mneme-tune";

/// Finds a program or library of this installation: in `MNEME_HOME`, then beside the asking object, then in the
/// neighbouring `bin/` or `lib/`.
pub fn locate(name: &str) -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join(name)).find(|path| may_be_used(path))
}

/// The builders of this installation by the version of their LLVM, oldest first.
pub fn builders() -> Vec<(u32, PathBuf)> {
    let folders = folders();
    let find = |version: u32| {
        let name = format!("{BUILDER}{version}");
        folders.iter().map(|folder| folder.join(&name)).find(|path| may_be_used(path)).map(|path| (version, path))
    };
    LLVM_VERSIONS.filter_map(find).collect()
}

/// Checks `MNEME_HOME` if it is set. Programs call this before they look for other files.
///
/// # Errors
/// It is not a folder, or strangers can change it.
pub fn check_home() -> Result<(), FolderError> {
    let Some(home) = home() else { return Ok(()) };
    if !home.is_dir() {
        return Err(FolderError::NoHome(home));
    }
    trust::check(&home).map(drop).map_err(FolderError::StrangersHome)
}

/// Whether a file exists and, if `MNEME_HOME` led to it, is trusted. Anyone who can write to this program's own folder
/// can run code without the file.
fn may_be_used(path: &Path) -> bool {
    let is_homes = || home().is_some_and(|home| path.starts_with(home));
    path.is_file() && (!is_homes() || trust::check(path).is_ok())
}

/// Folders of the search path for programs. Relative ones are skipped: they depend on the current folder, which may
/// belong to anyone.
pub fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

/// `MNEME_HOME`, unless it is empty.
fn home() -> Option<PathBuf> {
    environment::variable_os("MNEME_HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Folders that may hold programs and libraries of this installation, nearest first.
fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(home) = home() {
        folders.extend([home.join("bin"), home.join("lib"), home]);
    }
    if let Some(here) = own_folder() {
        folders.push(here.clone());
        if here.file_name() == Some(OsStr::new("deps"))
            && let Some(parent) = here.parent()
        {
            folders.push(parent.to_path_buf());
        }
        if let Some(prefix) = here.parent() {
            folders.extend([prefix.join("bin"), prefix.join("lib")]);
        }
    }
    folders
}

/// The prefix of an installation with `bin/` and `lib/`, or the target folder with all files side by side.
pub fn prefix() -> Option<PathBuf> {
    let here = own_folder()?;
    match here.file_name().and_then(OsStr::to_str) {
        Some("bin" | "lib") => here.parent().map(Path::to_path_buf),
        _ => Some(here),
    }
}

/// The folder of the object (executable or shared library) that this code was linked into.
pub fn own_folder() -> Option<PathBuf> {
    static KNOWN: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Some(known.clone());
    }
    let folder = find_own_folder()?;
    let _ = KNOWN.set(folder.clone());
    Some(folder)
}

fn find_own_folder() -> Option<PathBuf> {
    // The kernel's list and not `dladdr`: the latter repeats the name that the object was loaded by, which may be
    // relative to a folder that the program has left since (`LD_PRELOAD=target/release/…`).
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let path = mapped_file(&maps, find_own_folder as *const () as usize)?;
    std::fs::canonicalize(path).ok()?.parent().map(Path::to_path_buf)
}

/// The file mapped at an address, from the text of `/proc/self/maps`.
fn mapped_file(maps: &[u8], address: usize) -> Option<&Path> {
    let line = maps.split(|byte| *byte == b'\n').find(|line| {
        let range =
            line.split(|byte| *byte == b' ').next().and_then(|range| std::str::from_utf8(range).ok()?.split_once('-'));
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        range.and_then(|(start, end)| Some((number(start)?..number(end)?).contains(&address))) == Some(true)
    })?;
    let path = &line[line.iter().position(|byte| *byte == b'/')?..];
    Some(Path::new(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_the_file_that_is_mapped_there() {
        let maps = b"1000-2000 r--p 00000000 08:01 7   /opt/with space/a.so\n2000-3000 rw-p 00000000 00:00 0 \n3000-5000 r-xp 00001000 08:01 9 /b\n";
        assert_eq!(mapped_file(maps, 0x1fff), Some(Path::new("/opt/with space/a.so")));
        assert_eq!(mapped_file(maps, 0x2800), None);
        assert_eq!(mapped_file(maps, 0x3000), Some(Path::new("/b")));
        assert_eq!(mapped_file(maps, 0x5000), None);
    }

    #[test]
    fn our_own_folder_is_that_of_the_running_program() {
        assert_eq!(
            own_folder(),
            std::env::current_exe().unwrap().canonicalize().unwrap().parent().map(Path::to_path_buf)
        );
    }
}
