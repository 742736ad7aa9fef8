//! Tests of `mneme apply --learn` and `mneme learn`: time, record, tune and use kernels in steps.

use std::fs;
use std::path::{Path, PathBuf};

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::recording::unrecorded;
use mneme_system::exit;
use serde_json::{Value, json};
use tempfile::TempDir;

const QUICK: [&str; 10] =
    ["--space-preset", "launch", "--trials", "2", "--iterations", "1", "--warmup", "0", "--seed", "1"];

/// An application, and the folder of what was learnt from it.
struct Learnt {
    folder: TempDir,
    application: &'static str,
    arguments: &'static [&'static str],
}

impl Learnt {
    fn new(application: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), application, arguments }
    }

    /// An application that was timed and recorded.
    fn recorded(application: &'static str, arguments: &'static [&'static str]) -> Self {
        let learnt = Self::new(application, arguments);
        learnt.apply().complains("the kernels are timed in this run");
        learnt.apply().complains("to be recorded in this run");
        learnt
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder for `--learn`.
    fn path(&self) -> PathBuf {
        self.at("learnt")
    }

    fn start(&self, options: &[&str], arguments: &[&str]) -> Run {
        let run = run(program("mneme")).args(["apply", "--device", TestDevice::under_test().name(), "--learn"]);
        let run = run.arg(self.path()).args(options).env("MNEME_CACHE_DIR", self.at("cache"));
        let run = run.env("PROTEUS_TUNED_KERNELS", "").arg("--").arg(self.executable());
        run.args(arguments)
    }

    fn executable(&self) -> PathBuf {
        executable(app(self.application), Cudart::under_test())
    }

    /// Starts without options. The application behaves as usual.
    #[track_caller]
    fn apply(&self) -> ProgramOutput {
        let plain = unrecorded(app(self.application)).args(self.arguments).succeed();
        let outcome = self.start(&[], self.arguments).succeed();
        assert_eq!(outcome.stdout, plain.stdout, "{outcome}");
        outcome
    }

    fn learn(&self) -> Run {
        run(program("mneme")).arg("learn").arg(self.path())
    }

    /// The results folders.
    fn sessions(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path().join("results")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn an_application_is_learnt_in_steps() {
    let learnt = Learnt::new("vecadd", &["1", "int"]);
    learnt.learn().exit_with(exit::NO_INPUT).complains("is empty; run mneme apply --learn");
    learnt.apply().complains("the kernels are timed in this run, and recorded in the next one");
    assert!(learnt.path().join("profile.json").is_file());
    learnt.learn().exit_with(exit::BAD_USAGE).complains("has only the times of kernels");
    learnt.apply().complains("1 kernel to be recorded in this run");
    learnt.apply().complains("1 kernel is not tuned yet; run mneme learn");

    let outcome = learnt.learn().arg("--").args(QUICK).succeed();
    outcome.complains("1 kernel tuned, 0 before");
    let sessions = learnt.sessions();
    assert!(sessions.len() == 1 && sessions[0].join("best.json").is_file(), "{outcome}");
    learnt.learn().succeed().complains("0 kernels tuned, 1 before");
    learnt.learn().args(["--", "--space-prest", "quick"]).exit_with(exit::BAD_USAGE).complains("--space-preset");
    // The times here decide by chance whether a faster configuration is found.
    let outcome = learnt.apply();
    assert!(
        outcome.stderr.contains("vecadd<int>") || outcome.stderr.contains("no faster configuration was found"),
        "{outcome}"
    );

    // Only confirmed winners are used.
    let session = &sessions[0];
    let [mut best, mut summary] = ["best.json", "summary.json"].map(|name| document(&session.join(name)));
    if best["trial"].is_null() {
        best["config"] = document(&session.join("baseline.json"))["config"].clone();
    }
    (best["config"]["passes"], best["config"]["original"]) = (json!("default<O2>"), json!(false));
    (best["trial"], best["speedup"]) = (json!(0), json!(0.9));
    fs::write(session.join("best.json"), best.to_string()).unwrap();
    for (is_confirmed, status) in [(true, "completed"), (false, "completed"), (true, "interrupted")] {
        (summary["confirmation"]["significant"], summary["status"]) = (json!(is_confirmed), json!(status));
        fs::write(session.join("summary.json"), summary.to_string()).unwrap();
        let outcome = learnt.apply();
        let is_used = is_confirmed && status == "completed";
        assert_eq!(outcome.stderr.contains("REPLACED"), is_used, "{outcome}");
        assert_eq!(outcome.stderr.contains("is not tuned yet"), status == "interrupted", "{outcome}");
    }
}

/// No two launches of a simulation's time step are alike, so the tuned code must work for all of them.
#[test]
fn arguments_that_vary_from_launch_to_launch_are_not_folded() {
    let learnt = Learnt::recorded("steps", &["40"]);
    let options =
        ["--space-preset", "compiler", "--passes", "default<O2>", "--specialize-space", "on", "--trials", "1"];
    let once = ["--iterations", "1", "--warmup", "0", "--seed", "1", "--finalists", "0"];
    learnt.learn().arg("--").args(options).args(once).succeed();
    let session = learnt.sessions().pop().unwrap();
    let trials = fs::read_to_string(session.join("trials.jsonl")).unwrap();
    let trial: Value = serde_json::from_str(trials.lines().last().unwrap()).unwrap();
    // It selects the values (without folding their address) and their number, but not the step.
    assert_eq!(trial["config"]["specialize"], json!([0, 1]), "{trial}");
    let mut best = document(&session.join("best.json"));
    for name in ["config", "instances", "trial"] {
        best[name] = trial[name].clone();
    }
    best["speedup"] = json!(1.1);
    fs::write(session.join("best.json"), best.to_string()).unwrap();
    let json = learnt.at("report.json");
    let outcome = learnt.start(&["--json", json.to_str().unwrap()], &["40"]).succeed();
    let report = document(&json);
    let kernels = report["kernels"].as_array().unwrap();
    let kernel = kernels.iter().find(|kernel| kernel["launches"] == 40).unwrap_or_else(|| panic!("{outcome}{report}"));
    assert_eq!(kernel["applied"]["replaced"], 40, "{outcome}");
    // Launches that differ only in a structure count as alike, so no structure is folded.
    let structures = Learnt::recorded("bigstruct", &[]);
    structures.learn().arg("--").args(options).args(once).succeed();
    for session in structures.sessions() {
        let trials = fs::read_to_string(session.join("trials.jsonl")).unwrap();
        let trial: Value = serde_json::from_str(trials.lines().last().unwrap()).unwrap();
        assert_eq!(trial["config"]["specialize"], json!([1]), "the pointer alone: {trial}");
    }
    // The user's choice has priority.
    let other = Learnt::recorded("steps", &["40"]);
    other.learn().arg("--").args(options).args(once).args(["--specialize-arguments", "all"]).succeed();
    let trials = fs::read_to_string(other.sessions().pop().unwrap().join("trials.jsonl")).unwrap();
    let trial: Value = serde_json::from_str(trials.lines().last().unwrap()).unwrap();
    assert_eq!(trial["config"]["specialize"], true, "{trial}");
    let file = Learnt::recorded("steps", &["40"]);
    fs::write(file.path().join("tune.yml"), "specialize-arguments: all # of two launches\n").unwrap();
    file.learn().arg("--").args(options).args(once).succeed();
    let settings = document(&file.sessions().pop().unwrap().join("config.json"));
    assert_eq!(settings["specialize_arguments"], "all", "{settings}");
}

#[test]
fn a_kernel_for_which_nothing_is_found_is_named_and_no_failure() {
    let learnt = Learnt::recorded("vecadd", &["1", "int"]);
    let failed = learnt.learn().args(["--", "--fixed-passes", "no-such-pass"]).exit_with(exit::BAD_USAGE);
    failed.complains("vecadd<int>(int*, int const*, unsigned long) was not tuned (exit status: 64)");
    failed.complains("0 kernels tuned, 0 before; 1 left");
    let outcome =
        learnt.learn().arg("--").args(QUICK).args(["--passes", "function(mneme-fault<unselectable>)"]).succeed();
    outcome.complains("keeps its own code: none of 2 configurations verified (2 could not be built)");
    outcome.complains("1 kernel tuned, 0 before; no faster configuration was found");
    learnt.learn().succeed().complains("0 kernels tuned, 1 before; no faster configuration was found");
    let outcome = learnt.apply();
    outcome.complains("no faster configuration was found for the kernels in");
    assert!(!outcome.stderr.contains("replaced"), "the recorder was in it: {outcome}");
    // Timing needs the recorder.
    let timed = learnt.start(&["--times"], &["1", "int"]).succeed();
    timed.complains("no launch was replaced");
}
