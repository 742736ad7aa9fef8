//! Runs a launch for a turn, and waits for its end.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mneme_system::environment;

use super::grid::{CheckedLaunch, Grid};
use super::pool::{self, Crew};
use super::{messages, printf, signals};
use crate::status::Status;

/// Milliseconds of a turn, unless `MNEME_CPU_ASYNC_AFTER` is set.
const DEFAULT_TURN: u64 = 20;

/// How long a launch runs before its call returns and it continues.
pub fn turn() -> Duration {
    static TURN: OnceLock<Duration> = OnceLock::new();
    *TURN.get_or_init(|| {
        let setting = environment::variable("MNEME_CPU_ASYNC_AFTER").and_then(|text| text.trim().parse().ok());
        Duration::from_millis(setting.unwrap_or(DEFAULT_TURN))
    })
}

/// A launch that has begun.
pub struct BegunLaunch(Arc<Crew>);

/// Runs a launch for a turn. It may be done at the end of it.
///
/// # Errors
/// If the system cannot start threads for it.
pub fn begin(launch: CheckedLaunch) -> Result<BegunLaunch, Status> {
    signals::install();
    printf::flush();
    let (grid, workers) = Grid::new(launch);
    pool::begin(grid, workers, turn()).map(BegunLaunch).map_err(|error| {
        crate::report::say!("worker threads could not be started: {error}");
        Status::OPERATING_SYSTEM
    })
}

impl BegunLaunch {
    pub fn is_done(&self) -> bool {
        self.0.wait(Some(Duration::ZERO))
    }

    /// Waits until the launch is done.
    ///
    /// # Errors
    /// The status of the device from then on, because a kernel's fault is permanent.
    pub fn finish(self) -> Result<(), Status> {
        self.0.wait(None);
        let grid = self.0.grid();
        let Some((fault, place)) = grid.take_fault() else { return Ok(()) };
        messages::forget(&raw const grid.dispatch);
        if let Some(sentence) = fault.sentence() {
            crate::report::say!("kernel {} {sentence}{place}", mneme_image::symbol::readable(&grid.launch.name));
        }
        Err(fault.status())
    }
}
