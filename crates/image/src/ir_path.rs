//! IR in files that the user names, for code without embedded IR.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use mneme_system::environment;
use mneme_system::files::trust;

use super::{bitcode, elf, embedded};

/// IR of a kernel in the files of `MNEME_IR_PATH`: the extension for recording it, and the file's contents.
///
/// The list is separated by colons; a folder stands for all of its files: `.bc`, `.ll`, and ELF objects with a section
/// `.llvmbc`. Without LLVM, only names can be searched, so this takes the first complete module that defines (`.ll`) or
/// mentions the kernel.
pub fn find(kernel: &str) -> Option<(&'static str, Vec<u8>)> {
    let list = environment::variable_os("MNEME_IR_PATH")?;
    std::env::split_paths(&list).flat_map(|path| files(&path)).find_map(|path| ir_file(&path, kernel))
}

fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(folder) = trust::check(path).and_then(|path| path.read_dir()) else { return vec![path.to_owned()] };
    let mut found: Vec<_> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.sort();
    found
}

fn ir_file(path: &Path, kernel: &str) -> Option<(&'static str, Vec<u8>)> {
    // Skip a stranger's file silently: this runs in the application, and `mneme record` has already refused such files.
    let bytes = || trust::read(path).ok();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("bc") => bytes()
            .filter(|bytes| bitcode::is_bitcode(bytes) && bitcode::mentions(bytes, kernel))
            .map(|bytes| ("bc", bytes)),
        Some("ll") => {
            bytes().filter(|bytes| defines(&String::from_utf8_lossy(bytes), kernel)).map(|bytes| ("ll", bytes))
        }
        _ => of_object(&trust::check(path).ok()?, kernel).map(|bytes| ("bc", bytes)),
    }
}

/// The module of a kernel in the section `.llvmbc` of an ELF object.
pub fn of_object(path: &Path, kernel: &str) -> Option<Vec<u8>> {
    let file = elf::MappedFile::open(path).ok()?;
    let found = embedded::in_object(file.bytes()).into_iter().find(|module| bitcode::mentions(module, kernel));
    found.map(<[u8]>::to_vec)
}

/// Whether textual IR defines a function.
fn defines(text: &str, name: &str) -> bool {
    let (plain, quoted): (Cow<'_, str>, _) = (format!("@{name}(").into(), format!("@\"{name}\"("));
    text.lines().any(|line| line.starts_with("define ") && (line.contains(&*plain) || line.contains(&quoted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ir_beside_the_program_is_found_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.ll", b"declare void @k(ptr)\n");
        write("b.ll", b"define void @k(ptr %p) {\n");
        write("c.bc", b"BC\xc0\xde....k2");
        write("notes.txt", b"define void @k(");
        let find = |kernel: &str| files(folder.path()).iter().find_map(|path| ir_file(path, kernel));
        assert_eq!(find("k").unwrap().1, b"define void @k(ptr %p) {\n");
        assert_eq!(find("k2").unwrap().0, "bc");
        assert!(find("k3").is_none());
    }

    /// From an object with the IR of host and device, the device's IR is taken.
    #[test]
    fn ir_in_an_object_is_found_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("k.c"), "void k(int *p) { *p = 7; }\n").unwrap();
        let ir = |triple: &str| {
            let mut clang = std::process::Command::new("clang-19");
            clang.args(["-nogpulib", "-emit-llvm", "-c", "-target", triple, "-o"]).arg(at("k.bc")).arg(at("k.c"));
            match clang.status() {
                Ok(status) => assert!(status.success()),
                Err(_) => return None,
            }
            std::fs::read(at("k.bc")).ok()
        };
        let (Some(host), Some(device)) = (ir("x86_64-pc-linux-gnu"), ir("nvptx64-nvidia-cuda")) else {
            return mneme_fixtures::skip("no clang-19 on this machine");
        };
        for (name, contents) in [("both.bin", vec![&host, &device]), ("host.bin", vec![&host])] {
            std::fs::write(at(name), contents.into_iter().flatten().copied().collect::<Vec<u8>>()).unwrap();
            let text = format!(".section .llvmbc,\"\",@progbits\n.incbin \"{}\"\n", at(name).display());
            std::fs::write(at("object.s"), text).unwrap();
            let object = at(name).with_extension("o");
            assert!(
                std::process::Command::new("clang-19")
                    .arg("-c")
                    .arg(at("object.s"))
                    .arg("-o")
                    .arg(object)
                    .status()
                    .unwrap()
                    .success()
            );
        }
        assert_eq!(ir_file(&at("both.o"), "k"), Some(("bc", device)));
        assert_eq!(ir_file(&at("both.o"), "no_such_kernel"), None);
        assert_eq!((ir_file(&at("host.o"), "k"), ir_file(&at("host.bin"), "k")), (None, None));
    }
}
