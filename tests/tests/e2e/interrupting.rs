//! Tests of interrupted sessions.
//!
//! No results are lost, no processes are left, and the sessions can be resumed.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mneme_e2e::apps::app;
use mneme_e2e::command::run;
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance};
use serde_json::Value;

/// Marks the processes of a session.
const MARK: &str = "MNEME_E2E_SESSION";

/// Processes, except zombies, with this session's mark in their environment.
fn processes(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let is_marked = |folder: &Path| {
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|setting| setting == wanted.as_bytes())
    };
    let folders = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    folders
        .filter(|folder| is_marked(folder))
        .map(|folder| fs::read_to_string(folder.join("stat")).unwrap_or_default())
        .collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(150), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lines(folder: &Path) -> usize {
    fs::read_to_string(folder.join("trials.jsonl")).unwrap_or_default().lines().count()
}

/// Starts a long session.
fn start(instance: &TestInstance, folder: &Path) -> Child {
    // A shell makes background processes and their descendants ignore SIGINT.
    Command::new("env")
        .arg("--default-signal")
        .arg(program("mneme-tune"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", TestDevice::under_test().name()])
        .args(["--space-preset", "full", "--sampler", "random", "--trials", "100000"])
        .args(["--iterations", "2", "--warmup", "0", "--results-dir"])
        .arg(folder)
        .env(MARK, folder)
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn two_signals_at_once_are_one() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let instance = recording.single();
    let work = tempfile::tempdir().unwrap();
    // `timeout` signals its child and then its group.
    for pause in [0, 2, 50] {
        let folder = work.path().join(pause.to_string());
        let mut session = start(&instance, &folder);
        wait_until("a trial", || lines(&folder) >= 1);
        for _ in 0..2 {
            // SAFETY: the session has not been waited for.
            assert_eq!(unsafe { libc::kill(session.id().cast_signed(), libc::SIGTERM) }, 0);
            std::thread::sleep(Duration::from_millis(pause));
        }
        wait_until("the end of the session", || session.try_wait().unwrap().is_some());
        assert_eq!(session.wait().unwrap().code(), Some(143));
        let summary: Value = serde_json::from_slice(&fs::read(folder.join("summary.json")).unwrap()).unwrap();
        assert_eq!(summary["status"], "interrupted");
        assert!(["best.json", "report.html"].iter().all(|name| folder.join(name).is_file()), "{pause} ms");
    }
}

#[test]
fn a_session_that_is_interrupted_says_what_it_found_and_goes_on() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let instance = recording.single();
    let work = tempfile::tempdir().unwrap();
    // A terminal signals its whole foreground group. A batch system usually signals only the process that it started.
    for (signal, name, group, status) in [(libc::SIGINT, "INT", true, 130), (libc::SIGTERM, "TERM", false, 143)] {
        let folder = work.path().join(name);
        let mut session = start(&instance, &folder);
        wait_until("a trial", || lines(&folder) >= 3);
        let target = if group { -session.id().cast_signed() } else { session.id().cast_signed() };
        // SAFETY: the session has not been waited for.
        assert_eq!(unsafe { libc::kill(target, signal) }, 0);
        wait_until("the end of the session", || session.try_wait().unwrap().is_some());
        let output = session.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert!(
            told.contains(&format!("interrupted by SIG{name}")) && told.contains("mneme tune --resume --results-dir"),
            "{told}"
        );
        let mark = folder.to_str().unwrap();
        wait_until("the end of all processes", || processes(mark).is_empty());

        let done = lines(&folder);
        let read =
            |name: &str| -> Value { serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap() };
        let summary = read("summary.json");
        assert_eq!(
            (&summary["status"], &summary["num_trials_completed"]),
            (&"interrupted".into(), &done.into()),
            "{summary}"
        );
        assert_eq!(read("best.json")["trial"], summary["best_trial"]);
        assert!(folder.join("report.html").is_file());

        let trials = (done + 2).to_string();
        run(program("mneme-tune"))
            .args(["--resume", "--trials", &trials, "--finalists", "0", "--results-dir"])
            .arg(&folder)
            .succeed();
        assert_eq!(lines(&folder), done + 2);
        assert_eq!(read("summary.json")["status"], "completed");
    }
}

#[test]
fn a_bisection_that_is_interrupted_says_what_it_found_and_keeps_it() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let work = tempfile::tempdir().unwrap();
    let bisection = Command::new("env")
        .arg("--default-signal")
        .arg(program("mneme-bisect"))
        .args(["-rdb".as_ref(), recording.folder().as_os_str(), "-o".as_ref(), work.path().as_os_str()])
        .args(["--device", TestDevice::under_test().name(), "--reduce", "600"])
        .arg("function(sroa),function(mneme-fault<lost-store>)")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the difference", || work.path().join("pass.diff").is_file());
    // SAFETY: the process has not been waited for.
    assert_eq!(unsafe { libc::kill(bisection.id().cast_signed(), libc::SIGINT) }, 0);
    let output = bisection.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGINT), "{said}");
    assert!(said.contains("mneme-fault") && said.contains(work.path().to_str().unwrap()), "{said}");
    assert!(work.path().join("before.ll").is_file() && !work.path().join("reproduce.sh").exists());
}
