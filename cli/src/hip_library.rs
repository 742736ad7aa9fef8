//! Libraries that replace HIP's, for programs on the CPU device.

use std::ffi::OsString;
use std::path::Path;

use mneme_device::hip::LIBRARIES;
use mneme_image::elf::{MappedFile, Needs};
use mneme_image::stub;
use tempfile::TempDir;

/// Prefix of the names of HIP's libraries, before a number.
const NAME: &str = "libamdhip64.so.";
/// The name with which programs are linked, and which some load.
const WITHOUT_NUMBER: &str = "libamdhip64.so";

/// A folder with libraries under HIP's names, which must live as long as the program runs.
pub struct HipLibrary(TempDir);

impl HipLibrary {
    /// Makes libraries that lead to the CPU device, whether ROCm is installed or not.
    pub fn of_cpu_device(program: &Path, needs: &Needs, device: &Path) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("mneme-hip-").tempdir()?;
        let versions = versions(program);
        let needed = needs.libraries.iter().map(String::as_str).filter(|library| library.starts_with(NAME));
        for name in LIBRARIES.into_iter().chain([WITHOUT_NUMBER]).chain(needed) {
            std::fs::write(folder.path().join(name), stub::library(name, &versions, device.to_str()))?;
        }
        Ok(Self(folder))
    }

    /// `LD_LIBRARY_PATH` with this folder first.
    pub fn path(&self, existing: Option<OsString>) -> OsString {
        let mut path = self.0.path().as_os_str().to_owned();
        if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
            path.push(":");
            path.push(existing);
        }
        path
    }
}

/// The versions of HIP's symbols: all existing ones, for libraries of the program, and those that the program names.
fn versions(program: &Path) -> Vec<String> {
    let known = [(4, 2..=5), (5, 0..=7), (6, 0..=5), (7, 0..=9)];
    let mut versions: Vec<String> =
        known.into_iter().flat_map(|(major, minors)| minors.map(move |minor| format!("hip_{major}.{minor}"))).collect();
    let named = MappedFile::open(program).map(|file| stub::versions_named(file.bytes(), NAME)).unwrap_or_default();
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
    use mneme_image::elf::needs as needs_of;
    use std::process::Command;

    #[test]
    fn programs_find_the_device_under_hips_names() {
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
            mneme_fixtures::skip("no C compiler on this machine");
            return;
        }
        assert!(compile(
            "int f(void), g(void); int main(void) { return f() + g(); }",
            &["-o", "program", "-L.", "-lone"]
        ));
        let program = here.join("program");
        assert!(versions(&program).contains(&"hip_99.1".into()) && versions(&program).contains(&"hip_6.0".into()));
        let needs = Needs { libraries: vec!["libamdhip64.so.5".into(), "libamdhip64.so.9".into()], ..Needs::default() };
        let library = HipLibrary::of_cpu_device(&program, &needs, Path::new("/x/device.so")).unwrap();
        let path = library.path(Some("/a".into())).into_string().unwrap();
        assert!(path.ends_with(":/a"), "{path}");
        for name in ["libamdhip64.so", "libamdhip64.so.5", "libamdhip64.so.7", "libamdhip64.so.9"] {
            let file = MappedFile::open(&library.0.path().join(name)).unwrap();
            assert_eq!(needs_of(file.bytes()).libraries, ["/x/device.so"], "{name}");
        }
    }
}
