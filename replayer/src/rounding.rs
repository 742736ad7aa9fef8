//! Shows that code lifted from PTX differs from the recording by rounding alone.
//!
//! The assembler may fuse products and sums that have no rounding modifier, and it chooses other pairs than LLVM. So
//! [`explain`] runs the code with the other value of the field `unfused`. If memory then is as recorded, the difference
//! comes from fusing. Otherwise it compares what both leave: the difference is one of rounding if in every buffer that
//! differs fusing alone makes a difference of the same size.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mneme_builds::Replacement;
use mneme_image::ptx::PtxModule;
use mneme_model::result::{Largest, Mismatch, ReplayResult, ReplayStatus, Rounding};
use mneme_model::tolerance::measure::{self, ElementValue};
use mneme_model::tolerance::{DataType, Threshold};

use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::job::Job;
use crate::recording::snapshot::Snapshot;
use crate::report::variations::{accepting, float_type};
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// The largest errors may be so many times as large as what fusing changes: the assembler chooses other pairs.
const FACTOR: f64 = 4.0;
/// More recorded memory is not written to files, bytes.
const MOST: u64 = 4 << 30;

/// Explains why a job's memory differs from the recording. `None` if its code was not lifted, or if the difference is
/// not shown to be one of rounding.
///
/// # Errors
/// Errors that end a replay.
pub fn explain(
    engine: &mut Engine<'_>,
    context: &ReplayContext,
    job: &Job,
    result: &ReplayResult,
) -> Result<Option<Rounding>, Fatal> {
    let mismatches: Vec<&Mismatch> = result.mismatch.iter().chain(&result.more_mismatches).collect();
    if result.status != ReplayStatus::FailedVerification || !result.lifted || mismatches.is_empty() {
        return Ok(None);
    }
    let Some(Replacement::Ptx(ptx)) = &context.replacement else { return Ok(None) };
    let closure = PtxModule::parse(ptx).closure(&context.recorded.kernel.kernel_name);
    let pairs = closure.map_or(0, |closure| closure.fusable_pairs());
    let Ok(folder) = tempfile::tempdir() else { return Ok(None) };
    let is_small = context.snapshot.layout.prologue_bytes() <= MOST;
    if pairs == 0 || !is_small {
        return Ok(None);
    }
    let mut other = job.clone();
    other.build.configuration.unfused ^= true;
    let unfused = other.build.configuration.unfused;
    let largest_ulp = mismatches.iter().filter_map(|it| it.largest).map(|it| it.ulp).fold(0.0, f64::max);
    let shown = Rounding { pairs, largest_ulp, ..Rounding::default() };
    let files = ["other", "own"].map(|name| folder.path().join(name));
    match again(engine, other, &files[0])? {
        ReplayStatus::Verified | ReplayStatus::Unproven => {
            return Ok(Some(Rounding { unfused: Some(unfused), ..shown }));
        }
        ReplayStatus::FailedVerification => {}
        _ => return Ok(None),
    }
    // The job's own code runs last, because --dump-diff shows the memory of the last run.
    if again(engine, job.clone(), &files[1])? != ReplayStatus::FailedVerification
        || result.differing_buffers != mismatches.len() as u64
    {
        return Ok(None);
    }
    let [Ok(other), Ok(own)] = files.map(File::open) else { return Ok(None) };
    let left = Left { snapshot: &context.snapshot, own, other };
    Ok(tolerances(&mismatches, |mismatch, dtype| left.is_rounding(mismatch, dtype))
        .map(|tolerances| Rounding { tolerances, ..shown }))
}

/// Runs a job once more, and has recorded memory written to a file.
fn again(engine: &mut Engine<'_>, mut job: Job, memory: &Path) -> Result<ReplayStatus, Fatal> {
    job.run = job.run.for_evidence();
    job.run.fresh_inputs.clear();
    job.run.memory = Some(memory.into());
    job.schedule.fresh = true;
    engine.submit(job);
    loop {
        if let SupervisorEvent::Finished { result, unwritten, .. } = engine.next(Client::default())? {
            return Ok(if unwritten.is_some() { ReplayStatus::InternalError } else { result.status });
        }
    }
}

/// The tolerances that accept all these differences, if each is one of rounding.
fn tolerances(mismatches: &[&Mismatch], is_rounding: impl Fn(&Mismatch, DataType) -> bool) -> Option<Vec<String>> {
    let mut errors: Vec<(DataType, Largest)> = Vec::new();
    for mismatch in mismatches {
        let dtype = float_type(&mismatch.dtype).filter(|dtype| is_rounding(mismatch, *dtype))?;
        let largest = mismatch.largest?;
        match errors.iter_mut().find(|(known, _)| *known == dtype) {
            Some((_, known)) => *known = known.and(largest),
            None => errors.push((dtype, largest)),
        }
    }
    errors.into_iter().map(|(dtype, largest)| Some(accepting(dtype, largest)?.option())).collect()
}

