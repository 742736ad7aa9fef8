//! nvJitLink, NVIDIA's assembler and linker as a library, loaded if it is there.
//!
//! Needs no GPU and no driver. The functions carry the toolkit's version in their names (`nvJitLink.h` maps the plain
//! names to them by macros); a library exports the names of all versions up to its own.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;

use libloading::Library;

use super::{Options, Rejection};

type Handle = *mut c_void;

/// `NVJITLINK_SUCCESS` and `NVJITLINK_INPUT_PTX` of nvJitLink.h.
const SUCCESS: c_int = 0;
const INPUT_PTX: c_int = 2;

type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type AddData = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int;
type Complete = unsafe extern "C" fn(Handle) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Read = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int;

/// The loaded library. Invariant: the functions belong to `_library`, which is never unloaded before them.
pub struct NvJitLink {
    create: Create,
    destroy: Destroy,
    add_data: AddData,
    complete: Complete,
    cubin_size: Size,
    cubin: Read,
    error_log_size: Size,
    error_log: Read,
    info_log_size: Size,
    info_log: Read,
    version: (u32, u32),
    _library: Library,
}

impl NvJitLink {
    /// Beside this installation, in the toolkits, then wherever the dynamic linker looks. Version 12 comes first: what
    /// it makes loads under every driver that loads version 13's, and under older ones.
    pub fn find() -> Option<Self> {
        ["libnvJitLink.so.12", "libnvJitLink.so.13"].into_iter().find_map(|name| {
            let folders = super::places::toolkits()
                .into_iter()
                .flat_map(|root| ["lib64", "targets/x86_64-linux/lib", "lib"].map(|folder| root.join(folder)));
            let toolkits = folders.map(|folder| folder.join(name)).filter(|path| path.is_file());
            let mut candidates = mneme_core::install::locate(name).into_iter().chain(toolkits).chain([PathBuf::from(name)]);
            candidates.find_map(|path| Self::load(&path))
        })
    }

    fn load(path: &std::path::Path) -> Option<Self> {
        // SAFETY: nvJitLink's initialisers do nothing but set up its own state.
        let library = unsafe { Library::new(path) }.ok()?;
        let mut version = (0, 0);
        // SAFETY: the type is that of nvJitLinkVersion in nvJitLink.h, the pointers are valid.
        unsafe {
            let query = library.get::<Version>(c"nvJitLinkVersion").ok()?;
            if query(&mut version.0, &mut version.1) != SUCCESS {
                return None;
            }
        }
        // The version that the library reports may run ahead of its names.
        let suffix = (0..=version.1).rev().map(|minor| format!("_{}_{minor}", version.0)).find(|suffix| {
            // SAFETY: the symbol is only looked up, not called.
            unsafe { library.get::<Create>(format!("__nvJitLinkCreate{suffix}\0").as_bytes()) }.is_ok()
        })?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type of each field is that of the function in nvJitLink.h.
                *unsafe { library.get(format!(concat!("__nvJitLink", $name, "{}\0"), suffix).as_bytes()) }.ok()?
            };
        }
        Some(Self {
            create: function!("Create"),
            destroy: function!("Destroy"),
            add_data: function!("AddData"),
            complete: function!("Complete"),
            cubin_size: function!("GetLinkedCubinSize"),
            cubin: function!("GetLinkedCubin"),
            error_log_size: function!("GetErrorLogSize"),
            error_log: function!("GetErrorLog"),
            info_log_size: function!("GetInfoLogSize"),
            info_log: function!("GetInfoLog"),
            version,
            _library: library,
        })
    }

    pub fn name(&self) -> String {
        format!("nvJitLink {}.{}", self.version.0, self.version.1)
    }

    /// Assembles PTX text for `device`; the library's log comes with the code, and is the error.
    pub(super) fn assemble(&self, ptx: &str, device: &str, options: Options) -> Result<(Vec<u8>, String), Rejection> {
        // Its own `-O` knows 0 and 3 only; ptxas, which it has inside, knows all.
        let words = std::iter::once(format!("-arch={device}")).chain(options.words().into_iter().map(|word| format!("-Xptxas={word}")));
        let words: Vec<CString> = words.map(CString::new).collect::<Result<_, _>>().map_err(|_| Rejection::Architecture)?;
        let options: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        // The library recognises PTX by its terminating NUL among other things.
        let text = CString::new(ptx).map_err(|error| Rejection::Ptx(error.to_string()))?;
        let text = text.as_bytes_with_nul();
        let mut handle = std::ptr::null_mut();
        // SAFETY: the options are valid NUL-terminated strings for the length of the call.
        if unsafe { (self.create)(&mut handle, options.len() as u32, options.as_ptr()) } != SUCCESS {
            return Err(Rejection::Architecture);
        }
        // SAFETY: the handle was just created and is destroyed once, below; the data lives over all calls; the cubin
        // and log buffers have the sizes that the library announces.
        unsafe {
            let mut code = (self.add_data)(handle, INPUT_PTX, text.as_ptr().cast(), text.len(), c"kernel.ptx".as_ptr());
            if code == SUCCESS {
                code = (self.complete)(handle);
            }
            let result = if code == SUCCESS { read(handle, self.cubin_size, self.cubin) } else { None };
            let result = match result {
                Some(image) => Ok((image, text_of(read(handle, self.info_log_size, self.info_log)))),
                None => {
                    let log = text_of(read(handle, self.error_log_size, self.error_log)).replace('\n', "; ");
                    Err(Rejection::Ptx(if log.is_empty() { format!("error code {code}") } else { log }))
                }
            };
            (self.destroy)(&mut handle);
            result
        }
    }
}

fn text_of(log: Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(&log.unwrap_or_default()).trim_matches(['\0', '\n', ' ']).to_owned()
}

/// # Safety
/// `size` and `read` must be a pair of nvJitLink's functions for `handle`.
unsafe fn read(handle: Handle, size: Size, read: Read) -> Option<Vec<u8>> {
    let mut length = 0;
    // SAFETY: by the caller's contract; the buffer has the announced length, and room for the byte that 13.0 puts after a log
    // without counting it, an empty one's too.
    unsafe {
        if size(handle, &mut length) != SUCCESS {
            return None;
        }
        let mut bytes = vec![0u8; length + 1];
        let code = read(handle, bytes.as_mut_ptr().cast());
        bytes.truncate(length);
        (code == SUCCESS).then_some(bytes)
    }
}
