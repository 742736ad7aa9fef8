//! A session that is killed at any moment can be resumed without losing or repeating work.

use std::collections::{HashMap, HashSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use mneme_system::exit;
use serde_json::Value;

use crate::home::Home;

const SPACE: [&str; 6] = ["--space-preset", "launch", "--launch-safety", "aggressive", "--passes", "a"];
const SIZE: usize = 10 * 6;

fn arguments(results: &str) -> Vec<&str> {
    [
        &[
            "-rdb", "5.json", "--results-dir", results, "--quiet", "--finalists", "0", "--iterations", "2", "--warmup",
            "1",
        ],
        &SPACE[..],
        &["b", "c", "d", "e", "f"],
    ]
    .concat()
}

/// The configurations given to the server, in order, including the baseline of each start.
fn submitted(home: &Home) -> Vec<(u64, u64, String)> {
    let text = std::fs::read_to_string(home.path("log")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = |line: Value| {
        let (block, passes) = (&line["config"]["block"]["x"], &line["config"]["passes"]);
        (line["id"].as_u64().unwrap(), block.as_u64().unwrap(), passes.as_str().unwrap().to_owned())
    };
    lines.filter(|line| line["type"] == "submit").map(of).collect()
}

#[test]
fn a_session_may_be_killed_at_any_moment() {
    let home = Home::new();
    // The duration of a whole session, over which the kills are spread. The minimum of three, because one may have been
    // slow.
    let timed = |folder: &str| {
        let start = Instant::now();
        assert!(home.command(&arguments(folder)).stdout(Stdio::null()).status().unwrap().success());
        start.elapsed()
    };
    let whole = ["whole", "again", "once-more"].map(timed).into_iter().min().unwrap();
    assert_eq!(home.trials("whole").len(), SIZE);

    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut kills = 0;
    let mut done: HashSet<String> = HashSet::new();
    loop {
        let before = submitted(&home).len();
        let resume: &[&str] = if home.path("killed/config.json").exists() { &["--resume"] } else { &[] };
        let mut session = home.command(&[&arguments("killed")[..], resume].concat());
        let mut session =
            session.env("STUB_LOG", home.path("log")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_nanos(random % (whole.as_nanos() as u64 / 4)));
        let ended = session.try_wait().unwrap();
        if ended.is_none() {
            session.kill().unwrap();
            session.wait().unwrap();
            kills += 1;
        }
        // No trial of an earlier session was replayed again.
        for (_, width, passes) in submitted(&home).into_iter().skip(before).filter(|(id, ..)| *id > 0) {
            assert!(!done.contains(&format!("{width} {passes}")), "{width} {passes} was replayed twice");
        }
        let text = std::fs::read_to_string(home.path("killed/trials.jsonl")).unwrap_or_default();
        let whole_lines: Vec<Value> =
            text.split_inclusive('\n').filter_map(|line| serde_json::from_str(line.strip_suffix('\n')?).ok()).collect();
        let now: HashSet<String> = whole_lines
            .iter()
            .map(|trial| format!("{} {}", trial["config"]["block"]["x"], trial["config"]["passes"].as_str().unwrap()))
            .collect();
        assert!(done.is_subset(&now), "what was written down was lost");
        done = now;
        if ended.is_some_and(|status| status.success()) {
            break;
        }
        assert!(kills < 200, "the session never ends");
    }
    assert!(kills >= 2, "{kills} kills are too few to prove anything");
    let trials = home.trials("killed");
    let distinct = |key: &str| trials.iter().map(|trial| trial[key].to_string()).collect::<HashSet<_>>().len();
    assert_eq!((trials.len(), distinct("config_hash"), distinct("trial")), (SIZE, SIZE, SIZE));
    let summary = home.json("killed/summary.json");
    assert_eq!((&summary["num_trials_completed"], &summary["status"]), (&SIZE.into(), &"completed".into()));
    // Trials have the same numbers as in a session without interruption.
    let numbers = |folder: &str| -> HashMap<String, u64> {
        home.trials(folder)
            .iter()
            .map(|trial| (trial["config_hash"].to_string(), trial["trial"].as_u64().unwrap()))
            .collect()
    };
    assert_eq!(numbers("killed"), numbers("whole"));
    assert_eq!(home.json("killed/best.json")["config"], home.json("whole/best.json")["config"]);
}

#[test]
fn a_folder_says_what_its_session_was_told() {
    let home = Home::new();
    home.tune(
        &["--space-preset", "compiler", "--sampler", "random", "--trials", "4", "--seed", "3", "--results-dir", "here"],
        0,
    );
    let before = home.trials("here");
    assert_eq!(before.len(), 4);
    // Resumes without naming recording, space or sampler.
    home.tune(&["--resume", "--results-dir", "here", "--trials", "9"], 0);
    let after = home.trials("here");
    assert_eq!((after.len(), &after[..4]), (9, &before[..]));
    assert_eq!(home.json("here/summary.json")["num_resumed"], 4);
    assert_eq!(home.json("here/config.json")["seed"], 3);
    // The same nine as in a single session.
    home.tune(
        &["--space-preset", "compiler", "--sampler", "random", "--trials", "9", "--seed", "3", "--results-dir", "once"],
        0,
    );
    let hashes =
        |folder: &str| home.trials(folder).iter().map(|trial| trial["config_hash"].to_string()).collect::<HashSet<_>>();
    assert_eq!(hashes("here"), hashes("once"));
}

#[test]
fn the_baseline_stands_unless_it_is_to_be_measured_again() {
    let home = Home::new();
    home.tune(&["--space-preset", "quick", "--finalists", "0", "--results-dir", "here"], 0);
    let with = |more: &[&str]| {
        let _ = std::fs::remove_file(home.path("log"));
        let mut command = home.command(&[&["--resume", "--results-dir", "here"], more].concat());
        assert!(command.env("STUB_LOG", home.path("log")).stdout(Stdio::null()).status().unwrap().success());
        submitted(&home).len()
    };
    assert_eq!((with(&[]), with(&["--rerun-baseline"])), (0, 1));
    // Another metric needs no replay either.
    assert_eq!(with(&["--metric", "max"]), 0);
    assert_eq!(home.json("here/summary.json")["best_metric"], 998.0);
    // Results of another kernel are left alone.
    home.record(6, &[("1", 1)]);
    let (_, stderr) = home.run(&["--resume", "--results-dir", "here", "--record-database", "6.json"], exit::BAD_USAGE);
    assert!(stderr.contains("another recording"), "{stderr}");
    let (_, stderr) = home.run(&["--resume", "--results-dir", "here", "--kernel", "other"], exit::BAD_USAGE);
    assert!(stderr.contains("--kernel names other"), "{stderr}");
}

/// Otherwise earlier trials would be mixed with different ones.
#[test]
fn other_conditions_are_refused_and_the_session_stays_as_it_was() {
    let home = Home::new();
    home.tune(&["--space-preset", "quick", "--finalists", "0", "--rtol", "1e-5", "--results-dir", "here"], 0);
    let files = ["config.json", "search_space.json", "baseline.json", "trials.jsonl"];
    let read = || files.map(|name| std::fs::read_to_string(home.path(&format!("here/{name}"))).unwrap());
    let before = read();
    for (option, value) in [("--rtol", "1e-12"), ("--iterations", "50"), ("--atol", "1")] {
        let (_, stderr) = home.run(&["--resume", "--results-dir", "here", option, value], exit::BAD_USAGE);
        assert!(stderr.contains(&format!("another {option}")), "{stderr}");
    }
    home.record(6, &[("1", 1)]);
    home.run(&["--resume", "--results-dir", "here", "--record-database", "6.json"], exit::BAD_USAGE);
    assert_eq!(read(), before);
    home.tune(&["--resume", "--results-dir", "here", "--rtol", "1e-5", "--iterations", "5"], 0);
}

#[test]
fn a_session_may_go_on_in_another_space() {
    let home = Home::new();
    home.tune(&["--space-preset", "compiler", "--passes", "a", "b", "--results-dir", "here"], 0);
    let before = home.trials("here");
    assert_eq!(before.len(), 6);
    let arguments = [
        "--resume", "--results-dir", "here", "--space-preset", "full", "--passes", "b", "c", "--sampler", "tpe",
        "--trials", "30",
    ];
    home.tune(&arguments, 0);
    let after = home.trials("here");
    let distinct: HashSet<String> = after.iter().map(|trial| trial["config_hash"].to_string()).collect();
    assert_eq!((after.len(), distinct.len(), &after[..6]), (30, 30, &before[..]));
}

/// The same kernel and launch with other memory, or other tolerances, is another recording.
#[test]
fn another_recording_is_refused_and_shares_no_results() {
    let home = Home::new();
    let rules = r#"{"version": 1, "rules": []}"#;
    let put = |memory: &str| ["p", "e"].iter().for_each(|name| std::fs::write(home.path(name), memory).unwrap());
    put("integers");
    let tune = |folder: &str| {
        home.tune(
            &["--space-preset", "quick", "--finalists", "0", "--cache", "cache.jsonl", "--results-dir", folder],
            0,
        );
        home.json(&format!("{folder}/summary.json"))["num_cached"].as_u64().unwrap()
    };
    assert_eq!(tune("first"), 0);
    let all = tune("same");
    assert!(all > 0);
    let before = std::fs::read_to_string(home.path("first/summary.json")).unwrap();
    let refused = |what: &str| {
        let (_, stderr) = home.run(&["--resume", "--results-dir", "first"], exit::BAD_USAGE);
        assert!(stderr.contains("another recording") && stderr.contains(what), "{stderr}");
    };
    put("fractions");
    refused("the recorded launch or its memory");
    assert_eq!(tune("other-memory"), 0);
    put("integers");
    std::fs::write(home.path("5.tolerances.json"), rules.replace("[]", r#"[{"tag": "a", "ignore": true}]"#)).unwrap();
    refused("tolerances");
    assert_eq!(tune("other-rules"), 0);
    std::fs::write(home.path("5.tolerances.json"), rules).unwrap();
    assert_eq!(tune("as-before"), all);
    assert_eq!(
        std::fs::read_to_string(home.path("first/summary.json")).unwrap(),
        before,
        "a refused session is unchanged"
    );
    home.tune(&["--resume", "--results-dir", "first"], 0);
}

#[test]
fn results_for_another_kernel_stay_in_their_folder() {
    let home = Home::new();
    home.record(6, &[("1", 1)]);
    let launch = ["--space-preset", "launch", "--finalists", "0", "--results-dir", "here"];
    home.tune(&launch, 0);
    let before = std::fs::read_to_string(home.path("here/best.json")).unwrap();
    let of_other = [&["--record-database", "6.json"][..], &launch].concat();
    assert!(home.run(&of_other, exit::BAD_USAGE).1.contains("_Z5kv"));
    assert_eq!(std::fs::read_to_string(home.path("here/best.json")).unwrap(), before);
    assert!(!home.path("here.1").exists());
    home.tune(&launch, 0);
    assert!(home.path("here.1").exists(), "the same kernel moves its results aside");
}

#[test]
fn only_a_session_can_be_resumed() {
    let home = Home::new();
    std::fs::create_dir(home.path("empty")).unwrap();
    for folder in ["none", "empty"] {
        home.tune(&["--record-database", "5.json", "--resume", "--results-dir", folder], exit::NO_INPUT);
    }
    assert!(!home.path("none").exists());
    assert_eq!(std::fs::read_dir(home.path("empty")).unwrap().count(), 0);
}

/// Sessions and caches without a recording's checksums are not used.
#[test]
fn what_does_not_say_which_recording_it_is_of_is_not_used() {
    let home = Home::new();
    let arguments = ["--space-preset", "quick", "--finalists", "0", "--cache", "cache.jsonl", "--results-dir"];
    home.tune(&[&arguments[..], &["here"]].concat(), 0);
    let mut config = home.json("here/config.json");
    assert_eq!(config["measured"]["device"], "d");
    let mut elsewhere = config.clone();
    elsewhere["measured"]["device"] = "NVIDIA H200".into();
    std::fs::write(home.path("here/config.json"), elsewhere.to_string()).unwrap();
    let (_, stderr) = home.run(&["--resume", "--results-dir", "here"], exit::BAD_USAGE);
    assert!(stderr.contains("here holds times of NVIDIA H200") && stderr.contains("times of d (driver 1"), "{stderr}");
    config.as_object_mut().unwrap().remove("measured");
    std::fs::write(home.path("here/config.json"), config.to_string()).unwrap();
    let (_, stderr) = home.run(&["--resume", "--results-dir", "here"], exit::BAD_USAGE);
    assert!(stderr.contains("does not say which recording it measured"), "{stderr}");
    std::fs::remove_file(home.path("here/config.json")).unwrap();
    home.run(&["--resume", "-rdb", "5.json", "--results-dir", "here"], exit::BAD_USAGE);
    // Keys of an earlier format.
    let cache = std::fs::read_to_string(home.path("cache.jsonl")).unwrap();
    std::fs::write(home.path("cache.jsonl"), cache.replace("{\"key\":\"3|", "{\"key\":\"")).unwrap();
    let (_, stderr) = home.run(&[&arguments[..], &["again"]].concat(), 0);
    assert!(stderr.contains(&format!("{} results in cache.jsonl", cache.lines().count())), "{stderr}");
    assert_eq!(home.json("again/summary.json")["num_cached"], 0);
}

#[test]
fn a_trial_of_another_space_wins_nothing_in_this_one() {
    let home = Home::new();
    // Blocks of 8 threads are faster than the recorded 4, the only ones in the second space.
    home.tune(&["--space-preset", "launch", "--passes", "a", "--results-dir", "here"], 0);
    assert_eq!(home.json("here/best.json")["config"]["block"]["x"], 8);
    home.tune(
        &[
            "--resume", "--results-dir", "here", "--space-preset", "compiler", "--passes", "a", "b",
            "--fixed-codegen-opt", "3",
        ],
        0,
    );
    let best = home.json("here/best.json");
    assert_eq!(best["config"]["block"]["x"], 4, "{best}");
    // Points of both spaces are not measured again, and may win.
    assert_eq!(home.trials("here").iter().filter(|trial| trial["config"]["block"]["x"] == 4).count(), 2);
    // Equal parameters with another meaning make another space, too.
    let space = |twice: &str| {
        std::fs::write(home.path("space.yaml"), format!("parameters:\n  w: [1, 2]\nderived:\n  block.x: {twice}\n"))
            .unwrap()
    };
    space("w * 8");
    home.tune(&["--space", "space.yaml", "--results-dir", "derived"], 0);
    assert_eq!(home.json("derived/best.json")["config"]["block"]["x"], 16);
    space("w");
    home.tune(&["--resume", "--results-dir", "derived"], 0);
    let (best, trials) = (home.json("derived/best.json"), home.trials("derived"));
    assert!(best["config"]["block"]["x"] != 16 && best["config"]["block"]["x"] != 8, "{best}");
    assert_eq!(trials.len(), 4);
}

/// A resumed session tries the candidates for which something was missing, despite earlier results and the cache.
#[test]
fn what_was_missing_is_tried_when_it_is_there() {
    let home = Home::new();
    std::fs::write(home.path("space.yaml"), "parameters:\n  llvm: [19, 22]\n  passes: [a, b, c]\n").unwrap();
    let arguments = ["-rdb", "5.json", "--results-dir", "results", "--quiet", "--finalists", "0", "--space"];
    let arguments = [&arguments[..], &["space.yaml", "--cache", "cache.jsonl"]].concat();
    let run = |further: &[&str], missing: &str| {
        let mut command = home.command(&[&arguments[..], further].concat());
        let output = command.env("STUB_MISSING", missing).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        (home.json("results/summary.json"), stderr)
    };
    let (summary, _) = run(&[], "missing");
    let (size, missing) = (summary["num_trials_completed"].as_u64(), summary["num_internal_error"].as_u64());
    assert!(missing > Some(0) && missing < size, "{summary}");
    let (summary, stderr) = run(&["--resume", "--trials", "3"], "");
    assert_eq!(summary["num_trials_completed"], 3, "{summary}");
    assert!(stderr.contains("3 configurations could not be tried before"), "{stderr}");
    let (summary, stderr) = run(&["--resume", "--trials", "6"], "");
    assert!(!stderr.contains("not tried now"), "{stderr}");
    assert_eq!(summary["num_internal_error"], 0, "{summary}");
    assert_eq!((summary["num_trials_completed"].as_u64(), summary["num_verified"].as_u64()), (size, size), "{summary}");
    assert_eq!(summary["num_resumed"].as_u64(), size.zip(missing).map(|(all, missing)| all - missing), "{summary}");
    // Earlier lines stay; the last line of a number counts.
    let lines: Vec<u64> = home.trials("results").iter().map(|trial| trial["trial"].as_u64().unwrap()).collect();
    let distinct: HashSet<&u64> = lines.iter().collect();
    assert_eq!((Some(distinct.len() as u64), Some(lines.len() as u64)), (size, size.zip(missing).map(|(a, b)| a + b)));
    let (again, _) = run(&["--resume"], "");
    assert_eq!((&again["num_resumed"], &again["num_verified"]), (&size.into(), &size.into()), "{again}");
}

/// If a builder is missing when finalists are measured again, they cannot win, but a resumed session can try them
/// again.
#[test]
fn what_cannot_be_measured_again_is_not_refuted_for_good() {
    let home = Home::new();
    std::fs::write(home.path("space.yaml"), "parameters:\n  llvm: [19, 22]\n  passes: [a, b]\n").unwrap();
    let run = |further: &[&str], missing: &str, status: i32| {
        let arguments = ["-rdb", "5.json", "--results-dir", "results", "--quiet", "--space", "space.yaml"];
        let arguments = [&arguments[..], &["--finalists", "4"], further].concat();
        let output = home.command(&arguments).env("STUB_MISSING", missing).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        (home.json("results/summary.json"), stderr)
    };
    let (summary, _) = run(&[], "", 0);
    assert_eq!((&summary["num_verified"], summary.get("refuted")), (&4.into(), None), "{summary}");
    // A candidate that could not be measured may be faster than the recorded configuration.
    let (summary, stderr) = run(&["--resume"], "missing", exit::INTERNAL);
    assert_eq!((&summary["num_verified"], &summary["num_internal_error"]), (&2.into(), &2.into()), "{summary}");
    assert_eq!(summary["untested"].as_array().map(Vec::len), Some(2), "{summary}");
    assert!(stderr.contains("it verified, but could not be measured again: it is missing; install it"), "{stderr}");
    assert!(stderr.contains("2 of 4 configurations could not be tried: it is missing; install it"), "{stderr}");
    let (summary, _) = run(&["--resume"], "", 0);
    let known = (&summary["num_verified"], summary.get("refuted"), summary.get("untested"));
    assert_eq!(known, (&4.into(), None, None), "{summary}");
}

#[test]
fn a_session_that_could_try_nothing_says_so() {
    let home = Home::new();
    std::fs::write(home.path("space.yaml"), "parameters:\n  llvm: [22]\n  passes: [a, b]\n").unwrap();
    let arguments = ["-rdb", "5.json", "--results-dir", "results", "--quiet", "--space", "space.yaml"];
    let run = |missing: &str, resume: &[&str]| {
        let output = home.command(&[&arguments, resume].concat()).env("STUB_MISSING", missing).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // The baseline was measured before the builder went missing.
    assert_eq!(run("", &["--baseline-only"]).0, Some(0));
    let (status, stderr) = run("missing", &["--resume"]);
    assert_eq!(status, Some(exit::INTERNAL), "{stderr}");
    assert!(stderr.contains("2 of 2 configurations could not be tried: it is missing; install it"), "{stderr}");
    assert_eq!(home.json("results/summary.json")["status"], "internal_error");
}

/// A resumed session keeps its LLVM version even if others were installed since, and refuses another release of it.
#[test]
fn a_session_keeps_its_compilers() {
    let home = Home::new();
    std::fs::write(home.path("space.yaml"), "parameters:\n  llvm: [22]\n  passes: [a, b, c]\n").unwrap();
    let run = |folder: &str, further: &[&str], compilers: &str| {
        let arguments =
            ["-rdb", "5.json", "--quiet", "--space", "space.yaml", "--cache", "cache.jsonl", "--results-dir"];
        let arguments = [&arguments[..], &[folder], further].concat();
        let output = home.command(&arguments).env("STUB_COMPILERS", compilers).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let llvm = || home.json("results/config.json")["measured"]["llvm"].clone();
    let first = run("results", &["--trials", "2"], "22.1.8");
    assert_eq!((first.0, llvm()), (Some(0), "22.1.8".into()), "{}", first.1);
    let second = run("results", &["--resume", "--trials", "3"], "19.1.7 22.1.8");
    assert_eq!((second.0, llvm()), (Some(0), "22.1.8".into()), "{}", second.1);
    let another = "LLVM 22.1.8, which cannot be compared with times of LLVM 22.1.3";
    assert_eq!(run("third", &["--trials", "2"], "19.1.7 22.1.8").0, Some(0));
    let third = run("third", &["--resume"], "19.1.7 22.1.3");
    assert!(third.0 == Some(exit::BAD_USAGE) && third.1.contains(another), "{}", third.1);

    let cached = |folder: &str| home.json(&format!("{folder}/summary.json"))["num_cached"].clone();
    assert_eq!(run("other", &[], "22.1.3").0, Some(0));
    assert_eq!(run("same", &[], "22.1.8").0, Some(0));
    assert_eq!((cached("other"), cached("same")), (0.into(), 3.into()));
}
