//! The CPU device, which executes the calls.
//!
//! The stand-in loads it from a copy in memory and finds its functions in the symbol table. Otherwise a recorder in
//! this process would interfere: it looks for the CPU device by the names of loaded files, and its own `dlsym` returns
//! its hooks.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

use goblin::elf::Elf;
use mneme_system::install;

use crate::mistake::{Mistake, wrong};

/// The CPU device's file, if it is not in this library's folder.
const VARIABLE: &str = "MNEME_STAND_IN_BACKEND";

/// Addresses of the CPU device's functions.
type Functions = HashMap<String, usize>;

/// Returns a function of the CPU device.
///
/// # Safety
/// `F` must be the function's pointer type.
pub unsafe fn function<F: Copy>(name: &str) -> Result<F, Mistake> {
    static FUNCTIONS: OnceLock<io::Result<Functions>> = OnceLock::new();
    let functions = match FUNCTIONS.get_or_init(load) {
        Ok(functions) => functions,
        Err(error) => return wrong(error.to_string()),
    };
    match functions.get(name) {
        // SAFETY: the caller guarantees the type. The library is never unloaded.
        Some(address) => Ok(unsafe { std::mem::transmute_copy::<usize, F>(address) }),
        None => wrong(format!("the CPU device has no {name} to do this with")),
    }
}

fn load() -> io::Result<Functions> {
    let file =
        std::env::var_os(VARIABLE).map(PathBuf::from).or_else(|| install::locate(install::CPU_DEVICE)).ok_or_else(
            || io::Error::other(format!("{} is not beside the stand-in; {VARIABLE} names it", install::CPU_DEVICE)),
        )?;
    let failed =
        |error: &dyn std::fmt::Display| io::Error::other(format!("{} cannot be loaded: {error}", file.display()));
    let bytes = std::fs::read(&file).map_err(|error| failed(&error))?;
    // SAFETY: the name is NUL-terminated, and only this code has the descriptor.
    let copy = unsafe {
        let descriptor = libc::memfd_create(c"mneme-stand-in".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(failed(&std::io::Error::last_os_error()));
        }
        OwnedFd::from_raw_fd(descriptor)
    };
    let mut copy = std::fs::File::from(copy);
    std::io::Write::write_all(&mut copy, &bytes).map_err(|error| failed(&error))?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&copy));
    let path = CString::new(path).map_err(|error| failed(&error))?;
    // SAFETY: the library's constructors may run at any time.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: returns the message about the previous call on this thread.
        let why = unsafe { libc::dlerror() };
        // SAFETY: the message is null or a terminated string.
        let why = if why.is_null() { c"" } else { unsafe { CStr::from_ptr(why) } };
        return Err(failed(&why.to_string_lossy()));
    }
    let mut map: *mut c_void = std::ptr::null_mut();
    // SAFETY: the handle is open. `dlinfo` returns the address of the linker's record, whose first word is the
    // library's base address.
    let base = unsafe {
        if libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) != 0 || map.is_null() {
            return Err(failed(&"the linker does not say where it lies"));
        }
        map.cast::<usize>().read()
    };
    let elf = Elf::parse(&bytes).map_err(|error| failed(&error))?;
    let defined = elf.dynsyms.iter().filter(|symbol| symbol.st_shndx != 0 && symbol.is_function());
    Ok(defined
        .filter_map(|symbol| Some((elf.dynstrtab.get_at(symbol.st_name)?.to_owned(), base + symbol.st_value as usize)))
        .collect())
}
