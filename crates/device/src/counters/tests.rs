//! Tests the protocol with CUPTI against a strict stand-in library, compiled with CUPTI's own headers.

use super::*;
use std::process::Command;

/// A CUPTI with one chip, three counters in two passes, and checks of the documented order of calls. The function
/// `FAILING` fails with `CODE`.
const STAND_IN: &str = r#"
    #include <string.h>
    #include <math.h>
    #include <stdlib.h>
    #include <cupti_target.h>
    #include <cupti_profiler_target.h>
    #include <cupti_profiler_host.h>
    #include <cupti_range_profiler.h>
    #define CHECK(condition) do { if (!(condition)) return CUPTI_ERROR_INVALID_OPERATION; } while (0)
    #define BEGIN(type, function) \
        if (params->structSize != type##_STRUCT_SIZE || params->pPriv) return CUPTI_ERROR_INVALID_PARAMETER; \
        if (!strcmp(#function, FAILING)) return CODE;
    #define FUNCTION(function, type) CUptiResult function(type *params) { BEGIN(type, function)
    #define END return CUPTI_SUCCESS; }
    #define CONTEXT ((CUcontext)0x77)
    #define PROFILER ((CUpti_RangeProfiler_Object *)0x99)
    #define HOST ((CUpti_Profiler_Host_Object *)0x55)
    static const char *known[] = {"dram__bytes", "dram__bytes_read", "sm__cycles", 0};
    static int initialized, enabled, configured, running, pushed, passes, decoded, added;
    static uint8_t *data;
    int launches;
    CUptiResult cuptiGetResultString(CUptiResult code, const char **text) {
        *text = code == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_OTHER";
        return CUPTI_SUCCESS;
    }
    FUNCTION(cuptiProfilerInitialize, CUpti_Profiler_Initialize_Params) initialized = 1; END
    FUNCTION(cuptiDeviceGetChipName, CUpti_Device_GetChipName_Params)
        CHECK(initialized && params->deviceIndex == 3);
        params->pChipName = "ZZ100"; END
    FUNCTION(cuptiProfilerGetCounterAvailability, CUpti_Profiler_GetCounterAvailability_Params)
        CHECK(params->ctx == CONTEXT);
        if (params->pCounterAvailabilityImage) strcpy((char *)params->pCounterAvailabilityImage, "available");
        params->counterAvailabilityImageSize = 10; END
    FUNCTION(cuptiProfilerHostInitialize, CUpti_Profiler_Host_Initialize_Params)
        CHECK(!strcmp(params->pChipName, "ZZ100") && !strcmp((const char *)params->pCounterAvailabilityImage, "available"));
        CHECK(params->profilerType == CUPTI_PROFILER_TYPE_RANGE_PROFILER);
        added = 0; params->pHostObject = HOST; END
    FUNCTION(cuptiProfilerHostDeinitialize, CUpti_Profiler_Host_Deinitialize_Params) CHECK(params->pHostObject == HOST); END
    FUNCTION(cuptiProfilerHostGetBaseMetrics, CUpti_Profiler_Host_GetBaseMetrics_Params)
        params->ppMetricNames = known;
        params->numMetrics = params->metricType == CUPTI_METRIC_TYPE_COUNTER ? 3 : 0; END
    FUNCTION(cuptiProfilerHostConfigAddMetrics, CUpti_Profiler_Host_ConfigAddMetrics_Params)
        CHECK(params->pHostObject == HOST);
        for (size_t i = 0; i < params->numMetrics; i++) {
            const char *dot = strstr(params->ppMetricNames[i], ".sum");
            int found = 0;
            for (const char **name = known; *name; name++)
                found |= dot && !strncmp(*name, params->ppMetricNames[i], dot - params->ppMetricNames[i])
                    && strlen(*name) == (size_t)(dot - params->ppMetricNames[i]);
            if (!found) return CUPTI_ERROR_INVALID_PARAMETER;
        }
        added = params->numMetrics; END
    FUNCTION(cuptiProfilerHostGetConfigImageSize, CUpti_Profiler_Host_GetConfigImageSize_Params)
        CHECK(added); params->configImageSize = 13; END
    FUNCTION(cuptiProfilerHostGetConfigImage, CUpti_Profiler_Host_GetConfigImage_Params)
        CHECK(params->configImageSize == 13);
        memcpy(params->pConfigImage, "configuration", 13); END
    FUNCTION(cuptiProfilerHostGetNumOfPasses, CUpti_Profiler_Host_GetNumOfPasses_Params)
        CHECK(!memcmp(params->pConfigImage, "configuration", 13)); params->numOfPasses = 2; END
    FUNCTION(cuptiProfilerHostEvaluateToGpuValues, CUpti_Profiler_Host_EvaluateToGpuValues_Params)
        CHECK(decoded && params->pCounterDataImage == data && params->rangeIndex == 0);
        for (size_t i = 0; i < params->numMetrics; i++)
            params->pMetricValues[i] = strstr(params->ppMetricNames[i], "cycles") ? NAN : 100.0 * launches + i;
        END
    FUNCTION(cuptiRangeProfilerEnable, CUpti_RangeProfiler_Enable_Params)
        CHECK(params->ctx == CONTEXT && !enabled);
        enabled = 1; passes = 0; decoded = 0; params->pRangeProfilerObject = PROFILER; END
    FUNCTION(cuptiRangeProfilerDisable, CUpti_RangeProfiler_Disable_Params)
        CHECK(enabled && !running); enabled = configured = 0; END
    FUNCTION(cuptiRangeProfilerGetCounterDataSize, CUpti_RangeProfiler_GetCounterDataSize_Params)
        CHECK(enabled && params->numMetrics == (size_t)added && params->maxNumOfRanges == 1 && params->maxNumRangeTreeNodes == 1);
        params->counterDataSize = 100; END
    FUNCTION(cuptiRangeProfilerCounterDataImageInitialize, CUpti_RangeProfiler_CounterDataImage_Initialize_Params)
        CHECK(enabled && params->counterDataSize == 100 && (uintptr_t)params->pCounterData % 8 == 0);
        data = params->pCounterData; END
    FUNCTION(cuptiRangeProfilerSetConfig, CUpti_RangeProfiler_SetConfig_Params)
        CHECK(enabled && params->pCounterDataImage == data && params->counterDataImageSize == 100);
        CHECK(params->configSize == 13 && !memcmp(params->pConfig, "configuration", 13));
        CHECK(params->range == CUPTI_UserRange && params->replayMode == CUPTI_UserReplay && params->maxRangesPerPass == 1);
        CHECK(params->numNestingLevels == 1 && params->minNestingLevel == 1 && params->passIndex == 0);
        configured = 1; END
    FUNCTION(cuptiRangeProfilerStart, CUpti_RangeProfiler_Start_Params)
        CHECK(params->pRangeProfilerObject == PROFILER && configured && !running); running = 1; END
    FUNCTION(cuptiRangeProfilerPushRange, CUpti_RangeProfiler_PushRange_Params)
        CHECK(running && !pushed && params->pRangeName); pushed = 1; launches = 0; END
    FUNCTION(cuptiRangeProfilerPopRange, CUpti_RangeProfiler_PopRange_Params)
        CHECK(pushed); pushed = 0; END
    FUNCTION(cuptiRangeProfilerStop, CUpti_RangeProfiler_Stop_Params)
        CHECK(running && !pushed); running = 0; params->isAllPassSubmitted = ++passes == 2; END
    FUNCTION(cuptiRangeProfilerDecodeData, CUpti_RangeProfiler_DecodeData_Params)
        CHECK(enabled && !running && passes == 2); decoded = 1; params->numOfRangeDropped = 0; END
    FUNCTION(cuptiRangeProfilerGetCounterDataInfo, CUpti_RangeProfiler_GetCounterDataInfo_Params)
        CHECK(decoded && params->pCounterDataImage == data); params->numTotalRanges = 1; END
"#;

/// A toolkit with that CUPTI.
struct Toolkit(tempfile::TempDir);

impl Toolkit {
    fn new(failing: &str, code: i32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("cupti.c"), folder.path().join("lib64/libcupti.so.13"));
        std::fs::create_dir(folder.path().join("lib64")).unwrap();
        std::fs::write(&source, STAND_IN).unwrap();
        // A header includes this C++ header without using it.
        std::fs::write(folder.path().join("string"), "").unwrap();
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/cuda/include");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-w"]).arg(format!("-DFAILING=\"{failing}\"")).arg(format!("-DCODE={code}"));
        compiler.arg("-I").arg(&headers).arg("-I").arg(folder.path()).arg("-o").args([&library, &source]);
        assert!(compiler.status().unwrap().success(), "run ./scripts/setup");
        Self(folder)
    }

    fn open(&self) -> Result<Counters, ProfilerError> {
        Counters::of_context(&[self.0.path().to_owned()], 0x77, 3)
    }
}

