//! Tests of exit statuses and their messages.
//!
//! docs/reference/exit-status.md lists them.

use mneme_e2e::apps::app;
use mneme_e2e::command::run;
use mneme_e2e::damage::{damaged_copy, set_argument};
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_system::exit;

#[test]
fn an_unknown_pass_is_a_failed_build_in_llvms_words() {
    let recording = Recording::of(app("saxpy"), &[]);
    let outcome = recording.single().replay("default<O2>,no-such-pass").exit_with(exit::BAD_USAGE);
    let result = &outcome.json()["Result"];
    assert_eq!(
        (&result["verified"], &result["executed"], &result["failed"]),
        (&false.into(), &false.into(), &true.into()),
        "{outcome}"
    );
    assert!(
        result["error"].as_str().is_some_and(|error| error.contains("unknown") && error.contains("'no-such-pass'")),
        "{outcome}"
    );
}

#[test]
fn a_pipeline_may_be_anything_that_opt_accepts() {
    let recording = Recording::of(app("matmul"), &[]);
    let instance = recording.single();
    for passes in [
        "function(sroa,early-cse),always-inline,function(loop-simplify,lcssa)",
        "verify",
        "default<O1>,function(instcombine)",
    ] {
        instance.verify(passes, &[]);
    }
}

#[test]
fn a_launch_that_no_device_takes_has_failed() {
    let recording = Recording::of(app("histogram"), &[]);
    let outcome =
        recording.single().replay("default<O3>").args(["--shared-mem", "100000000"]).exit_with(exit::LAUNCH_FAILED);
    let result = &outcome.json()["Result"];
    assert_eq!((&result["verified"], &result["failed"]), (&false.into(), &true.into()), "{outcome}");
    assert!(result["error"].as_str().is_some_and(|error| !error.is_empty()), "{outcome}");
}

#[test]
fn a_kernel_that_crashes_is_reported_not_suffered() {
    let recording = Recording::of(app("inplace"), &["1000"]);
    let (_copy, instance) = damaged_copy(&recording);
    set_argument(&instance, 0, &0x40_u64.to_le_bytes());
    let outcome = instance.replay("default<O3>").exit_with(exit::LAUNCH_FAILED);
    let result = &outcome.json()["Result"];
    assert_eq!((&result["verified"], &result["failed"]), (&false.into(), &true.into()), "{outcome}");
    assert!(result["error"].as_str().is_some_and(|error| !error.is_empty()), "{outcome}");
}

#[test]
fn a_kernel_that_does_not_end_is_ended() {
    let recording = Recording::of(app("spin"), &[]);
    let (_copy, instance) = damaged_copy(&recording);
    set_argument(&instance, 1, &(u64::MAX / 2).to_le_bytes());
    let outcome = instance.replay("default<O3>").args(["--timeout", "3"]).exit_with(exit::TIMED_OUT);
    let result = &outcome.json()["Result"];
    assert_eq!((&result["verified"], &result["failed"]), (&false.into(), &true.into()), "{outcome}");
}

#[test]
fn command_lines_that_make_no_sense() {
    let recording = Recording::of(app("saxpy"), &[]);
    let instance = recording.single();
    instance.replay("default<O3>").arg("--no-such-option").exit_with(exit::BAD_USAGE).complains("--no-such-option");
    instance.replay("default<O3>").args(["--block-dim-x", "4096"]).exit_with(exit::BAD_USAGE);
    instance.replay("default<O3>").args(["--iterations", "many"]).exit_with(exit::BAD_USAGE);
    run(program("mneme-replay")).arg("--nonsense").exit_with(exit::BAD_USAGE);
    run(program("mneme")).arg("frobnicate").exit_with(exit::BAD_USAGE).complains("frobnicate");
    run(program("mneme")).args(["record", "-rdb", "not-used"]).exit_with(exit::BAD_USAGE);
}

#[test]
fn recordings_that_are_not_there() {
    let recording = Recording::of(app("saxpy"), &[]);
    let instance = recording.single();
    let missing = TestInstance::new(&recording.folder().join("12345.json"), &instance.id);
    missing.replay("default<O3>").exit_with(exit::NO_INPUT).complains("12345.json");
    // The message about an unknown instance lists the existing ones.
    let unknown = TestInstance::new(&instance.database, "0");
    unknown.replay("default<O3>").exit_with(exit::BAD_USAGE).complains(&instance.id);
    let text = recording.folder().join("67890.json");
    std::fs::write(&text, "not a recording").unwrap();
    TestInstance::new(&text, &instance.id).replay("default<O3>").exit_with(exit::BAD_RECORDING);
}

