//! Tests of HIP programs on a simulated AMD GPU.
//!
//! A library that checks every call replaces AMD's (`tests/stand-in`), so recorder and replayer see an AMD GPU. The
//! first wrong call ends its process.

use std::path::{Path, PathBuf};

use mneme_e2e::command::{Run, run};
use mneme_e2e::hip::{app, executable, have_hip};
use mneme_e2e::installation::{TestDevice, library, program};
use mneme_e2e::recording::{TestInstance, is_named, load_kernels, pipelines_of};
use mneme_system::exit;
use serde_json::Value;

/// The names under which programs load AMD's library.
const NAMES: [&str; 3] = ["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"];

/// The library in a separate folder, under the vendor's names.
struct StandIn {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl StandIn {
    /// Returns `None` and prints the reason on a GPU, or if HIP is missing.
    fn find(test: &str) -> Option<Self> {
        if TestDevice::under_test() != TestDevice::Cpu || !have_hip(test) {
            mneme_fixtures::skip(format_args!("{test} needs the stand-in for libamdhip64, on the CPU device"));
            return None;
        }
        let library = library("libmneme_stand_in.so");
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
        }
        Some(Self { folder, library })
    }

    /// Makes a program load it.
    fn before(&self, run: Run) -> Run {
        let home = self.library.parent().unwrap();
        let home = if home.ends_with("lib") { home.parent().unwrap() } else { home };
        run.env("LD_LIBRARY_PATH", self.folder.path())
            .env("MNEME_HIP_LIBRARY", &self.library)
            .env("MNEME_STAND_IN", "1")
            .env("MNEME_HOME", home)
            .env("MNEME_DEVICE", "hip")
    }

    fn record(&self, folder: &Path, name: &str) -> Run {
        let record =
            run(program("mneme")).args(["record".as_ref(), "-rdb".as_ref(), folder.as_os_str(), "--".as_ref()]);
        self.before(record.arg(executable(app(name))))
    }
}

/// The code that the stand-in runs instead of the recorded machine code: the recorded IR, by the code's SHA-256.
fn own_code(database: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let recording = database.parent().unwrap();
    let hash = database.file_stem().unwrap().to_str().unwrap();
    let ir = recording.join(format!("RecordedIR_{hash}.bc"));
    for entry in std::fs::read_dir(recording).unwrap() {
        let code = entry.unwrap().path();
        if code.extension().is_some_and(|extension| extension == "hsaco") {
            let digest = run("sha256sum").arg(&code).succeed().stdout;
            let name = format!("{}.bc", digest.split_whitespace().next().unwrap());
            std::fs::copy(&ir, folder.path().join(name)).unwrap();
        }
    }
    folder
}

/// Records a program and replays every instance of every kernel, the first one under each of the six pipelines.
fn record_and_replay(name: &str) {
    let Some(stand_in) = StandIn::find(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let outcome = stand_in.record(folder.path(), name).succeed();
    assert!(!outcome.stderr.contains("stand-in for"), "{}", outcome.stderr);
    let mut replayed = 0;
    for (file, kernel) in load_kernels(folder.path()) {
        assert_eq!(kernel.ours.device_arch, "gfx90a:sramecc+:xnack-");
        let known =
            app(name).kernels.iter().find(|known| is_named(&kernel, known.name)).expect("a kernel of the program");
        for (index, id) in kernel.instances.keys().enumerate() {
            let options = known.comparison.options();
            let instance = TestInstance::new(&file, id);
            let own_code = own_code(&file);
            instance.verify_under(pipelines_of(index), |sweep| {
                let sweep = sweep.args(["--isolation", "process"]).args(options);
                stand_in.before(sweep.env("MNEME_STAND_IN_IR", own_code.path()))
            });
            replayed += 1;
        }
    }
    assert!(replayed > 0, "{name} recorded nothing: {}", outcome.stderr);
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { record_and_replay(stringify!($name)); })*
    };
}

