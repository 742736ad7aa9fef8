//! Whole sessions against a stub server that obeys its configurations.

use std::path::Path;

use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use mneme_system::exit;
use mneme_tuner::early_stop::EarlyStop;
use mneme_tuner::evaluator::Evaluator;
use mneme_tuner::options::Options;
use mneme_tuner::results::Results;
use mneme_tuner::sampler::{Ahead, Exhaustive, History, Sampler};
use mneme_tuner::search::Search;
use mneme_tuner::server::ServerCommand;
use mneme_tuner::session::{self, Plan, SessionError, TunedInstance};
use mneme_tuner::space::{
    BlockAxes, Domain, Parameter, Point, PresetOptions, PresetSpace, Recorded, Rejection, SearchSpace,
};
use serde_json::Value;

/// Block widths 1 to 6 and 8, and these pipelines, around a launch of six blocks of four threads.
fn space(passes: &[&str]) -> PresetSpace {
    let passes = passes.iter().map(ToString::to_string).collect();
    let options = PresetOptions { launch_dim: BlockAxes::X, passes, ..PresetOptions::default() };
    PresetSpace::new(
        &options,
        Recorded {
            grid: Dim3::new(6, 1, 1),
            block: Dim3::new(4, 1, 1),
            shared_mem: 0,
            compiled: None,
            processor: None,
        },
    )
}

const WIDTHS: usize = 7;

fn instance(folder: &Path, id: &str, weight: f64) -> TunedInstance {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/replay");
    let log = folder.join("results/logs/tune.log");
    TunedInstance {
        id: id.into(),
        weight,
        command: ServerCommand {
            program,
            database: "1.json".into(),
            instance: id.into(),
            options: Vec::new(),
            accepts_unproven: false,
            log,
        },
    }
}

fn plan(folder: &Path, passes: &[&str]) -> Plan {
    let options =
        Options { iterations: Some(2), warmup: Some(1), finalists: Some(0), quiet: Some(true), ..Options::default() };
    Plan {
        kernel: "_Z1kv".into(),
        specializable: vec![false, true],
        instances: vec![instance(folder, "1", 1.0)],
        search: Search::new(Box::new(space(passes)), Box::new(Exhaustive::default())),
        further: Vec::new(),
        verified_on: Vec::new(),
        early_stop: None,
        objectives: mneme_tuner::objective::Objectives::read(&["time"], mneme_tuner::metric::Metric::Mean).unwrap(),
        bridge: None,
        cache: None,
        settings: options.settled(),
    }
}

/// Walks a space with one candidate in flight, so each choice knows all earlier outcomes.
#[derive(Default)]
struct OneByOne(Exhaustive);

impl Sampler for OneByOne {
    fn ahead(&self, _history: &History) -> Ahead {
        Ahead::Some(0)
    }

    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        self.0.ask(space, history)
    }
}

fn one_by_one(plan: Plan, space: impl SearchSpace + 'static) -> Plan {
    Plan { search: Search::new(Box::new(space), Box::<OneByOne>::default()), ..plan }
}

const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

fn run(folder: &Path, plan: Plan) -> Result<i32, SessionError> {
    // A child that another test has just forked holds the lock of an ended session until it runs its program.
    let open = || {
        (0..500).find_map(|_| {
            Results::open(&folder.join("results"), plan.settings.resume).map_err(|_| std::thread::sleep(PAUSE)).ok()
        })
    };
    let (results, known) = open().unwrap();
    let evaluator = Evaluator::start(plan.instances.iter().map(|instance| instance.command.clone()).collect())?;
    session::run(plan, evaluator, results, known).map(|finished| finished.status)
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("results").join(name)).unwrap()).unwrap()
}