/// A missing path has the same status in all commands, for recordings, results, sources and spaces.
#[test]
fn a_path_that_is_missing_has_the_same_status_everywhere() {
    let recording = Recording::of(app("saxpy"), &[]);
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(recording.folder(), home.path().join("recording")).unwrap();
    for line in [
        "mneme-replay -rdb none",
        "mneme-replay -rdb none/1.json",
        "mneme-replay --source none.cu",
        "mneme-replay --ir none.ll",
        "mneme-replay --ptx none.ptx",
        "mneme-replay --cubin none.cubin",
        "mneme-replay sweep -rdb none none.jsonl",
        "mneme-replay sweep none.jsonl",
        "mneme-replay serve -rdb none",
        "mneme-bisect -rdb none",
        "mneme-bisect --source none.cu",
        "mneme-tune -rdb none",
        "mneme-tune -rdb none/1.json",
        "mneme-tune --all-kernels -rdb none",
        "mneme-tune --space none.yaml",
        "mneme-tune --space-module none.py:Space",
        "mneme-tune --config none.yml",
        "mneme-tune --pipeline-file none",
        "mneme-tune --simulate none",
        "mneme-tune --sampler greedy --trials 1 --start-from none",
        "mneme-tune --sampler tpe --trials 1 --learn-from none",
        "mneme-tune --resume --results-dir none",
        "mneme-tune report none",
        "mneme-tune compare none none",
        "mneme ls none",
        "mneme show none",
        "mneme fsck none",
        "mneme annotate none",
        "mneme clean none",
        "mneme copy none to",
        "mneme move none/1.json to",
        "mneme minimize none to",
        "mneme export --standalone none to",
        "mneme export --standalone recording to --code none.ptx",
        "mneme export --header tuned.hpp none",
        "mneme test none",
        "mneme test recording --against none.json",
        "mneme compare none.json none.json",
        "mneme apply --tuned none -- true",
        "mneme learn none",
    ] {
        let mut words = line.split(' ');
        let outcome = run(program(words.next().unwrap())).args(words).folder(home.path()).exit_with(exit::NO_INPUT);
        assert!(outcome.stderr.contains("none") && outcome.stderr.trim().lines().count() == 1, "{line}: {outcome}");
    }
    // A missing part of a recording is a different error.
    for line in ["mneme-replay", "mneme-tune", "mneme-bisect", "mneme ls", "mneme export --standalone recording to"] {
        for [option, value] in [["--kernel", "none"], ["-rid", "0"]] {
            let mut words = line.split(' ');
            let outcome = run(program(words.next().unwrap())).args(words).args([option, value]).folder(home.path());
            outcome.exit_with(exit::BAD_USAGE);
        }
    }
}

/// A folder without kernels has the same status in all commands that need one.
#[test]
fn a_folder_without_kernels_has_the_same_status_everywhere() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("empty")).unwrap();
    for (line, status) in [
        ("mneme-replay -rdb empty", exit::BAD_RECORDING),
        ("mneme-tune -rdb empty", exit::BAD_RECORDING),
        ("mneme-tune --all-kernels -rdb empty", exit::BAD_RECORDING),
        ("mneme-bisect -rdb empty", exit::BAD_RECORDING),
        ("mneme show empty", exit::BAD_RECORDING),
        ("mneme annotate empty", exit::BAD_RECORDING),
        ("mneme copy empty to", exit::BAD_RECORDING),
        ("mneme move empty to", exit::BAD_RECORDING),
        ("mneme minimize empty to", exit::BAD_RECORDING),
        ("mneme export --standalone empty to", exit::BAD_RECORDING),
        ("mneme test empty", exit::BAD_RECORDING),
        ("mneme test -rdb empty --kernel k", exit::BAD_RECORDING),
        ("mneme ls empty", 0),
        ("mneme fsck empty", 0),
        ("mneme clean empty", 0),
    ] {
        let mut words = line.split(' ');
        let outcome = run(program(words.next().unwrap())).args(words).folder(home.path()).exit_with(status);
        let lines = if status == 0 { &outcome.stdout } else { &outcome.stderr };
        assert_eq!(lines.lines().count(), 1, "{line}: {outcome}");
        assert!(!lines.contains("whole"), "{line}: {outcome}");
    }
}

#[test]
fn an_instance_may_be_named_by_any_beginning_of_its_id() {
    let recording = Recording::of(app("stencil"), &[]);
    let ids: Vec<String> = recording.kernel("stencil").1.instances.keys().cloned().collect();
    let list = |id: &str| {
        run(program("mneme")).args(["ls", "--json", "--kernel", "stencil", "-rid", id]).arg(recording.folder())
    };
    for id in &ids {
        let shared = (0..id.len()).rev().find(|end| ids.iter().any(|it| it != id && it.starts_with(&id[..*end])));
        let shared = shared.expect("there are several instances");
        assert_eq!(list(&id[..=shared]).succeed().json()[0]["instances"][0]["id"], id.as_str());
        if shared > 0 {
            list(&id[..shared]).exit_with(exit::BAD_USAGE).complains(id);
        }
    }
}

#[test]
fn the_instance_may_be_left_out_where_there_is_one() {
    let recording = Recording::of(app("saxpy"), &[]);
    let instance = recording.single();
    let replay = |database: &std::path::Path| {
        run(program("mneme-replay")).args(["-rdb".as_ref(), database.as_os_str()]).args([
            "--device",
            TestDevice::under_test().name(),
            "default<O3>",
        ])
    };
    assert_eq!(replay(&instance.database).succeed().json()["Result"]["verified"], true);
    let recording = Recording::of(app("stencil"), &[]);
    let (database, kernel) = recording.kernel("stencil");
    let outcome = replay(&database).exit_with(exit::BAD_USAGE);
    for id in kernel.instances.keys() {
        outcome.complains(id);
    }
}

#[test]
fn the_command_mneme_replays_too() {
    let recording = Recording::of(app("saxpy"), &[]);
    let instance = recording.single();
    let outcome = run(program("mneme"))
        .args([
            "replay".as_ref(),
            "-rdb".as_ref(),
            instance.database.as_os_str(),
            "-rid".as_ref(),
            instance.id.as_ref(),
        ])
        .args(["--device", TestDevice::under_test().name(), "default<O3>"])
        .succeed();
    assert_eq!(outcome.json()["Result"]["verified"], true);
}

#[test]
fn a_machine_without_a_gpu_says_so() {
    if TestDevice::under_test() == TestDevice::Cuda {
        mneme_fixtures::skip("a_machine_without_a_gpu_says_so is for machines without one");
        return;
    }
    let recording = Recording::of(app("saxpy"), &[]);
    let instance = recording.single();
    let outcome = run(program("mneme-replay"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", "cuda", "default<O3>"])
        .exit_with(exit::NO_DEVICE);
    assert_eq!(outcome.stderr.trim().lines().count(), 1, "one sentence: {outcome}");
}
