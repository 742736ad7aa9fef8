//! Messages between the supervisor and an executor.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use mneme_model::configuration::CacheState;
use mneme_model::device::{Description, Timer};
use mneme_model::launch::{Dim3, LaunchAttributes};
use mneme_model::observation::{Fault, Observe};
use mneme_model::protocol::StoppingRule;
use mneme_model::result::{Clocks, Doubt, Evidence, FreshInputs, Largest, Metrics, Mismatch, ReplayStatus, Variation};
use mneme_model::tolerance::Tolerance;
use mneme_recording::poison::PoisonMap;
use mneme_sandbox::confinement::Enforced;
use serde::{Deserialize, Serialize};

/// From the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExecutorRequest {
    /// The snapshot is decoded: make it resident.
    Load,
    /// Run the code object that follows as a blob. The number comes back with the answer.
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
    /// Folder for memory that differs.
    pub dump: Option<PathBuf>,
    /// Of instrumented code.
    pub watch: Option<InstrumentedCode>,
    /// What is right on fresh inputs.
    pub oracle: Option<Oracle>,
    /// The recorded pipeline with and without fusing multiplications and additions.
    pub pipelines: Vec<Oracle>,
    pub spec: RunSpec,
}

/// Other code for the kernel, and its launch. It follows the code object in the blob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Oracle {
    /// Where it is in the blob.
    pub bytes: Range<usize>,
    /// The kernel's name in it.
    pub entry: String,
    pub grid: Dim3,
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_mem: u32,
    /// It is the application's own code.
    pub is_own: bool,
    /// The code under test is the same, and is launched alike.
    pub is_same: bool,
}

/// How a code object is run, and what is told of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    pub iterations: u32,
    pub warmup: u32,
    /// When fewer runs are enough.
    pub stopping: Option<StoppingRule>,
    /// What the device's caches hold when a run starts.
    pub cache: CacheState,
    /// The configuration's tolerance for buffers of which nothing is said.
    pub tolerance: Option<Tolerance>,
    /// Tell how runs differ from each other, in place of stopping at the first that differs from the recording.
    pub survey: bool,
    /// Tell a digest of what the last run leaves, in place of comparing it with the recording.
    pub digest: bool,
    /// Measure the energy of a launch as well, which takes seconds.
    pub energy: bool,
    /// Count a launch with these hardware counters as well.
    pub counters: Vec<String>,
    /// Seeds of the fresh inputs that the code runs on after its series.
    pub fresh_inputs: Vec<u64>,
    /// Fresh inputs may be judged by pipelines that round otherwise.
    pub pipelines: bool,
    /// For all runs, if it is not the configuration's.
    pub limit: Option<Duration>,
    /// Look for races, for state that the code keeps, and for what it does on the recorded input alone.
    pub thorough: bool,
    /// The code proves nothing unless it agrees on a fresh input.
    pub needs_fresh_input: bool,
    /// Find the bytes of these regions that the code only writes; it is known to be right.
    pub calibrate: Option<Vec<usize>>,
    /// File for all recorded memory as the last run leaves it.
    pub memory: Option<PathBuf>,
    /// The code is instrumented for this: run it once for what it notes, and not for its times.
    pub observe: Option<Observe>,
}

/// What an executor has to know of instrumented code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstrumentedCode {
    /// Instructions that note something.
    pub sites: u64,
    /// Static shared memory that is shadowed, bytes.
    pub static_shared: u64,
    pub has_shared: bool,
}

/// What instrumented code has noted; sites by number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Noted {
    Faults(Vec<NotedFault>),
    Writes { count: u64, last: Option<NotedWrite> },
    Touched(Vec<NotedRange>),
}

/// Memory that was read or written; neighbours that were touched alike are one.
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
    /// What else there is to say, by kind of fault.
    pub detail: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotedWrite {
    pub site: u32,
    pub block: u64,
    pub thread: u64,
    pub address: u64,
    pub bytes: u64,
    /// The watched bytes after it.
    pub value: [u8; 8],
}

/// From an executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExecutorReport {
    /// The device works; how far this process is confined, if it is.
    Device(Description, Option<Enforced>),
    /// The snapshot is resident.
    Ready,
    /// The order of this number has arrived: what happens from here on may be its kernel's doing.
    Began(u64),
    /// The answer to the order of this number.
    Done(u64, Box<RunOutcome>),
    /// This executor cannot be used.
    Unfit(StartError),
}

/// In place of a digest, where runs differ from each other.
pub const VARIES: &str = "varies";

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    pub status: ReplayStatus,
    /// Whether the kernel ran to its end at least once.
    pub executed: bool,
    /// Empty, or one sentence.
    pub error: String,
    /// ns, warm-up runs first.
    pub times: Vec<u64>,
    /// CPU time of each run on the CPU device, which depends less on other programs; elsewhere the same as `times`, ns.
    #[serde(skip)]
    pub work: Vec<u64>,
    /// Warm-up runs among them, where a stopping rule has said.
    pub warmup: Option<u32>,
    /// What took them.
    pub timer: Timer,
    /// Why it was events, where something else was to; a sentence without its end.
    pub timer_reason: String,
    /// Buffers that differ from the recording, the first of them, and their number.
    pub mismatches: Vec<Mismatch>,
    pub differing_buffers: u64,
    /// Largest errors in buffers that a tolerance is for, over all runs; `None` where runs were not compared one by
    /// one.
    pub largest: Option<Largest>,
    /// What a survey found.
    pub variations: Option<Vec<Variation>>,
    /// Hash of what the runs left where that is not as recorded: equal for runs that left equal memory; [`VARIES`]
    /// where they did not.
    pub digest: String,
    /// Joules of a launch.
    pub energy: Option<f64>,
    /// Hardware counters of a launch, and why there are none: a sentence without its end.
    pub counters: BTreeMap<String, f64>,
    pub counters_reason: String,
    /// After the runs.
    pub clocks: Option<Clocks>,
    pub metrics: Metrics,
    /// What instrumented code has noted.
    pub noted: Option<Noted>,
    /// What it shows that memory is as recorded.
    pub evidence: Option<Evidence>,
    /// What became of the fresh inputs.
    pub fresh_inputs: FreshInputs,
    /// The code differs on a fresh input, perhaps as a pipeline does that rounds otherwise.
    pub wants_pipelines: bool,
    /// There is memory that may be input.
    #[serde(skip)]
    pub has_input: bool,
    /// Runs on the recorded input that left memory as recorded.
    pub runs: u64,
    /// Doubts about the code.
    pub doubts: Vec<Doubt>,
    /// Bytes that the code only writes.
    pub calibrated: Option<Box<PoisonMap>>,
    /// Why a file that was asked for is not there, in one sentence; the run is as good as with it.
    pub unwritten: Option<String>,
    /// All of it: restoring and comparing memory, too.
    pub took: Duration,
    /// The context is lost with this run: another executor has to take over.
    pub broken: bool,
}

/// Why an executor could not start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StartError {
    /// A recorded address is taken in this process; another process may have it free.
    Clash(String),
    /// This device cannot run this recording, in one sentence.
    Device(String),
}
