//! Runs samplers over tables of results with many seeds, and prints their results as JSON.
//!
//! `score [--samplers auto,tpe] [--seeds N] [--first-seed N] [--trials N] FILE…` prints a line for each sampler and
//! file: the best time after each evaluation by seed (failed points count, rejected ones do not), rejected points, and
//! the processor time of a proposal.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use mneme_model::result::ReplayStatus;
use mneme_tuner::sampler::{SamplerKind, SamplerSettings, TrialOutcome};
use mneme_tuner::search::{Next, Search};
use mneme_tuner::space::{ResultsTable, SearchSpace};
use serde_json::json;

/// Runs samplers over tables of results.
#[derive(Parser)]
struct Options {
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[arg(long, value_delimiter = ',', default_value = "auto")]
    samplers: Vec<String>,
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    #[arg(long, default_value_t = 400)]
    trials: usize,
}

/// Processor time of this process, seconds.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    for file in &options.files {
        let table = ResultsTable::load(file)?;
        let key = |point: &mneme_tuner::space::Point| serde_json::to_string(point).expect("plain data serialises");
        let times: HashMap<String, Option<f64>> =
            table.results.iter().map(|(point, outcome)| (key(point), outcome.as_ref().ok().copied())).collect();
        let name = table.name.clone();
        let mut listed: Vec<f64> = times.values().flatten().copied().collect();
        listed.sort_by(f64::total_cmp);
        for sampler in &options.samplers {
            let kind = SamplerKind::from_str(sampler, true)?;
            let (mut curves, mut rejected, mut seconds, mut proposals) = (Vec::new(), Vec::new(), 0.0, 0u64);
            for seed in options.first_seed..options.first_seed + options.seeds {
                let space = Box::new(ResultsTable::load(file)?.space) as Box<dyn SearchSpace>;
                let built =
                    kind.build(&*space, &SamplerSettings { seed, trials: Some(options.trials), start: None })?;
                let mut search = Search::new(space, built);
                let (mut best, mut curve) = (None::<f64>, Vec::new());
                while curve.len() < options.trials {
                    let before = processor_seconds();
                    let next = search.propose();
                    seconds += processor_seconds() - before;
                    proposals += 1;
                    let Next::Try(candidate) = next else { break };
                    let time = times.get(&key(&candidate.point)).copied().flatten();
                    best = time.map(|time| best.unwrap_or(time).min(time)).or(best);
                    curve.push(best);
                    let outcome = time.map_or(TrialOutcome::Failed(ReplayStatus::InvalidConfig), |time| {
                        TrialOutcome::Measured(vec![time])
                    });
                    search.tell(candidate.number, outcome);
                }
                curves.push(curve);
                rejected.push(search.rejected());
            }
            let line = json!({
                "file": file, "name": name, "sampler": sampler, "points": times.len(), "times": listed, "curves": curves,
                "rejected": rejected, "seconds_per_proposal": seconds / proposals.max(1) as f64,
            });
            println!("{line}");
        }
    }
    Ok(())
}
