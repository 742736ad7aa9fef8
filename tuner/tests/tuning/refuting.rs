//! Candidates that fail a later verification, or turn out slower, neither win nor are exported.

use serde_json::{Value, json};

use crate::home::Home;

/// Runs a session over these pipelines, with a baseline that is not among them, and asserts its exit status.
fn tune(home: &Home, passes: &[&str], more: &[&str], status: i32) -> (String, String) {
    std::fs::write(home.path("space.json"), json!({"parameters": {"passes": passes}}).to_string()).unwrap();
    home.run(&[&["--space", "space.json", "--results-dir", "here"], more].concat(), status)
}

/// Asserts that all output names the recorded configuration as the best.
#[track_caller]
fn assert_recorded(home: &Home, stdout: &str, stderr: &str) {
    let last = stdout.lines().last().unwrap();
    assert!(last.starts_with("BEST: as recorded") && last.ends_with("speedup=1"), "{stdout}");
    assert!(stderr.contains("; the recorded configuration is the best"), "{stderr}");
    let (best, baseline, summary) =
        (home.json("here/best.json"), home.json("here/baseline.json"), home.json("here/summary.json"));
    assert_eq!((&best["config"], &best["trial"], &best["speedup"]), (&baseline["config"], &Value::Null, &json!(1.0)));
    assert_eq!((&summary["best_trial"], &summary["best_metric"]), (&Value::Null, &summary["baseline_metric"]));
    assert!(!home.path("here/proteus_tuned_kernels.json").exists());
    let report = std::fs::read_to_string(home.path("here/report.html")).unwrap();
    assert!(report.contains("No winner") && !report.contains("PROTEUS_TUNED_KERNELS"), "the report");
}

#[test]
fn who_verifies_only_sometimes_wins_nothing() {
    let home = Home::new();
    let (stdout, stderr) = tune(&home, &["sometimes 1", "sometimes 2"], &[], 2);
    assert_recorded(&home, &stdout, &stderr);
    assert!(stderr.contains("trial 0: it verified at first, but not"), "{stderr}");
    assert!(stderr.contains("0 of 2 configurations verified"), "{stderr}");
    let summary = home.json("here/summary.json");
    assert_eq!((&summary["num_verified"], &summary["num_failed_verification"]), (&json!(0), &json!(2)));
    assert_eq!(summary["status"], "no_verified_configuration");
    assert_eq!(summary["refuted"].as_object().map(serde_json::Map::len), Some(2), "{summary}");
    assert!(summary["confirmation"].is_null(), "all candidates are refuted: {summary}");
    // A resumed session knows this, so it confirms nothing and has no winner.
    let (stdout, _) = home.run(&["--resume", "--results-dir", "here"], 2);
    assert!(stdout.lines().last().unwrap().starts_with("BEST: as recorded"), "{stdout}");
    assert_eq!(home.json("here/summary.json")["refuted"].as_object().unwrap().len(), 2);
    // Readers of the folder do not count them either.
    let journal = home.path("study.log");
    let output = home.command(&["report", "here", "--optuna-journal", journal.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success());
    let journal = std::fs::read_to_string(journal).unwrap();
    let trials: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|it: &Value| it["op_code"] == 4)
        .collect();
    assert!(
        trials.len() == 2 && trials.iter().all(|trial| trial["state"] == 3 && trial["value"].is_null()),
        "{trials:?}"
    );
}

#[test]
fn the_fastest_that_stands_wins_where_others_are_refuted() {
    let home = Home::new();
    let (stdout, stderr) = home.run(
        &["--space-preset", "launch", "--passes", "right", "sometimes", "--finalists", "2", "--results-dir", "here"],
        0,
    );
    let best = home.json("here/best.json");
    assert_eq!((&best["config"]["passes"], &best["config"]["block"]["x"]), (&json!("right"), &json!(8)), "{stderr}");
    assert!(
        stdout.lines().last().unwrap().starts_with("BEST: passes=right block.x=8")
            && home.json("here/summary.json")["confirmation"]["significant"] == true
    );
    assert_eq!(home.json("here/proteus_tuned_kernels.json")["_Z5kv"]["Pipeline"], "right");
    // At least one candidate was looked at again and refuted.
    assert!(!home.json("here/summary.json")["refuted"].as_object().unwrap().is_empty());
}

#[test]
fn who_is_slower_is_neither_the_best_nor_exported() {
    let home = Home::new();
    // An earlier session's file for Proteus is not left as if it were this one's.
    std::fs::write(home.path("proteus.json"), json!({"_Z5kv": {"Pipeline": "old"}}).to_string()).unwrap();
    let (stdout, stderr) = tune(&home, &["late 1", "late 2"], &["--proteus-output", "proteus.json"], 0);
    assert_recorded(&home, &stdout, &stderr);
    assert_eq!(home.json("here/summary.json")["confirmation"]["finalists"][0]["fate"], "slower");
    assert!(!home.path("proteus.json").exists() && stderr.contains("proteus.json had an earlier result"), "{stderr}");
    assert_eq!(home.json("here/summary.json")["num_verified"], 2);
    // The same holds for the file in the results folder.
    tune(&home, &["right"], &["--finalists", "0"], 0);
    assert!(home.path("here/proteus_tuned_kernels.json").exists());
    let (stdout, stderr) = tune(&home, &["late 3", "late 4"], &["--resume", "--finalists", "3"], 0);
    assert_recorded(&home, &stdout, &stderr);
}

#[test]
fn a_verdict_of_one_session_is_known_to_the_next_by_the_cache() {
    let home = Home::new();
    tune(&home, &["sometimes 1"], &["--cache", "cache.jsonl"], 2);
    let (stdout, _) = tune(&home, &["sometimes 1"], &["--cache", "cache.jsonl"], 2);
    let summary = home.json("here/summary.json");
    assert_eq!((&summary["num_cached"], &summary["num_failed_verification"]), (&json!(1), &json!(1)));
    assert!(stdout.contains("No configuration verified."), "{stdout}");
}

#[test]
fn a_clock_that_stands_still_makes_nothing_fast() {
    let home = Home::new();
    let (stdout, _) = tune(&home, &["still", "right"], &["--finalists", "0"], 0);
    assert!(stdout.contains("FAILED error=the result has no measured runs"), "{stdout}");
    assert_eq!(home.json("here/best.json")["config"]["passes"], "right");
}
