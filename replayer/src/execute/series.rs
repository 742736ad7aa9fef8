//! The launches of a run request, timed as a series, each verified.
//!
//! Each launch starts from restored memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use mneme_device::{Device, DeviceError, DeviceFunction};
use mneme_model::configuration::CacheState;
use mneme_model::hash::chunk_id;
use mneme_model::launch::Launch;
use mneme_model::protocol::StoppingRule;
use mneme_model::result::ReplayStatus;

use super::input::FreshInput;
use super::kept::OwnVariables;
use super::launch::{launch_once, repaired};
use super::left::{Contents, Left};
use super::message::{RunOutcome, RunRequest, RunSpec, VARIES};
use super::report::{self, BufferFailure, MOST_TOLD};
use super::resident::{MemoryVerdict, ResidentMemory};
use super::survey::Survey;
use super::variables::MovedVariables;
use crate::verify::comparison::RegionComparison;

/// Runs on the recorded input that code has to pass in a thorough check. Code that fails one run in ten passes with a
/// probability of one in two hundred.
const PASSES: u64 = 50;
/// Time limit for further runs.
const BUDGET: Duration = Duration::from_secs(1);

/// The runs of a code object, warm-up runs first.
pub struct Series<'a> {
    pub device: &'a dyn Device,
    pub arguments: &'a [Vec<u8>],
    pub order: &'a RunRequest,
    pub function: DeviceFunction,
    pub launch: Launch,
    pub moved: MovedVariables,
    pub comparisons: Vec<RegionComparison>,
    /// Receives the memory after a run.
    pub file: Option<&'a io::Result<File>>,
}

