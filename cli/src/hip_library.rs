//! A library in the place of HIP's, for programs on the CPU device of a machine without ROCm.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use mneme_core::image::elf::{MappedFile, Needs};
use mneme_core::image::stand_in;
use tempfile::TempDir;

/// Beginning of the names of HIP's libraries, behind which is a number.
const NAME: &str = "libamdhip64.so.";

/// A folder with what is missing, for as long as the program runs.
pub struct HipLibrary(TempDir);

impl HipLibrary {
    /// What a program needs that the dynamic loader does not find.
    pub fn missing(program: &Path, needs: &Needs) -> std::io::Result<Option<Self>> {
        let Some(name) = needs.libraries.iter().find(|library| library.starts_with(NAME)) else { return Ok(None) };
        if !is_missing(program, name) {
            return Ok(None);
        }
        let folder = tempfile::Builder::new().prefix("mneme-hip-").tempdir()?;
        std::fs::write(folder.path().join(name), stand_in::library(name, &versions(program)))?;
        Ok(Some(Self(folder)))
    }

    /// `LD_LIBRARY_PATH` with the folder behind what is there already.
    pub fn path(&self, existing: Option<OsString>) -> OsString {
        let mut path = existing.filter(|existing| !existing.is_empty()).unwrap_or_default();
        if !path.is_empty() {
            path.push(":");
        }
        path.push(self.0.path());
        path
    }
}

/// Asks the loader of a program, which lists its libraries and does not run it.
fn is_missing(program: &Path, library: &str) -> bool {
    let mut loader = Command::new(program);
    loader.env("LD_TRACE_LOADED_OBJECTS", "1").stdin(Stdio::null()).stderr(Stdio::null());
    let listed = loader.output().map(|output| output.stdout).unwrap_or_default();
    listed.split(|byte| *byte == b'\n').any(|line| {
        let line = std::ffi::OsStr::from_bytes(line).to_string_lossy();
        line.trim_start().starts_with(library) && line.contains("not found")
    })
}

/// The versions of HIP's symbols: those that have been there until now, for libraries of the program, and those that
/// the program names.
fn versions(program: &Path) -> Vec<String> {
    let known = [(4, 2..=5), (5, 0..=7), (6, 0..=5), (7, 0..=9)];
    let mut versions: Vec<String> =
        known.into_iter().flat_map(|(major, minors)| minors.map(move |minor| format!("hip_{major}.{minor}"))).collect();
    let named = MappedFile::open(program).map(|file| stand_in::versions_named(file.bytes(), NAME)).unwrap_or_default();
    for version in named {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::image::elf::needs;

    #[test]
    fn programs_that_need_no_hip_get_nothing() {
        let own = std::env::current_exe().unwrap();
        let file = MappedFile::open(&own).unwrap();
        assert!(HipLibrary::missing(&own, &needs(file.bytes())).unwrap().is_none());
    }

    #[test]
    fn the_library_of_a_program_without_rocm_is_made_up() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::write(here.join("versions"), "hip_4.2 { global: f; local: *; }; hip_99.1 { global: g; } hip_4.2;")
            .unwrap();
        let compile = |source: &str, arguments: &[&str]| {
            std::fs::write(here.join("source.c"), source).unwrap();
            let compiler = Command::new("cc").current_dir(here).arg("source.c").args(arguments).status();
            compiler.is_ok_and(|status| status.success())
        };
        let link = "-Wl,-soname,libamdhip64.so.5,--version-script,versions";
        if !compile(
            "int f(void) { return 1; } int g(void) { return 2; }",
            &["-shared", "-fPIC", "-o", "libone.so", link],
        ) {
            eprintln!("no C compiler on this machine");
            return;
        }
        assert!(compile(
            "int f(void), g(void); int main(void) { return f() + g(); }",
            &["-o", "program", "-L.", "-lone"]
        ));
        let program = here.join("program");
        assert!(versions(&program).contains(&"hip_99.1".into()) && versions(&program).contains(&"hip_6.0".into()));
        assert!(!is_missing(&program, "libamdhip64.so.99"));
        let needs = Needs { libraries: vec!["libamdhip64.so.5".into()], ..Needs::default() };
        // Where HIP 5 is installed, nothing is missing.
        if let Some(library) = HipLibrary::missing(&program, &needs).unwrap() {
            let path = library.path(Some("/a".into()));
            assert!(path.as_bytes().starts_with(b"/a:/") && library.0.path().join("libamdhip64.so.5").is_file());
        }
    }
}