/// Recorded memory after the runs of both builds: two files, with each region at its offset in the snapshot.
struct Left<'a> {
    snapshot: &'a Snapshot,
    own: File,
    other: File,
}

impl Left<'_> {
    /// Whether the errors of a buffer are as small as what fusing changes in it. `false` if that cannot be told.
    fn is_rounding(&self, mismatch: &Mismatch, dtype: DataType) -> bool {
        self.compare(mismatch, dtype).is_some_and(|it| it.is_rounding())
    }

    fn compare(&self, mismatch: &Mismatch, dtype: DataType) -> Option<Differences> {
        let begin = u64::from_str_radix(mismatch.address.strip_prefix("0x")?, 16).ok()?;
        let end = begin.checked_add(mismatch.size)?;
        let holds = |start: u64, size: u64| start <= begin && end <= start + size;
        let region = self.snapshot.layout.regions.iter().find(|region| holds(region.address, region.size))?;
        let mut found = Differences::default();
        for index in 0..region.chunks.len() {
            let (offset, length) = region.extent(index);
            let address = region.address + offset;
            let (from, to) = (begin.max(address), end.min(address + length));
            if from >= to {
                continue;
            }
            let bytes = (from - address) as usize..(to - address) as usize;
            let read = |file: &File| {
                let mut read = vec![0; bytes.len()];
                file.read_exact_at(&mut read, region.file_offset() + (from - region.address)).ok().map(|()| read)
            };
            let recorded = &self.snapshot.after(region, index)[bytes.clone()];
            found.add(dtype, recorded, &read(&self.own)?, &read(&self.other)?);
        }
        Some(found)
    }
}

/// The largest absolute differences in a buffer.
#[derive(Default)]
struct Differences {
    /// From the recording.
    error: f64,
    /// Between both builds.
    spread: f64,
}

impl Differences {
    fn add(&mut self, dtype: DataType, recorded: &[u8], own: &[u8], other: &[u8]) {
        let size = dtype.size();
        let elements = recorded.chunks_exact(size).zip(own.chunks_exact(size)).zip(other.chunks_exact(size));
        for ((recorded, own), other) in elements.filter(|((recorded, own), other)| recorded != own || own != other) {
            let [recorded, own, other] = [recorded, own, other].map(|bytes| ElementValue::read(dtype, bytes));
            let distance = |from| measure::error(dtype, Threshold::Absolute, from, own);
            self.error = self.error.max(distance(recorded));
            self.spread = self.spread.max(distance(other));
        }
    }

    /// A difference that is not a number says nothing.
    fn is_rounding(&self) -> bool {
        let Self { error, spread } = *self;
        error.is_finite() && spread.is_finite() && spread > 0.0 && error <= FACTOR * spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(recorded: [f32; 3], own: [f32; 3], other: [f32; 3]) -> Differences {
        let bytes = |all: [f32; 3]| all.map(f32::to_le_bytes).concat();
        let mut found = Differences::default();
        found.add(DataType::F32, &bytes(recorded), &bytes(own), &bytes(other));
        found
    }

    #[test]
    fn errors_are_rounding_if_fusing_changes_as_much() {
        let near = 1.0 + f32::EPSILON;
        for (own, other, expected) in [
            ([1.0, near, 3.0], [1.0, 1.0, 3.0], true),
            // The assembler fuses other pairs in other elements.
            ([1.0, near, 3.0], [near, near, 3.0], true),
            ([1.0, near, 3.0], [1.0, near, 3.0], false),
            // A wrong element is far from what fusing changes.
            ([1.0, near, 4.0], [1.0, 1.0, 4.0], false),
            ([1.0, near, f32::NAN], [1.0, 1.0, 3.0], false),
        ] {
            assert_eq!(differences([1.0, 1.0, 3.0], own, other).is_rounding(), expected, "{own:?} {other:?}");
        }
    }

    #[test]
    fn each_type_has_a_tolerance_or_nothing_is_explained() {
        let mismatch = |dtype: &str, relative| Mismatch {
            dtype: dtype.into(),
            largest: Some(Largest { absolute: 1.0, relative, ulp: 2.0 }),
            ..Mismatch::default()
        };
        let all = [mismatch("f32", 3e-7), mismatch("f64", 1e-15), mismatch("f32", 1e-6)];
        let all: Vec<&Mismatch> = all.iter().collect();
        let found = tolerances(&all, |_, _| true);
        assert_eq!(found.unwrap(), ["f32:4e-6:relative:none", "f64:4e-15:relative:none"]);
        assert_eq!(tolerances(&all, |_, dtype| dtype == DataType::F32), None);
        assert_eq!(tolerances(&[&mismatch("u32", 1.0)], |_, _| true), None);
    }
}
