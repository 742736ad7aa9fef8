//! The interface that this process uses its devices by: CUDA's driver or HIP's runtime.
//!
//! A process is recorded in one of them, that of its first hooked call. On the CPU device, whose library has both, and
//! in programs that link both, the calls of the other are passed on and nothing of them is recorded.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use super::linker;
use super::log::{debug, warning};

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Cuda = 1,
    Hip = 2,
}

/// 0 until a hook has been called.
static FAMILY: AtomicU8 = AtomicU8::new(0);
/// Whether a call of the other interface has been noticed.
static OTHER: AtomicU8 = AtomicU8::new(0);

impl Family {
    /// The one that a function belongs to.
    pub fn of_symbol(name: &CStr) -> Self {
        let name = name.to_bytes();
        let is_mangled = |text: &[u8]| text.starts_with(b"_Z") && text.windows(3).any(|part| part == b"hip");
        if name.starts_with(b"hip") || name.starts_with(b"__hip") || is_mangled(name) { Self::Hip } else { Self::Cuda }
    }

    /// As people say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Hip => "HIP",
        }
    }

    /// Whether calls of it are recorded in this process, which the first one decides.
    pub fn is_recorded(self) -> bool {
        let known = FAMILY.load(Ordering::Relaxed);
        known == self as u8 || (known == 0 && self.decide()) || self.pass_on()
    }

    #[cold]
    fn decide(self) -> bool {
        match FAMILY.compare_exchange(0, self as u8, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(known) => known == self as u8,
        }
    }

    /// Says once that calls of this interface are not recorded.
    #[cold]
    fn pass_on(self) -> bool {
        if OTHER.swap(self as u8, Ordering::Relaxed) == 0 {
            // The CPU device's library may use the one for the other.
            if linker::cpu_device().is_some() {
                debug!("calls of {} are passed on", self.name());
            } else {
                let recorded = if self == Self::Hip { Self::Cuda } else { Self::Hip };
                warning!(
                    "this process uses {} and {}; only {} is recorded",
                    recorded.name(),
                    self.name(),
                    recorded.name()
                );
            }
        }
        false
    }
}

/// The interface of this process; `None` before its first hooked call.
pub fn of_process() -> Option<Family> {
    match FAMILY.load(Ordering::Relaxed) {
        1 => Some(Family::Cuda),
        2 => Some(Family::Hip),
        _ => None,
    }
}

/// Whether this process uses HIP.
#[inline]
pub fn is_hip() -> bool {
    FAMILY.load(Ordering::Relaxed) == Family::Hip as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_interface() {
        for (name, family) in [
            (c"hipMalloc", Family::Hip),
            (c"__hipRegisterFunction", Family::Hip),
            (c"_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tj", Family::Hip),
            (c"cuMemAlloc_v2", Family::Cuda),
            (c"mneme_cpu_code", Family::Cuda),
        ] {
            assert_eq!(Family::of_symbol(name), family, "{name:?}");
        }
    }
}