fn trials(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("results/trials.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_fastest_verified_configuration_wins() {
    let folder = tempfile::tempdir().unwrap();
    // "wrong" is fastest but does not verify.
    let size = 3 * WIDTHS;
    assert_eq!(run(folder.path(), plan(folder.path(), &["right", "wrong", "unknown"])).unwrap(), 0);
    let best = json(folder.path(), "best.json");
    assert_eq!((&best["config"]["block"]["x"], &best["config"]["passes"]), (&Value::from(8), &Value::from("right")));
    assert_eq!(best["metric"], 993.0, "warm-up runs do not count");
    assert_eq!(best["config"]["grid"]["x"], 3);
    let summary = json(folder.path(), "summary.json");
    assert_eq!(summary["status"], "completed");
    assert_eq!(summary["num_trials_completed"], size);
    for key in ["num_verified", "num_failed_verification", "num_compile_error"] {
        assert_eq!(summary[key], size / 3, "{key}");
    }
    assert_eq!(summary["baseline_metric"], 997.0);
    assert_eq!(trials(folder.path()).len(), size);
    for name in ["search_space.json", "baseline.json"] {
        json(folder.path(), name);
    }
    let tuned = &json(folder.path(), "proteus_tuned_kernels.json")["_Z1kv"];
    assert_eq!((&tuned["GridDim"]["x"], &tuned["BlockDim"]["x"]), (&Value::from(3), &Value::from(8)));
    let usage = std::fs::read_to_string(folder.path().join("results/proteus_usage.txt")).unwrap();
    assert!(usage.contains("annotate(\"jit\", 2)"), "{usage}");
    // The existing Mneme's keys.
    let record = &best["record"];
    assert_eq!((&best["status"], &best["best_metric"]), (&Value::from("success"), &best["metric"]));
    assert_eq!(
        (&best["baseline_metric"], &record["kernel_name"]),
        (&summary["baseline_metric"], &Value::from("_Z1kv"))
    );
    assert!(record["record_id"].is_string() && record["record_database"].is_string(), "{record}");
    for trial in trials(folder.path()) {
        assert_eq!(trial["status"], trial["result"]["status"]);
    }
    assert_eq!(json(folder.path(), "search_space.json")["dimensions"]["passes"]["type"], "categorical");
}

#[test]
fn a_server_that_dies_costs_only_the_configuration_that_killed_it() {
    let folder = tempfile::tempdir().unwrap();
    let size = 6 * WIDTHS;
    assert_eq!(
        run(folder.path(), plan(folder.path(), &["right", "die 1", "die 2", "die 3", "die 4", "good"])).unwrap(),
        0
    );
    let summary = json(folder.path(), "summary.json");
    assert_eq!(summary["num_trials_completed"], size);
    assert_eq!(
        (&summary["num_verified"], &summary["num_internal_error"]),
        (&(size / 3).into(), &(2 * size / 3).into())
    );
    for trial in trials(folder.path()) {
        let died = trial["config"]["passes"].as_str().unwrap().starts_with("die");
        assert_eq!(trial["result"]["failed"] == true, died, "{trial}");
        assert_eq!(trial["result"]["error"].as_str().unwrap().contains("signal: 9"), died, "{trial}");
    }
}

#[test]
fn a_baseline_that_does_not_verify_ends_the_session() {
    for passes in ["wrong", "unknown"] {
        let folder = tempfile::tempdir().unwrap();
        let error = run(folder.path(), plan(folder.path(), &[passes])).unwrap_err();
        assert!(matches!(error, SessionError::Baseline(_)), "{error}");
        assert_eq!(error.exit_status(), exit::BASELINE_FAILED);
        assert_eq!(json(folder.path(), "summary.json")["status"], "baseline_failed");
        assert!(!folder.path().join("results/best.json").exists());
    }
    let folder = tempfile::tempdir().unwrap();
    let error = run(folder.path(), plan(folder.path(), &["die 1"])).unwrap_err();
    assert!(matches!(error, SessionError::BaselineUntried(_)), "{error}");
    assert_eq!(error.exit_status(), exit::INTERNAL);
    assert_eq!(json(folder.path(), "summary.json")["status"], "internal_error");
}

#[test]
fn what_the_server_says_before_it_starts_decides_the_status() {
    let folder = tempfile::tempdir().unwrap();
    for (instance, expected) in [("0", exit::BAD_RECORDING), ("69", exit::NO_DEVICE)] {
        let folder = folder.path().join(instance);
        let mut plan = plan(&folder, &["right"]);
        plan.instances[0].command.instance = instance.into();
        assert_eq!(run(&folder, plan).unwrap_err().exit_status(), expected);
    }
    let mut plan = plan(&folder.path().join("none"), &["right"]);
    plan.instances[0].command.program = folder.path().join("no-mneme-replay");
    assert_eq!(run(&folder.path().join("none"), plan).unwrap_err().exit_status(), exit::INTERNAL);
}

#[test]
fn a_block_shape_that_is_refused_twice_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let passes = ["right", "wide 1", "wide 2", "wide 3", "wide 4"];
    assert_eq!(run(folder.path(), one_by_one(plan(folder.path(), &passes), space(&passes))).unwrap(), 0);
    assert_eq!(json(folder.path(), "summary.json")["num_banned"], 0, "each shape was accepted with the first pipeline");
    // A space that begins with another pipeline than the baseline's.
    let refused = |ban| {
        let folder = tempfile::tempdir().unwrap();
        let reversed = Reversed(space(&["right", "wide 1", "wide 2", "wide 3"]));
        let mut plan = one_by_one(plan(folder.path(), &["right"]), reversed);
        plan.settings.ban_refused_blocks = ban;
        assert_eq!(run(folder.path(), plan).unwrap(), if ban { exit::NOTHING_VERIFIED } else { 0 });
        let summary = json(folder.path(), "summary.json");
        (summary["num_invalid_launch"].as_u64().unwrap(), summary["num_banned"].as_u64().unwrap())
    };
    let widths = WIDTHS as u64;
    assert_eq!(refused(false), (3 * widths, 0));
    assert_eq!(refused(true), (2 * widths, 2 * widths));
}

