//! The assembler nvPTXCompiler, the library form of `ptxas`.
//!
//! NVIDIA publishes it as a static library. `scripts/cuda/ptxcompiler` makes a shared library of it, which is loaded if
//! it exists. It needs neither a GPU nor a driver, and starts no threads.

use std::ffi::{CString, c_char, c_int, c_uint};
use std::path::Path;

use libloading::Library;

use super::{AssemblerOptions, Rejection};

/// The shared library that `scripts/cuda/ptxcompiler` makes.
const LIBRARY: &str = "libmneme_ptxcompiler.so";

/// `nvPTXCompilerHandle`.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Handle(*mut std::ffi::c_void);

/// `NVPTXCOMPILE_SUCCESS` and `NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION` of nvPTXCompiler.h.
const SUCCESS: c_int = 0;
const UNSUPPORTED_PTX_VERSION: c_int = 7;

type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int;
type Create = unsafe extern "C" fn(*mut Handle, usize, *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Read = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;

/// The loaded library. Invariant: the functions belong to `_library`, which is never unloaded before them.
pub struct NvPtxCompiler {
    create: Create,
    destroy: Destroy,
    compile: Compile,
    program_size: Size,
    program: Read,
    error_log_size: Size,
    error_log: Read,
    info_log_size: Size,
    info_log: Read,
    version: (u32, u32),
    _library: Library,
}

impl NvPtxCompiler {
    /// Finds the library beside this installation, or else in the CUDA toolkits.
    pub fn find() -> Option<Self> {
        let toolkits = mneme_system::toolkits::toolkits()
            .into_iter()
            .map(|root| root.join("lib64").join(LIBRARY))
            .filter(|path| path.is_file());
        mneme_system::install::locate(LIBRARY).into_iter().chain(toolkits).find_map(|path| Self::load(&path))
    }

    fn load(path: &Path) -> Option<Self> {
        // SAFETY: the library's initialisers only set up its own state.
        let library = unsafe { Library::new(path) }.ok()?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: each function has its type in nvPTXCompiler.h.
                *unsafe { library.get(concat!("nvPTXCompiler", $name, "\0").as_bytes()) }.ok()?
            };
        }
        let mut version = (0, 0);
        let query: Version = function!("GetVersion");
        // SAFETY: both places are valid for the answers.
        if unsafe { query(&mut version.0, &mut version.1) } != SUCCESS {
            return None;
        }
        Some(Self {
            create: function!("Create"),
            destroy: function!("Destroy"),
            compile: function!("Compile"),
            program_size: function!("GetCompiledProgramSize"),
            program: function!("GetCompiledProgram"),
            error_log_size: function!("GetErrorLogSize"),
            error_log: function!("GetErrorLog"),
            info_log_size: function!("GetInfoLogSize"),
            info_log: function!("GetInfoLog"),
            version,
            _library: library,
        })
    }

    pub fn name(&self) -> String {
        format!("nvPTXCompiler {}.{}", self.version.0, self.version.1)
    }

    /// Assembles PTX text for `device`. Returns the library's log with the code, or as the error.
    pub(super) fn assemble(
        &self,
        ptx: &str,
        device: &str,
        options: AssemblerOptions<'_>,
    ) -> Result<(Vec<u8>, String), Rejection> {
        let words = std::iter::once(format!("-arch={device}")).chain(options.arguments());
        let words: Vec<CString> =
            words.map(CString::new).collect::<Result<_, _>>().map_err(|_| Rejection::Architecture)?;
        let words: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        let text = CString::new(ptx).map_err(|error| Rejection::Ptx(error.to_string()))?;
        let mut handle = Handle(std::ptr::null_mut());
        // SAFETY: the text lives until the handle is destroyed below, and the options live until the call returns. Logs
        // and code are read into buffers of the sizes that the library reports.
        unsafe {
            let code = (self.create)(&mut handle, text.as_bytes().len(), text.as_ptr());
            if code != SUCCESS {
                return Err(if code == UNSUPPORTED_PTX_VERSION { Rejection::Architecture } else { failure(code) });
            }
            let code = (self.compile)(handle, words.len() as c_int, words.as_ptr());
            let result = match code {
                SUCCESS => read(handle, self.program_size, self.program)
                    .map(|image| (image, text_of(read(handle, self.info_log_size, self.info_log))))
                    .ok_or_else(|| Rejection::Ptx("its machine code cannot be read".into())),
                UNSUPPORTED_PTX_VERSION => Err(Rejection::Architecture),
                code => {
                    let log = text_of(read(handle, self.error_log_size, self.error_log)).replace('\n', "; ");
                    Err(match log.as_str() {
                        "" => failure(code),
                        log if log.contains("option 'gpu-name'") => Rejection::Architecture,
                        _ => Rejection::Ptx(log),
                    })
                }
            };
            (self.destroy)(&mut handle);
            result
        }
    }
}

fn failure(code: c_int) -> Rejection {
    Rejection::Ptx(format!("error code {code}"))
}

fn text_of(log: Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(&log.unwrap_or_default()).trim_matches(['\0', '\n', ' ']).to_owned()
}

/// # Safety
/// `size` and `read` must be a pair of the library's functions for `handle`.
unsafe fn read(handle: Handle, size: Size, read: Read) -> Option<Vec<u8>> {
    let mut length = 0;
    // SAFETY: by the caller's contract. The buffer has the reported length, and one byte more for the NUL, which the
    // length of a log may not include.
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
