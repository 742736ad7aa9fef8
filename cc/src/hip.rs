//! The parts of ROCm on this machine that a compiler does not find by itself.
//!
//! Distributions install ROCm's parts in separate folders. Debian's clang 19 does not find Debian's device libraries,
//! and Debian's hipcc runs clang 15 by a name with its version in it. Both read the environment, which reaches the
//! compiler however it is started, and leaves the command line unchanged.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use mneme_system::toolkits::{self, LIBRARIES_VARIABLE, clang_version};
use tempfile::TempDir;

use crate::process::ACTIVE;
use crate::process::{code, quoted};
use crate::{family, wrapper};

/// The variable with the folder in which hipcc looks for clang.
const CLANG_FOLDER: &str = "HIP_CLANG_PATH";
/// The names by which hipcc calls its clang. Distributions append the version.
const CLANG_NAMES: [&str; 2] = ["clang++", "clang"];
const CLANG_SUFFIXES: std::ops::RangeInclusive<u32> = 14..=22;

/// A compiler with additions to its environment.
#[derive(Debug)]
pub struct Driver {
    pub program: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    /// The link options with which clang adds HIP's runtime to a link of HIP sources.
    pub runtime: Vec<OsString>,
    /// The folder with the names by which hipcc finds a clang.
    names: Option<TempDir>,
}

impl Driver {
    /// The driver for a command line without HIP sources.
    pub fn plain(program: &Path) -> Self {
        Self { program: program.to_owned(), environment: Vec::new(), runtime: Vec::new(), names: None }
    }

    /// The driver for a command line with HIP sources.
    pub fn of_hip(program: &Path, arguments: &[OsString], is_hipcc: bool) -> anyhow::Result<Self> {
        let mut driver = Self::plain(program);
        let mut said = driver.ask(arguments);
        // Debian 12's clang 15 writes no code object version into the IR, so a replay would choose another one. A clang
        // that is newer than Mneme's LLVM is kept: its headers and device libraries do not fit an older clang, and a
        // program without IR is better than none.
        if is_hipcc
            && std::env::var_os(CLANG_FOLDER).is_none()
            && clang_version(&said).is_none_or(|version| version < wrapper::OLDEST_CLANG)
        {
            // Without a clang, hipcc itself reports what it lacks.
            if let Some(clang) = wrapper::find("++") {
                driver.choose(&clang)?;
                said = driver.ask(arguments);
            }
        }
        if said.contains("cannot find ROCm device library")
            && let Some(folder) = clang_version(&said).and_then(toolkits::device_libraries)
        {
            driver.environment.push((LIBRARIES_VARIABLE, folder.into()));
        }
        driver.runtime = runtime(&said);
        Ok(driver)
    }

    /// The compiler's command. It marks the job as done, so another mneme-cc in front of the compiler does not repeat
    /// it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env(ACTIVE, "1").envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the compiler for a job without IR.
    pub fn pass_through(&self, arguments: &[OsString]) -> anyhow::Result<u8> {
        let mut command = self.command();
        command.args(arguments);
        if self.names.is_none() {
            return family::become_it(&mut command, &self.program);
        }
        let status = command.status().with_context(|| format!("{} cannot be run", self.program.display()))?;
        Ok(code(status))
    }

    /// Asks clang for its version, its commands, and its errors.
    fn ask(&self, arguments: &[OsString]) -> String {
        let run = self.command().args(arguments).arg("-###").stdin(Stdio::null()).output();
        run.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default()
    }

    /// Makes hipcc run `clang`: hipcc looks in a folder for the name of its version's clang, and beside that folder for
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

/// The options in clang's link command that add HIP's runtime: its folder and its name.
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

/// Whether the environment makes hipcc run a compiler other than clang.
pub fn is_for_nvidia() -> bool {
    std::env::var_os("HIP_PLATFORM").is_some_and(|platform| ["nvidia", "nvcc"].iter().any(|name| platform == *name))
}

/// Whether hipcc treats C++ sources as HIP.
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
            assert_eq!(clang_version(text), version, "{text}");
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
