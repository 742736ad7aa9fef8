//! The command line of `mneme-tune`, with a stub as the server.

use std::process::{Command, Stdio};

use mneme_system::exit;
use serde_json::{Value, json};

use crate::home::Home;

#[test]
fn the_output_is_the_tutorials() {
    let home = Home::new();
    let arguments = [
        "-rid", "1", "--space-preset", "launch", "--launch-dim", "x", "--launch-safety", "aggressive", "--passes",
        "default<O1>",
    ];
    let more = [
        "default<O3>", "--fixed-codegen-opt", "3", "--sampler", "grid", "--iterations", "2", "--warmup", "1",
        "--results-dir", "here",
    ];
    let output = home.tune(&[&arguments[..], &more].concat(), 0);
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("Baseline configuration: grid 6x1x1, block 4x1x1"), "{lines:?}");
    let at = |start: &str| {
        lines.iter().position(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no line '{start}' in {output}"))
    };
    let baseline = at("Baseline mean exec_time = 997 ns (samples = 996 ns, 998 ns");
    assert_eq!(at("[0] passes=default<O1> block.x=1 mean=1.0 µs speedup=0.997"), baseline + 1);
    assert_eq!(at("[1] passes=default<O3> block.x=1 mean=1.0 µs speedup=0.997"), baseline + 2);
    assert_eq!(at("Total tuning time: "), lines.len() - 2);
    assert!(
        lines.last().unwrap().starts_with("BEST: passes=default<O1> block.x=24 mean=977 ns speedup=1.02"),
        "{output}"
    );
    let config: Value = serde_json::from_str(&std::fs::read_to_string(home.path("here/config.json")).unwrap()).unwrap();
    assert_eq!(
        (&config["launch_safety"], &config["metric"], &config["iterations"]),
        (&json!("aggressive"), &json!("mean"), &json!(2))
    );
    // A second session keeps the first one's results.
    let first = home.trials("here");
    let (_, stderr) = home.run(&["--results-dir", "here", "--space-preset", "compiler"], 0);
    assert!(stderr.contains("to here.1"), "{stderr}");
    assert_eq!(home.trials("here.1"), first);
    assert!(
        home.tune(&["--space-preset", "quick", "--metric", "min", "--quiet", "--finalists", "0"], 0)
            .contains("BEST: passes=default<O3> block.x=4 ")
    );
    assert_eq!(std::fs::read_dir(home.path("mneme-tune-results")).unwrap().count(), 1, "the default is a new folder");
}

#[test]
fn failures_are_short_lines_and_counted() {
    let home = Home::new();
    let (stdout, stderr) = home.run(
        &[
            "--passes", "right", "unknown", "--space-preset", "compiler", "--fixed-codegen-opt", "3", "--results-dir",
            "here",
        ],
        0,
    );
    assert!(
        stdout
            .lines()
            .any(|line| line.starts_with("[1] passes=unknown ") && line.ends_with(" FAILED error=unknown pass name")),
        "{stdout}"
    );
    assert!(stderr.lines().any(|line| line == "1 of 2 configurations verified"), "{stderr}");
    let log = std::fs::read_to_string(home.path("here/logs/tune.log")).unwrap();
    let failure = log.lines().find(|line| line.contains("FAILED")).unwrap();
    let (time, text) = failure.split_once(' ').unwrap();
    assert!(
        time.parse::<jiff::Timestamp>().is_ok() && text.ends_with("opt --print-passes lists those that there are"),
        "{failure}"
    );
}

#[test]
fn a_search_that_finds_nothing_faster_says_so() {
    let home = Home::new();
    // This preset has only the recorded block.
    let (stdout, _) = home.run(&["--space-preset", "compiler", "--finalists", "0", "--results-dir", "same"], 0);
    let last = stdout.lines().last().unwrap();
    assert!(last.starts_with("BEST: ") && last.ends_with("speedup=1.00 unconfirmed"), "{stdout}");
    assert_eq!(home.json("same/best.json")["confirmed"], Value::Null);
    let (stdout, stderr) = home.run(&["--space-preset", "compiler", "--results-dir", "measured"], 0);
    assert!(stdout.lines().last().unwrap().starts_with("BEST: as recorded"), "{stdout}");
    let summary = home.json("measured/summary.json");
    assert_eq!((&summary["confirmation"]["significant"], &summary["best_speedup"]), (&json!(false), &json!(1.0)));
    assert!(stderr.contains(summary["verdict"].as_str().unwrap()), "{stderr}");
    home.run(&["--space-preset", "launch", "--results-dir", "faster"], 0);
    let (summary, best) = (home.json("faster/summary.json"), home.json("faster/best.json"));
    let finalist = &summary["confirmation"]["finalists"][0];
    assert_eq!((&summary["confirmation"]["significant"], &best["confirmed"]), (&json!(true), &finalist["speedup"]));
    assert_eq!((&best["speedup"], &best["metric"]), (&finalist["speedup"]["estimate"], &finalist["time"]));
}