/// Notes the calls, and fails in the launch with this number.
struct Launches<'a> {
    counters: *mut i32,
    done: &'a mut String,
    failing: usize,
}

impl CountedLaunch for Launches<'_> {
    type Error = &'static str;

    fn prepare(&mut self) -> Result<(), &'static str> {
        self.done.push('p');
        Ok(())
    }

    fn launch(&mut self) -> Result<(), &'static str> {
        self.done.push('l');
        if self.done.matches('l').count() == self.failing {
            return Err("a fault");
        }
        // SAFETY: a variable of the stand-in.
        unsafe { *self.counters += 7 };
        Ok(())
    }

    fn restore(&mut self) -> Result<(), &'static str> {
        self.done.push('r');
        Ok(())
    }
}

/// The counters, or the reason for missing ones; or the launches' error.
type Counted = Result<Result<BTreeMap<String, f64>, ProfilerError>, &'static str>;

fn count(counters: &mut Counters, names: &[&str], failing: usize) -> (String, Counted) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    // SAFETY: the stand-in has this variable, and stays loaded.
    let launches = unsafe {
        let library = libloading::Library::new(&counters.chip.functions.path).unwrap();
        let variable: *mut i32 = *library.get(b"launches\0").unwrap();
        std::mem::forget(library);
        variable
    };
    let mut done = String::new();
    let counted = counters.count(&names, &mut Launches { counters: launches, done: &mut done, failing });
    (done, counted)
}

