//! Finds fresh inputs that can prove something.
//!
//! [`screen`] runs the application's own code on inputs made from seeds, and discards those on which it fails, varies
//! or changes no memory. Code under test runs only on the others, so a failure is its own. After the first input that
//! costs a context, it tries only gentle ones: a kernel that iterates until it has converged may never end on numbers
//! that make no sense.

use std::time::Duration;

use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::exit;
use mneme_system::random;

use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::execute::fresh::{GENTLE, WAYS};
use crate::job::Job;
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// How many contexts may be lost.
const LOSSES: u32 = 2;

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

/// A random seed. The seeds after it make inputs in other ways.
///
/// # Errors
/// The system cannot provide random numbers.
fn first_seed() -> Result<u64, Fatal> {
    // Fewer than 53 bits, because some readers of JSON support no more.
    let number = random::number().map_err(|error| Fatal::new(exit::INTERNAL, format!("no random numbers: {error}")))?;
    Ok((number >> 16) * WAYS)
}

/// Finds `count` inputs, from the seed `first` on (a random one if there is none), with a time limit for each. Finds fewer
/// if most of them are useless.
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
    let first = first.map_or_else(first_seed, Ok)?;
    let mut found = Screened::default();
    let mut losses = 0;
    let seeds = (0..2 * WAYS.max(u64::from(count))).map(|place| first.wrapping_add(place));
    // The first one in any case: with it a result can be repeated.
    let (gentle, usual): (Vec<u64>, Vec<u64>) = seeds.partition(|seed| seed % WAYS == GENTLE && *seed != first);
    for (seed, most) in usual.into_iter().map(|seed| (seed, 1)).chain(gentle.into_iter().map(|seed| (seed, LOSSES))) {
        if found.seeds.len() == count as usize {
            break;
        }
        if losses >= most {
            continue;
        }
        let Some(result) = tried(engine, context, seed, limit)? else { break };
        let is_good = result.status.is_as_recorded()
            && result.evidence.as_ref().is_some_and(|evidence| evidence.fresh_inputs.agreed > 0);
        losses += u32::from(!result.status.is_as_recorded());
        if is_good { found.seeds.push(seed) } else { found.discarded.push(seed) }
    }
    Ok(found)
}

/// Runs the application's own code on an input. `None` if it cannot run.
fn tried(
    engine: &mut Engine<'_>,
    context: &ReplayContext,
    seed: u64,
    limit: Duration,
) -> Result<Option<ReplayResult>, Fatal> {
    for configuration in context.oracles() {
        let mut job = Job::new(u64::MAX, configuration, 1, 0);
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
