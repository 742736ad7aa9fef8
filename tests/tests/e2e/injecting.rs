//! Tests of failing and of final system calls.
//!
//! The tests inject a fault at each call of a recorder on a recording's files, of a tuning session on its results, and
//! of a replay on its recording. The application's behaviour must stay the same, finished data must stay complete, a
//! second attempt must complete the rest, and no partial data may pass for complete.
//!
//! By default, a sample of the calls is tried. Set `MNEME_TEST_FAULTS=all` to try every call, which takes long, or set
//! it to a number to begin there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use mneme_e2e::apps::{app, executable};
use mneme_e2e::injection::{InjectedFault, Traced, trace};
use mneme_e2e::installation::{Cudart, TestDevice, library, program};
use mneme_e2e::recording::{Recording, TestInstance, copy_of, load_kernels};
use mneme_recording::integrity::check;
use mneme_system::exit;
use serde_json::{Value, json};

use crate::applying::Tuned;

/// The number of instances of the application.
const INSTANCES: usize = 2;

/// The calls to try: all, all from a number on, or a sample of `few`, which depends on the kind of fault.
fn chosen(calls: usize, few: usize, kind: usize) -> Vec<usize> {
    println!("{calls} calls");
    match std::env::var("MNEME_TEST_FAULTS").as_deref() {
        Ok("all") => (0..calls).collect(),
        Ok(first) if !first.is_empty() => {
            (first.parse().expect("MNEME_TEST_FAULTS is 'all' or a number")..calls).collect()
        }
        _ => (0..few.min(calls))
            .map(|index| ((2 * index + 1) * calls / (2 * few.min(calls)) + 7 * kind) % calls)
            .collect(),
    }
}

/// Whether the tests can run here.
fn is_possible(test: &str) -> bool {
    let is_cpu = TestDevice::under_test() == TestDevice::Cpu;
    if !is_cpu {
        mneme_fixtures::skip(format_args!("{test}, as what it is about does not depend on the device"));
    }
    is_cpu
}

/// The application with the recorder preloaded.
fn recording_into(folder: &Path) -> Command {
    let mut command = Command::new(executable(app("steps"), Cudart::under_test()));
    command.arg(INSTANCES.to_string()).env("LD_PRELOAD", library("libmneme_rec.so")).env("MNEME_DATA_DIR", folder);
    command.env("MNEME_DEVICE", "cpu").env("MNEME_CPU_THREADS", "2");
    command
}

/// The number of instances in a folder without damage.
#[track_caller]
fn whole_instances(folder: &Path, what: &str) -> usize {
    let report = check(folder).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report.problems.is_empty(), "{what}: {:#?}", report.problems);
    report.instances
}

#[track_caller]
fn replay_all(folder: &Path) {
    for (database, kernel) in load_kernels(folder) {
        for id in kernel.instances.keys() {
            TestInstance::new(&database, id).verify("default<O1>", &[]);
        }
    }
}

/// Temporary files that will never be renamed.
fn temporary_files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

fn describe(number: usize, fault: InjectedFault, traced: &Traced) -> String {
    println!("{fault:?} at call {number}, {}", traced.at.as_deref().unwrap_or("which cannot fail so"));
    format!(
        "call {number}, {}, {fault:?}: status {:?}\n{}",
        traced.at.as_deref().unwrap_or("none"),
        traced.status,
        traced.stderr
    )
}

const FAULTS: [InjectedFault; 8] = [
    InjectedFault::Signal(libc::SIGKILL),
    InjectedFault::ErrorsFrom(libc::EIO),
    InjectedFault::Error(libc::EIO),
    InjectedFault::ErrorsFrom(libc::ENOSPC),
    InjectedFault::Error(libc::ENOSPC),
    InjectedFault::Error(libc::ENOMEM),
    InjectedFault::Error(libc::EINTR),
    InjectedFault::Signal(libc::SIGTERM),
];

