//! The choice of a timer for kernels: the one that the user requests, or the best available.

use std::path::Path;

use mneme_device::cupti::Cupti;
use mneme_device::gpu::Profiler;
use mneme_device::rocprofiler::Rocprofiler;
use mneme_device::{DeviceError, Interface, ProfilerError};
use mneme_model::device::Timer;
use mneme_system::toolkits::toolkits;

use super::device::Choice;

/// Kernels of at least this time, in ns, are so long that the few microseconds added by events do not matter.
const LONG: u64 = 200_000;

/// The requested timer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// The device's own clock if its library is installed and free. Otherwise events.
    #[default]
    Best,
    /// Only this timer.
    Only(Timer),
    /// Events, because the library has failed before. Contains the reason as a sentence without its full stop.
    Without(String),
}

impl Timing {
    pub fn is_best(&self) -> bool {
        *self == Self::Best
    }

    /// The choice for a kernel whose recorded launch took `recorded` ns, if known: CUPTI is for short kernels on
    /// NVIDIA's GPUs.
    pub fn of_kernel(self, device: Choice, recorded: Option<u64>) -> Self {
        let is_long = recorded.is_some_and(|time| time >= LONG);
        if device.interface() == Interface::Cuda && (device.is_cpu() || is_long) { self.without_cupti() } else { self }
    }

    /// The choice without CUPTI, which cannot count while it times kernels.
    pub fn without_cupti(self) -> Self {
        if self.is_best() { Self::Only(Timer::Events) } else { self }
    }

    /// Starts the timer before the device is opened with this library. Also returns why events replace the device's own
    /// clock.
    pub fn start(&self, interface: Interface, library: &Path) -> Result<(Option<Profiler>, String), DeviceError> {
        let only = |library: &str, started: Result<Profiler, ProfilerError>| match started {
            Ok(profiler) => Ok((Some(profiler), String::new())),
            Err(error) => Err(DeviceError::Library {
                library: library.into(),
                message: format!("{error}; --timer events does without"),
            }),
        };
        let cupti = || Cupti::start(&toolkits()).map(Profiler::Cupti);
        let rocprofiler = || Rocprofiler::start(library).map(|it| Profiler::Rocprofiler(Box::new(it)));
        let or_events = |started: Result<Profiler, ProfilerError>| match started {
            Ok(profiler) => (Some(profiler), String::new()),
            Err(error) => (None, error.to_string()),
        };
        match (self, interface) {
            (Self::Best, Interface::Hip) => Ok(or_events(rocprofiler())),
            (Self::Best, Interface::Cuda) => Ok(or_events(cupti())),
            (Self::Only(Timer::Events), _) => Ok((None, String::new())),
            (Self::Only(Timer::Cupti), _) => only("CUPTI", cupti()),
            (Self::Only(Timer::Rocprofiler), _) => only("--timer rocprofiler", rocprofiler()),
            (Self::Without(why), _) => Ok((None, why.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_kernels_are_timed_by_events() {
        let [gpu, hip, cpu] = ["cuda", "hip", "cpu"].map(|name| Choice::parse(name).unwrap());
        let best = |device, recorded| Timing::Best.of_kernel(device, recorded);
        let events = Timing::Only(Timer::Events);
        assert!(best(gpu, None).is_best());
        assert!(best(gpu, Some(LONG - 1)).is_best());
        assert_eq!(best(gpu, Some(LONG)), events);
        assert_eq!(best(cpu, None), events);
        assert!(best(hip, Some(LONG)).is_best());
        let asked = Timing::Only(Timer::Cupti);
        assert_eq!(asked.clone().of_kernel(gpu, Some(LONG)), asked);
    }
}
