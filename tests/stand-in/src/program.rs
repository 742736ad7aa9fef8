//! Registered code of programs, and calls by the address of a host function.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_abi::hip::types::*;
use mneme_image::bundle::WRAPPER_MAGIC;
use mneme_system::thread_stack::ThreadStack;

use crate::backend;
use crate::code;
use crate::copies;
use crate::launches::{self, LaunchSize};
use crate::mistake::{CallResult, Mistake, place, report, wrong};

/// A registered file of code: its bundle, and its module after the first use.
struct Registered {
    binary: usize,
    module: Option<usize>,
    gone: bool,
}

#[derive(Default)]
struct Program {
    files: Vec<Registered>,
    /// By host address: the number of the file, and the name on the device.
    functions: BTreeMap<usize, (usize, CString)>,
    variables: BTreeMap<usize, (usize, CString)>,
}

static PROGRAM: Mutex<Program> =
    Mutex::new(Program { files: Vec::new(), functions: BTreeMap::new(), variables: BTreeMap::new() });

fn program() -> MutexGuard<'static, Program> {
    PROGRAM.lock().unwrap_or_else(PoisonError::into_inner)
}

fn told(function: &str, result: Result<(), Mistake>) {
    if let Err(mistake) = result {
        report(function, &mistake);
    }
}

/// Handles are numbers from 1. Programs treat them as opaque.
fn file_of(handle: *mut *mut c_void) -> Result<usize, Mistake> {
    let number = (handle as usize).wrapping_sub(1);
    match program().files.get(number) {
        Some(file) if !file.gone => Ok(number),
        Some(_) => wrong("the code was unregistered before"),
        None => wrong("the handle is of no registered code"),
    }
}

pub unsafe fn register_code(wrapper: *const FatBinaryWrapper) -> *mut *mut c_void {
    let checked = || {
        if wrapper.is_null() {
            return wrong("the wrapper is null");
        }
        // SAFETY: the caller's structure.
        let FatBinaryWrapper { magic, binary, .. } = unsafe { wrapper.read() };
        if magic != WRAPPER_MAGIC {
            return wrong(format!("the wrapper begins with 0x{magic:x} and not with 0x{WRAPPER_MAGIC:x}"));
        }
        if binary.is_null() {
            return wrong("there is no code");
        }
        let mut program = program();
        program.files.push(Registered { binary: binary as usize, module: None, gone: false });
        Ok(program.files.len())
    };
    match checked() {
        Ok(number) => number as *mut *mut c_void,
        Err(mistake) => {
            report("__hipRegisterFatBinary", &mistake);
            std::ptr::null_mut()
        }
    }
}

pub fn unregister_code(handle: *mut *mut c_void) {
    told(
        "__hipUnregisterFatBinary",
        file_of(handle).map(|number| {
            program().files[number].gone = true;
        }),
    );
}

/// Notes the device name for a host address.
unsafe fn note(
    handle: *mut *mut c_void,
    host: usize,
    name: *const c_char,
    of: impl FnOnce(&mut Program) -> &mut BTreeMap<usize, (usize, CString)>,
) -> Result<(), Mistake> {
    let file = file_of(handle)?;
    if host == 0 || name.is_null() {
        return wrong("the address or the name is null");
    }
    // SAFETY: the caller passes a terminated name.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    of(&mut program()).insert(host, (file, name));
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "as compilers call it")]
pub unsafe fn register_function(
    handle: *mut *mut c_void,
    host: *const c_void,
    _host_name: *mut c_char,
    name: *const c_char,
    _threads: c_uint,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_int,
) {
    // SAFETY: as for the caller.
    told("__hipRegisterFunction", unsafe { note(handle, host as usize, name, |program| &mut program.functions) });
}

#[allow(clippy::too_many_arguments, reason = "as compilers call it")]
pub unsafe fn register_variable(
    handle: *mut *mut c_void,
    host: *mut c_void,
    _host_name: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: as for the caller.
    told("__hipRegisterVar", unsafe { note(handle, host as usize, name, |program| &mut program.variables) });
}

pub fn register_managed(
    _handle: *mut c_void,
    _place: *mut *mut c_void,
    _initial: *mut c_void,
    _name: *const c_char,
    _bytes: usize,
    _alignment: c_uint,
) {
    told("__hipRegisterManagedVar", wrong("managed variables are not served"));
}

/// The module of a registered file, loaded at its first use.
fn module(file: usize) -> Result<CUmodule, Mistake> {
    let (binary, known) = {
        let program = program();
        (program.files[file].binary, program.files[file].module)
    };
    if let Some(module) = known {
        return Ok(module as CUmodule);
    }
    let mut loaded: CUmodule = std::ptr::null_mut();
    // SAFETY: the type is the function's; the bundle is in the program, which is loaded.
    let status =
        unsafe { code::load_data(backend::function("cuModuleLoadData")?, &mut loaded, binary as *const c_void) }?;
    if status != Status::SUCCESS {
        return wrong(format!("the program's code cannot be loaded: {status}"));
    }
    program().files[file].module = Some(loaded as usize);
    Ok(loaded)
}

