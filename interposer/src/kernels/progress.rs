//! The progress of recording a kernel: its instances, how often each was launched, why others failed.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mneme_core::summary::Times;

use super::code::KernelCode;
use super::function_settings::FunctionSettings;
use super::key::{Key, LaunchShape};
use super::known_instances::KnownInstances;
use super::profile;
use super::tally::{LaunchTally, PLACES};
use crate::process::settings::{RecorderSettings, settings};

/// Refused launches of one shape after which the next is not recorded but tried: the one after a first refusal is often
/// the same launch, repaired, and never comes again.
const REJECTIONS: usize = 2;
/// Further launches that are recorded if one changed no memory: a recording of such a launch shows little.
const FURTHER: u8 = 3;
/// Refusals that are remembered of a kernel.
const MOST_REJECTIONS: usize = 256;

/// Of one kernel. What every launch asks comes first, on one line of the processor's cache.
#[derive(Default)]
#[repr(C, align(64))]
pub struct KernelProgress {
    pub launches: AtomicU64,
    pub selected: OnceLock<bool>,
    pub tally: LaunchTally,
    pub code: OnceLock<Result<Arc<KernelCode>, String>>,
    recorded: Mutex<RecordedInstances>,
    /// A launch was seen to finish without the application, or one was not.
    finished: AtomicBool,
    unfinished: AtomicBool,
    pub profile: profile::Profile,
    pub function_settings: FunctionSettings,
    /// What stands in for it, where tuned kernels are used.
    pub replacement: OnceLock<Box<dyn Any + Send + Sync>>,
}

#[derive(Default)]
pub struct RecordedInstances {
    /// By dynamic hash.
    pub instances: BTreeMap<u64, Occurrences>,
    pub in_folder: KnownInstances,
    /// Added to the recording folder, bytes.
    pub bytes: u64,
    /// Device memory of the largest instance, bytes.
    pub memory_bytes: u64,
    /// Of recorded launches.
    pub gpu_time: Times,
    /// Launches that the driver refused: nothing ran.
    pub rejected: u64,
    /// What launches were like that the driver refused, since one like them was good; the latest last.
    rejections: Vec<LaunchShape>,
    /// Why launches were not recorded.
    pub failures: BTreeMap<String, Failed>,
    /// A recording failed, and the next one would too (or take as long to find out).
    pub given_up: bool,
}

#[derive(Default)]
pub struct Failed {
    pub launches: u64,
    /// Something went wrong, so that `mneme record` does not end well.
    pub broken: bool,
}

pub struct Occurrences {
    /// Launches, without those that the tally counts.
    pub count: u64,
    /// Not while it is being recorded, nor when the folder had it from elsewhere.
    pub written: bool,
    pub known_before: bool,
    /// Further launches like it that are recorded as long as none changes memory.
    further: u8,
    /// A launch like it is being recorded.
    is_under_way: bool,
}

/// Whether a launch is recorded, for all that is known of those like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It is only counted: it is like one before, or one too many.
    Counted,
    /// It is recorded in the place of one before, which changed no memory.
    Further,
    New,
}

/// Whether a recorded launch changed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    ChangedMemory,
    ChangedNothing,
}

impl Occurrences {
    /// One that is about to be recorded, or that the folder has.
    pub fn new(known_before: bool) -> Self {
        let further = if known_before { 0 } else { FURTHER };
        Self { count: 1, written: false, known_before, further, is_under_way: !known_before }
    }

    /// Launches like it are only counted from now on.
    fn is_settled(&self) -> bool {
        self.further == 0 && !self.is_under_way
    }
}

impl KernelProgress {
    pub fn recorded(&self) -> MutexGuard<'_, RecordedInstances> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A launch was seen to finish.
    pub fn note_finished(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    /// A launch did not finish while the application was held: no other is held for.
    pub fn note_unfinished(&self) {
        self.unfinished.store(true, Ordering::Relaxed);
    }

    pub fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
    }

    /// An instance is on disk, with so many bytes (`None`: by another process), or not, for this reason.
    pub fn completed(&self, dynamic_hash: u64, outcome: Result<Option<u64>, String>) {
        let bytes = match outcome {
            Ok(bytes) => bytes,
            Err(reason) => return self.failed(dynamic_hash, &reason, true, true),
        };
        let mut recorded = self.recorded();
        recorded.bytes += bytes.unwrap_or(0);
        if let Some(occurrences) = recorded.instances.get_mut(&dynamic_hash) {
            (occurrences.written, occurrences.known_before) = (bytes.is_some(), bytes.is_none());
        }
    }

    /// An instance is not recorded, nor, where we give up, will others be.
    pub fn failed(&self, dynamic_hash: u64, reason: &str, broken: bool, give_up: bool) {
        let mut recorded = self.recorded();
        let launches = self.forget(&mut recorded, dynamic_hash);
        recorded.given_up |= give_up;
        recorded.count_failures(reason, launches, broken);
        self.update_tally(&recorded, settings());
    }

    /// Ends the recording of a launch. `None`: a further launch failed to be recorded, and its instance stays as it is.
    pub fn settle(&self, dynamic_hash: u64, key: Key, effect: Option<Effect>) {
        let mut recorded = self.recorded();
        let Some(occurrences) = recorded.instances.get_mut(&dynamic_hash) else { return };
        occurrences.is_under_way = false;
        if effect == Some(Effect::ChangedMemory) {
            occurrences.further = 0;
        }
        if occurrences.is_settled() {
            self.tally.watch(dynamic_hash, key);
        }
        self.update_tally(&recorded, settings());
    }

