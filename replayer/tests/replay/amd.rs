//! Tests of replays on AMD GPUs, with a library that replaces HIP (`tests/stand-in`).

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_system::{exit, install};

use crate::recording::Recording;
use crate::{outcome, program, replay, serve_with, shaped};

/// The stand-in; skips the test if it is not built.
fn stand_in() -> Option<PathBuf> {
    let found = install::locate("libmneme_stand_in.so");
    if found.is_none() {
        mneme_fixtures::skip("the stand-in for libamdhip64 is not built; 'cargo build --workspace' builds it");
    }
    found
}

/// The environment in which a replay uses the stand-in for HIP. Its first mistake ends the process that makes it.
fn environment(library: &Path) -> [(&str, &str); 2] {
    [("MNEME_HIP_LIBRARY", library.to_str().unwrap()), ("MNEME_STAND_IN", "1")]
}

fn on_amd(recording: &Recording, library: &Path, options: &[&str]) -> Command {
    let mut command = replay(recording, options);
    command.envs(environment(library));
    command
}

#[test]
fn a_recording_of_an_amd_gpu_is_replayed_on_one() {
    let Some(library) = stand_in() else { return };
    let recording = Recording::make_amd();
    for options in [&[][..], &["--device", "hip"], &["--device", "0"], &["default<O3>"], &["--isolation", "none"]] {
        let json = outcome(&on_amd(&recording, &library, options).output().unwrap(), exit::VERIFIED);
        assert_eq!(json["Result"]["environment"]["arch"], "gfx90a:sramecc+:xnack-", "{options:?}: {json}");
    }
    // The element shows that the launch omits the end.
    let short = on_amd(&recording, &library, &["-gidx", "10"]).output().unwrap();
    let said = String::from_utf8_lossy(&short.stdout) + String::from_utf8_lossy(&short.stderr);
    assert_eq!(short.status.code(), Some(exit::NOT_VERIFIED), "{said}");
}

#[test]
fn many_configurations_share_the_gpu() {
    let Some(library) = stand_in() else { return };
    let mut shapes = [64, 128, 256, 1024].map(|threads| shaped(threads, "default<O2>"));
    shapes[1].specialize_dims = true;
    let results = serve_with(&Recording::make_amd(), &["--device", "hip"], &shapes, &environment(&library));
    assert!(results.iter().all(|result| result.verified), "{results:?}");
}

#[test]
fn code_for_another_vendor_is_refused_with_the_remedy() {
    for (recording, device, remedy) in [
        (Recording::make_amd(), "cuda", "use --device hip or cpu"),
        (Recording::make(), "hip", "use --device cuda or cpu"),
    ] {
        let mut command = Command::new(program());
        let output = command.arg("-rdb").arg(recording.database()).args(["--device", device]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(exit::BAD_USAGE) && said.contains(remedy), "{said}");
    }
}

/// A replay with a profiling library, and the library's behaviour.
fn timed(recording: &Recording, library: &Path, profiler: &Path, settings: &str, options: &[&str]) -> Command {
    let mut command = on_amd(recording, library, options);
    command.env("MNEME_ROCPROFILER_LIBRARY", profiler).env("MNEME_STAND_IN_PROFILER", settings);
    command
}

/// Times and clock of a replay that verified, and the reason for that clock.
fn clock(command: &mut Command) -> (Vec<u64>, String, String) {
    let json = outcome(&command.output().unwrap(), exit::VERIFIED);
    let result = &json["Result"];
    let times = result["exec_time"].as_array().unwrap().iter().map(|time| time.as_u64().unwrap()).collect();
    let text = |key: &str| result["environment"][key].as_str().unwrap_or_default().to_owned();
    (times, text("timer"), text("timer_reason"))
}

/// The stand-in's report on the first requested kernels.
const TIMES: [u64; 5] = [10_001, 10_002, 10_003, 10_004, 10_005];

#[test]
fn kernels_are_timed_by_the_profiling_library() {
    let Some(library) = stand_in() else { return };
    let recording = Recording::make_amd();
    for (settings, options) in [
        ("", &[][..]),
        ("version=400", &["--timer", "auto"]),
        ("version=10305", &["--timer", "rocprofiler"]),
        ("", &["--isolation", "none"]),
        ("", &["--isolation", "process"]),
        ("", &["--repeat", "5"]),
    ] {
        let (times, timer, reason) = clock(&mut timed(&recording, &library, &library, settings, options));
        assert_eq!((times.as_slice(), timer.as_str(), reason.as_str()), (&TIMES[..], "rocprofiler", ""), "{options:?}");
    }
    let events = clock(&mut timed(&recording, &library, &library, "", &["--timer", "events"]));
    assert_eq!((events.1.as_str(), events.2.as_str()), ("events", ""));
    assert_ne!(events.0, TIMES);
    // A wrong launch is timed too.
    let wrong = timed(&recording, &library, &library, "", &["-gidx", "10"]).output().unwrap();
    let json = outcome(&wrong, exit::NOT_VERIFIED);
    assert_eq!(json["Result"]["environment"]["timer"], "rocprofiler");
    assert_eq!(json["Result"]["exec_time"], serde_json::json!([10_001]));
}

