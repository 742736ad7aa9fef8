//! The parts of ROCm on this machine that a compiler does not find by itself.
//!
//! Distributions have ROCm's parts in folders of their own: Debian's clang 19 does not know where Debian's device
//! libraries are, and Debian's hipcc runs clang 15 by a name with its version in it. Both read the environment, which
//! reaches the compiler whoever starts it and leaves the command line as the user wrote it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use mneme_builds::toolkits;
use tempfile::TempDir;

use crate::process::{code, quoted};
use crate::{ACTIVE, family, wrapper};

/// Where hipcc looks for clang.
const CLANG_FOLDER: &str = "HIP_CLANG_PATH";
/// Where clang looks for the device libraries first.
const LIBRARIES: &str = "HIP_DEVICE_LIB_PATH";
/// The names that hipcc has for its clang; that of a distribution has the version in it.
const CLANG_NAMES: [&str; 2] = ["clang++", "clang"];
const CLANG_SUFFIXES: std::ops::RangeInclusive<u32> = 14..=22;

/// A compiler as we start it: the program, and what its environment has besides ours.
#[derive(Debug)]
pub struct Driver {
    pub program: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    /// The link options by which clang adds HIP's runtime to a link of HIP sources.
    pub runtime: Vec<OsString>,
    /// The folder with the names under which hipcc finds a clang.
    names: Option<TempDir>,
}

impl Driver {
    /// For a command line without HIP sources.
    pub fn plain(program: &Path) -> Self {
        Self { program: program.to_owned(), environment: Vec::new(), runtime: Vec::new(), names: None }
    }

    /// For a command line with HIP sources.
    pub fn of_hip(program: &Path, arguments: &[OsString], is_hipcc: bool) -> anyhow::Result<Self> {
        let mut driver = Self::plain(program);
        let mut said = driver.ask(arguments);
        // Debian 12's own clang, of version 15, writes no version of the code object into the IR, and a replay would
        // choose another. One that is newer than our LLVM is left to hipcc, too: its headers and device libraries are
        // not for ours, and a program without IR is better than none.
        if is_hipcc
            && std::env::var_os(CLANG_FOLDER).is_none()
            && major(&said).is_none_or(|version| version < wrapper::OLDEST_CLANG)
        {
            // Where there is no clang, hipcc says itself what it misses.
            if let Some(clang) = wrapper::find("++") {
                driver.choose(&clang)?;
                said = driver.ask(arguments);
            }
        }
        if said.contains("cannot find ROCm device library")
            && let Some(folder) = major(&said).and_then(toolkits::device_libraries)
        {
            driver.environment.push((LIBRARIES, folder.into()));
        }
        driver.runtime = runtime(&said);
        Ok(driver)
    }

    /// The compiler, which leaves its job to no other wrapper of ours.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env(ACTIVE, "1").envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the compiler for a job that is none of ours.
    pub fn pass_through(&self, arguments: &[OsString]) -> anyhow::Result<u8> {
        let mut command = self.command();
        command.args(arguments);
        if self.names.is_none() {
            return family::become_it(&mut command, &self.program);
        }
        let status = command.status().with_context(|| format!("{} cannot be run", self.program.display()))?;
        Ok(code(status))
    }

    /// What clang says that it is, would do, and misses.
    fn ask(&self, arguments: &[OsString]) -> String {
        let run = self.command().args(arguments).arg("-###").stdin(Stdio::null()).output();
        run.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default()
    }