    /// Those instances are not recorded that are not on disk yet.
    pub fn lose_unwritten(&self, reason: &str) {
        let is_lost = |(_, occurrences): &(&u64, &Occurrences)| !occurrences.written && !occurrences.known_before;
        let lost: Vec<u64> = self.recorded().instances.iter().filter(is_lost).map(|(hash, _)| *hash).collect();
        lost.into_iter().for_each(|hash| self.failed(hash, reason, true, true));
    }

    /// The driver refused the launch of an instance; the next one like it may be another matter.
    pub fn rejected(&self, dynamic_hash: u64, shape: LaunchShape) {
        let mut recorded = self.recorded();
        recorded.rejected += self.forget(&mut recorded, dynamic_hash);
        recorded.note_rejection(shape);
        self.update_tally(&recorded, settings());
    }

    /// A launch was tried without being recorded, because others like it were refused.
    pub fn tried(&self, shape: LaunchShape, is_good: bool) {
        let mut recorded = self.recorded();
        if is_good {
            recorded.rejections.retain(|known| *known != shape);
            recorded.count_failures(
                "launched well after the driver had refused others like it; the next like it is recorded",
                1,
                false,
            );
        } else {
            recorded.rejected += 1;
        }
    }

    /// Forgets an instance: how many launches it had.
    fn forget(&self, recorded: &mut RecordedInstances, dynamic_hash: u64) -> u64 {
        let launches = recorded.instances.remove(&dynamic_hash).map_or(1, |occurrences| occurrences.count);
        let launches = launches + self.tally.launches(dynamic_hash);
        self.tally.forget(dynamic_hash);
        launches
    }

    pub fn count_failure(&self, reason: &str) {
        self.recorded().count_failures(reason, 1, false);
    }

    /// What most launches need to know, without the lock that `recorded` is behind.
    pub fn update_tally(&self, recorded: &RecordedInstances, settings: &RecorderSettings) {
        let all_are_here =
            || recorded.instances.len() <= PLACES && recorded.instances.values().all(Occurrences::is_settled);
        // Launches of a kernel that waits for the application are looked after.
        let is_over = !self.is_unfinished();
        self.tally.close(
            is_over && recorded.is_full(settings) && all_are_here(),
            is_over && recorded.given_up && recorded.instances.is_empty(),
        );
    }
}

impl RecordedInstances {
    fn is_full(&self, settings: &RecorderSettings) -> bool {
        self.given_up || self.instances.len() as u64 >= settings.max_recordings
    }

    /// Counts a launch that is like one before or one too many.
    pub fn count(&mut self, dynamic_hash: u64, settings: &RecorderSettings) -> Likeness {
        let is_full = self.is_full(settings);
        let given_up = self.given_up;
        let Some(occurrences) = self.instances.get_mut(&dynamic_hash) else {
            return if is_full { Likeness::Counted } else { Likeness::New };
        };
        occurrences.count += 1;
        if occurrences.further == 0 || occurrences.is_under_way || given_up {
            return Likeness::Counted;
        }
        occurrences.further -= 1;
        occurrences.is_under_way = true;
        Likeness::Further
    }

    /// Whether a launch is likely to be refused. To record one takes all memory before it is known whether it is good.
    pub fn is_doubtful(&self, shape: LaunchShape) -> bool {
        self.rejections.iter().filter(|known| **known == shape).count() >= REJECTIONS
    }

    fn note_rejection(&mut self, shape: LaunchShape) {
        if self.rejections.len() == MOST_REJECTIONS {
            self.rejections.remove(0);
        }
        self.rejections.push(shape);
    }

    /// Launches that were not recorded for this reason.
    pub fn failures_of(&self, reason: &str) -> u64 {
        self.failures.get(reason).map_or(0, |failed| failed.launches)
    }

    pub fn count_failures(&mut self, reason: &str, launches: u64, broken: bool) {
        let failed = self.failures.entry(reason.to_owned()).or_default();
        failed.launches += launches;
        failed.broken |= broken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::launch::{Dim3, Launch, LaunchAttributes};

    fn shape(block: u32) -> LaunchShape {
        let attributes = LaunchAttributes::default();
        LaunchShape::of(&Launch { grid: Dim3::new(1, 1, 1), block: Dim3::new(block, 1, 1), shared_mem: 0, attributes })
    }

    #[test]
    fn what_is_not_on_disk_is_lost_by_name() {
        let progress = KernelProgress::default();
        for (hash, written, known_before) in [(1, true, false), (2, false, true), (3, false, false)] {
            let occurrences = Occurrences { count: 2, written, known_before, further: 0, is_under_way: false };
            progress.recorded().instances.insert(hash, occurrences);
        }
        progress.lose_unwritten("the disk hangs");
        let recorded = progress.recorded();
        assert_eq!(recorded.instances.keys().collect::<Vec<_>>(), [&1, &2]);
        assert!(recorded.failures["the disk hangs"].broken && recorded.failures_of("the disk hangs") == 2);
    }

    #[test]
    fn what_was_refused_twice_is_tried_before_it_is_recorded() {
        let progress = KernelProgress::default();
        let is_doubtful = |block| progress.recorded().is_doubtful(shape(block));
        progress.rejected(1, shape(4096));
        assert!(!is_doubtful(4096), "it may be repaired by now");
        progress.rejected(2, shape(4096));
        assert!(is_doubtful(4096) && !is_doubtful(128), "whatever its arguments");
        progress.tried(shape(4096), false);
        assert!(is_doubtful(4096));
        assert_eq!(progress.recorded().rejected, 3);
        progress.tried(shape(4096), true);
        assert!(!is_doubtful(4096));
        (0..2 * MOST_REJECTIONS as u32).for_each(|block| progress.rejected(1, shape(block)));
        assert_eq!(progress.recorded().rejections.len(), MOST_REJECTIONS);
    }
}
