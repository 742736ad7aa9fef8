//! Several instances, several kernels, and shared results.

use mneme_system::exit;
use serde_json::json;

use crate::home::Home;

/// Launches of instances 1 and 2. The stub's times for the second are twice as long.
const LAUNCHES: [(&str, u64); 2] = [("1", 3), ("2", 1)];

#[test]
fn instances_weigh_as_often_as_they_were_launched() {
    let home = Home::new();
    home.record(5, &LAUNCHES);
    assert!(home.run(&["--results-dir", "ambiguous"], exit::BAD_USAGE).1.contains("instances"));
    home.tune(
        &[
            "--all-instances", "--space-preset", "launch", "--passes", "right", "only-first", "--iterations", "2",
            "--warmup", "1", "--results-dir", "here",
        ],
        0,
    );
    // 997 ns three times and 1994 ns once.
    assert_eq!(home.json("here/baseline.json")["metric"], (3.0 * 997.0 + 1994.0) / 4.0);
    let best = home.json("here/best.json");
    assert_eq!((&best["config"]["passes"], &best["config"]["block"]["x"]), (&json!("right"), &json!(8)));
    // The median of rounds, whose times are whole nanoseconds.
    let metric = best["metric"].as_f64().unwrap();
    assert!((metric - (3.0 * 993.0 + 1986.0) / 4.0).abs() < 1.0, "{metric}");
    assert_eq!(best["instances"].as_array().unwrap().len(), 2);
    assert_eq!(best["instances"][1]["record_id"], "2");
    // A candidate must verify on all instances.
    let summary = home.json("here/summary.json");
    assert_eq!((&summary["num_verified"], &summary["num_failed_verification"]), (&json!(7), &json!(7)));
    // The session can be resumed like any other.
    home.tune(&["--resume", "--results-dir", "here"], 0);
    assert_eq!(home.json("here/summary.json")["num_resumed"], 14);
    assert_eq!(home.json("here/best.json"), best);
}

#[test]
fn the_best_is_verified_on_other_instances() {
    let home = Home::new();
    home.record(5, &LAUNCHES);
    let with = |folder: &str, more: &[&str]| {
        let arguments = [
            "-rid", "1", "--space-preset", "compiler", "--passes", "only-first", "right", "--fixed-codegen-opt", "3",
            "--finalists", "0", "--results-dir",
        ];
        let (_, stderr) = home.run(&[&arguments[..], &[folder], more].concat(), 0);
        (home.json(&format!("{folder}/best.json"))["config"]["passes"].clone(), stderr)
    };
    assert_eq!(with("plain", &[]).0, "only-first", "both are as fast, and it came first");
    let (best, stderr) = with("all", &["--verify-all"]);
    assert_eq!(best, "right");
    assert!(stderr.contains("trial 0: it does not verify on every recorded instance (2: "), "{stderr}");
    assert_eq!(home.json("all/summary.json")["verified_on"], json!(["2"]));
    assert_eq!(with("named", &["--verify-all", "2"]).0, "right");
    // Finalists that fail on another instance are not measured again, and count as failed.
    let launch = ["-rid", "1", "--space-preset", "launch", "--passes", "only-first", "right"];
    home.tune(&[&launch[..], &["--verify-all", "--results-dir", "again"]].concat(), 0);
    let summary = home.json("again/summary.json");
    let finalists = summary["confirmation"]["finalists"].as_array().unwrap();
    let refuted = summary["refuted"].as_object().unwrap();
    assert!(finalists.len() == 3 && !refuted.is_empty(), "{summary}");
    assert!(
        finalists.iter().all(|it| it["fate"] != "failed" && !refuted.contains_key(&it["trial"].to_string())),
        "{summary}"
    );
    assert_eq!(home.json("again/best.json")["config"]["passes"], "right");
    assert!(home.run(&["-rid", "1", "--verify-all", "7", "--results-dir", "none"], exit::BAD_USAGE).1.contains('7'));
}

#[test]
fn several_kernels_are_tuned_one_after_the_other() {
    let home = Home::new();
    home.record(6, &[("1", 1)]);
    home.record(7, &[("69", 1)]);
    let arguments = ["--record-database", ".", "--all-kernels", "--space-preset", "launch", "--results-dir", "here"];
    // One kernel cannot be replayed here; the others are tuned nevertheless.
    let (stdout, stderr) = home.run(&arguments, 69);
    assert_eq!(stdout.matches("BEST: ").count(), 2, "{stderr}");
    let tuned = home.json("here/proteus_tuned_kernels.json");
    assert_eq!(tuned.as_object().unwrap().keys().collect::<Vec<_>>(), ["_Z5kv", "_Z6kv"]);
    let kernels = home.json("here/summary.json")["kernels"].clone();
    let statuses: Vec<_> =
        kernels.as_array().unwrap().iter().map(|kernel| kernel["exit_status"].as_i64().unwrap()).collect();
    assert_eq!(statuses, [0, 0, 69]);
    assert_eq!(home.json("here/6/summary.json")["status"], "completed");
    assert!(
        home.run(&["--record-database", ".", "--results-dir", "none"], exit::BAD_USAGE).1.contains("--all-kernels")
    );
}

#[test]
fn results_are_shared_between_sessions() {
    let home = Home::new();
    let with = |folder: &str, more: &[&str]| {
        let arguments = [
            "--space-preset", "compiler", "--passes", "right", "unknown", "--cache", "shared/cache.jsonl",
            "--results-dir", folder,
        ];
        home.tune(&[&arguments[..], more].concat(), 0);
        home.json(&format!("{folder}/summary.json"))
    };
    let (first, second) = (with("a", &[]), with("b", &[]));
    assert_eq!((&first["num_cached"], &second["num_cached"]), (&json!(0), &json!(6)));
    for key in ["num_trials_completed", "num_verified", "num_compile_error", "best_metric", "best_trial"] {
        assert_eq!(first[key], second[key], "{key}");
    }
    assert_eq!(with("c", &["--iterations", "9"])["num_cached"], 0, "other runs are other results");
}
