//! The executors: which of them work on which device, which stand by, and which are on their way out.
//!
//! A place is where one configuration runs at a time. Its executor stays until a kernel breaks it (or, where each configuration
//! has a process of its own, until the run is over); the next one is started ahead where the device has memory for both.

use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_core::device::Description;
use mneme_core::exit;
use mneme_core::result::Status;

use super::Fatal;
use super::queue::Pending;
use super::shared::Identity;
use crate::arguments::Isolation;
use crate::builder::Outcome;
use crate::child::{Child, End};
use crate::executor::Plan;
use crate::executor::handle::{Executor, News};
use crate::executor::message::{Done, Report, Run, Unfit};
use crate::scene::Scene;
use crate::target::Choice;

/// Executors that may die in a row without having run anything.
const START_ATTEMPTS: u32 = 3;
/// Work after which an executor gets a standby: one that is started sooner would slow down a short session's own start.
const SEASON: Duration = Duration::from_secs(1);
/// Executors started ahead where each runs one configuration. Drivers create contexts one after the other, so more gain nothing.
const AHEAD: usize = 3;
/// An executor holds the recorded memory and copies of what changes; this many times the recorded memory is room enough for one
/// at work, one that stands by and one that is on its way out.
const ROOM: u64 = 6;
/// How long a killed process may take to go before it is left to the system.
const REAP_LIMIT: Duration = Duration::from_secs(10);

/// A configuration that an executor runs.
pub struct Running {
    pub pending: Pending,
    pub outcome: Rc<Outcome>,
    pub identity: Identity,
}

/// What the executors have to tell.
pub enum Told {
    /// A device is open.
    Opened(Description),
    /// The recording is resident on it.
    Ready(Description),
    Done(Box<(Running, Done, Option<Description>)>),
}

struct Device {
    choice: Choice,
    spares: Vec<Executor>,
    failed_starts: u32,
    /// When it was first ready.
    ready_since: Option<Instant>,
    /// Some executor was lost to a kernel.
    lost: bool,
    description: Option<Description>,
}

struct Place {
    device: usize,
    executor: Option<Executor>,
    running: Option<Running>,
}

/// A process that was killed or has closed its end.
struct Leaving {
    child: Child,
    device: usize,
    since: Instant,
    /// What it ran when it went by itself.
    running: Option<Running>,
    /// It went by itself and ran nothing.
    failed_start: bool,
    description: Option<Description>,
}

pub struct Fleet<'a> {
    scene: &'a Scene,
    devices: Vec<Device>,
    places: Vec<Place>,
    leaving: Vec<Leaving>,
    /// The snapshot is decoded.
    loadable: bool,
    /// Executors that were lost and replaced.
    pub replaced: u64,
}

impl<'a> Fleet<'a> {
    /// Starts an executor at each place.
    pub fn start(scene: &'a Scene) -> std::io::Result<Self> {
        let device = |choice: &Choice| Device {
            choice: *choice,
            spares: Vec::new(),
            failed_starts: 0,
            ready_since: None,
            lost: false,
            description: None,
        };
        let devices: Vec<Device> = scene.devices.iter().map(device).collect();
        let places = (0..scene.workers).map(|at| Place { device: at % devices.len(), executor: None, running: None }).collect();
        let mut fleet = Self { scene, devices, places, leaving: Vec::new(), loadable: false, replaced: 0 };
        fleet.staff()?;
        Ok(fleet)
    }

    /// Fills empty places and keeps standbys ready.
    pub fn staff(&mut self) -> std::io::Result<()> {
        for at in 0..self.places.len() {
            let device = self.places[at].device;
            if self.places[at].executor.is_none() {
                let spares = &mut self.devices[device].spares;
                let best = spares.iter().position(|spare| spare.ready).or(if spares.is_empty() { None } else { Some(0) });
                self.places[at].executor = match best {
                    Some(best) => Some(spares.swap_remove(best)),
                    None if self.may_start(device) => Some(self.start_executor(device)?),
                    None => None,
                };
            }
        }
        for device in 0..self.devices.len() {
            while self.devices[device].spares.len() < self.wanted_spares(device) && self.may_start(device) {
                let spare = self.start_executor(device)?;
                self.devices[device].spares.push(spare);
            }
        }
        Ok(())
    }

