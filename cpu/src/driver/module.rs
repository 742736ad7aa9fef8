//! Modules and libraries: loaded code, with its kernels and variables by name.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use super::function::KernelHandle;
use super::image::Image;
use super::{context, function, lanes};
use crate::abi::{CStringArgument, Out};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

/// The code of a module, or of a library, which every context shares.
pub struct LoadedModule {
    image: Image,
    /// Handles that calls returned, by kernel name.
    functions: Mutex<HashMap<String, usize>>,
    /// For a library: its module in each context.
    in_contexts: Mutex<HashMap<usize, usize>>,
}

/// A module and its context.
struct Module {
    code: Arc<LoadedModule>,
    /// The context that the module ends with, 0 if it outlives contexts.
    context: usize,
}

static MODULES: Registry<Module> = Registry::new("a module");
static LIBRARIES: Registry<LoadedModule> = Registry::new("a library");

fn new(image: Image) -> Arc<LoadedModule> {
    Arc::new(LoadedModule { image, functions: Mutex::default(), in_contexts: Mutex::default() })
}

fn add(code: Arc<LoadedModule>, context: usize) -> usize {
    MODULES.insert(Arc::new(Module { code, context }))
}

fn module(handle: usize) -> Result<Arc<LoadedModule>, Status> {
    MODULES.get(handle).map(|module| module.code.clone())
}

/// Loads a module into the current context.
pub fn load_data(out: Out<usize>, image: *const c_void) -> StatusResult {
    context::usable()?;
    let image = Image::at(image.cast())?;
    out.put(add(new(image), context::current()?))
}

/// Loads a module for HIP, whose modules outlive the reset of a device.
pub fn load_lasting_data(out: Out<usize>, image: *const c_void) -> StatusResult {
    context::usable()?;
    let image = Image::at(image.cast())?;
    out.put(add(new(image), 0))
}

fn from_file(path: CStringArgument) -> Result<Image, Status> {
    let bytes = std::fs::read(path.get()?).map_err(|_| Status::FILE_NOT_FOUND)?;
    Image::from_bytes(bytes)
}

pub fn load_file(out: Out<usize>, path: CStringArgument) -> StatusResult {
    context::usable()?;
    out.put(add(new(from_file(path)?), context::current()?))
}

pub fn load_lasting_file(out: Out<usize>, path: CStringArgument) -> StatusResult {
    context::usable()?;
    out.put(add(new(from_file(path)?), 0))
}

/// Ends the modules of a context, with their functions and variables.
pub fn end_with(context: usize) {
    let ended = MODULES.remove_all(|module| module.context == context);
    function::end_with(context, |owner| ended.contains(&owner));
    LIBRARIES.for_each(|library| {
        library.in_contexts.lock().unwrap_or_else(PoisonError::into_inner).remove(&context);
    });
}

impl LoadedModule {
    fn function(&self, owner: usize, name: &str) -> Result<usize, Status> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = functions.get(name) {
            return Ok(*handle);
        }
        let kernel = self.image.kernel(name)?;
        let handle = function::register(KernelHandle::new(owner, kernel)?);
        functions.insert(name.to_owned(), handle);
        Ok(handle)
    }

    fn global(&self, address: Out<u64>, size: Out<usize>, name: CStringArgument) -> StatusResult {
        let (start, bytes) = self.image.variable(name.get()?)?;
        address.put_if_wanted(start);
        size.put_if_wanted(bytes as usize);
        Ok(())
    }

    fn forget_functions(&self) {
        for handle in self.functions.lock().unwrap_or_else(PoisonError::into_inner).values() {
            function::unregister(*handle);
        }
    }
}

pub fn unload(module: usize) -> StatusResult {
    let context = context::current()?;
    let module = MODULES.remove(module)?;
    lanes::wait(&lanes::of_context(context))?;
    module.code.forget_functions();
    Ok(())
}

pub fn get_function(out: Out<usize>, module: usize, name: CStringArgument) -> StatusResult {
    context::usable()?;
    out.put(self::module(module)?.function(module, name.get()?)?)
}

