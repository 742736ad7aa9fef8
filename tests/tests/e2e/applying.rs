//! Tests of `mneme apply`: tuned kernels in unmodified applications.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::hip;
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, library, program};
use mneme_e2e::recording::{Recording, TestInstance, record_executable_into, unrecorded};
use mneme_recording::database::KernelRecord;
use mneme_system::exit;
use mneme_winners::{Winner, Winners};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The rule for grids in the built-in spaces.
pub const SAME_THREADS: &str = "ceil(recorded block * recorded grid / block) along each varied axis";

/// Hand-written results with a separate cache.
pub struct Tuned {
    folder: TempDir,
}

impl Tuned {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Results of a session that found these changes to an instance's configuration.
    pub fn with(self, name: &str, instance: &TestInstance, changes: Value, derived: Value) -> Self {
        let folder = self.folder.path().join("results").join(name);
        fs::create_dir_all(&folder).unwrap();
        let record = KernelRecord::load(&instance.database).unwrap();
        let mut config = serde_json::to_value(record.instances[&instance.id].recorded_configuration()).unwrap();
        for (field, value) in changes.as_object().unwrap() {
            config[field] = value.clone();
        }
        let write = |name: &str, value: Value| fs::write(folder.join(name), value.to_string()).unwrap();
        write("best.json", json!({"trial": 3, "config": config, "params": {}, "metric": 1000.0, "speedup": 2.0}));
        write("config.json", json!({"record_database": instance.database, "record_id": instance.id}));
        write("baseline.json", json!({"metric": 2000.0}));
        write("search_space.json", json!({"derived": derived}));
        self
    }

    pub fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn apply(&self) -> Run {
        run(program("mneme"))
            .args(["apply", "--device", TestDevice::under_test().name(), "--tuned"])
            .arg(self.results())
            .env("MNEME_CACHE_DIR", self.cache())
            // The CPU device runs this many blocks at once, instead of the number for programs under test.
            .env("MNEME_CPU_THREADS", "2")
    }

    /// Runs the application with the tuned kernels. Returns the report on the kernel with this name, or on the only
    /// one.
    #[track_caller]
    pub fn run(&self, executable: &Path, arguments: &[&str], kernel: &str) -> (ProgramOutput, Value) {
        self.run_in(executable, arguments, kernel, &[])
    }

    /// The same with environment variables.
    #[track_caller]
    pub fn run_in(
        &self,
        executable: &Path,
        arguments: &[&str],
        kernel: &str,
        environment: &[(&str, &OsStr)],
    ) -> (ProgramOutput, Value) {
        self.run_with(&[], executable, arguments, kernel, environment)
    }

    /// The same with options of `mneme apply`.
    #[track_caller]
    pub fn run_with(
        &self,
        options: &[&str],
        executable: &Path,
        arguments: &[&str],
        kernel: &str,
        environment: &[(&str, &OsStr)],
    ) -> (ProgramOutput, Value) {
        let json = self.folder.path().join("applied.json");
        let run = self.apply().args(options).arg("--json").arg(&json).arg("--").arg(executable).args(arguments);
        let outcome = environment.iter().fold(run, |run, (name, value)| run.env(name, value)).succeed();
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let kernels = report["kernels"].as_array().unwrap();
        let found = kernels.iter().find(|found| found["kernel"].as_str().unwrap().contains(kernel));
        (outcome, found.cloned().unwrap_or_default())
    }

    /// Machine code in the cache.
    pub fn code(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache().join("tuned")).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "code")).collect()
    }

    /// The file that the library reads itself.
    #[track_caller]
    pub fn manifest(&self) -> PathBuf {
        let file = self.folder.path().join("tuned.json");
        self.apply().arg("--manifest").arg(&file).succeed();
        file
    }
}

/// An application with only the library.
pub fn alone(executable: &Path, arguments: &[&str], manifest: &Path) -> Run {
    let recorder = library("libmneme_rec.so");
    let preload = match TestDevice::under_test() {
        TestDevice::Cpu => format!("{}:{}", recorder.display(), library("libmneme_cpu.so").display()),
        TestDevice::Cuda => recorder.display().to_string(),
    };
    run(executable)
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env("MNEME_DEVICE", TestDevice::under_test().name())
        .env("MNEME_MODE", "apply")
        .env("MNEME_TUNED", manifest)
        .env("MNEME_CPU_THREADS", "2")
}