// This list omits programs that need more of HIP than the stand-in supports: memory in rows and volumes (`memory`,
// `volumes`), output of kernels (`print`, `printing`), launches with events (`modules`), and the layout of HIP 5.2
// (`mappings`).
programs!(
    vecadd, variables, saxpy, stencil, reduce, floatsum, histogram, matmul, nbody, microphysics, chemistry,
    convolution, globals, heads, bigstruct, parameters, list, streams, inplace, math, atomics, misshapen, rdc, lambda,
    functor, steps, plugins, waves, reconverge, shared, dims, atomic_kinds, cooperating,
);

/// Launch bounds, folded arguments and other block sizes, which are multiples of 64-lane waves.
#[test]
fn a_sweep_of_launch_shapes_verifies() {
    let Some(stand_in) = StandIn::find("a_sweep_of_launch_shapes_verifies") else { return };
    let folder = tempfile::tempdir().unwrap();
    stand_in.record(folder.path(), "saxpy").succeed();
    let (database, _) = load_kernels(folder.path()).remove(0);
    let results = folder.path().join("sweep");
    let tune = run(program("mneme-tune"))
        .args(["-rdb".as_ref(), database.as_os_str(), "--results-dir".as_ref(), results.as_os_str()])
        .args(["--space-preset", "launch", "--launch-safety", "conservative", "--passes", "default<O1>", "default<O3>"])
        .args(["--launch-bounds-space", "on-off", "--fixed-min-blocks-per-sm", "2", "--specialize-space", "on"])
        .args(["--sampler", "exhaustive", "--iterations", "2", "--warmup", "1", "--finalists", "0"]);
    let outcome = stand_in.before(tune).succeed();
    assert!(outcome.stdout.contains("BEST: "), "{outcome}");
    let read = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(results.join(name)).unwrap()).unwrap() };
    let summary = read("summary.json");
    assert!(summary["num_trials_completed"].as_u64() >= Some(8), "{summary}");
    assert_eq!(summary["num_verified"], summary["num_trials_completed"], "{summary}");
    let trials = std::fs::read_to_string(results.join("trials.jsonl")).unwrap();
    for trial in trials.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!(trial["config"]["block"]["x"].as_u64().map(|threads| threads % 64), Some(0), "{trial}");
        assert_eq!(trial["result"]["metrics"]["wavefront_size"], 64, "{trial}");
    }
    let processor = &read("search_space.json")["processor"];
    assert_eq!((&processor["warp_size"], &processor["shared_mem"]), (&64.into(), &65536.into()), "{processor}");

    // Without an AMD GPU to query, a space file uses the limits of the code's processor.
    let file = folder.path().join("space.yaml");
    std::fs::write(&file, "parameters:\n  block.x: {type: int, low: device.warp_size, high: 256, step: 64}\n").unwrap();
    let printed = run(program("mneme-tune"))
        .args(["-rdb".as_ref(), database.as_os_str(), "--space".as_ref(), file.as_os_str(), "--print-space".as_ref()])
        .env("MNEME_HIP_LIBRARY", folder.path().join("none"))
        .succeed();
    printed.complains("no device can be queried");
    let json = printed.json();
    assert_eq!(
        (&json["device"]["warp_size"], &json["parameters"]["block.x"]["values"]["low"]),
        (&64.into(), &64.into()),
        "{json}"
    );
}

/// Names a profiling library for a program. The stand-in is also one.
const PROFILER: &str = "MNEME_ROCPROFILER_LIBRARY";

