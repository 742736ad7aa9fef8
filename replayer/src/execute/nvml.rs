//! Clocks and energy of an NVIDIA GPU through NVML, the library behind nvidia-smi.
//!
//! Mneme uses NVML if it is installed.

use std::ffi::OsStr;

use mneme_model::result::Clocks;
use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::Clock;

const LIBRARY: &str = "libnvidia-ml.so.1";
/// Reasons for clocks below the device's target.
const REASONS: [(ThrottleReasons, &str); 8] = [
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "application clocks"),
    (ThrottleReasons::SW_POWER_CAP, "power cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
    (ThrottleReasons::SYNC_BOOST, "synchronised boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "temperature (software)"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "temperature (hardware)"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clocks"),
];

/// A device in NVML.
pub struct Nvml {
    /// Boxed because it holds a hundred functions or more.
    library: Box<nvml_wrapper::Nvml>,
    /// The device's bus address (see [`mneme_device::Device::bus_id`]).
    bus_id: String,
}

impl Nvml {
    /// Finds the device on a bus. `None` if NVML is missing or does not know the device.
    pub fn open(bus_id: &str) -> Option<Self> {
        Self::of(OsStr::new(LIBRARY), bus_id)
    }

    fn of(library: &OsStr, bus_id: &str) -> Option<Self> {
        let nvml = Self {
            library: Box::new(nvml_wrapper::Nvml::builder().lib_path(library).init().ok()?),
            bus_id: bus_id.into(),
        };
        nvml.device().is_some().then_some(nvml)
    }

    fn device(&self) -> Option<Device<'_>> {
        self.library.device_by_pci_bus_id(self.bus_id.as_str()).ok()
    }

    /// The current clocks.
    pub fn clocks(&self) -> Option<Clocks> {
        let device = self.device()?;
        let reasons = device.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
        Some(Clocks {
            sm_mhz: device.clock_info(Clock::SM).ok()?,
            memory_mhz: device.clock_info(Clock::Memory).ok()?,
            throttled: REASONS
                .iter()
                .filter(|(reason, _)| reasons.contains(*reason))
                .map(|(_, name)| (*name).to_owned())
                .collect(),
        })
    }

    /// The energy that the device has used since its driver was loaded, millijoules. `None` if the device does not
    /// count it (before Volta).
    pub fn millijoules(&self) -> Option<u64> {
        self.device()?.total_energy_consumption().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A library with NVML's names, types and units, and a single device on a bus.
    const STAND_IN: &str = r#"
        #include <string.h>
        int nvmlInit_v2(void) { return 0; }
        int nvmlShutdown(void) { return 0; }
        int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
            *device = (void *)0x1234;
            return strcmp(id, "00000000:18:00.0") ? 6 : 0;
        }
        int nvmlDeviceGetClockInfo(void *device, unsigned clock, unsigned *mhz) {
            *mhz = clock == 1 ? 1980 : clock == 2 ? 3201 : 0;
            return device == (void *)0x1234 ? 0 : 2;
        }
        int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) { *reasons = 0x24; return 0; }
        int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy) {
            static unsigned long long used = 40000;
            *energy = used += 500;
            return 0;
        }
    "#;

    #[test]
    fn clocks_and_energy_are_nvmls() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("nvml.c"), folder.path().join("libnvidia-ml.so.1"));
        std::fs::write(&source, STAND_IN).unwrap();
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
        assert!(compiled.success());
        let nvml = Nvml::of(library.as_os_str(), "00000000:18:00.0").expect("the device is there");
        let throttled = vec!["power cap".to_owned(), "temperature (software)".to_owned()];
        assert_eq!(nvml.clocks(), Some(Clocks { sm_mhz: 1980, memory_mhz: 3201, throttled }));
        assert_eq!((nvml.millijoules(), nvml.millijoules()), (Some(40_500), Some(41_000)));
        assert!(Nvml::of(library.as_os_str(), "00000000:19:00.0").is_none(), "another bus");
        assert!(Nvml::of(folder.path().join("none.so").as_os_str(), "00000000:18:00.0").is_none());
    }
}
