//! Tests of HIP programs on the CPU device.
//!
//! They are compiled for an AMD GPU in the usual way. The CPU device runs them instead, with the GPU's waves.

use std::path::Path;

use mneme_e2e::apps::{App, Platform, build_for};
use mneme_e2e::command::{Run, run};
use mneme_e2e::hip::{GRAPHS, OWN, PRIVATE, SHARED, app, can_run, executable};
use mneme_e2e::installation::{TestDevice, have_compiler, library, program};
use mneme_e2e::platform::hip_arch;
use mneme_e2e::recording::{Recording, TestInstance, record_executable_into, replay_everything};
use mneme_image::stub;
use mneme_model::architecture::Processor;
use serde_json::Value;

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { record_and_replay(stringify!($name)); })*

        #[test]
        fn every_hip_program_has_a_test() {
            let tested = [$(stringify!($name)),*];
            let known: Vec<_> = SHARED.iter().copied().chain(OWN.iter().map(|app| app.name)).collect();
            assert_eq!(tested.as_slice(), known);
        }
    };
}

programs!(
    vecadd, variables, saxpy, stencil, reduce, floatsum, histogram, matmul, nbody, microphysics, chemistry,
    convolution, globals, heads, bigstruct, parameters, list, streams, inplace, math, atomics, misshapen, memory,
    volumes, print, rdc, lambda, functor, steps, plugins, waves, reconverge, shared, modules, dims, atomic_kinds,
    printing, mappings, cooperating,
);

/// The program without the recorder.
fn unrecorded(app: &App) -> Run {
    run(executable(app)).env("LD_PRELOAD", library("libmneme_cpu.so"))
}

fn record(name: &str) -> Recording {
    Recording::of_executable(&executable(app(name)), &[])
}

fn record_and_replay(name: &str) {
    if !can_run(name) {
        return;
    }
    let plain = unrecorded(app(name)).succeed();
    assert!(plain.stdout.contains(&format!("{name}: ok")), "{plain}");
    let recording = record(name);
    assert_eq!(recording.outcome.stdout, plain.stdout, "what the recorded {name} prints");
    replay_everything(app(name), &recording);
}

#[test]
fn the_recorded_compilation_gives_the_bits_of_hip_programs() {
    if !can_run("the_recorded_compilation_gives_the_bits_of_hip_programs") {
        return;
    }
    for name in ["stencil", "nbody", "microphysics", "chemistry", "convolution", "math"] {
        for (database, record) in record(name).kernels() {
            for id in record.instances.keys() {
                TestInstance::new(&database, id).verify("default<O3>", &[]);
            }
        }
    }
}

/// The only instance of a kernel.
fn instance(recording: &Recording, kernel: &str) -> TestInstance {
    let (database, record) = recording.kernel(kernel);
    TestInstance::new(&database, record.instances.keys().next().expect("an instance"))
}

#[test]
fn a_recording_says_what_the_kernel_is_and_how_it_was_compiled() {
    if !can_run("a_recording_says_what_the_kernel_is_and_how_it_was_compiled") {
        return;
    }
    let recording = record("saxpy");
    let (database, record) = recording.kernel("saxpy");
    let (id, details) = record.instances.first_key_value().expect("an instance");
    let compiled = details.ours.compiled.as_ref().expect("mneme-cc wrote down how it was compiled");
    assert_eq!((compiled.level.as_str(), compiled.contract.as_str()), ("3", "fast-honor-pragmas"));
    let bitcode = std::fs::read(recording.folder().join(&record.modules[0])).unwrap();
    assert_eq!(mneme_image::bitcode::triple(&bitcode).as_deref(), Some("amdgcn-amd-amdhsa"));
    // A replay starts from the options that the application was compiled with.
    let json = TestInstance::new(&database, id).verify("default<O3>", &[]);
    assert_eq!(json["Replay-config"]["passes"], "default<O3>");
}

#[test]
fn arguments_and_dimensions_are_folded() {
    if !can_run("arguments_and_dimensions_are_folded") {
        return;
    }
    for name in ["parameters", "dims", "bigstruct", "shared"] {
        for (database, record) in record(name).kernels() {
            for id in record.instances.keys() {
                let options = ["--specialize", "--specialize-dims"];
                TestInstance::new(&database, id).verify("default<O3>", &options);
            }
        }
    }
}

