//! The program of the recorder's differential test, for any number of sequences.
//!
//! It runs batches of random sequences of driver calls plain, recorded and replayed. It writes progress to standard
//! error and the result as JSON to standard output. The status is 1 if a sequence failed.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mneme_e2e::differential::{Batch, Processes, Report, workers};
use mneme_e2e::installation::TestDevice;
use mneme_system::exit;
use serde_json::json;

const USAGE: &str = "differential [--from SEED] [--count N | --seconds S] [--devices 1|2] [--batch N] [--graphs default|expand] [--processes one|same-ids|users] [--replays N] [--skip STEP,…] [--without NAME,…] [--keep FOLDER] [--no-shrink]

Runs N sequences (1000 where nothing is said), or as many as S seconds allow, from SEED (0) on, --batch of them (200, on GPUs 25) in a process. The result names the seed to go on with. All
recorded launches are replayed, with --replays only so many of each batch. Of a sequence that fails the smallest form that still fails is looked for, and the command that repeats it is told. Of eight batches one runs in processes that have the same ids, which takes root, and one in those of two users, unless --processes says which. --without leaves out steps by their names,
e.g. 'cancel,jump out', and with 'exec' that programs replace themselves. --keep keeps the recording
of a batch of which a launch does not replay.";

struct Options {
    from: u64,
    count: Option<u64>,
    seconds: Option<u64>,
    devices: u32,
    batch: u64,
    /// Applies to every batch. Without it, batches alternate.
    expands_graphs: Option<bool>,
    /// Applies to every batch. Without it, batches take turns.
    processes: Option<Processes>,
    skipped: Vec<u64>,
    without: String,
    replays: usize,
    kept: Option<PathBuf>,
    shrinks: bool,
}

fn options() -> Option<Options> {
    let mut options = Options {
        from: 0,
        count: None,
        seconds: None,
        devices: 1,
        // A process of the plain run must finish within the time limit of a command, even if creating a context takes a
        // second.
        batch: if TestDevice::under_test() == TestDevice::Cuda { 25 } else { 200 },
        expands_graphs: None,
        processes: None,
        skipped: Vec::new(),
        without: String::new(),
        replays: 1 << 20,
        kept: None,
        shrinks: true,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--no-shrink" {
            options.shrinks = false;
            continue;
        }
        let value = arguments.next()?;
        match name.as_str() {
            "--from" => options.from = value.parse().ok()?,
            "--count" => options.count = Some(value.parse().ok()?),
            "--seconds" => options.seconds = Some(value.parse().ok()?),
            "--devices" => options.devices = value.parse().ok().filter(|count| (1..=2).contains(count))?,
            "--batch" => options.batch = value.parse().ok().filter(|count| *count > 0)?,
            "--replays" => options.replays = value.parse().ok().filter(|count| *count <= 1 << 20)?,
            "--keep" => options.kept = Some(value.into()),
            "--graphs" => {
                options.expands_graphs = Some(["default", "expand"].iter().position(|known| *known == value)? == 1)
            }
            "--processes" => options.processes = Some(Processes::ALL.into_iter().find(|known| known.name() == value)?),
            "--without" => options.without = value,
            "--skip" => options.skipped = value.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?,
            _ => return None,
        }
    }
    Some(options)
}

/// The number of failures after which the program stops.
const MOST_FAILURES: usize = 20;

fn main() {
    let Some(options) = options() else {
        eprintln!("usage: {USAGE}");
        std::process::exit(exit::BAD_USAGE);
    };
    let start = Instant::now();
    let limit = options.seconds.map(Duration::from_secs);
    let end = options.from + options.count.unwrap_or(if limit.is_some() { u64::MAX - options.from } else { 1000 });
    let (mut from, mut total, mut failures) = (options.from, Report::default(), Vec::new());
    while from < end && failures.len() < MOST_FAILURES && limit.is_none_or(|limit| start.elapsed() < limit) {
        let batch = Batch {
            from,
            count: options.batch.min(end - from),
            devices: options.devices,
            expands_graphs: options.expands_graphs.unwrap_or(from / options.batch % 2 == 1),
            processes: options.processes.unwrap_or(match from / options.batch % 8 {
                6 => Processes::SameIds,
                7 => Processes::Users,
                _ => Processes::One,
            }),
            skipped: options.skipped.clone(),
            without: options.without.clone(),
            replays: options.replays,
            kept: options.kept.clone(),
        };
        match batch.run(workers()) {
            Ok(report) => total.add(report),
            Err(failure) => failures.push(describe(&batch, &failure, options.shrinks)),
        }
        from += batch.count;
        progress(&total, failures.len(), start);
    }
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    let Report { sequences, launches, recorded, verified, refused, not_possible } = total;
    let result = json!({
        "from": options.from, "next": from, "devices": options.devices, "sequences": sequences, "launches": launches,
        "recorded": recorded, "verified": verified, "refused": refused, "not_possible": not_possible, "failures": failures, "seconds": start.elapsed().as_secs_f64(),
    });
    println!("{result:#}");
    std::process::exit(i32::from(!failures.is_empty()));
}

fn progress(total: &Report, failures: usize, start: Instant) {
    let mut stderr = std::io::stderr();
    let end = if stderr.is_terminal() { "\r" } else { "\n" };
    let seconds = start.elapsed().as_secs();
    // Standard error may be closed.
    let _ = write!(
        stderr,
        "{} sequences, {} launches replayed verified, {failures} failures, {seconds} s{end}",
        total.sequences, total.verified
    );
}

/// Runs of the reduced failure.
const REPETITIONS: usize = 4;

/// Describes how to repeat a failure with the fewest sequences and steps.
fn describe(batch: &Batch, failure: &mneme_e2e::differential::SequenceFailure, shrinks: bool) -> serde_json::Value {
    let alone = failure.seed.map(|seed| batch.only(seed));
    let alone = alone
        .filter(|alone| alone.count < batch.count || batch.count == 1)
        .filter(|alone| alone.run(workers()).is_err());
    let smallest = match alone {
        Some(alone) if shrinks => alone.shrunk(workers()),
        Some(alone) => alone,
        None => Batch { kept: None, ..batch.clone() },
    };
    let repeat = format!("scripts/differential {}", smallest.arguments());
    // A fault fails every time, a disturbance does not.
    let again: Vec<String> = (0..REPETITIONS).filter_map(|_| smallest.run(workers()).err()).map(|it| it.what).collect();
    let first = &failure.what;
    eprintln!("\n{repeat}\n{first}\n{} of {REPETITIONS} more runs of that fail", again.len());
    json!({ "seed": failure.seed, "repeat": repeat, "what": first, "repetitions": REPETITIONS, "again": again })
}