#[test]
fn replays_are_timed_by_the_profiling_library() {
    let Some(stand_in) = StandIn::find("replays_are_timed_by_the_profiling_library") else { return };
    let folder = tempfile::tempdir().unwrap();
    // The recorder never uses it.
    stand_in.record(folder.path(), "saxpy").env(PROFILER, &stand_in.library).succeed();
    let (database, _) = load_kernels(folder.path()).remove(0);
    let replay = || run(program("mneme-replay")).arg("-rdb").arg(&database);
    let timed = stand_in.before(replay()).env(PROFILER, &stand_in.library).succeed().json();
    let (result, environment) = (&timed["Result"], &timed["Result"]["environment"]);
    assert_eq!((&result["verified"], &environment["timer"]), (&true.into(), &"rocprofiler".into()), "{timed}");
    // The times that the stand-in reports for the first kernels.
    assert_eq!(result["exec_time"], serde_json::json!([10_001, 10_002, 10_003, 10_004, 10_005]));
    let untimed = stand_in.before(replay()).succeed().json();
    let environment = &untimed["Result"]["environment"];
    assert_eq!(environment["timer"], "events", "{untimed}");
    assert!(environment["timer_reason"].as_str().unwrap().contains("no rocprofiler-sdk"), "{untimed}");

    // A session uses one clock.
    let results = folder.path().join("session");
    let tune = |more: &[&str]| {
        let tune = run(program("mneme-tune"))
            .args(["-rdb".as_ref(), database.as_os_str(), "--results-dir".as_ref(), results.as_os_str()])
            .args(["--space-preset", "launch", "--sampler", "random", "--seed", "1", "--finalists", "0"])
            .args(["--iterations", "2", "--warmup", "1"]);
        stand_in.before(tune.args(more))
    };
    tune(&["--trials", "2"]).env(PROFILER, &stand_in.library).succeed();
    let trials = std::fs::read_to_string(results.join("trials.jsonl")).unwrap();
    for trial in trials.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!(trial["result"]["environment"]["timer"], "rocprofiler", "{trial}");
    }
    let refused = tune(&["--trials", "4", "--resume"]).exit_with(exit::BAD_USAGE);
    refused.complains("timed by rocprofiler");
    tune(&["--trials", "4", "--resume", "--timer", "auto"]).env(PROFILER, &stand_in.library).succeed();
}

#[test]
fn a_planted_fault_is_bisected() {
    /// A compiler pass, as in docs/reference/exit-status.md.
    const IR_PASS: i32 = 1;
    let Some(stand_in) = StandIn::find("a_planted_fault_is_bisected") else { return };
    let folder = tempfile::tempdir().unwrap();
    stand_in.record(folder.path(), "saxpy").succeed();
    let bisect = run(program("mneme"))
        .args(["bisect".as_ref(), "-rdb".as_ref(), folder.path().as_os_str()])
        .args(["--kernel", "saxpy", "--json", "default<O1>,function(mneme-fault<lost-store>),default<O3>", "-o"])
        .arg(folder.path().join("found"));
    let outcome = stand_in.before(bisect).exit_with(IR_PASS);
    let json = outcome.json();
    assert_eq!((&json["verdict"], &json["pass"]["pass"]), (&"ir_pass".into(), &"mneme-fault".into()), "{outcome}");
}

/// The code that checks insert has never run on an AMD GPU.
#[test]
fn checks_are_refused_by_name() {
    let Some(stand_in) = StandIn::find("checks_are_refused_by_name") else { return };
    let folder = tempfile::tempdir().unwrap();
    stand_in.record(folder.path(), "vecadd").succeed();
    let (database, kernel) = load_kernels(folder.path()).remove(0);
    let (id, instance) = kernel.instances.first_key_value().expect("an instance");
    let address = format!("{:#x}", instance.args[0]);
    let replay = || run(program("mneme-replay")).arg("-rdb").arg(&database).args(["-rid", id]);
    for option in [&["--check"][..], &["--wrote", &address]] {
        let refused = stand_in.before(replay().args(option)).exit_with(mneme_system::exit::BAD_USAGE);
        refused.complains(
            "is not available for AMD GPUs, and the device is gfx90a:sramecc+:xnack-; use --device cpu for it",
        );
    }
    let on_cpu = replay().args(["--check", "--device", "cpu"]);
    stand_in.before(on_cpu).exit_with(mneme_system::exit::VERIFIED);
}
