//! A kernel, and the function handles that launch it.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mneme_abi::cuda::sys::CUfunction_attribute;
use mneme_image::symbol;
use mneme_model::launch::{DEFAULT_DYNAMIC_SHARED, LaunchAttributes};
use mneme_model::summary::RecorderMode;

use super::progress::KernelProgress;
use super::registered::{self, RegisteredVariable};
use super::request::LaunchRequest;
use crate::driver::{self, CUdevice, CUfunction, CUkernel, CUlibrary, CUmodule, Status, hip};
use crate::process::own_stack::on_own_stack;
use crate::process::settings::{RecorderSettings, settings};
use crate::process::winners;

const MAX_DYNAMIC_SHARED: u32 = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;

/// A kernel of an object, or of an image that the application made itself.
pub struct Kernel {
    /// The mangled name.
    pub name: String,
    pub demangled: String,
    pub progress: KernelProgress,
    /// How many function handles are known.
    handles: AtomicUsize,
}

impl Kernel {
    pub fn new(name: String) -> Self {
        // The demangler recurses as deeply as names are nested, so it needs a large stack.
        Self {
            demangled: on_own_stack(|| demangle(&name)),
            name,
            progress: KernelProgress::default(),
            handles: AtomicUsize::new(0),
        }
    }

    /// Notes a function handle.
    pub fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a function handle is gone. The last one takes the files of its code with it.
    pub fn remove_handle(&self) {
        if self.handles.fetch_sub(1, Ordering::Relaxed) == 1
            && let Some(Ok(code)) = self.progress.code.get()
        {
            code.forget_files();
        }
    }

    /// Whether it cannot be launched any more and has no entry in the summary.
    pub fn is_forgotten(&self) -> bool {
        self.handles.load(Ordering::Relaxed) == 0 && !self.is_launched()
    }

    /// Whether it has been launched.
    pub fn is_launched(&self) -> bool {
        self.progress.launches.load(Ordering::Relaxed) > 0
    }

    /// Whether the user wants this process to record or replace it.
    pub fn is_selected(&self) -> bool {
        let selects = |settings: &RecorderSettings| match settings.mode {
            RecorderMode::Apply => {
                (settings.specialise.is_some() || !winners::of(&self.name).is_empty())
                    && settings.selects(&self.name, &self.demangled)
            }
            _ => settings.rank_selected && settings.selects(&self.name, &self.demangled),
        };
        *self.progress.selected.get_or_init(|| selects(settings()))
    }
}

/// A name as in the source. Private kernels of the same name in several files get the unit in brackets.
pub fn demangle(name: &str) -> String {
    // Only names with `_Z`: others may be the code of a type, such as `i` for `int`.
    let mangled = Some(symbol::without_unit(name)).filter(|name| name.starts_with("_Z"));
    let demangled =
        mangled.and_then(|name| cpp_demangle::Symbol::new(name).ok()).and_then(|symbol| symbol.demangle().ok());
    match (demangled, symbol::unit_of_amd(name)) {
        (Some(demangled), "") => demangled,
        (Some(demangled), unit) => format!("{demangled} [{unit}]"),
        (None, _) => name.to_owned(),
    }
}

/// The driver handle that owns code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeOwner {
    Library(usize),
    Module(usize),
    /// Code that a HIP program registers before `main`, by the handle that the library returned.
    Binary(usize),
}

impl CodeOwner {
    /// Whether a variable is managed memory that a device pointer points to. HIP does not report the address of these.
    pub fn is_managed(self, name: &str) -> bool {
        let Self::Binary(binary) = self else { return false };
        registered::variable(binary, name).is_some_and(|found| found.managed.is_some())
    }

    /// The address and size in bytes of a device variable, if the loaded code has it.
    pub fn variable(self, name: &str) -> Option<(u64, u64)> {
        if let Self::Binary(binary) = self {
            let RegisteredVariable { host, .. } = registered::variable(binary, name)?;
            return hip::variable_of(host);
        }
        let name = CString::new(name).ok()?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: valid places and name; the handle is alive while a launch of its function is in progress.
        let status = unsafe {
            match self {
                Self::Library(library) => {
                    match driver::cuLibraryGetGlobal(&mut address, &mut bytes, library as CUlibrary, name.as_ptr()) {
                        Status::SUCCESS => Status::SUCCESS,
                        _ => driver::cuLibraryGetManaged(&mut address, &mut bytes, library as CUlibrary, name.as_ptr()),
                    }
                }
                Self::Module(module) => {
                    driver::cuModuleGetGlobal_v2(&mut address, &mut bytes, module as CUmodule, name.as_ptr())
                }
                Self::Binary(_) => Status::NOT_FOUND,
            }
        };
        (status == Status::SUCCESS).then_some((address, bytes as u64))
    }
}

/// A function handle.
#[derive(Clone)]
pub struct FunctionHandle {
    pub kernel: Arc<Kernel>,
    pub home: CodeOwner,
    /// Whether the handle is a `CUkernel`.
    pub context_free: bool,
}

impl FunctionHandle {
    /// An attribute (`CUfunction_attribute`) of the function behind a handle.
    ///
    /// # Safety
    /// The handle is this function's, and alive.
    pub unsafe fn attribute(&self, function: CUfunction, attribute: u32, device: CUdevice) -> Option<i32> {
        let mut value = 0;
        // SAFETY: a valid place; the caller's promise; each kind of handle goes to its own function.
        let status = unsafe {
            if self.context_free {
                driver::cuKernelGetAttribute(&mut value, attribute, function as CUkernel, device)
            } else {
                driver::cuFuncGetAttribute(&mut value, attribute, function)
            }
        };
        (status == Status::SUCCESS).then_some(value)
    }

    /// The attributes of a launch, including those that belong to the function.
    pub fn launch_attributes(&self, request: &LaunchRequest, device: CUdevice) -> LaunchAttributes {
        // SAFETY: the handle of a launch in progress.
        let limit = unsafe { self.attribute(request.function, MAX_DYNAMIC_SHARED, device) };
        let raised = limit.and_then(|limit| u32::try_from(limit).ok()).filter(|limit| *limit > DEFAULT_DYNAMIC_SHARED);
        LaunchAttributes { max_dynamic_shared: raised, ..request.launch.attributes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_names_of_relocatable_code_are_readable_and_differ() {
        assert_eq!(demangle("_ZL4samePf.intern.52c5_1"), "same(float*) [.intern.52c5_1]");
        assert_eq!(demangle("_ZL2skPi__intern__12ab"), "sk(int*)");
        assert_eq!(demangle("_Z2tvIiE"), "tv<int>");
        assert_eq!(demangle("i"), "i");
    }
}
