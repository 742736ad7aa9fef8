//! The progress of recording a kernel: its instances, launches of each, and reasons of failures.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mneme_model::summary::Times;

use super::code::KernelCode;
use super::function_settings::FunctionSettings;
use super::key::{Key, LaunchShape};
use super::known_instances::KnownInstances;
use super::profile;
use super::refusal::CodeRefusal;
use super::request::LaunchRequest;
use super::tally::{LaunchTally, PLACES};
use crate::process::settings::{RecorderSettings, settings};

/// After this many refused launches of one shape, the next is only tried, not recorded. One refusal is not enough: the
/// next launch is often the same one, repaired, and does not come again.
const REJECTIONS: usize = 2;
/// How many further launches are recorded if one changed no memory, because such a recording shows little.
const FURTHER: u8 = 3;
/// How many refusals of a kernel are remembered.
const MOST_REJECTIONS: usize = 256;

/// The progress of one kernel. Fields that every launch reads come first, on one cache line.
#[derive(Default)]
#[repr(C, align(64))]
pub struct KernelProgress {
    pub launches: AtomicU64,
    pub selected: OnceLock<bool>,
    pub tally: LaunchTally,
    pub code: OnceLock<Result<Arc<KernelCode>, CodeRefusal>>,
    recorded: Mutex<RecordedInstances>,
    /// Set if a launch was seen to finish without the application, or not to finish.
    finished: AtomicBool,
    unfinished: AtomicBool,
    pub profile: profile::Profile,
    pub function_settings: FunctionSettings,
    /// Its replacement, if the process applies winners.
    pub replacement: OnceLock<Box<dyn Any + Send + Sync>>,
}

#[derive(Default)]
pub struct RecordedInstances {
    /// By dynamic hash.
    pub instances: BTreeMap<u64, Occurrences>,
    pub in_folder: KnownInstances,
    /// Bytes added to the recording folder.
    pub bytes: u64,
    /// Device memory of the largest instance, bytes.
    pub memory_bytes: u64,
    /// Times of recorded launches.
    pub gpu_time: Times,
    /// Launches that the driver refused, so no kernel ran.
    pub rejected: u64,
    /// The shapes of launches that the driver refused since the last good launch of that shape; the latest comes last.
    rejections: Vec<LaunchShape>,
    /// Why launches were not recorded.
    pub failures: BTreeMap<String, Failed>,
    /// A recording failed, and the next one would fail too, or take as long to find out.
    pub given_up: bool,
}

#[derive(Default)]
pub struct Failed {
    pub launches: u64,
    /// An error occurred, so `mneme record` fails.
    pub broken: bool,
}

pub struct Occurrences {
    /// Launches, except those that the tally counts.
    pub count: u64,
    /// False while it is being recorded, and if another process has recorded it.
    pub written: bool,
    pub known_before: bool,
    /// How many more launches like it to record while none changes memory.
    further: u8,
    /// A launch like it is being recorded.
    is_under_way: bool,
}

/// Whether to record a launch, given the earlier launches like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Only count it: it repeats an instance or exceeds the limit.
    Counted,
    /// Record it in place of an earlier one that changed no memory.
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
    /// An instance that is about to be recorded, or that the folder has.
    pub fn new(known_before: bool) -> Self {
        let further = if known_before { 0 } else { FURTHER };
        Self { count: 1, written: false, known_before, further, is_under_way: !known_before }
    }

    /// Whether launches like it are only counted from now on.
    fn is_settled(&self) -> bool {
        self.further == 0 && !self.is_under_way
    }
}

impl KernelProgress {
    pub fn recorded(&self) -> MutexGuard<'_, RecordedInstances> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a launch was seen to finish.
    pub fn note_finished(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    /// Notes that a launch did not finish while the application waited. Later launches do not make the application
    /// wait.
    pub fn note_unfinished(&self) {
        self.unfinished.store(true, Ordering::Relaxed);
    }

    pub fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
    }

    /// Notes that an instance is on disk with this many bytes (`None`: written by another process).
    pub fn completed(&self, dynamic_hash: u64, bytes: Option<u64>) {
        let mut recorded = self.recorded();
        recorded.bytes += bytes.unwrap_or(0);
        if let Some(occurrences) = recorded.instances.get_mut(&dynamic_hash) {
            (occurrences.written, occurrences.known_before) = (bytes.is_some(), bytes.is_none());
        }
    }

