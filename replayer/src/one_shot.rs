//! Replays one configuration, and prints its result as one JSON object.

use std::io::IsTerminal;
use std::rc::Rc;

use mneme_builds::{BuildOutcome, NotBuilt};
use mneme_model::configuration::Configuration;
use mneme_model::observation::Observe;
use mneme_model::result::{ReplayResult, ReplayStatus, Variation};
use mneme_recording::rules::Rules;
use mneme_system::exit;

use crate::cli::OneShot;
use crate::compilers;
use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::execute::dump;
use crate::execute::message::RunOutcome;
use crate::fresh_inputs;
use crate::job::{Job, JobSchedule};
use crate::process::stdout;
use crate::recording::snapshot::SnapshotRegion;
use crate::report::result::PrintedResult;
use crate::report::{artifacts, observed, summary};
use crate::rounding;
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// How many fresh inputs to use for code other than the recorded kernel's.
const FRESH: u32 = 3;

/// Refuses to observe writes outside of the recorded memory.
fn refuse_elsewhere(regions: &[SnapshotRegion], address: u64, bytes: u64) -> Result<(), Fatal> {
    let has_some = |region: &SnapshotRegion| {
        region.address < address.saturating_add(bytes) && address < region.address + region.size
    };
    if regions.iter().any(has_some) {
        return Ok(());
    }
    let place = observed::nearest(regions, address, bytes);
    Err(Fatal::new(exit::BAD_USAGE, format!("--wrote 0x{address:x}:{bytes} is outside the recorded memory: {place}")))
}

/// Replays the configuration of a command line. Returns the exit status.
pub fn run(options: &OneShot, context: &ReplayContext) -> Result<i32, Fatal> {
    let mut configuration = options.configuration(&context.recorded.recorded_configuration())?;
    // A pipeline on the command line must run, even that of O3, unless --no-lift says otherwise.
    let names_pipeline = options.passes.is_some() && !options.fields.sets("lift");
    configuration.lift |= names_pipeline && context.is_ptx() && !configuration.original;
    configuration.check().map_err(|error| Fatal::new(exit::BAD_USAGE, error))?;
    if options.fields.all_llvms {
        return compilers::run(options, context, &configuration);
    }
    if let Some(Observe::Writes { address, bytes }) = options.observation.wrote {
        refuse_elsewhere(&context.snapshot.layout.regions, address, u64::from(bytes))?;
    }
    if let Some(folder) = &options.dump_diff {
        let unwritable =
            |error| Fatal::new(exit::BAD_USAGE, format!("{} cannot be written to: {error}", folder.display()));
        dump::prepare(folder).map_err(unwritable)?;
    }
    if let Some(folder) = &options.output_dir {
        artifacts::prepare(folder, options.code.file().as_ref())?;
    }
    let Replayed { result, outcome, unwritten } = match &context.unbuilt {
        Some(unbuilt) => without_code(options, &configuration, unbuilt),
        None => replay(options, context, &configuration)?,
    };
    if let Some(folder) = &options.output_dir {
        artifacts::write_all(folder, outcome.as_deref(), context.is_cpu())?;
    }
    artifacts::write_texts(options.output_ll.as_deref(), options.output_ptx.as_deref(), outcome.as_deref())?;
    if result.status == ReplayStatus::InvalidConfig {
        return Err(Fatal::new(exit::BAD_USAGE, result.error));
    }
    // Suppressed accesses may have changed memory, and instrumented code may round differently.
    let is_observed = result.faults.is_some() || result.touched.is_some();
    let is_no_wonder =
        is_observed && matches!(result.status, ReplayStatus::FailedVerification | ReplayStatus::Unproven);
    if !result.error.is_empty() && !is_no_wonder {
        mneme_system::remark!("mneme-replay: {}", result.error);
    }
    if let Some(rounding) = &result.rounding {
        mneme_system::remark!("mneme-replay: {}", rounding.sentence());
    }
    if !result.counters_reason.is_empty() {
        mneme_system::remark!("mneme-replay: cannot count hardware counters: {}", result.counters_reason);
    }
    if let Some(variations) = &result.variations {
        mneme_system::remark!("{}", crate::report::variations::text(variations, result.exec_time.len()));
        if options.write_tolerances {
            write_tolerances(context, variations)?;
        }
    }
    if let Some(faults) = &result.faults {
        mneme_system::remark!("{}", observed::text(faults));
    }
    if let Some(touched) = &result.touched {
        let recorded = context.snapshot.layout.regions.iter().map(|region| region.size).sum();
        mneme_system::remark!("{}", observed::touched_text(touched, recorded));
    }
    if options.observation.wrote.is_some() && result.executed {
        let nothing = || "the kernel wrote none of these bytes".to_owned();
        mneme_system::remark!("{}", result.last_write.as_ref().map_or_else(nothing, observed::last_write_text));
    }
    if let Some(hint) = result.hint_at_check().filter(|_| result.faults.is_none()) {
        mneme_system::remark!("mneme-replay: {hint}");
    }
    let printed = PrintedResult { configuration: &configuration, result: &result };
    let is_for_people = !options.json && stdout::descriptor().is_terminal();
    let text = if is_for_people {
        summary::text(&context.recorded.kernel.demangled_name, &configuration, &result)
    } else {
        serde_json::to_string_pretty(&printed).expect("plain data serialises") + "\n"
    };
    stdout::write(text.as_bytes())?;
    if let Some(error) = unwritten {
        return Err(Fatal::new(exit::INTERNAL, error));
    }
    // In a search this is a failed build, but here the user has mistyped a pipeline.
    if outcome.is_some_and(|outcome| outcome.as_ref().as_ref().is_err_and(|failed| failed.is_no_pipeline)) {
        return Ok(exit::BAD_USAGE);
    }
    // An observation ends with its own status, independent of the memory.
    Ok(match &result.faults {
        Some(faults) if faults.findings.is_empty() => exit::VERIFIED,
        Some(_) => exit::NOT_VERIFIED,
        None if is_no_wonder => exit::VERIFIED,
        None => result.status.exit_status(),
    })
}

