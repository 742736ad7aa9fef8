//! Tests of `mneme apply --learn` and `mneme learn`: time, record, tune and use kernels in steps.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mneme_core::exit;
use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, have_idle_device, program};
use mneme_e2e::recording::unrecorded;
use serde_json::{Value, json};
use tempfile::TempDir;

const QUICK: [&str; 10] =
    ["--space-preset", "launch", "--trials", "2", "--iterations", "1", "--warmup", "0", "--seed", "1"];

/// An application that is learnt in a folder.
struct Learnt {
    folder: TempDir,
    application: &'static str,
    arguments: &'static [&'static str],
}

impl Learnt {
    fn new(application: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), application, arguments }
    }

    /// One that is timed and recorded.
    fn recorded(application: &'static str, arguments: &'static [&'static str]) -> Self {
        let learnt = Self::new(application, arguments);
        learnt.apply().complains("the kernels are timed in this run");
        learnt.apply().complains("to be recorded in this run");
        learnt
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder that is named to `--learn`.
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

    /// A start without options, in which the application does what it always does.
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

    /// The folders of results.
    fn sessions(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path().join("results")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Whether so many sessions have this file, and something in it.
    fn has(&self, count: usize, name: &str) -> bool {
        let is_there = |session: &PathBuf| session.join(name).metadata().is_ok_and(|file| file.len() > 0);
        self.sessions().iter().filter(|session| is_there(session)).count() >= count
    }

    /// Options for the tuner beside the application.
    fn tune_with(&self, trials: u64) {
        // Of launches alone there are few.
        let preset = if trials > 10 { "full" } else { "launch" };
        let options = json!({"space_preset": preset, "trials": trials, "iterations": 1, "warmup": 0, "seed": 1,
                             "finalists": 1, "confirm_time": 1});
        fs::write(self.path().join("tune.json"), options.to_string()).unwrap();
    }

    /// A start of `paced` that tunes in the background, and is stopped after `meanwhile`.
    #[track_caller]
    fn in_background(&self, meanwhile: impl FnOnce()) -> ProgramOutput {
        let stop = self.at("stop");
        let _ = fs::remove_file(&stop);
        let arguments = ["600000", "1000", stop.to_str().unwrap()];
        let outcome = self.start(&["--background"], &arguments).outcome_with("to be tuned beside the program", || {
            let _end = EndOfProgram(&stop);
            meanwhile();
        });
        assert_eq!((outcome.status, outcome.stdout.as_str()), (0, "paced: ok (n=1000)\n"), "{outcome}");
        until("its processes are gone", || self.processes().is_empty());
        outcome
    }

    /// The processes that work on the folder, by their command lines.
    fn processes(&self) -> Vec<(i32, String)> {
        let path = self.path().display().to_string();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let found = entries.filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?.replace('\0', " ");
            Some((number, line))
        });
        found.filter(|(_, line)| line.contains(&path) && !line.contains(" apply ")).collect()
    }
}

/// Ends a run of `paced`, also where a test fails.
struct EndOfProgram<'a>(&'a Path);

impl Drop for EndOfProgram<'_> {
    fn drop(&mut self) {
        fs::write(self.0, "").unwrap();
    }
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(100), "not seen: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn an_application_is_learnt_in_steps() {
    let learnt = Learnt::new("vecadd", &["1", "int"]);
    learnt.learn().exit_with(exit::BAD_USAGE).complains("has nothing yet; run mneme apply --learn");
    learnt.apply().complains("the kernels are timed in this run, and recorded in the next one");
    assert!(learnt.path().join("profile.json").is_file());
    learnt.learn().exit_with(exit::BAD_USAGE).complains("has the times of kernels alone");
    learnt.apply().complains("1 kernel to be recorded in this run");
    learnt.apply().complains("1 kernel is not tuned yet; run mneme learn");

    let outcome = learnt.learn().arg("--").args(QUICK).succeed();
    outcome.complains("1 kernel tuned, 0 before");
    let sessions = learnt.sessions();
    assert!(sessions.len() == 1 && sessions[0].join("best.json").is_file(), "{outcome}");
    learnt.learn().succeed().complains("0 kernels tuned, 1 before");
    // Whether anything was found to be faster is a matter of chance here.
    let outcome = learnt.apply();
    assert!(outcome.stderr.contains("vecadd<int>") || outcome.stderr.contains("nothing faster was found"), "{outcome}");

    // What was confirmed is used, and nothing else is.
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