    /// Several executors find room on the device.
    fn has_room(&self, device: usize) -> bool {
        let needed = self.scene.snapshot.layout.memory_bytes().saturating_mul(ROOM);
        self.devices[device].description.as_ref().is_some_and(|description| needed <= description.memory)
    }

    fn may_start(&self, device: usize) -> bool {
        self.has_room(device) || !self.leaving.iter().any(|leaving| leaving.device == device)
    }

    fn wanted_spares(&self, device: usize) -> usize {
        if !self.scene.standby || !self.has_room(device) {
            return 0;
        }
        let state = &self.devices[device];
        match self.scene.isolation {
            Isolation::Process => AHEAD,
            _ => usize::from(state.lost || state.ready_since.is_some_and(|since| since.elapsed() >= SEASON)),
        }
    }

    fn start_executor(&self, device: usize) -> std::io::Result<Executor> {
        let scene = self.scene;
        let choice = self.devices[device].choice;
        Executor::start(&Plan {
            library: scene.library.clone(),
            ordinal: choice.ordinal(),
            timer: self.scene.timer,
            absolute_constants: choice.is_cpu(),
            snapshot: &scene.snapshot,
            bounds: &scene.bounds,
            parameters: &scene.parameters,
        })
    }

    /// The snapshot is decoded: all executors may load it, now and later.
    pub fn load(&mut self) {
        self.loadable = true;
        for executor in self.executors_mut() {
            if executor.description.is_some() {
                // A failure shows when the executor is heard next.
                let _ = executor.load();
            }
        }
    }

    fn executors(&self) -> impl Iterator<Item = &Executor> {
        let working = self.places.iter().filter_map(|place| place.executor.as_ref());
        working.chain(self.devices.iter().flat_map(|device| &device.spares))
    }

    fn executors_mut(&mut self) -> impl Iterator<Item = &mut Executor> {
        let working = self.places.iter_mut().filter_map(|place| place.executor.as_mut());
        working.chain(self.devices.iter_mut().flat_map(|device| &mut device.spares))
    }

