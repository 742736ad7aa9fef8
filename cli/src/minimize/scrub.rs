//! Replaces recorded numbers by random ones with which the kernel behaves the same.
//!
//! Running the kernel on the new numbers gives the new epilogue. If new numbers in a region make the kernel touch other
//! memory or fail, that region keeps its data.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mneme_model::configuration::Changes;
use mneme_model::launch::Moment;
use mneme_model::observation::{Fault, TouchedRange};
use mneme_model::protocol::{Outputs, Reply, Request, Submission};
use mneme_model::result::ReplayStatus;
use mneme_model::units;
use mneme_recording::manifest::{MemoryState, RecordedRegion, pair};
use mneme_recording::numbers::{self, Width};
use mneme_recording::{Moments, RecordingError, housekeeping};

use super::Replayer;
use crate::error::CommandError;
use crate::selection::KernelFile;
use mneme_sandbox::program::{end_with_this_thread, survive_broken_pipes};

/// A copy of an instance that gets new numbers.
pub struct Copy<'a> {
    pub replayer: &'a Replayer,
    pub kernel: &'a KernelFile,
    pub id: &'a str,
    /// Folder for its versions.
    pub scratch: &'a Path,
}

pub struct ScrubOutcome {
    /// The folder of the copy.
    pub folder: PathBuf,
    /// Number of random bytes.
    pub replaced: u64,
    /// Number of other bytes as recorded, without zeros.
    pub left: u64,
}

/// The effect of a launch on memory.
#[derive(PartialEq)]
struct Behaviour {
    touched: Vec<TouchedRange>,
    /// Number of accesses outside of all allocations, if they can be watched.
    outside: Option<u64>,
}

/// The input for every version.
#[derive(Clone, Copy)]
struct Given<'a> {
    from: &'a Path,
    candidates: &'a [Candidate],
    /// Address ranges of the recorded memory, ascending and disjoint.
    addresses: &'a [Range<u64>],
    /// The behaviour of the recorded launch.
    behaviour: &'a Behaviour,
    seed: u64,
}

/// A region with numbers, by its index in the manifest.
struct Candidate {
    index: usize,
    address: u64,
    size: u64,
    width: Width,
}

