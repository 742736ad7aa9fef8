//! The floor of a kernel's time: copying as much memory as the kernel moves.

use std::path::Path;

use mneme_model::configuration::Configuration;
use mneme_model::evaluation::Floor;
use mneme_model::observation::Traffic;
use serde::{Deserialize, Serialize};

use super::error::EvaluateError;
use crate::evaluator::Evaluator;
use crate::failure;
use crate::metric::weighted_mean;
use crate::results;
use crate::server::Runs;

/// The file in the results folder that keeps it: finding it takes a build and a run of instrumented code.
const KEPT: &str = "floor.json";

/// The time limit for finding it, s. Instrumented code is up to a hundred times as slow.
const LIMIT: f64 = 10.0;

/// Memory that a launch moves, and the time in which the device copies as much; the mean of all instances.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Movement {
    bytes: f64,
    /// ns.
    time: f64,
}

impl Movement {
    /// Takes it from the results folder, or finds it with these configurations of the recorded code. `None` if it
    /// cannot be found.
    pub fn find(
        evaluator: &mut Evaluator,
        recorded: &[Configuration],
        weights: &[f64],
        folder: &Path,
    ) -> Result<Option<Self>, EvaluateError> {
        let path = folder.join(KEPT);
        if let Some(kept) = results::read_file::<Option<Self>>(&path)? {
            return Ok(kept);
        }
        let limited = |it: &Configuration| Configuration { timeout_s: Some(LIMIT), ..it.clone() };
        let runs = Runs { touched: true, fresh: true, iterations: 1, ..Runs::default() };
        let results = evaluator.run(recorded.iter().map(limited).collect(), runs)?;
        let moved: Vec<Traffic> = results.iter().filter_map(|result| result.touched.as_ref()?.traffic).collect();
        let mean = |of: fn(&Traffic) -> f64| weighted_mean(weights, moved.iter().map(of));
        let found = mean(|it| (it.read + it.written) as f64).zip(mean(|it| it.copy_time));
        // A clock that stood still says nothing.
        let found = found.filter(|(_, time)| *time > 0.0).map(|(bytes, time)| Self { bytes, time });
        if found.is_none() {
            let unknown = results.iter().find(|result| result.touched.is_none()).map(failure::in_short);
            mneme_system::remark!(
                "mneme-tune: verdicts have no floor, because the memory that the kernel moves is unknown ({})",
                unknown.unwrap_or_else(|| "the device lacks free memory to count and copy it".into())
            );
        }
        results::write_whole(&path, &found)?;
        Ok(found)
    }

    /// The floor of a launch that took `exec_time` ns.
    pub fn floor(self, exec_time: f64) -> Floor {
        let Self { bytes, time } = self;
        Floor { bytes: bytes.round() as u64, bytes_per_s: bytes / time * 1e9, time, share: time / exec_time }
    }
}