    /// Descriptors to watch, in the order in which [`Fleet::hear`] takes what became of them.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.executors().map(Executor::fd)
    }

    /// The next point in time at which something has to be done.
    pub fn deadline(&self) -> Option<Instant> {
        let soon = (!self.leaving.is_empty()).then(|| Instant::now() + Duration::from_millis(2));
        self.executors().filter_map(Executor::deadline).chain(soon).min()
    }

    pub fn running(&self) -> usize {
        self.places.iter().filter(|place| place.running.is_some()).count() + self.leaving.iter().filter(|it| it.running.is_some()).count()
    }

    pub fn runs(&self, identity: &Identity) -> bool {
        self.running_ones().any(|running| running.identity == *identity)
    }

    pub fn runs_id(&self, id: u64) -> bool {
        self.running_ones().any(|running| running.pending.job.id == id)
    }

    fn running_ones(&self) -> impl Iterator<Item = &Running> {
        let leaving = self.leaving.iter().filter_map(|leaving| leaving.running.as_ref());
        self.places.iter().filter_map(|place| place.running.as_ref()).chain(leaving)
    }

    /// Takes all that run.
    pub fn drain(&mut self) -> Vec<Running> {
        let leaving = self.leaving.iter_mut().filter_map(|leaving| leaving.running.take());
        self.places.iter_mut().filter_map(|place| place.running.take()).chain(leaving).collect()
    }

    /// A place that is free for a run.
    pub fn free_place(&self) -> Option<usize> {
        let free = |place: &Place| place.running.is_none() && place.executor.as_ref().is_some_and(|executor| executor.ready);
        self.places.iter().position(free)
    }

    /// Runs a configuration at a free place. Gives it back where the executor has ended meanwhile, which says nothing about it.
    pub fn run(&mut self, at: usize, run: Run, limit: Duration, running: Running) -> Option<Running> {
        let place = &mut self.places[at];
        let (Some(executor), Ok((_, image))) = (&mut place.executor, &*running.outcome) else { return Some(running) };
        if executor.run(run, image, limit).is_err() {
            // Its end is heard next.
            executor.ready = false;
            return Some(running);
        }
        place.running = Some(running);
        None
    }

    /// Reads from those executors whose descriptors of [`Fleet::fds`] can be read, and enforces time limits.
    pub fn hear(&mut self, ready: &[bool]) -> Result<Vec<Told>, Fatal> {
        let mut told = Vec::new();
        let mut ready = ready.iter().copied();
        let now = Instant::now();
        for at in 0..self.places.len() {
            let Some(executor) = &mut self.places[at].executor else { continue };
            let news = if ready.next().unwrap_or(false) { executor.progress() } else { News::Reports(Vec::new()) };
            let device = self.places[at].device;
            match news {
                News::Gone => self.lose(at),
                News::Reports(reports) => {
                    for report in reports {
                        self.report_of_place(at, report, &mut told)?;
                    }
                }
            }
            if self.places[at].executor.as_ref().and_then(Executor::deadline).is_some_and(|deadline| deadline <= now) {
                self.time_out(at, device, &mut told)?;
            }
        }
        for device in 0..self.devices.len() {
            // From a copy of the list's length: a spare that goes leaves its place to the last one, which was heard already.
            let readable: Vec<bool> = self.devices[device].spares.iter().map(|_| ready.next().unwrap_or(false)).collect();
            for at in (0..readable.len()).rev().filter(|at| readable[*at]) {
                match self.devices[device].spares[at].progress() {
                    News::Gone => {
                        let executor = self.devices[device].spares.swap_remove(at);
                        self.see_off(executor, device, None, true);
                    }
                    News::Reports(reports) => {
                        for report in reports {
                            self.report_of_spare(device, at, report)?;
                        }
                    }
                }
            }
        }
        self.reap(&mut told)?;
        Ok(told)
    }

    fn report_of_place(&mut self, at: usize, report: Report, told: &mut Vec<Told>) -> Result<(), Fatal> {
        let device = self.places[at].device;
        match report {
            Report::Device(description) => {
                self.meet(device, &description);
                if self.loadable
                    && let Some(executor) = &mut self.places[at].executor
                {
                    let _ = executor.load();
                }
                told.push(Told::Opened(description));
            }
            Report::Ready => {
                self.became_ready(device);
                told.extend(self.devices[device].description.clone().map(Told::Ready));
            }
            Report::Done(done) => {
                self.devices[device].failed_starts = 0;
                if done.broken {
                    self.devices[device].lost = true;
                    self.replaced += 1;
                }
                if (done.broken || self.scene.isolation == Isolation::Process)
                    && let Some(executor) = self.places[at].executor.take()
                {
                    self.see_off(executor, device, None, false);
                }
                if let Some(running) = self.places[at].running.take() {
                    told.push(Told::Done(Box::new((running, *done, self.devices[device].description.clone()))));
                }
            }
            Report::Unfit(unfit) => return self.unfit(device, unfit),
        }
        Ok(())
    }

    fn report_of_spare(&mut self, device: usize, at: usize, report: Report) -> Result<(), Fatal> {
        match report {
            Report::Device(_) if self.loadable => {
                let _ = self.devices[device].spares[at].load();
            }
            Report::Device(_) | Report::Done(_) => {}
            Report::Ready => self.became_ready(device),
            Report::Unfit(unfit) => return self.unfit(device, unfit),
        }
        Ok(())
    }

    fn meet(&mut self, device: usize, description: &Description) {
        self.devices[device].description.get_or_insert_with(|| description.clone());
    }

    fn became_ready(&mut self, device: usize) {
        let device = &mut self.devices[device];
        device.failed_starts = 0;
        device.ready_since.get_or_insert_with(Instant::now);
    }

    fn unfit(&self, device: usize, unfit: Unfit) -> Result<(), Fatal> {
        let started_before = self.devices[device].ready_since.is_some();
        Err(match unfit {
            // Once a client has been greeted, another process could not go on where this one stopped.
            Unfit::Clash(error) => Fatal {
                clash: !self.devices.iter().any(|device| device.ready_since.is_some()),
                ..Fatal::new(exit::NO_DEVICE, format!("the recording cannot be placed: {error}"))
            },
            Unfit::Device(error) if started_before => Fatal::new(exit::NO_DEVICE, format!("the device was lost: {error}")),
            Unfit::Device(error) => Fatal::new(exit::NO_DEVICE, self.devices[device].choice.explain(&error, &self.scene.subject)),
        })
    }

    /// The executor of a place is gone.
    fn lose(&mut self, at: usize) {
        let place = &mut self.places[at];
        let (device, running) = (place.device, place.running.take());
        let Some(executor) = place.executor.take() else { return };
        let failed_start = running.is_none();
        if !failed_start {
            self.devices[device].lost = true;
            self.replaced += 1;
        }
        self.see_off(executor, device, running, failed_start);
    }

    fn time_out(&mut self, at: usize, device: usize, told: &mut Vec<Told>) -> Result<(), Fatal> {
        let Some(executor) = self.places[at].executor.take() else { return Ok(()) };
        self.see_off(executor, device, None, false);
        let Some(running) = self.places[at].running.take() else {
            return Err(Fatal::new(exit::NO_DEVICE, "the device does not start: its driver has not answered for minutes"));
        };
        self.devices[device].lost = true;
        self.replaced += 1;
        let seconds = running.pending.job.limit(self.scene).as_secs_f64();
        let error = format!("the kernel's runs took longer than {seconds} s and were stopped; --timeout raises the limit");
        let done = Done { status: Status::Timeout, error, ..Done::default() };
        told.push(Told::Done(Box::new((running, done, self.devices[device].description.clone()))));
        Ok(())
    }

    /// Kills an executor, to be reaped when it has gone: a driver may take a tenth of a second to let go.
    fn see_off(&mut self, executor: Executor, device: usize, running: Option<Running>, failed_start: bool) {
        let description = executor.description.clone();
        // One that went by itself is not killed, so that it can say how it ended.
        let child = executor.dismiss(running.is_none() && !failed_start);
        self.leaving.push(Leaving { child, device, since: Instant::now(), running, failed_start, description });
    }

    fn reap(&mut self, told: &mut Vec<Told>) -> Result<(), Fatal> {
        for at in (0..self.leaving.len()).rev() {
            let leaving = &mut self.leaving[at];
            let late = leaving.since.elapsed() > REAP_LIMIT;
            let Some(end) = leaving.child.end().map(Some).or(late.then_some(None)) else { continue };
            let Leaving { device, running, failed_start, description, child, .. } = self.leaving.swap_remove(at);
            if end.is_none() {
                child.abandon();
            }
            let how = || end.map_or_else(|| "does not answer".into(), |end: End| end.to_string());
            if let Some(running) = running {
                let error = format!("the kernel took its process with it, which {}", how());
                let done = Done { status: Status::RuntimeError, executed: true, error, ..Done::default() };
                told.push(Told::Done(Box::new((running, done, description))));
            } else if failed_start {
                let state = &mut self.devices[device];
                state.failed_starts += 1;
                if state.failed_starts >= START_ATTEMPTS {
                    return Err(Fatal::new(exit::NO_DEVICE, format!("the device cannot be used: the process that opens it {}", how())));
                }
            }
        }
        Ok(())
    }

    /// Ends all executors without waiting, for a process that is about to end.
    pub fn abandon(&mut self) {
        let working = self.places.iter_mut().filter_map(|place| place.executor.take());
        let executors: Vec<Executor> = working.chain(self.devices.iter_mut().flat_map(|device| device.spares.drain(..))).collect();
        executors.into_iter().for_each(Executor::abandon);
        self.leaving.drain(..).for_each(|leaving| leaving.child.abandon());
    }
}
