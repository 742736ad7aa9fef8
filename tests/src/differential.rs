//! The recorder's differential test with random sequences of driver calls.
//!
//! It runs the sequences (`tests/apps/sequences`) plain and recorded, and replays every recorded launch. Both runs must
//! make the same calls with the same results. Every launch must be recorded and replay verified, or the recorder must
//! give a reason for omitting it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use mneme_model::summary::{self, RecorderSummary};
use mneme_recording::database::{KernelRecord, kernels};
use mneme_system::exit;

use crate::apps::{App, app};
use crate::command::{ProgramOutput, Run};
use crate::installation::{TestDevice, library};
use crate::recording::{TestInstance, record_into, unrecorded};

/// The reason for omitting a launch whose memory another thread of the sequence writes.
const HOST_WRITES: &str = "memory changed while it was recorded";

/// The accepted reasons for omitting a launch, as prefixes of those in the summary.
const REFUSALS: &[&str] = &[
    "inside a stream capture",
    "another stream is being captured",
    // For kernels that wait, and other kernels that run meanwhile.
    "did not finish within",
    "the device was busy for",
    "work that did not finish within the recorder's limit",
    "several waits had reached the limit",
    HOST_WRITES,
    // For later launches of a kernel with one of the reasons above. Each launch is checked.
    "given up after that",
];

/// The reason for omitting a launch if the application closes all descriptors during its recording. It follows the
/// file's name.
const CLOSED: &str = "the application has closed its descriptor";

/// Kernels that wait. Such a launch is recorded only if another host thread lets the kernel continue, which no replay
/// does.
const WAITING: &[&str] = &["await", "converse"];

/// The program's status if a sequence hangs.
const HANGS: i32 = 3;
/// The program's status if this machine or user cannot create the processes.
const NOT_POSSIBLE: i32 = 77;
/// Seeds of processes to kill: `VICTIMS` in `tests/apps/sequences/processes.cuh`.
const VICTIMS: u64 = 1 << 40;
/// Sequences per process: `PART` in the same file.
const PART: u64 = 8;
/// The number of seconds that a kernel may delay the application. Some kernels wait for the application; no other takes
/// that long.
const KERNEL_LIMIT: &str = "1";

/// Steps that vendors' drivers do not support: a driver may keep its locks, or lose its descriptors.
const NOT_ON_GPUS: &str = "cancel,jump out,close descriptors";

/// The processes that run the sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processes {
    /// One process at a time. A program may replace itself.
    #[default]
    One,
    /// Two at a time in separate PID namespaces, all with the same process id. Some are killed.
    SameIds,
    /// Two at a time, of different users.
    Users,
}

impl Processes {
    pub const ALL: [Self; 3] = [Self::One, Self::SameIds, Self::Users];

    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::SameIds => "same-ids",
            Self::Users => "users",
        }
    }
}

const RECORDING: &str = "recording";
const SUMMARY: &str = "summary";

/// Consecutive sequences in one program.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Seed of the first sequence.
    pub from: u64,
    pub count: u64,
    /// The number of devices to use, 1 or 2.
    pub devices: u32,
    /// `MNEME_GRAPHS=expand` instead of the default.
    pub expands_graphs: bool,
    pub processes: Processes,
    /// Numbers of steps to omit.
    pub skipped: Vec<u64>,
    /// Names of steps to omit, separated by commas.
    pub without: String,
    /// The number of instances to replay, spread evenly over the recorded ones. All if there are fewer.
    pub replays: usize,
    /// Where to keep recordings with a failed replay. The folder's name is the first seed.
    pub kept: Option<PathBuf>,
}

/// The result of sequences without a failure.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub sequences: u64,
    /// Launches outside of captures that the driver accepted.
    pub launches: u64,
    /// Recorded instances.
    pub recorded: u64,
    /// Replayed and verified instances.
    pub verified: u64,
    /// Refused launches, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Sequences that did not run because this machine or user cannot create the processes.
    pub not_possible: u64,
}

impl Report {
    pub fn add(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.launches += other.launches;
        self.recorded += other.recorded;
        self.verified += other.verified;
        self.not_possible += other.not_possible;
        for (reason, launches) in other.refused {
            *self.refused.entry(reason).or_default() += launches;
        }
    }
}

/// A failed batch.
#[derive(Clone, Debug)]
pub struct SequenceFailure {
    /// The seed of the sequence at fault, if it is known.
    pub seed: Option<u64>,
    pub what: String,
}

