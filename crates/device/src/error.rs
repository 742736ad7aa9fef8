//! Errors of devices and of profilers, each in one sentence for the user.

use std::path::PathBuf;

use crate::cupti_failure::CuptiFailure;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The driver's library is missing or is not a driver.
    #[error("{library} cannot be used: {message}")]
    Library { library: String, message: String },
    #[error("{library} finds no device")]
    NoDevice { library: String },
    #[error("there is no device {ordinal}; {library} shows {count}")]
    NoSuchDevice { library: String, ordinal: i32, count: i32 },
    /// The address range is taken in this process.
    #[error("the address range 0x{address:x}+0x{size:x} is taken in this process")]
    Clash { address: u64, size: u64 },
    #[error("the device has no room for {size} bytes more")]
    OutOfMemory { size: u64 },
    #[error(
        "the driver gives no texture or surface object the recorded handle {handle}; record the kernel again on this driver"
    )]
    Handle { handle: u64 },
    /// Any other failure of a driver call.
    #[error("{name}: {text} ({function})")]
    Call { function: &'static str, code: u32, name: String, text: String },
    /// A launch that the device supports, but the device of the code does not.
    #[error("{0}")]
    Refused(String),
}

impl DeviceError {
    /// Whether the driver refused a launch or its preparation: nothing has run.
    pub fn is_refused_launch(&self) -> bool {
        const LAUNCHES: [&str; 3] = ["cuLaunch", "cuFunc", "hipModuleLaunch"];
        const LIMITS: [&str; 2] = ["cuCtxSetLimit", "hipDeviceSetLimit"];
        match self {
            Self::Call { function, .. } => {
                LAUNCHES.iter().any(|start| function.starts_with(start)) || LIMITS.contains(function)
            }
            Self::Refused(_) => true,
            _ => false,
        }
    }
}

/// The reason why a vendor's profiling library cannot time or count kernels. A message is a sentence without its full
/// stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfilerError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("neither {} is installed; CUDA's toolkit has CUPTI", .0.join(" nor "))]
    NoCupti([&'static str; 2]),
    #[error("no rocprofiler-sdk is known for {}", .0.display())]
    UnknownHip(PathBuf),
    #[error("{} is not installed ({why})", library.display())]
    NotInstalled { library: PathBuf, why: String },
    #[error("CUPTI is left to another profiler ({0})")]
    OtherProfiler(String),
    #[error("{0} (another profiler may be at work)")]
    Taken(Box<Self>),
    #[error("{} is older than CUDA 12.6 and has no range profiler", .0.display())]
    NoRangeProfiler(PathBuf),
    #[error("{0}")]
    MissingFunction(String),
    #[error("{function} returned error {code}{}", text.as_ref().map_or_else(String::new, |text| format!(" ({text})")))]
    Call { function: &'static str, code: u32, text: Option<String> },
    #[error("rocprofiler-sdk cannot be used: {0}")]
    Rocprofiler(Box<Self>),
    #[error("version {}.{}.{} is older than {}.{}", found.0, found.1, found.2, oldest.0, oldest.1)]
    OldVersion { found: (u32, u32, u32), oldest: (u32, u32) },
    #[error("version {}.{}.{} is not known; {last} is the last that is", found.0, found.1, found.2)]
    NewVersion { found: (u32, u32, u32), last: u32 },
    #[error("it has not configured its session")]
    NotConfigured,

    /// A launch does not have exactly one kernel.
    #[error("CUPTI reports {} for launch {launch}", if *kernels == 0 { "no kernel".into() } else { format!("{kernels} kernels") })]
    Kernels { kernels: usize, launch: usize },
    #[error("rocprofiler-sdk has reported {kernels} kernels for {launches} launches{}", if *dropped > 0 { format!("; {dropped} records found no room") } else { String::new() })]
    Records { kernels: usize, launches: usize, dropped: u64 },
    #[error("rocprofiler-sdk has reported kernels on several devices for the launches on one")]
    SeveralDevices,
    #[error("rocprofiler-sdk has reported a kernel without its times")]
    NoTimes,
    #[error("a record of rocprofiler-sdk has {found} bytes, and {needed} are needed")]
    ShortRecord { found: u64, needed: usize },
    #[error("records of rocprofiler-sdk, {0} bytes long, are not laid out as is known")]
    RecordLayout(u64),

    #[error("the CPU device has no hardware counters; NVIDIA's GPUs have")]
    CountersOfCpu,
    #[error("hardware counters are CUPTI's, of NVIDIA's GPUs; AMD's are not counted")]
    CountersOfAmd,
    #[error("CUPTI cannot count while it times kernels; leave --timer cupti out")]
    CuptiTimes,
    #[error("no context is current (cuCtxGetCurrent: {0})")]
    NoContext(u32),
    #[error("{0}")]
    Cupti(CuptiFailure),
    #[error("{chip} has no counter {name}; {base} is written with {suffixes}")]
    CounterSuffix { chip: String, name: String, base: String, suffixes: &'static str },
    /// `alike` are counters with the same unit.
    #[error("{chip} has no counter {name}; {}", if alike.is_empty() { "ncu --query-metrics lists those that there are".into() } else { format!("of {unit} there are {}", alike.join(", ")) })]
    NoCounter { chip: String, name: String, unit: String, alike: Vec<String> },
    #[error("CUPTI announced {announced} passes and has not ended after {made}")]
    Passes { announced: usize, made: usize },
    #[error("CUPTI counted {ranges} launches in place of one, and dropped {dropped}")]
    Ranges { ranges: usize, dropped: usize },
    #[error("CUPTI gives {value} for {name}")]
    NoNumber { name: String, value: String },
}
