//! The result of one replay: upstream's `ExperimentResult` with additional fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::llvm_version;
use crate::observation::{Faults, LastWrite, Touched};
use crate::units;

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
    /// Constant memory, bytes; -1 if the device does not report it.
    pub const_mem_usage: i64,
    /// Local (spill) memory of a thread, bytes; -1 if the device does not report it.
    pub local_mem_usage: i64,
    /// Registers of a thread; -1 if the device does not report them.
    pub reg_usage: i64,
    /// Empty, or one sentence.
    pub error: String,
    /// The outcome of the configuration; determines the exit status.
    pub status: ReplayStatus,
    /// Warm-up runs at the head of `exec_time`.
    pub warmup: usize,
    /// The device, driver and versions behind the result.
    pub environment: Environment,
    /// Resources of the code.
    pub metrics: Metrics,
    /// The dynamic shared memory is part of the code: a launch must request none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared_is_static: bool,
    /// The recorded PTX was lifted to LLVM IR and compiled from there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lifted: bool,
    /// The configuration whose runs this result repeats, if code and launch were the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<SharedWith>,
    /// Indices in `exec_time` of measured runs that took far longer than the others: more than 5 % above the median,
    /// and more than three times the spread of the middle half.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outliers: Vec<usize>,
    /// The first buffer that differs, if verification failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<Mismatch>,
    /// The other buffers that differ, at most 31 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_mismatches: Vec<Mismatch>,
    /// The number of all buffers that differ.
    #[serde(skip_serializing_if = "is_zero")]
    pub differing_buffers: u64,
    /// Energy of a launch, joules, if requested and if NVML counts it. Launches are repeated for a second, each after
    /// restoring memory; the energy of restoring unchanged memory is subtracted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Hardware counters of a launch, by name, if requested and if CUPTI counts them.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub counters: std::collections::BTreeMap<String, f64>,
    /// Why requested counters are missing; a sentence without its full stop.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub counters_reason: String,
    /// Words of recorded memory that held addresses of the recorded module. A run has addresses of its own module there.
    #[serde(skip_serializing_if = "is_zero")]
    pub mapped_addresses: u64,
    /// What shows that memory differs from the recording by rounding alone, for code lifted from PTX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounding: Option<Rounding>,
    /// The strength of the comparison with the recording, if memory was as recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The largest errors of a verified result, over all runs and all buffers that have a tolerance and are not
    /// ignored; 0 if nothing differs. A survey has `variations` instead.
    #[serde(flatten)]
    pub largest: Option<Largest>,
    /// The findings of a survey of repeated runs (`--repeat`): buffers that differ between runs or from the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variations: Option<Vec<Variation>>,
    /// The findings of the fault checker (`--check`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// The last write to the watched address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_write: Option<LastWrite>,
    /// The recorded memory that the launch read and wrote (`--touched`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
}

/// A difference that comes from fusing products and sums, or from rounding each by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rounding {
    /// Sums in the PTX that an assembler may fuse with a product.
    pub pairs: u64,
    /// The value of the field `unfused` that reproduces the recorded bits; `null` if neither does.
    pub unfused: Option<bool>,
    /// The largest error of an element, in units of the last place.
    pub largest_ulp: f64,
    /// Values of `--tolerance`, one for each type, that accept the errors with a margin.
    pub tolerances: Vec<String>,
}

