//! The compilation stages in Triton's cache.
//!
//! Triton loads machine code only. Its cache has a folder for each compiled kernel, with a file for each stage under
//! the kernel's name: `NAME.cubin` beside `NAME.ptx` and `NAME.llir`. PyTorch's compiler has separate caches with the
//! same layout (tested with Triton 3.6 and PyTorch 2.11).

use std::fs;
use std::path::{Path, PathBuf};

use mneme_system::environment::variable_os;
use mneme_system::files::trust::Folder;

use super::elf::{LoadedObject, loaded_objects};

/// The maximum size of a file, bytes.
const MOST: u64 = 64 << 20;

/// The stages before a kernel's machine code.
pub struct TritonStages {
    pub ptx: Vec<u8>,
    /// LLVM IR as text, from Triton's own LLVM.
    pub llir: Option<Vec<u8>>,
}

/// The stages of a kernel with this machine code; `None` if the caches lack it, or if the program does not use Triton:
/// searching large caches is slow.
pub fn stages(cubin: &[u8], kernel: &str) -> Option<TritonStages> {
    let is_of_triton = |object: &LoadedObject| {
        let name = object.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        ["libtriton", "libtorch"].iter().any(|start| name.starts_with(start))
    };
    if variable_os("TRITON_CACHE_DIR").is_none() && !loaded_objects().iter().any(is_of_triton) {
        return None;
    }
    caches().iter().find_map(|cache| stages_in(cache, cubin, kernel))
}

/// Existing caches that strangers cannot write to, according to the program's environment at its start.
fn caches() -> Vec<Folder> {
    let folder = |name: &str| variable_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = folder("TRITON_HOME").or_else(|| folder("HOME"));
    let named = folder("TRITON_CACHE_DIR").into_iter().chain(home.map(|home| home.join(".triton/cache")));
    let mut caches: Vec<Folder> = named.filter_map(|folder| Folder::open(&folder).ok()).collect();
    // PyTorch has one cache for each device. The temporary folder also contains those of other users.
    let temporary = folder("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let is_inductors =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("torchinductor_"));
    let inductors = folder("TORCHINDUCTOR_CACHE_DIR").into_iter().chain(entries(&temporary).filter(is_inductors));
    let inductors = inductors.filter_map(|folder| Folder::open(&folder.join("triton")).ok());
    caches.extend(inductors.flat_map(|folder| {
        entries(folder.path()).filter_map(|device| folder.folder(device.file_name()?).ok()).collect::<Vec<_>>()
    }));
    caches
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn stages_in(cache: &Folder, cubin: &[u8], kernel: &str) -> Option<TritonStages> {
    // Triton does not use mangled names, which may also be longer than a file name.
    if kernel.is_empty() || kernel.contains('/') || kernel.len() > 200 {
        return None;
    }
    let stages = |folder: PathBuf| {
        let found = folder.join(format!("{kernel}.cubin"));
        // A cheap check, because there may be thousands of folders.
        let is_alike = found.symlink_metadata().is_ok_and(|file| file.len() == cubin.len() as u64);
        if !is_alike {
            return None;
        }
        let folder = cache.folder(folder.file_name()?).ok()?;
        let read = |extension: &str| {
            let name = format!("{kernel}.{extension}");
            folder.size(&name).filter(|size| *size <= MOST)?;
            folder.read(&name).ok()
        };
        if read("cubin")? != cubin {
            return None;
        }
        Some(TritonStages { ptx: read("ptx")?, llir: read("llir") })
    };
    entries(cache.path()).find_map(stages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, lchown};

    #[test]
    fn stages_are_those_of_the_same_machine_code() {
        let cache = tempfile::tempdir().unwrap();
        for (folder, code) in [("one", "code 1"), ("two", "code 2"), ("three", "code")] {
            let at = |extension: &str| cache.path().join(folder).join(format!("add.{extension}"));
            fs::create_dir(cache.path().join(folder)).unwrap();
            fs::write(at("cubin"), code).unwrap();
            fs::write(at("ptx"), format!("ptx of {code}")).unwrap();
        }
        fs::write(cache.path().join("two/add.llir"), "ir").unwrap();
        fs::write(cache.path().join("a file"), "").unwrap();
        // Files that others could have written, or that never end.
        let at = |name: &str| cache.path().join(name);
        let place = |folder: &str, code: &str| {
            fs::create_dir(at(folder)).unwrap();
            fs::write(at(folder).join("add.cubin"), code).unwrap();
            at(folder).join("add.ptx")
        };
        nix::unistd::mkfifo(&place("pipe", "pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(place("open", "open"), "ptx").unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        // SAFETY: takes nothing, and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        if is_root {
            fs::write(place("theirs", "theirs"), "ptx").unwrap();
            lchown(at("theirs"), Some(65534), None).unwrap();
        }
        let opened = Folder::open(cache.path()).unwrap();
        let found = |code: &str, kernel: &str| stages_in(&opened, code.as_bytes(), kernel);
        let two = found("code 2", "add").unwrap();
        assert_eq!((two.ptx, two.llir.as_deref()), (b"ptx of code 2".to_vec(), Some(&b"ir"[..])));
        assert!(found("code 1", "add").is_some_and(|stages| stages.llir.is_none()));
        fs::remove_file(cache.path().join("three/add.ptx")).unwrap();
        for (code, kernel) in
            [("code 3", "add"), ("code 2", "sub"), ("code 2", ""), ("theirs", "add"), ("pipe", "add"), ("open", "add")]
        {
            assert!(found(code, kernel).is_none(), "{code} {kernel}");
        }
        assert!(found("code", "add").is_none(), "the PTX is gone");
        assert!(found("code 2", "../two/add").is_none() && found("code 1", "add").is_some());
    }
}