#[test]
fn a_recording_survives_a_fault_at_any_call() {
    if !is_possible("a_recording_survives_a_fault_at_any_call") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plain = trace(recording_into(folder.path()), folder.path(), None);
    assert_eq!((plain.status, whole_instances(folder.path(), "no fault")), (Some(0), INSTANCES), "{}", plain.stderr);
    assert!(plain.calls > 40, "{} calls on the recording's files", plain.calls);
    for (kind, fault) in FAULTS.into_iter().enumerate() {
        for number in chosen(plain.calls, if kind == 0 { 16 } else { 4 }, kind) {
            let folder = tempfile::tempdir().unwrap();
            let traced = trace(recording_into(folder.path()), folder.path(), Some((number, fault)));
            let what = describe(number, fault, &traced);
            match fault {
                InjectedFault::Signal(signal) => {
                    let died = traced.status == Some(128 + signal);
                    assert!(died || (traced.status == Some(0) && traced.stdout == plain.stdout), "{what}");
                    assert!(signal != libc::SIGKILL || died || traced.at.is_none(), "{what}");
                }
                _ => {
                    assert_eq!((traced.status, &traced.stdout), (plain.status, &plain.stdout), "{what}");
                    assert_eq!(temporary_files(folder.path()), [""; 0], "{what}");
                }
            }
            let whole = whole_instances(folder.path(), &what);
            assert!(
                fault != InjectedFault::Error(libc::EINTR) || whole == INSTANCES,
                "an interrupted call is repeated: {what}"
            );
            assert!(whole == INSTANCES || traced.at.is_some(), "{what}");
            if whole > 0 && number % 8 == 0 {
                replay_all(folder.path());
            }
            // The second attempt completes the recording.
            let again = recording_into(folder.path()).output().unwrap();
            assert_eq!(
                (again.status.code(), String::from_utf8_lossy(&again.stdout).as_ref()),
                (Some(0), plain.stdout.as_str()),
                "{what}"
            );
            assert_eq!(
                whole_instances(folder.path(), &what),
                INSTANCES,
                "{what}\n{}",
                String::from_utf8_lossy(&again.stderr)
            );
        }
    }
}

/// Candidates of the session under test, and those of its first part when the test resumes it.
const CANDIDATES: usize = 4;
const BEFORE: usize = 2;

/// A session with `candidates` candidates over `instance` in `folder`/results. Results come from `known` (a finished
/// session), or from the replayer and a cache next to the results.
fn session(instance: &TestInstance, folder: &Path, candidates: usize, known: Option<&Path>) -> Command {
    let mut command = Command::new(program("mneme-tune"));
    command.args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()]);
    command
        .args(["--device", "cpu", "--space-preset", "launch", "--launch-dim", "x", "--launch-safety", "conservative"]);
    command.args([
        "--passes",
        "default<O1>",
        "--sampler",
        "exhaustive",
        "--baseline",
        "pipeline",
        "--trials",
        &candidates.to_string(),
    ]);
    command
        .args(["--iterations", "1", "--warmup", "0", "--finalists", "0", "--results-dir"])
        .arg(folder.join("results"));
    match known {
        Some(known) => command.arg("--simulate").arg(known),
        None => command.arg("--cache").arg(folder.join("cache.jsonl")).env("MNEME_CPU_THREADS", "2"),
    };
    command
}

fn json(path: &Path, what: &str) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}: {what}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}: {what}", path.display()))
}

/// Checks a finished session: it has every candidate once, and the best is `best` (a configuration's hash), if known.
#[track_caller]
fn is_complete(folder: &Path, best: Option<&str>, what: &str) -> String {
    let results = folder.join("results");
    let text = fs::read_to_string(results.join("trials.jsonl")).unwrap_or_else(|error| panic!("{error}: {what}"));
    let trials: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {what}"))).collect();
    let numbers: BTreeSet<u64> = trials.iter().filter_map(|trial| trial["trial"].as_u64()).collect();
    let hashes: BTreeSet<&str> = trials.iter().filter_map(|trial| trial["config_hash"].as_str()).collect();
    assert_eq!((trials.len(), numbers.len(), hashes.len()), (CANDIDATES, CANDIDATES, CANDIDATES), "{what}\n{text}");
    let summary = json(&results.join("summary.json"), what);
    assert_eq!(
        (&summary["status"], &summary["num_trials_completed"]),
        (&"completed".into(), &CANDIDATES.into()),
        "{what}\n{summary}"
    );
    let found = json(&results.join("best.json"), what);
    let found = found["config_hash"].as_str().unwrap_or_else(|| panic!("{found}: {what}"));
    assert_eq!(found, best.unwrap_or(found), "{what}");
    for name in ["config.json", "search_space.json", "baseline.json"] {
        json(&results.join(name), what);
    }
    assert!(results.join("report.html").is_file(), "{what}");
    found.to_owned()
}

