//! The executor pool: executors at work, standing by, and leaving, on each device.
//!
//! A place runs one configuration at a time. Its executor stays until a kernel breaks it (or, if each configuration has
//! a separate process, until the run is over). The next one is started ahead if the device has memory for both.
//! memory for both.

mod device;
mod leaving;

use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_builds::BuildOutcome;
use mneme_model::device::Description;
use mneme_model::result::ReplayStatus;
use mneme_system::exit;

use self::device::PoolDevice;
use self::leaving::{EndedExecutor, LeavingExecutor, Reason};
use super::identity::Identity;
use super::queue::PendingJob;
use crate::context::ReplayContext;
use crate::context::settings::Isolation;
use crate::error::Fatal;
use crate::execute::executor::{Executor, ExecutorEvents};
use crate::execute::message::{ExecutorReport, RunOutcome, RunRequest};

/// A configuration that an executor runs.
pub struct RunningJob {
    pub pending: PendingJob,
    pub outcome: Rc<BuildOutcome>,
    pub identity: Identity,
    /// Its executor runs nothing else.
    pub own_process: bool,
}

/// An event of the executors.
pub enum PoolEvent {
    /// A device is open.
    Opened(Description),
    /// The recording is resident on the device.
    Ready(Description),
    /// The executor ended before it began the configuration.
    Unbegun(Box<RunningJob>),
    Done(Box<(RunningJob, RunOutcome, Option<Description>)>),
}

struct PoolSlot {
    device: usize,
    executor: Option<Executor>,
    running: Option<RunningJob>,
}

pub struct ExecutorPool<'a> {
    context: &'a ReplayContext,
    devices: Vec<PoolDevice>,
    places: Vec<PoolSlot>,
    leaving: Vec<LeavingExecutor>,
    /// Whether the snapshot is decoded.
    loadable: bool,
    /// How many executors were lost and replaced.
    pub replaced: u64,
}

impl<'a> ExecutorPool<'a> {
    /// Starts an executor at each place.
    pub fn start(context: &'a ReplayContext) -> std::io::Result<Self> {
        let devices: Vec<PoolDevice> = context.devices.iter().copied().map(PoolDevice::new).collect();
        let places = (0..context.workers)
            .map(|at| PoolSlot { device: at % devices.len(), executor: None, running: None })
            .collect();
        let mut pool = Self { context, devices, places, leaving: Vec::new(), loadable: false, replaced: 0 };
        pool.fill()?;
        Ok(pool)
    }

    /// Fills empty places and starts standbys.
    pub fn fill(&mut self) -> std::io::Result<()> {
        for at in 0..self.places.len() {
            let device = self.places[at].device;
            if self.places[at].executor.is_none() {
                self.places[at].executor = match self.devices[device].take_standby() {
                    None if self.may_start(device) => Some(self.devices[device].start_executor(self.context)?),
                    standby => standby,
                };
            }
        }
        for device in 0..self.devices.len() {
            while self.devices[device].standbys.len() < self.devices[device].wanted_standbys(self.context)
                && self.may_start(device)
            {
                let standby = self.devices[device].start_executor(self.context)?;
                self.devices[device].standbys.push(standby);
            }
        }
        Ok(())
    }

    /// Whether another executor fits on the device.
    fn may_start(&self, device: usize) -> bool {
        self.devices[device].has_room(self.context) || !self.leaving.iter().any(|leaving| leaving.device == device)
    }

    /// Lets all present and future executors load the snapshot, which is decoded.
    pub fn load(&mut self) {
        self.loadable = true;
        for executor in self.executors_mut() {
            if executor.description.is_some() {
                // The next read of the executor shows a failure.
                let _ = executor.load();
            }
        }
    }

    fn executors(&self) -> impl Iterator<Item = &Executor> {
        let working = self.places.iter().filter_map(|place| place.executor.as_ref());
        working.chain(self.devices.iter().flat_map(|device| &device.standbys))
    }

    fn executors_mut(&mut self) -> impl Iterator<Item = &mut Executor> {
        let working = self.places.iter_mut().filter_map(|place| place.executor.as_mut());
        working.chain(self.devices.iter_mut().flat_map(|device| &mut device.standbys))
    }

