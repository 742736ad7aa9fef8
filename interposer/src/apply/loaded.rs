//! Tuned code in a context of the application.
//!
//! It is loaded at the first launch that it applies to, and unloaded with the context.

use std::ffi::{CString, c_uint};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use mneme_abi::cuda::sys::CUfunction_attribute;
use mneme_model::launch::DEFAULT_DYNAMIC_SHARED;
use mneme_winners::{Winner, WinnerError};

use super::error::ApplyError;
use super::residency::Residency;
use crate::driver::streams::CaptureMode;
use crate::driver::{self, CUfunction, CUmodule, Status, hooked};
use crate::kernels::code::DeviceDescription;
use crate::kernels::function_settings::{FunctionSettings, Setting};
use crate::process::recorded_family;

/// How many contexts can have the code.
const PLACES: usize = 16;
pub(super) const MAX_DYNAMIC_SHARED: c_uint =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_uint;
pub(super) const STATIC_SHARED: c_uint = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as c_uint;
pub(super) const MAX_THREADS: c_uint = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as c_uint;

/// The code of a winner: its image, once read, and the contexts that have it loaded.
pub struct TunedCode {
    pub winner: &'static Winner,
    image: OnceLock<Result<Vec<u8>, Arc<WinnerError>>>,
    places: [AtomicPtr<LoadedCode>; PLACES],
}

impl TunedCode {
    pub fn new(winner: &'static Winner) -> Self {
        Self { winner, image: OnceLock::new(), places: Default::default() }
    }
}

/// Code in one context.
pub struct LoadedCode {
    pub context: usize,
    pub function: CUfunction,
    /// The most threads of a block, or `None` if the vendor does not report it.
    pub max_threads: Option<u32>,
    /// The version of the application's settings that the function has.
    version: AtomicU32,
    pub residency: Residency,
}

/// The code that was loaded in a context. Entries are never freed, because another thread may be reading one.
#[inline]
pub fn find(code: &TunedCode, context: usize) -> Option<&'static LoadedCode> {
    // SAFETY: null, or leaked and changed only through its counter.
    let loaded = |place: &AtomicPtr<LoadedCode>| unsafe { place.load(Ordering::Acquire).as_ref() };
    code.places.iter().filter_map(loaded).find(|loaded| loaded.context == context)
}

/// Forgets the code in a context that has ended, or in all contexts for `None`.
pub fn forget(code: &TunedCode, context: Option<usize>) {
    for place in &code.places {
        let known = place.load(Ordering::Acquire);
        // SAFETY: as in `find`.
        let is_meant = unsafe { known.as_ref() }.is_some_and(|loaded| context.is_none_or(|it| it == loaded.context));
        if is_meant {
            let _ = place.compare_exchange(known, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Loads the code in the current context.
pub fn load(code: &TunedCode, context: usize) -> Result<&'static LoadedCode, ApplyError> {
    let winner = code.winner;
    let device = driver::current_device().ok_or(ApplyError::NoDevice)?;
    let here = DeviceDescription::of(device).arch();
    if here != winner.architecture {
        return Err(ApplyError::OtherDevice { tuned: winner.architecture.clone(), here });
    }
    let image = code.image.get_or_init(|| winner.image().map_err(Arc::new)).as_ref().map_err(Clone::clone)?;
    let function = function_of(image, winner)?;
    let max_threads = attribute(function, MAX_THREADS);
    let version = AtomicU32::new(u32::MAX);
    let loaded = LoadedCode { context, function, max_threads, version, residency: Residency::here() };
    let loaded = Box::into_raw(Box::new(loaded));
    for place in &code.places {
        if place.compare_exchange(std::ptr::null_mut(), loaded, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: leaked, and changed only through its counter.
            return Ok(unsafe { &*loaded });
        }
        // Another thread was first, in this context or in another one.
        if find(code, context).is_some() {
            break;
        }
    }
    // SAFETY: just made, and no other thread has a reference.
    drop(unsafe { Box::from_raw(loaded) });
    find(code, context).ok_or(ApplyError::Contexts(PLACES))
}

/// Loads the module and finds the function. An unused module stays loaded: the driver may wait for the device before it
/// unloads a module, and the device for the application.
fn function_of(image: &[u8], winner: &Winner) -> Result<CUfunction, ApplyError> {
    let name = CString::new(winner.kernel.as_str()).map_err(|_| ApplyError::Name)?;
    let (mut module, mut function): (CUmodule, CUfunction) = (std::ptr::null_mut(), std::ptr::null_mut());
    let _mode = CaptureMode::relaxed();
    // SAFETY: valid places, a whole ELF object and a name that ends with a NUL.
    unsafe {
        match hooked::cuModuleLoadData::call(&mut module, image.as_ptr().cast()) {
            Status::SUCCESS => {}
            status => return Err(ApplyError::NotLoaded(status)),
        }
        match hooked::cuModuleGetFunction::call(&mut function, module, name.as_ptr()) {
            Status::SUCCESS => {
                // Otherwise the first launch loads the function. Drivers before CUDA 12.4 lack this call.
                driver::cuFuncLoad(function);
                Ok(function)
            }
            status => Err(ApplyError::NotFound(status)),
        }
    }
}

fn attribute(function: CUfunction, attribute: c_uint) -> Option<u32> {
    let mut value = 0;
    // SAFETY: a valid place, and a function of the recorder.
    let status = unsafe { driver::cuFuncGetAttribute(&mut value, attribute, function) };
    (status == Status::SUCCESS).then_some(value).and_then(|value| u32::try_from(value).ok())
}

impl LoadedCode {
    /// Copies changed settings of the application's function to this function.
    #[inline]
    pub fn follow(&self, settings: &FunctionSettings, winner: &Winner) -> Result<(), ApplyError> {
        let version = settings.version();
        if self.version.load(Ordering::Acquire) == version {
            return Ok(());
        }
        self.set(settings, winner)?;
        self.version.store(version, Ordering::Release);
        Ok(())
    }

    #[cold]
    fn set(&self, settings: &FunctionSettings, winner: &Winner) -> Result<(), ApplyError> {
        // AMD's library accepts such settings and ignores them.
        if recorded_family::is_hip() {
            return Ok(());
        }
        let own = if winner.folded.shared_memory { 0 } else { winner.tuned.shared_mem };
        let mut values = settings.values();
        if own > DEFAULT_DYNAMIC_SHARED {
            let needed = own.cast_signed();
            match values.iter_mut().find(|(setting, _)| *setting == Setting::Attribute(MAX_DYNAMIC_SHARED)) {
                Some((_, value)) => *value = (*value).max(needed),
                None => values.push((Setting::Attribute(MAX_DYNAMIC_SHARED), needed)),
            }
        }
        for (setting, value) in values {
            // SAFETY: a function of the recorder, and values that the driver has accepted for another one.
            let status = unsafe {
                match setting {
                    Setting::Attribute(number) => hooked::cuFuncSetAttribute::call(self.function, number, value),
                    Setting::Cache => hooked::cuFuncSetCacheConfig::call(self.function, value as c_uint),
                    Setting::Banks => hooked::cuFuncSetSharedMemConfig::call(self.function, value as c_uint),
                }
            };
            if status != Status::SUCCESS {
                return Err(ApplyError::Setting { setting, status });
            }
        }
        Ok(())
    }
}
