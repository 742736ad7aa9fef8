//! The handles of loaded code: from a function handle to its kernel.
//!
//! cudart launches with a `CUkernel` cast to `CUfunction`, so that both kinds of handle are in one table.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::kernel::{CodeOwner, FunctionHandle, Kernel};
use super::origin::{CodeOrigin, Object};
use super::recent;
use crate::driver::{self, CUfunction, CUkernel, CUlibrary, CUmodule, Status};
use crate::process::recorded_family;

/// What tells kernels of one name apart: the object's path and the image's identity.
type KernelKey = (Option<PathBuf>, u64, String);

/// What a module or library was loaded from.
struct Home {
    origin: CodeOrigin,
    /// The context that it ends with, 0 if it ends with none.
    context: usize,
    /// Of a library's module: the library that it ends with.
    library: Option<CodeOwner>,
}

/// A function, and the context that it ends with, 0 if it ends with none.
struct Function {
    handle: FunctionHandle,
    context: usize,
}

#[derive(Default)]
struct Code {
    homes: HashMap<CodeOwner, Home>,
    functions: HashMap<usize, Function>,
    kernels: HashMap<KernelKey, Arc<Kernel>>,
    objects: HashMap<PathBuf, Arc<Object>>,
}

static CODE: LazyLock<RwLock<Code>> = LazyLock::new(RwLock::default);

fn change<R>(change: impl FnOnce(&mut Code) -> R) -> R {
    change(&mut CODE.write().unwrap_or_else(PoisonError::into_inner))
}

fn look<R>(look: impl FnOnce(&Code) -> R) -> R {
    look(&CODE.read().unwrap_or_else(PoisonError::into_inner))
}

impl Code {
    /// Notes a function, and the context that it ends with unless its module is known to end with another.
    fn insert(&mut self, handle: usize, function: FunctionHandle, context: usize) {
        let context = match function.home {
            CodeOwner::Module(_) => self.homes.get(&function.home).map_or(context, |home| home.context),
            CodeOwner::Library(_) | CodeOwner::Binary(_) => context,
        };
        let kernel = function.kernel.clone();
        let known = self.functions.insert(handle, Function { handle: function, context });
        // A context of which no hook saw the end has taken its functions with it.
        if known.is_some_and(|known| !Arc::ptr_eq(&known.handle.kernel, &kernel)) {
            recent::clear();
        }
    }

    fn origin(&self, home: CodeOwner) -> Option<CodeOrigin> {
        self.homes.get(&home).map(|home| home.origin.clone())
    }

    /// Forgets what goes with a module or a library. The driver may give out each handle anew, for something else.
    ///
    /// A module that no hook has seen may be one of the library's: its functions go too, and the driver is asked about
    /// those that are launched again.
    fn forget(&mut self, home: CodeOwner) {
        self.homes.retain(|known, of| *known != home && of.library != Some(home));
        let homes = &self.homes;
        let is_left = |owner: CodeOwner| homes.contains_key(&owner) || !matches!(owner, CodeOwner::Module(_));
        self.functions.retain(|_, function| function.handle.home != home && is_left(function.handle.home));
        recent::clear();
    }
}

/// The context that what is made now ends with. HIP's contexts are its devices, whose resets leave modules.
fn current_context() -> usize {
    if recorded_family::is_hip() { 0 } else { driver::current_context().unwrap_or(0) }
}

/// The context that a handle of this home ends with: modules and their functions are a context's, libraries and their
/// kernels none's.
fn context_of(home: CodeOwner) -> usize {
    if matches!(home, CodeOwner::Module(_)) { current_context() } else { 0 }
}

/// The object of a path, as its file is now.
pub fn object(path: PathBuf) -> Arc<Object> {
    let now = Object::new(path.clone());
    change(|code| match code.objects.get(&path) {
        Some(known) if known.is_same_file(&now) => known.clone(),
        _ => {
            let object = Arc::new(now);
            code.objects.insert(path, object.clone());
            object
        }
    })
}

/// Notes what a handle was loaded from. One that died with its context may be given out anew, hence what was known of
/// it is forgotten.
pub fn note(home: CodeOwner, origin: CodeOrigin) {
    let context = context_of(home);
    change(|code| {
        code.forget(home);
        code.homes.insert(home, Home { origin, context, library: None })
    });
}

/// Notes that a module is the one of a library in the current context.
pub fn note_module_of(library: CodeOwner, module: CodeOwner) {
    let context = current_context();
    change(|code| {
        let origin = code.origin(library).unwrap_or_default();
        code.homes.insert(module, Home { origin, context, library: Some(library) })
    });
}

/// Forgets what is about to be unloaded.
pub fn forget(home: CodeOwner) {
    change(|code| code.forget(home));
}

/// Forgets the modules and functions of contexts that have ended: the vendor may take what it is asked of them for
/// something else, or crash.
pub fn forget_contexts(has_ended: impl Fn(usize) -> bool) {
    let is_gone = |context: usize| context != 0 && has_ended(context);
    change(|code| {
        code.homes.retain(|_, home| !is_gone(home.context));
        code.functions.retain(|_, function| !is_gone(function.context));
        recent::clear();
    });
}

