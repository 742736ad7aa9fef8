//! Events: points in time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::lanes::{self, Moment, Place, Task};
use super::{context, graph, stream};
use crate::abi::Out;
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

const DISABLE_TIMING: u32 = 2;

struct Event {
    context: usize,
    flags: u32,
    recorded: Mutex<Option<Recorded>>,
}

/// The latest recording of an event.
#[derive(Clone)]
struct Recorded {
    /// Nanoseconds since the first event, once it has happened.
    time: Arc<AtomicU64>,
    /// When the event happens, or `None` if it happened inside the call that recorded it.
    moment: Option<Moment>,
}

impl Event {
    fn recorded(&self) -> Option<Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When the event happens, if that is still to come.
    fn unreached(&self) -> Option<Moment> {
        self.recorded()?.moment.filter(|moment| !lanes::are_reached(&[*moment]))
    }
}

static EVENTS: Registry<Event> = Registry::new("an event");

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

pub fn create(out: Out<usize>, flags: u32) -> StatusResult {
    context::usable()?;
    now();
    out.put(EVENTS.insert(Arc::new(Event { context: context::current()?, flags, recorded: Mutex::default() })))
}

/// Destroys the events of a context.
pub fn end_with(context: usize) {
    EVENTS.remove_all(|event| event.context == context);
}

pub fn destroy(event: usize) -> StatusResult {
    EVENTS.remove(event).map(|_| ())
}

pub fn record(event: usize, stream: usize) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    if EVENTS.get(event).is_ok() && graph::capture_event(event, stream) {
        return Ok(());
    }
    record_at(event, &stream::place(stream)?, &[]).map(|_| ())
}

/// Records an event as work of a lane. Returns when it happens, if that is still to come.
pub fn record_at(event: usize, place: &Place, after: &[Moment]) -> Result<Option<Moment>, Status> {
    let event = EVENTS.get(event)?;
    let time = Arc::new(AtomicU64::new(0));
    let happens = {
        let time = time.clone();
        move || {
            time.store(now(), Ordering::Release);
            Ok(())
        }
    };
    let moment = lanes::submit(place, after, Task::quick(happens))?;
    *event.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Recorded { time, moment });
    Ok(moment)
}

/// When an event happens, if it was recorded and is still to come.
pub fn unreached(event: usize) -> Result<Option<Moment>, Status> {
    Ok(EVENTS.get(event)?.unreached())
}

/// Whether an event has happened. An event that was never recorded has.
pub fn query(event: usize) -> StatusResult {
    context::usable()?;
    if unreached(event)?.is_some() {
        return Err(Status::NOT_READY);
    }
    context::fault()
}

pub fn wait(event: usize) -> StatusResult {
    context::usable()?;
    lanes::wait(unreached(event)?.as_slice())?;
    context::fault()
}

/// Milliseconds between two recorded events.
pub fn elapsed(out: Out<f32>, start: usize, end: usize) -> StatusResult {
    context::usable()?;
    let (start, end) = (EVENTS.get(start)?, EVENTS.get(end)?);
    let time = |event: &Event| {
        let recorded = event.recorded().filter(|_| event.flags & DISABLE_TIMING == 0).ok_or(Status::INVALID_HANDLE)?;
        if event.unreached().is_some() {
            return Err(Status::NOT_READY);
        }
        Ok(recorded.time.load(Ordering::Acquire) as f64)
    };
    out.put(((time(&end)? - time(&start)?) / 1e6) as f32)
}
