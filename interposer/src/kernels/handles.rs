//! Maps function handles to kernels.
//!
//! cudart launches with a `CUkernel` cast to `CUfunction`, so both kinds of handle are in one table.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char};
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, Weak};

use super::kernel::{CodeOwner, FunctionHandle, Kernel};
use super::origin::{CodeOrigin, Object};
use super::recent;
use crate::driver::{self, CUfunction, CUkernel, CUlibrary, CUmodule, Status};
use crate::process::recorded_family;

/// Distinguishes kernels of one name: the object's path and the image's identity.
type Place = (Option<PathBuf>, u64);

/// Describes what a module or library was loaded from.
#[derive(Default)]
struct Home {
    origin: CodeOrigin,
    /// The context that it ends with, or 0.
    context: usize,
    /// For a library's module: the library that it ends with.
    library: Option<CodeOwner>,
}

/// A function, and the context that it ends with, or 0.
struct Function {
    handle: FunctionHandle,
    context: usize,
}

/// All loaded code. Every look-up is by hash, because programs load and unload thousands of modules.
#[derive(Default)]
struct Code {
    homes: HashMap<CodeOwner, Home>,
    functions: HashMap<usize, Function>,
    /// The handles of each home's functions.
    functions_of: HashMap<CodeOwner, HashSet<usize>>,
    /// The known modules of each library.
    modules_of: HashMap<CodeOwner, HashSet<CodeOwner>>,
    /// Modules that have functions but whose loading was not hooked.
    unseen: HashSet<CodeOwner>,
    /// The handles of libraries' kernels, by name.
    library_kernels: HashMap<String, HashSet<usize>>,
    /// Kernels by place and name.
    kernels: HashMap<Place, HashMap<String, Arc<Kernel>>>,
    objects: HashMap<PathBuf, Weak<Object>>,
}

static CODE: LazyLock<RwLock<Code>> = LazyLock::new(RwLock::default);

fn change<R>(change: impl FnOnce(&mut Code) -> R) -> R {
    change(&mut CODE.write().unwrap_or_else(PoisonError::into_inner))
}

fn look<R>(look: impl FnOnce(&Code) -> R) -> R {
    look(&CODE.read().unwrap_or_else(PoisonError::into_inner))
}

fn place_of(origin: &CodeOrigin) -> Place {
    let path = origin.object.as_ref().map(|object| object.path().to_owned());
    // The first call reads the image.
    (path, origin.image.as_ref().map_or(0, |image| image.identity()))
}

impl Code {
    fn add_home(&mut self, owner: CodeOwner, home: Home) {
        if let Some(library) = home.library {
            self.modules_of.entry(library).or_default().insert(owner);
        }
        self.unseen.remove(&owner);
        self.homes.insert(owner, home);
    }

    /// Notes a function, and the context that it ends with unless its module's context is known.
    fn insert(&mut self, handle: usize, function: FunctionHandle, context: usize) {
        let home = self.homes.get(&function.home);
        let context = match function.home {
            CodeOwner::Module(_) => home.map_or(context, |home| home.context),
            CodeOwner::Library(_) | CodeOwner::Binary(_) => context,
        };
        if home.is_none() && matches!(function.home, CodeOwner::Module(_)) {
            self.unseen.insert(function.home);
        }
        let kernel = function.kernel.clone();
        // Added before the replaced function is removed, because both may belong to the same kernel.
        kernel.add_handle();
        let known = self.remove(handle);
        if function.context_free {
            self.library_kernels.entry(kernel.name.clone()).or_default().insert(handle);
        }
        self.functions_of.entry(function.home).or_default().insert(handle);
        self.functions.insert(handle, Function { handle: function, context });
        // The handle was reused: a context ended without a hooked call and took its functions with it.
        if known.is_some_and(|known| !Arc::ptr_eq(&known.kernel, &kernel)) {
            recent::clear();
        }
    }

    /// Forgets a function.
    fn remove(&mut self, handle: usize) -> Option<FunctionHandle> {
        let removed = self.functions.remove(&handle)?.handle;
        take_from(&mut self.functions_of, &removed.home, &handle);
        if removed.context_free {
            take_from(&mut self.library_kernels, &removed.kernel.name, &handle);
        }
        removed.kernel.remove_handle();
        Some(removed)
    }

    fn origin(&self, home: CodeOwner) -> Option<CodeOrigin> {
        self.homes.get(&home).map(|home| home.origin.clone())
    }

    /// Forgets the code and functions of a module or library. The driver may reuse each handle.
    ///
    /// A module whose loading was not hooked may belong to the library, so its functions are forgotten too. The driver
    /// is asked again about those that are launched later.
    fn forget(&mut self, home: CodeOwner) {
        recent::clear();
        let modules = self.modules_of.remove(&home).unwrap_or_default();
        let unseen = std::mem::take(&mut self.unseen);
        [home].into_iter().chain(modules).chain(unseen).for_each(|home| self.forget_one(home));
    }

