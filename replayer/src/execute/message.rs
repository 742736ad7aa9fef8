//! Messages between the supervisor and an executor.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use mneme_model::configuration::CacheState;
use mneme_model::device::{Description, Timer};
use mneme_model::launch::{Dim3, LaunchAttributes};
use mneme_model::observation::{Arithmetic, Fault, Observe, Traffic};
use mneme_model::protocol::StoppingRule;
use mneme_model::result::{Clocks, Doubt, Evidence, FreshInputs, Largest, Metrics, Mismatch, ReplayStatus, Variation};
use mneme_model::tolerance::Tolerance;
use mneme_recording::poison::PoisonMap;
use mneme_sandbox::confinement::Enforced;
use serde::{Deserialize, Serialize};

/// Messages from the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExecutorRequest {
    /// The snapshot is decoded: make it resident.
    Load,
    /// Run the code object that follows as a blob. The answer repeats the number.
    Run(u64, Box<RunRequest>),
}

/// A launch of a code object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The kernel's name in the code object.
    pub entry: String,
    pub grid: Dim3,
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_mem: u32,
    pub attributes: LaunchAttributes,
    /// Folder for differing memory.
    pub dump: Option<PathBuf>,
    /// Facts about instrumented code.
    pub watch: Option<InstrumentedCode>,
    /// The code that computes the right results on fresh inputs.
    pub oracle: Option<Oracle>,
    /// The recorded pipeline with and without fusing multiplications and additions.
    pub pipelines: Vec<Oracle>,
    /// The executor is new and runs nothing after this request.
    pub own_process: bool,
    /// LLVM has compiled the code from IR.
    pub is_compiled: bool,
    /// The code has values of arguments or facts about them in it, so it is right only for these.
    pub folds_arguments: bool,
    pub spec: RunSpec,
}

impl RunRequest {
    /// The code under test in the blob of the request.
    pub fn code<'b>(&self, blob: &'b [u8]) -> &'b [u8] {
        let end = self.oracle.as_ref().map_or(blob.len(), |oracle| oracle.bytes.start.min(blob.len()));
        &blob[..end]
    }
}

/// Other code for the kernel, and its launch. The code follows the code object in the blob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Oracle {
    /// Its position in the blob.
    pub bytes: Range<usize>,
    /// The kernel's name in it.
    pub entry: String,
    pub grid: Dim3,
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_mem: u32,
    /// Whether it is the application's own code.
    pub is_own: bool,
    /// Whether the code under test is identical and has the same launch.
    pub is_same: bool,
}

impl Oracle {
    pub fn code<'b>(&self, blob: &'b [u8]) -> &'b [u8] {
        blob.get(self.bytes.clone()).unwrap_or_default()
    }
}

/// What an executor runs if it runs nothing else before. Such runs are few and not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FirstRun {
    /// One run on the recorded input, and after that one on a fresh input.
    Recorded,
    /// One run on a fresh input.
    Fresh,
}

/// How to run a code object, and what to report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    pub iterations: u32,
    pub warmup: u32,
    /// When to stop before all runs are done.
    pub stopping: Option<StoppingRule>,
    /// The contents of the device's caches at the start of a run.
    pub cache: CacheState,
    /// The configuration's tolerance for buffers without a rule.
    pub tolerance: Option<Tolerance>,
    /// Report how runs differ from each other, instead of stopping at the first that differs from the recording.
    pub survey: bool,
    /// Return a digest of the last run's memory instead of comparing it with the recording.
    pub digest: bool,
    /// Also measure the energy of a launch, which takes seconds.
    pub energy: bool,
    /// Also count a launch with these hardware counters.
    pub counters: Vec<String>,
    /// Seeds of the fresh inputs to run on after the series.
    pub fresh_inputs: Vec<u64>,
    /// Code that fresh inputs slow down may run on further ones, on which the application's own code may fail.
    pub further_inputs: bool,
    /// Pipelines that round differently may judge fresh inputs.
    pub pipelines: bool,
    /// Time limit for all runs, if it differs from the configuration's.
    pub limit: Option<Duration>,
    /// Look for races, for state that the code keeps, and for behaviour specific to the recorded input.
    pub thorough: bool,
    /// Only this, in an executor of its own.
    pub alone: Option<FirstRun>,
    /// The code is unproven unless it agrees on a fresh input.
    pub needs_fresh_input: bool,
    /// Earlier runs proved that the code is right, so these need to prove nothing.
    pub proven: bool,
    /// Find the bytes of these regions that the code only writes. The code is known to be right.
    pub calibrate: Option<Vec<usize>>,
    /// File for all recorded memory after the last run.
    pub memory: Option<PathBuf>,
    /// The code is instrumented: run it once and return its notes. Its times do not count.
    pub observe: Option<Observe>,
}

impl RunSpec {
    /// Whether the code also runs on the recorded input.
    pub fn runs_as_recorded(&self) -> bool {
        self.alone != Some(FirstRun::Fresh) && (self.iterations > 0 || self.fresh_inputs.is_empty())
    }

