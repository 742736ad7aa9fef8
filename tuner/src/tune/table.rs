//! Sessions on a file that has the results of all configurations, without a recording.

use std::path::PathBuf;

use super::{TuneError, inspect};
use crate::evaluator::Evaluator;
use crate::metric::Metric;
use crate::objective::Objectives;
use crate::options::Options;
use crate::results::{Results, default_folder};
use crate::sampler::{Kind, Settings};
use crate::search::Search;
use crate::server::ServerCommand;
use crate::session::{self, Instance, Plan};
use crate::simulate::Simulation;
use crate::space::Table;

/// Searches the file of `--simulate`.
pub fn tune(options: Options) -> Result<i32, TuneError> {
    let file = options.simulate.clone().unwrap_or_default();
    if options.resume || options.space.is_some() || options.space_module.is_some() {
        let what = "has its own space and nothing to go on with; leave --resume, --space and --space-module out";
        return Err(TuneError::Setting(format!("--simulate {} {what}", file.display())));
    }
    let table = Table::load(&file)?;
    if options.print_space || options.dry_run {
        return Ok(inspect(&options, &table.space)?.status);
    }
    let simulation = Simulation::of(&file, &table);
    let folder = options.results_dir.clone().unwrap_or_else(default_folder);
    // Neither the built-in space nor Proteus has a part in it.
    let options = Options { results_dir: Some(folder.clone()), space: Some(file.clone()), ..options };
    let options = Options { space: None, no_proteus_output: Some(true), ..options.settled() };
    let objectives = Objectives::read(&options.objective, options.metric.unwrap_or(Metric::Mean))?;
    let kind = options.sampler.unwrap_or(Kind::of_trials(options.trials));
    let trials = options.trials.map(|trials| usize::try_from(trials).unwrap_or(usize::MAX));
    let space = Box::new(table.space);
    let sampler = kind.build(&*space, &Settings { seed: options.seed.unwrap_or(0), trials, start: None })?;
    let (results, known) = Results::open(&folder, false)?;
    results.write(session::CONFIG, &options)?;
    let command = ServerCommand {
        program: PathBuf::new(),
        database: file,
        instance: String::new(),
        options: Vec::new(),
        log: results.log_path(),
    };
    let plan = Plan {
        kernel: table.name,
        instances: vec![Instance { id: "table".into(), weight: 1.0, command }],
        search: Search::new(space, sampler),
        further: Vec::new(),
        verified_on: Vec::new(),
        early_stop: None,
        cache: None,
        objectives,
        bridge: None,
        options,
    };
    Ok(session::run(plan, Evaluator::simulated(simulation), results, known)?.status)
}
