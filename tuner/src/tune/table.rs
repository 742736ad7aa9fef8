//! Sessions on a file that has the results of all configurations, without a recording.

use std::path::PathBuf;

use super::{TuneError, inspect, learning};
use crate::evaluator::Evaluator;
use crate::objective::Objectives;
use crate::options::Options;
use crate::results::{Results, default_folder};
use crate::search::Search;
use crate::server::ServerCommand;
use crate::session::{self, Plan, TunedInstance};
use crate::simulate::Simulation;
use crate::space::ResultsTable;

/// Searches the file of `--simulate`.
pub fn tune(options: Options) -> Result<i32, TuneError> {
    let file = options.simulate.clone().unwrap_or_default();
    if options.resume || options.space.is_some() || options.space_module.is_some() {
        let what = "has its own space and nothing to go on with; leave --resume, --space and --space-module out";
        return Err(TuneError::Setting(format!("--simulate {} {what}", file.display())));
    }
    let table = ResultsTable::load(&file)?;
    let folder = options.results_dir.clone().unwrap_or_else(default_folder);
    let settings = Options { results_dir: Some(folder.clone()), ..options }.settled_on_table();
    if settings.mode.inspects() {
        return Ok(inspect(settings.mode, &table.space)?.status);
    }
    let simulation = Simulation::of(&file, &table);
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
        log: results.log_path(),
    };
    let plan = Plan {
        kernel: table.name,
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