#[test]
fn a_sweep_of_launch_shapes_verifies() {
    if !can_run("a_sweep_of_launch_shapes_verifies") {
        return;
    }
    let recording = record("vecadd");
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().join("sweep");
    let instance = instance(&recording, "vecadd<long>");
    run(program("mneme-tune"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", "cpu", "--space-preset", "launch", "--launch-dim", "x", "--sampler", "exhaustive"])
        .args(["--iterations", "2", "--warmup", "1", "--finalists", "0", "--passes", "default<O1>", "default<O3>"])
        .args(["--launch-safety".as_ref(), "conservative".as_ref(), "--results-dir".as_ref(), folder.as_os_str()])
        .succeed();
    let summary: Value = serde_json::from_slice(&std::fs::read(folder.join("summary.json")).unwrap()).unwrap();
    let completed = summary["num_trials_completed"].as_u64().unwrap();
    assert!(completed >= 6, "{summary}");
    assert_eq!(summary["num_verified"], completed, "the grid-stride loop is right under every shape: {summary}");
    let wave = u64::from(Processor::parse(&hip_arch()).unwrap().wavefront_size());
    let trials = std::fs::read_to_string(folder.join("trials.jsonl")).unwrap();
    for trial in trials.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!(trial["config"]["block"]["x"].as_u64().map(|threads| threads % wave), Some(0), "{trial}");
    }
}

#[test]
fn the_best_is_exported_for_proteus() {
    if !can_run("the_best_is_exported_for_proteus") {
        return;
    }
    let recording = record("saxpy");
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().join("sweep");
    let (database, kernel) = recording.kernel("saxpy");
    // Unoptimised code is slower than optimised code. The shortest of its times shows this even on a busy machine.
    run(program("mneme-tune"))
        .args(["-rdb".as_ref(), database.as_os_str(), "--results-dir".as_ref(), folder.as_os_str()])
        .args(["--device", "cpu", "--space-preset", "compiler", "--passes", "default<O0>", "default<O3>"])
        .args(["--baseline", "pipeline", "--fixed-codegen-opt", "2", "--launch-bounds-space", "on"])
        .args(["--fixed-min-blocks-per-sm", "3", "--sampler", "exhaustive", "--finalists", "0"])
        .args(["--metric", "min", "--runs", "all"])
        .succeed();
    let read = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap() };
    let (best, tuned) = (&read("best.json")["config"], read("proteus_tuned_kernels.json"));
    let threads = kernel.instances.values().next().expect("an instance").block_dims.count();
    let expected = serde_json::json!({kernel.kernel_name.as_str(): {
        "CodeGen": "serial", "LaunchBounds": true, "SpecializeDims": false, "SpecializeDimsRange": false,
        "OptLevel": 3, "Pipeline": "default<O3>", "CodeGenOptLevel": 2, "TunedMaxThreads": threads, "MinBlocksPerSM": 3,
    }});
    assert_eq!(tuned, expected);
    assert_eq!((&best["passes"], &best["max_threads"]), (&"default<O3>".into(), &threads.into()));
}

