//! Checks of this installation's own parts, and of the compilers that they work with.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use mneme_builds::builders::Builders;
use mneme_builds::protocol::Question;
use mneme_builds::{Target, toolkits};
use mneme_core::install;

use super::Check;

/// A builder says what makes machine code in seconds at most.
const LIMIT: Duration = Duration::from_secs(60);
const AGAIN: &str = "install Mneme again, or name an installation in MNEME_HOME";

pub fn checks() -> Vec<Check> {
    let mut checks = vec![programs()];
    let (builders, assembler, versions) = builders();
    checks.push(builders);
    checks.extend(assembler);
    checks.push(clang(&clangs(), &versions));
    checks.push(toolkit());
    checks
}

/// The programs and libraries without which nothing goes.
fn programs() -> Check {
    let wanted = [install::RECORDER, install::REPLAYER, install::TUNER, install::COMPILER, install::CPU_DEVICE];
    let missing: Vec<&str> = wanted.into_iter().filter(|name| install::locate(name).is_none()).collect();
    let prefix = install::prefix().map_or_else(|| "?".into(), |prefix| prefix.display().to_string());
    if missing.is_empty() {
        return Check::ok("programs", format!("Mneme {} in {prefix}", env!("CARGO_PKG_VERSION")));
    }
    Check::missing("programs", format!("{} not in {prefix}", missing.join(", ")), AGAIN)
}

/// The builders, each started once; what makes machine code in the first; the versions that work.
fn builders() -> (Check, Option<Check>, Vec<u32>) {
    let found = match Builders::find() {
        Ok(found) => found,
        Err(error) => return (Check::missing("builders", error.to_string(), AGAIN), None, Vec::new()),
    };
    let (mut works, mut versions, mut broken, mut maker) = (Vec::new(), Vec::new(), Vec::new(), None);
    for version in found.versions() {
        let Ok(program) = found.of(version) else { continue };
        let target = Target::Nvptx { arch: "sm_90".into() };
        match program.ask::<String>(Question::Maker { target }, &[], LIMIT) {
            Ok((name, _)) => {
                maker.get_or_insert(name);
                versions.push(version);
                works.push(program.known_llvm().unwrap_or_default().to_owned());
            }
            Err(error) => broken.push(error.to_string()),
        }
    }
    let works = format!("LLVM {}", works.join(", "));
    let check = match broken.first() {
        None => Check::ok("builders", works),
        // Nothing takes the place of one that is there and does not work.
        Some(error) if maker.is_some() => Check::missing("builders", format!("{works}; {error}"), AGAIN),
        Some(error) => Check::missing("builders", error.clone(), AGAIN),
    };
    (check, maker.map(|name| assembler(&name)), versions)
}

fn assembler(name: &str) -> Check {
    if name.starts_with("the driver") {
        return Check::absent(
            "assembler",
            "neither nvPTXCompiler nor ptxas: the driver assembles PTX, slower and without telling of spills",
            "run share/mneme/ptxcompiler of the installation once, or put CUDA's ptxas on PATH",
        );
    }
    Check::ok("assembler", name)
}

/// The clangs on the search path, as name and major version.
fn clangs() -> Vec<(String, u32)> {
    let mut names = vec!["clang".to_owned(), "hipcc".to_owned(), "amdclang".to_owned()];
    names.extend((13..=*install::LLVM_VERSIONS.end() + 4).map(|version| format!("clang-{version}")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let there = |name: &String| folders.iter().any(|folder| folder.join(name).is_file());
    let version = |name: String| {
        let output = Command::new(&name).arg("--version").output().ok()?;
        let version = clang_version(&String::from_utf8_lossy(&output.stdout))?;
        Some((name, version))
    };
    names.into_iter().filter(there).filter_map(version).collect()
}

/// 19 of "Debian clang version 19.1.7".
fn clang_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("clang version ")?;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

fn clang(found: &[(String, u32)], builders: &[u32]) -> Check {
    const INSTALL: &str =
        "install a clang of version 17 or later to make programs recordable; what is recorded already replays without";
    // What is missing is said of the builders then.
    let newest = builders.last().copied().unwrap_or(*install::LLVM_VERSIONS.end());
    let listed = |found: &[&(String, u32)]| {
        found.iter().map(|(name, version)| format!("{name} ({version})")).collect::<Vec<_>>().join(", ")
    };
    let (fit, other): (Vec<_>, Vec<_>) = found.iter().partition(|(_, version)| (17..=newest).contains(version));
    match other.iter().find(|(_, version)| *version > newest) {
        Some((name, version)) => Check::absent(
            "clang",
            match listed(&fit) {
                fit if fit.is_empty() => format!("IR of {name} is of LLVM {version}, which no builder here reads"),
                fit => {
                    format!("{fit} compile for the builders here; IR of {name} is of LLVM {version}, which none reads")
                }
            },
            format!("install mneme-build-{version}, or compile with an older clang"),
        ),
        None if fit.is_empty() => Check::absent("clang", "no clang of version 17 or later is on PATH", INSTALL),
        None => Check::ok("clang", listed(&fit)),
    }
}

/// CUDA's headers, for programs that are compiled here.
fn toolkit() -> Check {
    match toolkits::toolkits().into_iter().find(|root| root.join("include/cuda_runtime.h").is_file()) {
        Some(root) => Check::ok("toolkit", root.display().to_string()),
        None => Check::absent(
            "toolkit",
            "no CUDA toolkit is found",
            "set CUDA_PATH to one where CUDA programs are to be compiled; replaying needs none",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckState;

    #[test]
    fn a_clang_that_no_builder_reads_is_named() {
        let of = |found: &[(&str, u32)]| {
            let found: Vec<_> = found.iter().map(|(name, version)| ((*name).to_owned(), *version)).collect();
            clang(&found, &[19, 22])
        };
        assert_eq!(of(&[("clang-19", 19), ("clang", 22)]).state, CheckState::Ok);
        assert!(of(&[("clang", 15)]).detail.contains("no clang of version 17"));
        let newer = of(&[("clang-19", 19), ("clang", 23)]);
        assert_eq!(newer.state, CheckState::Absent);
        assert!(newer.detail.contains("clang is of LLVM 23") && newer.remedy.unwrap().contains("mneme-build-23"));
        assert_eq!(clang_version("Debian clang version 19.1.7 (3~deb12u1)\nTarget: x"), Some(19));
        assert_eq!(clang_version("gcc"), None);
    }
}
