//! A device, and the executors that stand by on it.

use std::time::{Duration, Instant};

use mneme_device::Interface;
use mneme_model::device::Description;
use mneme_system::exit;

use crate::context::ReplayContext;
use crate::context::device::Choice;
use crate::context::settings::Isolation;
use crate::context::timing::Timing;
use crate::error::Fatal;
use crate::execute::ExecutorPlan;
use crate::execute::executor::Executor;
use crate::execute::message::StartError;

/// How many executors in a row may die without having run a configuration.
const START_ATTEMPTS: u32 = 3;
/// After how much work an executor gets a standby. Starting one sooner would slow a short session's start.
const STANDBY_AFTER: Duration = Duration::from_secs(1);
/// How many executors are started ahead if each runs one configuration. Drivers create contexts one after the other, so
/// more bring no gain.
const AHEAD: usize = 3;
/// How many times the recorded memory a device needs for several executors: one working, one standing by and one
/// ending. Each holds the recorded memory and copies of the changed parts.
const ROOM: u64 = 6;

pub struct PoolDevice {
    choice: Choice,
    pub standbys: Vec<Executor>,
    failed_starts: u32,
    /// When it was first ready.
    ready_since: Option<Instant>,
    /// A kernel has cost an executor.
    pub lost: bool,
    pub description: Option<Description>,
    /// A standby could not start: others need the memory, or the driver hangs. Working executors continue.
    pub crowded: bool,
    /// Why kernels are timed by events from now on, although the best timer is requested.
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

    /// Whether several executors fit on the device.
    pub fn has_room(&self, context: &ReplayContext) -> bool {
        let needed = context.snapshot.layout.memory_bytes().saturating_mul(ROOM);
        self.description.as_ref().is_some_and(|description| needed <= description.memory)
    }

    /// How many executors should stand by.
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

    /// Takes an executor that stands by, preferably a ready one.
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

    /// Notes that some executor did its work.
    pub fn works(&mut self) {
        self.failed_starts = 0;
    }

    /// Notes that an executor ended without having run a configuration. Returns an error if that keeps happening.
    pub fn failed_to_start(&mut self, how: &str, context: &ReplayContext) -> Result<(), Fatal> {
        self.failed_starts += 1;
        // A timing library that the user did not request must not prevent using the device.
        if context.timing.is_best() && !self.was_ready() {
            let library = if self.choice.interface() == Interface::Hip { "rocprofiler-sdk" } else { "CUPTI" };
            self.untimed.get_or_insert_with(|| format!("a process with timing by {library} {how}"));
        }
        if self.failed_starts < START_ATTEMPTS {
            return Ok(());
        }
        Err(Fatal::new(exit::NO_DEVICE, format!("cannot use the device: the process that opens it {how}")))
    }

    /// The error that prevents all runs. `greeted` tells that another process could not continue the session.
    pub fn unfit(&self, unfit: StartError, context: &ReplayContext, greeted: bool) -> Fatal {
        match unfit {
            StartError::Clash(error) => Fatal {
                clash: !greeted,
                ..Fatal::new(exit::NO_DEVICE, format!("cannot place the recording in memory: {error}"))
            },
            StartError::Device(error) if self.was_ready() => {
                Fatal::new(exit::NO_DEVICE, format!("the device was lost: {error}"))
            }
            StartError::Device(error) => Fatal::new(exit::NO_DEVICE, self.choice.explain(&error, &context.recorded)),
        }
    }
}
