//! From a function handle to its kernel, and from the kernel to the object that its IR is in and the image that it was
//! loaded from.
//!
//! cudart launches with a `CUkernel` cast to `CUfunction`, so that both kinds of handle are in one table.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

use mneme_core::image::elf::MappedFile;
use mneme_core::image::ir_section::{self, SymbolKind, Unit};

use super::images::Image;
use super::progress::Progress;
use super::recent;
use crate::driver::{self, CUfunction, CUkernel, CUlibrary, CUmodule, Status};
use crate::process::settings::{Settings, settings};

/// A loaded ELF object with device code in it.
pub struct Object {
    path: PathBuf,
    units: OnceLock<Vec<Unit<'static>>>,
}

impl Object {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The records of its `.mneme.ir` section; empty where it has none. Read at the first use.
    pub fn units(&self) -> &[Unit<'static>] {
        self.units.get_or_init(|| {
            let Ok(file) = MappedFile::open(&self.path) else { return Vec::new() };
            let section = file.section(ir_section::SECTION).unwrap_or_default();
            ir_section::decode(section).into_iter().map(Unit::into_owned).collect()
        })
    }
}

/// A kernel of an object (or of an image that the application made itself).
pub struct Kernel {
    /// Mangled.
    pub name: String,
    pub demangled: String,
    pub origin: Origin,
    pub progress: Progress,
}

impl Kernel {
    fn new(name: String, origin: Origin) -> Self {
        Self { demangled: demangle(&name), name, origin, progress: Progress::default() }
    }

    /// Whether the user wants it recorded, by this process.
    pub fn is_selected(&self) -> bool {
        let selects = |settings: &Settings| settings.rank_selected && settings.selects(&self.name, &self.demangled);
        *self.progress.selected.get_or_init(|| selects(settings()))
    }
}

/// Where code was loaded from.
#[derive(Clone, Default)]
pub struct Origin {
    /// The object that the image is in; `None` for one that the application made itself.
    pub object: Option<Arc<Object>>,
    /// `None` where it is no image that we know.
    pub image: Option<Arc<Image>>,
}

/// What tells kernels of one name apart: the object's path and the image.
type KernelKey = (Option<PathBuf>, u64, String);

/// What a driver handle was loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    Library(usize),
    Module(usize),
}

/// A function handle.
#[derive(Clone)]
pub struct Function {
    pub kernel: Arc<Kernel>,
    pub home: Home,
    /// It is a `CUkernel`.
    pub context_free: bool,
}

#[derive(Default)]
struct Code {
    homes: HashMap<Home, Origin>,
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
    fn add_function(&mut self, handle: usize, name: String, home: Home, context_free: bool) -> Function {
        let origin = self.homes.get(&home).cloned().unwrap_or_default();
        let path = origin.object.as_ref().map(|object| object.path.clone());
        let key = (path, origin.image.as_ref().map_or(0, |image| image.identity), name.clone());
        let kernel = self.kernels.entry(key).or_insert_with(|| Arc::new(Kernel::new(name, origin))).clone();
        let function = Function { kernel, home, context_free };
        self.functions.insert(handle, function.clone());
        function
    }

    fn forget(&mut self, home: Home) {
        self.homes.remove(&home);
        recent::clear();
        self.functions.retain(|_, function| function.home != home);
    }
}

/// The object of a path.
pub fn object(path: PathBuf) -> Arc<Object> {
    change(|code| code.objects.entry(path.clone()).or_insert_with(|| Arc::new(Object { path, units: OnceLock::new() })).clone())
}

/// Notes what a handle was loaded from. One that died with its context may be given out anew, hence what was known of it is forgotten.
pub fn note(home: Home, origin: Origin) {
    change(|code| {
        code.forget(home);
        code.homes.insert(home, origin)
    });
}

/// Notes that a module is the one of a library in the current context.
pub fn note_module_of(library: Home, module: Home) {
    change(|code| {
        let origin = code.homes.get(&library).cloned().unwrap_or_default();
        code.homes.insert(module, origin)
    });
}

/// Forgets what is about to be unloaded.
pub fn forget(home: Home) {
    change(|code| code.forget(home));
}

/// Notes a function's handle.
pub fn add_function(handle: usize, name: String, home: Home, context_free: bool) -> Function {
    change(|code| code.add_function(handle, name, home, context_free))
}

/// Notes that this handle is the function of a kernel in the current context.
pub fn add_function_of(kernel: Function, handle: usize) {
    change(|code| code.functions.insert(handle, Function { context_free: false, ..kernel }));
}

