//! Tests of the number of runs per candidate.

use std::fs;

use mneme_e2e::apps::app;
use mneme_e2e::command::run;
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::Recording;
use serde_json::Value;

#[test]
fn long_kernels_are_warmed_up_once_and_run_as_often_as_it_takes() {
    // Takes tens of milliseconds.
    let rounds = if TestDevice::under_test().name() == "cpu" { "400000" } else { "8000000" };
    let recording = Recording::of(app("spin"), &[rounds]);
    let instance = recording.single();
    let work = tempfile::tempdir().unwrap();
    let session = |name: &str, options: &[&str]| {
        let results = work.path().join(name);
        let done = run(program("mneme-tune"))
            .args(["--device", TestDevice::under_test().name()])
            .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
            .args(["--seed", "3", "--finalists", "1", "--confirm-time", "2", "--baseline", "pipeline"])
            .args([
                "--space-preset", "compiler", "--passes", "default<O3>", "default<O1>", "default<O0>", "--results-dir",
            ])
            .arg(&results)
            .args(options)
            .succeed();
        let trials = fs::read_to_string(results.join("trials.jsonl")).unwrap();
        let trials: Vec<Value> = trials.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let read = |name: &str| -> Value { serde_json::from_slice(&fs::read(results.join(name)).unwrap()).unwrap() };
        (trials, read("summary.json"), read("baseline.json"), done)
    };
    let runs =
        |result: &Value| (result["exec_time"].as_array().unwrap().len() as u64, result["warmup"].as_u64().unwrap());

    let (trials, summary, baseline, done) = session("needed", &[]);
    // Two measured runs are enough if they take long together.
    assert!([(3, 1), (4, 1)].contains(&runs(&baseline["result"])), "{baseline}");
    let own: Vec<_> = trials.iter().map(|trial| &trial["result"]).filter(|it| it["shared_with"].is_null()).collect();
    assert!(own.len() >= 2 && own.iter().all(|result| (1..=4).contains(&runs(result).0) && runs(result).1 == 1));
    for trial in trials.iter().filter(|trial| trial["result"]["exec_time"].as_array().unwrap().len() == 1) {
        assert!(trial["metric"].is_null() && trial["stopped"].is_number(), "a cold run is no measurement: {trial}");
    }
    let made: u64 = own.iter().map(|result| runs(result).0).sum();
    assert_eq!(summary["num_runs"], made, "{summary}");
    assert_eq!(summary["num_runs_saved"], own.len() as u64 * 7 - made, "{summary}");
    done.complains(&format!("Skipped {} of", summary["num_runs_saved"]));

    let (trials, summary, baseline, _) = session("all", &["--runs", "all", "--iterations", "2"]);
    assert!(trials.iter().all(|trial| runs(&trial["result"]) == (4, 2)) && runs(&baseline["result"]) == (4, 2));
    assert_eq!(summary["num_runs_saved"], 0, "{summary}");
}