/// The kernel of a host function.
fn kernel(host: *const c_void) -> Result<CUfunction, Mistake> {
    let found = program().functions.get(&(host as usize)).cloned();
    let Some((file, name)) = found else {
        return wrong(format!("0x{:x} is the address of no kernel", host as usize));
    };
    let mut function: CUfunction = std::ptr::null_mut();
    // SAFETY: the type is the function's; the module was just loaded.
    let status = unsafe {
        code::function(backend::function("cuModuleGetFunction")?, &mut function, module(file)?, name.as_ptr())
    }?;
    if status == Status::SUCCESS { Ok(function) } else { wrong(format!("the kernel {name:?} is not found: {status}")) }
}

pub unsafe fn launch(
    host: *const c_void,
    grid: Dimensions,
    block: Dimensions,
    parameters: *mut *mut c_void,
    shared: usize,
    stream: CUstream,
) -> CallResult {
    let Ok(shared) = c_uint::try_from(shared) else { return wrong("more shared memory than there can be") };
    let shape = LaunchSize { grid: [grid.x, grid.y, grid.z], block: [block.x, block.y, block.z], shared };
    // SAFETY: as for the caller.
    unsafe { launches::run(kernel(host)?, shape, stream, parameters, std::ptr::null_mut()) }
}

pub unsafe fn launch_cooperative(
    host: *const c_void,
    grid: Dimensions,
    block: Dimensions,
    parameters: *mut *mut c_void,
    shared: c_uint,
    stream: CUstream,
) -> CallResult {
    // SAFETY: as for the caller; the type is the function's.
    unsafe {
        launches::launch_cooperative(
            backend::function("cuLaunchCooperativeKernel")?,
            kernel(host)?,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            shared,
            stream,
            parameters,
        )
    }
}

/// The configuration of a `<<<…>>>` launch in progress.
type Configuration = (Dimensions, Dimensions, usize, usize);

thread_local! {
    static CONFIGURATIONS: ThreadStack<Configuration> = const { ThreadStack::new() };
}

pub unsafe fn push(grid: Dimensions, block: Dimensions, shared: usize, stream: CUstream) -> CallResult {
    CONFIGURATIONS.with(|stack| stack.push((grid, block, shared, stream as usize)));
    Ok(Status::SUCCESS)
}

pub unsafe fn pop(
    grid: *mut Dimensions,
    block: *mut Dimensions,
    shared: *mut usize,
    stream: *mut CUstream,
) -> CallResult {
    place(grid, "the grid")?;
    place(block, "the block")?;
    place(shared, "the shared memory")?;
    place(stream, "the stream")?;
    let Some((dimensions, threads, bytes, handle)) = CONFIGURATIONS.with(ThreadStack::pop) else {
        return wrong("no launch was begun");
    };
    // SAFETY: the places were checked.
    unsafe { (*grid, *block, *shared, *stream) = (dimensions, threads, bytes, handle as CUstream) };
    Ok(Status::SUCCESS)
}

/// Address and size of the variable for a host symbol.
fn variable(symbol: *const c_void) -> Result<(CUdeviceptr, usize), Mistake> {
    let found = program().variables.get(&(symbol as usize)).cloned();
    let Some((file, name)) = found else {
        return wrong(format!("0x{:x} is the address of no variable", symbol as usize));
    };
    let (mut address, mut size) = (0, 0);
    // SAFETY: the type is the function's; the module was just loaded.
    let status = unsafe {
        let ask = backend::function("cuModuleGetGlobal_v2")?;
        code::variable(ask, &mut address, &mut size, module(file)?, name.as_ptr())
    }?;
    if status == Status::SUCCESS { Ok((address, size)) } else { wrong(format!("the variable {name:?} is not found")) }
}

pub unsafe fn symbol_address(address: *mut *mut c_void, symbol: *const c_void) -> CallResult {
    place(address, "the address")?;
    // SAFETY: the place was checked.
    unsafe { *address = variable(symbol)?.0 as *mut c_void };
    Ok(Status::SUCCESS)
}

pub unsafe fn symbol_size(size: *mut usize, symbol: *const c_void) -> CallResult {
    place(size, "the size")?;
    // SAFETY: the place was checked.
    unsafe { *size = variable(symbol)?.1 };
    Ok(Status::SUCCESS)
}

pub unsafe fn copy_to_symbol_async(
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: c_uint,
    stream: CUstream,
) -> CallResult {
    let (address, _) = variable(symbol)?;
    // SAFETY: as for the caller.
    unsafe { copies::copy_async((address + offset as u64) as *mut c_void, from, bytes, kind, stream) }
}

pub unsafe fn copy_from_symbol_async(
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: c_uint,
    stream: CUstream,
) -> CallResult {
    let (address, _) = variable(symbol)?;
    // SAFETY: as for the caller.
    unsafe { copies::copy_async(to, (address + offset as u64) as *const c_void, bytes, kind, stream) }
}

pub unsafe fn copy_to_symbol(
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: c_uint,
) -> CallResult {
    let (address, _) = variable(symbol)?;
    // SAFETY: as for the caller.
    unsafe { copies::copy((address + offset as u64) as *mut c_void, from, bytes, kind) }
}

pub unsafe fn copy_from_symbol(
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: c_uint,
) -> CallResult {
    let (address, _) = variable(symbol)?;
    // SAFETY: as for the caller.
    unsafe { copies::copy(to, (address + offset as u64) as *const c_void, bytes, kind) }
}

pub unsafe fn function_by_symbol(function: *mut CUfunction, symbol: *const c_void) -> CallResult {
    place(function, "the function")?;
    // SAFETY: the place was checked.
    unsafe { *function = kernel(symbol)? };
    Ok(Status::SUCCESS)
}