/// Checks that a program ends as documented: with success, or with one of `statuses` and a message that names a file of
/// the folder.
#[track_caller]
fn ends_in_order(fault: InjectedFault, traced: &Traced, statuses: &[i32], speaker: &str, folder: &Path, what: &str) {
    match (fault, traced.status) {
        (InjectedFault::Signal(signal), Some(status)) => {
            assert!([0, 128 + signal].contains(&status) || traced.at.is_none(), "{what}")
        }
        (_, Some(0)) => {}
        (_, Some(status)) => {
            assert!(statuses.contains(&status) && fault != InjectedFault::Error(libc::EINTR), "{what}");
            let named = folder.file_name().and_then(|name| name.to_str()).expect("a folder with a name");
            let said = traced.stderr.lines().filter(|line| line.starts_with(speaker) && line.contains(named));
            assert_eq!(said.count(), 1, "{what}");
        }
        (_, None) => panic!("it hangs: {what}"),
    }
    assert!(!traced.stderr.contains("panicked"), "{what}");
}

/// Statuses of a session that cannot write, or read, its files.
const UNWRITTEN_OR_UNREAD: [i32; 2] = [exit::INTERNAL, exit::NO_INPUT];

#[test]
fn a_session_survives_a_fault_at_any_call() {
    if !is_possible("a_session_survives_a_fault_at_any_call") {
        return;
    }
    let recording = Recording::of(app("inplace"), &["4096"]);
    let instance = recording.single();
    // One measurement serves all later sessions, so each of them must find the same best candidate: the first.
    let whole = tempfile::tempdir().unwrap();
    let output = session(&instance, whole.path(), CANDIDATES, None).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    is_complete(whole.path(), None, "no fault");
    let known = whole.path().join("results");
    let trials = fs::read_to_string(known.join("trials.jsonl")).unwrap();
    let timed = trials.lines().enumerate().map(|(number, line)| {
        let mut trial: Value = serde_json::from_str(line).unwrap();
        trial["result"]["exec_time"] = vec![1000 * (number as u64 + 1)].into();
        format!("{trial}\n")
    });
    fs::write(known.join("trials.jsonl"), timed.collect::<String>()).unwrap();
    let run = |folder: &Path, candidates: usize, resume: bool| {
        let mut command = session(&instance, folder, candidates, Some(&known));
        command.args(resume.then_some("--resume"));
        command
    };
    // The first part of a session whose fastest candidate was refuted.
    let part = tempfile::tempdir().unwrap();
    let output = run(part.path(), BEFORE, false).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let summary = part.path().join("results/summary.json");
    let mut changed = json(&summary, "the first part");
    assert_eq!(changed["best_trial"], 0);
    changed["refuted"]["0"] = "it did not verify again".into();
    fs::write(&summary, changed.to_string()).unwrap();

    for resumed in [false, true] {
        let begin = || if resumed { copy_of(part.path()) } else { tempfile::tempdir().unwrap() };
        let folder = begin();
        let plain = trace(run(folder.path(), CANDIDATES, resumed), folder.path(), None);
        assert_eq!(plain.status, Some(0), "{}", plain.stderr);
        let best = is_complete(folder.path(), None, "no fault");
        assert!(plain.calls > 40, "{} calls on the session's files", plain.calls);
        for (kind, fault) in FAULTS.into_iter().enumerate() {
            for number in chosen(plain.calls, if kind == 0 { 16 } else { 8 }, kind) {
                let folder = begin();
                let traced = trace(run(folder.path(), CANDIDATES, resumed), folder.path(), Some((number, fault)));
                let what = format!("resumed: {resumed}, {}", describe(number, fault, &traced));
                ends_in_order(fault, &traced, &UNWRITTEN_OR_UNREAD, "mneme-tune: ", folder.path(), &what);
                if traced.status == Some(0) {
                    is_complete(folder.path(), Some(&best), &what);
                }
                if fault != InjectedFault::Signal(libc::SIGKILL) {
                    let left = [folder.path(), &folder.path().join("results")]
                        .map(|folder| if folder.is_dir() { temporary_files(folder) } else { Vec::new() });
                    assert_eq!(left.concat(), [""; 0], "{what}");
                }
                let is_begun = folder.path().join("results/config.json").exists();
                let again = run(folder.path(), CANDIDATES, is_begun).output().unwrap();
                let what = format!("{what}\n--- resumed\n{}", String::from_utf8_lossy(&again.stderr));
                assert_eq!(again.status.code(), Some(0), "{what}");
                is_complete(folder.path(), Some(&best), &what);
            }
        }
    }
}

