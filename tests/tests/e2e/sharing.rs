//! Eight tuners that share one Optuna study in a PostgreSQL database.
//!
//! The test kills one of them and the database meanwhile.
//!
//! `MNEME_TEST_POSTGRES` is the folder of PostgreSQL's programs (Debian 12: `/usr/lib/postgresql/15/bin`), and
//! `MNEME_TEST_OPTUNA` is a Python with optuna and psycopg.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mneme_e2e::apps::app;
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance};
use serde_json::Value;

const TUNERS: usize = 8;
/// Trials per tuner.
const TRIALS: usize = 15;
const PATIENCE: Duration = Duration::from_secs(600);

/// A PostgreSQL server for this test. It listens only on a socket in its folder.
struct Database {
    programs: PathBuf,
    folder: PathBuf,
}

impl Database {
    fn new(programs: &Path) -> Self {
        let folder = run_as_owner("mktemp", &["-d"]);
        let database = Self { programs: programs.into(), folder: folder.trim_end().into() };
        database.run("initdb", &["--auth=trust", "--username=optuna", "-D"], &[]);
        database.start();
        let socket = database.folder.display().to_string();
        run_as_owner(&database.program("createdb"), &["-h", &socket, "-U", "optuna", "optuna"]);
        database
    }

    fn program(&self, name: &str) -> String {
        self.programs.join(name).display().to_string()
    }

    /// Runs a program on the data. Its output goes to a log, because a server that it starts may continue to write
    /// there.
    fn run(&self, name: &str, options: &[&str], more: &[&str]) {
        let data = self.folder.join("data").display().to_string();
        run_as_owner(&self.program(name), &[options, &[&data], more].concat());
    }

    fn start(&self) {
        let options = format!("-c listen_addresses='' -k {}", self.folder.display());
        let log = self.folder.join("log").display().to_string();
        self.run("pg_ctl", &["start", "-w", "-l", &log, "-o", &options, "-D"], &[]);
    }

    /// Simulates a machine failure: no process can finish its work.
    fn kill(&self) {
        self.run("pg_ctl", &["stop", "-m", "immediate", "-D"], &[]);
    }

