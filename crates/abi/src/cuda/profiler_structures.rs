//! Parameters of the functions of CUPTI's range profiler and of its host half.
//!
//! Each function takes one structure, which begins with its own size up to its last field. They match `cupti_target.h`,
//! `cupti_profiler_target.h`, `cupti_profiler_host.h` and `cupti_range_profiler.h` of CUDA 12.6 and later, as a test
//! checks. Handles and addresses are numbers.

use super::types::*;
use crate::structure::structures;

structures! {
    /// `CUpti_Profiler_Initialize_Params`
    ProfilerInitialize = "CUpti_Profiler_Initialize_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
    }

    /// `CUpti_Device_GetChipName_Params`
    DeviceChipName = "CUpti_Device_GetChipName_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        device: usize = "deviceIndex",
        /// Zero-terminated; owned by CUPTI.
        name: usize = "pChipName",
    }

    /// `CUpti_Profiler_GetCounterAvailability_Params`
    CounterAvailability = "CUpti_Profiler_GetCounterAvailability_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        context: usize = "ctx",
        /// In and out.
        image_size: usize = "counterAvailabilityImageSize",
        image: usize = "pCounterAvailabilityImage",
    }

    /// `CUpti_Profiler_Host_Initialize_Params`
    HostInitialize = "CUpti_Profiler_Host_Initialize_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        kind: u32 = "profilerType",
        chip: usize = "pChipName",
        availability: usize = "pCounterAvailabilityImage",
        host: usize = "pHostObject",
    }

    /// `CUpti_Profiler_Host_Deinitialize_Params`
    HostDeinitialize = "CUpti_Profiler_Host_Deinitialize_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        host: usize = "pHostObject",
    }

    /// `CUpti_Profiler_Host_GetBaseMetrics_Params`
    HostBaseMetrics = "CUpti_Profiler_Host_GetBaseMetrics_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        host: usize = "pHostObject",
        kind: u32 = "metricType",
        /// An array of texts; owned by CUPTI.
        names: usize = "ppMetricNames",
        count: usize = "numMetrics",
    }

    /// `CUpti_Profiler_Host_ConfigAddMetrics_Params`
    HostAddMetrics = "CUpti_Profiler_Host_ConfigAddMetrics_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        host: usize = "pHostObject",
        names: usize = "ppMetricNames",
        count: usize = "numMetrics",
    }

    /// `CUpti_Profiler_Host_GetConfigImageSize_Params`
    HostConfigImageSize = "CUpti_Profiler_Host_GetConfigImageSize_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        host: usize = "pHostObject",
        image_size: usize = "configImageSize",
    }

    /// `CUpti_Profiler_Host_GetConfigImage_Params`
    HostConfigImage = "CUpti_Profiler_Host_GetConfigImage_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        host: usize = "pHostObject",
        image_size: usize = "configImageSize",
        image: usize = "pConfigImage",
    }

    /// `CUpti_Profiler_Host_GetNumOfPasses_Params`
    HostPasses = "CUpti_Profiler_Host_GetNumOfPasses_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        image_size: usize = "configImageSize",
        image: usize = "pConfigImage",
        passes: usize = "numOfPasses",
    }

    /// `CUpti_Profiler_Host_EvaluateToGpuValues_Params`
    HostEvaluate = "CUpti_Profiler_Host_EvaluateToGpuValues_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        host: usize = "pHostObject",
        image: usize = "pCounterDataImage",
        image_size: usize = "counterDataImageSize",
        range: usize = "rangeIndex",
        names: usize = "ppMetricNames",
        count: usize = "numMetrics",
        /// An array of that many doubles.
        values: usize = "pMetricValues",
    }

    /// `CUpti_RangeProfiler_Enable_Params`
    RangeEnable = "CUpti_RangeProfiler_Enable_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        context: usize = "ctx",
        profiler: usize = "pRangeProfilerObject",
    }

    /// `CUpti_RangeProfiler_Disable_Params`
    RangeDisable = "CUpti_RangeProfiler_Disable_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
    }

    /// `CUpti_RangeProfiler_GetCounterDataSize_Params`
    RangeCounterDataSize = "CUpti_RangeProfiler_GetCounterDataSize_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
        names: usize = "pMetricNames",
        count: usize = "numMetrics",
        ranges: usize = "maxNumOfRanges",
        nodes: u32 = "maxNumRangeTreeNodes",
        image_size: usize = "counterDataSize",
    }

    /// `CUpti_RangeProfiler_CounterDataImage_Initialize_Params`
    RangeCounterDataInitialize = "CUpti_RangeProfiler_CounterDataImage_Initialize_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
        image_size: usize = "counterDataSize",
        image: usize = "pCounterData",
    }

    /// `CUpti_RangeProfiler_SetConfig_Params`
    RangeSetConfig = "CUpti_RangeProfiler_SetConfig_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
        config_size: usize = "configSize",
        config: usize = "pConfig",
        image_size: usize = "counterDataImageSize",
        image: usize = "pCounterDataImage",
        range: u32,
        replay: u32 = "replayMode",
        ranges: usize = "maxRangesPerPass",
        levels: u16 = "numNestingLevels",
        least_level: u16 = "minNestingLevel",
        pass: usize = "passIndex",
        level: u16 = "targetNestingLevel",
    }

    /// `CUpti_RangeProfiler_Start_Params`
    RangeStart = "CUpti_RangeProfiler_Start_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
    }

    /// `CUpti_RangeProfiler_Stop_Params`
    RangeStop = "CUpti_RangeProfiler_Stop_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
        pass: usize = "passIndex",
        level: usize = "targetNestingLevel",
        /// 1 after the last pass.
        is_last: u8 = "isAllPassSubmitted",
    }

    /// `CUpti_RangeProfiler_PushRange_Params`
    RangePush = "CUpti_RangeProfiler_PushRange_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
        name: usize = "pRangeName",
    }

    /// `CUpti_RangeProfiler_PopRange_Params`
    RangePop = "CUpti_RangeProfiler_PopRange_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
    }

    /// `CUpti_RangeProfiler_DecodeData_Params`
    RangeDecode = "CUpti_RangeProfiler_DecodeData_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        profiler: usize = "pRangeProfilerObject",
        dropped: usize = "numOfRangeDropped",
    }

    /// `CUpti_RangeProfiler_GetCounterDataInfo_Params`
    RangeCounterDataInfo = "CUpti_RangeProfiler_GetCounterDataInfo_Params" {
        size: usize = "structSize",
        private: usize = "pPriv",
        image: usize = "pCounterDataImage",
        image_size: usize = "counterDataImageSize",
        ranges: usize = "numTotalRanges",
    }
}

