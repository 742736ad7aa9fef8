//! Tests of `mneme-tune` on a small space, searched completely.
//!
//! Every candidate is verified, and the best one comes last.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mneme_e2e::apps::app;
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance, record_into};
use mneme_system::exit;
use serde_json::Value;

fn tune(tuner: Run, instance: &TestInstance, results: &Path) -> Run {
    tuner
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", TestDevice::under_test().name()])
        .args(["--space-preset", "launch", "--launch-dim", "x", "--sampler", "exhaustive"])
        // Separate tests confirm winners.
        .args(["--iterations", "2", "--warmup", "1", "--finalists", "0", "--results-dir"])
        .arg(results)
}

fn read(folder: &Path, name: &str) -> Value {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn trials(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("trials.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_exhaustive_sweep_ends_with_the_best() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().join("sweep");
    let outcome = tune(run(program("mneme-tune")), &recording.single(), &folder)
        .args(["--launch-safety", "conservative", "--passes", "default<O1>", "default<O3>"])
        .succeed();

    let lines: Vec<_> = outcome.stdout.lines().collect();
    let baseline =
        lines.iter().position(|line| line.starts_with("Baseline mean exec_time = ")).expect("the baseline's line");
    let first =
        lines.iter().position(|line| line.starts_with("[0] passes=default<O")).expect("the first candidate's line");
    assert!(baseline < first, "{outcome}");
    let best =
        lines.iter().rev().find(|line| line.starts_with("BEST: ")).unwrap_or_else(|| panic!("no BEST line: {outcome}"));
    for part in ["passes=default<O", "block.x=", "mean=", "speedup="] {
        assert!(best.contains(part), "{best}");
    }

    let summary = read(&folder, "summary.json");
    let completed = summary["num_trials_completed"].as_u64().unwrap();
    assert!(completed >= 8, "{summary}");
    assert_eq!(summary["num_verified"], completed, "the grid-stride loop is right under every shape: {summary}");
    let trials = trials(&folder);
    assert_eq!(trials.len() as u64, completed);
    for name in ["config.json", "search_space.json", "baseline.json", "best.json"] {
        read(&folder, name);
    }
    assert!(folder.join("logs/tune.log").is_file());

    // Writes the report again by hand, with the trials for other programs.
    let written = fs::read_to_string(folder.join("report.html")).expect("the report");
    assert!(
        written.contains("<svg") && written.contains("vecadd") && written.contains("mneme replay -rdb"),
        "{}",
        folder.display()
    );
    fs::remove_file(folder.join("report.html")).expect("a file");
    let (table, journal) = (results.path().join("trials.csv"), results.path().join("study.log"));
    let files = ["--csv".as_ref(), table.as_os_str(), "--optuna-journal".as_ref(), journal.as_os_str()];
    run(program("mneme")).args(["tune", "report"]).arg(&folder).args(files).succeed();
    assert_eq!(fs::read_to_string(folder.join("report.html")).expect("the report"), written);
    let lines = |path: &Path| fs::read_to_string(path).expect("a file").lines().count() as u64;
    assert_eq!(lines(&table), completed + 1);
    assert!(lines(&journal) > completed);
    let mut damaged = fs::read_to_string(folder.join("trials.jsonl")).expect("the trials");
    damaged.insert(0, '#');
    fs::write(folder.join("trials.jsonl"), damaged).expect("a file");
    run(program("mneme-tune"))
        .arg("report")
        .arg(&folder)
        .succeed()
        .complains("1 line of trials.jsonl could not be read");
    run(program("mneme-tune")).arg("report").arg(results.path()).exit_with(exit::NO_INPUT).complains("--results-dir");
}

#[test]
fn candidates_that_do_not_verify_do_not_win() {
    // This kernel has no loop, so fewer threads than elements leave work undone, which would be fastest.
    let recording = Recording::of(app("inplace"), &["4096"]);
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().join("sweep");
    let outcome = tune(run(program("mneme")).arg("tune"), &recording.single(), &folder)
        .args(["--launch-safety", "conservative", "--passes", "default<O2>"])
        .succeed();
    let best = read(&folder, "best.json");
    assert!(best.to_string().contains("\"verified\":true"), "{best}");
    assert!(outcome.stdout.lines().any(|line| line.starts_with("BEST: ")), "{outcome}");
}

#[test]
fn a_baseline_that_fails_stops_the_tuning() {
    let recording = Recording::of(app("inplace"), &["4096"]);
    let results = tempfile::tempdir().unwrap();
    let broken = ["--passes", "function(mneme-fault<unselectable>)"];
    let outcome = tune(run(program("mneme-tune")), &recording.single(), &results.path().join("sweep"))
        .args(broken)
        .args(["--baseline", "pipeline"])
        .exit_with(1);
    assert!(!outcome.stdout.contains("BEST: "), "{outcome}");
    // The application's own code works, but no candidate verifies.
    let folder = results.path().join("original");
    let outcome = tune(run(program("mneme-tune")), &recording.single(), &folder).args(broken).exit_with(2);
    assert!(!outcome.stdout.contains("BEST: "), "{outcome}");
    // If LLVM cannot parse a pipeline, the session ends before it begins, and earlier results stay.
    let outcome = tune(run(program("mneme-tune")), &recording.single(), &folder)
        .args(["--passes", "default<O2>", "function(loop-rotat)"])
        .exit_with(exit::BAD_USAGE);
    outcome.complains("'function(loop-rotat)'");
    outcome.complains("'loop-rotate'");
    assert!(read(&folder, "summary.json")["num_compile_error"].as_u64() > Some(0));
    assert_eq!(fs::read_dir(results.path()).unwrap().count(), 2, "{outcome}");
}

/// A reduction that writes one sum per block is right only with the recorded grid.
#[test]
fn the_grid_stays_for_kernels_that_read_it() {
    let recording = Recording::of(app("partial_sums"), &[]);
    let results = tempfile::tempdir().unwrap();
    let launches = |name: &str, options: &[&str]| -> Vec<(bool, bool)> {
        let folder = results.path().join(name);
        tune(run(program("mneme-tune")), &recording.single(), &folder).args(options).succeed();
        let (recorded, trials) = (read(&folder, "baseline.json"), trials(&folder));
        let other = trials.iter().filter(|trial| trial["config"]["block"] != recorded["config"]["block"]);
        other.map(|it| (it["config"]["grid"] == recorded["config"]["grid"], it["result"]["verified"] == true)).collect()
    };
    let both = launches("both", &[]);
    assert!(both.iter().any(|(kept, _)| !kept) && both.iter().all(|(kept, verified)| kept == verified), "{both:?}");
    let kept = launches("kept", &["--keep-grid"]);
    assert!(!kept.is_empty() && kept.iter().all(|launch| *launch == (true, true)), "{kept:?}");
    let summary = read(&results.path().join("both"), "summary.json");
    assert_eq!(summary["num_other_grid"], summary["num_failed_verification"], "{summary}");
}

/// A space in Python: the complete first example of the tuning guide.
const ENTIRE_SPACE: &str = r#"
from mneme.mneme_types import ExperimentConfiguration
from mneme.tuning.search_space import CategoricalParam, IntRangeParam, SearchSpace

class EntireSpace(SearchSpace):
    def __init__(self, kernel, low=64):
        self.recorded = {"grid": kernel.grid_dim.to_dict(), "shared_mem": kernel.shared_mem}
        self.block = kernel.block_dim.to_dict()
        self.low = low

    def dimensions(self):
        pipelines = [f"default<O{level}>" for level in "123sz"]
        return {
            "block_dim_x": IntRangeParam("block_dim_x", low=self.low, high=1024, step=64),
            "passes": CategoricalParam("passes", pipelines),
        }

    def derived(self, params):
        block = {**self.block, "x": params["block_dim_x"]}
        return ExperimentConfiguration.from_dict({**self.recorded, "block": block, "passes": params["passes"]})

    def constraints(self, params):
        return True

    def baseline(self):
        return ExperimentConfiguration.from_dict({**self.recorded, "block": self.block})
"#;

/// The end of command lines and configuration files in the tuning guide.
const RUNS: [&str; 6] =
    ["iterations: 5", "warmup: 2", "workers: 1", "metric: mean", "objective: time", "sampler: exhaustive"];

#[test]
fn the_exhaustive_example_in_all_its_forms() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    record_into(&path("record-example-dir"), app("vecadd"), &["1", "int"]).succeed();
    let databases = fs::read_dir(path("record-example-dir"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let database = databases.into_iter().find(|name| name.ends_with(".json")).expect("a kernel was recorded");
    let record = read(&path("record-example-dir"), &database);
    let (id, _) = record["instances"].as_object().unwrap().iter().next().unwrap();
    let database = format!("record-example-dir/{database}");
    fs::create_dir_all(path("examples/hip_vec_add")).unwrap();
    fs::write(path("examples/tuning_vecadd_exhaustive.py"), ENTIRE_SPACE).unwrap();

    let tune = |arguments: &[&str]| run(program("mneme")).arg("tune").args(arguments).folder(folder.path()).succeed();
    let device = TestDevice::under_test().name();
    let selection =
        ["--record-database", database.as_str(), "--record-id", id.as_str(), "--device", device, "--finalists", "0"];
    let module = ["--space-module", "examples/tuning_vecadd_exhaustive.py:EntireSpace"];
    let built_in =
        ["--space-preset", "launch", "--launch-dim", "x", "--launch-safety", "aggressive", "--fixed-codegen-opt", "3"];
    let pipelines = ["--passes", "default<O1>", "default<O2>", "default<O3>", "default<Os>", "default<Oz>"];
    let runs: Vec<String> = RUNS
        .iter()
        .flat_map(|run| run.split_once(": "))
        .flat_map(|(name, value)| [format!("--{name}"), value.to_owned()])
        .collect();
    let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
    let file = |space: &str| {
        format!(
            "record_database: {database}\nrecord_id: \"{id}\"\n{space}\n{}\ndevice: {device}\nfinalists: 0\n",
            RUNS.join("\n")
        )
    };

    let outcome =
        tune(&[&selection[..], &module, &runs, &["--results-dir", "mneme-tune-results/vecadd-exhaustive"]].concat());
    let folder_of = |name: &str| path("mneme-tune-results").join(name);
    assert_eq!(trials(&folder_of("vecadd-exhaustive")).len(), 80);
    assert!(outcome.stdout.contains("\n[0] passes=default<O1> block.x=64 "), "{outcome}");
    assert!(outcome.stdout.contains("\n[79] passes=default<Oz> block.x=1024 "), "{outcome}");
    assert!(outcome.stdout.lines().any(|line| line.starts_with("BEST: passes=default<O")), "{outcome}");

    // The same from a file. It finds the results of the first run and overwrites nothing.
    let text = file(
        "space_module: examples/tuning_vecadd_exhaustive.py:EntireSpace\nresults_dir: mneme-tune-results/vecadd-exhaustive",
    );
    fs::write(path("examples/hip_vec_add/config.yml"), text).unwrap();
    tune(&["--config", "examples/hip_vec_add/config.yml"]);
    for name in ["vecadd-exhaustive", "vecadd-exhaustive.1"] {
        assert_eq!(trials(&folder_of(name)).len(), 80, "{name}");
    }
    let hashes = |name: &str| {
        trials(&folder_of(name)).iter().map(|trial| trial["config_hash"].to_string()).collect::<BTreeSet<_>>()
    };
    assert_eq!(hashes("vecadd-exhaustive"), hashes("vecadd-exhaustive.1"));

    let results = ["--results-dir", "mneme-tune-results/vecadd-builtin"];
    tune(&[&selection[..], &built_in, &pipelines, &runs, &results].concat());
    let before = trials(&folder_of("vecadd-builtin")).len();
    let summary = read(&folder_of("vecadd-builtin"), "summary.json");
    assert_eq!((&summary["num_verified"], before % 5), (&Value::from(before), 0), "{summary}");
    let passes = "passes:\n  - default<O1>\n  - default<O2>\n  - default<O3>\n  - default<Os>\n  - default<Oz>";
    let text = file(&format!(
        "space_preset: launch\nlaunch_dim: x\nlaunch_safety: aggressive\n{passes}\nfixed_codegen_opt: 3\nresults_dir: mneme-tune-results/vecadd-file"
    ));
    fs::write(path("config.yml"), text).unwrap();
    tune(&["--config", "config.yml", "--iterations", "1", "--warmup", "0"]);
    assert_eq!(hashes("vecadd-file"), hashes("vecadd-builtin"), "the command line changes how often, the file what");
    assert_eq!(read(&folder_of("vecadd-file"), "config.json")["iterations"], 1);

    // The arguments of the class, and errors in them.
    let space = tune(&[&selection[..], &module, &["--space-arg", "low=512", "--print-space"]].concat()).json();
    assert_eq!(space["size"], 9 * 5);
    let wrong = [&selection[..], &["--space-module", "examples/tuning_vecadd_exhaustive.py:None"]].concat();
    run(program("mneme-tune"))
        .args(wrong)
        .folder(folder.path())
        .exit_with(exit::BAD_USAGE)
        .complains("has no class None");
}

/// Runs the class from docs/guides/python.md.
#[test]
fn the_space_of_the_python_page_is_tuned() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/python.md")).unwrap();
    let space = page.split("```").find_map(|block| block.strip_prefix("python\n# blocks.py\n")).expect("the class");
    let recording = Recording::of(app("saxpy"), &[]);
    let results = tempfile::tempdir().unwrap();
    let file = results.path().join("blocks.py");
    fs::write(&file, space).unwrap();
    let folder = results.path().join("results");
    run(program("mneme-tune"))
        .args(["-rdb".as_ref(), recording.single().database.as_os_str()])
        .args(["--space-module", &format!("{}:Blocks", file.display()), "--device", TestDevice::under_test().name()])
        .args(["--iterations", "1", "--warmup", "1", "--finalists", "0", "--results-dir"])
        .arg(&folder)
        .succeed();
    let (baseline, trials) = (read(&folder, "baseline.json"), trials(&folder));
    assert_eq!(trials.len(), 16);
    assert!(trials.iter().all(|trial| trial["config"]["internalize"] == false), "as recorded");
    assert_eq!(baseline["config"]["block"]["x"], 128);
}

#[test]
fn a_kernel_is_tuned_for_all_its_instances() {
    let recording = Recording::of(app("steps"), &["3"]);
    let (database, kernel) = recording.kernel("step");
    assert_eq!(kernel.instances.len(), 3);
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().join("all");
    let tune = |more: &[&str]| {
        let common = [
            "--space-preset", "compiler", "--passes", "default<O1>", "default<O3>", "--fixed-codegen-opt", "3",
            "--iterations", "2", "--finalists", "0",
        ];
        run(program("mneme-tune"))
            .arg("-rdb")
            .arg(&database)
            .args(["--device", TestDevice::under_test().name()])
            .args(common)
            .args(more)
    };
    tune(&["--all-instances", "--results-dir"]).arg(&folder).succeed();
    for trial in trials(&folder) {
        let instances = trial["instances"].as_array().unwrap();
        assert_eq!(instances.len(), 3, "{trial}");
        assert!(instances.iter().all(|instance| instance["result"]["verified"] == true), "{trial}");
        let sum: f64 = instances.iter().map(|instance| instance["metric"].as_f64().unwrap()).sum();
        assert!((trial["metric"].as_f64().unwrap() - sum / 3.0).abs() < 1.0, "each was launched once: {trial}");
    }
    // The best configuration of one instance is verified on the others before it is reported.
    let (first, _) = kernel.instances.iter().next().unwrap();
    let folder = results.path().join("verified");
    tune(&["-rid", first, "--verify-all", "--results-dir"]).arg(&folder).succeed();
    assert_eq!(read(&folder, "summary.json")["verified_on"].as_array().unwrap().len(), 2);
}

#[test]
fn a_session_that_is_killed_goes_on() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let instance = recording.single();
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().join("killed");
    let tuner = || {
        tune(run(program("mneme-tune")), &instance, &folder)
            .args(["--launch-safety", "aggressive", "--keep-grid=off", "--passes", "default<O1>", "--resume"])
    };
    let size = {
        let space = run(program("mneme-tune")).args(["-rdb".as_ref(), instance.database.as_os_str()]);
        let space = space.args([
            "--space-preset", "launch", "--launch-dim", "x", "--launch-safety", "aggressive", "--keep-grid=off",
            "--print-space",
        ]);
        space.succeed().json()["size"].as_u64().unwrap() as usize
    };
    // `timeout` ends it after each of these times. The measurements stay.
    let mut before = Vec::new();
    for limit in ["0.4", "0.8", "1.2"] {
        let mut killed = std::process::Command::new("timeout");
        killed.args(["-s", "KILL", limit]).arg(program("mneme-tune"));
        killed.args(["-rdb".as_ref(), instance.database.as_os_str(), "--results-dir".as_ref(), folder.as_os_str()]);
        killed.args(folder.join("config.json").exists().then_some("--resume"));
        killed.args([
            "--device",
            TestDevice::under_test().name(),
            "--space-preset",
            "launch",
            "--launch-dim",
            "x",
            "--iterations",
            "2",
            "--warmup",
            "1",
        ]);
        killed.args(["--launch-safety", "aggressive", "--keep-grid=off", "--passes", "default<O1>"]);
        killed.output().unwrap();
        let text = fs::read_to_string(folder.join("trials.jsonl")).unwrap_or_default();
        let lines: Vec<String> =
            text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect();
        assert!(lines.starts_with(&before), "what was measured stays");
        before = lines;
    }
    tuner().succeed();
    let all = trials(&folder);
    let distinct: BTreeSet<String> = all.iter().map(|trial| trial["config_hash"].to_string()).collect();
    assert_eq!((all.len(), distinct.len()), (size, size));
    assert_eq!(read(&folder, "summary.json")["num_trials_completed"], size);
}

#[test]
fn optuna_chooses_where_it_is_asked_to() {
    let Some(python) = std::env::var_os("MNEME_TEST_OPTUNA") else {
        return mneme_fixtures::skip("MNEME_TEST_OPTUNA names no Python with optuna");
    };
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let results = tempfile::tempdir().unwrap();
    let instance = recording.single();
    let tuner = |name: &str, trials: &str| {
        let tuner = run(program("mneme-tune"))
            .env("MNEME_PYTHON", &python)
            .args(["-rdb".as_ref(), instance.database.as_os_str()]);
        let tuner = tuner.args([
            "--device",
            TestDevice::under_test().name(),
            "--finalists",
            "0",
            "--iterations",
            "1",
            "--warmup",
            "0",
            "--sampler",
            "tpe",
            "--trials",
            trials,
        ]);
        let tuner =
            tuner.args(["--study-name", "shared", "--optuna-storage"]).arg(results.path().join("study.journal"));
        tuner.arg("--results-dir").arg(results.path().join(name))
    };
    tuner("one", "6").succeed();
    assert_eq!(trials(&results.path().join("one")).len(), 6);
    // Another tuner adds to the same study.
    tuner("two", "3").succeed();
    assert_eq!(trials(&results.path().join("two")).len(), 3);
    tuner("one", "8").arg("--resume").succeed();
    assert_eq!(trials(&results.path().join("one")).len(), 8);
    let python = results.path().join("no-python");
    run(program("mneme-tune"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "--python".as_ref(), python.as_os_str()])
        .args(["--sampler", "tpe", "--trials", "1", "--study-name", "none", "--results-dir"])
        .arg(results.path().join("none"))
        .exit_with(exit::BAD_USAGE)
        .complains(&format!("cannot start {}", python.display()));
}