#[test]
fn many_configurations_are_timed_by_the_profiling_library() {
    let Some(library) = stand_in() else { return };
    let shapes = [64, 128, 256].map(|threads| shaped(threads, "default<O1>"));
    let [hip, builds] = environment(&library);
    let variables = [hip, builds, ("MNEME_ROCPROFILER_LIBRARY", library.to_str().unwrap())];
    let results = serve_with(&Recording::make_amd(), &["--device", "hip"], &shapes, &variables);
    let mut times: Vec<u64> = results.iter().flat_map(|result| result.exec_time.clone()).collect();
    times.sort_unstable();
    // One process runs all of them, and times each launch separately.
    assert_eq!(times, (10_001..=10_009).collect::<Vec<u64>>());
    assert!(results.iter().all(|result| result.verified && result.environment.timer == "rocprofiler"), "{results:?}");
}

#[test]
fn events_time_kernels_where_the_profiling_library_does_not() {
    let Some(library) = stand_in() else { return };
    let recording = Recording::make_amd();
    let nowhere = Path::new("/nowhere/librocprofiler-sdk.so.1");
    for (profiler, settings, why) in [
        (nowhere, "", "/nowhere/librocprofiler-sdk.so.1 is not installed"),
        (&library, "version=20000", "version 2.0.0 is not known; 1 is the last that is"),
        (&library, "lose=3", "rocprofiler-sdk has reported 4 kernels for 5 launches"),
        (&library, "double=5", "rocprofiler-sdk has reported 6 kernels for 5 launches"),
        (&library, "size=128", "a record of rocprofiler-sdk has 128 bytes, and 184 are needed"),
    ] {
        let (times, timer, reason) = clock(&mut timed(&recording, &library, profiler, settings, &[]));
        assert!(timer == "events" && reason.contains(why), "{why}: {timer}, {reason}");
        // None of them, because times of two clocks are not comparable.
        assert!(times.iter().all(|time| !TIMES.contains(time)), "{times:?}");
    }
    // The variable names a file for tests. Without it, the name derives from that of HIP's library.
    let (_, timer, reason) = clock(&mut on_amd(&recording, &library, &[]));
    assert!(timer == "events" && reason.contains("no rocprofiler-sdk is known for"), "{reason}");
    // An explicitly requested timer is not silently replaced.
    let asked = timed(&recording, &library, nowhere, "", &["--timer", "rocprofiler"]).output().unwrap();
    let said = String::from_utf8_lossy(&asked.stderr);
    assert_eq!(asked.status.code(), Some(exit::NO_DEVICE), "{said}");
    assert!(said.contains("is not installed") && said.contains("--timer events does without"), "{said}");
}

/// A library that ends its process, as may happen if it does not know the driver.
#[test]
fn a_profiling_library_that_takes_its_process_with_it_is_left_out() {
    let Some(library) = stand_in() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, fatal) = (folder.path().join("fatal.c"), folder.path().join("librocprofiler-sdk.so.1"));
    std::fs::write(&source, "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { abort(); }\n")
        .unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&fatal).arg(&source).status().unwrap();
    assert!(compiled.success());
    let recording = Recording::make_amd();
    let (_, timer, reason) = clock(&mut timed(&recording, &library, &fatal, "", &[]));
    let expected = "a process with timing by rocprofiler-sdk was ended by SIGABRT";
    assert_eq!((timer.as_str(), reason.as_str()), ("events", expected));
    let asked = timed(&recording, &library, &fatal, "", &["--timer", "rocprofiler"]).output().unwrap();
    assert_eq!(asked.status.code(), Some(exit::NO_DEVICE), "{}", String::from_utf8_lossy(&asked.stderr));
}

#[test]
fn a_timer_of_another_vendor_is_refused_with_the_remedy() {
    for (recording, device, timer, remedy) in [
        (Recording::make_amd(), "hip", "cupti", "CUPTI times NVIDIA's GPUs; leave --timer out"),
        (Recording::make_amd(), "cpu", "rocprofiler", "leave --timer out on the CPU device"),
        (Recording::make(), "cuda", "rocprofiler", "use --timer cupti or leave it out"),
    ] {
        let output = replay(&recording, &["--device", device, "--timer", timer]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(exit::BAD_USAGE) && said.contains(remedy), "{device}, {timer}: {said}");
    }
}
