//! The command `mneme minimize`, which reduces a recording to the memory that its kernel needs.
//!
//! An instrumented replay (`mneme-replay --touched`) finds the memory that is read and written. The copy is then
//! replayed as recorded, and discarded if it does not verify. With `--scrub`, its numbers are replaced by random ones
//! ([`scrub`]).

mod scrub;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use mneme_model::images::Images;
use mneme_model::observation::Touched;
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_model::tolerance::{Annotation, Norm};
use mneme_model::units;
use mneme_recording::database::KernelRecord;
use mneme_recording::manifest::{AllocationKind, AnnotatedPart, MemoryState};
use mneme_recording::reduce::reduce;
use mneme_recording::rules::{RuleRegion, RuledPart, Rules};
use mneme_recording::{Moments, RecordingError, housekeeping};
use mneme_sandbox::interruption::on_interruption_say;
use mneme_system::install;
use tempfile::TempDir;

use crate::device;
use crate::error::CommandError;
use crate::manage::TransferOptions;
use crate::output::print;
use crate::replay;
use crate::selection::KernelFile;
use crate::siblings;

#[derive(Debug, Args)]
pub struct MinimizeOptions {
    #[command(flatten)]
    transfer: TransferOptions,
    /// Replay on this device (cuda, hip, cpu, or a number)
    #[arg(long, value_name = "DEVICE", value_parser = device::of_replays)]
    device: Option<String>,
    /// Replace floating-point numbers in memory by random ones of the same order of magnitude, if the kernel then
    /// touches the same memory. Integers, addresses and arguments stay
    #[arg(long)]
    scrub: bool,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0, requires = "scrub")]
    seed: u64,
}

pub fn run(options: MinimizeOptions) -> Result<(), CommandError> {
    let (selected, to) = options.transfer.endpoints()?;
    let replayer = Replayer { program: siblings::find(install::REPLAYER)?, device: options.device };
    let seed = options.scrub.then_some(options.seed);
    let (mut all, mut done) = (true, 0);
    for kernel in &selected.kernels {
        for (id, _) in kernel.instances(options.transfer.part.record_id.as_deref())? {
            on_interruption_say(&format!("mneme: interrupted; {}", kept(done, &to)));
            match minimize(&replayer, kernel, id, &to, seed) {
                Err(CommandError::Unreplayed(why)) => {
                    mneme_system::remark!("mneme: skipping instance {id} of {}: {why}", kernel.record.demangled_name);
                    all = false;
                }
                minimized => minimized?,
            }
            done += 1;
        }
    }
    selected.complete()?;
    if all { Ok(()) } else { Err(CommandError::Unreplayed("not all instances could be replayed".into())) }
}

/// The message on what was minimized before an interruption.
fn kept(done: usize, to: &Path) -> String {
    match done {
        0 => format!("no instance was minimized, and {} is unchanged", to.display()),
        1 => format!("1 instance is minimized, in {}", to.display()),
        _ => format!("{done} instances are minimized, in {}", to.display()),
    }
}

fn minimize(
    replayer: &Replayer,
    kernel: &KernelFile,
    id: &str,
    to: &Path,
    seed: Option<u64>,
) -> Result<(), CommandError> {
    let (_, instance) = kernel.record.instance(&kernel.path, Some(id))?;
    let moments = Moments::open(kernel.folder(), &kernel.record, instance)?;
    if moments.are_upstreams() {
        return Err(CommandError::Usage(format!(
            "{} is a file of the existing Mneme; convert it with mneme copy first",
            kernel.path.display()
        )));
    }
    // An existing instance is never replaced, even if minimizing fails.
    let path = to.join(kernel.record.file_name());
    if path.exists() && KernelRecord::load(&path)?.instances.contains_key(id) {
        return Err(RecordingError::Taken { path, instance: id.into() }.into());
    }
    let before = replayer.replay(&kernel.path, id, &[])?;
    if let Some(problem) = unverified(Ok(before), || format!("instance {id} as recorded")) {
        return Err(problem);
    }
    // The replay need not verify: instrumented code may compute slightly different numbers.
    let watched = replayer.replay(&kernel.path, id, &["--touched"])?;
    let touched = watched.touched.ok_or_else(|| CommandError::Unverified {
        what: format!("instance {id} with its accesses watched"),
        why: watched.error,
    })?;
    for access in &touched.unwatched {
        mneme_system::remark!("mneme: {access} is not watched, so memory that only it touches is left out");
    }
    let rules = Rules::load(&kernel.path)?;
    let arguments = moments.prologue.header.arguments.iter();
    let arguments: Vec<Option<u64>> =
        arguments.map(|argument| argument.bytes.as_slice().try_into().ok().map(u64::from_le_bytes)).collect();
    let images = &moments.prologue.header.images;
    let needed = needed(&touched, arguments.iter().copied().flatten(), images)?;
    let change = |prologue: &mut MemoryState, epilogue: &mut MemoryState| {
        for state in [&mut *prologue, &mut *epilogue] {
            keep_tolerances(state, &rules, &arguments);
        }
        // A norm judges a buffer as a whole, so such buffers are kept whole, and so are the texels of arrays.
        reduce(prologue, epilogue, &needed, |it| {
            if it.kind == AllocationKind::Array {
                return true;
            }
            let parts = it.parts.iter().map(|part| part.annotation.tolerance);
            it.tolerance.into_iter().chain(parts).any(|tolerance| tolerance.norm != Norm::default())
        });
    };
    let hash = kernel.record.static_hash;
    // Data to be replaced must never reach the target folder, where it could stay behind.
    let scratch = match seed {
        Some(_) => Some(scratch_beside(to)?),
        None => None,
    };
    let first = scratch.as_ref().map_or_else(|| to.to_path_buf(), |scratch| scratch.path().join("reduced"));
    let mut written = housekeeping::copy_changed(kernel.folder(), &first, hash, Some(id), change)?;
    if scratch.is_none() {
        on_interruption_say(&format!(
            "mneme: interrupted before instance {id} was verified; remove it with mneme clean {} -rid {id}",
            path.display()
        ));
    }
    let after = replayer.replay(&first.join(kernel.record.file_name()), id, &[]);
    let what = || format!("instance {id} without the memory that the kernel was not seen to touch");
    if let Some(problem) = unverified(after, what) {
        housekeeping::remove(&first, hash, Some(id))?;
        return Err(problem);
    }
    let mut scrubbed = String::new();
    if let Some((scratch, seed)) = scratch.as_ref().zip(seed) {
        let copy = scrub::Copy { replayer, kernel, id, scratch: scratch.path() };
        let outcome = copy.scrub(&first, seed)?;
        written = housekeeping::copy(&outcome.folder, to, hash, Some(id))?;
        let after = replayer.replay(&path, id, &[]);
        if let Some(problem) = unverified(after, || format!("instance {id} with random numbers in its memory")) {
            housekeeping::remove(to, hash, Some(id))?;
            return Err(problem);
        }
        scrubbed = format!(
            "; {} are random numbers, {} of other data are as recorded",
            units::bytes(outcome.replaced),
            units::bytes(outcome.left)
        );
    }
    let reduced = memory_bytes(&path, id)?;
    print(&format!(
        "{}: {} of {} of memory, {} written to {}; verified{scrubbed}\n",
        kernel.record.demangled_name,
        units::bytes(reduced),
        units::bytes(moments.prologue.memory_bytes()),
        units::bytes(written.bytes),
        path.display()
    ))
}