    fn url(&self) -> String {
        format!("postgresql+psycopg://optuna@/optuna?host={}", self.folder.display())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let data = self.folder.join("data").display().to_string();
        let _ = as_owner(&self.program("pg_ctl")).args(["stop", "-m", "immediate", "-D", &data]).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// PostgreSQL refuses to run as root. Debian's package has a user for it.
fn as_owner(program: &str) -> Command {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = Command::new(if is_root { "runuser" } else { "env" });
    if is_root {
        command.args(["-u", "postgres", "--", "env"]);
    }
    command.arg(program).current_dir("/");
    command
}

#[track_caller]
fn run_as_owner(program: &str, arguments: &[&str]) -> String {
    let output = as_owner(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The common settings of all tuners.
struct Tuning<'a> {
    python: OsString,
    instance: &'a TestInstance,
    storage: String,
    results: PathBuf,
}

impl Tuning<'_> {
    fn folder(&self, number: usize) -> PathBuf {
        self.results.join(format!("node-{number}"))
    }

    fn start(&self, number: usize, more: &[&str]) -> Child {
        let log = File::options().create(true).append(true).open(self.results.join(format!("node-{number}.err")));
        let mut tuner = Command::new(program("mneme-tune"));
        tuner.env("MNEME_PYTHON", &self.python).stdout(Stdio::null()).stderr(log.unwrap());
        tuner.args(["-rdb".as_ref(), self.instance.database.as_os_str()]).args(["-rid", &self.instance.id]);
        tuner.args(["--device", TestDevice::under_test().name(), "--space-preset", "full", "--sampler", "tpe"]);
        tuner.args(["--trials", &TRIALS.to_string(), "--iterations", "1", "--warmup", "0", "--finalists", "0"]);
        tuner.args(["--seed", &number.to_string(), "--study-name", "shared", "--optuna-storage", &self.storage]);
        tuner.arg("--cache").arg(self.results.join("cache/")).arg("--results-dir").arg(self.folder(number));
        tuner.arg("--quiet").args(more).spawn().unwrap()
    }

    fn trials(&self, number: usize) -> Vec<Value> {
        let text = fs::read_to_string(self.folder(number).join("trials.jsonl")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn wait_for(&self, trials: usize) {
        let start = Instant::now();
        while (0..TUNERS).map(|number| self.trials(number).len()).sum::<usize>() < trials {
            assert!(start.elapsed() < PATIENCE, "there are no {trials} trials; see {}", self.results.display());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The trials of the study: state, values, point and session of each.
    fn study(&self) -> Vec<Value> {
        let script = "import json, optuna, sys\n\
                      study = optuna.load_study(study_name='shared', storage=sys.argv[1])\n\
                      for it in study.get_trials():\n    \
                          print(json.dumps([it.state.name, it.values, it.user_attrs]))";
        let output = Command::new(&self.python).args(["-c", script, &self.storage]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn tuners_that_share_a_study_lose_nothing_and_try_nothing_twice_whatever_is_killed() {
    let (Some(programs), Some(python)) =
        (std::env::var_os("MNEME_TEST_POSTGRES"), std::env::var_os("MNEME_TEST_OPTUNA"))
    else {
        return mneme_fixtures::skip("MNEME_TEST_POSTGRES and MNEME_TEST_OPTUNA do not name PostgreSQL and a Python");
    };
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let database = Database::new(Path::new(&programs));
    let work = tempfile::tempdir().unwrap();
    let tuning = Tuning { python, instance: &recording.single(), storage: database.url(), results: work.path().into() };
    let mut tuners: Vec<Child> = (0..TUNERS).map(|number| tuning.start(number, &[])).collect();
    tuning.wait_for(TUNERS * TRIALS / 4);
    tuners[0].kill().and_then(|()| tuners[0].wait()).unwrap();
    tuning.wait_for(TUNERS * TRIALS / 2);
    database.kill();
    std::thread::sleep(Duration::from_secs(5));
    database.start();
    tuners[0] = tuning.start(0, &["--resume"]);
    for (number, tuner) in tuners.iter_mut().enumerate() {
        let status = tuner.wait().unwrap();
        let log = fs::read_to_string(tuning.results.join(format!("node-{number}.err"))).unwrap();
        assert!(status.success(), "{number}: {status}\n{log}");
    }

    let study = tuning.study();
    let mut sessions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut values: BTreeMap<(String, String), (String, Value)> = BTreeMap::new();
    for trial in study.iter().filter(|trial| trial[0] != "FAIL") {
        let [state, value, attributes] = [0, 1, 2].map(|place| &trial[place]);
        // The database was killed before it confirmed this trial. The tuner asked again, and this trial was lost.
        let Some(point) = attributes["mneme:point"].as_str() else { continue };
        let session = attributes["mneme:session"].as_str().unwrap().to_owned();
        assert_ne!(state, "RUNNING", "nobody is at work any more: {trial}");
        sessions.entry(point.to_owned()).or_default().insert(session.clone());
        let key = (session, serde_json::from_str::<Value>(point).unwrap().to_string());
        let told = (state.as_str().unwrap().to_owned(), value[0].clone());
        // If Optuna suggests a point to a session again, the session reuses the result and adds no trial.
        assert_eq!(values.insert(key, told.clone()).unwrap_or_else(|| told.clone()), told, "{trial}");
    }
    let twice: Vec<_> = sessions.iter().filter(|(_, sessions)| sessions.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for number in 0..TUNERS {
        let trials = tuning.trials(number);
        let distinct: BTreeSet<_> = trials.iter().map(|trial| trial["config_hash"].to_string()).collect();
        assert_eq!((trials.len(), distinct.len()), (TRIALS, TRIALS), "{number}");
        for trial in trials {
            let session = tuning.folder(number).display().to_string();
            let verified = trial["result"]["verified"] == true;
            let told = values.get(&(session, trial["params"].to_string())).unwrap_or_else(|| panic!("lost: {trial}"));
            assert_eq!(told.0, if verified { "COMPLETE" } else { "PRUNED" }, "{trial}");
            assert!(!verified || told.1.as_f64() == trial["objectives"][0].as_f64(), "{told:?}, {trial}");
        }
    }
}