impl Rounding {
    /// The difference and the remedy, in one sentence.
    pub fn sentence(&self) -> String {
        let Self { pairs, unfused, largest_ulp, tolerances } = self;
        let remedy = match unfused {
            Some(true) => "pass --unfused, which reproduces the recorded bits".to_owned(),
            Some(false) => "leave out --unfused: the recorded bits are those of fused pairs".to_owned(),
            None => {
                let options = tolerances.iter().map(|it| format!("--tolerance {it}")).collect::<Vec<_>>().join(" ");
                format!("pass {options}")
            }
        };
        format!(
            "the difference is one of rounding, by at most {largest_ulp} ULP: the PTX has {} of a product and a sum that may \
             be fused; {remedy}",
            units::counted(*pairs as usize, "pair")
        )
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_nothing(count: &u32) -> bool {
    *count == 0
}

/// What it shows that memory after a run is as recorded: the bytes that a kernel which does nothing would have left
/// wrong.
///
/// Bytes are counted in elements of the buffer's type, or in words of eight bytes if the type is unknown: of an element
/// that changes in one byte all bytes count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Evidence {
    /// Bytes that were compared with the recording.
    pub compared: u64,
    /// Those that the recorded launch is known to write.
    pub written: u64,
    /// Those that it changed.
    pub changed: u64,
    /// Bytes that it only writes; they are filled with a pattern before each run.
    pub poisoned: u64,
    /// Written bytes that fail the rules in force if a kernel does not write them.
    pub shown: u64,
    /// Bytes that rules leave out of the comparison.
    pub ignored: u64,
    /// Runs on the recorded input, all of which left memory as recorded.
    pub runs: u64,
    /// Further runs, each in a process of its own. Code that uses the device's heap needs them, because an earlier run
    /// may have left data in the heap.
    #[serde(skip_serializing_if = "is_zero")]
    pub own_processes: u64,
    /// Why a launch in the application may do something else than these runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Runs on other inputs than the recorded ones.
    #[serde(skip_serializing_if = "FreshInputs::is_none")]
    pub fresh_inputs: FreshInputs,
    /// The rules in force, but for `exact`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Why memory was not searched for bytes that the kernel only writes, one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub not_searched: String,
}

impl Evidence {
    /// The percentage of written bytes that must be shown.
    const ENOUGH: u64 = 99;

    /// Whether the recorded input or a fresh one would expose a kernel that leaves out part of the work, with no other
    /// doubt about the code.
    pub fn proves(&self) -> bool {
        self.doubts.is_empty() && self.shows_enough()
    }

    fn shows_enough(&self) -> bool {
        let is_shown = u128::from(self.shown) * 100 >= u128::from(self.written) * u128::from(Self::ENOUGH);
        let is_agreed = self.fresh_inputs.shown.saturating_mul(100) >= self.written;
        (self.shown > 0 && is_shown) || (self.fresh_inputs.shown > 0 && is_agreed)
    }

    /// The sentence about code with a doubt.
    pub fn doubtful(doubt: &Doubt) -> String {
        format!("memory is as recorded, but {}", doubt.sentence())
    }

    /// Why the result proves nothing: one sentence with the remedy.
    pub fn shortage(&self) -> String {
        if let Some(doubt) = self.doubts.first() {
            return Self::doubtful(doubt);
        }
        let Self { written, shown, .. } = self;
        let what = match (written, shown) {
            (0, _) => "the recorded launch changes no byte that is compared".to_owned(),
            (_, 0) => format!("a kernel that writes none of the {written} bytes passes under these rules"),
            _ => format!("a kernel that writes {shown} of the {written} bytes passes"),
        };
        format!(
            "memory is as recorded, but that proves nothing: {what}; record another launch of the kernel, such as the first"
        )
    }
}

/// Why code may do something else in the application than in a replay that leaves memory as recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Doubt {
    /// It leaves these variables changed, which the application does not have, and a later launch may read them.
    KeepsState { variables: Vec<String> },
    /// It reads a clock, and the application's own code does not.
    ReadsClock,
    /// It allocates memory on the device, and the application's own code does not. Whether it frees all of it is
    /// unknown, because it was given as machine code or PTX, or all runs were in one process.
    UsesHeap,
    /// A fresh input takes it so many times as long as the recorded one, compared with the application's own code.
    SlowerOnFreshInputs { ratio: f64 },
    /// It is not the recorded kernel's code, and ran on no fresh input that says something.
    NoFreshInput,
    /// It takes less time than the device needs to write the bytes that it has to write, ns.
    TooFast { time: u64, least: u64 },
}

impl Doubt {
    /// The text after "but", with the remedy.
    pub fn sentence(&self) -> String {
        match self {
            Self::KeepsState { variables } => format!(
                "the code keeps something from one launch to the next, in {}: have it leave its own variables as they were",
                variables.join(", ")
            ),
            Self::ReadsClock => {
                "the code reads a clock, so that a later launch may do something else: have it do without".into()
            }
            Self::UsesHeap => {
                "the code allocates memory on the device, where a later launch may find what it has left: give it as a source or IR, without \
                 --isolation none"
                    .into()
            }
            Self::SlowerOnFreshInputs { ratio } => format!(
                "the code takes {ratio:.1} times as long on other inputs, compared with the application's own code: it is made for the recorded \
                 input"
            ),
            Self::NoFreshInput => "no fresh input shows that the code computes it, and does not have the recorded result in a table: record \
                                   another launch, or pass --fresh 0 to trust the recorded input"
                .into(),
            Self::TooFast { time, least } => {
                format!("the code takes {time} ns, and writing its results takes {least} ns at least: its times are wrong")
            }
        }
    }
}