/// A private temporary folder on the disk of another folder.
fn scratch_beside(to: &Path) -> Result<TempDir, CommandError> {
    let around = to.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    tempfile::tempdir_in(around).map_err(|source| CommandError::Io { path: around.into(), source })
}

/// The error if a replay did not verify.
fn unverified(replay: Result<ReplayResult, CommandError>, what: impl FnOnce() -> String) -> Option<CommandError> {
    match replay {
        // Minimizing only keeps memory, so unproven instances are fine.
        Ok(result) if result.status.is_as_recorded() => None,
        Ok(result) if result.status == ReplayStatus::InternalError => Some(CommandError::Unreplayed(result.error)),
        Ok(result) => Some(CommandError::Unverified { what: what(), why: result.error }),
        Err(error) => Some(error),
    }
}

/// The size of an instance's memory, bytes.
fn memory_bytes(path: &Path, id: &str) -> Result<u64, RecordingError> {
    let record = KernelRecord::load(path)?;
    record.instance(path, Some(id)).map(|(_, instance)| instance.ours.memory_bytes)
}

/// The touched memory, the targets of arguments, by which verification finds a buffer, and the memory that textures
/// read, which is not watched.
fn needed(
    touched: &Touched,
    pointers: impl Iterator<Item = u64>,
    images: &Images,
) -> Result<Vec<Range<u64>>, CommandError> {
    let mut needed = Vec::new();
    for range in &touched.ranges {
        let digits = range.address.strip_prefix("0x").unwrap_or(&range.address);
        let start = u64::from_str_radix(digits, 16)
            .map_err(|_| CommandError::Usage(format!("mneme-replay reports the address '{}'", range.address)))?;
        needed.push(start..start + range.bytes);
    }
    needed.extend(pointers.filter(|it| *it < u64::MAX).map(|pointer| pointer..pointer + 1));
    let memory = images.objects.iter().filter_map(|object| object.resource.memory());
    needed.extend(memory.filter_map(|(address, bytes)| Some(address..address.checked_add(bytes?)?)));
    needed.sort_unstable_by_key(|range| range.start);
    let mut merged = Vec::<Range<u64>>::new();
    for range in needed {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    Ok(merged)
}

/// Stores tolerance rules in the allocations themselves. Rules that name an argument or an address would not match
/// every piece of an allocation.
fn keep_tolerances(state: &mut MemoryState, rules: &Rules, arguments: &[Option<u64>]) {
    for allocation in &mut state.header.allocations {
        let region = RuleRegion {
            variable: None,
            tag: &allocation.tag,
            address: allocation.address,
            size: allocation.size,
            tolerance: allocation.tolerance,
            parts: &allocation.parts,
        };
        let divided = rules.divide(&region, &[], arguments);
        let part = |RuledPart { offset, size, annotated, tolerance }: &RuledPart<'_>| {
            let tag = annotated.map_or_else(String::new, |part| part.annotation.tag.clone());
            Some(AnnotatedPart {
                offset: *offset,
                size: *size,
                annotation: Annotation { tag, tolerance: (*tolerance)? },
            })
        };
        match divided.as_slice() {
            [RuledPart { annotated: None, tolerance, .. }] => allocation.tolerance = *tolerance,
            several => allocation.parts = several.iter().filter_map(part).collect(),
        }
    }
}

struct Replayer {
    program: PathBuf,
    device: Option<String>,
}

impl Replayer {
    /// Replays as recorded, once.
    fn replay(&self, database: &Path, id: &str, options: &[&str]) -> Result<ReplayResult, CommandError> {
        let mut replay = Command::new(&self.program);
        replay.arg("-rdb").arg(database).args(["-rid", id, "--iterations", "1", "--warmup", "0"]).args(options);
        replay.args(self.device.iter().flat_map(|device| ["--device", device]));
        replay::run(&mut replay)
    }
}
