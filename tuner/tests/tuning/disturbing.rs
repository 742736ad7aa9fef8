//! Trials that were measured while the device was disturbed are measured again.

use serde_json::{Value, json};

use crate::home::Home;

/// Runs a session over seven widths under six pipelines, with a range of answers disturbed. Ten answers take a second,
/// after which a reference is due.
fn tune(home: &Home, disturbed: &str) -> String {
    let passes = ["--passes", "a", "b", "c", "d", "e", "f"];
    let options = ["-rdb", "5.json", "--space-preset", "launch", "--finalists", "0", "--results-dir", "here"];
    // A single worker, so that references do not wait behind many candidates.
    let passes = [&passes[..], &["--workers", "1"]].concat();
    let mut command = home.command(&[&options[..], &passes].concat());
    command.env("STUB_PAUSE", "0.1").env("STUB_DISTURBED", disturbed);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    stderr
}

fn is_right(trial: &Value) -> bool {
    let time = 1000.0 - trial["config"]["block"]["x"].as_f64().unwrap();
    trial["metric"].as_f64().is_some_and(|metric| (metric - time).abs() < 5.0)
}

#[test]
fn trials_of_a_disturbed_device_are_measured_again() {
    let home = Home::new();
    let stderr = tune(&home, "8 22");
    let (lines, summary) = (home.trials("here"), home.json("here/summary.json"));
    let (repeats, firsts): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["repeated"].is_number());
    let references = &summary["references"];
    assert_eq!((firsts.len(), &summary["num_trials_completed"]), (42, &json!(42)));
    assert!(repeats.len() >= 10 && repeats.iter().all(|it| is_right(it)), "{references}");
    assert_eq!((&references["repeated"], &references["in_doubt"]), (&json!(repeats.len()), &json!(0)));
    for first in firsts.iter().filter(|it| !is_right(it)) {
        let repeat = repeats.iter().find(|it| it["trial"] == first["trial"]).expect("what was wrong was repeated");
        assert_eq!(repeat["repeated"], first["metric"]);
    }
    assert!(stderr.contains("temperature (hardware)") && stderr.contains("trials were measured again"), "{stderr}");
    let report = std::fs::read_to_string(home.path("here/report.html")).unwrap();
    assert!(report.contains("trials measured again, because the device was disturbed"));
    // All readers of the folder use the last measurement.
    assert_eq!(home.json("here/best.json")["metric"], 993.0);
    home.run(&["--resume", "--results-dir", "here"], 0);
    let resumed = home.json("here/summary.json");
    assert_eq!((&resumed["num_resumed"], &resumed["num_trials_completed"]), (&json!(42), &json!(42)));
    let csv = home.path("trials.csv");
    let output = home.command(&["report", "here", "--csv", csv.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success() && std::fs::read_to_string(csv).unwrap().lines().count() == 43);
}

#[test]
fn a_disturbance_that_does_not_end_leaves_trials_in_doubt() {
    let home = Home::new();
    let stderr = tune(&home, "35 99");
    let references = home.json("here/summary.json")["references"].take();
    let wrong = home.trials("here").iter().filter(|it| !is_right(it)).count() as u64;
    assert!(wrong > 0 && references["in_doubt"].as_u64().unwrap() >= wrong, "{references}");
    assert!(stderr.contains(" trials may be off by as much"), "{stderr}");
}