pub fn of(name: &str) -> PathBuf {
    executable(app(name), Cudart::under_test())
}

pub fn counts(kernel: &Value) -> [u64; 3] {
    [&kernel["launches"], &kernel["applied"]["replaced"], &kernel["applied"]["reshaped"]].map(|it| it.as_u64().unwrap())
}

#[track_caller]
fn reason(kernel: &Value) -> &str {
    kernel["failures"][0]["reason"].as_str().unwrap_or_else(|| panic!("no reason: {kernel}"))
}

/// Half of the recorded block along x, with twice the grid.
fn halved() -> (Value, Value) {
    let (block, grid) = (json!({"x": 128, "y": 1, "z": 1}), json!({"x": 80, "y": 1, "z": 1}));
    (json!({"block": block, "grid": grid, "passes": "default<O2>"}), json!({"grid": SAME_THREADS}))
}

fn vecadd() -> (Recording, Tuned) {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let (changes, derived) = halved();
    let tuned = Tuned::new().with("vecadd", &recording.single(), changes, derived);
    (recording, tuned)
}

#[test]
fn a_winner_is_launched_and_the_program_does_the_same() {
    let (_recording, tuned) = vecadd();
    let plain = unrecorded(app("vecadd")).args(["1", "int"]).succeed();
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["1", "int"], "vecadd");
    assert_eq!(outcome.stdout, plain.stdout);
    assert_eq!(counts(&kernel), [1, 1, 1], "{outcome}");
    assert_eq!((&kernel["applied"]["before"], &kernel["applied"]["after"]), (&json!(2000.0), &json!(1000.0)));

    // On request, another launch gets dimensions from the space's rule. It uses the same code, which is already
    // compiled. The code's file time is its last use.
    let written = |path: &PathBuf| path.with_extension("json").metadata().unwrap().modified().unwrap();
    let [code] = &tuned.code()[..] else { panic!("{:?}", tuned.code()) };
    let before = written(code);
    let (outcome, kernel) = tuned.run_with(&["--any-launch"], &of("vecadd"), &["2", "int"], "vecadd", &[]);
    assert_eq!(counts(&kernel), [1, 1, 1], "{outcome}");
    assert_eq!(written(code), before);

    // A kernel without a winner is unaffected.
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["1", "long"], "vecadd");
    assert!(kernel["applied"].is_null(), "{outcome}");
    outcome.complains("is tuned, but was not launched");
}

#[test]
fn replaced_launches_are_timed_beside_what_was_promised() {
    let (_recording, tuned) = vecadd();
    let json = tuned.folder.path().join("applied.json");
    let timed = tuned.apply().arg("--times").arg("--json").arg(&json).arg("--").arg(of("vecadd"));
    let outcome = timed.args(["1", "int"]).succeed();
    outcome.complains("  GOT\n");
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["kernels"][0]["gpu_time"]["count"], json!(1), "{outcome}");
    // Launches of the program's own code are not timed.
    let mut winners = Winners::load(&tuned.manifest()).unwrap();
    winners.winners[0].static_hash += 1;
    let file = tuned.folder.path().join("changed.json");
    winners.save(&file).unwrap();
    let lines = tuned.folder.path().join("lines");
    alone(&of("vecadd"), &["1", "int"], &file).env("MNEME_TIMES", "1").env("MNEME_SUMMARY", &lines).succeed();
    let line: Value = serde_json::from_str(fs::read_to_string(&lines).unwrap().lines().next().unwrap()).unwrap();
    assert!(line["kernels"][0]["gpu_time"].is_null(), "{line}");
}

#[test]
fn without_a_rule_other_launches_get_the_code_alone() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let tuned = Tuned::new().with("vecadd", &recording.single(), halved().0, json!({}));
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["1", "int"], "vecadd");
    assert_eq!(counts(&kernel), [1, 1, 1], "{outcome}");
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["2", "int"], "vecadd");
    assert_eq!(counts(&kernel), [1, 1, 0], "{outcome}");
}