    /// Descriptors to watch, in the order in which [`ExecutorPool::read_events`] takes their readiness.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.executors().map(Executor::fd)
    }

    /// The next time at which the pool needs attention.
    pub fn deadline(&self) -> Option<Instant> {
        let soon = (!self.leaving.is_empty()).then(|| Instant::now() + Duration::from_millis(2));
        self.executors().filter_map(Executor::next_look).chain(soon).min()
    }

    /// The first known device.
    pub fn description(&self) -> Option<&Description> {
        self.devices.iter().find_map(|device| device.description.as_ref())
    }

    pub fn running(&self) -> usize {
        self.running_ones().count()
    }

    pub fn runs(&self, identity: &Identity) -> bool {
        self.running_ones().any(|running| running.identity == *identity)
    }

    pub fn runs_id(&self, id: u64) -> bool {
        self.running_ones().any(|running| running.pending.job.schedule.id == id)
    }

    fn running_ones(&self) -> impl Iterator<Item = &RunningJob> {
        let leaving = self.leaving.iter().filter_map(LeavingExecutor::running);
        self.places.iter().filter_map(|place| place.running.as_ref()).chain(leaving)
    }

    /// Takes all running configurations. Their executors are dismissed, because they still work on them and their next
    /// result would belong to no configuration.
    pub fn drain(&mut self) -> Vec<RunningJob> {
        let mut drained: Vec<RunningJob> = self.leaving.iter_mut().filter_map(LeavingExecutor::take_running).collect();
        for place in &mut self.places {
            let Some(running) = place.running.take() else { continue };
            drained.push(running);
            if let Some(executor) = place.executor.take() {
                self.leaving.push(LeavingExecutor::new(executor, place.device, Reason::Dismissed));
            }
        }
        drained
    }

    /// A place that is free for a run, on the device with this number if one is given.
    pub fn free_place(&self, device: Option<i32>) -> Option<usize> {
        let free = |place: &PoolSlot| place.running.is_none() && place.executor.as_ref().is_some_and(Executor::is_free);
        let meant = |place: &PoolSlot| device.is_none_or(|number| self.devices[place.device].ordinal() == number);
        self.places.iter().position(|place| free(place) && meant(place))
    }

    /// Replaces the executor of a free place if it has run something. Returns whether it has.
    pub fn renew(&mut self, at: usize) -> bool {
        let place = &mut self.places[at];
        let Some(executor) = place.executor.take_if(|executor| executor.has_run()) else { return false };
        self.leaving.push(LeavingExecutor::new(executor, place.device, Reason::Dismissed));
        // Others will be needed.
        self.devices[place.device].lost = true;
        true
    }

    /// Runs a configuration at a free place. Returns it if the executor has ended meanwhile, which is independent of
    /// the configuration.
    ///
    /// `others` is the other code that `run` names.
    pub fn run(
        &mut self,
        at: usize,
        run: RunRequest,
        others: &[u8],
        limit: Duration,
        running: RunningJob,
    ) -> Option<RunningJob> {
        let place = &mut self.places[at];
        let (Some(executor), Ok((_, image))) = (&mut place.executor, &*running.outcome) else { return Some(running) };
        if executor.run(run, &[image, others].concat(), limit).is_err() {
            // The next read shows its end.
            return Some(running);
        }
        place.running = Some(running);
        None
    }

    /// Reads from those executors whose descriptors of [`ExecutorPool::fds`] are readable, and enforces time limits.
    pub fn read_events(&mut self, ready: &[bool]) -> Result<Vec<PoolEvent>, Fatal> {
        let mut events = Vec::new();
        let mut ready = ready.iter().copied();
        for at in 0..self.places.len() {
            let Some(executor) = &mut self.places[at].executor else { continue };
            let read =
                if ready.next().unwrap_or(false) { executor.progress() } else { ExecutorEvents::Reports(Vec::new()) };
            let device = self.places[at].device;
            match read {
                ExecutorEvents::Gone => events.extend(self.lose(at)),
                ExecutorEvents::Reports(reports) => {
                    for report in reports {
                        self.report_of_place(at, report, &mut events)?;
                    }
                }
            }
            if self.places[at].executor.as_mut().is_some_and(Executor::hangs) {
                self.time_out(at, device, &mut events)?;
            }
        }
        for device in 0..self.devices.len() {
            // Backwards: a standby that leaves is replaced by the last one, whose events have been read.
            let readable: Vec<bool> =
                self.devices[device].standbys.iter().map(|_| ready.next().unwrap_or(false)).collect();
            for at in (0..readable.len()).rev() {
                let standby = &mut self.devices[device].standbys[at];
                let goes = match if readable[at] { standby.progress() } else { ExecutorEvents::Reports(Vec::new()) } {
                    ExecutorEvents::Gone => Some(Reason::DiedIdle),
                    ExecutorEvents::Reports(reports) => {
                        let mut fit = !standby.hangs();
                        for report in reports {
                            fit &= self.report_of_standby(device, at, report);
                        }
                        self.devices[device].crowded |= !fit;
                        (!fit).then_some(Reason::Dismissed)
                    }
                };
                if let Some(reason) = goes {
                    let executor = self.devices[device].standbys.swap_remove(at);
                    self.leaving.push(LeavingExecutor::new(executor, device, reason));
                }
            }
        }
        self.reap(&mut events)?;
        Ok(events)
    }

    fn report_of_place(&mut self, at: usize, report: ExecutorReport, events: &mut Vec<PoolEvent>) -> Result<(), Fatal> {
        let device = self.places[at].device;
        match report {
            ExecutorReport::Device(description, _) => {
                self.devices[device].describe(&description);
                if self.loadable
                    && let Some(executor) = &mut self.places[at].executor
                {
                    let _ = executor.load();
                }
                events.push(PoolEvent::Opened(description));
            }
            ExecutorReport::Ready => {
                self.devices[device].became_ready();
                events.extend(self.devices[device].description.clone().map(PoolEvent::Ready));
            }
            ExecutorReport::Began(_) => {}
            ExecutorReport::Done(_, done) => {
                self.devices[device].works();
                if done.broken {
                    self.devices[device].lost = true;
                    self.replaced += 1;
                }
                let is_over = self.places[at].running.as_ref().is_some_and(|running| running.own_process);
                if (done.broken || is_over || self.context.isolation == Isolation::Process)
                    && let Some(executor) = self.places[at].executor.take()
                {
                    self.leaving.push(LeavingExecutor::new(executor, device, Reason::Dismissed));
                }
                if let Some(running) = self.places[at].running.take() {
                    events.push(PoolEvent::Done(Box::new((running, *done, self.devices[device].description.clone()))));
                }
            }
            ExecutorReport::Unfit(unfit) => {
                let greeted = self.devices.iter().any(PoolDevice::was_ready);
                return Err(self.devices[device].unfit(unfit, self.context, greeted));
            }
        }
        Ok(())
    }

    /// Handles a report of a standby. Returns whether it can continue to stand by.
    fn report_of_standby(&mut self, device: usize, at: usize, report: ExecutorReport) -> bool {
        match report {
            ExecutorReport::Device(..) if self.loadable => {
                let _ = self.devices[device].standbys[at].load();
            }
            ExecutorReport::Device(..) | ExecutorReport::Began(_) | ExecutorReport::Done(..) => {}
            ExecutorReport::Ready => self.devices[device].became_ready(),
            ExecutorReport::Unfit(_) => return false,
        }
        true
    }

    /// Handles the end of a place's executor.
    fn lose(&mut self, at: usize) -> Option<PoolEvent> {
        let place = &mut self.places[at];
        let (device, running) = (place.device, place.running.take());
        let executor = place.executor.take()?;
        let (reason, unbegun) = match running {
            None => (Reason::DiedIdle, None),
            Some(running) if !executor.began() => (Reason::DiedIdle, Some(PoolEvent::Unbegun(Box::new(running)))),
            Some(running) => {
                self.devices[device].lost = true;
                self.replaced += 1;
                (Reason::DiedRunning(Box::new(running)), None)
            }
        };
        self.leaving.push(LeavingExecutor::new(executor, device, reason));
        unbegun
    }

    fn time_out(&mut self, at: usize, device: usize, events: &mut Vec<PoolEvent>) -> Result<(), Fatal> {
        let Some(executor) = self.places[at].executor.take() else { return Ok(()) };
        self.leaving.push(LeavingExecutor::new(executor, device, Reason::Dismissed));
        let Some(running) = self.places[at].running.take() else {
            if self.devices[device].was_ready() {
                return self.devices[device].failed_to_start("has not answered for minutes", self.context);
            }
            return Err(Fatal::new(
                exit::NO_DEVICE,
                "cannot start the device: its driver has not answered for minutes",
            ));
        };
        self.devices[device].lost = true;
        self.replaced += 1;
        let seconds = running.pending.job.run_limit(self.context).as_secs_f64();
        let error = format!(
            "the kernel's runs took longer than {seconds} s and were stopped; raise the limit with --timeout (mneme-tune: --trial-timeout)"
        );
        let done = RunOutcome { status: ReplayStatus::Timeout, error, ..RunOutcome::default() };
        events.push(PoolEvent::Done(Box::new((running, done, self.devices[device].description.clone()))));
        Ok(())
    }

    fn reap(&mut self, events: &mut Vec<PoolEvent>) -> Result<(), Fatal> {
        for EndedExecutor { device, reason, description, how } in leaving::reap(&mut self.leaving) {
            match reason {
                Reason::Dismissed => {}
                Reason::DiedRunning(running) => {
                    let error = format!("the kernel ended its process, which {how}");
                    let done = RunOutcome {
                        status: ReplayStatus::RuntimeError,
                        executed: true,
                        error,
                        ..RunOutcome::default()
                    };
                    events.push(PoolEvent::Done(Box::new((*running, done, description))));
                }
                Reason::DiedIdle => self.devices[device].failed_to_start(&how, self.context)?,
            }
        }
        Ok(())
    }

    /// Ends all executors without waiting, for a process that is about to end.
    pub fn abandon(&mut self) {
        let working = self.places.iter_mut().filter_map(|place| place.executor.take());
        let executors: Vec<Executor> =
            working.chain(self.devices.iter_mut().flat_map(|device| device.standbys.drain(..))).collect();
        executors.into_iter().for_each(Executor::abandon);
        self.leaving.drain(..).for_each(LeavingExecutor::abandon);
    }
}