/// Implements parameters that state their own size: up to the end of the last field, which is less than C's `sizeof`.
macro_rules! sized {
    ($($name:ident: $last:ident $of:ty = $c_name:literal;)*) => {
        $(impl Default for $name {
            /// All zero except the size.
            fn default() -> Self {
                // SAFETY: all fields are numbers.
                let zero: Self = unsafe { std::mem::zeroed() };
                Self { size: std::mem::offset_of!(Self, $last) + size_of::<$of>(), ..zero }
            }
        })*

        /// The stated sizes, in bytes, by the structure's name in the header.
        pub fn sizes() -> Vec<(&'static str, usize)> {
            vec![$(($c_name, $name::default().size)),*]
        }
    };
}

sized! {
    ProfilerInitialize: private usize = "CUpti_Profiler_Initialize_Params";
    DeviceChipName: name usize = "CUpti_Device_GetChipName_Params";
    CounterAvailability: image usize = "CUpti_Profiler_GetCounterAvailability_Params";
    HostInitialize: host usize = "CUpti_Profiler_Host_Initialize_Params";
    HostDeinitialize: host usize = "CUpti_Profiler_Host_Deinitialize_Params";
    HostBaseMetrics: count usize = "CUpti_Profiler_Host_GetBaseMetrics_Params";
    HostAddMetrics: count usize = "CUpti_Profiler_Host_ConfigAddMetrics_Params";
    HostConfigImageSize: image_size usize = "CUpti_Profiler_Host_GetConfigImageSize_Params";
    HostConfigImage: image usize = "CUpti_Profiler_Host_GetConfigImage_Params";
    HostPasses: passes usize = "CUpti_Profiler_Host_GetNumOfPasses_Params";
    HostEvaluate: values usize = "CUpti_Profiler_Host_EvaluateToGpuValues_Params";
    RangeEnable: profiler usize = "CUpti_RangeProfiler_Enable_Params";
    RangeDisable: profiler usize = "CUpti_RangeProfiler_Disable_Params";
    RangeCounterDataSize: image_size usize = "CUpti_RangeProfiler_GetCounterDataSize_Params";
    RangeCounterDataInitialize: image usize = "CUpti_RangeProfiler_CounterDataImage_Initialize_Params";
    RangeSetConfig: level u16 = "CUpti_RangeProfiler_SetConfig_Params";
    RangeStart: profiler usize = "CUpti_RangeProfiler_Start_Params";
    RangeStop: is_last u8 = "CUpti_RangeProfiler_Stop_Params";
    RangePush: name usize = "CUpti_RangeProfiler_PushRange_Params";
    RangePop: profiler usize = "CUpti_RangeProfiler_PopRange_Params";
    RangeDecode: dropped usize = "CUpti_RangeProfiler_DecodeData_Params";
    RangeCounterDataInfo: ranges usize = "CUpti_RangeProfiler_GetCounterDataInfo_Params";
}