#[test]
fn what_is_folded_into_the_code_has_to_be_the_same() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let tuned = Tuned::new().with("vecadd", &recording.single(), json!({"specialize": [2]}), json!({}));
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["1", "int"], "vecadd");
    assert_eq!(counts(&kernel), [1, 1, 0], "{outcome}");
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["2", "int"], "vecadd");
    assert_eq!(counts(&kernel), [1, 0, 0], "{outcome}");
    assert!(reason(&kernel).contains("no winner is for such dimensions"), "{outcome}");

    let bounds = json!({"set_launch_bounds": true, "max_threads": 128, "block": {"x": 128}, "grid": {"x": 80}});
    let tuned = Tuned::new().with("vecadd", &recording.single(), bounds, json!({}));
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["2", "int"], "vecadd");
    assert_eq!(counts(&kernel), [1, 0, 0], "blocks of 256 are too large for it: {outcome}");
}

#[test]
fn of_several_winners_the_launch_chooses() {
    let recordings = ["1", "2"].map(|size| Recording::of(app("vecadd"), &[size, "int"]));
    let [one, two] = recordings.each_ref().map(Recording::single);
    let folded = |block: u32, grid: u32| json!({"specialize": true, "block": {"x": block}, "grid": {"x": grid}});
    let tuned =
        Tuned::new().with("one", &one, folded(128, 80), json!({})).with("two", &two, folded(64, 300), json!({}));
    for size in ["1", "2"] {
        let (outcome, kernel) = tuned.run(&of("vecadd"), &[size, "int"], "vecadd");
        assert_eq!(counts(&kernel), [1, 1, 1], "{outcome}");
    }
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["3", "int"], "vecadd");
    assert_eq!(counts(&kernel), [1, 0, 0], "{outcome}");
}

#[test]
fn a_kernel_that_has_changed_keeps_its_own_code() {
    let (_recording, tuned) = vecadd();
    let file = tuned.manifest();
    alone(&of("vecadd"), &["1", "int"], &file)
        .succeed()
        .complains("1 replaced by tuned code (1 with tuned dimensions)");
    let mut winners = Winners::load(&file).unwrap();
    winners.winners[0].static_hash += 1;
    winners.save(&file).unwrap();
    let outcome = alone(&of("vecadd"), &["1", "int"], &file).succeed();
    outcome.complains("keeps its own code: its code has changed");
    outcome.complains("0 replaced by tuned code");
}

#[test]
fn code_that_is_damaged_or_of_another_device_is_not_used() {
    let (_recording, tuned) = vecadd();
    let file = tuned.manifest();
    let plain = unrecorded(app("vecadd")).args(["1", "int"]).succeed();
    let [code] = &tuned.code()[..] else { panic!("{:?}", tuned.code()) };
    let whole = fs::read(code).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(code, &damaged).unwrap();
    let outcome = alone(&of("vecadd"), &["1", "int"], &file).succeed();
    assert_eq!(outcome.stdout, plain.stdout);
    outcome.complains("is damaged");
    outcome.complains("0 replaced by tuned code");

    // A winner that the driver refuses, although the file is intact.
    let mut winners = Winners::load(&file).unwrap();
    let mut foreign = whole.clone();
    let name = winners.winners[0].kernel.clone().into_bytes();
    for at in 0..foreign.len() - name.len() {
        if foreign[at..].starts_with(&name) {
            foreign[at + name.len() - 1] = b'x';
        }
    }
    for (image, said) in [(&whole[..100], "is no machine code"), (&foreign[..], "does not find it in its tuned code")] {
        winners.winners[0].checksum = mneme_model::hash::checksum(image);
        winners.save(&file).unwrap();
        fs::write(code, image).unwrap();
        let outcome = alone(&of("vecadd"), &["1", "int"], &file).succeed();
        assert_eq!(outcome.stdout, plain.stdout);
        outcome.complains(said);
    }

    winners.winners[0].architecture = "sm_20".into();
    winners.save(&file).unwrap();
    let outcome = alone(&of("vecadd"), &["1", "int"], &file).succeed();
    assert_eq!(outcome.stdout, plain.stdout);
    outcome.complains("it was tuned for sm_20, and this device is");

    // The command compiles it again.
    let (outcome, kernel) = tuned.run(&of("vecadd"), &["1", "int"], "vecadd");
    assert_eq!(counts(&kernel), [1, 1, 1], "{outcome}");
    assert_eq!(fs::read(code).unwrap(), whole);

    // A better winner for another device does not hide the one for this device.
    let own = Winners::load(&tuned.manifest()).unwrap().winners.remove(0);
    let foreign = Winner { architecture: "sm_20".into(), before: Some(9e9), after: Some(1.0), ..own.clone() };
    Winners::new(vec![foreign, own]).save(&file).unwrap();
    let outcome = alone(&of("vecadd"), &["1", "int"], &file).succeed();
    assert_eq!(outcome.stdout, plain.stdout);
    outcome.complains("1 replaced by tuned code");
    assert!(!outcome.stderr.contains("sm_20"), "{outcome}");

    let outcome = alone(&of("vecadd"), &["1", "int"], &tuned.folder.path().join("none")).succeed();
    assert_eq!(outcome.stdout, plain.stdout);
    outcome.complains("are not replaced");
}