    /// Forgets code and its functions. Kernels without further functions are kept for the summary if they were
    /// launched.
    fn forget_one(&mut self, home: CodeOwner) {
        let functions = self.functions_of.remove(&home).unwrap_or_default();
        let removed: Vec<FunctionHandle> = functions.into_iter().filter_map(|handle| self.remove(handle)).collect();
        let Some(Home { origin, library, .. }) = self.homes.remove(&home) else { return };
        if let Some(library) = library {
            take_from(&mut self.modules_of, &library, &home);
        }
        if removed.iter().any(|function| function.kernel.is_forgotten()) {
            let place = place_of(&origin);
            if let Some(kernels) = self.kernels.get_mut(&place) {
                kernels.retain(|_, kernel| !kernel.is_forgotten());
                if kernels.is_empty() {
                    self.kernels.remove(&place);
                }
            }
        }
        let is_last = |object: &Arc<Object>| Arc::strong_count(object) == 1;
        if let Some(object) = origin.object.filter(is_last) {
            self.objects.remove(object.path());
        }
    }
}

/// Removes an item from one of several sets, and the set if it becomes empty.
fn take_from<K: Eq + Hash + Clone, T: Eq + Hash>(sets: &mut HashMap<K, HashSet<T>>, of: &K, item: &T) {
    if let Some(set) = sets.get_mut(of) {
        set.remove(item);
        if set.is_empty() {
            sets.remove(of);
        }
    }
}

/// The context that new handles end with. HIP's contexts are its devices, and a device's reset keeps modules.
fn current_context() -> usize {
    if recorded_family::is_hip() { 0 } else { driver::current_context().unwrap_or(0) }
}

/// The context that a handle of this home ends with. Modules and their functions belong to a context, libraries and
/// their kernels do not.
fn context_of(home: CodeOwner) -> usize {
    if matches!(home, CodeOwner::Module(_)) { current_context() } else { 0 }
}

/// The object of a path, as its file is now.
pub fn object(path: PathBuf) -> Arc<Object> {
    let now = Object::new(path.clone());
    change(|code| match code.objects.get(&path).and_then(Weak::upgrade) {
        Some(known) if known.is_same_file(&now) => known,
        _ => {
            let object = Arc::new(now);
            code.objects.insert(path, Arc::downgrade(&object));
            object
        }
    })
}

/// The origin of loaded code.
pub fn origin(home: CodeOwner) -> CodeOrigin {
    look(|code| code.origin(home)).unwrap_or_default()
}

/// Notes what a handle was loaded from. Forgets earlier code of the same handle, which may have died with its context.
pub fn note(home: CodeOwner, origin: CodeOrigin) {
    let context = context_of(home);
    change(|code| {
        code.forget(home);
        code.add_home(home, Home { origin, context, library: None });
    });
}

/// Notes that a module is the one of a library in the current context.
pub fn note_module_of(library: CodeOwner, module: CodeOwner) {
    let context = current_context();
    change(|code| {
        let origin = code.origin(library).unwrap_or_default();
        code.add_home(module, Home { origin, context, library: Some(library) });
    });
}

/// Forgets code that is about to be unloaded.
pub fn forget(home: CodeOwner) {
    change(|code| code.forget(home));
}

/// Forgets the modules and functions of contexts that have ended. The vendor may mistake their handles for others, or
/// crash on them.
pub fn forget_contexts(has_ended: impl Fn(usize) -> bool) {
    let is_gone = |context: usize| context != 0 && has_ended(context);
    change(|code| {
        let homes = code.homes.iter().filter(|(_, home)| is_gone(home.context)).map(|(home, _)| *home);
        homes.collect::<Vec<_>>().into_iter().for_each(|home| code.forget(home));
        let functions = code.functions.iter().filter(|(_, function)| is_gone(function.context));
        let functions: Vec<usize> = functions.map(|(handle, _)| *handle).collect();
        functions.into_iter().for_each(|handle| _ = code.remove(handle));
        recent::clear();
    });
}

