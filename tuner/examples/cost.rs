//! Measures the processor time of a proposal in short and long searches.
//!
//! `cost [--samplers auto,tpe] [--trials 1000,5000] [--seeds N]` prints a table in Markdown. The space has about
//! 100,000 valid points; times are made up, and one point in twenty fails. The first proposal, which enumerates the
//! valid points, has its own column.
//!
//! `cost --enumerate FILE…` enumerates the valid points of Kernel Tuner caches, T4 files, or files with only parameters
//! and a list of valid points, and prints the cost.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use mneme_model::result::ReplayStatus;
use mneme_tuner::sampler::{SamplerKind, SamplerSettings, TrialOutcome};
use mneme_tuner::search::{Next, Search};
use mneme_tuner::space::{Feasible, Point, ResultsTable, SearchSpace};
use serde_json::json;

/// Measures the processor time of a proposal.
#[derive(Parser)]
struct Options {
    #[arg(long, value_delimiter = ',', default_value = "auto,tpe")]
    samplers: Vec<String>,
    #[arg(long, value_delimiter = ',', default_value = "1000,5000")]
    trials: Vec<usize>,
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    #[arg(long, num_args = 1.., value_name = "FILE")]
    enumerate: Vec<PathBuf>,
}

/// Enumerates the valid points of files.
fn enumerate(files: &[PathBuf]) -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "| space | points | valid | ms | CPU, ms | peak memory more, MiB |\n| --- | --- | --- | --- | --- | --- |"
    );
    for file in files {
        let table = ResultsTable::load(file)?;
        let (before, memory, start) = (processor_seconds(), peak_memory(), Instant::now());
        let valid = Feasible::of(&table.space).and_then(|valid| valid.size()).unwrap_or(0);
        let (wall, cpu) = (1e3 * start.elapsed().as_secs_f64(), 1e3 * (processor_seconds() - before));
        let points: f64 =
            table.space.parameters().iter().filter_map(|it| it.domain.size()).map(|it| it as f64).product();
        let more = (peak_memory() - memory) as f64 / 1024.0;
        println!("| {} | {points:.0} | {valid} | {wall:.1} | {cpu:.1} | {more:.1} |", table.name);
    }
    Ok(())
}

/// Peak memory of this process, KiB.
fn peak_memory() -> i64 {
    // SAFETY: plain data, which the call fills.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage.ru_maxrss
    }
}

/// A space of shapes, tiles and switches, like those of kernels.
fn space() -> Result<Box<dyn SearchSpace>, Box<dyn std::error::Error>> {
    let powers = |last: u32| (0..=last).map(|power| 1 << power).collect::<Vec<u32>>();
    let numbers = |last: u32| (1..=last).collect::<Vec<u32>>();
    let values = [powers(10), powers(5), numbers(10), numbers(10), numbers(16), vec![0, 1], powers(2)];
    let points = values.iter().fold(vec![Vec::new()], |begun, values| {
        let more = |begun: Vec<u32>| values.iter().map(move |value| [&begun[..], &[*value]].concat());
        begun.into_iter().flat_map(more).collect()
    });
    let valid: Vec<Vec<u32>> = points
        .into_iter()
        .filter(|point| {
            let [block_x, block_y, tile_x, tile_y, _, staged, vector] = point[..] else { return false };
            let shared = (block_x * tile_x + 4) * (block_y * tile_y + 4) * (1 + staged);
            (32..=1024).contains(&(block_x * block_y)) && tile_x % vector == 0 && shared <= 8192
        })
        .collect();
    let mut file = tempfile::NamedTempFile::new()?;
    let content = json!({
        "name": "cost", "keys": ["block_x", "block_y", "tile_x", "tile_y", "unroll", "staged", "vector"],
        "values": values, "valid": valid, "times": {},
    });
    file.write_all(content.to_string().as_bytes())?;
    Ok(Box::new(ResultsTable::load(file.path())?.space))
}

/// The outcome of a point: a basin in each parameter, and a random share that no model can learn.
fn outcome(point: &Point) -> TrialOutcome {
    let mut hasher = DefaultHasher::new();
    point.hash(&mut hasher);
    let chance = hasher.finish() as f64 / u64::MAX as f64;
    if chance < 0.05 {
        return TrialOutcome::Failed(ReplayStatus::InvalidConfig);
    }
    let place = |name: &str| (point[name].as_f64().expect("a number") + 1.0).log2();
    let slopes =
        [("block_x", 6.0), ("block_y", 2.0), ("tile_x", 2.5), ("tile_y", 1.5), ("unroll", 2.0), ("vector", 1.0)];
    let basins: f64 = slopes.iter().map(|(name, best)| (place(name) - best).powi(2)).sum();
    TrialOutcome::Measured(vec![1.0 + basins + 0.1 * chance])
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
    if !options.enumerate.is_empty() {
        return enumerate(&options.enumerate);
    }
    let longest = options.trials.iter().copied().max().unwrap_or(0);
    println!("{} valid points\n", Feasible::of(&*space()?).and_then(|valid| valid.size()).unwrap_or(0));
    println!(
        "| sampler | trials | CPU a proposal, ms | of the last hundred | first |\n| --- | --- | --- | --- | --- |"
    );
    for sampler in &options.samplers {
        let kind = SamplerKind::from_str(sampler, true)?;
        // Milliseconds by proposal, summed over the seeds.
        let mut spent = vec![0.0; longest];
        for seed in 0..options.seeds {
            let space = space()?;
            let built = kind.build(&*space, &SamplerSettings { seed, trials: Some(longest), start: None })?;
            let mut search = Search::new(space, built);
            for spent in &mut spent {
                let before = processor_seconds();
                let next = search.propose();
                *spent += 1e3 * (processor_seconds() - before) / options.seeds as f64;
                let Next::Try(candidate) = next else { return Err("the space is too small".into()) };
                search.tell(candidate.number, outcome(&candidate.point));
            }
        }
        let mean = |spent: &[f64]| spent.iter().sum::<f64>() / spent.len().max(1) as f64;
        for trials in &options.trials {
            let (all, last) = (&spent[1..*trials], &spent[trials.saturating_sub(100).max(1)..*trials]);
            println!("| {sampler} | {trials} | {:.2} | {:.2} | {:.0} |", mean(all), mean(last), spent[0]);
        }
    }
    Ok(())
}