/// Declares constants of the headers, with the header's name if that differs.
macro_rules! numbers {
    ($($(#[$attribute:meta])* $name:ident: $type:ty = $number:literal $c_name:literal;)*) => {
        $($(#[$attribute])* pub const $name: $type = $number;)*

        /// All of them, by the headers' names.
        pub const NUMBERS: &[(&str, i64)] = &[$(($c_name, $name as i64)),*];
    };
}

numbers! {
    SUCCESS: c_int = 0 "CUPTI_SUCCESS";
    INVALID_PARAMETER: c_int = 1 "CUPTI_ERROR_INVALID_PARAMETER";
    INVALID_METRIC_NAME: c_int = 17 "CUPTI_ERROR_INVALID_METRIC_NAME";
    HARDWARE_BUSY: c_int = 26 "CUPTI_ERROR_HARDWARE_BUSY";
    VIRTUALIZED_DEVICE_NOT_SUPPORTED: c_int = 33 "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED";
    INSUFFICIENT_PRIVILEGES: c_int = 35 "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
    MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: c_int = 39 "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES: c_int = 40 "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES";
    CONFIDENTIAL_COMPUTING_NOT_SUPPORTED: c_int = 41 "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED";
    MIG_DEVICE_NOT_SUPPORTED: c_int = 43 "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED";
    TYPE_RANGE_PROFILER: u32 = 0 "CUPTI_PROFILER_TYPE_RANGE_PROFILER";
    METRIC_COUNTER: u32 = 0 "CUPTI_METRIC_TYPE_COUNTER";
    METRIC_RATIO: u32 = 1 "CUPTI_METRIC_TYPE_RATIO";
    METRIC_THROUGHPUT: u32 = 2 "CUPTI_METRIC_TYPE_THROUGHPUT";
    /// A range extends from its push to its pop.
    USER_RANGE: u32 = 2 "CUPTI_UserRange";
    /// The program repeats the range, once for each pass.
    USER_REPLAY: u32 = 3 "CUPTI_UserReplay";
}
