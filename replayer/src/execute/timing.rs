//! The choice of what times kernels: as it was asked for, or as it can be had.

use std::path::Path;

use mneme_core::device::cupti::Cupti;
use mneme_core::device::gpu::Profiler;
use mneme_core::device::rocprofiler::Rocprofiler;
use mneme_core::device::{DeviceError, Interface, Timer};

/// What is asked to time kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// The clock of AMD's GPUs where its library is installed, events elsewhere.
    #[default]
    Best,
    /// This and nothing else, where it starts.
    Only(Timer),
    /// Events, as the library has failed before, in a sentence without its end.
    Without(String),
}

impl Timing {
    pub fn is_best(&self) -> bool {
        *self == Self::Best
    }

    /// Starts what times kernels, before the device is opened over this library; and why events are left where the best
    /// was asked for and cannot be had.
    pub fn start(&self, interface: Interface, library: &Path) -> Result<(Option<Profiler>, String), DeviceError> {
        let failed = |library: &str, message| DeviceError::Library { library: library.into(), message };
        Ok(match (self, interface) {
            (Self::Best, Interface::Hip) => match Rocprofiler::start(library) {
                Ok(rocprofiler) => (Some(Profiler::Rocprofiler(rocprofiler)), String::new()),
                Err(why) => (None, why),
            },
            (Self::Best, Interface::Cuda) | (Self::Only(Timer::Events), _) => (None, String::new()),
            (Self::Only(Timer::Cupti), _) => {
                let cupti = Cupti::start(&mneme_builds::toolkits::toolkits());
                (Some(Profiler::Cupti(cupti.map_err(|why| failed("CUPTI", why))?)), String::new())
            }
            (Self::Only(Timer::Rocprofiler), _) => {
                let remedy = |why| failed("--timer rocprofiler", format!("{why}; --timer events does without"));
                (Some(Profiler::Rocprofiler(Rocprofiler::start(library).map_err(remedy)?)), String::new())
            }
            (Self::Without(why), _) => (None, why.clone()),
        })
    }
}
