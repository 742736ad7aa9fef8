//! Tests of trusted files, modes of written files, and output to a terminal.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance, copy_of};
use mneme_recording::database::KernelRecord;
use mneme_system::exit;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A user other than root and the user of the tests.
const STRANGER: u32 = 65533;

fn recording() -> Recording {
    Recording::of(app("vecadd"), &["1", "int"])
}

fn vecadd() -> PathBuf {
    executable(app("vecadd"), Cudart::under_test())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Lets a stranger change a folder. The folder gets the stranger as its owner if the tests may do that.
fn give_away(folder: &Path) {
    if chown(folder, Some(STRANGER), None).is_err() {
        set_mode(folder, 0o777);
    }
}

/// Results next to a recording, as sessions write them, with `measured` in their options.
struct Session {
    folder: TempDir,
    database: String,
}

impl Session {
    fn of(instance: &TestInstance, measured: Value) -> Self {
        let recorded = instance.database.parent().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let database = format!("recording/{}", instance.database.file_name().unwrap().to_str().unwrap());
        let session = Self { folder, database };
        run("cp").arg("-r").arg(recorded).arg(session.at("recording")).succeed();
        fs::create_dir(session.at("results")).unwrap();
        let record = KernelRecord::load(&instance.database).unwrap();
        let mut config = serde_json::to_value(record.instances[&instance.id].recorded_configuration()).unwrap();
        config["block"]["x"] = 128.into();
        config["grid"]["x"] = 80.into();
        let best = json!({"trial": 3, "config": config, "params": {}, "metric": 1000.0, "speedup": 2.0});
        let options = json!({"record_database": session.database, "record_id": instance.id, "measured": measured});
        for (name, value) in [("best.json", best), ("config.json", options)] {
            fs::write(session.at("results").join(name), value.to_string()).unwrap();
        }
        session
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn apply(&self) -> Run {
        run(program("mneme"))
            .args(["apply", "--device", TestDevice::under_test().name(), "--json"])
            .arg(self.at("applied.json"))
            .env("MNEME_CACHE_DIR", self.at("cache"))
            .env("MNEME_TRUST", "")
    }

    /// Runs the application, which must succeed. Returns the number of launches with tuned code.
    #[track_caller]
    fn replaced(&self, options: &[&str], from: &Path) -> u64 {
        let results = self.at("results");
        let run = self.apply().args(options).arg("--tuned").arg(results).arg("--").arg(vecadd()).args(["1", "int"]);
        let outcome = run.folder(from).succeed();
        assert!(outcome.stdout.contains("ok"), "{outcome}");
        let report: Value = serde_json::from_slice(&fs::read(self.at("applied.json")).unwrap()).unwrap();
        report["kernels"].as_array().unwrap().iter().filter_map(|kernel| kernel["applied"]["replaced"].as_u64()).sum()
    }
}

#[test]
fn a_session_finds_its_own_recording_and_none_in_the_current_folder() {
    let recording = recording();
    let instance = recording.single();
    let session = Session::of(&instance, Value::Null);
    let elsewhere = tempfile::tempdir().unwrap();
    // An unreadable file, so a program that uses it reports an error.
    fs::create_dir(elsewhere.path().join("recording")).unwrap();
    fs::write(elsewhere.path().join(&session.database), "{}").unwrap();
    assert_eq!(session.replaced(&[], elsewhere.path()), 1);
    // It ignores that file even if the session's own recording is missing.
    fs::rename(session.at("recording"), session.at("moved")).unwrap();
    let refused = session.apply().arg("--tuned").arg(session.at("results")).arg("--").arg(vecadd());
    refused.folder(elsewhere.path()).exit_with(exit::BAD_USAGE).complains("-rdb");
}

#[test]
fn a_recording_of_other_code_than_was_tuned_is_not_used() {
    let recording = recording();
    let instance = recording.single();
    let wrong = json!({"code": "0123456789abcdef", "instances": {}, "tolerances": ""});
    let session = Session::of(&instance, wrong);
    assert_eq!(session.replaced(&[], session.folder.path()), 0);
    let named = session.at("recording");
    assert_eq!(session.replaced(&["-rdb", named.to_str().unwrap()], session.folder.path()), 0);
}

#[test]
fn results_and_caches_that_a_stranger_can_change_are_not_used() {
    let recording = recording();
    let session = Session::of(&recording.single(), Value::Null);
    assert_eq!(session.replaced(&[], session.folder.path()), 1);
    let tuned = session.at("cache/tuned");
    let entries = || fs::read_dir(&tuned).unwrap().count();
    assert_eq!(entries(), 2);
    // The cached code is no longer valid machine code, so a run that used it would report an error.
    give_away(&tuned);
    assert_eq!(session.replaced(&[], session.folder.path()), 1);
    assert_eq!(entries(), 2, "nothing of this run is in it");
    let trusted = tuned.to_str().unwrap().to_owned();
    assert_eq!(session.replaced(&["--trust", &trusted], session.folder.path()), 1);

    give_away(&session.at("results"));
    let refused = || session.apply().arg("--tuned").arg(session.at("results"));
    refused().arg("--").arg(vecadd()).exit_with(exit::BAD_USAGE).complains("--trust");
    let all = session.folder.path().to_str().unwrap().to_owned();
    assert_eq!(session.replaced(&["--trust", &all], session.folder.path()), 1);
    let by_variable = refused().arg("--").arg(vecadd()).args(["1", "int"]).env("MNEME_TRUST", &all);
    by_variable.succeed();
}

#[test]
fn a_recording_that_a_stranger_can_change_is_shown_and_not_replayed() {
    let recording = recording();
    let copy = copy_of(recording.folder());
    let instance = recording.single().moved_to(copy.path());
    instance.verify("default<O3>", &[]);
    let mut files = fs::read_dir(copy.path()).unwrap().map(|entry| entry.unwrap().path());
    let module = files.find(|path| path.extension().is_some_and(|it| it == "bc")).unwrap();
    set_mode(&module, 0o666);
    instance.replay("default<O3>").exit_with(exit::BAD_RECORDING).complains("--trust");
    set_mode(&module, 0o600);
    give_away(copy.path());
    instance.replay("default<O3>").exit_with(exit::BAD_RECORDING).complains("--trust");
    let tune = run(program("mneme-tune")).arg("-rdb").arg(&instance.database);
    tune.exit_with(exit::BAD_RECORDING).complains("--trust");
    for command in ["ls", "show", "check"] {
        run(program("mneme")).arg(command).arg(copy.path()).succeed();
    }
    instance.verify("default<O3>", &["--trust", copy.path().to_str().unwrap()]);
    let by_mneme = run(program("mneme")).arg("--trust").arg(copy.path()).arg("replay");
    by_mneme.arg("-rdb").arg(&instance.database).args(["--device", TestDevice::under_test().name()]).succeed();
}

#[test]
fn a_folder_of_a_strangers_is_not_learnt_in_and_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let learnt = folder.path().join("learnt");
    fs::create_dir(&learnt).unwrap();
    give_away(&learnt);
    let apply = run(program("mneme")).args(["apply", "--device", TestDevice::under_test().name(), "--learn"]);
    let outcome = apply.arg(&learnt).arg("--").arg(vecadd()).args(["1", "int"]).succeed();
    assert!(outcome.stdout.contains("ok") && outcome.stderr.contains("--trust"), "{outcome}");
    assert_eq!(fs::read_dir(&learnt).unwrap().count(), 0);
    run(program("mneme")).arg("learn").arg(&learnt).exit_with(exit::BAD_USAGE).complains("--trust");
}

/// All files in a folder, and the folder.
fn everything(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(everything(&entry));
        }
        found.push(entry);
    }
    found
}