#[test]
fn a_launch_is_counted_in_as_many_passes_as_it_takes() {
    let toolkit = Toolkit::new("none", 0);
    let mut counters = toolkit.open().unwrap();
    for _ in 0..2 {
        let (done, counted) = count(&mut counters, &["dram__bytes.sum", "dram__bytes_read.sum"], 0);
        assert_eq!(done, "plrplr");
        let expected = [("dram__bytes.sum".to_owned(), 700.0), ("dram__bytes_read.sum".to_owned(), 701.0)];
        assert_eq!(counted, Ok(Ok(BTreeMap::from(expected))), "what is in the range counts, and nothing else");
    }
    let (done, counted) = count(&mut counters, &["dram__bytes.sum"], 0);
    assert_eq!((done.as_str(), counted.unwrap().unwrap().len()), ("plrplr", 1), "others than before");
}

#[test]
fn what_is_not_counted_is_named() {
    let toolkit = Toolkit::new("none", 0);
    let mut counters = toolkit.open().unwrap();
    let (done, counted) = count(&mut counters, &["dram__bytes.sum", "dram__byts.sum"], 0);
    let alike = ["dram__bytes", "dram__bytes_read"].map(str::to_owned).into();
    let (chip, name, unit) = ("ZZ100".into(), "dram__byts.sum".into(), "dram".into());
    assert_eq!((done.as_str(), counted), ("", Ok(Err(ProfilerError::NoCounter { chip, name, unit, alike }))));
    let (_, counted) = count(&mut counters, &["dram__bytes"], 0);
    assert!(matches!(counted, Ok(Err(ProfilerError::CounterSuffix { base, .. })) if base == "dram__bytes"));
    let (_, counted) = count(&mut counters, &["sm__cycles.sum"], 0);
    assert!(matches!(counted, Ok(Err(ProfilerError::NoNumber { name, .. })) if name == "sm__cycles.sum"));
    // The profiler is off after each call.
    assert!(count(&mut counters, &["dram__bytes.sum"], 0).1.unwrap().is_ok());
}

#[test]
fn a_launch_that_fails_is_the_launch_s_failure() {
    let toolkit = Toolkit::new("none", 0);
    let (done, counted) = count(&mut toolkit.open().unwrap(), &["dram__bytes.sum"], 2);
    assert_eq!((done.as_str(), counted), ("plrpl", Err("a fault")));
}

#[test]
fn missing_rights_and_counters_in_use_are_told_with_their_remedy() {
    let explained = |function: &str, code| match Toolkit::new(function, code).open() {
        Err(why) => why,
        Ok(mut counters) => {
            let (done, counted) = count(&mut counters, &["dram__bytes.sum"], 0);
            assert!(["", "pr", "plr"].contains(&done.as_str()), "memory is put back: {done}");
            counted.unwrap().unwrap_err()
        }
    };
    for (function, code) in [
        ("cuptiProfilerGetCounterAvailability", p::INSUFFICIENT_PRIVILEGES),
        ("cuptiRangeProfilerEnable", p::INSUFFICIENT_PRIVILEGES),
        ("cuptiRangeProfilerStart", p::HARDWARE_BUSY),
        ("cuptiRangeProfilerSetConfig", p::MIG_DEVICE_NOT_SUPPORTED),
        ("cuptiRangeProfilerStop", 999),
    ] {
        let error = explained(function, code);
        let ProfilerError::Cupti(failure) = &error else { panic!("{error}") };
        assert_eq!((failure.function, failure.code), (function, code));
        let said = error.to_string();
        assert_eq!(said.contains(" failed with "), code == 999, "{said}");
    }
}

#[test]
fn a_cupti_that_is_not_there_or_too_old_is_told() {
    let toolkit = Toolkit::new("none", 0);
    let (source, library) = (toolkit.0.path().join("old.c"), toolkit.0.path().join("lib64/libcupti.so.13"));
    std::fs::write(&source, "int cuptiProfilerInitialize(void *it) { return 0; }").unwrap();
    std::fs::remove_file(&library).unwrap();
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap().success());
    let why = toolkit.open().err().unwrap();
    assert_eq!(why, ProfilerError::NoRangeProfiler(library));
}
