//! A device, and the executors that stand by on it.

use std::time::{Duration, Instant};

use mneme_core::device::{Description, Interface};
use mneme_core::exit;

use crate::context::ReplayContext;
use crate::context::device::Choice;
use crate::context::settings::Isolation;
use crate::error::Fatal;
use crate::execute::ExecutorPlan;
use crate::execute::executor::Executor;
use crate::execute::message::StartError;
use crate::execute::timing::Timing;

/// Executors that may die in a row without having run anything.
const START_ATTEMPTS: u32 = 3;
/// Work after which an executor gets a standby: one that is started sooner would slow down a short session's own start.
const STANDBY_AFTER: Duration = Duration::from_secs(1);
/// Executors started ahead where each runs one configuration. Drivers create contexts one after the other, so more gain
/// nothing.
const AHEAD: usize = 3;
/// An executor holds the recorded memory and copies of what changes; this many times the recorded memory is room enough
/// for one at work, one that stands by and one that is on its way out.
const ROOM: u64 = 6;

pub struct PoolDevice {
    choice: Choice,
    pub standbys: Vec<Executor>,
    failed_starts: u32,
    /// When it was first ready.
    ready_since: Option<Instant>,
    /// Some executor was lost to a kernel.
    pub lost: bool,
    pub description: Option<Description>,
    /// A standby found that it cannot be: others need the memory, or the driver hangs. What works goes on working.
    pub crowded: bool,
    /// Why kernels are timed by events from now on, although the best is asked for.
    untimed: Option<String>,
}

impl PoolDevice {
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            standbys: Vec::new(),
            failed_starts: 0,
            ready_since: None,
            lost: false,
            description: None,
            crowded: false,
            untimed: None,
        }
    }

    pub fn ordinal(&self) -> i32 {
        self.choice.ordinal()
    }

    /// Several executors find room on the device.
    pub fn has_room(&self, context: &ReplayContext) -> bool {
        let needed = context.snapshot.layout.memory_bytes().saturating_mul(ROOM);
        self.description.as_ref().is_some_and(|description| needed <= description.memory)
    }

    /// Executors that should stand by.
    pub fn wanted_standbys(&self, context: &ReplayContext) -> usize {
        if !context.standby || self.crowded || !self.has_room(context) {
            return 0;
        }
        match context.isolation {
            Isolation::Process => AHEAD,
            _ => usize::from(self.lost || self.ready_since.is_some_and(|since| since.elapsed() >= STANDBY_AFTER)),
        }
    }

    pub fn start_executor(&self, context: &ReplayContext) -> std::io::Result<Executor> {
        Executor::start(&ExecutorPlan {
            interface: self.choice.interface(),
            library: context.library.clone(),
            ordinal: self.choice.ordinal(),
            timing: self.untimed.clone().map_or_else(|| context.timing.clone(), Timing::Without),
            is_cpu: self.choice.is_cpu(),
            processor: context.recorded.kernel.ours.processor(),
            snapshot: &context.snapshot,
            bounds: &context.bounds,
            not_searched: &context.not_searched,
            arguments: &context.arguments,
            dump: context.dump.as_deref(),
            quiet: context.quiet,
        })
    }

    /// Takes the executor that stands by, one that is ready if there is any.
    pub fn take_standby(&mut self) -> Option<Executor> {
        let ready = self.standbys.iter().position(|standby| standby.ready);
        let best = ready.or(if self.standbys.is_empty() { None } else { Some(0) })?;
        Some(self.standbys.swap_remove(best))
    }

    pub fn describe(&mut self, description: &Description) {
        self.description.get_or_insert_with(|| description.clone());
    }

    pub fn was_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    pub fn became_ready(&mut self) {
        self.works();
        self.ready_since.get_or_insert_with(Instant::now);
    }

    /// Some executor did what it was told.
    pub fn works(&mut self) {
        self.failed_starts = 0;
    }

    /// An executor ended without having run anything; an error where that is so again and again.
    pub fn failed_to_start(&mut self, how: &str, context: &ReplayContext) -> Result<(), Fatal> {
        self.failed_starts += 1;
        // A library that nobody has asked for must not keep the device from being used.
        if context.timing.is_best() && self.choice.interface() == Interface::Hip && !self.was_ready() {
            self.untimed.get_or_insert_with(|| format!("a process that was to be timed by rocprofiler-sdk {how}"));
        }
        if self.failed_starts < START_ATTEMPTS {
            return Ok(());
        }
        Err(Fatal::new(exit::NO_DEVICE, format!("the device cannot be used: the process that opens it {how}")))
    }

    /// Why nothing can run here. `greeted` tells that another process could not go on where this one stops.
    pub fn unfit(&self, unfit: StartError, context: &ReplayContext, greeted: bool) -> Fatal {
        match unfit {
            StartError::Clash(error) => Fatal {
                clash: !greeted,
                ..Fatal::new(exit::NO_DEVICE, format!("the recording cannot be placed: {error}"))
            },
            StartError::Device(error) if self.was_ready() => {
                Fatal::new(exit::NO_DEVICE, format!("the device was lost: {error}"))
            }
            StartError::Device(error) => Fatal::new(exit::NO_DEVICE, self.choice.explain(&error, &context.recorded)),
        }
    }
}