/// Every kernel seen so far.
pub fn kernels() -> Vec<Arc<Kernel>> {
    look(|code| code.kernels.values().cloned().collect())
}

/// The kernel behind a handle.
pub fn function(handle: CUfunction) -> Option<Function> {
    look(|code| code.functions.get(&(handle as usize)).cloned()).or_else(|| identify(handle))
}

/// Asks the driver about a handle that no hook has seen being made.
fn identify(handle: CUfunction) -> Option<Function> {
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: the handle is one that the application launches; the driver answers with an error for the wrong kind.
    let (home, context_free) = unsafe {
        if driver::cuFuncGetName(&mut name, handle) == Status::SUCCESS {
            let mut module: CUmodule = std::ptr::null_mut();
            driver::cuFuncGetModule(&mut module, handle);
            (Home::Module(module as usize), false)
        } else if driver::cuKernelGetName(&mut name, handle as CUkernel) == Status::SUCCESS {
            let mut library: CUlibrary = std::ptr::null_mut();
            driver::cuKernelGetLibrary(&mut library, handle as CUkernel);
            (Home::Library(library as usize), true)
        } else {
            return None;
        }
    };
    let name = text(name)?;
    Some(add_function(handle as usize, name, home, context_free))
}

pub(super) fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the driver's and the application's names are NUL-terminated.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// The architecture whose IR stands for a kernel on a device: its own, else the newest that is not newer, else the newest.
/// `device` is the compute capability times ten, e.g. 90.
pub fn choose_arch(units: &[Unit<'_>], kernel: &str, device: Option<u32>) -> Option<String> {
    let number = |arch: &str| {
        arch.trim_start_matches(|c: char| !c.is_ascii_digit()).trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().unwrap_or(0)
    };
    let defines = |unit: &&Unit<'_>| {
        unit.table.symbols.iter().any(|symbol| symbol.defined && symbol.kind == SymbolKind::Kernel && symbol.name == kernel)
    };
    let archs: Vec<&str> = units.iter().filter(defines).map(|unit| unit.table.arch.as_str()).collect();
    let fitting = archs.iter().filter(|arch| device.is_none_or(|device| number(arch) <= device)).max_by_key(|arch| number(arch));
    fitting.or_else(|| archs.iter().max_by_key(|arch| number(arch))).map(ToString::to_string)
}

fn demangle(name: &str) -> String {
    cpp_demangle::Symbol::new(mneme_core::symbol::without_unit(name))
        .ok()
        .and_then(|symbol| symbol.demangle().ok())
        .unwrap_or_else(|| name.to_owned())
}

/// Where a device variable is: its address and size in bytes, if the loaded code has it.
pub fn variable(home: Home, name: &str) -> Option<(u64, u64)> {
    let name = std::ffi::CString::new(name).ok()?;
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: valid places and name; the handle is alive, a launch of its function is under way.
    let status = unsafe {
        match home {
            Home::Library(library) => match driver::cuLibraryGetGlobal(&mut address, &mut bytes, library as CUlibrary, name.as_ptr()) {
                Status::SUCCESS => Status::SUCCESS,
                _ => driver::cuLibraryGetManaged(&mut address, &mut bytes, library as CUlibrary, name.as_ptr()),
            },
            Home::Module(module) => driver::cuModuleGetGlobal_v2(&mut address, &mut bytes, module as CUmodule, name.as_ptr()),
        }
    };
    (status == Status::SUCCESS).then_some((address, bytes as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::image::ir_section::{Symbol, Table, decode, encode};

    fn unit(arch: &str) -> Unit<'static> {
        let symbol = Symbol {
            name: "k".into(),
            kind: SymbolKind::Kernel,
            defined: true,
            external: true,
            hash: 1,
            refs: vec![],
            arguments: vec![],
            variable: None,
        };
        let table = Table { arch: arch.into(), symbols: vec![symbol], ..Table::default() };
        decode(&encode(&table, b"BC").unwrap()).remove(0).into_owned()
    }

    #[test]
    fn the_ir_of_the_nearest_architecture_is_chosen() {
        let units = [unit("sm_70"), unit("sm_90a"), unit("sm_80")];
        assert_eq!(choose_arch(&units, "k", Some(90)).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "k", Some(89)).as_deref(), Some("sm_80"));
        assert_eq!(choose_arch(&units, "k", Some(60)).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "k", None).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "other", None), None);
    }
}
