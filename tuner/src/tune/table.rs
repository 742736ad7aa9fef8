//! Sessions on a file with the results of all configurations, without a recording.

use std::path::PathBuf;

use super::{TuneError, inspect, learning};
use crate::evaluator::Evaluator;
use crate::objective::Objectives;
use crate::options::Options;
use crate::results::{Results, SESSIONS, default_folder};
use crate::search::Search;
use crate::server::ServerCommand;
use crate::session::{self, Plan, TunedInstance};
use crate::simulate::Simulation;
use crate::space::ResultsTable;

/// Options that apply without a recording and a device.
const USED: [&str; 13] = [
    "simulate", "sampler", "trials", "seed", "learn_from", "timeout", "objective", "metric", "workers", "fail_fast",
    "keep_going", "results_dir", "quiet",
];

/// Options that were given but do not apply, as the user writes them.
fn unused(options: &Options) -> Vec<String> {
    let said = serde_json::to_value(options).unwrap_or_default();
    let names = said.as_object().into_iter().flat_map(|said| said.keys());
    let unused = names.filter(|name| !USED.contains(&name.as_str()));
    let mut found: Vec<String> = unused.map(|name| format!("--{}", name.replace('_', "-"))).collect();
    found.extend(options.resume.then(|| "--resume".to_owned()));
    found
}

/// Searches the file of `--simulate`.
pub fn tune(options: Options) -> Result<i32, TuneError> {
    let file = options.simulate.clone().unwrap_or_default();
    let unused = unused(&options);
    if !unused.is_empty() {
        let what = "is searched without a recording and a device; leave out";
        return Err(TuneError::Setting(format!("--simulate {} {what} {}", file.display(), unused.join(", "))));
    }
    let table = ResultsTable::load(&file)?;
    let folder = options.results_dir.clone().unwrap_or_else(|| default_folder(SESSIONS));
    let settings = Options { results_dir: Some(folder.clone()), ..options }.settled_on_table();
    if settings.mode.inspects() {
        inspect(&settings, &table.space)?;
        return Ok(0);
    }
    let simulation = Simulation::of(&file, &table);
    if simulation.baseline().is_none() {
        let what = "has no valid configuration with a time, so it cannot be searched";
        return Err(TuneError::Setting(format!("--simulate {} {what}", file.display())));
    }
    let objectives = Objectives::read(&settings.objectives, settings.metric)?;
    let space = Box::new(table.space);
    let sampler = settings.search.sampler.build(&*space, &settings.search.for_sampler(None))?;
    let sampler = learning(&settings.search, sampler)?;
    let (results, known) = Results::open(&folder, false)?;
    results.write(session::CONFIG, settings.written())?;
    let command = ServerCommand {
        program: PathBuf::new(),
        database: file,
        instance: String::new(),
        options: Vec::new(),
        accepts_unproven: false,
        log: results.log_path(),
    };
    let plan = Plan {
        kernel: table.name,
        specializable: Vec::new(),
        instances: vec![TunedInstance { id: "table".into(), weight: 1.0, command }],
        search: Search::new(space, sampler),
        further: Vec::new(),
        verified_on: Vec::new(),
        early_stop: None,
        cache: None,
        objectives,
        bridge: None,
        settings,
    };
    Ok(session::run(plan, Evaluator::simulated(simulation), results, known)?.status)
}
