//! The primary context, made at the first call and current on every thread that calls.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::calls::{Calls, driver};
use crate::abi::Out;
use crate::status::{Done, Status};

/// The retained context, 0 before the first call and after a reset.
static PRIMARY: Mutex<usize> = Mutex::new(0);
/// How often the device has been reset.
static GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The generation of the context that this thread has been given, plus one.
    static BOUND: Cell<u64> = const { Cell::new(0) };
}

/// The driver, with a context current on the calling thread.
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

fn bind(calls: &Calls) -> Done {
    let mut primary = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    if *primary == 0 {
        calls.cuDevicePrimaryCtxRetain(Out::to(&mut primary), 0)?;
    }
    let mut current = 0;
    calls.cuCtxGetCurrent(Out::to(&mut current))?;
    // A context that the application made current with the driver's functions is the one to use.
    if current == 0 || BOUND.get() != 0 {
        calls.cuCtxSetCurrent(*primary)?;
    }
    BOUND.set(generation() + 1);
    Ok(())
}

/// `cudaDeviceReset`
pub fn reset() -> Done {
    let calls = driver()?;
    let mut primary = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    calls.cuDevicePrimaryCtxReset(0)?;
    *primary = 0;
    GENERATION.fetch_add(1, Ordering::AcqRel);
    super::error::clear();
    Ok(())
}
