//! Files that compilers write beside the object or program.
//!
//! mneme-cc runs a compile-and-link command as several commands with temporary objects. The files beside these objects
//! get the names and folders that a single command would have chosen.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// The arguments for the dependency file of a compile-and-link command, as clang and nvcc name it. Its rule is for the
/// program or, if `-o` is missing, for the source with other extensions, which the option `target` names.
pub fn dependency_arguments(
    output: Option<&Path>,
    source: &Path,
    target: &str,
    names_file: bool,
    names_target: bool,
) -> Vec<OsString> {
    let stem = Path::new(source.file_stem().unwrap_or_default());
    let (file, rule) = match output {
        Some(output) => (output.with_extension("d"), output.to_owned()),
        None => (stem.with_extension("d"), stem.with_extension("o")),
    };
    let mut arguments = Vec::new();
    if !names_file {
        arguments.extend(["-MF".into(), file.into_os_string()]);
    }
    if !names_target {
        arguments.extend([target.into(), rule.into_os_string()]);
    }
    arguments
}

/// The prefix that clang gives the files beside a program: the value of `-dumpdir`.
pub fn prefix(output: Option<&Path>) -> OsString {
    let mut prefix = output.map_or_else(|| "a".into(), |output| output.as_os_str().to_owned());
    prefix.push("-");
    prefix
}

/// Moves the files in `from`, except `object`, to the folder of the program `output`. Records of optimisations go to
/// the working folder, as with clang.
///
/// # Errors
/// The first file that cannot be moved, with the system's message.
pub fn move_others(from: &Path, object: &Path, output: Option<&Path>) -> io::Result<()> {
    let here = Path::new(".");
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| path != object) else { continue };
        let is_record = name.to_string_lossy().contains(".opt.");
        let to = here.join(output.and_then(Path::parent).filter(|_| !is_record).unwrap_or(here));
        // The folders may be on different file systems.
        let moved = std::fs::copy(&path, to.join(name)).and_then(|_| std::fs::remove_file(&path));
        moved.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", to.join(name).display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_those_of_the_program_or_of_the_source() {
        let of = |output: Option<&str>, file, target| {
            dependency_arguments(output.map(Path::new), Path::new("dir/k.cu"), "-MT", file, target)
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of(Some("out/x.y.z"), false, false), "-MF out/x.y.d -MT out/x.y.z");
        assert_eq!(of(Some("app"), true, false), "-MT app");
        assert_eq!(of(None, false, false), "-MF k.d -MT k.o");
        assert_eq!(of(None, true, true), "");
    }

    #[test]
    fn everything_but_the_object_is_moved() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let object = from.path().join("k.o");
        for name in ["k.o", "k.s", "k.fatbin"] {
            std::fs::write(from.path().join(name), name).unwrap();
        }
        move_others(from.path(), &object, Some(&to.path().join("app"))).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["k.fatbin", "k.s"]);
        assert!(object.is_file());
    }
}