#[test]
fn variables_of_the_module_and_facts_are_refused_by_name() {
    let recording = Recording::of(app("globals"), &["5000"]);
    let tuned = Tuned::new().with("globals", &recording.single(), json!({"passes": "default<O1>"}), json!({}));
    let plain = unrecorded(app("globals")).arg("5000").succeed();
    let (outcome, kernel) = tuned.run(&of("globals"), &["5000"], "globals");
    assert_eq!(outcome.stdout, plain.stdout);
    assert!(kernel["applied"].is_null(), "{outcome}");
    outcome.complains("globals(int) uses variables of its module");

    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let tuned = Tuned::new().with("vecadd", &recording.single(), json!({"facts": true}), json!({}));
    tuned.run(&of("vecadd"), &["1", "int"], "vecadd").0.complains("tune it without --facts");
}

#[test]
fn every_form_of_a_launch_is_replaced() {
    let recording = Recording::of(app("launches"), &[]);
    let (database, record) = recording.kernel("mark");
    let id = record.instances.iter().find(|(_, instance)| !instance.ours.attributes.cooperative).unwrap().0;
    let instance = TestInstance::new(&database, id);
    let tuned = Tuned::new().with("mark", &instance, json!({"passes": "default<O2>"}), json!({}));
    let (outcome, kernel) = tuned.run(&of("launches"), &[], "mark");
    assert_eq!(counts(&kernel), [6, 6, 0], "{outcome}");
}

#[test]
fn what_is_set_on_a_function_is_set_on_its_tuned_code() {
    let recording = Recording::of(app("refused"), &[]);
    let (database, record) = recording.kernel("advance<1>");
    let id = record.instances.keys().next().unwrap();
    let tuned =
        Tuned::new().with("advance", &TestInstance::new(&database, id), json!({"passes": "default<O2>"}), json!({}));
    // The program expects a refused launch before it sets the attribute, and a successful one afterwards.
    let (outcome, kernel) = tuned.run(&of("refused"), &[], "advance<1>");
    let [_, replaced, _] = counts(&kernel);
    assert!(replaced > 0, "{outcome}");
    assert!(reason(&kernel).contains("shared memory is larger"), "{outcome}");
}

#[test]
fn kernels_of_graphs_are_replaced() {
    let recording =
        Recording::by(|folder| record_executable_into(folder, &of("graphs"), &[]).env("MNEME_GRAPHS", "expand"));
    let (database, record) = recording.kernel("scale");
    let id = record.instances.keys().next().unwrap();
    let tuned =
        Tuned::new().with("scale", &TestInstance::new(&database, id), json!({"passes": "default<O2>"}), json!({}));
    let (outcome, kernel) = tuned.run(&of("graphs"), &[], "scale");
    assert_eq!(counts(&kernel), [4, 4, 0], "two nodes, launched twice: {outcome}");
    assert!(!outcome.stderr.contains("not recorded"), "{outcome}");
}

