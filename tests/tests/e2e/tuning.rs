//! `mneme-tune`: a small space, walked completely; every candidate verified; the best one last.

use std::fs;
use std::path::Path;

use mneme_e2e::apps::app;
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Device, program};
use mneme_e2e::recording::{Instance, Recording};
use serde_json::Value;

fn tune(tuner: Run, instance: &Instance, results: &Path) -> Run {
    tuner
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", Device::under_test().name()])
        .args(["--space-preset", "launch", "--launch-dim", "x", "--sampler", "exhaustive"])
        .args(["--iterations", "2", "--warmup", "1", "--results-dir"])
        .arg(results)
}

fn read(folder: &Path, name: &str) -> Value {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn trials(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("trials.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_exhaustive_sweep_ends_with_the_best() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().join("sweep");
    let outcome = tune(run(program("mneme-tune")), &recording.single(), &folder)
        .args(["--launch-safety", "conservative", "--passes", "default<O1>", "default<O3>"])
        .succeed();

    let lines: Vec<_> = outcome.stdout.lines().collect();
    let baseline = lines.iter().position(|line| line.starts_with("Baseline mean exec_time = ")).expect("the baseline's line");
    let first = lines.iter().position(|line| line.starts_with("[0] passes=default<O")).expect("the first candidate's line");
    assert!(baseline < first, "{outcome}");
    let best = lines.iter().rev().find(|line| line.starts_with("BEST: ")).unwrap_or_else(|| panic!("no BEST line: {outcome}"));
    for part in ["passes=default<O", "blockDim.x=", "mean=", "speedup="] {
        assert!(best.contains(part), "{best}");
    }

    let summary = read(&folder, "summary.json");
    let completed = summary["num_trials_completed"].as_u64().unwrap();
    assert!(completed >= 8, "{summary}");
    assert_eq!(summary["num_verified"], completed, "the grid-stride loop is right under every shape: {summary}");
    let trials = trials(&folder);
    assert_eq!(trials.len() as u64, completed);
    for name in ["config.json", "search_space.json", "baseline.json", "best.json"] {
        read(&folder, name);
    }
    assert!(folder.join("logs/tune.log").is_file());
}

#[test]
fn candidates_that_do_not_verify_do_not_win() {
    // Fewer threads than elements leave work undone, which would be the fastest: this kernel has no loop.
    let recording = Recording::of(app("inplace"), &["4096"]);
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().join("sweep");
    let outcome = tune(run(program("mneme")).arg("tune"), &recording.single(), &folder)
        .args(["--launch-safety", "conservative", "--passes", "default<O2>"])
        .succeed();
    let best = read(&folder, "best.json");
    assert!(best.to_string().contains("\"verified\":true"), "{best}");
    assert!(outcome.stdout.lines().any(|line| line.starts_with("BEST: ")), "{outcome}");
}

#[test]
fn a_baseline_that_fails_stops_the_tuning() {
    let recording = Recording::of(app("inplace"), &["4096"]);
    let results = tempfile::tempdir().unwrap();
    let outcome = tune(run(program("mneme-tune")), &recording.single(), &results.path().join("sweep"))
        .args(["--passes", "no-such-pass"])
        .exit_with(1);
    assert!(!outcome.stdout.contains("BEST: "), "{outcome}");
}
