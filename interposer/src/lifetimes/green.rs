//! Green contexts: parts of a device, which a program uses through contexts made from them.
//!
//! These contexts are noted, waited for and forgotten like others. Memory that is allocated through them belongs to the
//! primary context and lives as long, so it is transferred to that context when they end.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::contexts::{before_end, forget_handle, primary_is_released};
use crate::driver::{CUcontext, CUdevice, Status, contexts, gate};
use crate::memory::frees;

/// The device of each green context (`CUgreenCtx`), and the context that was made from it.
static GREENS: Mutex<BTreeMap<usize, (CUdevice, Option<usize>)>> = Mutex::new(BTreeMap::new());

fn greens() -> MutexGuard<'static, BTreeMap<usize, (CUdevice, Option<usize>)>> {
    GREENS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// The first argument is that of `cuGreenCtxCreate`.
pub unsafe fn create(call: &dyn Fn() -> Status, green: *mut *mut c_void, device: CUdevice) -> Status {
    // SAFETY: the driver has just written it.
    call().on_success(|| _ = greens().insert(unsafe { *green } as usize, (device, None)))
}

/// # Safety
/// The arguments are those of `cuCtxFromGreenCtx`.
pub unsafe fn make_context(call: &dyn Fn() -> Status, context: *mut CUcontext, green: *mut c_void) -> Status {
    call().on_success(|| {
        // SAFETY: the driver has just written it.
        let context = unsafe { *context } as usize;
        let known = greens().get_mut(&(green as usize)).map(|(device, made)| {
            *made = Some(context);
            *device
        });
        // A context that was made before the recorder was loaded is noted when it is used.
        if let Some(device) = known {
            contexts::note_green(context, device);
        }
    })
}

/// # Safety
/// The arguments are those of `cuGreenCtxDestroy`.
pub unsafe fn destroy(call: &dyn Fn() -> Status, green: *mut c_void) -> Status {
    gate::passing(&|| {
        before_end();
        let _alone = frees::end_of_context();
        call().on_success(|| {
            let known = greens().remove(&(green as usize));
            if let Some((device, made)) = known {
                if let Some(context) = made {
                    // A later free waits for this context, so it must be alive.
                    frees::inherit(context, contexts::primary_of(device));
                    forget_handle(context);
                    contexts::forget_green(context);
                }
                primary_is_released(device);
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::allocations::{ALLOCATIONS, KernelAccess, LiveAllocation};
    use mneme_recording::manifest::AllocationKind;

    #[test]
    fn contexts_of_green_ones_are_known_as_long_as_those_live() {
        let (mut green, mut context) = (0x6100 as *mut c_void, 0x6200 as CUcontext);
        let is_known = || contexts::device_is_known(0x6200);
        // SAFETY: valid places, as the driver would have written them.
        unsafe {
            create(&|| Status::SUCCESS, &mut green, 57);
            assert_eq!(make_context(&|| Status(1), &mut context, green), Status(1));
            assert!(!is_known(), "the driver has refused");
            make_context(&|| Status::SUCCESS, &mut context, green);
            assert!(is_known() && contexts::is_green_of(0x6200, 57) && !contexts::is_green_of(0x6200, 56));
            assert_eq!(destroy(&|| Status(1), green), Status(1));
            assert!(is_known(), "the driver has refused");
            destroy(&|| Status::SUCCESS, green);
        }
        assert!(!is_known() && !contexts::is_green_of(0x6200, 57));
    }

    /// The driver refuses to wait for a dead context, and may mistake its handle for another.
    #[test]
    fn memory_of_a_green_context_outlives_it() {
        let (mut green, mut context, mut primary) = (0x6300 as *mut c_void, 0x6400 as CUcontext, 0x6500 as CUcontext);
        let live = |address, context| LiveAllocation {
            address,
            size: 4096,
            kind: AllocationKind::Arena,
            access: KernelAccess::Peers,
            device: 58,
            context,
            shared: false,
        };
        let [own, others, deferred] = [0x7600_0000_0000, 0x7600_0001_0000, 0x7600_0002_0000];
        ALLOCATIONS.insert(live(own, 0x6400));
        ALLOCATIONS.insert(live(others, 0x6401));
        frees::defer(live(deferred, 0x6400), 1);
        // SAFETY: valid places, as the driver would have written them.
        unsafe {
            contexts::retain_primary(&|| Status::SUCCESS, &mut primary, 58);
            create(&|| Status::SUCCESS, &mut green, 58);
            make_context(&|| Status::SUCCESS, &mut context, green);
            assert!(contexts::is_green_of(0x6400, 58));
            destroy(&|| Status::SUCCESS, green);
        }
        let context_of = |address| ALLOCATIONS.containing(address).map(|live| live.context);
        assert_eq!((context_of(own), context_of(others)), (Some(0x6500), Some(0x6401)));
        assert_eq!(frees::take(|live| live.address == deferred), [live(deferred, 0x6500)]);
        ALLOCATIONS.remove(own);
        ALLOCATIONS.remove(others);
        contexts::forget_primary(58);
    }
}
