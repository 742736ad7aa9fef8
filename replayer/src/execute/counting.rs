//! Hardware counters of a launch: opens them and runs the launches to count.

use mneme_device::counters::{CountedLaunch, Counters};
use mneme_device::{DeviceError, Interface, ProfilerError};
use mneme_model::configuration::CacheState;
use mneme_model::device::Timer;

use super::ExecutorPlan;
use super::resident::ResidentMemory;
use super::series::Series;
use crate::context::timing::Timing;

/// Opens the counters of the current device.
pub fn open(plan: &ExecutorPlan<'_>) -> Result<Counters, ProfilerError> {
    if plan.is_cpu {
        return Err(ProfilerError::CountersOfCpu);
    }
    if plan.interface == Interface::Hip {
        return Err(ProfilerError::CountersOfAmd);
    }
    if plan.timing == Timing::Only(Timer::Cupti) {
        return Err(ProfilerError::CuptiTimes);
    }
    Counters::open(&mneme_system::toolkits::toolkits(), &plan.library, plan.ordinal)
}

/// The counted launch of a series. It begins like the timed runs.
pub struct CountedSeries<'a, 'b> {
    pub memory: &'a mut ResidentMemory<'b>,
    pub series: &'a Series<'a>,
}

impl CountedLaunch for CountedSeries<'_, '_> {
    type Error = DeviceError;

    fn prepare(&mut self) -> Result<(), DeviceError> {
        self.series.moved.bring(self.series.device)?;
        if self.series.order.spec.cache == CacheState::Cold {
            self.memory.flush_cache()?;
        }
        // Work that is still running when the range begins would count too.
        self.series.device.wait()
    }

    fn launch(&mut self) -> Result<(), DeviceError> {
        let Series { device, function, launch, moved, .. } = self.series;
        device.run(*function, launch, moved.arguments()).map(drop)
    }

    fn restore(&mut self) -> Result<(), DeviceError> {
        self.series.moved.take_back(self.series.device)?;
        self.memory.restore()
    }
}
