//! The interface that is recorded in this process: that of its first hooked call.
//!
//! The CPU device implements both interfaces, and some programs link both. Calls of the other interface are passed on
//! and not recorded.

use std::sync::atomic::{AtomicU8, Ordering};

use mneme_abi::cuda::status::Status;

use super::family::Family;
use super::linker;
use super::log::{debug, warning};

/// 0 until a hook has been called.
static FAMILY: AtomicU8 = AtomicU8::new(0);
/// Not 0 if a call of the other interface has been noticed.
static OTHER: AtomicU8 = AtomicU8::new(0);

impl Family {
    /// Whether calls of this interface are recorded in this process. The first call decides.
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
            // The CPU device implements one interface with the other.
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

/// A status of the recorded interface, for messages.
pub fn error(status: Status) -> String {
    format!("{} error {status}", of_process().unwrap_or(Family::Cuda).name())
}