#[test]
fn what_is_written_is_its_owners_whatever_the_mask() {
    let folder = tempfile::tempdir().unwrap();
    let device = TestDevice::under_test().name();
    let script = format!(
        "set -e; umask 0; mneme={mneme}
         $mneme record -rdb rec --device {device} -- {app} 1 int
         $mneme tune -rdb rec/*.json --space-preset launch --trials 2 --iterations 1 --warmup 0 --seed 1 \
           --finalists 0 --results-dir results
         $mneme tune -rdb rec/*.json --space-preset launch --trials 1 --iterations 1 --warmup 0 --finalists 0
         $mneme replay -rdb rec/*.json --device {device} --output-dir out 'default<O3>'
         $mneme apply --tuned results --manifest tuned.json
         $mneme apply --learn learnt --device {device} -- {app} 1 int
         $mneme apply --learn learnt --device {device} -- {app} 1 int",
        mneme = program("mneme").display(),
        app = vecadd().display()
    );
    let run = run("bash").args(["-c", &script]).folder(folder.path()).env("MNEME_CACHE_DIR", "cache");
    run.succeed();
    for path in everything(folder.path()) {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}", path.display());
    }
}

#[test]
fn names_of_a_recording_steer_no_terminal() {
    let recording = recording();
    let copy = copy_of(recording.folder());
    let instance = recording.single().moved_to(copy.path());
    let mut record = KernelRecord::load(&instance.database).unwrap();
    record.demangled_name = "evil\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\r".into();
    record.save(&instance.database).unwrap();
    let steers = |text: &str| text.chars().any(|it| (it.is_control() && it != '\n' && it != '\t') || it == '\u{202e}');
    let outcomes = [
        run(program("mneme")).arg("ls").arg(copy.path()).succeed(),
        run(program("mneme")).args(["show", "--json"]).arg(copy.path()).succeed(),
        run(program("mneme-replay")).arg("-rdb").arg(copy.path()).args(["--kernel", "none"]).exit_with(exit::BAD_USAGE),
    ];
    for outcome in &outcomes {
        assert!(!steers(&outcome.stdout) && !steers(&outcome.stderr), "{outcome}");
    }
    let shown = outcomes[1].json().to_string();
    assert!(shown.contains("evil") && serde_json::from_str::<Value>(&shown).is_ok());
}

#[test]
fn of_many_kernels_the_likest_are_named() {
    let recording = recording();
    let copy = copy_of(recording.folder());
    let (_, record) = recording.kernels().remove(0);
    for number in 1..300 {
        let name = format!("kernel{number}()");
        let other = KernelRecord { static_hash: number, demangled_name: name, ..record.clone() };
        other.save(&copy.path().join(other.file_name())).unwrap();
    }
    let replay = |name: &str| run(program("mneme-replay")).arg("-rdb").arg(copy.path()).args(["--kernel", name]);
    let unknown = replay("kernel77x").exit_with(exit::BAD_USAGE);
    assert!(unknown.stderr.contains("kernel77()") && unknown.stderr.len() < 1000, "{unknown}");
    let several = replay("kernel").exit_with(exit::BAD_USAGE);
    assert!(several.stderr.len() < 1000, "{several}");
    let bisect = run(program("mneme-bisect")).arg("-rdb").arg(copy.path()).args(["--kernel", "none"]);
    assert!(bisect.exit_with(exit::BAD_USAGE).stderr.len() < 1000);
    let listed = run(program("mneme")).arg("ls").arg(copy.path()).args(["-rid", "0"]);
    assert!(listed.exit_with(exit::BAD_USAGE).stderr.len() < 1000);
}
