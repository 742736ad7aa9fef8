//! Handles of kernels.
//!
//! `CUkernel` and `CUfunction` are objects of one kind, so each function accepts both. As in the vendor's driver, a
//! library's kernel has a separate function in each context.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::attributes::{CAPABILITY, MAX_THREADS, SHARED, SHARED_OF_AMD, SHARED_OPT_IN};
use super::context;
use super::image::ImageKernel;
use crate::abi::Out;
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

pub struct KernelHandle {
    pub kernel: ImageKernel,
    /// The module or library that contains it.
    owner: usize,
    name: CString,
    /// Bytes of dynamic shared memory that a launch may request. A kernel's functions share the bound.
    pub max_dynamic_shared: Arc<AtomicU32>,
    /// Whether a launch may request clusters that not every GPU supports.
    pub large_clusters: Arc<AtomicBool>,
    /// For a library's kernel: its function in each context.
    in_contexts: Mutex<HashMap<usize, usize>>,
}

static FUNCTIONS: Registry<KernelHandle> = Registry::new("a function");

impl KernelHandle {
    pub fn new(owner: usize, kernel: ImageKernel) -> Result<Self, Status> {
        let name = CString::new(kernel.row().name.as_str()).map_err(|_| Status::INVALID_IMAGE)?;
        let all = if kernel.is_of_amd() { SHARED_OF_AMD } else { SHARED };
        let free = all.saturating_sub(kernel.row().static_shared);
        let max_dynamic_shared = Arc::new(AtomicU32::new(free));
        let large_clusters = Arc::default();
        Ok(Self { kernel, owner, name, max_dynamic_shared, large_clusters, in_contexts: Mutex::default() })
    }

    /// The module or library that contains it.
    pub fn owner(&self) -> usize {
        self.owner
    }

    /// The handle of a library's kernel in a context, where the library has this module.
    pub fn in_context(&self, context: usize, module: usize) -> usize {
        let mut functions = self.in_contexts.lock().unwrap_or_else(PoisonError::into_inner);
        *functions.entry(context).or_insert_with(|| register(self.of_module(module)))
    }

    fn of_module(&self, module: usize) -> Self {
        Self {
            kernel: self.kernel.clone(),
            owner: module,
            name: self.name.clone(),
            max_dynamic_shared: self.max_dynamic_shared.clone(),
            large_clusters: self.large_clusters.clone(),
            in_contexts: Mutex::default(),
        }
    }

    /// The most threads that a block of a launch may have.
    pub fn max_threads(&self) -> u32 {
        match self.kernel.row().max_threads {
            0 => MAX_THREADS,
            bound => bound.min(MAX_THREADS),
        }
    }
}

pub fn register(function: KernelHandle) -> usize {
    FUNCTIONS.insert(Arc::new(function))
}

pub fn unregister(handle: usize) {
    if let Ok(function) = FUNCTIONS.remove(handle) {
        let in_contexts = function.in_contexts.lock().unwrap_or_else(PoisonError::into_inner);
        in_contexts.values().for_each(|handle| unregister(*handle));
    }
}

/// Removes the functions of a context's modules.
pub fn end_with(context: usize, has_ended: impl Fn(usize) -> bool) {
    FUNCTIONS.remove_all(|function| has_ended(function.owner));
    FUNCTIONS.for_each(|function| {
        function.in_contexts.lock().unwrap_or_else(PoisonError::into_inner).remove(&context);
    });
}

pub fn get(handle: usize) -> Result<Arc<KernelHandle>, Status> {
    FUNCTIONS.get(handle)
}

/// `CUfunction_attribute`
pub fn attribute(out: Out<i32>, attribute: u32, handle: usize) -> StatusResult {
    context::initialised()?;
    let function = get(handle)?;
    out.put(match attribute {
        0 => function.max_threads() as i32,
        1 => function.kernel.row().static_shared as i32,
        // Constant memory, local memory and registers: none to report on a CPU.
        2..=4 => 0,
        // PTX and binary version.
        5 | 6 => CAPABILITY.0 * 10 + CAPABILITY.1,
        7 => 0,
        8 => function.max_dynamic_shared.load(Ordering::Relaxed) as i32,
        // No preferred split of shared memory.
        9 => -1,
        10 => i32::from(function.kernel.row().cluster[0] > 0),
        11..=13 => function.kernel.row().cluster[attribute as usize - 11] as i32,
        14 => i32::from(function.large_clusters.load(Ordering::Relaxed)),
        15 => 0,
        _ => return Err(Status::INVALID_VALUE),
    })
}

pub fn set_attribute(handle: usize, attribute: u32, value: i32) -> StatusResult {
    context::initialised()?;
    let function = get(handle)?;
    match attribute {
        8 => {
            let value = u32::try_from(value).map_err(|_| Status::INVALID_VALUE)?;
            if value > SHARED_OPT_IN.saturating_sub(function.kernel.row().static_shared) {
                return Err(Status::INVALID_VALUE);
            }
            function.max_dynamic_shared.store(value, Ordering::Relaxed);
            Ok(())
        }
        14 => {
            function.large_clusters.store(value != 0, Ordering::Relaxed);
            Ok(())
        }
        9..=15 => Ok(()),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn name(out: Out<*const c_char>, handle: usize) -> StatusResult {
    // The handle's registration owns the string. It is freed with the module, as in the vendor's driver.
    out.put(get(handle)?.name.as_ptr())
}

pub fn parameter(handle: usize, index: usize, offset: Out<usize>, size: Out<usize>) -> StatusResult {
    let function = get(handle)?;
    let parameter = function.kernel.row().parameters.get(index).ok_or(Status::INVALID_VALUE)?;
    offset.put(parameter.offset as usize)?;
    size.put_if_wanted(parameter.size as usize);
    Ok(())
}

pub fn owner(out: Out<usize>, handle: usize) -> StatusResult {
    out.put(get(handle)?.owner)
}

pub fn is_loaded(out: Out<u32>, handle: usize) -> StatusResult {
    get(handle)?;
    out.put(1)
}

/// Accepts preferences (caches, bank sizes) and explicit loading.
pub fn accept(handle: usize) -> StatusResult {
    get(handle).map(|_| ())
}

/// Blocks that a multiprocessor, i.e. a worker thread, runs at once: 1 if the block can run at all.
pub fn occupancy(out: Out<i32>, handle: usize, threads: i32, dynamic_shared: usize) -> StatusResult {
    context::usable()?;
    let function = get(handle)?;
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(Status::INVALID_VALUE)?;
    let shared = function.kernel.row().static_shared as usize + dynamic_shared;
    out.put(i32::from(threads <= function.max_threads() && shared <= SHARED_OPT_IN as usize))
}

pub fn potential_block(grid: Out<i32>, block: Out<i32>, handle: usize, limit: i32) -> StatusResult {
    context::usable()?;
    let function = get(handle)?;
    let most = function.max_threads() as i32;
    block.put(if limit > 0 { most.min(limit) } else { most })?;
    grid.put(super::attributes::value(16).unwrap_or(1))
}

pub fn available_shared(out: Out<usize>, handle: usize) -> StatusResult {
    context::usable()?;
    out.put(get(handle)?.max_dynamic_shared.load(Ordering::Relaxed) as usize)
}