/// Of a step of a simulation no two launches are alike: its code is to be for all of them.
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
    // The values, of which the address is not folded, and their number; and not the step.
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
    // Launches that differ in a structure alone count as alike, so that none is folded.
    let structures = Learnt::recorded("bigstruct", &[]);
    structures.learn().arg("--").args(options).args(once).succeed();
    for session in structures.sessions() {
        let trials = fs::read_to_string(session.join("trials.jsonl")).unwrap();
        let trial: Value = serde_json::from_str(trials.lines().last().unwrap()).unwrap();
        assert_eq!(trial["config"]["specialize"], json!([1]), "the pointer alone: {trial}");
    }
    // What the user says goes before.
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
    let failed = learnt.learn().args(["--", "--timeout", "soon"]).exit_with(exit::BAD_USAGE);
    failed.complains("vecadd<int>(int*, int const*, unsigned long) was not tuned (exit status: 64)");
    failed.complains("0 kernels tuned, 0 before; 1 left");
    let outcome = learnt.learn().arg("--").args(QUICK).args(["--passes", "no-such-pass"]).succeed();
    outcome.complains("keeps its own code: none of 2 configurations verified (2 could not be built)");
    outcome.complains("1 kernel tuned, 0 before; nothing faster was found");
    learnt.learn().succeed().complains("0 kernels tuned, 1 before; nothing faster was found");
    let outcome = learnt.apply();
    outcome.complains("nothing faster was found for what was learnt");
    assert!(!outcome.stderr.contains("replaced"), "the recorder was in it: {outcome}");
    // One that asks for times has the recorder.
    let timed = learnt.start(&["--times"], &["1", "int"]).succeed();
    timed.complains("nothing is replaced");
}

/// Launches of 1 ms each that take longer than it takes until tuning begins: on GPUs an idle one is looked for after
/// five seconds.
fn outlasting() -> &'static str {
    match TestDevice::under_test() {
        TestDevice::Cpu => "3000",
        TestDevice::Cuda => "12000",
    }
}

#[test]
fn what_was_recorded_is_tuned_beside_the_program() {
    if !have_idle_device("what_was_recorded_is_tuned_beside_the_program") {
        return;
    }
    let learnt = Learnt::recorded("paced", &["40", "100"]);
    learnt.tune_with(2);
    let kernels = fs::read_dir(learnt.path().join("recording")).unwrap();
    let is_kernel = |path: PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let kernels = kernels.filter(|entry| is_kernel(entry.as_ref().unwrap().path())).count();
    let outcome = learnt.in_background(|| {
        until("the sessions are over", || learnt.has(kernels, "summary.json"));
        until("mneme learn has ended", || learnt.processes().is_empty());
    });
    let tuned = format!("{kernels} kernel{} tuned, 0 before", if kernels == 1 { "" } else { "s" });
    outcome.complains(&format!("in the background: {tuned}"));
    learnt.learn().succeed().complains(&format!("0 kernels tuned, {kernels} before"));
    let outcome = learnt.start(&["--background"], &["40", "100"]).succeed();
    assert!(!outcome.stderr.contains("background") && !outcome.stderr.contains("beside"), "{outcome}");
}

#[test]
fn tuning_ends_with_the_program_and_goes_on_later() {
    if !have_idle_device("tuning_ends_with_the_program_and_goes_on_later") {
        return;
    }
    let learnt = Learnt::recorded("paced", &["40", "100"]);
    learnt.tune_with(1_000_000);
    let outcome = learnt.in_background(|| until("a trial", || learnt.has(1, "trials.jsonl")));
    outcome.complains("tuning in the background has ended with the program");
    let session = learnt.sessions().pop().unwrap();
    assert_eq!(document(&session.join("summary.json"))["status"], "interrupted");
    let outcome = learnt.start(&[], &["40", "100"]).succeed();
    outcome.complains("not tuned yet");
    learnt.learn().args(["--", "--trials", "2"]).succeed();
    assert!(document(&session.join("summary.json"))["num_resumed"].as_u64() > Some(0));
}

