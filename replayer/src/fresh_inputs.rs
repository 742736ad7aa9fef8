//! Finds fresh inputs that can prove something.
//!
//! [`screen`] runs the application's own code on inputs made from seeds, and discards those on which it fails, varies
//! or changes no memory. Code under test runs only on the others, so a failure is its own.

use std::time::Duration;

use mneme_model::fresh::{InputTrial, SeedChoice};
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::exit;
use mneme_system::random;

use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::job::Job;
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// The seeds of useful inputs, and those of discarded ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Screened {
    pub seeds: Vec<u64>,
    pub discarded: Vec<u64>,
}

impl Screened {
    /// Counts the discarded inputs in the evidence of a result.
    pub fn complete(&self, result: &mut ReplayResult) {
        if let Some(evidence) = &mut result.evidence {
            let found = &mut evidence.fresh_inputs;
            found.tried += self.discarded.len() as u32;
            found.discarded += self.discarded.len() as u32;
            found.seeds.extend(&self.discarded);
        }
    }
}

/// Finds `count` inputs, from the seed `first` on (or from a random one), with a time limit for each. Finds fewer if
/// most of them are useless.
///
/// # Errors
/// Errors that end a replay.
pub fn screen(
    engine: &mut Engine<'_>,
    context: &ReplayContext,
    first: Option<u64>,
    count: u32,
    limit: Duration,
) -> Result<Screened, Fatal> {
    if count == 0 {
        return Ok(Screened::default());
    }
    let random = || random::number().map_err(|error| Fatal::new(exit::INTERNAL, format!("no random numbers: {error}")));
    let mut choice = SeedChoice::new(first.map_or_else(|| random().map(SeedChoice::start), Ok)?, count);
    while let Some(seed) = choice.next_seed() {
        let Some(result) = tried(engine, context, seed, limit)? else { break };
        choice.note(seed, InputTrial::of([&result]));
    }
    Ok(Screened { seeds: choice.useful, discarded: choice.discarded })
}

/// Runs the application's own code on an input. `None` if it cannot run.
fn tried(
    engine: &mut Engine<'_>,
    context: &ReplayContext,
    seed: u64,
    limit: Duration,
) -> Result<Option<ReplayResult>, Fatal> {
    for build in context.oracles() {
        let mut job = Job::new(u64::MAX, build.configuration.clone(), 1, 0);
        job.build = build;
        job.schedule.fresh = true;
        job.run.limit = Some(limit);
        job.run.fresh_inputs = vec![seed];
        engine.submit(job);
        let result = loop {
            if let SupervisorEvent::Finished { result, .. } = engine.next(Client::default())? {
                break result;
            }
        };
        let is_built = !matches!(
            result.status,
            ReplayStatus::InvalidConfig | ReplayStatus::CompileError | ReplayStatus::InternalError
        );
        if is_built {
            return Ok(Some(*result));
        }
    }
    Ok(None)
}