impl Series<'_> {
    /// Runs the series. Returns whether all runs passed.
    pub fn run(
        &self,
        memory: &mut ResidentMemory<'_>,
        survey: Option<&mut Survey>,
        done: &mut RunOutcome,
    ) -> Result<bool, DeviceError> {
        self.device.begin_series();
        let ended = self.launches(memory, survey, done);
        if !done.broken {
            retime(self.device, done);
        }
        ended
    }

    /// Runs once with these contents of pieces, and returns the memory that differs from the recording. Then restores
    /// memory.
    ///
    /// # Errors
    /// If the kernel or the device fails. `done` says whether the context is lost.
    pub fn once(
        &self,
        memory: &mut ResidentMemory<'_>,
        given: &Contents,
        done: &mut RunOutcome,
    ) -> Result<Contents, DeviceError> {
        self.run_on(memory, given, None, done)?;
        repaired(memory.take_differing(), done)
    }

    /// Runs once on an input, and returns the memory that differs, as far as memory has room for it.
    ///
    /// # Errors
    /// As for [`Series::once`].
    pub fn left_by_once(
        &self,
        memory: &mut ResidentMemory<'_>,
        input: &FreshInput,
        done: &mut RunOutcome,
    ) -> Result<Left, DeviceError> {
        self.run_on(memory, &input.pieces, input.arguments.as_deref(), done)?;
        repaired(memory.take_left(), done)
    }

    fn run_on(
        &self,
        memory: &mut ResidentMemory<'_>,
        given: &Contents,
        arguments: Option<&[Vec<u8>]>,
        done: &mut RunOutcome,
    ) -> Result<(), DeviceError> {
        given.iter().try_for_each(|(piece, bytes)| memory.write(*piece, bytes))?;
        self.moved.bring(self.device)?;
        let arguments = self.moved.arguments_or(arguments);
        launch_once(self.device, self.function, &self.launch, &arguments, memory, done)?;
        repaired(self.moved.take_back(self.device), done)
    }

    fn launches(
        &self,
        memory: &mut ResidentMemory<'_>,
        mut survey: Option<&mut Survey>,
        done: &mut RunOutcome,
    ) -> Result<bool, DeviceError> {
        let Self { device, order, comparisons, .. } = self;
        let mut allowance = Allowance::new(&order.spec);
        loop {
            let is_over = allowance.is_used_up(&done.times);
            done.warmup = order.spec.stopping.map(|_| allowance.warmup);
            if is_over {
                break;
            }
            done.mapped_addresses = self.moved.bring(*device)?;
            if order.spec.cache == CacheState::Cold {
                memory.flush_cache()?;
            }
            launch_once(*device, self.function, &self.launch, self.moved.arguments(), memory, done)?;
            repaired(self.moved.take_back(*device), done)?;
            // After every run: the first differing run is also the last one, which shows only once memory is restored.
            if let Some((path, file)) = order.spec.memory.as_ref().zip(self.file) {
                let why = match file {
                    Ok(file) => repaired(memory.save(file), done)?,
                    Err(error) => Some(error.to_string()),
                };
                done.unwritten = why.map(|why| format!("memory cannot be written to {}: {why}", path.display()));
            }
            if order.spec.digest {
                let digest = digest(&repaired(memory.take_differing(), done)?);
                let same = done.digest.is_empty() || done.digest == digest;
                done.digest = if same { digest } else { VARIES.into() };
                continue;
            }
            if let Some(survey) = survey.as_deref_mut() {
                let taken = repaired(memory.take_differing(), done)?;
                survey.add(memory, comparisons, taken);
                continue;
            }
            let MemoryVerdict { failures, largest, unwritten } =
                repaired(memory.settle(comparisons, order.dump.as_deref()), done)?;
            done.unwritten = done.unwritten.take().or(unwritten);
            done.largest = Some(done.largest.unwrap_or_default().and(largest.finite()));
            if !failures.is_empty() {
                done.fail(failures, "");
                return Ok(false);
            }
            done.runs += 1;
        }
        Ok(true)
    }

    /// Adds unmeasured runs, up to [`PASSES`] in total. Notes in `done` if one fails to pass.
    ///
    /// # Errors
    /// If the kernel or the device fails.
    pub fn repeat(
        &self,
        memory: &mut ResidentMemory<'_>,
        own: &mut OwnVariables,
        done: &mut RunOutcome,
    ) -> Result<(), DeviceError> {
        let begin = Instant::now();
        while done.runs < PASSES && begin.elapsed() < BUDGET {
            let mut run = RunOutcome { executed: true, ..RunOutcome::default() };
            let left = self.verified_once(memory, &mut run);
            done.broken |= run.broken;
            let failures = left?;
            if !failures.is_empty() {
                done.fail(failures, &format!("in run {}, ", done.runs + 1));
                return Ok(());
            }
            repaired(own.glance(self.device), done)?;
            done.runs += 1;
        }
        Ok(())
    }

    fn verified_once(
        &self,
        memory: &mut ResidentMemory<'_>,
        run: &mut RunOutcome,
    ) -> Result<Vec<BufferFailure>, DeviceError> {
        self.moved.bring(self.device)?;
        launch_once(self.device, self.function, &self.launch, self.moved.arguments(), memory, run)?;
        repaired(self.moved.take_back(self.device), run)?;
        Ok(repaired(memory.settle(&self.comparisons, None), run)?.failures)
    }
}

impl RunOutcome {
    /// These measurements with the verdict of later runs.
    #[must_use]
    pub fn with_evidence_of(self, later: Self) -> Self {
        Self {
            times: self.times,
            work: self.work,
            warmup: self.warmup,
            timer: self.timer,
            timer_reason: self.timer_reason,
            energy: self.energy,
            counters: self.counters,
            counters_reason: self.counters_reason,
            largest: self.largest.zip(later.largest).map(|(one, other)| one.and(other)),
            runs: self.runs + later.runs,
            took: self.took + later.took,
            ..later
        }
    }

    /// Notes wrong memory. `when` is the beginning of the sentence about it.
    pub fn fail(&mut self, failures: Vec<BufferFailure>, when: &str) {
        self.status = ReplayStatus::FailedVerification;
        self.differing_buffers = failures.len() as u64;
        self.mismatches = failures.into_iter().take(MOST_TOLD).map(|failure| failure.mismatch).collect();
        self.error = when.to_owned() + &report::text(&self.mismatches, self.differing_buffers);
    }
}