impl Copy<'_> {
    /// Replaces as many numbers as the kernel tolerates. Leaves the recording in `from` unchanged.
    pub fn scrub(&self, from: &Path, seed: u64) -> Result<ScrubOutcome, CommandError> {
        let behaviour = self.behaviour(from)?.ok_or_else(|| CommandError::Unverified {
            what: format!("instance {} with its accesses watched", self.id),
            why: "it has no answer".into(),
        })?;
        let addresses = addresses(&self.moments(self.kernel.folder())?.prologue);
        let (candidates, data) = self.candidates(from, &addresses)?;
        let given = Given { from, candidates: &candidates, addresses: &addresses, behaviour: &behaviour, seed };
        let mut used: BTreeSet<usize> = BTreeSet::new();
        let all: BTreeSet<usize> = candidates.iter().map(|candidate| candidate.index).collect();
        let mut best = None;
        if !all.is_empty() {
            best = self.version(&given, &all)?;
        }
        if best.is_some() {
            used = all;
        } else if candidates.len() > 1 {
            for candidate in &candidates {
                let more = used.iter().copied().chain([candidate.index]).collect();
                if let Some(version) = self.version(&given, &more)? {
                    (best, used) = (Some(version), more);
                }
            }
        }
        for candidate in candidates.iter().filter(|candidate| !used.contains(&candidate.index)) {
            mneme_system::remark!(
                "mneme: {} at {:#x} keep their data: with other numbers there the kernel touches other memory",
                units::bytes(candidate.size),
                candidate.address
            );
        }
        if candidates.is_empty() {
            mneme_system::remark!(
                "mneme: {}: no memory looks like floating-point numbers",
                self.kernel.record.demangled_name
            );
        }
        let (folder, replaced) = best.unwrap_or_else(|| (from.into(), 0));
        Ok(ScrubOutcome { folder, replaced, left: data.saturating_sub(replaced) })
    }

    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(self.kernel.record.file_name())
    }

    /// The memory that a replay touches; `None` if it fails.
    fn behaviour(&self, folder: &Path) -> Result<Option<Behaviour>, CommandError> {
        let watched = self.replayer.replay(&self.file(folder), self.id, &["--touched"])?;
        let Some(touched) = watched.touched else { return Ok(None) };
        // `--touched` does not report accesses outside of the recorded memory.
        let checked = self.replayer.replay(&self.file(folder), self.id, &["--check"])?;
        let outside = checked.faults.map(|faults| {
            let outside = faults.findings.iter().filter(|finding| finding.fault == Fault::OutOfBounds);
            outside.map(|finding| finding.count).sum()
        });
        Ok(Some(Behaviour { touched: touched.ranges, outside }))
    }

    fn moments(&self, folder: &Path) -> Result<Moments, CommandError> {
        let (_, instance) = self.kernel.record.instance(&self.kernel.path, Some(self.id))?;
        Ok(Moments::open(folder, &self.kernel.record, instance)?)
    }

    /// The regions with numbers, and the number of bytes in nonzero words of all regions.
    fn candidates(&self, from: &Path, addresses: &[Range<u64>]) -> Result<(Vec<Candidate>, u64), CommandError> {
        let moments = self.moments(from)?;
        let store = moments.store(from)?;
        let (mut found, mut data) = (Vec::new(), 0);
        for (index, region) in moments.prologue.regions().enumerate() {
            // Constants belong to the code.
            if region.variable.is_some_and(|variable| variable.constant || variable.code) {
                continue;
            }
            let mut bytes = vec![0; region.size as usize];
            store.read_region(&region, &mut bytes)?;
            let words = bytes.chunks(4).filter(|word| word.iter().any(|byte| *byte != 0));
            data += words.map(|word| word.len() as u64).sum::<u64>();
            if let Some(width) = numbers::width(&bytes, addresses) {
                found.push(Candidate { index, address: region.address, size: region.size, width });
            }
        }
        Ok((found, data))
    }

    /// A version of the recording with new numbers in the wanted regions, and the number of new bytes; `None` if the
    /// kernel then behaves differently.
    fn version(&self, given: &Given<'_>, wanted: &BTreeSet<usize>) -> Result<Option<(PathBuf, u64)>, CommandError> {
        let Given { from, candidates, addresses, behaviour, seed } = *given;
        let folder = tempfile::tempdir_in(self.scratch)
            .map_err(|source| CommandError::Io { path: self.scratch.into(), source })?
            .keep();
        let (begun, done) = (folder.join("begun"), folder.join("done"));
        let replaced = std::cell::Cell::new(0);
        let hash = self.kernel.record.static_hash;
        housekeeping::copy_rewritten(from, &begun, hash, Some(self.id), |source, target, prologue, epilogue| {
            let mut given = HashSet::new();
            let regions: Vec<_> = prologue.regions().map(|region| (region.address, region.size)).collect();
            let mut chunks = Vec::new();
            for (index, region) in prologue.regions().enumerate() {
                let candidate = candidates.iter().find(|it| it.index == index && wanted.contains(&index));
                let Some(candidate) = candidate else { continue };
                let mut bytes = vec![0; region.size as usize];
                source.read_region(&region, &mut bytes)?;
                let own_seed = seed ^ region.address.rotate_left(32);
                replaced.set(replaced.get() + numbers::replace(&mut bytes, candidate.width, addresses, own_seed));
                let ids = target.put_region(&bytes)?;
                given.extend(ids.iter().copied());
                chunks.push((index, ids));
            }
            for (index, ids) in chunks {
                // The epilogue starts equal to the prologue, until the kernel has run.
                let of_epilogue = position(epilogue, regions[index]);
                epilogue.chunks[of_epilogue].clone_from(&ids);
                prologue.chunks[index] = ids;
            }
            pair(prologue, epilogue);
            Ok(given)
        })?;
        let Some(memory) = self.run(&begun, &folder.join("memory"))? else { return Ok(None) };
        housekeeping::copy_rewritten(&begun, &done, hash, Some(self.id), |_, target, prologue, epilogue| {
            let mut given = HashSet::new();
            let regions: Vec<_> = epilogue.regions().map(|region| (region.address, region.size)).collect();
            for (index, (address, size)) in regions.into_iter().enumerate() {
                let Some(bytes) = memory.read(address, size).map_err(RecordingError::io(&memory.path))? else {
                    continue;
                };
                let ids = target.put_region(&bytes)?;
                given.extend(ids.iter().copied());
                epilogue.chunks[index] = ids;
            }
            pair(prologue, epilogue);
            Ok(given)
        })?;
        let is_same = self.behaviour(&done)?.as_ref() == Some(behaviour);
        let verifies = is_same && self.replayer.replay(&self.file(&done), self.id, &[])?.status.is_as_recorded();
        Ok(verifies.then(|| (done, replaced.get())))
    }

    /// Runs the recorded launch, with the application's own code if that was recorded and can run. Returns the memory
    /// after it; `None` if the launch fails.
    fn run(&self, folder: &Path, file: &Path) -> Result<Option<LeftMemory>, CommandError> {
        let (_, instance) = self.kernel.record.instance(&self.kernel.path, Some(self.id))?;
        if !instance.ours.original.is_empty()
            && let Some(left) = self.run_as(folder, file, true)?
        {
            return Ok(Some(left));
        }
        self.run_as(folder, file, false)
    }

    fn run_as(&self, folder: &Path, file: &Path, original: bool) -> Result<Option<LeftMemory>, CommandError> {
        let database = self.file(folder);
        let mut command = Command::new(&self.replayer.program);
        command.arg("serve").arg("-rdb").arg(&database).args(["-rid", self.id]);
        command.args(self.replayer.device.iter().flat_map(|device| ["--device", device]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        end_with_this_thread(&mut command);
        let start = |source| CommandError::Start { path: self.replayer.program.clone(), source };
        let mut child = command.spawn().map_err(start)?;
        let submission = Submission {
            id: 1,
            iterations: Some(1),
            warmup: Some(0),
            config: Changes([("original".to_owned(), original.into())].into_iter().collect()),
            outputs: Outputs { memory: Some(file.into()), ..Outputs::default() },
            ..Submission::default()
        };
        let requests =
            [Request::Memory { moment: Moment::Prologue, region: None }, Request::Submit(Box::new(submission))];
        survive_broken_pipes();
        if let Some(mut input) = child.stdin.take() {
            for request in &requests {
                let line = serde_json::to_string(request).expect("plain data serialises");
                // If this fails, the server is gone and gives no result.
                let _ = writeln!(input, "{line}");
            }
        }
        let (mut places, mut status) = (HashMap::new(), None);
        for line in BufReader::new(child.stdout.take().expect("standard output is a pipe")).lines() {
            let line = line.map_err(|source| CommandError::Io { path: self.replayer.program.clone(), source })?;
            match serde_json::from_str(&line) {
                Ok(Reply::Memory { regions, .. }) => {
                    for region in regions {
                        let address = region.address.trim_start_matches("0x");
                        let place = u64::from_str_radix(address, 16).ok().zip(region.parts.first());
                        places.extend(place.map(|(address, part)| ((address, region.size), part.offset)));
                    }
                }
                Ok(Reply::Result { result, .. }) => status = Some(result.status),
                _ => {}
            }
        }
        let _ = child.wait();
        let has_run =
            status.is_some_and(|it| it.is_as_recorded() || it == ReplayStatus::FailedVerification) && file.is_file();
        Ok(has_run.then(|| LeftMemory { path: file.into(), places }))
    }
}

/// The memory after a run, in a file.
struct LeftMemory {
    path: PathBuf,
    /// Offsets in the file, by address and size.
    places: HashMap<(u64, u64), u64>,
}

impl LeftMemory {
    /// Reads a region; `None` if the run does not have it.
    fn read(&self, address: u64, size: u64) -> std::io::Result<Option<Vec<u8>>> {
        let Some(offset) = self.places.get(&(address, size)) else { return Ok(None) };
        let mut bytes = vec![0; size as usize];
        std::fs::File::open(&self.path)?.read_exact_at(&mut bytes, *offset)?;
        Ok(Some(bytes))
    }
}

/// The index of the region with this address and size.
fn position(state: &MemoryState, (address, size): (u64, u64)) -> usize {
    let is_it = |region: RecordedRegion<'_>| (region.address, region.size) == (address, size);
    state.regions().position(is_it).expect("both moments have the same regions")
}

/// Address ranges of the memory, ascending and disjoint.
fn addresses(state: &MemoryState) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> =
        state.regions().map(|region| region.address..region.address + region.size).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}
