//! What one replay found: upstream's `ExperimentResult`, plus fields of ours.

use serde::{Deserialize, Serialize};

/// The outcome of one configuration. Field names up to `error` are upstream's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayResult {
    /// Linking, pruning and specialising, seconds.
    pub preprocess_ir_time: f64,
    /// The pass pipeline, seconds.
    pub opt_time: f64,
    /// Code generation and assembly, seconds.
    pub codegen_time: f64,
    /// The code object, bytes.
    pub obj_size: u64,
    /// Kernel times, ns: the warm-up runs, then the iterations.
    pub exec_time: Vec<u64>,
    pub verified: bool,
    pub executed: bool,
    pub failed: bool,
    /// RFC 3339, UTC.
    pub start_time: String,
    pub end_time: String,
    pub gpu_id: i32,
    /// Constant memory, bytes; -1 where the device does not say.
    pub const_mem_usage: i64,
    /// Local (spill) memory of a thread, bytes; -1 where the device does not say.
    pub local_mem_usage: i64,
    /// Registers of a thread; -1 where the device does not say.
    pub reg_usage: i64,
    /// Empty, or one sentence.
    pub error: String,
    /// What became of the configuration; decides the exit status.
    pub status: Status,
    /// Warm-up runs at the head of `exec_time`.
    pub warmup: usize,
    /// Device name, e.g. "NVIDIA H200" or "Mneme CPU device".
    pub device: String,
    /// Driver version as the vendor writes it, e.g. "13.0".
    pub driver: String,
    /// Versions that produced this result, by component ("mneme", "llvm", "assembler").
    pub versions: std::collections::BTreeMap<String, String>,
    /// The first mismatch, when verification failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<Mismatch>,
}

/// The fate of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Verified,
    NotVerified,
    /// The configuration makes no sense and nothing was started.
    InvalidConfiguration,
    BuildFailed,
    LaunchFailed,
    TimedOut,
    #[default]
    InternalError,
}

impl Status {
    /// The exit status of a one-shot replay that ended so.
    pub fn exit_status(self) -> i32 {
        use crate::exit;
        match self {
            Self::Verified => exit::VERIFIED,
            Self::NotVerified => exit::NOT_VERIFIED,
            Self::InvalidConfiguration => exit::BAD_USAGE,
            Self::BuildFailed => exit::BUILD_FAILED,
            Self::LaunchFailed => exit::LAUNCH_FAILED,
            Self::TimedOut => exit::TIMED_OUT,
            Self::InternalError => exit::INTERNAL,
        }
    }
}

/// Where replayed memory first differs from the recorded epilogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// "allocation" or the name of the device variable.
    pub region: String,
    /// Start of the region as recorded, e.g. "0x100000000000".
    pub address: String,
    /// Offset of the first differing element in the region, bytes.
    pub offset: u64,
    /// Recorded and replayed value of that element, in the element type that was compared.
    pub recorded: String,
    pub replayed: String,
    /// Elements that differ, over all regions.
    pub differing: u64,
    /// Size of an element, bytes (1 for a bitwise comparison).
    pub element_size: u32,
    /// Largest absolute error, where elements are floating point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_error: Option<f64>,
}

impl ReplayResult {
    /// The measured iterations, ns, without the warm-up runs.
    pub fn measured(&self) -> &[u64] {
        &self.exec_time[self.warmup.min(self.exec_time.len())..]
    }
}