/// Runs on inputs that differ from the recorded one. The application's own code computes what is right for each.
///
/// Of a seed follows an input, so that a run can be repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FreshInputs {
    /// Inputs that were made.
    pub tried: u32,
    /// Those that say nothing: the application's own code fails on them, varies, takes over ten times its time, or
    /// leaves memory as it is.
    pub discarded: u32,
    /// Of these, those on which the application's own code lost the device's context.
    #[serde(skip_serializing_if = "is_nothing")]
    pub lost: u32,
    /// Those on which the code agrees with the application's own.
    pub agreed: u32,
    /// Of these, those on which it only rounds otherwise: its results lie between those of the application's own code
    /// and of the recorded pipeline with and without fused multiplications and additions.
    #[serde(skip_serializing_if = "is_nothing")]
    pub rounded: u32,
    /// Bytes that a kernel which does nothing would leave wrong, in the input that has most of them. It is 0 if code of
    /// a pipeline is compared with itself, because the application's own code cannot be run.
    pub shown: u64,
    /// The seeds of the inputs that were tried.
    pub seeds: Vec<u64>,
}

impl FreshInputs {
    /// Whether no input was tried.
    pub fn is_none(&self) -> bool {
        self.seeds.is_empty()
    }
}

/// The configuration whose runs a result repeats: a number, or `"baseline"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SharedWith {
    /// The configuration submitted under this id; in a session's results, the trial with this number.
    Number(u64),
    /// A run without a number in a session's results.
    Named(NamedRuns),
}

/// The runs of a session that are not trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedRuns {
    Baseline,
}

/// The device, driver and versions behind a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Device name, e.g. "NVIDIA H200" or "Mneme CPU device".
    pub device: String,
    /// Architecture of the device's machine code, e.g. "sm_90".
    pub arch: String,
    /// Driver version as the vendor writes it, e.g. "13.0".
    pub driver: String,
    /// Clocks while the kernel was timed; `None` if the device does not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clocks: Option<Clocks>,
    /// The timer of the kernel: "events", "cupti" or "rocprofiler".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timer: String,
    /// Why events timed the kernel although the device's own clock was requested; a sentence without its full stop.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timer_reason: String,
    /// Versions that produced this result, by component ("mneme", "llvm", "assembler").
    pub versions: std::collections::BTreeMap<String, String>,
    /// Hash of the code object (see [`crate::hash::chunk_id`]), hex: equal for equal code.
    pub code: String,
}

impl Environment {
    /// The version of LLVM that compiled the code, if LLVM did.
    pub fn compiled_by(&self) -> Option<u32> {
        llvm_version::major(self.versions.get("llvm")?)
    }

    /// The same, if it differs from the version that wrote the IR. The writing version compiles wherever it is
    /// installed.
    pub fn compiled_by_another(&self) -> Option<u32> {
        let written_by = self.versions.get("ir").and_then(|version| llvm_version::major(version));
        self.compiled_by().filter(|version| Some(*version) != written_by)
    }
}

/// Clocks of a device right after the measured runs, as NVML reports them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clocks {
    /// Multiprocessors, MHz.
    pub sm_mhz: u32,
    /// Device memory, MHz.
    pub memory_mhz: u32,
    /// Why the clocks were below their limit, e.g. "power cap"; empty if they were not.
    pub throttled: Vec<String>,
}

/// Resources of the code, as the device and the assembler report them; -1 for unknown values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Registers of a thread.
    pub registers: i64,
    /// Local memory of a thread, bytes.
    pub local: i64,
    /// Constant memory, bytes.
    pub constant: i64,
    /// Static shared memory of a block, bytes.
    pub static_shared: i64,
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared: i64,
    /// Bytes that a thread spills to and reloads from local memory, counting each place in the code once.
    pub spill_stores: i64,
    pub spill_loads: i64,
    /// Blocks of the launch that fit on one multiprocessor at a time.
    pub active_blocks_per_sm: i64,
    /// The warps of these blocks, as a fraction of the multiprocessor's limit.
    pub occupancy: Option<f64>,
    /// The kernel's machine code, bytes.
    pub code_size: i64,
    /// Additional facts from code objects of AMD GPUs; `registers` then counts all vector registers, and `local` is
    /// scratch memory.
    #[serde(flatten)]
    pub amd: Option<AmdMetrics>,
    /// Seconds by stage of the build ("preprocess", "optimise", "codegen", "assemble", …).
    pub build_times: std::collections::BTreeMap<String, f64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            registers: -1,
            local: -1,
            constant: -1,
            static_shared: -1,
            dynamic_shared: -1,
            spill_stores: -1,
            spill_loads: -1,
            active_blocks_per_sm: -1,
            occupancy: None,
            code_size: -1,
            amd: None,
            build_times: std::collections::BTreeMap::new(),
        }
    }
}

