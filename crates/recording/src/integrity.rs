//! Checks a recording: reads all of it and names its damaged files.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use mneme_model::hash::{ChunkId, checksum};
use mneme_system::files::regular;

use super::database::{CodeFile, InstanceRecord, KernelRecord, kernels};
use super::manifest::{MemoryState, is_manifest};
use super::moments::{self, Moments};
use super::pack::{self, PackReader};
use super::rules::Rules;
use super::store::{self, Store};
use crate::error::RecordingError;

/// The result of a check.
#[derive(Debug, Default)]
pub struct CheckReport {
    pub kernels: usize,
    /// Intact instances, which have everything that a replay needs.
    pub instances: usize,
    /// Bytes of the files read.
    pub bytes: u64,
    /// Damaged or missing parts, each reported once.
    pub problems: Vec<RecordingError>,
}

/// Reads every kernel, instance, code file and pack of a recording folder.
pub fn check(folder: &Path) -> Result<CheckReport, RecordingError> {
    check_kernels(folder, &kernels(folder)?)
}

/// Reads these kernels' files, and every pack of their folder.
pub fn check_kernels(folder: &Path, kernels: &[PathBuf]) -> Result<CheckReport, RecordingError> {
    let mut report = CheckReport::default();
    for path in pack::files(&folder.join(store::FOLDER))? {
        report.bytes += length(&path);
        report.problems.extend(PackReader::open(&path).and_then(|(reader, _)| reader.check()).err());
    }
    let store = Store::open(folder);
    // A pack that cannot be opened is already reported; without it, chunks cannot be found.
    let store = store.ok();
    let mut known = HashSet::new();
    let mut originals: HashMap<CodeFile, bool> = HashMap::new();
    for path in kernels {
        report.kernels += 1;
        report.bytes += length(path);
        let record = match KernelRecord::load(path) {
            Ok(record) => record,
            Err(error) => {
                report.problems.push(error);
                continue;
            }
        };
        let rules = Rules::load(path).map_err(|error| report.problems.push(error)).is_ok();
        let code = check_code(folder, &record, &mut report) && rules;
        for instance in record.instances.values() {
            let mut original = true;
            for code in &instance.ours.original {
                // Instances share the original code.
                original &= *originals
                    .entry(code.clone())
                    .or_insert_with(|| check_file(&folder.join(&code.file), Some(code.checksum), &mut report));
            }
            let state = check_instance(folder, &record, instance, store.as_ref(), &mut known, &mut report);
            report.instances += usize::from(code && original && state);
        }
    }
    // Instances share chunks, and the pack's check also reports a damaged one.
    let mut said = HashSet::new();
    report.problems.retain(|problem| said.insert(problem.to_string()));
    Ok(report)
}

/// Whether the kernel's code files are unchanged.
fn check_code(folder: &Path, record: &KernelRecord, report: &mut CheckReport) -> bool {
    let sums = record.ours.module_checksums.iter().copied().map(Some).chain(std::iter::repeat(None));
    let files = record.modules.iter().chain(&record.binary_blobs).zip(sums);
    files.fold(true, |whole, (name, sum)| check_file(&folder.join(name), sum, report) && whole)
}

/// Whether a file can be read and has this sum, if known.
fn check_file(path: &Path, sum: Option<u64>, report: &mut CheckReport) -> bool {
    report.bytes += length(path);
    let problem = match regular::read(path) {
        Ok(bytes) if sum.is_none_or(|sum| sum == checksum(&bytes)) => return true,
        Ok(_) => RecordingError::damaged(path, "its checksum does not match"),
        Err(error) => RecordingError::io(path)(error),
    };
    report.problems.push(problem);
    false
}

/// Whether both manifests of an instance, and every chunk in them, can be read.
fn check_instance(
    folder: &Path,
    record: &KernelRecord,
    instance: &InstanceRecord,
    store: Option<&Store>,
    known: &mut HashSet<ChunkId>,
    report: &mut CheckReport,
) -> bool {
    let before = report.problems.len();
    if is_manifest(&folder.join(&instance.prologue)).is_ok_and(|ours| !ours) {
        // A snapshot of the existing Mneme lacks checksums, so this only checks that it can be read.
        report.bytes += length(&folder.join(&instance.prologue)) + length(&folder.join(&instance.epilogue));
        report.problems.extend(Moments::open(folder, record, instance).err());
        return report.problems.len() == before;
    }
    let names = [&instance.prologue, &instance.epilogue];
    report.bytes += names.iter().map(|name| length(&folder.join(name))).sum::<u64>();
    let states =
        names.map(|name| MemoryState::load(&folder.join(name)).map_err(|error| report.problems.push(error)).ok());
    if let [Some(prologue), Some(epilogue)] = &states {
        report.problems.extend(moments::check_pair(folder, instance, prologue, epilogue).err());
    }
    for state in states.into_iter().flatten() {
        let Some(store) = store else { continue };
        for region in state.regions() {
            for (index, id) in region.chunks.iter().enumerate() {
                if known.contains(id) {
                    continue;
                }
                let mut bytes = vec![0; region.extent(index).1 as usize];
                match store.read_chunk(id, &mut bytes) {
                    Ok(()) => {
                        known.insert(*id);
                    }
                    Err(error) => {
                        report.problems.push(error);
                        break;
                    }
                }
            }
        }
    }
    report.problems.len() == before && store.is_some()
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