/// Notes a function's handle.
pub fn add_function(handle: usize, name: String, home: CodeOwner, context_free: bool) -> FunctionHandle {
    let context = context_of(home);
    let place = place_of(&origin(home));
    change(|code| {
        let kernels = code.kernels.entry(place).or_default();
        let kernel = match kernels.get(&name) {
            Some(kernel) => kernel.clone(),
            None => kernels.entry(name.clone()).or_insert(Arc::new(Kernel::new(name))).clone(),
        };
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
    look(|code| code.kernels.values().flat_map(HashMap::values).cloned().collect())
}

/// The owners of code with launched kernels, and what `look` returns for each of these kernels.
pub fn launched<T>(look: impl Fn(&Kernel) -> Vec<T>) -> Vec<(CodeOwner, Vec<T>)> {
    let functions = |code: &Code, handles: &HashSet<usize>| -> Option<Vec<T>> {
        let functions = handles.iter().filter_map(|handle| code.functions.get(handle));
        let mut launched = functions.map(|function| &function.handle.kernel).filter(|kernel| kernel.is_launched());
        let first = launched.next()?;
        Some(look(first).into_iter().chain(launched.flat_map(|kernel| look(kernel))).collect())
    };
    self::look(|code| {
        let owners = code.functions_of.iter();
        owners.filter_map(|(owner, handles)| Some((*owner, functions(code, handles)?))).collect()
    })
}

/// The kernel of a handle. Later calls of [`recent::find`] find it without a lock if its handle is stable.
pub fn function(handle: CUfunction) -> Option<FunctionHandle> {
    let noted = look(|code| {
        let function = code.functions.get(&(handle as usize)).map(|function| function.handle.clone())?;
        // Done under the lock, so a function that is forgotten concurrently is not remembered afterwards.
        recent::remember(handle as usize, &function);
        Some(function)
    });
    noted.or_else(|| identify(handle))
}

/// Asks the driver about a handle whose creation was not hooked.
fn identify(handle: CUfunction) -> Option<FunctionHandle> {
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: the application launches this handle; the driver returns an error for the wrong kind.
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
        // Not noted: the handle may be reused after its context ends, and no hook would notice.
        return Some(FunctionHandle { context_free: false, ..kernel });
    }
    Some(add_function(handle as usize, name, home, context_free))
}

/// The library's kernel that has this function in the current context. For a graph's node the driver returns the
/// function instead of the kernel that was launched, and it does not know the library of a function.
fn kernel_of(handle: CUfunction, name: &str) -> Option<FunctionHandle> {
    let kernels: Vec<(usize, FunctionHandle)> = look(|code| {
        let handles = code.library_kernels.get(name).into_iter().flatten();
        handles.filter_map(|handle| Some((*handle, code.functions.get(handle)?.handle.clone()))).collect()
    });
    let found = kernels.into_iter().find(|(kernel, _)| {
        let mut function: CUfunction = std::ptr::null_mut();
        // SAFETY: a handle of a library's kernel; the driver refuses one that is gone.
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
    use crate::kernels::images::LoadedImage;
    use std::sync::atomic::Ordering;

    fn function(name: &str, home: CodeOwner) -> FunctionHandle {
        FunctionHandle { kernel: Arc::new(Kernel::new(name.into())), home, context_free: false }
    }

    #[test]
    fn the_functions_of_a_library_go_with_it_by_whatever_module_they_were_found() {
        let mut code = Code::default();
        let [library, other] = [0x10, 0x20].map(CodeOwner::Library);
        let [of_library, unseen, loaded] = [0x11, 0x12, 0x13].map(CodeOwner::Module);
        let home = |library| Home { origin: CodeOrigin::default(), context: 0, library };
        for (owner, library) in [(library, None), (other, None), (of_library, Some(library)), (loaded, None)] {
            code.add_home(owner, home(library));
        }
        let homes = [library, other, of_library, unseen, loaded];
        for (handle, home) in homes.into_iter().enumerate() {
            code.insert(handle, function(&format!("k{handle}"), home), 0);
        }
        code.forget(library);
        let mut left: Vec<usize> = code.functions.keys().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [1, 4]);
        assert!(!code.homes.contains_key(&of_library) && code.homes.contains_key(&other));
    }

    /// Programs that build, load, run and unload modules run for days.
    #[test]
    fn what_is_unloaded_takes_no_memory_but_for_what_the_summary_says() {
        let images = |text: &str| {
            let text = format!(".version 8.0\n.target sm_90\n// {text}\n\0");
            // SAFETY: a terminated string.
            unsafe { LoadedImage::at(text.as_ptr().cast(), |_| None) }.map(Arc::new)
        };
        let mut images_left = Vec::new();
        for load in 0..100 {
            let (module, handle) = (CodeOwner::Module(0x7_0000 + 16 * load), 0x8_0000 + 16 * load);
            let image = images(&format!("{}", load / 2));
            images_left.extend(image.as_ref().map(Arc::downgrade));
            note(module, CodeOrigin { object: None, image });
            let launched = add_function(handle, format!("launched_{}", load / 2), module, false);
            add_function(handle + 1, format!("idle_{load}"), module, false);
            launched.kernel.progress.launches.fetch_add(1, Ordering::Relaxed);
            assert!(origin(module).image.is_some());
            forget(module);
        }
        assert!(images_left.iter().all(|image| image.strong_count() == 0));
        let named = |start: &str| kernels().into_iter().filter(|it| it.name.starts_with(start)).collect::<Vec<_>>();
        assert!(named("idle_").is_empty());
        let launched = named("launched_");
        assert_eq!(launched.len(), 50);
        assert!(launched.iter().all(|kernel| kernel.progress.launches.load(Ordering::Relaxed) == 2));
        look(|code| {
            let is_left = |handle: usize| code.functions.contains_key(&handle);
            assert!(!(0..1600).any(|offset| is_left(0x8_0000 + offset)));
            assert!(code.functions_of.values().all(|functions| !functions.is_empty()));
        });
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