/// Facts from the code object of an AMD GPU about its kernel, and derived values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmdMetrics {
    /// Vector registers of a work item, including accumulation registers if both share a register file.
    pub vgprs: i64,
    /// Accumulation registers of a work item.
    pub agprs: i64,
    /// Scalar registers of a wave.
    pub sgprs: i64,
    /// Registers that did not fit. Vector registers spill to scratch memory, scalar ones to vector registers or scratch
    /// memory.
    pub vgpr_spills: i64,
    pub sgpr_spills: i64,
    /// Lanes of a wave.
    pub wavefront_size: i64,
    /// Waves that fit on a SIMD unit at a time, given registers, shared memory and block size (see
    /// [`crate::amd_hardware`]).
    pub waves_per_simd: i64,
}

/// The outcome of a configuration; the names are those of the counts in upstream's `summary.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayStatus {
    Verified,
    /// The kernel ran, but memory differs from the recording.
    FailedVerification,
    /// The kernel ran and memory is as recorded, but that proves too little: a kernel that does less would also pass.
    Unproven,
    CompileError,
    /// The configuration is invalid; nothing was started.
    InvalidConfig,
    /// The driver refused the launch; nothing ran.
    InvalidLaunch,
    /// The kernel failed while it ran.
    RuntimeError,
    /// The build or the runs took longer than their limit.
    Timeout,
    /// Mneme itself failed.
    #[default]
    InternalError,
}

impl ReplayStatus {
    /// Whether memory was as recorded, regardless of what that proves.
    pub fn is_as_recorded(self) -> bool {
        matches!(self, Self::Verified | Self::Unproven)
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::FailedVerification => "failed_verification",
            Self::Unproven => "unproven",
            Self::CompileError => "compile_error",
            Self::InvalidConfig => "invalid_config",
            Self::InvalidLaunch => "invalid_launch",
            Self::RuntimeError => "runtime_error",
            Self::Timeout => "timeout",
            Self::InternalError => "internal_error",
        }
    }

    /// The exit status of a one-shot replay with this outcome.
    pub fn exit_status(self) -> i32 {
        use mneme_system::exit;
        match self {
            Self::Verified => exit::VERIFIED,
            Self::FailedVerification => exit::NOT_VERIFIED,
            Self::Unproven => exit::UNPROVEN,
            Self::InvalidConfig => exit::BAD_USAGE,
            Self::CompileError => exit::BUILD_FAILED,
            Self::InvalidLaunch | Self::RuntimeError => exit::LAUNCH_FAILED,
            Self::Timeout => exit::TIMED_OUT,
            Self::InternalError => exit::INTERNAL,
        }
    }
}

/// A buffer whose replayed contents differ from the recorded epilogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mismatch {
    /// "allocation", the name of the device variable, or "outside" (outside all recorded memory, in the pages that hold
    /// it).
    pub region: String,
    /// Name that the application gave the allocation, or the part of it that it annotated by itself; the recorder's for
    /// an array; or "".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// Start of the region, or of the annotated part, as recorded, e.g. "0x100000000000".
    pub address: String,
    /// Bytes.
    pub size: u64,
    /// The assumed type of the elements, e.g. "f32"; "u8" if unknown.
    pub dtype: String,
    /// The tolerance that was applied: "exact", or e.g. "f32 within 1e-5 (relative)".
    pub tolerance: String,
    /// Offset of the first differing element from that start, bytes.
    pub offset: u64,
    /// Column, row and slice of its texel, if the region is an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texel: Option<[u64; 3]>,
    /// Recorded and replayed value of that element.
    pub recorded: String,
    pub replayed: String,
    /// Elements that exceed the tolerance.
    pub differing: u64,
    /// Size of an element, bytes.
    pub element_size: u32,
    /// The largest errors among them, if they are numbers.
    #[serde(flatten)]
    pub largest: Option<Largest>,
    /// The norm that the tolerance bounds, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm_error: Option<f64>,
}

