//! Checks this installation's parts, and the compilers for which they work.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use mneme_builds::Target;
use mneme_builds::builders::Builders;
use mneme_builds::protocol::Question;
use mneme_system::install;
use mneme_system::toolkits;

use super::Check;

/// Time limit for a builder's answer.
const LIMIT: Duration = Duration::from_secs(60);
const AGAIN: &str = "install Mneme again, or set MNEME_HOME to a complete installation";

pub fn checks() -> Vec<Check> {
    let mut checks = vec![programs()];
    let (builders, assembler, versions) = builders();
    checks.push(builders);
    checks.extend(assembler);
    checks.push(clang(&clangs(), &versions));
    checks.push(toolkit());
    checks
}

/// The required programs and libraries.
fn programs() -> Check {
    let wanted = [install::RECORDER, install::REPLAYER, install::TUNER, install::COMPILER, install::CPU_DEVICE];
    let missing: Vec<&str> = wanted.into_iter().filter(|name| install::locate(name).is_none()).collect();
    let prefix = install::prefix().map_or_else(|| "?".into(), |prefix| prefix.display().to_string());
    if missing.is_empty() {
        return Check::ok("programs", format!("Mneme {} in {prefix}", env!("CARGO_PKG_VERSION")));
    }
    Check::missing("programs", format!("{} not in {prefix}", missing.join(", ")), AGAIN)
}

/// The builders, each started once; the assembler of the first; the working versions.
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
        // A broken builder is reported; Mneme never falls back to another one.
        Some(error) if maker.is_some() => Check::missing("builders", format!("{works}; {error}"), AGAIN),
        Some(error) => Check::missing("builders", error.clone(), AGAIN),
    };
    (check, maker.map(|name| assembler(&name)), versions)
}

fn assembler(name: &str) -> Check {
    if name.starts_with("the driver") {
        return Check::absent(
            "assembler",
            "neither nvPTXCompiler nor ptxas: the driver assembles PTX, which is slower and does not report spills",
            "run the installation's share/mneme/ptxcompiler once, or put CUDA's ptxas on PATH",
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
        "to make programs recordable, install clang 17 or later; existing recordings replay without it";
    // Missing builders are reported by their own check.
    let newest = builders.last().copied().unwrap_or(*install::LLVM_VERSIONS.end());
    let listed = |found: &[&(String, u32)]| {
        found.iter().map(|(name, version)| format!("{name} ({version})")).collect::<Vec<_>>().join(", ")
    };
    let (fit, other): (Vec<_>, Vec<_>) = found.iter().partition(|(_, version)| (17..=newest).contains(version));
    match other.iter().find(|(_, version)| *version > newest) {
        Some((name, version)) => Check::absent(
            "clang",
            match listed(&fit) {
                fit if fit.is_empty() => {
                    format!("{name} writes IR of LLVM {version}, which no installed builder reads")
                }
                fit => {
                    format!(
                        "{fit} fit the installed builders; {name} writes IR of LLVM {version}, which none of them reads"
                    )
                }
            },
            format!("install mneme-build-{version}, or compile with an older clang"),
        ),
        None if fit.is_empty() => Check::absent("clang", "no clang 17 or later is on PATH", INSTALL),
        None => Check::ok("clang", listed(&fit)),
    }
}

/// CUDA's headers, for programs that are compiled on this machine.
fn toolkit() -> Check {
    match toolkits::toolkits().into_iter().find(|root| root.join("include/cuda_runtime.h").is_file()) {
        Some(root) => Check::ok("toolkit", root.display().to_string()),
        None => Check::absent(
            "toolkit",
            "no CUDA toolkit is found",
            "to compile CUDA programs here, set CUDA_PATH to a toolkit; replaying needs none",
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
        assert!(of(&[("clang", 15)]).detail.contains("no clang 17"));
        let newer = of(&[("clang-19", 19), ("clang", 23)]);
        assert_eq!(newer.state, CheckState::Absent);
        assert!(newer.detail.contains("LLVM 23") && newer.remedy.unwrap().contains("mneme-build-23"));
        assert_eq!(clang_version("Debian clang version 19.1.7 (3~deb12u1)\nTarget: x"), Some(19));
        assert_eq!(clang_version("gcc"), None);
    }
}