impl Batch {
    /// Arguments of `differential` that repeat it.
    pub fn arguments(&self) -> String {
        let Self { from, count, devices, .. } = self;
        let graphs = if self.expands_graphs { "expand" } else { "default" };
        let processes = self.processes.name();
        let mut line =
            format!("--from {from} --count {count} --devices {devices} --graphs {graphs} --processes {processes}");
        if !self.skipped.is_empty() {
            let _ = write!(line, " --skip {}", joined(&self.skipped));
        }
        if !self.without.is_empty() {
            let _ = write!(line, " --without '{}'", self.without);
        }
        line
    }

    /// Only the sequence with this seed.
    #[must_use]
    pub fn only(&self, seed: u64) -> Self {
        Self { from: seed, count: 1, kept: None, ..self.clone() }
    }

    fn application(&self) -> Vec<String> {
        let mut arguments = vec!["--seed".into(), self.from.to_string(), "--count".into(), self.count.to_string()];
        arguments.extend(["--devices".into(), self.devices.to_string()]);
        arguments.extend(["--processes".into(), self.processes.name().into()]);
        let mut without = vec![self.without.as_str()];
        if TestDevice::under_test() == TestDevice::Cuda {
            // With driver 580, a program that destroys a pool before freeing its memory may crash later, depending on
            // its heap. This also happens without Mneme.
            arguments.extend(["--destroy-pools-in-use".into(), "0".into()]);
            without.push(NOT_ON_GPUS);
        }
        arguments.extend(["--without".into(), without.join(",")]);
        if !self.skipped.is_empty() {
            arguments.extend(["--skip".into(), joined(&self.skipped)]);
        }
        arguments
    }

    fn set_up(&self, run: Run) -> Run {
        // Vendors' drivers may crash on stale handles.
        let run = run.env("MNEME_CPU_DEVICES", self.devices.to_string()).env("MNEME_CPU_STALE_HANDLES", "abort");
        // If the driver loads code at the first launch, that launch waits for running kernels.
        let run = run.env("CUDA_MODULE_LOADING", "EAGER").env("MNEME_KERNEL_LIMIT", KERNEL_LIMIT);
        if self.expands_graphs { run.env("MNEME_GRAPHS", "expand") } else { run }
    }

    /// Runs the batch plain and recorded, and replays the recorded instances with `workers` replays at a time.
    pub fn run(&self, workers: usize) -> Result<Report, SequenceFailure> {
        let folder = self
            .folder()
            .map_err(|error| SequenceFailure { seed: None, what: format!("no temporary folder: {error}") })?;
        let app: &App = app("sequences");
        let arguments = self.application();
        let run_plain = || self.set_up(unrecorded(app).args(&arguments)).outcome();
        let mut plain = run_plain();
        // A driver may hang occasionally, also without Mneme.
        if plain.status == HANGS {
            eprintln!("the plain run is repeated: {}", plain.stderr.trim_end());
            plain = run_plain();
        }
        if plain.status == NOT_POSSIBLE {
            return Ok(Report { not_possible: self.count, ..Report::default() });
        }
        if plain.status != 0 {
            return Err(SequenceFailure {
                seed: last_seed(&plain.stdout),
                what: format!("the plain run fails: {plain}"),
            });
        }
        let (recording, summary) = (folder.path().join(RECORDING), folder.path().join(SUMMARY));
        let run = self.set_up(self.recorder(app, &arguments, &recording));
        let recorded = run.env("MNEME_MAX_RECORDINGS", "1000000").env(summary::VARIABLE, &summary).outcome();
        compare(&plain.stdout, &recorded)?;
        let mut instances = instances(&recording)?;
        let jumps = recorded.stdout.lines().filter(|line| line.trim_end() == "    (jumped)").count();
        let refused = account(&summary, jumps as u64)?;
        // The recorder fails if it records no launch, or if a host thread writes during a launch.
        let may_fail = instances.is_empty() || refused.keys().any(|reason| reason.starts_with(HOST_WRITES));
        if recorded.status != 0 && !(may_fail && recorded.status == exit::NOT_RECORDED) {
            let errors = recorded
                .stderr
                .lines()
                .rev()
                .take(20)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join("\n");
            return Err(SequenceFailure {
                seed: None,
                what: format!("the recorded run ends with {}: {errors}", recorded.status),
            });
        }
        let launches = launches_of(&plain.stdout, |_| true);
        let due = launches_of(&plain.stdout, |seed| self.is_due(seed));
        let count = instances.len();
        let compared = instances.iter().filter(|recorded| self.is_due(recorded.seed)).count();
        // Expanded graphs add instances of further launches.
        if compared as u64 + refused.values().sum::<u64>() < due {
            let what = format!("of {due} launches {compared} are recorded, and {refused:?} are refused");
            return Err(SequenceFailure { seed: None, what });
        }
        instances.retain(|recorded| !WAITING.contains(&recorded.kernel.as_str()));
        let replayable = instances.len();
        let (mut index, replays) = (0, self.replays.min(replayable));
        instances.retain(|_| {
            index += 1;
            index * replays / replayable > (index - 1) * replays / replayable
        });
        if let Err(mut failure) = replay(&instances, workers) {
            if let Some(kept) = &self.kept {
                let place = kept.join(self.from.to_string());
                let is_kept = std::fs::create_dir_all(kept).and_then(|()| copy_folder(&recording, &place));
                let _ = match is_kept {
                    Ok(()) => write!(failure.what, "\nthe recording is in {}", place.display()),
                    Err(error) => write!(failure.what, "\nthe recording is not kept: {}: {error}", place.display()),
                };
            }
            return Err(failure);
        }
        Ok(Report {
            sequences: self.count,
            launches,
            recorded: count as u64,
            verified: instances.len() as u64,
            refused,
            not_possible: 0,
        })
    }