/// The largest errors of some elements, each in its unit; infinite if only one of two values is a number. Results write
/// infinity as the largest double.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Largest {
    #[serde(rename = "largest_error")]
    pub absolute: f64,
    #[serde(rename = "largest_relative_error")]
    pub relative: f64,
    /// Units in the last place.
    #[serde(rename = "largest_ulp")]
    pub ulp: f64,
}

impl Largest {
    pub const INFINITE: Self = Self { absolute: f64::INFINITY, relative: f64::INFINITY, ulp: f64::INFINITY };

    /// The maximum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            absolute: self.absolute.max(other.absolute),
            relative: self.relative.max(other.relative),
            ulp: self.ulp.max(other.ulp),
        }
    }

    /// Replaces infinity with the largest double, because JSON has no infinity.
    #[must_use]
    pub fn finite(self) -> Self {
        Self {
            absolute: self.absolute.min(f64::MAX),
            relative: self.relative.min(f64::MAX),
            ulp: self.ulp.min(f64::MAX),
        }
    }
}

/// A buffer that differs between runs of the same code on the same memory, or from the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Variation {
    /// See [`Mismatch`].
    pub region: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tag: String,
    pub address: String,
    pub size: u64,
    pub dtype: String,
    /// Runs whose contents differ from the first run.
    pub runs: u64,
    /// The largest number of elements in which a run differs from the first run.
    pub elements: u64,
    /// The largest number of elements in which a run differs from the recording.
    pub from_recorded: u64,
    /// The largest errors against the first run and against the recording, if the elements are numbers.
    #[serde(flatten)]
    pub largest: Option<Largest>,
}

impl Largest {
    /// The relative error of elements that agree in at least half of their digits.
    fn rounding(self, dtype: &str) -> Option<f64> {
        let epsilon = match dtype {
            "f16" => 2f64.powi(-10),
            "f32" => f64::from(f32::EPSILON),
            "f64" => f64::EPSILON,
            _ => return None,
        };
        (self.relative <= epsilon.sqrt()).then_some(self.relative)
    }
}

/// The region of a [`Mismatch`] between the recorded buffers.
pub const OUTSIDE: &str = "outside";

/// A relative tolerance for values with this relative error, as an option takes it: more by at least a tenth, because
/// other runs and configurations round otherwise.
pub fn sufficient_rtol(largest: f64) -> String {
    // Two zeros of different sign have no relative error, but no tolerance compares bits.
    let wanted = 1.1 * largest.max(f64::EPSILON);
    let unit = 10f64.powi(wanted.log10().floor() as i32);
    format!("{:.0e}", (wanted / unit).ceil() * unit)
}

impl ReplayResult {
    fn mismatches(&self) -> impl Iterator<Item = &Mismatch> {
        self.mismatch.iter().chain(&self.more_mismatches)
    }

    /// The largest relative error, if memory differs from the recording only in the last digits of floating-point
    /// values, which have no tolerance or a relative one.
    pub fn rounding(&self) -> Option<f64> {
        let is_relative = |it: &Mismatch| it.tolerance == "exact" || it.tolerance.ends_with("(relative)");
        let of_buffer = |it: &Mismatch| it.largest.filter(|_| is_relative(it))?.rounding(&it.dtype);
        let of_variation = |it: &Variation| it.largest?.rounding(&it.dtype);
        let is_whole = self.mismatches().count() as u64 == self.differing_buffers;
        let errors = self.mismatches().map(of_buffer).chain(self.varying().map(of_variation));
        let errors: Vec<f64> = errors.collect::<Option<_>>()?;
        (is_whole && !errors.is_empty()).then(|| errors.into_iter().fold(0.0, f64::max))
    }

    /// The findings of a survey.
    fn varying(&self) -> impl Iterator<Item = &Variation> {
        self.variations.iter().flatten()
    }

    /// How to find the access, if the kernel wrote outside the recorded buffers or failed while it ran.
    pub fn hint_at_check(&self) -> Option<String> {
        let mut regions = self.mismatches().map(|it| &it.region).chain(self.varying().map(|it| &it.region));
        let what = if regions.any(|region| region == OUTSIDE) {
            "the kernel wrote outside the recorded buffers"
        } else if self.status == ReplayStatus::RuntimeError {
            "the kernel failed while it ran"
        } else {
            return None;
        };
        Some(format!("{what}; to find the access, run mneme replay --check"))
    }

