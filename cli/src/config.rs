//! The command `mneme config`, which describes the installation to build systems.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mneme_system::files::{self, FileAccess};
use mneme_system::install;

use crate::error::CommandError;
use crate::output::print;
use crate::siblings;

#[derive(Debug, Args)]
pub struct ConfigOptions {
    /// The value to print [default: all, as KEY=VALUE]
    #[arg(value_enum)]
    key: Option<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Key {
    /// C compiler that makes kernels recordable
    Cc,
    /// C++ (and CUDA) compiler that makes kernels recordable
    Cxx,
    /// Folder where Mneme is installed
    Prefix,
    /// Folder of the libraries
    Libdir,
    /// Folder of the headers
    Includedir,
    /// Folder for CMAKE_PREFIX_PATH
    Cmakedir,
    /// Compiler flags
    Cflags,
    /// Linker flags
    Ldflags,
}

/// The CMake package, for cargo's build folder. `scripts/install` copies the same files.
const CMAKE_FILES: [(&str, &str); 2] = [
    ("mnemeConfig.cmake", include_str!("../../cc/cmake/mnemeConfig.cmake")),
    ("mnemeConfigVersion.cmake", include_str!("../../cc/cmake/mnemeConfigVersion.cmake")),
];

/// The headers, for cargo's build folder.
const HEADERS: [(&str, &str); 3] = [
    ("mneme.h", include_str!("../../interposer/include/mneme.h")),
    ("mneme.f90", include_str!("../../interposer/include/mneme.f90")),
    ("mneme/MnemeAnnotation.hpp", include_str!("../../interposer/include/mneme/MnemeAnnotation.hpp")),
];

/// The compiler wrappers: names under which mneme-cc is a compiler.
const WRAPPERS: [&str; 2] = ["mneme-clang", "mneme-clang++"];

/// The places of files in one of the two layouts of [`install`].
struct Layout {
    prefix: PathBuf,
    programs: PathBuf,
    libraries: PathBuf,
    cmake: PathBuf,
}

pub fn run(options: &ConfigOptions) -> Result<(), CommandError> {
    let layout = layout()?;
    match options.key {
        Some(key) => print(&format!("{}\n", layout.value(key)?)),
        None => {
            let mut text = String::new();
            for key in Key::value_variants() {
                let name = key.to_possible_value().expect("no key is skipped");
                text += &format!("{}={}\n", name.get_name(), layout.value(*key)?);
            }
            print(&text)
        }
    }
}

fn layout() -> Result<Layout, CommandError> {
    // Also fails if mneme-cc is missing.
    let compiler = siblings::find(install::COMPILER)?;
    let programs = compiler.parent().map(Path::to_path_buf).unwrap_or_default();
    if programs.file_name().is_some_and(|name| name == "bin")
        && let Some(prefix) = programs.parent()
    {
        let libraries = prefix.join("lib");
        return Ok(Layout { prefix: prefix.into(), cmake: libraries.join("cmake/mneme"), libraries, programs });
    }
    Ok(Layout { prefix: programs.clone(), libraries: programs.clone(), cmake: programs.join("cmake/mneme"), programs })
}

impl Layout {
    fn value(&self, key: Key) -> Result<String, CommandError> {
        let path = match key {
            Key::Cc => self.wrapper(WRAPPERS[0])?,
            Key::Cxx => self.wrapper(WRAPPERS[1])?,
            Key::Prefix => self.prefix.clone(),
            Key::Libdir => self.libraries.clone(),
            Key::Includedir => self.headers()?,
            Key::Cmakedir => self.cmake_package()?,
            Key::Cflags => return Ok(format!("-I{}", self.headers()?.display())),
            Key::Ldflags => return Ok(format!("-L{}", self.libraries.display())),
        };
        Ok(path.display().to_string())
    }

    /// A compiler wrapper beside mneme-cc. Cargo makes no links, so a build folder gets them here.
    fn wrapper(&self, name: &str) -> Result<PathBuf, CommandError> {
        let path = self.programs.join(name);
        if path.exists() {
            return Ok(path);
        }
        match std::os::unix::fs::symlink(install::COMPILER, &path) {
            // Another process may have made it first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(path),
            Err(source) => Err(CommandError::Io { path, source }),
            Ok(()) => Ok(path),
        }
    }

    /// The folder of the CMake package.
    fn cmake_package(&self) -> Result<PathBuf, CommandError> {
        fill(&self.cmake, &CMAKE_FILES)?;
        self.headers()?;
        Ok(self.cmake.clone())
    }

    /// The folder of the headers.
    fn headers(&self) -> Result<PathBuf, CommandError> {
        let folder = self.prefix.join("include");
        fill(&folder, &HEADERS)?;
        Ok(folder)
    }
}

/// Writes the files that are missing in a folder or differ.
fn fill(folder: &Path, files: &[(&str, &str)]) -> Result<(), CommandError> {
    for (name, text) in files {
        let path = folder.join(name);
        if std::fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        let write = || {
            std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
            files::replace(&path, text.as_bytes(), FileAccess::Usual)
        };
        write().map_err(|source| CommandError::Io { path: path.clone(), source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(folder: &Path) -> Layout {
        Layout {
            prefix: folder.into(),
            programs: folder.into(),
            libraries: folder.into(),
            cmake: folder.join("cmake/mneme"),
        }
    }

    #[test]
    fn a_build_folder_gets_wrappers_and_package() {
        let folder = tempfile::tempdir().unwrap();
        let layout = layout(folder.path());
        std::fs::write(folder.path().join(install::COMPILER), "").unwrap();
        for _ in 0..2 {
            let wrapper = layout.value(Key::Cxx).unwrap();
            assert_eq!(std::fs::read_link(wrapper).unwrap(), Path::new(install::COMPILER));
        }
        let package = PathBuf::from(layout.value(Key::Cmakedir).unwrap());
        std::fs::write(package.join("mnemeConfig.cmake"), "old").unwrap();
        layout.value(Key::Cmakedir).unwrap();
        assert_eq!(std::fs::read_to_string(package.join("mnemeConfig.cmake")).unwrap(), CMAKE_FILES[0].1);
    }

    #[test]
    fn a_build_folder_gets_the_headers() {
        let folder = tempfile::tempdir().unwrap();
        let include = PathBuf::from(layout(folder.path()).value(Key::Includedir).unwrap());
        for (name, text) in HEADERS {
            assert_eq!(std::fs::read_to_string(include.join(name)).unwrap(), text, "{name}");
        }
    }

    #[test]
    fn the_package_has_this_version() {
        assert!(CMAKE_FILES[1].1.contains(&format!("set(PACKAGE_VERSION \"{}\")", env!("CARGO_PKG_VERSION"))));
    }
}