/// This session runs the real replayer, whose log is one of the session's files.
#[test]
fn a_session_with_its_replayer_survives_a_fault_at_any_call() {
    if !is_possible("a_session_with_its_replayer_survives_a_fault_at_any_call") {
        return;
    }
    let recording = Recording::of(app("inplace"), &["4096"]);
    let instance = recording.single();
    let folder = tempfile::tempdir().unwrap();
    let plain = trace(session(&instance, folder.path(), CANDIDATES, None), folder.path(), None);
    assert_eq!(plain.status, Some(0), "{}", plain.stderr);
    for (kind, fault) in FAULTS.into_iter().enumerate() {
        for number in chosen(plain.calls, if kind == 0 { 4 } else { 1 }, kind) {
            let folder = tempfile::tempdir().unwrap();
            let traced =
                trace(session(&instance, folder.path(), CANDIDATES, None), folder.path(), Some((number, fault)));
            let what = describe(number, fault, &traced);
            // The replayer may get the signal. The session then reports its end.
            let told = matches!(fault, InjectedFault::Signal(_))
                && traced.status == Some(5)
                && traced.stderr.contains("the replay server ended");
            if !told {
                ends_in_order(fault, &traced, &UNWRITTEN_OR_UNREAD, "mneme-tune: ", folder.path(), &what);
            }
            let is_begun = folder.path().join("results/config.json").exists();
            let mut again = session(&instance, folder.path(), CANDIDATES, None);
            let again = again.args(is_begun.then_some("--resume")).output().unwrap();
            let what = format!("{what}\n--- resumed\n{}", String::from_utf8_lossy(&again.stderr));
            assert_eq!(again.status.code(), Some(0), "{what}");
            is_complete(folder.path(), None, &what);
        }
    }
}

/// Statuses of a replay that cannot read its recording.
const UNREAD: [i32; 2] = [exit::BAD_RECORDING, exit::INTERNAL];

#[test]
fn a_replay_survives_a_fault_at_any_call() {
    if !is_possible("a_replay_survives_a_fault_at_any_call") {
        return;
    }
    let recording = Recording::of(app("steps"), &["1"]);
    let instance = recording.single();
    let replay = || {
        let mut command = Command::new(program("mneme-replay"));
        command.args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()]);
        command.args(["--device", "cpu", "-it", "1", "-wu", "0", "default<O1>"]).env("MNEME_CPU_THREADS", "2");
        command
    };
    let plain = trace(replay(), recording.folder(), None);
    assert_eq!(plain.status, Some(0), "{}", plain.stderr);
    assert!(plain.calls > 10, "{} calls on the recording's files", plain.calls);
    for (kind, fault) in FAULTS.into_iter().enumerate() {
        for number in chosen(plain.calls, if kind == 0 { 8 } else { 4 }, kind) {
            let traced = trace(replay(), recording.folder(), Some((number, fault)));
            let what = describe(number, fault, &traced);
            let verified =
                serde_json::from_str::<Value>(&traced.stdout).is_ok_and(|json| json["Result"]["verified"] == true);
            assert_eq!(verified, traced.status == Some(0), "{what}\n{}", traced.stdout);
            // A child may get the signal. The supervisor then reports its end.
            if matches!(fault, InjectedFault::Signal(_)) && traced.status.is_some_and(|status| status < 128) {
                assert!(
                    verified || UNREAD.contains(&traced.status.unwrap_or_default()) && !traced.stderr.is_empty(),
                    "{what}"
                );
            } else {
                ends_in_order(fault, &traced, &UNREAD, "mneme-replay: ", recording.folder(), &what);
            }
            assert!(traced.at.is_some() || verified, "{what}");
            assert_eq!(whole_instances(recording.folder(), &what), 1, "a replay changes nothing: {what}");
        }
    }
}

/// Launches of the application with specialised launches: 16 runs have more than 10,000.
const SPECIALISED: u64 = 640;

