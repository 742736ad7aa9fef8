//! What Triton has kept of the code that it compiled.
//!
//! Triton loads machine code alone. Its cache has a folder for each kernel that it has compiled, with a file for each
//! stage under the kernel's name: `NAME.cubin` beside `NAME.ptx` and `NAME.llir`. PyTorch's compiler has caches of its
//! own, of the same layout (tried with Triton 3.4 and PyTorch 2.8).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::environment::variable_os;

/// The stages before a kernel's machine code.
pub struct TritonStages {
    pub ptx: Vec<u8>,
    /// LLVM IR as text, of Triton's own LLVM.
    pub llir: Option<Vec<u8>>,
}

/// The stages of a kernel whose machine code is this; `None` where no cache has it.
pub fn stages(cubin: &[u8], kernel: &str) -> Option<TritonStages> {
    caches().iter().find_map(|cache| stages_in(cache, cubin, kernel))
}

/// Folders that are caches if they exist, as the program's environment says at its start.
fn caches() -> Vec<PathBuf> {
    let folder = |name: &str| variable_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = folder("TRITON_HOME").or_else(|| folder("HOME"));
    let mut caches: Vec<PathBuf> =
        folder("TRITON_CACHE_DIR").into_iter().chain(home.map(|home| home.join(".triton/cache"))).collect();
    // PyTorch's has one for each device.
    let temporary = folder("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let is_inductors =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("torchinductor_"));
    let inductors = folder("TORCHINDUCTOR_CACHE_DIR").into_iter().chain(entries(&temporary).filter(is_inductors));
    caches.extend(inductors.flat_map(|folder| entries(&folder.join("triton")).collect::<Vec<_>>()));
    caches
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn stages_in(cache: &Path, cubin: &[u8], kernel: &str) -> Option<TritonStages> {
    // A mangled name is none of Triton's, and may be longer than a file's.
    if kernel.is_empty() || kernel.contains('/') || kernel.len() > 200 {
        return None;
    }
    // SAFETY: takes nothing, and cannot fail.
    let user = unsafe { libc::geteuid() };
    let is_it = |path: &PathBuf| {
        let is_alike = |file: fs::Metadata| file.len() == cubin.len() as u64 && [user, 0].contains(&file.uid());
        path.metadata().is_ok_and(is_alike) && fs::read(path).is_ok_and(|bytes| bytes == cubin)
    };
    let found = entries(cache).map(|folder| folder.join(format!("{kernel}.cubin"))).find(is_it)?;
    Some(TritonStages {
        ptx: fs::read(found.with_extension("ptx")).ok()?,
        llir: fs::read(found.with_extension("llir")).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let found = |code: &str, kernel: &str| stages_in(cache.path(), code.as_bytes(), kernel);
        let two = found("code 2", "add").unwrap();
        assert_eq!((two.ptx, two.llir.as_deref()), (b"ptx of code 2".to_vec(), Some(&b"ir"[..])));
        assert!(found("code 1", "add").is_some_and(|stages| stages.llir.is_none()));
        fs::remove_file(cache.path().join("three/add.ptx")).unwrap();
        for (code, kernel) in [("code 3", "add"), ("code 2", "sub"), ("code 2", ""), ("code 2", "../two/add")] {
            assert!(found(code, kernel).is_none(), "{code} {kernel}");
        }
        assert!(found("code", "add").is_none(), "the PTX is gone");
        assert!(stages_in(&cache.path().join("none"), b"code 2", "add").is_none());
    }
}