#[test]
fn a_killed_tuner_and_a_second_program_disturb_nothing() {
    if !have_idle_device("a_killed_tuner_and_a_second_program_disturb_nothing") {
        return;
    }
    let learnt = Learnt::recorded("paced", &["40", "100"]);
    learnt.tune_with(1_000_000);
    let outcome = learnt.in_background(|| {
        until("a trial", || learnt.has(1, "trials.jsonl"));
        let second = learnt.start(&["--background"], &[outlasting(), "1000"]).succeed();
        assert_eq!(second.stdout, "paced: ok (n=1000)\n", "{second}");
        second.complains("another process is tuning");
        learnt.learn().exit_with(exit::IN_USE).complains("another process is tuning");
        let learner = learnt.processes().into_iter().find(|(_, line)| line.contains(" learn ")).expect("it tunes").0;
        let nice = fs::read_to_string(format!("/proc/{learner}/stat")).unwrap();
        let nice = nice.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().to_owned();
        assert_eq!(nice, "19", "its priority");
        // SAFETY: a process that our own has started.
        unsafe { libc::kill(learner, libc::SIGKILL) };
        until("nothing is left of it", || learnt.processes().is_empty());
    });
    outcome.complains("tuning in the background was killed (signal 9), and the next start goes on");
    // A killed program takes its tuner along.
    let stop = learnt.at("stop");
    fs::remove_file(&stop).unwrap();
    let run = learnt.start(&["--background"], &["600000", "1000", stop.to_str().unwrap()]);
    let outcome = run.outcome_with("to be tuned beside the program", || {
        until("it tunes", || learnt.processes().iter().any(|(_, line)| line.contains(" learn ")));
        let path = learnt.path().display().to_string();
        let starter = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?.replace('\0', " ");
            let is_it = line.contains(" apply ") && line.contains(&path) && !line.starts_with("timeout");
            entry.file_name().to_str()?.parse().ok().filter(|_| is_it)
        });
        // SAFETY: as above.
        unsafe { libc::kill(starter.expect("mneme apply runs"), libc::SIGKILL) };
    });
    assert_eq!(outcome.status, 137, "{outcome}");
    until("nothing is left of it", || learnt.processes().is_empty());
}

#[test]
fn a_full_disk_ends_the_tuning_and_not_the_application() {
    let learnt = Learnt::recorded("paced", &["40", "100"]);
    learnt.tune_with(1_000_000);
    let disk = learnt.at("disk");
    fs::create_dir(&disk).unwrap();
    let script = r#"mount -t tmpfs -o size=2m tmpfs "$DISK" || exit 77
        cp -r "$LEARNT" "$DISK/learnt" && dd if=/dev/zero of="$DISK/full" bs=4096 2>/dev/null
        exec "$@" --learn "$DISK/learnt" --background -- "$APPLICATION" "$LAUNCHES" 1000"#;
    let run = run("unshare").args(["-rm", "sh", "-c", script, "sh"]).arg(program("mneme"));
    let run = run.args(["apply", "--device", TestDevice::under_test().name()]).env("LEARNT", learnt.path());
    let run = run.env("LAUNCHES", outlasting());
    let run = run.env("DISK", &disk).env("APPLICATION", learnt.executable()).env("PROTEUS_TUNED_KERNELS", "");
    let outcome = run.env("MNEME_CACHE_DIR", learnt.at("cache")).outcome();
    if outcome.status == 77 || outcome.stderr.contains("unshare: ") || outcome.stderr.contains("unshare failed") {
        println!("skipped: a_full_disk_ends_the_tuning cannot mount a file system here: {}", outcome.stderr);
        return;
    }
    assert_eq!((outcome.status, outcome.stdout.as_str()), (0, "paced: ok (n=1000)\n"), "{outcome}");
    let said = |line: &&str| line.contains("background");
    assert_eq!(outcome.stderr.lines().filter(said).count(), 1, "{outcome}");
}