pub fn get_global(address: Out<u64>, size: Out<usize>, module: usize, name: CStringArgument) -> StatusResult {
    context::usable()?;
    self::module(module)?.global(address, size, name)
}

pub fn function_count(out: Out<u32>, module: usize) -> StatusResult {
    context::usable()?;
    out.put(self::module(module)?.image.kernel_names()?.len() as u32)
}

pub fn enumerate(out: Out<usize>, count: u32, module: usize) -> StatusResult {
    context::usable()?;
    let owner = self::module(module)?;
    for (index, name) in owner.image.kernel_names()?.iter().take(count as usize).enumerate() {
        out.at(index).put(owner.function(module, name)?)?;
    }
    Ok(())
}

/// `CU_MODULE_EAGER_LOADING` 1, `CU_MODULE_LAZY_LOADING` 2
pub fn loading_mode(out: Out<u32>) -> StatusResult {
    context::initialised()?;
    out.put(2)
}

pub fn load_library(out: Out<usize>, image: *const c_void) -> StatusResult {
    context::initialised()?;
    let image = Image::at(image.cast())?;
    out.put(LIBRARIES.insert(new(image)))
}

pub fn load_library_file(out: Out<usize>, path: CStringArgument) -> StatusResult {
    context::initialised()?;
    out.put(LIBRARIES.insert(new(from_file(path)?)))
}

pub fn unload_library(library: usize) -> StatusResult {
    let library = LIBRARIES.remove(library)?;
    lanes::wait(&lanes::of_all())?;
    library.forget_functions();
    for module in library.in_contexts.lock().unwrap_or_else(PoisonError::into_inner).values() {
        let _ = MODULES.remove(*module);
    }
    Ok(())
}

pub fn get_kernel(out: Out<usize>, library: usize, name: CStringArgument) -> StatusResult {
    out.put(LIBRARIES.get(library)?.function(library, name.get()?)?)
}

/// Returns the library's module in the current context.
pub fn get_module(out: Out<usize>, library: usize) -> StatusResult {
    context::usable()?;
    out.put(of_library(library, context::current()?).ok_or(Status::INVALID_HANDLE)?)
}

/// `cuKernelGetFunction`
pub fn function_of_kernel(out: Out<usize>, handle: usize) -> StatusResult {
    context::usable()?;
    out.put(function_in_context(handle)?)
}

/// The function of a library's kernel in the current context. Any other handle is returned unchanged.
pub fn function_in_context(handle: usize) -> Result<usize, Status> {
    let context = context::current()?;
    let kernel = function::get(handle)?;
    Ok(of_library(kernel.owner(), context).map_or(handle, |module| kernel.in_context(context, module)))
}

/// The module of a library in a context.
fn of_library(library: usize, context: usize) -> Option<usize> {
    let library = LIBRARIES.get(library).ok()?;
    let mut modules = library.in_contexts.lock().unwrap_or_else(PoisonError::into_inner);
    Some(*modules.entry(context).or_insert_with(|| add(library.clone(), context)))
}

pub fn library_global(address: Out<u64>, size: Out<usize>, library: usize, name: CStringArgument) -> StatusResult {
    context::usable()?;
    LIBRARIES.get(library)?.global(address, size, name)
}

pub fn library_managed(_address: Out<u64>, _size: Out<usize>, library: usize, _name: CStringArgument) -> StatusResult {
    LIBRARIES.get(library)?;
    Err(Status::NOT_FOUND)
}

pub fn kernel_count(out: Out<u32>, library: usize) -> StatusResult {
    out.put(LIBRARIES.get(library)?.image.kernel_names()?.len() as u32)
}

pub fn enumerate_kernels(out: Out<usize>, count: u32, library: usize) -> StatusResult {
    let owner = LIBRARIES.get(library)?;
    for (index, name) in owner.image.kernel_names()?.iter().take(count as usize).enumerate() {
        out.at(index).put(owner.function(library, name)?)?;
    }
    Ok(())
}
