//! The meaning of CUPTI's failures.

use std::ffi::c_int;
use std::fmt;
use std::path::PathBuf;

use mneme_abi::cuda::profiler_structures as p;

/// The function that fails if CUPTI is older than the GPU.
const HOST_INITIALIZE: &str = "cuptiProfilerHostInitialize";

/// A failed call of CUPTI, in a message with its meaning and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuptiFailure {
    pub function: &'static str,
    pub code: c_int,
    /// The code's name and number.
    pub name: String,
    pub library: PathBuf,
}

impl fmt::Display for CuptiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, code, name, library } = self;
        let meaning = match *code {
            p::INSUFFICIENT_PRIVILEGES | p::VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES => {
                "NVIDIA's driver lets administrators alone read hardware counters (ERR_NVGPUCTRPERM): load the module \
                 nvidia with NVreg_RestrictProfilingToAdminUsers=0, or run with the capability CAP_SYS_ADMIN"
            }
            p::HARDWARE_BUSY | p::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED => {
                "another program has the GPU's hardware counters: end other profilers, and pause DCGM's with dcgmi \
                 profile --pause"
            }
            p::MIG_DEVICE_NOT_SUPPORTED => "an instance of a partitioned GPU (MIG) does not have separate counters",
            p::CONFIDENTIAL_COMPUTING_NOT_SUPPORTED => "GPUs in confidential computing are not counted on",
            p::VIRTUALIZED_DEVICE_NOT_SUPPORTED => "this virtual GPU has no hardware counters",
            _ if *function == HOST_INITIALIZE => {
                let library = library.display();
                return write!(f, "{library} does not know the GPU; install a newer CUPTI ({function}: {name})");
            }
            _ => return write!(f, "{function} failed with {name}"),
        };
        write!(f, "{meaning} ({function}: {name})")
    }
}