#[test]
fn the_space_is_printed_without_a_server() {
    let home = Home::new();
    std::fs::remove_file(home.path("mneme-replay")).unwrap();
    let space: Value = serde_json::from_str(
        &home.tune(&["--print-space", "--space-preset", "compiler", "--codegen-opt-range", "1:3:2"], 0),
    )
    .unwrap();
    assert_eq!(space["size"], 10);
    assert_eq!(space["parameters"]["codegen_opt"], json!([1, 3]));
    assert_eq!(space["parameters"]["block_shape"].as_array().unwrap().len(), 1);
    assert_eq!((&space["baseline"]["passes"], &space["baseline"]["codegen_opt"]), (&json!("default<O3>"), &json!(3)));
    assert!(!home.path("mneme-tune-results").exists());
}

#[test]
fn output_that_cannot_be_written_is_one_sentence_and_a_complete_session() {
    let home = Home::new();
    for arguments in [&["--print-space"][..], &["--quiet", "--space-preset", "compiler", "--results-dir", "full"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mneme-tune"));
        command.arg("-rdb").arg(home.path("5.json")).args(arguments).env("MNEME_HOME", home.folder()).stdout(full);
        let output =
            command.current_dir(home.folder()).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(exit::INTERNAL), "{stderr}");
        assert!(
            stderr.lines().last().unwrap().starts_with("mneme-tune: standard output cannot be written"),
            "{stderr}"
        );
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
    assert!(home.path("full/best.json").is_file());
    // A closed standard output is not an error.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_mneme-tune"));
    let output = command
        .args(["--print-space", "-rdb"])
        .arg(home.path("5.json"))
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = output.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // A closed standard error does not end the session either.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = home.command(&["-rdb", "5.json", "--space-preset", "compiler", "--results-dir", "unheard"]);
    let status = command.stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
    assert!(status.success() && home.path("unheard/best.json").is_file(), "{status:?}");
}

#[test]
fn what_cannot_be_leaves_earlier_results_where_they_are() {
    let home = Home::new();
    home.tune(&["--space-preset", "compiler", "--results-dir", "here"], 0);
    let before = home.trials("here");
    for (arguments, status) in [
        (&["--objective", "tme"][..], exit::BAD_USAGE),
        (&["--verify-all", "7"], exit::BAD_USAGE),
        (&["--sampler", "greedy", "--trials", "1", "--start-from", "no"], exit::NO_INPUT),
    ] {
        home.run(&[&["--results-dir", "here"], arguments].concat(), status);
        assert!(home.trials("here") == before && !home.path("here.1").exists(), "{arguments:?}");
    }
}

#[test]
fn of_equal_sequences_of_passes_the_shortest_is_the_best() {
    let home = Home::new();
    std::fs::write(home.path("space.yaml"), "parameters:\n  passes: {type: pipeline, longest: 12}\n").unwrap();
    let search = ["--space", "space.yaml", "--sampler", "passes", "--trials", "30", "--seed", "1"];
    let output = home.tune(&[&search[..], &["--finalists", "0", "--results-dir", "here"]].concat(), 0);
    let length = |trial: &Value| trial["params"]["passes"].as_array().unwrap().len();
    let trials = home.trials("here");
    assert_eq!(length(&trials[0]), 12, "what a search starts from fits the space");
    let shortest = trials.iter().map(length).min().unwrap();
    assert!(shortest < 6, "{shortest}");
    assert_eq!(length(&home.json("here/best.json")), shortest);
    assert!(output.contains("[0] passes=infer-address-spaces,sroa,"), "{output}");
}

#[test]
fn statuses() {
    let home = Home::new();
    home.tune(&["--passes", "wrong", "default<O3>"], 1);
    home.tune(&["--passes", ""], exit::BAD_USAGE);
    home.tune(&["-rid", "2"], exit::BAD_USAGE);
    for arguments in [
        &["--no-such-option"][..],
        &["--iterations", "0"],
        &["--sampler", "guess"],
        &["--codegen-opt-range", "3:1"],
        &["--codegen-opt-range", "1:3", "--fixed-codegen-opt", "3"],
        &["--fixed-codegen-opt", "4"],
        &["--device", "gpu"],
    ] {
        let (_, stderr) = home.run(arguments, exit::BAD_USAGE);
        assert!(stderr.starts_with("mneme-tune: ") && stderr.lines().count() == 1, "{stderr}");
    }
    home.run(&["--space", "none.yaml", "--results-dir", "refused"], exit::NO_INPUT);
    assert!(!home.path("refused").exists(), "a session that has not begun leaves no folder");
    std::fs::write(home.path("5.json"), "nonsense").unwrap();
    home.tune(&[], exit::BAD_RECORDING);
}

#[test]
fn options_without_effect_on_a_file_of_results_are_refused_by_name() {
    let home = Home::new();
    let write = |times: Value| {
        let content = json!({"keys": ["x"], "values": [[1, 2]], "times": times});
        std::fs::write(home.path("table.json"), content.to_string()).unwrap();
    };
    let run = |more: &[&str]| {
        let output = home.command(&[&["--simulate", "table.json", "--seed", "1"], more].concat()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    write(json!({"1": 2.0, "2": 1.0}));
    assert_eq!(run(&["--trials", "2"]).0, 0);
    let (status, told) = run(&["--racing", "2", "--resume", "--results-dir", "r", "--rtol", "0.1"]);
    assert!(status == exit::BAD_USAGE && told.contains("leave out --racing, --rtol, --resume"), "{status} {told}");
    write(json!({"1": "failed", "2": null}));
    let (status, told) = run(&["--trials", "2"]);
    assert!(status == exit::BAD_USAGE && told.contains("table.json"), "{status} {told}");
}
