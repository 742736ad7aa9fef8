//! Clocks of an NVIDIA GPU through NVML, the library behind nvidia-smi, where it is there. Function names and constants are those
//! of nvml.h.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;

use libloading::Library;

use crate::result::Clocks;

const LIBRARY: &str = "libnvidia-ml.so.1";
const NVML_CLOCK_SM: c_uint = 1;
const NVML_CLOCK_MEM: c_uint = 2;
/// `nvmlClocksEventReason…` that hold clocks below what the device would like.
const REASONS: [(c_ulonglong, &str); 8] = [
    (0x2, "application clocks"),
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "synchronised boost"),
    (0x20, "temperature (software)"),
    (0x40, "temperature (hardware)"),
    (0x80, "power brake"),
    (0x100, "display clocks"),
];

/// A device as NVML knows it.
pub struct Nvml {
    device: *mut c_void,
    clock: unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> c_int,
    reasons: unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> c_int,
    /// Keeps the functions in memory.
    _library: Library,
}

// SAFETY: NVML's functions may be called from any thread, and the handle is an opaque value.
unsafe impl Send for Nvml {}

impl Nvml {
    /// Finds the device on a bus (see [`super::Device::bus_id`]); `None` where NVML is not there or does not know it.
    pub fn open(bus_id: &str) -> Option<Self> {
        // SAFETY: NVML's constructors are made to run when a process loads it; the types are those of nvml.h.
        unsafe {
            let library = Library::new(LIBRARY).ok()?;
            let start: unsafe extern "C" fn() -> c_int = *library.get(b"nvmlInit_v2\0").ok()?;
            let find: unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int =
                *library.get(b"nvmlDeviceGetHandleByPciBusId_v2\0").ok()?;
            let clock = *library.get(b"nvmlDeviceGetClockInfo\0").ok()?;
            let reasons = *library.get(b"nvmlDeviceGetCurrentClocksThrottleReasons\0").ok()?;
            let bus_id = CString::new(bus_id).ok()?;
            let mut device = null_mut();
            let found = start() == 0 && find(bus_id.as_ptr(), &mut device) == 0;
            found.then_some(Self { device, clock, reasons, _library: library })
        }
    }

    /// The clocks as they are now.
    pub fn clocks(&self) -> Option<Clocks> {
        let clock = |which| {
            let mut mhz = 0;
            // SAFETY: the handle is NVML's own; `mhz` is a valid place for the answer.
            (unsafe { (self.clock)(self.device, which, &mut mhz) } == 0).then_some(mhz)
        };
        let mut reasons = 0;
        // SAFETY: as above.
        let told = unsafe { (self.reasons)(self.device, &mut reasons) } == 0;
        let throttled = REASONS.iter().filter(|(bit, _)| told && reasons & bit != 0).map(|(_, name)| (*name).to_owned()).collect();
        Some(Clocks { sm_mhz: clock(NVML_CLOCK_SM)?, memory_mhz: clock(NVML_CLOCK_MEM)?, throttled })
    }
}