    /// Has hipcc run `clang`: it looks in a folder for the name of its version's clang, and beside that folder for
    /// clang's own libraries.
    fn choose(&mut self, clang: &Path) -> anyhow::Result<()> {
        let clang = std::fs::canonicalize(clang).unwrap_or_else(|_| clang.to_owned());
        let whole =
            tempfile::Builder::new().prefix("mneme-cc-").tempdir().context("no temporary folder can be made")?;
        let (programs, resources) = (whole.path().join("bin"), whole.path().join("lib/clang"));
        let link = |to: &Path, at: PathBuf| {
            std::os::unix::fs::symlink(to, &at).with_context(|| format!("{} cannot be made", at.display()))
        };
        for folder in [&programs, &resources] {
            std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        let suffixes = CLANG_SUFFIXES.map(|version| format!("-{version}"));
        for suffix in suffixes.chain([String::new()]) {
            for name in CLANG_NAMES {
                link(&clang, programs.join(format!("{name}{suffix}")))?;
            }
        }
        let answer = |option: &str| {
            let run = Command::new(&clang).arg(option).env(ACTIVE, "1").stdin(Stdio::null()).output().ok()?;
            Some(String::from_utf8_lossy(&run.stdout).trim().to_owned())
        };
        if let (Some(folder), Some(version)) = (answer("-print-resource-dir"), answer("-dumpversion")) {
            link(Path::new(&folder), resources.join(version))?;
        }
        self.environment.push((CLANG_FOLDER, programs.into()));
        self.names = Some(whole);
        Ok(())
    }
}

/// 15 of "Debian clang version 15.0.6", wherever it stands.
fn major(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("clang version ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The options in clang's link command that stand for HIP's runtime: where it is, and its name.
fn runtime(said: &str) -> Vec<OsString> {
    let Some(words) = said.lines().map(quoted).rfind(|words| words.iter().any(|word| word == RUNTIME)) else {
        return Vec::new();
    };
    let end = words.iter().position(|word| word == RUNTIME).unwrap_or(0);
    let is_path = |word: &String| word.starts_with("-L");
    let mut options = Vec::new();
    match &words[..end] {
        [.., folder, option, path] if is_path(folder) && option == "-rpath" => {
            options.extend([folder.into(), format!("-Wl,-rpath,{path}").into()]);
        }
        [.., folder] if is_path(folder) => options.push(folder.into()),
        _ => {}
    }
    options.push(RUNTIME.into());
    options
}

const RUNTIME: &str = "-lamdhip64";

/// Whether hipcc runs another compiler than clang, as the environment says.
pub fn is_for_nvidia() -> bool {
    std::env::var_os("HIP_PLATFORM").is_some_and(|platform| ["nvidia", "nvcc"].iter().any(|name| platform == *name))
}

/// Whether hipcc takes C++ sources for HIP.
pub fn takes_cxx() -> bool {
    std::env::var_os("HIP_COMPILE_CXX_AS_HIP").as_deref() != Some(OsStr::new("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_clang_is_read_off_what_it_says() {
        for (text, version) in [
            ("Debian clang version 15.0.6\nTarget: x86_64-pc-linux-gnu\n", Some(15)),
            ("AMD clang version 18.0.0git (https://github.com/RadeonOpenCompute/llvm-project)", Some(18)),
            ("HIP version: 6.0\nsh: 1: clang++: not found", None),
            ("clang version ", None),
        ] {
            assert_eq!(major(text), version, "{text}");
        }
    }

    #[test]
    fn hips_runtime_is_what_clang_links() {
        let link = |words: &str| {
            let words: Vec<String> = words.split(' ').map(|word| format!("\"{word}\"")).collect();
            runtime(&format!("clang version 19\n \"clang\" \"-cc1\"\n {}\n", words.join(" ")))
        };
        assert_eq!(link("ld -L/lib v.o -L/opt/rocm/lib -lamdhip64 -lc"), ["-L/opt/rocm/lib", "-lamdhip64"]);
        assert_eq!(
            link("ld v.o -L/opt/rocm/lib -rpath /opt/rocm/lib -lamdhip64"),
            ["-L/opt/rocm/lib", "-Wl,-rpath,/opt/rocm/lib", "-lamdhip64"]
        );
        assert_eq!(link("ld v.o -lamdhip64"), ["-lamdhip64"]);
        assert!(link("ld v.o -lm").is_empty());
    }
}