/// The number of runs.
struct Allowance {
    /// Warm-up runs, and the most measured runs.
    warmup: u32,
    iterations: u32,
    stopping: Option<StoppingRule>,
    is_long: bool,
}

impl Allowance {
    fn new(spec: &RunSpec) -> Self {
        let RunSpec { warmup, iterations, stopping, .. } = *spec;
        Self { warmup, iterations, stopping, is_long: false }
    }

    /// Whether runs with these times, warm-ups first, are enough.
    fn is_used_up(&mut self, times: &[u64]) -> bool {
        if let (Some(rule), [first]) = (self.stopping, times) {
            let is_hopeless = self.warmup > 0 && rule.hopeless_ns.is_some_and(|hopeless| *first >= hopeless);
            self.is_long = *first >= rule.long_ns;
            if self.is_long || is_hopeless {
                self.warmup = self.warmup.min(1);
            }
            if is_hopeless {
                return true;
            }
        }
        let all = self.warmup.saturating_add(self.iterations).max(1) as usize;
        let measured = times.get(self.warmup as usize..).unwrap_or_default();
        times.len() >= all || self.stopping.is_some_and(|rule| rule.is_content(measured, self.iterations, self.is_long))
    }
}

/// Replaces times by events with times of the device's own clock: all of them or none.
fn retime(device: &dyn Device, done: &mut RunOutcome) {
    match device.end_series() {
        Ok(None) => {}
        Ok(Some((times, timer))) if times.len() == done.times.len() => (done.times, done.timer) = (times, timer),
        Ok(Some((times, timer))) => {
            done.timer_reason =
                format!("{} reports {} times of {} launches", timer.name(), times.len(), done.times.len());
        }
        Err(error) => done.timer_reason = error.to_string(),
    }
}

/// A hash of pieces of memory and their numbers.
fn digest(pieces: &BTreeMap<usize, Vec<u8>>) -> String {
    let hashes: Vec<u8> = pieces
        .iter()
        .flat_map(|(number, bytes)| [(*number as u64).to_le_bytes().to_vec(), chunk_id(bytes).0.to_vec()].concat())
        .collect();
    chunk_id(&hashes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::protocol::Near;

    /// The number of runs with these times, and how many of them are warm-ups.
    fn runs(times: &[u64], stopping: Option<StoppingRule>) -> (usize, u32) {
        let spec = RunSpec { iterations: 5, warmup: 2, stopping, ..RunSpec::default() };
        let mut allowance = Allowance::new(&spec);
        let made = (0..times.len()).find(|made| allowance.is_used_up(&times[..*made])).unwrap_or(times.len());
        (made, allowance.warmup)
    }

    #[test]
    fn first_runs_are_not_measured_and_hopeless_kernels_have_no_others() {
        let rule = |near| Some(StoppingRule { long_ns: 1000, long_runs: 3, near, hopeless_ns: Some(8000) });
        let near = Some(Near { ns: 1500.0, runs: 1, within: 0.1 });
        assert_eq!(runs(&[5000; 9], None), (7, 2));
        assert_eq!(runs(&[900; 9], rule(None)), (7, 2), "a short one has all of its runs");
        assert_eq!(runs(&[5000; 9], rule(None)), (4, 1), "one warm-up");
        assert_eq!(runs(&[5000; 9], rule(near)), (2, 1), "far from what it is compared with");
        assert_eq!(runs(&[1500; 9], rule(near)), (4, 1), "near it");
        assert_eq!(runs(&[5000, 1500, 1500, 1500], rule(near)), (4, 1), "it was only cold");
        assert_eq!(runs(&[900; 9], rule(near)), (3, 2), "a short one is warmed up");
        assert_eq!(runs(&[8000; 9], rule(near)), (1, 1), "hopeless");
        // Only the first run decides.
        assert_eq!(runs(&[900, 5000, 5000, 5000], rule(near)), (3, 2));
    }
}
