//! Tests of recordings as a regression suite.

use std::path::Path;

use mneme_e2e::apps::app;
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::Recording;
use mneme_system::exit;
use serde_json::{Value, json};

/// Runs `mneme test` on a recording. The time threshold is large, because times on a busy machine vary more than any
/// kernel's.
fn test(folder: &Path) -> Run {
    let test = run(program("mneme")).arg("test").arg(folder).args(["--device", TestDevice::under_test().name()]);
    test.args(["--threshold", "900"])
}

fn verdicts(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let results = document["results"].as_array().unwrap().iter();
    results.map(|result| (text(&result["kernel"]), text(&result["verdict"]))).collect()
}

#[test]
fn results_are_compared_with_those_of_before() {
    let recording = Recording::of(app("variables"), &[]);
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let passes = ["--passes", "default<O1>", "--passes", "default<O3>"];
    let first = test(recording.folder()).args(passes).arg("--save").arg(path("first.json")).succeed();
    assert!(first.stdout.contains("4 verified on "), "{first}");
    let again = test(recording.folder()).args(passes).arg("--against").arg(path("first.json"));
    let again = again.args(["--json", "-"]).outcome();
    let found = verdicts(&again.json());
    // On a busy machine, even these times may be too noisy.
    let is_noisy = found.iter().any(|(_, verdict)| verdict == "inconclusive");
    assert_eq!(again.status, if is_noisy { exit::UNPROVEN } else { 0 }, "{again}");
    assert!(found.len() == 4 && found.iter().all(|(_, it)| it == "same" || it == "inconclusive"), "{again}");

    // In the earlier results, one launch took no time, one took long, one differed and one was wrong.
    let mut before: Value = serde_json::from_slice(&std::fs::read(path("first.json")).unwrap()).unwrap();
    before["results"][0]["times"] = json!(vec![1; 11]);
    before["results"][1]["times"] = json!(vec![1_000_000_000_000_u64; 11]);
    before["results"][2]["instance"] = json!("7");
    before["results"][3]["status"] = json!("failed_verification");
    std::fs::write(path("before.json"), before.to_string()).unwrap();
    let compare = |threshold: &str| {
        let compare = run(program("mneme")).arg("compare").args([path("before.json"), path("first.json")]);
        let compare = compare.args(["--threshold", threshold, "--json", "-"]);
        compare.arg("--junit").arg(path("report.xml")).arg("--markdown").arg(path("summary.md"))
    };
    let compared = compare("5").exit_with(1);
    let found: Vec<_> = verdicts(&compared.json()).into_iter().map(|(_, verdict)| verdict).collect();
    assert_eq!(found, ["slower", "faster", "verified", "verified", "missing"], "{compared}");
    compared.complains("it was tested before, but is not any more");
    let report = std::fs::read_to_string(path("report.xml")).unwrap();
    assert!(report.contains(r#"tests="5" skipped="0" failures="2""#), "{report}");
    compare("5").exit_with(1);
    let summary = std::fs::read_to_string(path("summary.md")).unwrap();
    assert_eq!(summary.matches("| kernel |").count(), 2, "it is appended: {summary}");
}

#[test]
fn what_is_broken_or_cannot_be_read_is_told() {
    let recording = Recording::of(app("saxpy"), &[]);
    let crash = "module(trigger-crash-module)";
    let broken = test(recording.folder()).args(["--passes", "default<O3>", "--passes", crash]).exit_with(1);
    assert!(broken.stdout.contains("1 verified, 1 BROKEN on "), "{broken}");
    let mistyped = test(recording.folder()).args(["--passes", "defualt<O2>"]).exit_with(exit::BAD_USAGE);
    mistyped.complains("did you mean 'default<O2>'?");
    let (database, kernel) = recording.kernels().remove(0);
    let epilogue = recording.folder().join(&kernel.instances.values().next().unwrap().epilogue);
    let mut bytes = std::fs::read(&epilogue).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&epilogue, bytes).unwrap();
    let damaged = test(&database).exit_with(exit::INTERNAL);
    assert!(damaged.stdout.contains("UNTESTED") && damaged.stdout.contains("its checksum does not match"), "{damaged}");
    let twice = test(recording.folder()).arg(&database).exit_with(exit::BAD_USAGE);
    twice.complains("have the same launch");
    let empty = tempfile::tempdir().unwrap();
    test(empty.path()).exit_with(exit::BAD_RECORDING);
    let nothing = test(recording.folder()).arg("--against").arg(empty.path().join("no.json"));
    nothing.exit_with(exit::NO_INPUT).complains("no.json cannot be read");
}

#[test]
fn results_of_files_that_cannot_be_written_are_shown() {
    let recording = Recording::of(app("saxpy"), &[]);
    let scratch = tempfile::tempdir().unwrap();
    let none = scratch.path().join("none/file");
    // If the folder of an output file is missing, no replay runs.
    for option in ["--save", "--json", "--junit", "--markdown"] {
        let refused = test(recording.folder()).arg(option).arg(&none).exit_with(exit::INTERNAL);
        refused.complains("none/file: No such file or directory");
        assert!(refused.stdout.is_empty(), "{refused}");
    }
    // A full disk is noticed only on writing. The other files are still written.
    let (saved, summary) = (scratch.path().join("saved.json"), scratch.path().join("summary.md"));
    let full = |test: Run| test.args(["--json", "/dev/full"]).arg("--save").arg(&saved).arg("--markdown").arg(&summary);
    let verified = full(test(recording.folder())).exit_with(exit::INTERNAL);
    verified.complains("/dev/full: No space left on device");
    assert!(verified.stdout.contains("1 verified on "), "{verified}");
    assert!(saved.is_file() && summary.is_file());
    // A failed verdict keeps its status anyway.
    let broken = full(test(recording.folder()).args(["--passes", "module(trigger-crash-module)"])).exit_with(1);
    broken.complains("/dev/full: No space left on device");
    assert!(broken.stdout.contains("1 BROKEN on "), "{broken}");
}

#[test]
fn times_of_two_clocks_are_not_compared() {
    let recording = Recording::of(app("saxpy"), &[]);
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    test(recording.folder()).arg("--save").arg(path("now.json")).succeed();
    let now: Value = serde_json::from_slice(&std::fs::read(path("now.json")).unwrap()).unwrap();
    let timer = now["results"][0]["timer"].as_str().unwrap().to_owned();
    let before = |change: &dyn Fn(&mut Value)| {
        let mut before = now.clone();
        change(&mut before);
        std::fs::write(path("before.json"), before.to_string()).unwrap();
        let compare = run(program("mneme")).arg("compare").args([path("before.json"), path("now.json")]);
        compare.args(["--threshold", "1000"]).arg("--junit").arg(path("report.xml"))
    };
    let other = before(&|file| {
        file["results"][0]["timer"] = json!("sundial");
        file["results"][0]["times"] = json!(vec![1; 11]);
    });
    let other = other.succeed();
    assert!(other.stdout.contains(&format!("timed by sundial before, but by {timer} now")), "{other}");
    assert!(other.stdout.contains("1 not comparable on "), "{other}");
    let report = std::fs::read_to_string(path("report.xml")).unwrap();
    assert!(report.contains(r#"tests="1" skipped="1" failures="0""#), "{report}");
    // A file from before results contained the timer.
    let old = before(&|file| drop(file["results"][0].as_object_mut().unwrap().remove("timer"))).succeed();
    assert!(old.stdout.contains("1 same on "), "{old}");
    let twice = before(&|file| {
        let result = file["results"][0].clone();
        file["results"].as_array_mut().unwrap().push(result);
    });
    twice.exit_with(exit::BAD_USAGE).complains("has two results of saxpy");
}

#[test]
fn pipelines_are_no_options_of_the_replay() {
    let recording = Recording::of(app("saxpy"), &[]);
    for option in ["--check", "--bogus", "-"] {
        let refused = test(recording.folder()).arg(format!("--passes={option}")).exit_with(exit::BAD_USAGE);
        refused.complains("a pipeline must not begin with -");
    }
    let twice = test(recording.folder()).args(["--passes", "original", "--passes", "original"]);
    twice.exit_with(exit::BAD_USAGE).complains("--passes names 'original' twice");
    // They are not commands either.
    test(recording.folder()).args(["--passes", "sweep"]).exit_with(exit::BAD_USAGE).complains("the pipeline 'sweep'");
}

const ACTION: &str = include_str!("../../../examples/regression/action.yml");
const GITLAB: &str = include_str!("../../../examples/regression/gitlab.yml");

/// The script of a template without its indentation: the lines after the first one that begins this way.
fn script(template: &str, begin: &str) -> String {
    let (_, behind) = template.split_once(begin).unwrap_or_else(|| panic!("no {begin} in {template}"));
    behind.lines().map(str::trim).take_while(|line| !line.ends_with(':')).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_templates_for_github_and_gitlab_run() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    std::os::unix::fs::symlink(recording.folder(), path("recordings")).unwrap();
    test(recording.folder()).arg("--save").arg(path("results.json")).succeed();
    // Makes the earlier times longer than any time that this machine can take now.
    let mut before: Value = serde_json::from_slice(&std::fs::read(path("results.json")).unwrap()).unwrap();
    before["results"][0]["times"] = json!(vec![1_000_000_000_000_u64; 11]);
    std::fs::write(path("results.json"), before.to_string()).unwrap();
    let programs = program("mneme").parent().unwrap().display().to_string();
    let search = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let run_it = |script: String| run("bash").args(["-euc", &script]).folder(scratch.path()).env("PATH", &search);
    let written = || ["now.json", "report.xml"].map(|name| std::fs::remove_file(path(name)).is_ok());

    let action = script(ACTION, "run: |");
    let mut run = run_it(action).env("GITHUB_STEP_SUMMARY", path("summary.md"));
    let inputs = ["recordings", "against", "save", "junit", "options"];
    for input in inputs {
        let (_, behind) = ACTION.split_once(&format!("  {input}:\n")).unwrap_or_else(|| panic!("{input}"));
        let default = behind.split_once("default:").unwrap().1.lines().next().unwrap().trim().trim_matches('\'');
        run = run.env(&input.to_uppercase(), default);
    }
    run.succeed();
    assert!(std::fs::read_to_string(path("summary.md")).unwrap().contains("faster") && written() == [true; 2]);

    run_it(script(GITLAB, "script:\n").replace("- mneme", "mneme")).succeed();
    assert_eq!(written(), [true; 2]);
}
