//! The floor of a kernel's time: copying as much memory as the kernel moves, or computing as much.

use std::path::Path;

use mneme_model::configuration::Configuration;
use mneme_model::evaluation::{Bound, Floor};
use mneme_model::observation::{Arithmetic, Traffic};
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

/// Memory that a launch moves, its floating-point operations, and the times in which the device copies and computes as
/// much; the mean of all instances.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    bytes: f64,
    /// ns.
    time: f64,
    /// Older files lack them.
    flops: Option<f64>,
    /// ns; `None` if the device's rate cannot be measured.
    fma_time: Option<f64>,
}

impl Work {
    /// Takes it from the results folder, or finds it with these configurations of the recorded code. `None` if it
    /// cannot be found.
    pub fn find(
        evaluator: &mut Evaluator,
        recorded: &[Configuration],
        weights: &[f64],
        folder: &Path,
    ) -> Result<Option<Self>, EvaluateError> {
        let path = folder.join(KEPT);
        let kept = results::read_file::<Option<Self>>(&path)?;
        if let Some(kept) = kept.filter(|kept| kept.is_none_or(|work| work.flops.is_some())) {
            return Ok(kept);
        }
        let limited = |it: &Configuration| Configuration { timeout_s: Some(LIMIT), ..it.clone() };
        let runs = Runs { touched: true, fresh: true, iterations: 1, ..Runs::default() };
        let results = evaluator.run(recorded.iter().map(limited).collect(), runs)?;
        let touched = results.iter().filter_map(|result| result.touched.as_ref());
        let work: Vec<_> = touched.filter_map(|it| it.traffic.zip(it.arithmetic)).collect();
        let found = Self::mean(weights, &work);
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

    /// The mean of all instances; `None` unless each has its work.
    fn mean(weights: &[f64], work: &[(Traffic, Arithmetic)]) -> Option<Self> {
        let mean = |of: fn(&(Traffic, Arithmetic)) -> f64| weighted_mean(weights, work.iter().map(of));
        let bytes = mean(|(traffic, _)| (traffic.read + traffic.written) as f64)?;
        // A clock that stood still says nothing.
        let time = mean(|(traffic, _)| traffic.copy_time).filter(|time| *time > 0.0)?;
        let flops = mean(|(_, arithmetic)| arithmetic.flops() as f64);
        let fma_time = mean(|(_, arithmetic)| arithmetic.fma_time.unwrap_or(f64::NAN));
        Some(Self { bytes, time, flops, fma_time: fma_time.filter(|time| time.is_finite()) })
    }

    /// The floor of a launch that took `exec_time` ns.
    pub fn floor(self, exec_time: f64) -> Floor {
        let Self { bytes, time: copy_time, flops, fma_time } = self;
        let (bound, time) = match fma_time.filter(|time| *time > copy_time) {
            Some(time) => (Bound::Arithmetic, time),
            None => (Bound::Memory, copy_time),
        };
        Floor {
            bytes: bytes.round() as u64,
            bytes_per_s: bytes / copy_time * 1e9,
            flops: flops.map(|flops| flops.round() as u64),
            flops_per_s: flops.zip(fma_time.filter(|time| *time > 0.0)).map(|(flops, time)| flops / time * 1e9),
            bound,
            time,
            share: time / exec_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_time_is_the_floor() {
        let traffic = Traffic { read: 600, written: 400, copy_time: 100.0 };
        let of = |fma_time| {
            let arithmetic = Arithmetic { f32: 1500, f64: 500, fma_time, ..Arithmetic::default() };
            Work::mean(&[1.0, 3.0], &[(traffic, arithmetic); 2]).unwrap().floor(500.0)
        };
        let memory = of(Some(50.0));
        assert_eq!((memory.bound, memory.time, memory.share), (Bound::Memory, 100.0, 0.2));
        assert_eq!((memory.bytes, memory.bytes_per_s), (1000, 1e10));
        assert_eq!((memory.flops, memory.flops_per_s), (Some(2000), Some(4e10)));
        let arithmetic = of(Some(400.0));
        assert_eq!((arithmetic.bound, arithmetic.time, arithmetic.share), (Bound::Arithmetic, 400.0, 0.8));
        let unknown = of(None);
        assert_eq!((unknown.bound, unknown.flops, unknown.flops_per_s), (Bound::Memory, Some(2000), None));
        assert_eq!(of(Some(0.0)).flops_per_s, None);
        assert_eq!(Work::mean(&[1.0, 1.0], &[(traffic, Arithmetic::default())]), None);
    }

    #[test]
    fn an_older_file_has_no_operations() {
        let kept = r#"{"bytes": 1000.0, "time": 100.0}"#;
        assert_eq!(serde_json::from_str::<Option<Work>>(kept).unwrap().unwrap().flops, None);
    }
}
