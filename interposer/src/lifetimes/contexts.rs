//! Handles the ends of contexts: forgets what they destroy, and releases memory of the arena.

use crate::apply;
use crate::driver::{self, CUcontext, CUdevice, Status, captures, contexts, gate};
use crate::kernels::handles;
use crate::launches::graphs;
use crate::memory::{access, frees, images, tracked};
use crate::process::linker;
use crate::recorder::{profile, unfinished};
use crate::snapshot;

/// Reads the state that ends with a context, while it still exists.
pub fn before_end() {
    profile::collect();
    unfinished::forget_all();
}

/// Makes a call that may end a context, and runs `ended` after a success.
fn ending(call: &dyn Fn() -> Status, ended: impl Fn()) -> Status {
    gate::passing(&|| {
        before_end();
        let _alone = (apply::end_of_context(), frees::end_of_context());
        call().on_success(&ended)
    })
}

/// Handles `cuCtxDestroy_v2`.
pub fn destroy(call: &dyn Fn() -> Status, context: CUcontext) -> Status {
    ending(call, || died(context as usize))
}

/// Handles `cuDevicePrimaryCtxReset_v2`.
pub fn reset_primary(call: &dyn Fn() -> Status, device: CUdevice) -> Status {
    ending(call, || primary_died(device))
}

/// Handles `cuDevicePrimaryCtxRelease_v2`.
pub fn release_primary(call: &dyn Fn() -> Status, device: CUdevice) -> Status {
    ending(call, || primary_is_released(device))
}

/// Detaches from a context, which lives until its last user detaches.
pub fn detach(call: &dyn Fn() -> Status, context: CUcontext) -> Status {
    ending(call, || {
        if !is_alive(context) {
            died(context as usize);
        }
    })
}

/// Resets the current device, as if its only context had been destroyed.
pub fn reset_device(call: &dyn Fn() -> Status) -> Status {
    let context = driver::current_context();
    ending(call, || context.into_iter().for_each(died))
}

/// Resets a device's primary context. AMD's library does nothing here; the CPU device resets the device.
pub fn reset_primary_of_hip(call: &dyn Fn() -> Status, device: CUdevice) -> Status {
    if linker::cpu_device().is_some() { reset_primary(call, device) } else { gate::passing(call) }
}

/// Releases a device's primary context. AMD's library does nothing here; on the CPU device the last user's release
/// destroys the context.
pub fn release_primary_of_hip(call: &dyn Fn() -> Status, device: CUdevice) -> Status {
    if linker::cpu_device().is_some() { release_primary(call, device) } else { gate::passing(call) }
}

fn is_alive(context: CUcontext) -> bool {
    let own = driver::current_context();
    // SAFETY: the driver reports an error for a dead context; the current one is restored.
    unsafe {
        let status = driver::cuCtxSetCurrent(context);
        driver::cuCtxSetCurrent(own.unwrap_or_default() as CUcontext);
        status == Status::SUCCESS
    }
}

/// Handles the release of a device's primary context, which the last user's release destroys.
pub fn primary_is_released(device: CUdevice) {
    let (mut flags, mut active) = (0, 1);
    // SAFETY: valid places.
    if unsafe { driver::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) } == Status::SUCCESS && active == 0
    {
        primary_died(device);
    }
}

/// Forgets a context, but not its memory.
pub fn forget_handle(context: usize) {
    contexts::forget(context);
    access::forget_context(context);
    frees::forget_context(context);
    snapshot::forget_context(context);
    captures::forget_context(context);
    profile::forget(Some(context));
    apply::forget(Some(context));
}

/// Forgets the objects of contexts.
fn forget_contexts(has_ended: impl Fn(usize) -> bool) {
    images::forget_contexts(&has_ended);
    graphs::forget_contexts(&has_ended);
    handles::forget_contexts(has_ended);
}

fn died(context: usize) {
    forget_handle(context);
    forget_contexts(|ended| ended == context);
    frees::forget(None, |live| live.context == context);
    tracked::forget_lost_mappings();
}

fn primary_died(device: CUdevice) {
    let known = contexts::all();
    match contexts::forget_primary(device) {
        Some(context) => {
            forget_contexts(|ended| ended == context || contexts::is_green_of(ended, device));
            forget_handle(context);
            frees::forget(Some(device), |live| live.context == context || contexts::is_green_of(live.context, device));
        }
        None => {
            let ended: Vec<usize> = known
                .into_iter()
                .filter(|known| known.device == device && !is_alive(known.handle as CUcontext))
                .map(|known| known.handle)
                .collect();
            forget_contexts(|context| ended.contains(&context));
            frees::forget_all_contexts();
            snapshot::forget_all_contexts();
            ended.iter().for_each(|context| captures::forget_context(*context));
            profile::forget(None);
            apply::forget(None);
            frees::forget(Some(device), |live| live.context != 0 && live.device == device);
        }
    }
    contexts::forget_all_green_of(device);
    tracked::forget_lost_mappings();
}
