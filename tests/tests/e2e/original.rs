//! Tests of the application's own code.
//!
//! It is recorded with the IR, replayed unchanged, and used as the baseline of speedups.

use std::fs;
use std::path::Path;

use mneme_e2e::apps::app;
use mneme_e2e::command::{ProgramOutput, run};
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_recording::code::ORIGINAL;
use mneme_recording::database::KernelRecord;
use mneme_system::exit;
use serde_json::Value;

/// The file of the application's code that every instance names, and the instances.
fn instances(recording: &Recording) -> Vec<(Vec<String>, TestInstance)> {
    let of = |(path, kernel): (std::path::PathBuf, KernelRecord)| {
        let named = kernel.instances.into_iter().map(move |(id, instance)| {
            (instance.ours.original.into_iter().map(|code| code.file).collect(), TestInstance::new(&path, &id))
        });
        named.collect::<Vec<_>>()
    };
    recording.kernels().into_iter().flat_map(of).collect()
}

#[test]
fn the_applications_own_code_is_recorded_and_verifies() {
    let extension = if TestDevice::under_test() == TestDevice::Cuda { ".cubin" } else { ".o" };
    for name in ["vecadd", "histogram", "matmul", "variables"] {
        let recording = Recording::of(app(name), &[]);
        let found = instances(&recording);
        assert!(!found.is_empty());
        for (files, instance) in &found {
            assert!(
                files.first().is_some_and(|file| file.starts_with(ORIGINAL) && file.ends_with(extension)),
                "{name}: {files:?}"
            );
            assert!(files.iter().all(|file| recording.folder().join(file).is_file()), "{name}: {files:?}");
            let json = instance.verify("default<O3>", &["--original"]);
            assert_eq!(json["Replay-config"]["original"], true, "{json}");
        }
        run(program("mneme")).args(["check".as_ref(), "-rdb".as_ref(), recording.folder().as_os_str()]).succeed();
    }
}

/// Kernels of one image share it.
#[test]
fn code_is_kept_once() {
    let recording = Recording::of(app("variables"), &[]);
    let found = instances(&recording);
    assert!(found.len() >= 2 && found.iter().all(|(files, _)| *files == found[0].0));
    let kept = fs::read_dir(recording.folder()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(ORIGINAL)
    });
    assert_eq!(kept.count(), found[0].0.len());
}

#[test]
fn what_the_applications_code_cannot_do_is_refused_by_name() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let instance = recording.single();
    for options in [&["--maxnreg=64"][..], &["--specialize"], &["--opt", "opt-19"]] {
        instance.replay("default<O3>").arg("--original").args(options).exit_with(exit::BAD_USAGE);
    }
    instance.replay("default<O1>").arg("--original").exit_with(exit::BAD_USAGE).complains("which passes cannot change");
    // Its launch may change.
    instance.verify("default<O3>", &["--original", "-bidx", "64"]);
}

/// The module of a replay has its variables and functions at other addresses.
#[test]
fn addresses_of_the_module_in_memory_are_those_of_the_replay() {
    let recording = Recording::of(app("globals"), &[]);
    recording.single().verify("default<O3>", &["--original"]);
    let recording = Recording::of(app("virtual"), &[]);
    let single = |name: &str| {
        let (path, kernel) = recording.kernel(name);
        TestInstance::new(&path, kernel.instances.keys().next().unwrap())
    };
    for kernel in ["build", "measure"] {
        let result = single(kernel).verify("default<O3>", &["--original"]);
        assert!(result["Result"]["mapped_addresses"].as_u64() >= Some(6), "{result}");
    }
}

fn tune(instance: &TestInstance, results: &Path, options: &[&str]) -> ProgramOutput {
    run(program("mneme-tune"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args([
            "--device",
            TestDevice::under_test().name(),
            "--space-preset",
            "launch",
            "--launch-dim",
            "x",
            "--trials",
            "3",
        ])
        .args(["--finalists", "1", "--confirm-time", "1", "--results-dir"])
        .arg(results)
        .args(options)
        .succeed()
}

fn read(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

#[test]
fn speedups_are_over_the_applications_own_code() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let instance = recording.single();
    let results = tempfile::tempdir().unwrap();
    let [original, pipeline, without] = ["original", "pipeline", "without"].map(|name| results.path().join(name));
    tune(&instance, &original, &[]);
    let baseline = read(&original, "baseline.json");
    assert_eq!(
        (&baseline["config"]["original"], &baseline["result"]["verified"]),
        (&true.into(), &true.into()),
        "{baseline}"
    );
    let trials = fs::read_to_string(original.join("trials.jsonl")).unwrap();
    for trial in trials.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let speedup = trial["metric"].as_f64().map(|metric| baseline["metric"].as_f64().unwrap() / metric);
        assert!(
            speedup.zip(trial["speedup"].as_f64()).is_none_or(|(one, other)| (other / one - 1.0).abs() < 1e-6),
            "{trial}"
        );
        assert_eq!(speedup.is_some(), trial["speedup"].is_f64(), "{trial}");
    }
    tune(&instance, &pipeline, &["--baseline", "pipeline"]);
    assert_eq!(read(&pipeline, "baseline.json")["config"].get("original"), None);

    // A recording from before Mneme kept that code.
    let mut record = KernelRecord::load(&instance.database).unwrap();
    record.instances.values_mut().for_each(|instance| instance.ours.original.clear());
    record.save(&instance.database).unwrap();
    instance.replay("default<O3>").arg("--original").exit_with(exit::BAD_USAGE).complains("record it again");
    tune(&instance, &without, &[]).complains("record it again");
    assert_eq!(read(&without, "baseline.json")["config"].get("original"), None);
}