/// Notes a function's handle.
pub fn add_function(handle: usize, name: String, home: CodeOwner, context_free: bool) -> FunctionHandle {
    let context = context_of(home);
    let origin = look(|code| code.origin(home)).unwrap_or_default();
    let path = origin.object.as_ref().map(|object| object.path().to_owned());
    // Reads the image, the first time.
    let key = (path, origin.image.as_ref().map_or(0, |image| image.identity()), name.clone());
    change(|code| {
        let kernel = code.kernels.entry(key).or_insert_with(|| Arc::new(Kernel::new(name, origin))).clone();
        let function = FunctionHandle { kernel, home, context_free };
        code.insert(handle, function.clone(), context);
        function
    })
}

/// Notes that this handle is the function of a kernel in the current context.
pub fn add_function_of(kernel: FunctionHandle, handle: usize) {
    let context = current_context();
    change(|code| code.insert(handle, FunctionHandle { context_free: false, ..kernel }, context));
}

/// Every kernel seen so far.
pub fn kernels() -> Vec<Arc<Kernel>> {
    look(|code| code.kernels.values().cloned().collect())
}

/// The owners of code that have kernels which were launched, with these.
pub fn launched() -> Vec<(CodeOwner, Vec<Arc<Kernel>>)> {
    let mut owners: HashMap<CodeOwner, Vec<Arc<Kernel>>> = HashMap::new();
    look(|code| {
        let functions = code.functions.values().map(|function| &function.handle);
        for function in functions.filter(|function| function.kernel.is_launched()) {
            owners.entry(function.home).or_default().push(function.kernel.clone());
        }
    });
    owners.into_iter().collect()
}

/// The kernel behind a handle, which is found without a lock from now on where it stays what it is.
pub fn function(handle: CUfunction) -> Option<FunctionHandle> {
    let noted = look(|code| {
        let function = code.functions.get(&(handle as usize)).map(|function| function.handle.clone())?;
        // Under the lock: what is forgotten meanwhile is not remembered after that.
        recent::remember(handle as usize, &function);
        Some(function)
    });
    noted.or_else(|| identify(handle))
}

/// Asks the driver about a handle that no hook has seen being made.
fn identify(handle: CUfunction) -> Option<FunctionHandle> {
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: the handle is one that the application launches; the driver answers with an error for the wrong kind.
    let (home, context_free) = unsafe {
        if driver::cuFuncGetName(&mut name, handle) == Status::SUCCESS {
            let mut module: CUmodule = std::ptr::null_mut();
            driver::cuFuncGetModule(&mut module, handle);
            (CodeOwner::Module(module as usize), false)
        } else if driver::cuKernelGetName(&mut name, handle as CUkernel) == Status::SUCCESS {
            let mut library: CUlibrary = std::ptr::null_mut();
            driver::cuKernelGetLibrary(&mut library, handle as CUkernel);
            (CodeOwner::Library(library as usize), true)
        } else {
            return None;
        }
    };
    let name = text(name)?;
    if look(|code| !code.homes.contains_key(&home))
        && let Some(kernel) = kernel_of(handle, &name)
    {
        // Not noted: it may be given out anew when its context ends, which no hook would see.
        return Some(FunctionHandle { context_free: false, ..kernel });
    }
    Some(add_function(handle as usize, name, home, context_free))
}

/// The library's kernel that has this function in the current context: the driver tells the one in a graph's node where
/// the other was launched, and tells no library of a function.
fn kernel_of(handle: CUfunction, name: &str) -> Option<FunctionHandle> {
    let kernels: Vec<(usize, FunctionHandle)> = look(|code| {
        let functions = code.functions.iter().map(|(handle, function)| (handle, &function.handle));
        functions
            .filter(|(_, function)| function.context_free && function.kernel.name == name)
            .map(|(handle, function)| (*handle, function.clone()))
            .collect()
    });
    let found = kernels.into_iter().find(|(kernel, _)| {
        let mut function: CUfunction = std::ptr::null_mut();
        // SAFETY: a handle of a kernel, as those of libraries are; the driver refuses one that is gone.
        let status = unsafe { driver::hooked::cuKernelGetFunction::call(&mut function, *kernel as CUkernel) };
        status == Status::SUCCESS && function == handle
    });
    Some(found?.1)
}

pub(super) fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the driver's and the application's names are NUL-terminated.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_a_library_go_with_it_by_whatever_module_they_were_found() {
        let mut code = Code::default();
        let [library, other] = [0x10, 0x20].map(CodeOwner::Library);
        let [of_library, unseen, loaded] = [0x11, 0x12, 0x13].map(CodeOwner::Module);
        let home = |library| Home { origin: CodeOrigin::default(), context: 0, library };
        for (owner, library) in [(library, None), (other, None), (of_library, Some(library)), (loaded, None)] {
            code.homes.insert(owner, home(library));
        }
        let homes = [library, other, of_library, unseen, loaded];
        for (handle, home) in homes.into_iter().enumerate() {
            let kernel = Arc::new(Kernel::new(format!("k{handle}"), CodeOrigin::default()));
            code.insert(handle, FunctionHandle { kernel, home, context_free: false }, 0);
        }
        code.forget(library);
        let mut left: Vec<usize> = code.functions.keys().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [1, 4]);
        assert!(!code.homes.contains_key(&of_library) && code.homes.contains_key(&other));
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_is_another_object() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.so");
        std::fs::write(&path, "one").unwrap();
        let first = object(path.clone());
        assert!(Arc::ptr_eq(&first, &object(path.clone())) && first.is_unchanged(), "loaded again");
        std::fs::write(folder.path().join("new"), "two").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        let second = object(path);
        assert!(!Arc::ptr_eq(&first, &second) && !first.is_unchanged() && second.is_unchanged());
    }
}