    /// The same with a single run on the recorded input, which need not be measured again.
    #[must_use]
    pub fn for_evidence(&self) -> Self {
        Self { iterations: 1, warmup: 0, stopping: None, energy: false, counters: Vec::new(), ..self.clone() }
    }
}

/// Facts about instrumented code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstrumentedCode {
    /// Instructions that note something.
    pub sites: u64,
    /// Shadowed static shared memory, bytes.
    pub static_shared: u64,
    pub has_shared: bool,
}

/// The notes of instrumented code. Sites are numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Noted {
    Faults(Vec<NotedFault>),
    Writes { count: u64, last: Option<NotedWrite> },
    Touched { ranges: Vec<NotedRange>, traffic: Option<Traffic>, arithmetic: Arithmetic },
}

/// A range of memory with the same reads and writes. Neighbours with equal accesses are merged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotedRange {
    pub address: u64,
    pub bytes: u64,
    pub read: bool,
    pub written: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotedFault {
    pub site: u32,
    pub fault: Fault,
    pub count: u64,
    pub examples: Vec<NotedExample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotedExample {
    /// Number of the block in the grid, and of the thread in the block.
    pub block: u64,
    pub thread: u64,
    pub address: u64,
    pub bytes: u64,
    /// Further details; the meaning depends on the kind of fault.
    pub detail: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotedWrite {
    pub site: u32,
    pub block: u64,
    pub thread: u64,
    pub address: u64,
    pub bytes: u64,
    /// The watched bytes after the write.
    pub value: [u8; 8],
}

/// Messages from an executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExecutorReport {
    /// The device works. Says how this process is confined, if it is.
    Device(Description, Option<Enforced>),
    /// The snapshot is resident.
    Ready,
    /// The order with this number has arrived. From now on, its kernel may have caused any failure.
    Began(u64),
    /// The answer to the order with this number.
    Done(u64, Box<RunOutcome>),
    /// This executor cannot be used.
    Unfit(StartError),
}

/// Replaces a digest if runs differ from each other.
pub const VARIES: &str = "varies";

/// The outcome of a run request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    pub status: ReplayStatus,
    /// Whether the kernel finished at least once.
    pub executed: bool,
    /// Empty, or one sentence.
    pub error: String,
    /// ns, warm-up runs first.
    pub times: Vec<u64>,
    /// CPU time of each run on the CPU device, ns, which depends less on other programs. Equals `times` on other
    /// devices.
    #[serde(skip)]
    pub work: Vec<u64>,
    /// Warm-up runs among them, if a stopping rule decided the number.
    pub warmup: Option<u32>,
    /// The clock that measured the times.
    pub timer: Timer,
    /// Why events measured them instead of the requested timer: a sentence without its full stop.
    pub timer_reason: String,
    /// The differing buffers: the first ones, and the number of all.
    pub mismatches: Vec<Mismatch>,
    pub differing_buffers: u64,
    /// Largest errors in buffers with a tolerance, over all runs. `None` if the runs were not compared one by one.
    pub largest: Option<Largest>,
    /// The results of a survey.
    pub variations: Option<Vec<Variation>>,
    /// Hash of memory where it differs from the recording. Equal for runs that left equal memory; [`VARIES`] if the
    /// runs differ.
    pub digest: String,
    /// Joules per launch.
    pub energy: Option<f64>,
    /// Hardware counters of a launch, and why they are missing: a sentence without its full stop.
    pub counters: BTreeMap<String, f64>,
    pub counters_reason: String,
    /// Clocks after the runs.
    pub clocks: Option<Clocks>,
    pub metrics: Metrics,
    /// The notes of instrumented code.
    pub noted: Option<Noted>,
    /// How much the match with the recording proves.
    pub evidence: Option<Evidence>,
    /// The results on fresh inputs.
    pub fresh_inputs: FreshInputs,
    /// The seeds of those on which the code agrees.
    pub agreed: Vec<u64>,
    /// The code differs on a fresh input, but a pipeline that rounds differently may agree.
    pub wants_pipelines: bool,
    /// Words of recorded memory that hold addresses of the recorded module, and held those of the replayed one instead.
    pub mapped_addresses: u64,
    /// Variables that refer to functions and that the code lacks.
    pub missing: Vec<String>,
    /// Runs on the recorded input that left memory as recorded.
    pub runs: u64,
    /// Doubts about the code.
    pub doubts: Vec<Doubt>,
    /// Bytes that the code only writes.
    pub calibrated: Option<Box<PoisonMap>>,
    /// Why a requested file is missing, in one sentence. The run itself is valid.
    pub unwritten: Option<String>,
    /// Total time, including restoring and comparing memory.
    pub took: Duration,
    /// The run lost the context: another executor has to take over.
    pub broken: bool,
}

/// Why an executor could not start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StartError {
    /// A recorded address is occupied in this process. It may be free in another one.
    Clash(String),
    /// The device cannot run this recording: one sentence.
    Device(String),
}