/// The outcome of the configuration.
struct Replayed {
    result: ReplayResult,
    outcome: Option<Rc<BuildOutcome>>,
    unwritten: Option<String>,
}

/// The result if the replacement source did not compile.
fn without_code(options: &OneShot, configuration: &Configuration, unbuilt: &NotBuilt) -> Replayed {
    let job = Job::new(0, configuration.clone(), options.runs.iterations, options.runs.warmup);
    let done = RunOutcome { status: unbuilt.status, error: unbuilt.error.clone(), ..RunOutcome::default() };
    let outcome = Err(unbuilt.clone());
    let result = crate::report::result::result(&jiff::Timestamp::now(), &job, Some(&outcome), &done, None, &[], "");
    Replayed { result, outcome: Some(Rc::new(outcome)), unwritten: None }
}

fn replay(options: &OneShot, context: &ReplayContext, configuration: &Configuration) -> Result<Replayed, Fatal> {
    let mut engine = Engine::start(context)?;
    // In a survey, every run is measured.
    let (iterations, warmup) = options.repeat.map_or((options.runs.iterations, options.runs.warmup), |runs| (runs, 0));
    // Times of instrumented code are meaningless.
    let observe = options.observation.observe();
    let (iterations, warmup) = if observe.is_some() { (1, 0) } else { (iterations, warmup) };
    let mut job = Job::new(0, configuration.clone(), iterations, warmup).observing(observe);
    job.run.counters.clone_from(&options.counters);
    let can_be_fresh = observe.is_none() && options.repeat.is_none();
    let is_foreign = options.code.file().is_some();
    job.run.thorough = is_foreign && can_be_fresh;
    job.run.needs_fresh_input = job.run.thorough && options.fresh != Some(0);
    let plain = (!is_foreign && can_be_fresh).then(|| job.clone());
    let mut replayed = match options.fresh.or(is_foreign.then_some(FRESH)).filter(|count| *count > 0 && can_be_fresh) {
        Some(count) => on_fresh_inputs(options, context, &mut engine, job, count)?,
        None => one(&mut engine, job)?,
    };
    if let Some(job) = plain {
        replayed.result.rounding = rounding::explain(&mut engine, context, &job, &replayed.result)?;
    }
    engine.leave();
    Ok(replayed)
}

/// Replays on the recorded input, then on fresh ones.
fn on_fresh_inputs(
    options: &OneShot,
    context: &ReplayContext,
    engine: &mut Engine<'_>,
    mut job: Job,
    count: u32,
) -> Result<Replayed, Fatal> {
    let inputs = fresh_inputs::screen(engine, context, options.fresh_seed, count, context.limit)?;
    job.run.fresh_inputs.clone_from(&inputs.seeds);
    job.schedule = JobSchedule { id: 0, fresh: true, ..job.schedule };
    let mut replayed = one(engine, job)?;
    inputs.complete(&mut replayed.result);
    Ok(replayed)
}

fn one(engine: &mut Engine<'_>, job: Job) -> Result<Replayed, Fatal> {
    engine.submit(job);
    loop {
        if let SupervisorEvent::Finished { result, outcome, unwritten, .. } = engine.next(Client::default())? {
            return Ok(Replayed { result: *result, outcome, unwritten });
        }
    }
}

fn write_tolerances(context: &ReplayContext, variations: &[Variation]) -> Result<(), Fatal> {
    let (written, left) = crate::report::variations::write(&context.recorded, variations)
        .map_err(|error| Fatal::new(exit::BAD_RECORDING, format!("cannot write the tolerances: {error}")))?;
    for rule in &written {
        mneme_system::remark!("from now on {} is compared as {}", rule.memory, rule.tolerance);
    }
    if !written.is_empty() {
        mneme_system::remark!("written to {}", Rules::path(&context.recorded.database).display());
    }
    for variation in left {
        mneme_system::remark!(
            "the {} elements at {} are not floating-point numbers, so no tolerance was written; to set one yourself, see --tolerance",
            variation.dtype,
            variation.address
        );
    }
    Ok(())
}