#[test]
fn a_graph_that_changes_keeps_its_tuned_kernels() {
    let recording =
        Recording::by(|folder| record_executable_into(folder, &of("updated"), &[]).env("MNEME_GRAPHS", "expand"));
    let (database, record) = recording.kernel("advance");
    let one = json!({"block": {"x": 64}, "grid": {"x": 80}, "passes": "default<O2>"});
    let rule = json!({"grid": SAME_THREADS});
    let id = record.instances.keys().next().unwrap();
    let tuned = Tuned::new().with("advance", &TestInstance::new(&database, id), one, rule);
    let (outcome, kernel) = tuned.run_with(&["--any-launch"], &of("updated"), &[], "advance", &[]);
    // The last one is a node of the first graph, in an executable graph that another graph has updated.
    assert_eq!(counts(&kernel), [5, 4, 4], "{outcome}");
    assert!(reason(&kernel).contains("changed after its instantiation"), "{outcome}");
}

/// Runs `repeated` with this data scale, under a winner with a trial of two launches. It ends after the message.
fn on_trial(tuned: &Tuned, scale: &str, message: &str) -> (ProgramOutput, Value) {
    let [json, stop] = ["applied.json", "stop"].map(|name| tuned.folder.path().join(name));
    let _ = fs::remove_file(&stop);
    let run = tuned.apply().args(["--verify-first", "2", "-v", "info", "--json"]).arg(&json);
    let run = run.arg("--").arg(of("repeated")).arg(scale).arg(&stop);
    let outcome = run.outcome_with(message, || fs::write(&stop, "").unwrap());
    assert_eq!(outcome.status, 0, "{outcome}");
    outcome.complains(message);
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let left: Vec<_> = fs::read_dir(tuned.cache().join("tuned")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.is_file()), "recordings are left: {left:?}");
    (outcome, report["kernels"][0].clone())
}

#[test]
fn a_winner_is_used_when_it_has_verified_on_launches_of_the_run() {
    let recording = Recording::of(app("repeated"), &["0"]);
    // Sums of zeros are right in any order, but sums of other numbers are not. A program's data can differ from the
    // recorded data.
    let fast = json!({"fast_math": true, "passes": "default<O3>"});
    let tuned = Tuned::new().with("fast", &recording.single(), fast, json!({}));
    let (outcome, kernel) = on_trial(&tuned, "0", "is verified on 2 launches of this run");
    let [launches, replaced, _] = counts(&kernel);
    assert!(launches > 2 && replaced > 0 && replaced < launches, "{outcome}");
    assert!(reason(&kernel).contains("not verified yet"), "{outcome}");

    let (outcome, kernel) = on_trial(&tuned, "1", "its results differ from those of the application's own code");
    assert_eq!(counts(&kernel)[1], 0, "{outcome}");

    tuned
        .apply()
        .args(["--verify-first", "1", "--manifest"])
        .arg(tuned.folder.path().join("m"))
        .exit_with(exit::BAD_USAGE);
}

#[test]
fn what_is_tuned_for_proteus_is_compiled_from_a_recording() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let record = KernelRecord::load(&recording.single().database).unwrap();
    let tuned = Tuned::new();
    fs::create_dir_all(tuned.results()).unwrap();
    let file = tuned.folder.path().join("proteus_tuned_kernels.json");
    let entry = json!({"LaunchBounds": true, "TunedMaxThreads": 256, "Pipeline": "default<O1>", "CodeGenOptLevel": 2});
    fs::write(&file, json!({ record.kernel_name: entry }).to_string()).unwrap();
    let apply = || {
        run(program("mneme"))
            .args(["apply", "--device", TestDevice::under_test().name()])
            .env("MNEME_CACHE_DIR", tuned.cache())
            .env("PROTEUS_TUNED_KERNELS", &file)
    };
    let executable = of("vecadd");
    let command = |run: Run| run.arg("--").arg(&executable).args(["2", "int"]);
    let outcome = command(apply().arg("-rdb").arg(recording.folder())).succeed();
    outcome.complains("vecadd<int>");
    assert!(
        outcome.stderr.lines().any(|line| line.split_whitespace().rev().take(5).eq(["-", "-", "0", "1", "1"])),
        "{outcome}"
    );
    let outcome = command(apply()).exit_with(mneme_system::exit::BAD_USAGE);
    outcome.complains("name the folder of their recording with -rdb");
}