    /// The measured iterations, ns, without the warm-up runs.
    pub fn measured(&self) -> &[u64] {
        &self.exec_time[self.warmup.min(self.exec_time.len())..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_bytes_that_would_be_wrong() {
        let of = |written, shown| Evidence { written, shown, ..Evidence::default() }.proves();
        assert!(of(100, 99) && of(8, 8));
        assert!(!of(0, 0) && !of(100, 0) && !of(100, 98), "nothing, or not enough");
        let doubted = Evidence { written: 8, shown: 8, doubts: vec![Doubt::ReadsClock], ..Evidence::default() };
        assert!(!doubted.proves() && serde_json::to_value(&doubted).unwrap()["doubts"][0]["kind"] == "reads_clock");
        let whole = Evidence { written: 8, shown: 8, rules: vec!["a".into()], ..Evidence::default() };
        let result = ReplayResult { evidence: Some(whole), ..ReplayResult::default() };
        let json = serde_json::to_value(&result).unwrap();
        assert_eq!(json["evidence"]["shown"], 8);
        assert_eq!(serde_json::from_value::<ReplayResult>(json).unwrap(), result);
    }

    fn mismatch(dtype: &str, relative: f64) -> Mismatch {
        let largest = Some(Largest { relative, ..Largest::default() });
        let (region, tolerance) = ("allocation".into(), "exact".into());
        Mismatch { region, tolerance, dtype: dtype.into(), largest, ..Mismatch::default() }
    }

    fn differing(mismatches: &[Mismatch]) -> ReplayResult {
        ReplayResult {
            mismatch: mismatches.first().cloned(),
            more_mismatches: mismatches.iter().skip(1).cloned().collect(),
            differing_buffers: mismatches.len() as u64,
            ..ReplayResult::default()
        }
    }

    #[test]
    fn rounding_leaves_half_of_the_digits() {
        let of = |mismatches: &[Mismatch]| differing(mismatches).rounding();
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[mismatch("f32", 0.1)]), None);
        assert_eq!(of(&[mismatch("i32", 1e-6)]), None);
        assert_eq!(of(&[mismatch("f32", 1e-6), mismatch("f64", 1e-6)]), None);
        for (tolerance, expected) in [("f32 within 1e-7 (relative)", Some(1e-6)), ("f32 within 1e-7 (absolute)", None)]
        {
            assert_eq!(of(&[Mismatch { tolerance: tolerance.into(), ..mismatch("f32", 1e-6) }]), expected);
        }
        assert_eq!(of(&[mismatch("f32", 1.31e-5), mismatch("f64", 1e-12)]), Some(1.31e-5));
        let Mismatch { dtype, largest, .. } = mismatch("f32", 1e-6);
        let surveyed = Variation { dtype, largest, ..Variation::default() };
        let surveyed = ReplayResult { variations: Some(vec![surveyed]), ..ReplayResult::default() };
        assert_eq!(surveyed.rounding(), Some(1e-6));
    }

    #[test]
    fn a_suggested_tolerance_is_sufficient() {
        for (largest, expected) in
            [(1.31e-5, "2e-5"), (1e-6, "2e-6"), (9.5e-7, "2e-6"), (2e-7, "3e-7"), (0.1, "2e-1"), (0.0, "3e-16")]
        {
            assert_eq!(sufficient_rtol(largest), expected);
            assert!(expected.parse::<f64>().unwrap() > largest);
        }
    }

    #[test]
    fn invalid_accesses_lead_to_the_checker() {
        assert!(differing(&[Mismatch { region: OUTSIDE.into(), ..Mismatch::default() }]).hint_at_check().is_some());
        let failed = ReplayResult { status: ReplayStatus::RuntimeError, ..ReplayResult::default() };
        assert!(failed.hint_at_check().is_some());
        assert!(differing(&[mismatch("f32", 1.0)]).hint_at_check().is_none());
    }

    #[test]
    fn the_largest_errors_are_fields_among_the_others() {
        let largest = Some(Largest { absolute: 0.5, relative: f64::MAX, ulp: 3.0 });
        let result = ReplayResult {
            largest,
            mismatch: Some(Mismatch { largest, ..Mismatch::default() }),
            ..ReplayResult::default()
        };
        let json = serde_json::to_value(&result).unwrap();
        assert_eq!((&json["largest_error"], &json["mismatch"]["largest_ulp"]), (&0.5.into(), &3.0.into()));
        assert_eq!(serde_json::from_value::<ReplayResult>(json).unwrap(), result);
        let json = serde_json::to_value(ReplayResult::default()).unwrap();
        assert!(json.get("largest_error").is_none());
        assert_eq!(serde_json::from_value::<ReplayResult>(json).unwrap(), ReplayResult::default());
    }
}