    /// Notes that an instance is not recorded and, with `give_up`, that no further one will be.
    pub fn failed(&self, dynamic_hash: u64, reason: &str, broken: bool, give_up: bool) {
        let mut recorded = self.recorded();
        let launches = self.forget(&mut recorded, dynamic_hash);
        recorded.given_up |= give_up;
        recorded.count_failures(reason, launches, broken);
        self.update_tally(&recorded, settings());
    }

    /// Forgets a launch that a capture turned into a node of a graph.
    pub fn withdraw(&self, dynamic_hash: u64) {
        let mut recorded = self.recorded();
        let launches = self.forget(&mut recorded, dynamic_hash);
        self.launches.fetch_sub(launches, Ordering::Relaxed);
        self.update_tally(&recorded, settings());
    }

    /// Ends the recording of a launch. `None` means that a further launch could not be recorded, so its instance is
    /// unchanged.
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

    /// Notes that instances that are not on disk yet are lost.
    pub fn lose_unwritten(&self, reason: &str) {
        let is_lost = |(_, occurrences): &(&u64, &Occurrences)| !occurrences.written && !occurrences.known_before;
        let lost: Vec<u64> = self.recorded().instances.iter().filter(is_lost).map(|(hash, _)| *hash).collect();
        lost.into_iter().for_each(|hash| self.failed(hash, reason, true, true));
    }

    /// Notes that the driver refused the launch of an instance. The next launch like it may succeed.
    pub fn rejected(&self, dynamic_hash: u64, shape: LaunchShape) {
        let mut recorded = self.recorded();
        recorded.rejected += self.forget(&mut recorded, dynamic_hash);
        recorded.note_rejection(shape);
        self.update_tally(&recorded, settings());
    }

    /// Notes a launch that was tried without being recorded, because similar ones were refused.
    pub fn tried(&self, shape: LaunchShape, is_good: bool) {
        let mut recorded = self.recorded();
        if is_good {
            recorded.rejections.retain(|known| *known != shape);
            recorded.count_failures(
                "succeeded after the driver had refused similar launches; the next similar launch is recorded",
                1,
                false,
            );
        } else {
            recorded.rejected += 1;
        }
    }

    /// Forgets an instance. Returns how many launches it had.
    fn forget(&self, recorded: &mut RecordedInstances, dynamic_hash: u64) -> u64 {
        let launches = recorded.instances.remove(&dynamic_hash).map_or(1, |occurrences| occurrences.count);
        let launches = launches + self.tally.launches(dynamic_hash);
        self.tally.forget(dynamic_hash);
        launches
    }

    /// Whether a launch of this kernel lacks an instance. Does not count it.
    pub fn lacks(&self, request: &LaunchRequest) -> bool {
        // SAFETY: the launch is of this kernel, and in progress or about to be.
        let repeats = |key: &Key| unsafe { key.is_of(&request.launch, &request.arguments) };
        if self.is_unfinished() || self.tally.is_given_up() || self.tally.knows(repeats) {
            return false;
        }
        let code = match self.code.get() {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(code)) => code,
        };
        // SAFETY: as above; the layout is that of the kernel's parameters.
        let arguments = unsafe { request.arguments.read(code.parameters.layout()) };
        arguments
            .is_some_and(|arguments| self.recorded().lacks(code.dynamic_hash(&request.launch, &arguments), settings()))
    }

    pub fn count_failure(&self, reason: &str) {
        self.recorded().count_failures(reason, 1, false);
    }

    /// Updates what most launches read without taking the lock of `recorded`.
    pub fn update_tally(&self, recorded: &RecordedInstances, settings: &RecorderSettings) {
        let all_are_here =
            || recorded.instances.len() <= PLACES && recorded.instances.values().all(Occurrences::is_settled);
        // Launches that wait for the application are not only counted.
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

    /// Counts a launch and tells whether to record it.
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

    /// Whether a launch would be recorded now, or when another thread has recorded one like it.
    fn lacks(&self, dynamic_hash: u64, settings: &RecorderSettings) -> bool {
        match self.instances.get(&dynamic_hash) {
            None => !self.is_full(settings),
            Some(occurrences) => !self.given_up && !occurrences.is_settled(),
        }
    }

    /// Whether a launch is likely to be refused. Recording saves all memory before the driver accepts or refuses the
    /// launch.
    pub fn is_doubtful(&self, shape: LaunchShape) -> bool {
        self.rejections.iter().filter(|known| **known == shape).count() >= REJECTIONS
    }

    fn note_rejection(&mut self, shape: LaunchShape) {
        if self.rejections.len() == MOST_REJECTIONS {
            self.rejections.remove(0);
        }
        self.rejections.push(shape);
    }

    /// How many launches were not recorded for this reason.
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
    use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

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