/// A block that exceeds the limits of the code's processor is reported before any build, and also by builds.
#[test]
fn more_shared_memory_than_a_block_has_is_refused() {
    if !can_run("more_shared_memory_than_a_block_has_is_refused") {
        return;
    }
    let recording = record("shared");
    let instance = instance(&recording, "sums");
    let work = tempfile::tempdir().unwrap();
    let (space, folder) = (work.path().join("space.yaml"), work.path().join("sweep"));
    let text = "parameters:\n  shared_mem: {type: int, low: 32768, high: 98304, step: 32768}\n  passes: [\"default<O3>\"]\n\
                constraints: [block.x % device.warp_size == 0, device.shared_mem == 65536]\n";
    std::fs::write(&space, text).unwrap();
    run(program("mneme-tune"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", "cpu", "--sampler", "exhaustive", "--iterations", "2", "--warmup", "1", "--finalists", "0"])
        .args(["--space".as_ref(), space.as_os_str(), "--results-dir".as_ref(), folder.as_os_str()])
        .succeed();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let summary: Value = serde_json::from_str(&read("summary.json")).unwrap();
    assert_eq!((&summary["num_rejected"], &summary["num_trials_completed"]), (&1.into(), &2.into()), "{summary}");
    // The kernel's own four bytes exceed the limit, which only the build shows.
    let refused = "a block needs 65540 bytes of shared memory (4 of them static) and the device has 65536";
    assert!(read("trials.jsonl").contains(refused), "{}", read("trials.jsonl"));
    let replay = instance.replay("default<O3>").args(["--shared-mem", "65536"]);
    replay.exit_with(mneme_system::exit::LAUNCH_FAILED).complains(refused);
}

#[test]
fn a_planted_fault_is_bisected() {
    if !can_run("a_planted_fault_is_bisected") {
        return;
    }
    /// A compiler pass, as in docs/reference/exit-status.md.
    const IR_PASS: i32 = 1;
    let recording = record("saxpy");
    let output = tempfile::tempdir().unwrap();
    let outcome = run(program("mneme"))
        .args(["bisect".as_ref(), "-rdb".as_ref(), recording.folder().as_os_str()])
        .args(["--kernel", "saxpy", "--json", "--device", "cpu"])
        .args(["default<O1>,function(mneme-fault<lost-store>),default<O3>", "-o"])
        .arg(output.path())
        .exit_with(IR_PASS);
    let json = outcome.json();
    assert_eq!((&json["verdict"], &json["pass"]["pass"]), (&"ir_pass".into(), &"mneme-fault".into()), "{outcome}");
}

#[test]
fn variables_that_hip_does_not_find_are_named() {
    for name in PRIVATE {
        if !can_run(name) {
            return;
        }
        let recording = record(name);
        assert!(recording.outcome.stdout.contains(&format!("{name}: ok")), "{}", recording.outcome);
        recording.outcome.complains("is private to its file");
        assert!(recording.kernels().is_empty());
    }
}

/// The recorder refuses function pointers by name, and the program still works.
#[test]
fn what_cannot_be_recorded_is_named() {
    if !can_run("what_cannot_be_recorded_is_named") {
        return;
    }
    let refused = App { name: "refused", sources: &["hip/refused.hip"], kernels: &[] };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("refused");
    build_for(&refused, Platform::Hip, &path);
    let recording = Recording::of_executable(&path, &[]);
    assert!(recording.outcome.stdout.contains("refused: ok"), "{}", recording.outcome);
    recording.outcome.complains("function pointers");
    recording.outcome.complains("its variable calls_of<int> is inline or of a template, and HIP reports");
    assert!(recording.kernels().is_empty());
}

/// HIP lets the host access device memory in place if it is addressable, as on the CPU device. The recorder hashes
/// chunks before copying them, and must not use the hash of a chunk that changes in between. Fine-grained memory is
/// meant for such access, so the recorder treats it like managed memory.
#[test]
fn device_memory_that_the_host_writes_to_is_not_recorded_wrong() {
    if !can_run("device_memory_that_the_host_writes_to_is_not_recorded_wrong") {
        return;
    }
    let written = App { name: "written", sources: &["hip/written.hip"], kernels: &[] };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written");
    build_for(&written, Platform::Hip, &path);
    for (kind, reason) in [
        ("0", "a host thread writes to it"),
        ("1", "host threads write to managed, page-locked or fine-grained memory"),
    ] {
        let recording = tempfile::tempdir().unwrap();
        let outcome = record_executable_into(recording.path(), &path, &[kind]).outcome();
        assert_eq!(outcome.stdout, "written: ok\n", "{outcome}");
        let report = mneme_recording::integrity::check(recording.path()).unwrap();
        assert!(report.problems.is_empty(), "{:#?}", report.problems);
        assert_eq!((outcome.status, report.instances), (mneme_system::exit::NOT_RECORDED, 0), "{outcome}");
        outcome.complains(reason);
    }
}

/// Graphs that are captured and updated, and graphs built from nodes with changed arguments.
#[test]
fn graphs_are_expanded_on_request() {
    if !can_run("graphs_are_expanded_on_request") {
        return;
    }
    let plain = unrecorded(&GRAPHS).succeed();
    assert!(plain.stdout.contains("graphs: ok"), "{plain}");
    let recorded = |launched: &str| {
        let recording = Recording::by(|folder| {
            record_executable_into(folder, &executable(&GRAPHS), &[]).env("MNEME_GRAPHS", launched)
        });
        assert_eq!(recording.outcome.stdout, plain.stdout);
        recording
    };
    let whole = recorded("whole");
    assert!(whole.kernels().is_empty());
    whole.outcome.complains("4 graph launches not recorded: MNEME_GRAPHS=whole");
    let by_default = recorded("");
    assert!(!by_default.outcome.stderr.contains("not recorded"), "{}", by_default.outcome);
    assert_eq!(by_default.kernels().len(), GRAPHS.kernels.len());
    let expanded = recorded("expand");
    expanded.outcome.complains("4 graph launches done node by node");
    replay_everything(&GRAPHS, &expanded);
}

/// Changes of each kind of node of an executable graph.
#[test]
fn changes_of_graphs_are_followed() {
    if !can_run("changes_of_graphs_are_followed") {
        return;
    }
    let changed = App { name: "changed", sources: &["hip/changed.hip"], kernels: &[] };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed");
    build_for(&changed, Platform::Hip, &path);
    let plain = run(&path).env("LD_PRELOAD", library("libmneme_cpu.so")).succeed();
    assert!(plain.stdout.contains("changed: ok"), "{plain}");
    for graphs in ["expand", ""] {
        let recorded = Recording::by(|folder| record_executable_into(folder, &path, &[]).env("MNEME_GRAPHS", graphs));
        assert_eq!(recorded.outcome.stdout, plain.stdout, "{}", recorded.outcome);
        assert!(!recorded.outcome.stderr.contains("not recorded"), "{}", recorded.outcome);
        assert_eq!(recorded.kernel("slope").1.instances.len(), 2, "{}", recorded.outcome);
    }
}

/// Thread-local and static objects, and exit handlers, use the GPU when much of the process is gone.
#[test]
fn hip_is_used_by_destructors_and_exit_handlers() {
    if !can_run("hip_is_used_by_destructors_and_exit_handlers") {
        return;
    }
    let late = App { name: "late", sources: &["hip/late.hip"], kernels: &[] };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late");
    build_for(&late, Platform::Hip, &path);
    let plain = run(&path).env("LD_PRELOAD", library("libmneme_cpu.so")).succeed();
    assert_eq!(plain.stdout, "of a thread: 64\nend\nof the main thread: 65\nof the program: 66\nat exit: 67\n");
    let recorded = Recording::by(|folder| record_executable_into(folder, &path, &[]));
    assert_eq!(recorded.outcome.stdout, plain.stdout);
    assert_eq!(recorded.kernel("add").1.instances.len(), 4);
}

/// Functions other than launches return the values that HIP programs expect, with and without the recorder.
#[test]
fn the_functions_of_hip_are_the_cpu_device_s() {
    if !can_run("the_functions_of_hip_are_the_cpu_device_s") {
        return;
    }
    let interface = App { name: "interface", sources: &["hip/interface.hip"], kernels: &[] };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("interface");
    build_for(&interface, Platform::Hip, &path);
    let plain = run(&path).env("LD_PRELOAD", library("libmneme_cpu.so")).succeed();
    assert!(plain.stdout.contains("interface: ok"), "{plain}");
    let expected = [
        ("whole", "1 graph launch not recorded: MNEME_GRAPHS=whole", true),
        ("expand", "1 graph launch done node by node", false),
    ];
    for (graphs, launch, captured) in expected {
        let recorded = Recording::by(|folder| record_executable_into(folder, &path, &[]).env("MNEME_GRAPHS", graphs));
        assert_eq!(recorded.outcome.stdout, plain.stdout);
        recorded.outcome.complains(launch);
        assert_eq!(recorded.outcome.stderr.contains("inside a stream capture"), captured, "{}", recorded.outcome);
    }
}

/// Results and last errors of calls in any order, before and after a fault of a kernel. A program for HIP 7 is the same
/// program, linked against that library.
#[test]
fn statuses_are_those_of_the_plain_run() {
    const LIBRARY: &str = "libamdhip64.so.";
    if !can_run("statuses_are_those_of_the_plain_run") {
        return;
    }
    let statuses = App { name: "statuses", sources: &["hip/statuses.hip"], kernels: &[] };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("statuses");
    build_for(&statuses, Platform::Hip, &path);
    let mut program = std::fs::read(&path).unwrap();
    let changed = folder.path().join("changed");
    let versions = stub::versions_named(&program, LIBRARY);
    let named: Vec<usize> = program
        .windows(LIBRARY.len())
        .enumerate()
        .filter(|(_, at)| *at == LIBRARY.as_bytes())
        .map(|(at, _)| at)
        .collect();
    for release in ["5", "7"] {
        named.iter().for_each(|at| program[at + LIBRARY.len()] = release.as_bytes()[0]);
        std::fs::write(&changed, &program).unwrap();
        mneme_fixtures::copy_program(&changed, &path);
        let library_name = format!("{LIBRARY}{release}");
        std::fs::write(folder.path().join(&library_name), stub::library(&library_name, &versions, None)).unwrap();
        for arguments in [&["0"][..], &["1"], &["2"], &["3"], &["0", "fault"], &["4", "fault"]] {
            let plain = run(&path)
                .args(arguments)
                .env("LD_PRELOAD", library("libmneme_cpu.so"))
                .env("LD_LIBRARY_PATH", folder.path())
                .succeed();
            assert!(plain.stdout.contains("statuses: ok"), "{plain}");
            let database = tempfile::tempdir().unwrap();
            let recorded = record_executable_into(database.path(), &path, arguments)
                .env("LD_LIBRARY_PATH", folder.path())
                .outcome();
            for (plain, recorded) in plain.stdout.lines().zip(recorded.stdout.lines()) {
                assert_eq!(recorded, plain, "release {release}, {arguments:?}");
            }
            assert_eq!(recorded.stdout, plain.stdout);
        }
    }
}

/// Also with an installed ROCm, which finds no GPU here.
#[test]
fn hip_that_is_loaded_by_name_is_the_cpu_device() {
    if TestDevice::under_test() != TestDevice::Cpu || !have_compiler("hip_that_is_loaded_by_name_is_the_cpu_device") {
        return;
    }
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int count, char **names) {
            for (int i = 1; i < count; ++i) {
                void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL), *address = 0;
                if (!library)
                    return puts(dlerror()), 1;
                int (*devices)(int *) = (int (*)(int *))dlsym(library, "hipGetDeviceCount");
                int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(library, "hipMalloc");
                int (*version)(int *) = (int (*)(int *))dlsym(library, "hipRuntimeGetVersion");
                int number = 0, release = 0, found = devices(&number), status = allocate(&address, 64);
                version(&release);
                printf("%d %d, %d %d, %d\n", found, number, status, address != 0, release / 10000000);
            }
            return 0;
        }"#;
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("loads.c"), folder.path().join("loads"));
    std::fs::write(&file, source).unwrap();
    run("cc").args([file.as_os_str(), "-w".as_ref(), "-o".as_ref(), path.as_os_str(), "-ldl".as_ref()]).succeed();
    let loads = |names: &[&str], expected: &str| {
        let outcome = Recording::of_executable(&path, names).outcome;
        assert_eq!(outcome.stdout, expected, "{names:?}: {outcome}");
    };
    for (name, release) in [("", 6), (".5", 5), (".6", 6), (".7", 7)] {
        loads(&[&format!("libamdhip64.so{name}")], &format!("0 1, 0 1, {release}\n"));
    }
    // AMD's library by its path.
    let installed = Path::new("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5");
    if installed.is_file() {
        loads(&[installed.to_str().unwrap()], "0 1, 0 1, 5\n");
    }
}
