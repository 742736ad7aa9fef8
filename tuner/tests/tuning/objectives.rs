//! Objectives that the server has to measure.

use mneme_system::exit;

use crate::home::Home;

const OPTIONS: [&str; 9] =
    ["--space-preset", "launch", "--passes", "a", "b", "--results-dir", "here", "--objective", "dram__bytes.sum"];

#[test]
fn a_hardware_counter_is_asked_for_by_name_and_decides() {
    let home = Home::new();
    home.tune(&OPTIONS, 0);
    let best = home.json("here/best.json");
    // The narrowest block is the slowest, and moves the fewest bytes.
    assert_eq!((&best["config"]["block"]["x"], &best["objectives"][0]), (&1.into(), &100.0.into()), "{best}");
    assert_eq!(best["result"]["counters"]["dram__bytes.sum"], 100.0);
    let home = Home::new();
    let output = home.command(&[&["-rdb", "5.json"], &OPTIONS[..7]].concat()).env("STUB_LOG", "log").output().unwrap();
    let log = std::fs::read_to_string(home.path("log")).unwrap();
    assert!(output.status.success() && !log.contains("counters"), "nobody has asked for any");
}

#[test]
fn a_counter_that_is_not_counted_ends_the_session_before_any_candidate() {
    let home = Home::new();
    let mut command = home.command(&[&["-rdb", "5.json"], &OPTIONS[..]].concat());
    let output = command.env("STUB_UNCOUNTED", "the driver forbids it").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = "the objective 'dram__bytes.sum' needs the hardware counter dram__bytes.sum, which has no value: \
                    the driver forbids it";
    assert!(output.status.code() == Some(exit::BAD_USAGE) && stderr.contains(expected), "{stderr}");
    assert!(home.trials("here").is_empty());
}

#[test]
fn shared_runs_are_named_by_trial_or_as_the_baseline_s() {
    for (answer, expected) in [("1", serde_json::json!("baseline")), ("2", 0.into())] {
        let home = Home::new();
        let mut command = home.command(&[&["-rdb", "5.json", "--finalists", "0"], &OPTIONS[..7]].concat());
        let output = command.env("STUB_SHARED", answer).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let trials = home.trials("here");
        let (first, others) = trials.split_first().unwrap();
        assert_eq!(first["result"]["shared_with"].is_null(), answer == "2", "{first}");
        assert!(others.len() > 3 && others.iter().all(|trial| trial["result"]["shared_with"] == expected));
        // A resumed session keeps these names.
        home.run(&["--resume", "--results-dir", "here"], 0);
        assert_eq!(home.trials("here"), trials);
    }
}

#[test]
fn candidates_without_a_value_of_the_objective_are_told_and_counted() {
    let home = Home::new();
    let options =
        ["--space-preset", "launch", "--passes", "a", "--results-dir", "here", "--finalists", "0", "--objective"];
    // Defined for the baseline, but not for candidates that are faster.
    let more = ["-rdb", "5.json", "sqrt(time - baseline)"];
    let output = home.command(&[&more[..2], &options[..], &more[2..]].concat()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let left_out = home.json("here/summary.json")["num_without_objective"].as_u64().unwrap();
    assert!(left_out > 0 && stdout.matches(" no candidate: ").count() as u64 == left_out, "{left_out} {stdout}");
    assert!(stderr.contains(&format!("mneme-tune: {left_out} of ")), "{stderr}");
    let without = home.trials("here").iter().filter(|it| it["objectives"].as_array().is_none_or(Vec::is_empty)).count();
    assert_eq!(without as u64, left_out);
}
