//! PTX of libraries: lifted, compiled under pipelines and assembled.
//!
//! `MNEME_LIFT_PTX` names a folder with PTX files (`cuobjdump -xptx all` writes some), and `MNEME_LIFT_PTXAS` an
//! assembler that takes them. `MNEME_LIFT_SECONDS` ends the test after that time; it says how far it came.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mneme_core::image::ptx::PtxModule;

use super::{assembly, lift_program};

/// The PTX files in a folder and below it.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            files(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "ptx") {
            found.push(entry);
        }
    }
}

/// What an assembler says of PTX; nothing where it takes it.
fn complaint(ptxas: &Path, folder: &Path, text: &str) -> Option<String> {
    let target = text.lines().find_map(|line| line.strip_prefix(".target ")).expect("a target");
    let architecture = target.split(',').next().unwrap_or(target).trim();
    let file = folder.join("lifted.ptx");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(ptxas);
    let output = command.args(["-O0", "-arch", architecture, "-o", "/dev/null"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then(|| said.lines().next().unwrap_or("nothing").to_owned())
}

#[test]
fn ptx_of_libraries_is_lifted_and_assembled() {
    let Some(source) = std::env::var_os("MNEME_LIFT_PTX") else {
        return eprintln!("PTX of libraries: MNEME_LIFT_PTX names none, not run");
    };
    let ptxas = std::env::var_os("MNEME_LIFT_PTXAS").map_or_else(|| "ptxas".into(), PathBuf::from);
    let seconds = std::env::var("MNEME_LIFT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds));
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    files(Path::new(&source), &mut all);
    let (mut done, mut kernels, mut instructions, mut kept) = (0, 0, 0, 0);
    let (mut refused, mut assembly_of): (BTreeMap<String, usize>, BTreeMap<String, usize>) = Default::default();
    let (mut broken, mut lifting, mut bytes) = (Vec::new(), Duration::ZERO, 0);
    for file in &all {
        if start.elapsed() > limit {
            break;
        }
        done += 1;
        let text = std::fs::read_to_string(file).unwrap();
        let own = PtxModule::parse(&text).kernels().count();
        kernels += own;
        bytes += text.len();
        let clock = Instant::now();
        let found = lift_program(&text);
        lifting += clock.elapsed();
        let (lifted, without) = match found {
            Ok(found) => found,
            Err(error) => {
                *refused.entry(error.what).or_default() += own.max(1);
                continue;
            }
        };
        without.into_iter().for_each(|kernel| *refused.entry(kernel.reason).or_default() += 1);
        instructions += lifted.statistics.instructions;
        kept += lifted.statistics.in_assembly();
        for (name, count) in &lifted.statistics.assembly {
            *assembly_of.entry(name.clone()).or_default() += count;
        }
        for pipeline in ["", "default<O3>"] {
            let ptx = lifted.finish(&assembly(&lifted.ir, pipeline));
            if let Some(complaint) = complaint(&ptxas, folder.path(), &ptx) {
                broken.push(format!("{}, '{pipeline}': {complaint}", file.display()));
            }
        }
    }
    let mut most: Vec<_> = assembly_of.into_iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    most.truncate(40);
    eprintln!(
        "{done} of {} files, {kernels} kernels, {:.1} MB in {:.1} s",
        all.len(),
        bytes as f64 / 1e6,
        lifting.as_secs_f64()
    );
    eprintln!("{instructions} instructions, {kept} stay assembly: {most:?}");
    eprintln!("refused kernels: {} {refused:#?}", refused.values().sum::<usize>());
    assert!(broken.is_empty(), "{} of {done} do not assemble: {broken:#?}", broken.len());
}