    /// The program under `mneme record`. Processes in other PID namespaces cannot reach the memory in which `mneme`
    /// collects summaries, so they use only the library, which writes to the file.
    fn recorder(&self, app: &App, arguments: &[String], recording: &Path) -> Run {
        if self.processes == Processes::SameIds {
            let run = unrecorded(app).args(arguments).env("LD_PRELOAD", library("libmneme_rec.so"));
            return run.env("MNEME_DEVICE", TestDevice::under_test().name()).env("MNEME_DATA_DIR", recording);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        record_into(recording, app, &arguments)
    }

    /// Whether all launches of a sequence must be accounted for. The second user may be unable to write to the first
    /// one's files, and to report the reason to `mneme`.
    fn is_due(&self, seed: u64) -> bool {
        let is_first_user = || (seed.wrapping_sub(self.from) / PART).is_multiple_of(2);
        seed < VICTIMS && (self.processes != Processes::Users || is_first_user())
    }

    /// A folder for the recording and the summary. All users may write to it if there are several.
    fn folder(&self) -> std::io::Result<tempfile::TempDir> {
        let folder = tempfile::tempdir()?;
        if self.processes == Processes::Users {
            let allow = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
            let (recording, summary) = (folder.path().join(RECORDING), folder.path().join(SUMMARY));
            std::fs::create_dir(&recording)?;
            std::fs::write(&summary, "")?;
            allow(folder.path(), 0o755)?;
            allow(&recording, 0o777)?;
            allow(&summary, 0o666)?;
        }
        Ok(folder)
    }

    /// The same sequence reduced to the steps that the failure needs. Costs one run per step.
    #[must_use]
    pub fn shrunk(&self, workers: usize) -> Self {
        let mut smallest = Self { kept: None, ..self.clone() };
        let all = self.set_up(unrecorded(app("sequences")).args(self.application())).outcome();
        let number = |line: &str| line.strip_prefix("  ")?.split_once(' ')?.0.parse::<u64>().ok();
        for step in all.stdout.lines().filter_map(number).collect::<Vec<_>>().into_iter().rev() {
            let mut without = smallest.clone();
            without.skipped.push(step);
            if without.run(workers).is_err() {
                smallest = without;
            }
        }
        smallest.skipped.sort_unstable();
        smallest
    }
}

fn joined(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// The number of launches in these sequences.
fn launches_of(transcript: &str, of: impl Fn(u64) -> bool) -> u64 {
    let mut seed = 0;
    let mut launches = 0;
    for line in transcript.lines() {
        if let Some(number) = line.strip_prefix("sequence ").and_then(|number| number.parse().ok()) {
            seed = number;
        } else if let Some(count) = line.strip_prefix("launches ").and_then(|count| count.parse::<u64>().ok()) {
            launches += if of(seed) { count } else { 0 };
        }
    }
    launches
}

fn last_seed(transcript: &str) -> Option<u64> {
    transcript.lines().rev().find_map(|line| line.strip_prefix("sequence ")?.parse().ok())
}

/// Compares the calls and results of both runs.
fn compare(plain: &str, recorded: &ProgramOutput) -> Result<(), SequenceFailure> {
    if plain == recorded.stdout {
        return Ok(());
    }
    let mut seed = None;
    let mut own = recorded.stdout.lines();
    let mut before: Vec<&str> = Vec::new();
    for line in plain.lines() {
        seed = line.strip_prefix("sequence ").and_then(|number| number.parse().ok()).or(seed);
        let other = own.next();
        if other != Some(line) {
            let context = before.iter().rev().take(8).rev().copied().collect::<Vec<_>>().join("\n");
            let other = other.map_or_else(|| format!("nothing: {recorded}"), str::to_owned);
            return Err(SequenceFailure { seed, what: format!("{context}\nplain:    {line}\nrecorded: {other}") });
        }
        before.push(line);
    }
    Err(SequenceFailure { seed: None, what: format!("the recorded run prints more than the plain one: {recorded}") })
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// A recorded launch.
struct Recorded {
    instance: TestInstance,
    kernel: String,
    seed: u64,
}

fn instances(folder: &Path) -> Result<Vec<Recorded>, SequenceFailure> {
    let bad = |error: mneme_recording::RecordingError| SequenceFailure { seed: None, what: error.to_string() };
    let paths: Vec<PathBuf> = if folder.is_dir() { kernels(folder).map_err(bad)? } else { Vec::new() };
    let mut all = Vec::new();
    for path in paths {
        let record = KernelRecord::load(&path).map_err(bad)?;
        for (id, instance) in &record.instances {
            // The first argument is the launch's number. Its upper part is the seed.
            let seed = instance.args.first().map_or(0, |number| number >> 16);
            all.push(Recorded { instance: TestInstance::new(&path, id), kernel: record.kernel_name.clone(), seed });
        }
    }
    Ok(all)
}

/// Unrecorded launches by reason. Every launch must be accounted for, and every reason must be known. Some calls that
/// the program jumped out of were launches without effect.
fn account(summary: &Path, mut jumps: u64) -> Result<BTreeMap<String, u64>, SequenceFailure> {
    let wrong = |what: String| SequenceFailure { seed: None, what };
    let text = std::fs::read_to_string(summary)
        .map_err(|error| wrong(format!("there is no summary of the recorded run: {error}")))?;
    let mut refused = BTreeMap::new();
    for kernel in summary::parse(&text).iter().flat_map(|process: &RecorderSummary| &process.kernels) {
        let failed: u64 = kernel.failures.iter().map(|failure| failure.launches).sum();
        let known = kernel.instances + kernel.repeats + kernel.rejected + failed;
        let unknown = kernel.launches.checked_sub(known).and_then(|unknown| jumps.checked_sub(unknown));
        let Some(left) = unknown else {
            return Err(wrong(format!("not every launch of {} is accounted for: {kernel:?}", kernel.kernel)));
        };
        jumps = left;
        for failure in &kernel.failures {
            let is_known = REFUSALS.iter().any(|known| failure.reason.starts_with(known));
            if !is_known && !failure.reason.ends_with(CLOSED) {
                return Err(wrong(format!("{} is not recorded: {}", kernel.kernel, failure.reason)));
            }
            *refused.entry(failure.reason.clone()).or_default() += failure.launches;
        }
    }
    Ok(refused)
}

/// Separate replays after a failed one: a fault fails every time, a disturbance does not.
const REPETITIONS: usize = 4;

/// Replays every instance, `workers` at a time.
fn replay(instances: &[Recorded], workers: usize) -> Result<(), SequenceFailure> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let replay = |recorded: &Recorded| {
        let options = ["--isolation", "none", "--iterations", "1", "--warmup", "0"];
        // In some batches two users write to one folder, so the test trusts it explicitly.
        let folder = recorded.instance.database.parent().expect("a file has a folder");
        recorded.instance.replay("default<O1>").args(options).env("MNEME_TRUST", folder).outcome()
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(|| {
                while let Some(recorded) = instances.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = replay(recorded);
                    if outcome.status != exit::VERIFIED {
                        *failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((recorded, outcome));
                        next.store(instances.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let Some((recorded, outcome)) = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) else {
        return Ok(());
    };
    let failing = (0..REPETITIONS).filter(|_| replay(recorded).status != exit::VERIFIED).count();
    let TestInstance { database, id } = &recorded.instance;
    let what = format!(
        "the replay of {} ends with status {}, and {failing} of {REPETITIONS} more do not verify (-rdb {} -rid {id}): {}",
        recorded.kernel,
        outcome.status,
        database.file_name().unwrap_or_default().display(),
        outcome.stderr
    );
    Err(SequenceFailure { seed: Some(recorded.seed), what })
}

/// The number of simultaneous replays. On one GPU they share it.
pub fn workers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if TestDevice::under_test() == TestDevice::Cuda { processors.min(8) } else { processors }
}