/// A space with its pipelines in reverse order.
struct Reversed(PresetSpace);

impl SearchSpace for Reversed {
    fn parameters(&self) -> &[Parameter] {
        self.0.parameters()
    }

    fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
        let mut point = point.clone();
        let passes = point.get_mut("passes").expect("it is a parameter");
        let Some(Domain::Categorical(values)) = self.parameters().last().map(|parameter| &parameter.domain) else {
            panic!("pipelines")
        };
        let place = values.iter().position(|value| value == passes).expect("it is a value");
        *passes = values[values.len() - 1 - place].clone();
        self.0.ground(&point)
    }

    fn baseline(&self) -> Configuration {
        self.0.baseline()
    }
}

#[test]
fn the_first_failure_ends_a_session_that_is_to_fail_fast() {
    let folder = tempfile::tempdir().unwrap();
    let passes = ["right", "unknown"];
    let mut plan = one_by_one(plan(folder.path(), &passes), space(&passes));
    plan.settings.replay.fail_fast = true;
    assert_eq!(run(folder.path(), plan).unwrap(), exit::NOTHING_VERIFIED);
    let summary = json(folder.path(), "summary.json");
    assert_eq!(
        (&summary["status"], &summary["num_trials_completed"]),
        (&Value::from("stopped_at_failure"), &Value::from(2))
    );
    assert_eq!(json(folder.path(), "best.json")["trial"], 0);
}

#[test]
fn trials_and_time_are_limits() {
    let folder = tempfile::tempdir().unwrap();
    let mut limited = plan(folder.path(), &["right", "good"]);
    limited.settings.search.trials = Some(5);
    assert_eq!(run(folder.path(), limited).unwrap(), 0);
    assert_eq!(trials(folder.path()).len(), 5);
    assert_eq!(json(folder.path(), "summary.json")["num_trials_requested"], 5);
    let folder = tempfile::tempdir().unwrap();
    let mut limited = plan(folder.path(), &["right", "good"]);
    limited.settings.search.timeout = Some(1e-9);
    assert_eq!(run(folder.path(), limited).unwrap(), exit::NOTHING_VERIFIED);
    assert_eq!(
        (trials(folder.path()).len(), json(folder.path(), "summary.json")["num_trials_completed"].as_u64()),
        (0, Some(0))
    );
}

#[test]
fn hopeless_candidates_are_given_up_after_their_first_run() {
    /// Everything slower than this many nanoseconds.
    struct Slower(f64);

    impl EarlyStop for Slower {
        fn hopeless(&mut self, _: &Point, metric: f64) -> bool {
            metric > self.0
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let with = |resume| {
        let mut plan = Plan { early_stop: Some(Box::new(Slower(996.0))), ..plan(folder.path(), &["right"]) };
        plan.settings.resume = resume;
        plan
    };
    assert_eq!(run(folder.path(), with(false)).unwrap(), 0);
    // In the first run, widths 1, 2 and 3 take 1000 ns minus their width; 4 and 5 take 996 and 995.
    let stopped: Vec<u64> = trials(folder.path())
        .iter()
        .filter(|trial| trial["stopped"].is_f64())
        .map(|trial| trial["config"]["block"]["x"].as_u64().unwrap())
        .collect();
    assert_eq!(stopped, [1, 2, 3]);
    let summary = json(folder.path(), "summary.json");
    assert_eq!((&summary["num_stopped"], &summary["num_verified"]), (&Value::from(3), &Value::from(7)));
    assert_eq!(json(folder.path(), "best.json")["config"]["block"]["x"], 8);
    assert_eq!(run(folder.path(), with(true)).unwrap(), 0);
    assert_eq!(json(folder.path(), "summary.json")["num_stopped"], 3);
}
