//! The primary context, created by the first call and made current on every thread that calls.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::calls::{Calls, driver};
use crate::abi::Out;
use crate::status::{Status, StatusResult};

/// The retained context of each device. A device has none before the first call and after a reset.
static PRIMARY: Mutex<BTreeMap<i32, usize>> = Mutex::new(BTreeMap::new());
/// How often the device has been reset.
static GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The generation of the context that this thread has bound, plus one.
    static BOUND: Cell<u64> = const { Cell::new(0) };
    /// The device that `cudaSetDevice` chose.
    static DEVICE: Cell<i32> = const { Cell::new(0) };
}

/// Returns the driver, with a context current on the calling thread.
pub fn driver_with_context() -> Result<&'static Calls, Status> {
    let calls = driver()?;
    if BOUND.get() == 0 || BOUND.get() != generation() + 1 {
        bind(calls)?;
    }
    Ok(calls)
}

fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

fn bind(calls: &Calls) -> StatusResult {
    let primary = primary_of(DEVICE.get())?;
    let mut current = 0;
    calls.cuCtxGetCurrent(Out::to(&mut current))?;
    // Keep a context that the application has made current with the driver's functions.
    if current == 0 || BOUND.get() != 0 {
        calls.cuCtxSetCurrent(primary)?;
    }
    BOUND.set(generation() + 1);
    Ok(())
}

/// The device of this thread's calls.
pub fn device() -> i32 {
    DEVICE.get()
}

/// `cudaSetDevice`
pub fn set_device(device: i32) -> StatusResult {
    let calls = driver()?;
    let primary = primary_of(device)?;
    DEVICE.set(device);
    calls.cuCtxSetCurrent(primary)?;
    BOUND.set(generation() + 1);
    Ok(())
}

/// Returns the primary context of a device, and creates it if necessary.
pub fn primary_of(device: i32) -> Result<usize, Status> {
    let calls = driver()?;
    let mut primary = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = primary.get(&device) {
        return Ok(*context);
    }
    let mut context = 0;
    calls.cuDevicePrimaryCtxRetain(Out::to(&mut context), device)?;
    primary.insert(device, context);
    Ok(context)
}

/// `cudaDeviceReset`
pub fn reset() -> StatusResult {
    let calls = driver()?;
    let mut primary = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    calls.cuDevicePrimaryCtxReset_v2(DEVICE.get())?;
    primary.remove(&DEVICE.get());
    GENERATION.fetch_add(1, Ordering::AcqRel);
    super::error::clear();
    Ok(())
}