#[test]
fn without_a_place_for_temporary_files_the_program_runs_all_the_same() {
    let (_recording, tuned) = vecadd();
    let nowhere = [("TMPDIR", OsStr::new("/proc/none"))];
    let (outcome, kernel) = tuned.run_in(&of("vecadd"), &["1", "int"], "vecadd", &nowhere);
    assert_eq!(counts(&kernel), [1, 1, 1], "{outcome}");
    // It does not need a cache either.
    let nowhere = [("MNEME_CACHE_DIR", OsStr::new("/proc/none"))];
    let (outcome, kernel) = tuned.run_in(&of("vecadd"), &["1", "int"], "vecadd", &nowhere);
    assert_eq!(counts(&kernel), [1, 1, 1], "{outcome}");
    outcome.complains("compiled code is not kept");
    let manifest = tuned.apply().env("MNEME_CACHE_DIR", "/proc/none").arg("--manifest");
    let manifest = manifest.arg(tuned.folder.path().join("manifest.json")).exit_with(exit::BAD_USAGE);
    manifest.complains("name one with --cache-dir");
    let plain = unrecorded(app("vecadd")).args(["1", "int"]).succeed();
    for options in [&["--specialize"][..], &["--verify-first", "1"]] {
        let run = tuned.apply().args(options).env("MNEME_CACHE_DIR", "/proc/none").env("TMPDIR", "/proc/none");
        let outcome = run.arg("--").arg(of("vecadd")).args(["1", "int"]).succeed();
        assert_eq!(outcome.stdout, plain.stdout, "{outcome}");
        outcome.complains("winners are neither compiled nor verified");
    }
}

#[test]
fn command_lines_that_make_no_sense_are_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let apply = || run(program("mneme")).arg("apply").env("PROTEUS_TUNED_KERNELS", "");
    apply().args(["--", "true"]).exit_with(mneme_system::exit::BAD_USAGE).complains("--tuned");
    apply().arg("--tuned").arg(folder.path()).exit_with(mneme_system::exit::BAD_USAGE).complains("name an application");
    let outcome =
        apply().arg("--tuned").arg(folder.path()).args(["--", "true"]).exit_with(mneme_system::exit::BAD_USAGE);
    outcome.complains("best.json");
}

#[test]
fn kernels_of_hip_programs_are_replaced() {
    if !hip::can_run("kernels_of_hip_programs_are_replaced") {
        return;
    }
    // One program has graphs. Another one loads a module whose kernel uses a variable.
    let programs = [
        ("vecadd", "vecadd<long>", json!(1)),
        ("cooperating", "cooperating", json!(1)),
        ("shared", "sums", json!(1)),
        ("graphs", "merge", json!(2)),
        ("modules", "scale", Value::Null),
    ];
    for (name, kernel, replaced) in programs {
        let graphs = hip::GRAPHS.name;
        let executable = hip::executable(if name == graphs { &hip::GRAPHS } else { hip::app(name) });
        let recording = Recording::by(|folder| {
            let run = record_executable_into(folder, &executable, &[]);
            if name == graphs { run.env("MNEME_GRAPHS", "expand") } else { run }
        });
        let (database, record) = recording.kernel(kernel);
        let id = record.instances.keys().next().unwrap();
        let instance = TestInstance::new(&database, id);
        let tuned = Tuned::new().with(name, &instance, json!({"passes": "default<O2>"}), json!({}));
        let plain = run(&executable).env("LD_PRELOAD", library("libmneme_cpu.so")).succeed();
        let json = tuned.folder.path().join("applied.json");
        let outcome = tuned.apply().arg("--json").arg(&json).arg("--").arg(&executable).succeed();
        assert_eq!(outcome.stdout, plain.stdout);
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let found = report["kernels"].as_array().unwrap().iter().find(|it| !it["applied"].is_null());
        assert_eq!(found.map_or(Value::Null, |it| it["applied"]["replaced"].clone()), replaced, "{name}: {outcome}");
    }
}

