//! PTX of libraries: lifted, compiled with pipelines and assembled.
//!
//! `MNEME_LIFT_PTX` names a folder that contains a folder of PTX files for each library (`cuobjdump -xptx all` writes
//! such files), and `MNEME_LIFT_PTXAS` an assembler for them. Every file is lifted. `MNEME_LIFT_SECONDS` limits the
//! time for compiling and assembling, shared equally by the libraries; the table shows how many were done.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mneme_image::ptx::PtxModule;
use mneme_ptx::lift_program;

use super::{Lifted, assembly};

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

/// The assembler's complaint about PTX, if it has one.
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

/// The first words of instructions for which LLVM 19 has no operations: tensor cores, asynchronous copies, barriers in
/// shared memory, textures and surfaces.
const WITHOUT_OPERATIONS: [&str; 17] = [
    "cp", "ldmatrix", "mbarrier", "mma", "movmatrix", "multimem", "stmatrix", "suld", "suq", "sured", "sust",
    "tcgen05", "tex", "tld4", "txq", "wgmma", "wmma",
];

/// The results for a library.
#[derive(Default)]
struct Found {
    files: usize,
    kernels: usize,
    lifted: usize,
    /// Refused kernels, by reason.
    refused: BTreeMap<String, usize>,
    lines: usize,
    instructions: usize,
    /// Instructions that stay inline assembly, and those of them for which LLVM might have operations.
    kept: usize,
    avoidable: usize,
    lifting: Duration,
    /// The time for 10,000 lines, in the slowest file.
    slowest: Duration,
    /// The peak memory of a file in bytes.
    memory: u64,
    assembled: usize,
    broken: Vec<String>,
}

/// The peak memory of this process in bytes since the last call.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// The processor time of this thread, which other load does not affect.
fn own_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

impl Found {
    /// Lifts a file. A panic counts as broken.
    fn lift(&mut self, file: &Path) -> Option<Lifted> {
        let text = std::fs::read_to_string(file).unwrap();
        let own = PtxModule::parse(&text).kernels().count();
        let lines = text.lines().count();
        (self.files, self.kernels, self.lines) = (self.files + 1, self.kernels + own, self.lines + lines);
        peak_memory();
        let before = peak_memory();
        let start = own_time();
        let found = catch_unwind(AssertUnwindSafe(|| lift_program(&text)));
        let time = own_time() - start;
        self.memory = self.memory.max(peak_memory().saturating_sub(before));
        self.lifting += time;
        self.slowest = self.slowest.max(time.mul_f64(1e4 / lines.max(10_000) as f64));
        let Ok(found) = found else {
            self.broken.push(format!("{}: panics", file.display()));
            return None;
        };
        match found {
            Ok((lifted, without)) => {
                self.lifted += own - without.len();
                without.into_iter().for_each(|kernel| *self.refused.entry(kernel.1.what).or_default() += 1);
                self.instructions += lifted.statistics.instructions;
                self.kept += lifted.statistics.in_assembly();
                let is_avoidable =
                    |name: &str| name.split('.').next().is_none_or(|first| !WITHOUT_OPERATIONS.contains(&first));
                let of = lifted.statistics.assembly.iter().filter(|(name, _)| is_avoidable(name));
                self.avoidable += of.map(|(_, count)| count).sum::<usize>();
                Some(lifted)
            }
            Err(error) => {
                *self.refused.entry(format!("{error} ({})", file.display())).or_default() += own.max(1);
                None
            }
        }
    }

    /// A row of the table.
    fn row(&self, library: &str) -> String {
        let refused = self.refused.iter().map(|(reason, count)| format!("{count}: {reason}")).collect::<Vec<_>>();
        format!(
            "| {library} | {} | {} | {} | {} | {} | {:.2} % | {:.2} % | {:.1} ms | {:.1} ms | {} | {} |",
            self.files,
            self.kernels,
            self.lifted,
            if refused.is_empty() { "0".to_owned() } else { refused.join("; ") },
            self.lines,
            self.kept as f64 * 100.0 / self.instructions.max(1) as f64,
            self.avoidable as f64 * 100.0 / self.instructions.max(1) as f64,
            self.lifting.as_secs_f64() * 1e7 / self.lines.max(1) as f64,
            self.slowest.as_secs_f64() * 1e3,
            self.memory >> 20,
            self.assembled,
        )
    }
}

#[test]
fn ptx_of_libraries_is_lifted_and_assembled() {
    let Some(source) = std::env::var_os("MNEME_LIFT_PTX") else {
        return eprintln!("PTX of libraries: MNEME_LIFT_PTX names none, not run");
    };
    let source = Path::new(&source);
    let ptxas = std::env::var_os("MNEME_LIFT_PTXAS").map_or_else(|| "ptxas".into(), PathBuf::from);
    let seconds = std::env::var("MNEME_LIFT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1e9);
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    files(source, &mut all);
    let mut libraries: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in all {
        let inside = file.strip_prefix(source).unwrap();
        let library = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        libraries.entry(library).or_default().push(file);
    }
    let share = Duration::from_secs_f64(seconds / libraries.len().max(1) as f64);
    let mut assembly_of: BTreeMap<String, usize> = BTreeMap::new();
    let mut broken = Vec::new();
    eprintln!(
        "| library | files | kernels | lifted | refused | lines | inline assembly | avoidable | 10,000 lines, mean | worst | MiB | \
         assembled |"
    );
    for (library, files) in libraries {
        let (mut found, mut assembling) = (Found::default(), Duration::ZERO);
        // Consecutive files are alike, so the assembled ones lie far apart.
        let stride = (1..).find(|step| step * step >= files.len()).unwrap();
        for file in (0..stride).flat_map(|first| files.iter().skip(first).step_by(stride)) {
            let Some(lifted) = found.lift(file) else { continue };
            for (name, count) in &lifted.statistics.assembly {
                *assembly_of.entry(name.clone()).or_default() += count;
            }
            if assembling >= share {
                continue;
            }
            let clock = Instant::now();
            for pipeline in ["", "default<O3>"] {
                let ptx = lifted.finish(&assembly(&lifted.ir, pipeline));
                if let Some(complaint) = complaint(&ptxas, folder.path(), &ptx) {
                    found.broken.push(format!("{}, '{pipeline}': {complaint}", file.display()));
                }
            }
            assembling += clock.elapsed();
            found.assembled += 1;
        }
        eprintln!("{}", found.row(&library));
        broken.append(&mut found.broken);
    }
    let mut most: Vec<_> = assembly_of.into_iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    most.truncate(40);
    eprintln!("most of the inline assembly: {most:?}");
    assert!(broken.is_empty(), "{} fail: {broken:#?}", broken.len());
}
