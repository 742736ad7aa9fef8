//! Where the parts of an installation are, seen from any one of them.
//!
//! Two layouts exist: a cargo target folder, where everything lies side by side, and an installed prefix with `bin/`
//! and `lib/` (what `scripts/bundle` packs).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub const RECORDER: &str = "libmneme_rec.so";
pub const CPU_DEVICE: &str = "libmneme_cpu.so";
pub const COMPILER: &str = "mneme-cc";
pub const REPLAYER: &str = "mneme-replay";
pub const TUNER: &str = "mneme-tune";

/// Finds a program or library of this installation: in `MNEME_HOME`, then beside the asking object, then in the
/// neighbouring `bin/` or `lib/`.
pub fn locate(name: &str) -> Option<PathBuf> {
    let mut folders = Vec::new();
    if let Some(home) = std::env::var_os("MNEME_HOME") {
        let home = PathBuf::from(home);
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
    folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The prefix of an installation with `bin/` and `lib/`, or the target folder where everything lies side by side.
pub fn prefix() -> Option<PathBuf> {
    let here = own_folder()?;
    match here.file_name().and_then(OsStr::to_str) {
        Some("bin" | "lib") => here.parent().map(Path::to_path_buf),
        _ => Some(here),
    }
}

/// The folder of the object (executable or shared library) that this code was linked into.
pub fn own_folder() -> Option<PathBuf> {
    // SAFETY: dladdr only writes the structure it is given; a zeroed one is a valid value of it.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is that of a function of this object and `info` is a valid place to write.
    let found = unsafe { libc::dladdr(own_folder as *const libc::c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr succeeded, so dli_fname is a NUL-terminated string that lives as long as the object.
    let name = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
    let path = Path::new(std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes()) as &OsStr).to_path_buf();
    // An executable is named as it was called, which may be relative to a PATH entry.
    let path = if path.is_absolute() { path } else { std::env::current_exe().ok()? };
    std::fs::canonicalize(path).ok()?.parent().map(Path::to_path_buf)
}
