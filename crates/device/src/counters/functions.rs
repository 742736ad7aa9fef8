//! CUPTI's functions for counting, and the meaning of their failures.

use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;

use libloading::Library;
use mneme_abi::cuda::profiler_structures as p;

use crate::cupti;
use crate::cupti_failure::CuptiFailure;
use crate::error::ProfilerError;

/// The library behind CUPTI's host half, which CUPTI loads by its bare name.
const HOST: &str = "libnvperf_host.so";

/// A function of CUPTI's, which takes a pointer to its parameters.
pub struct Function<P> {
    pub name: &'static str,
    pointer: unsafe extern "C" fn(*mut P) -> c_int,
}

/// A call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    pub function: &'static str,
    pub code: c_int,
}

impl<P> Function<P> {
    /// # Safety
    /// The targets of the parameters' pointers must satisfy the function's requirements.
    pub unsafe fn call(&self, parameters: &mut P) -> Result<(), Failed> {
        // SAFETY: as the caller promises.
        let code = unsafe { (self.pointer)(parameters) };
        if code == p::SUCCESS { Ok(()) } else { Err(Failed { function: self.name, code }) }
    }
}

macro_rules! functions {
    ($($field:ident: $parameters:ident = $symbol:literal;)*) => {
        /// The functions, with the library that contains them.
        pub struct Functions {
            $(pub $field: Function<p::$parameters>,)*
            text: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
            /// The library's path.
            pub path: PathBuf,
            _library: Library,
            _host: Option<Library>,
        }

        impl Functions {
            /// Loads CUPTI; `toolkits` are roots of CUDA installations.
            ///
            /// # Errors
            /// CUPTI is not installed, or is too old.
            pub fn load(toolkits: &[PathBuf]) -> Result<Self, ProfilerError> {
                let (library, path) = cupti::library(toolkits)?;
                let beside = path.parent().map(|folder| folder.join(HOST)).filter(|path| path.is_file());
                // SAFETY: the constructors of NVIDIA's libraries are made to run when a process loads them.
                let host = beside.and_then(|path| unsafe { Library::new(path) }.ok());
                let old = |_| ProfilerError::NoRangeProfiler(path.clone());
                // SAFETY: the types are those of the headers.
                unsafe {
                    $(let $field = *library.get(concat!($symbol, "\0").as_bytes()).map_err(old)?;)*
                    let text = *library.get(b"cuptiGetResultString\0").map_err(old)?;
                    Ok(Self {
                        $($field: Function { name: $symbol, pointer: $field },)*
                        text,
                        path,
                        _library: library,
                        _host: host,
                    })
                }
            }
        }
    };
}

functions! {
    initialize: ProfilerInitialize = "cuptiProfilerInitialize";
    chip_name: DeviceChipName = "cuptiDeviceGetChipName";
    availability: CounterAvailability = "cuptiProfilerGetCounterAvailability";
    host_initialize: HostInitialize = "cuptiProfilerHostInitialize";
    host_deinitialize: HostDeinitialize = "cuptiProfilerHostDeinitialize";
    base_metrics: HostBaseMetrics = "cuptiProfilerHostGetBaseMetrics";
    add_metrics: HostAddMetrics = "cuptiProfilerHostConfigAddMetrics";
    config_image_size: HostConfigImageSize = "cuptiProfilerHostGetConfigImageSize";
    config_image: HostConfigImage = "cuptiProfilerHostGetConfigImage";
    passes: HostPasses = "cuptiProfilerHostGetNumOfPasses";
    evaluate: HostEvaluate = "cuptiProfilerHostEvaluateToGpuValues";
    enable: RangeEnable = "cuptiRangeProfilerEnable";
    disable: RangeDisable = "cuptiRangeProfilerDisable";
    counter_data_size: RangeCounterDataSize = "cuptiRangeProfilerGetCounterDataSize";
    counter_data_initialize: RangeCounterDataInitialize = "cuptiRangeProfilerCounterDataImageInitialize";
    set_config: RangeSetConfig = "cuptiRangeProfilerSetConfig";
    start: RangeStart = "cuptiRangeProfilerStart";
    stop: RangeStop = "cuptiRangeProfilerStop";
    push: RangePush = "cuptiRangeProfilerPushRange";
    pop: RangePop = "cuptiRangeProfilerPopRange";
    decode: RangeDecode = "cuptiRangeProfilerDecodeData";
    counter_data_info: RangeCounterDataInfo = "cuptiRangeProfilerGetCounterDataInfo";
}

impl Functions {
    pub fn explain(&self, Failed { function, code }: Failed) -> ProfilerError {
        ProfilerError::Cupti(CuptiFailure { function, code, name: self.name(code), library: self.path.clone() })
    }

    /// A result's name and number.
    fn name(&self, code: c_int) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the place is valid for the answer, which is a text of CUPTI's own that lasts.
        let known = unsafe { (self.text)(code, &raw mut text) == p::SUCCESS && !text.is_null() };
        // SAFETY: as above.
        if known { format!("{} ({code})", unsafe { CStr::from_ptr(text) }.to_string_lossy()) } else { code.to_string() }
    }
}