#[test]
fn winners_become_source() {
    let (recording, mut tuned) = vecadd();
    let bounds = json!({"block": {"x": 64}, "grid": {"x": 160}, "set_launch_bounds": true, "fast_math": true});
    tuned = tuned.with("vecadd-fast", &recording.single(), bounds, json!({}));
    let (header, cmake) = (tuned.folder.path().join("tuned.hpp"), tuned.folder.path().join("tuned.cmake"));
    let export = || run(program("mneme")).arg("export").arg(tuned.results());
    export().arg("--header").arg(&header).arg("--cmake").arg(&cmake).succeed();
    // The command refuses results without winners, and a call without anything to do.
    export().exit_with(exit::BAD_USAGE);
    run(program("mneme")).args(["export", "--header"]).arg(&header).exit_with(exit::BAD_USAGE);

    let source = tuned.folder.path().join("uses.cpp");
    let text = r#"
        #include "tuned.hpp"
        #include <cstdio>
        struct dim3 { unsigned x, y, z; };
        MNEME_TUNED_BOUNDS_vecadd static void defined() {}
        int main() {
            defined();
            const mneme_tuned::Launch &first = mneme_tuned::vecadd[0];
            dim3 grid = {first.recorded_grid[0], 1, 1}, block = {first.recorded_block[0], 1, 1}, none = {7, 7, 7};
            const mneme_tuned::Launch *found = mneme_tuned::find(mneme_tuned::vecadd, first.capability, grid, block);
            if (found != &first || mneme_tuned::find(mneme_tuned::vecadd, first.capability, none, block))
                return 1;
            std::printf("%u %u\n", found->grid[0], found->block[0]);
        }
    "#;
    let options = fs::read_to_string(&cmake).unwrap();
    assert!(options.contains("set(MNEME_TUNED_VECADD_CLANG -O2)\n"), "{options}");
    assert!(options.contains("set(MNEME_TUNED_VECADD_2_NVCC --use_fast_math)\n"), "{options}");
    if !have_compiler("winners_become_source") {
        return;
    }
    fs::write(&source, text).unwrap();
    let built = tuned.folder.path().join("uses");
    let warnings = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-o"];
    run("c++").args(warnings).arg(&built).arg(&source).succeed();
    assert_eq!(run(&built).succeed().stdout, "80 128\n");
    run("cmake").arg("-P").arg(&cmake).succeed();
}

#[test]
fn winners_become_wisdom() {
    let (recording, mut tuned) = vecadd();
    tuned = tuned.with("vecadd-64", &recording.single(), json!({"block": {"x": 64}, "grid": {"x": 160}}), json!({}));
    let wisdom = tuned.folder.path().join("wisdom");
    let export = || run(program("mneme")).arg("export").arg(tuned.results()).arg("--wisdom").arg(&wisdom);
    let outcome = export().succeed();
    assert!(outcome.stdout.ends_with("vecadd.wisdom: 2 launches\n"), "{outcome}");
    let text = fs::read_to_string(wisdom.join("vecadd.wisdom")).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let header =
        json!({"version": "1.0", "objective": "time", "tunable_parameters": ["block_size_x"], "key": "vecadd"});
    assert_eq!(lines[0], header);
    let record = KernelRecord::load(&recording.single().database).unwrap();
    for (line, block) in lines[1..].iter().zip([128, 64]) {
        assert_eq!(line["config"], json!([block]));
        assert_eq!((&line["problem_size"], &line["time"]), (&json!([10240, 1, 1]), &json!(0.001)));
        assert_eq!(line["environment"]["device_name"], json!(record.ours.device));
    }
    // An existing file may come from Kernel Launcher's own tuner.
    export().exit_with(exit::BAD_USAGE).complains("vecadd.wisdom");
}