/// Faults in the cache, the requests and the answers.
#[test]
fn an_application_that_is_specialised_survives_a_fault_at_any_call() {
    if !is_possible("an_application_that_is_specialised_survives_a_fault_at_any_call") {
        return;
    }
    let report = tempfile::tempdir().unwrap();
    let report = report.path().join("applied.json");
    let apply = |cache: &Path| {
        let mut command = Command::new(program("mneme"));
        command.args(["apply", "--device", "cpu", "--specialize", "--cache-dir"]).arg(cache);
        command.arg("--json").arg(&report).arg("--");
        command.arg(executable(app("paced"), Cudart::under_test())).args([&SPECIALISED.to_string(), "500"]);
        command.env("MNEME_CPU_THREADS", "2").env("PROTEUS_TUNED_KERNELS", "");
        command
    };
    let launches = |what: &str| {
        let report = json(&report, what);
        let kernels = report["kernels"].as_array().unwrap_or_else(|| panic!("{what}"));
        let is_it = |kernel: &&Value| kernel["mangled"].as_str().is_some_and(|name| name.contains("mix"));
        kernels.iter().find(is_it).and_then(|kernel| kernel["launches"].as_u64())
    };
    let cache = tempfile::tempdir().unwrap();
    let plain = trace(apply(cache.path()), cache.path(), None);
    assert_eq!((plain.status, launches("no fault")), (Some(0), Some(SPECIALISED)), "{}", plain.stderr);
    assert!(plain.calls > 10 && plain.stderr.contains("SPECIALISED"), "{} calls: {}", plain.calls, plain.stderr);
    for (kind, fault) in FAULTS.into_iter().enumerate() {
        for number in chosen(plain.calls, 2, kind) {
            let cache = tempfile::tempdir().unwrap();
            let _ = fs::remove_file(&report);
            let traced = trace(apply(cache.path()), cache.path(), Some((number, fault)));
            let what = describe(number, fault, &traced);
            // The signal may reach the application, or mneme, which ends like the application.
            if let InjectedFault::Signal(signal) = fault
                && traced.status == Some(128 + signal)
            {
                continue;
            }
            assert_eq!((traced.status, &traced.stdout), (plain.status, &plain.stdout), "{what}");
            assert_eq!(launches(&what), Some(SPECIALISED), "{what}");
        }
    }
}

/// Launches of the application with tuned code: 64 runs have more than 10,000.
const LAUNCHES: u64 = 200;

/// Faults in the cache of compiled winners and, with trials, in recordings and verdicts.
#[test]
fn an_application_with_tuned_kernels_survives_a_fault_at_any_call() {
    if !is_possible("an_application_with_tuned_kernels_survives_a_fault_at_any_call") {
        return;
    }
    let recording = Recording::of(app("steps"), &["1"]);
    let tuned = Tuned::new().with("steps", &recording.single(), json!({"passes": "default<O2>"}), json!({}));
    let report = tempfile::tempdir().unwrap();
    let report = report.path().join("applied.json");
    let apply = |cache: &Path, trials: &str| {
        let mut command = Command::new(program("mneme"));
        command.args(["apply", "--device", "cpu", "--verify-first", trials, "--cache-dir"]).arg(cache);
        command.arg("--json").arg(&report).arg("--tuned").arg(tuned.results()).arg("--");
        command.arg(executable(app("steps"), Cudart::under_test())).arg(LAUNCHES.to_string());
        command.env("MNEME_CPU_THREADS", "2");
        command
    };
    let launches = |what: &str| {
        let kernel = json(&report, what)["kernels"][0].clone();
        [&kernel["launches"], &kernel["applied"]["replaced"]].map(|number| number.as_u64())
    };
    for trials in ["0", "1"] {
        let cache = tempfile::tempdir().unwrap();
        let plain = trace(apply(cache.path(), trials), cache.path(), None);
        assert_eq!(plain.status, Some(0), "{}", plain.stderr);
        assert_eq!(launches("no fault")[0], Some(LAUNCHES), "{}", plain.stderr);
        assert!(trials != "0" || launches("no fault")[1] == Some(LAUNCHES), "{}", plain.stderr);
        assert!(plain.calls > 10, "{} calls on the cache", plain.calls);
        for (kind, fault) in FAULTS.into_iter().enumerate() {
            for number in chosen(plain.calls, 4, kind) {
                let cache = tempfile::tempdir().unwrap();
                let _ = fs::remove_file(&report);
                let traced = trace(apply(cache.path(), trials), cache.path(), Some((number, fault)));
                let what = format!("{trials} trials, {}", describe(number, fault, &traced));
                // The signal may reach the application, or mneme, which ends like the application.
                if let InjectedFault::Signal(signal) = fault
                    && traced.status == Some(128 + signal)
                {
                    continue;
                }
                assert_eq!((traced.status, &traced.stdout), (plain.status, &plain.stdout), "{what}");
                assert_eq!(launches(&what)[0], Some(LAUNCHES), "{what}");
                // Leftovers must not break the next run.
                if number % 4 == 0 {
                    let again = apply(cache.path(), "0").output().unwrap();
                    assert_eq!(launches(&what), [Some(LAUNCHES); 2], "{what}\n--- again\n{again:?}");
                }
            }
        }
    }
}
