//! The ends of contexts: what died with one is forgotten, and its memory in the arena given back.

use crate::memory::frees;
use crate::recorder::profile;
use crate::snapshot;
use crate::vendor::{self, CUcontext, CUdevice, SUCCESS, Status, contexts, gate};

/// # Safety
/// The arguments are those of `cuCtxDestroy_v2`.
pub unsafe fn destroy(call: &dyn Fn() -> Status, context: CUcontext) -> Status {
    gate::passing(&|| {
        profile::collect();
        let status = call();
        if status == SUCCESS {
            died(context as usize);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuDevicePrimaryCtxReset_v2`.
pub unsafe fn reset_primary(call: &dyn Fn() -> Status, device: CUdevice) -> Status {
    gate::passing(&|| {
        profile::collect();
        let status = call();
        if status == SUCCESS {
            primary_died(device);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuDevicePrimaryCtxRelease_v2`.
pub unsafe fn release_primary(call: &dyn Fn() -> Status, device: CUdevice) -> Status {
    gate::passing(&|| {
        profile::collect();
        let status = call();
        let (mut flags, mut active) = (0, 1);
        // SAFETY: valid places. The last release destroys the context.
        if status == SUCCESS && unsafe { vendor::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) } == SUCCESS && active == 0 {
            primary_died(device);
        }
        status
    })
}

fn died(context: usize) {
    contexts::forget(context);
    snapshot::forget_context(context);
    profile::forget(Some(context));
    frees::bury(None, |live| live.context == context);
}

fn primary_died(device: CUdevice) {
    match contexts::forget_primary(device) {
        Some(context) => {
            snapshot::forget_context(context);
            profile::forget(Some(context));
            frees::bury(Some(device), |live| live.context == context);
        }
        None => {
            snapshot::forget_all_contexts();
            profile::forget(None);
            frees::bury(Some(device), |live| live.device == device);
        }
    }
}
