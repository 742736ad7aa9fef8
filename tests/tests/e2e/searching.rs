//! Tests of spaces from files, learning samplers, and confirmed winners.
//!
//! Some sessions run without a device.

use std::fs;
use std::path::Path;

use mneme_e2e::apps::app;
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance};
use serde_json::Value;

fn tune(instance: &TestInstance, space: &Path, results: &Path) -> Run {
    tune_on(TestDevice::under_test().name(), instance, space, results)
}

fn tune_on(device: &str, instance: &TestInstance, space: &Path, results: &Path) -> Run {
    run(program("mneme-tune"))
        .args(["--device", device])
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--quiet", "--seed", "3", "--space"])
        .arg(space)
        .arg("--results-dir")
        .arg(results)
}

fn read(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

fn trials(folder: &Path) -> Vec<Value> {
    fs::read_to_string(folder.join("trials.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_pass_that_a_sequence_may_have_is_llvms_and_keeps_the_kernel_right() {
    // Sums of whole numbers: the order of operations does not matter.
    let recording = Recording::of(app("matmul"), &["40"]);
    let work = tempfile::tempdir().unwrap();
    let space = work.path().join("space.yaml");
    fs::write(&space, "parameters:\n  passes: {type: pipeline, start: [sroa], longest: 1}\n").unwrap();
    let results = work.path().join("results");
    tune(&recording.single(), &space, &results)
        .args(["--iterations", "1", "--warmup", "0", "--finalists", "0"])
        .succeed();
    let trials = trials(&results);
    assert!(trials.len() >= 70, "{}", trials.len());
    let wrong: Vec<String> = trials
        .iter()
        .filter(|trial| trial["result"]["status"] != "verified")
        .map(|trial| format!("{}: {}", trial["config"]["passes"], trial["result"]["error"]))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_session_is_confirmed_and_can_be_simulated() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let instance = recording.single();
    let work = tempfile::tempdir().unwrap();
    let space = work.path().join("space.yaml");
    let text = "parameters:\n  block.x: {type: int, low: 32, high: 256, step: 32}\n  passes: [\"default<O3>\", \"default<O1>\"]\n\
                derived:\n  grid.x: ceil(args[2] / block.x)\n\
                constraints: [block.x != 96, device.multiprocessors > 0, block.x * 16 <= device.registers_per_multiprocessor]\n";
    fs::write(&space, text).unwrap();
    // The command queries the device even if it runs nothing else.
    let printed = tune(&instance, &space, &work.path().join("none")).arg("--print-space").succeed().json();
    assert!(printed["device"]["shared_mem_optin"].as_u64() >= Some(48 << 10), "{printed}");
    let all = work.path().join("all");
    let outcome =
        tune(&instance, &space, &all).args(["--iterations", "2", "--warmup", "1", "--finalists", "2"]).succeed();
    let summary = read(&all, "summary.json");
    assert_eq!(summary["num_trials_completed"], 14, "seven widths, two pipelines");
    assert_eq!(
        (&summary["num_verified"], &summary["num_rejected"]),
        (&Value::from(14), &Value::from(0)),
        "a walk leaves out what is invalid"
    );
    let confirmation = &summary["confirmation"];
    assert!(confirmation["rounds"].as_u64().unwrap() >= 6, "{summary}");
    let finalists = confirmation["finalists"].as_array().unwrap();
    assert_eq!(finalists.len(), 2, "{summary}");
    for finalist in finalists {
        let speedup = &finalist["speedup"];
        assert!(speedup["low"].as_f64().unwrap() <= speedup["estimate"].as_f64().unwrap(), "{finalist}");
    }
    assert!(outcome.stderr.contains(summary["verdict"].as_str().unwrap()), "{outcome}");
    let best = outcome
        .stdout
        .lines()
        .find(|line| line.starts_with("BEST: "))
        .unwrap_or_else(|| panic!("no BEST line: {outcome}"));
    let winner = read(&all, "best.json");
    // A busy machine may or may not confirm a winner.
    if confirmation["significant"] == true {
        assert_eq!(winner["trial"], finalists[0]["trial"]);
        assert_eq!(winner["speedup"], finalists[0]["speedup"]["estimate"]);
        assert_eq!((&winner["metric"], &summary["best_metric"]), (&finalists[0]["time"], &finalists[0]["time"]));
        assert!(best.contains(" interval="), "{best}");
    } else {
        assert_eq!((&winner["trial"], &summary["best_speedup"]), (&Value::Null, &Value::from(1.0)), "{summary}");
        assert_eq!(winner["config"], read(&all, "baseline.json")["config"], "{summary}");
        assert!(!all.join("proteus_tuned_kernels.json").exists());
    }
    // `--quiet` omits the instructions for using a winner, whatever the times are.
    assert!(!outcome.stderr.contains("An application built with Proteus"), "{outcome}");

    let simulated = work.path().join("simulated");
    let simulate = ["--sampler", "tpe", "--trials", "9", "--objective", "time", "block.x", "--simulate"];
    tune(&instance, &space, &simulated).args(simulate).arg(&all).succeed();
    let mut recorded = trials(&all);
    for trial in &mut recorded {
        // The simulation does not mark trials that share the runs of the baseline or of another trial.
        trial["result"].as_object_mut().unwrap().remove("shared_with");
    }
    let again = trials(&simulated);
    assert_eq!(again.len(), 9);
    for trial in &again {
        // Repeated measurements have a second line, which counts.
        let mut before = recorded.iter().rev();
        let before = before.find(|before| before["config_hash"] == trial["config_hash"]).expect("it was tried before");
        assert_eq!(before["result"], trial["result"]);
        assert_eq!(trial["objectives"].as_array().unwrap().len(), 2);
    }
    assert!(!read(&simulated, "pareto.json")["trials"].as_array().unwrap().is_empty());
}

#[test]
fn winners_are_confirmed_on_one_of_several_devices() {
    if TestDevice::under_test().name() != "cpu" {
        return;
    }
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let work = tempfile::tempdir().unwrap();
    let (space, results) = (work.path().join("space.yaml"), work.path().join("results"));
    fs::write(&space, "parameters:\n  block.x: {type: int, low: 32, high: 512, step: 32}\n").unwrap();
    tune_on("cpu,cpu:1", &recording.single(), &space, &results)
        .args(["--iterations", "200", "--warmup", "0", "--finalists", "2"])
        .env("MNEME_CPU_DEVICES", "2")
        .succeed();
    let devices: std::collections::BTreeSet<i64> =
        trials(&results).iter().map(|trial| trial["result"]["gpu_id"].as_i64().unwrap()).collect();
    assert_eq!(devices, [0, 1].into());
    assert_eq!(read(&results, "summary.json")["confirmation"]["gpu_id"], 0);
}

#[test]
fn errors_that_a_tolerance_allows_are_an_objective() {
    // Another launch shape adds the same floats in another order.
    let recording = Recording::of(app("floatsum"), &[]);
    let work = tempfile::tempdir().unwrap();
    let space = work.path().join("space.yaml");
    fs::write(&space, "parameters:\n  block.x: [32, 64, 128, 256]\n").unwrap();
    let results = work.path().join("results");
    let options = [
        "--iterations", "2", "--warmup", "0", "--rtol", "1e-4", "--atol", "0", "--objective", "largest_relative_error",
        "time",
    ];
    tune(&recording.single(), &space, &results).args(options).succeed();
    let trials = trials(&results);
    assert_eq!(trials.len(), 4);
    let errors: Vec<f64> = trials.iter().map(|trial| trial["objectives"][0].as_f64().expect("a number")).collect();
    assert!(errors.iter().all(|error| *error <= 1e-4) && errors.iter().any(|error| *error > 0.0), "{errors:?}");
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(read(&results, "best.json")["result"]["largest_relative_error"], least);
    assert_eq!(read(&results, "pareto.json")["objectives"], serde_json::json!(["largest_relative_error", "time"]));
}

#[test]
fn the_best_of_a_session_is_polished_by_another() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let instance = recording.single();
    let work = tempfile::tempdir().unwrap();
    let space = work.path().join("space.toml");
    fs::write(
        &space,
        "[parameters]\n'block.x' = { type = 'int', low = 32, high = 512, step = 32 }\npasses = ['default<O3>', 'default<O1>']\n",
    )
    .unwrap();
    let (first, second) = (work.path().join("first"), work.path().join("second"));
    let options = ["--iterations", "1", "--warmup", "0", "--finalists", "0", "--trials", "4"];
    tune(&instance, &space, &first).args(options).args(["--sampler", "sobol", "--racing", "4"]).succeed();
    tune(&instance, &space, &second)
        .args(options)
        .args(["--sampler", "greedy", "--start-from"])
        .arg(first.join("best.json"))
        .succeed();
    // Configurations with the same code end in any order.
    let proposed_first = trials(&second).into_iter().find(|trial| trial["trial"] == 0).unwrap();
    assert_eq!(proposed_first["params"], read(&first, "best.json")["params"]);
    let wrong = tune(&instance, &space, &second)
        .args(options)
        .args(["--sampler", "tpe", "--start-from"])
        .arg(first.join("best.json"));
    wrong.exit_with(64).complains("--start-from is for --sampler greedy");
    fs::write(&space, "[parameters]\ncodegen_opt = [0, 1]\n").unwrap();
    let elsewhere =
        tune(&instance, &space, &work.path().join("third")).args(options).args(["--sampler", "greedy", "--start-from"]);
    elsewhere.arg(first.join("best.json")).exit_with(mneme_system::exit::BAD_USAGE).complains("--start-from");
}

#[test]
fn energy_is_refused_where_nobody_counts_it() {
    if TestDevice::under_test().name() != "cpu" {
        return;
    }
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let work = tempfile::tempdir().unwrap();
    let (space, results) = (work.path().join("space.yaml"), work.path().join("results"));
    fs::write(&space, "parameters:\n  block.x: [32, 64]\n").unwrap();
    let outcome = tune(&recording.single(), &space, &results)
        .args(["--objective", "time", "energy_j"])
        .exit_with(mneme_system::exit::BAD_USAGE);
    outcome.complains("the objective 'energy_j' needs the energy of a launch, which could not be measured");
    assert!(read(&results, "baseline.json")["result"].get("energy_j").is_none());
}

#[test]
fn a_space_file_that_is_wrong_is_told_before_anything_runs() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let work = tempfile::tempdir().unwrap();
    let space = work.path().join("space.yaml");
    fs::write(&space, "parameters:\n  block.x: [32, 64]\nderived:\n  grid.x: ceil(n / block.x)\n").unwrap();
    let outcome =
        tune(&recording.single(), &space, &work.path().join("results")).exit_with(mneme_system::exit::BAD_USAGE);
    outcome.complains("space.yaml, line 4: derived.grid.x: 'ceil(n / block.x)' has the unknown name 'n'");
}
