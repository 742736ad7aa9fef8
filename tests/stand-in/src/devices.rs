//! Devices, their properties, and the current device.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use goblin::elf::header::header64::Header;
use mneme_abi::cuda::driver::pointers;
use mneme_abi::hip::properties::{PropertiesR0000, PropertiesR0600};
use mneme_abi::hip::types::*;

use crate::backend;
use crate::mistake::{CallResult, Mistake, place, wrong};

/// The architecture that devices report.
const VARIABLE: &str = "MNEME_STAND_IN_ARCH";
const DEFAULT_ARCH: &str = "gfx90a:sramecc+:xnack-";
/// `HIP_VERSION` of the emulated version: 6.4.
const VERSION: i32 = 60_400_000;

pub const MAX_THREADS: u64 = 1024;
/// Bytes per block.
pub const SHARED_MEMORY: u64 = 64 << 10;
const MULTIPROCESSORS: i32 = 4;
const THREADS_PER_MULTIPROCESSOR: i32 = 2048;
const L2_CACHE: i32 = 8 << 20;
const REGISTERS: i32 = 64 << 10;
const MAX_GRID: i32 = i32::MAX;

/// Numbers of processors in the flags of code objects (`EF_AMDGPU_MACH_…`, in the ELF header's lowest byte).
const MACHINES: [(u32, &str); 9] = [
    (0x2c, "gfx900"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x3f, "gfx90a"),
    (0x4c, "gfx942"),
    (0x36, "gfx1030"),
    (0x41, "gfx1100"),
    (0x48, "gfx1200"),
    (0x4e, "gfx1201"),
];

pub fn arch() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| DEFAULT_ARCH.into())
}

/// The processor without features: `gfx90a`.
pub fn processor() -> String {
    arch().split(':').next().unwrap_or_default().into()
}

/// Lanes of a wave: 64 up to gfx9.
fn wave() -> i32 {
    let digits = processor().trim_start_matches("gfx").len();
    if digits > 3 { 32 } else { 64 }
}

/// Whether a code object is for these devices.
pub fn check_processor(object: &[u8]) -> Result<(), Mistake> {
    let Some(header) = object.first_chunk::<{ size_of::<Header>() }>() else { return wrong("the image is cut off") };
    let number = Header::from_bytes(header).e_flags & 0xff;
    let name = MACHINES.iter().find(|(machine, _)| *machine == number).map(|(_, name)| *name);
    match name {
        Some(name) if name != processor() => {
            wrong(format!("the code object is for {name}, and the device is {}", arch()))
        }
        _ => Ok(()),
    }
}

thread_local! {
    /// This thread's device, once the thread has used one.
    static CURRENT: Cell<Option<c_int>> = const { Cell::new(None) };
}

/// The CPU device's contexts.
static CONTEXTS: Mutex<BTreeMap<c_int, usize>> = Mutex::new(BTreeMap::new());

fn count() -> Result<c_int, Mistake> {
    static COUNT: OnceLock<c_int> = OnceLock::new();
    if let Some(count) = COUNT.get() {
        return Ok(*count);
    }
    let mut count = 0;
    // SAFETY: the types are the functions'; the place is ours.
    unsafe {
        let init: pointers::cuInit = backend::function("cuInit")?;
        let ask: pointers::cuDeviceGetCount = backend::function("cuDeviceGetCount")?;
        let status = match init(0) {
            Status::SUCCESS => ask(&mut count),
            status => status,
        };
        if status != Status::SUCCESS {
            return wrong(format!("the CPU device does not start: {status}"));
        }
    }
    Ok(*COUNT.get_or_init(|| count))
}

pub fn check(device: c_int) -> Result<(), Mistake> {
    let count = count()?;
    if (0..count).contains(&device) { Ok(()) } else { wrong(format!("there is no device {device}; there are {count}")) }
}

fn make_current(device: c_int) -> Result<(), Mistake> {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the types are the functions'; the places are ours.
    let status = unsafe {
        let context = match contexts.get(&device) {
            Some(context) => *context,
            None => {
                let retain: pointers::cuDevicePrimaryCtxRetain = backend::function("cuDevicePrimaryCtxRetain")?;
                let mut context = std::ptr::null_mut();
                let status = retain(&mut context, device);
                if status != Status::SUCCESS {
                    return wrong(format!("the CPU device gives no context: {status}"));
                }
                contexts.insert(device, context as usize);
                context as usize
            }
        };
        let set: pointers::cuCtxSetCurrent = backend::function("cuCtxSetCurrent")?;
        set(context as CUcontext)
    };
    if status != Status::SUCCESS {
        return wrong(format!("the CPU device does not take its context: {status}"));
    }
    CURRENT.set(Some(device));
    Ok(())
}

/// Makes device 0 current if the thread has not set one.
pub fn make_one_current() -> Result<(), Mistake> {
    count()?;
    if CURRENT.get().is_none() { make_current(0) } else { Ok(()) }
}

pub unsafe fn set_device(device: c_int) -> CallResult {
    check(device)?;
    make_current(device)?;
    Ok(Status::SUCCESS)
}

pub unsafe fn get_device(device: *mut c_int) -> CallResult {
    place(device, "the device")?;
    // SAFETY: the place was checked.
    unsafe { *device = CURRENT.get().unwrap_or(0) };
    Ok(Status::SUCCESS)
}

pub unsafe fn init(flags: c_uint) -> CallResult {
    if flags != 0 { wrong("the flags must be 0") } else { Ok(Status::SUCCESS) }
}

pub unsafe fn device_count(driver: pointers::cuDeviceGetCount, count: *mut c_int) -> CallResult {
    place(count, "the count")?;
    // SAFETY: the place was checked.
    Ok(unsafe { driver(count) })
}

pub unsafe fn device(device: *mut CUdevice, ordinal: c_int) -> CallResult {
    place(device, "the device")?;
    check(ordinal)?;
    // SAFETY: the place was checked.
    unsafe { *device = ordinal };
    Ok(Status::SUCCESS)
}

fn name(device: c_int) -> String {
    format!("stand-in {} {device}", processor())
}

pub unsafe fn device_name(text: *mut c_char, length: c_int, device: CUdevice) -> CallResult {
    place(text, "the name")?;
    check(device)?;
    let bytes = name(device);
    let Some(room) = usize::try_from(length).ok().filter(|room| *room > bytes.len()) else {
        return wrong(format!("{length} bytes have no room for the name"));
    };
    // SAFETY: the caller's buffer has this length.
    let text = unsafe { std::slice::from_raw_parts_mut(text, room) };
    put(text, &bytes);
    Ok(Status::SUCCESS)
}

/// A terminated text.
fn put(place: &mut [c_char], text: &str) {
    for (place, byte) in place.iter_mut().zip(text.bytes().chain([0])) {
        *place = byte.cast_signed();
    }
}

pub unsafe fn version(version: *mut c_int) -> CallResult {
    place(version, "the version")?;
    // SAFETY: the place was checked.
    unsafe { *version = VERSION };
    Ok(Status::SUCCESS)
}

/// Fills the fields common to both layouts.
macro_rules! fill {
    ($properties:expr, $device:expr) => {{
        let properties = $properties;
        put(&mut properties.name, &name($device));
        put(&mut properties.gcnArchName, &arch());
        properties.totalGlobalMem = memory()?;
        properties.sharedMemPerBlock = SHARED_MEMORY as usize;
        properties.maxSharedMemoryPerMultiProcessor = SHARED_MEMORY as usize;
        properties.regsPerBlock = REGISTERS;
        properties.warpSize = wave();
        properties.maxThreadsPerBlock = MAX_THREADS as c_int;
        properties.maxThreadsDim = [MAX_THREADS as c_int; 3];
        properties.maxGridSize = [MAX_GRID, 65_536, 65_536];
        properties.multiProcessorCount = MULTIPROCESSORS;
        properties.l2CacheSize = L2_CACHE;
        properties.maxThreadsPerMultiProcessor = THREADS_PER_MULTIPROCESSOR;
        (properties.major, properties.minor) = (9, 0);
        properties.cooperativeLaunch = 1;
        properties.managedMemory = 1;
    }};
}

fn memory() -> Result<usize, Mistake> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the type is the function's; the places are ours.
    unsafe {
        let ask: pointers::cuMemGetInfo_v2 = backend::function("cuMemGetInfo_v2")?;
        ask(&mut free, &mut total);
    }
    Ok(total)
}

pub unsafe fn properties_r0000(properties: *mut c_void, device: c_int) -> CallResult {
    place(properties, "the properties")?;
    check(device)?;
    let mut filled = PropertiesR0000::default();
    fill!(&mut filled, device);
    // SAFETY: the caller's structure has the layout of the symbol.
    unsafe { properties.cast::<PropertiesR0000>().write(filled) };
    Ok(Status::SUCCESS)
}

pub unsafe fn properties_r0600(properties: *mut c_void, device: c_int) -> CallResult {
    place(properties, "the properties")?;
    check(device)?;
    let mut filled = PropertiesR0600::default();
    fill!(&mut filled, device);
    (filled.regsPerMultiprocessor, filled.maxBlocksPerMultiProcessor) = (REGISTERS, 32);
    filled.sharedMemPerMultiprocessor = SHARED_MEMORY as usize;
    filled.memoryPoolsSupported = 1;
    // SAFETY: the caller's structure has the layout of the symbol.
    unsafe { properties.cast::<PropertiesR0600>().write(filled) };
    Ok(Status::SUCCESS)
}

/// `hipDeviceAttribute_t`: the attributes that programs query, and their values. All others are 0, as on a device that
/// lacks them.
const ATTRIBUTES: [(u32, i32); 18] = [
    (10, 1),
    (19, L2_CACHE),
    (23, 9),
    (24, 1),
    (26, MAX_THREADS as i32),
    (27, MAX_THREADS as i32),
    (28, MAX_THREADS as i32),
    (29, MAX_GRID),
    (30, 65_536),
    (31, 65_536),
    (56, MAX_THREADS as i32),
    (57, THREADS_PER_MULTIPROCESSOR),
    (63, MULTIPROCESSORS),
    (71, REGISTERS),
    (74, SHARED_MEMORY as i32),
    (85, 1),
    (88, 1),
    (89, 1),
];
const WARP_SIZE: u32 = 87;
/// The last valid numbers: of attributes shared with CUDA, and, from 10000 on, of AMD's own.
const LAST_SHARED: u32 = 120;
const OWN: std::ops::Range<u32> = 10_000..10_100;

pub unsafe fn attribute(value: *mut c_int, attribute: c_uint, device: c_int) -> CallResult {
    place(value, "the value")?;
    check(device)?;
    if attribute > LAST_SHARED && !OWN.contains(&attribute) {
        return wrong(format!("{attribute} is no attribute of a device"));
    }
    let known = ATTRIBUTES.iter().find(|(number, _)| *number == attribute).map_or(0, |(_, value)| *value);
    // SAFETY: the place was checked.
    unsafe { *value = if attribute == WARP_SIZE { wave() } else { known } };
    Ok(Status::SUCCESS)
}

pub unsafe fn synchronize(driver: pointers::cuCtxSynchronize) -> CallResult {
    // SAFETY: no pointers.
    Ok(unsafe { driver() })
}

/// `hipLimit_t`: stack, printf buffer, heap, and the range of scratch memory.
const LAST_LIMIT: u32 = 5;
/// AMD's library declares this limit but does not support it.
const PRINTF_LIMIT: u32 = 1;

pub unsafe fn limit(driver: pointers::cuCtxGetLimit, value: *mut usize, limit: c_uint) -> CallResult {
    place(value, "the limit")?;
    match limit {
        PRINTF_LIMIT => Ok(Status::UNSUPPORTED_LIMIT),
        // SAFETY: the place was checked.
        0..=LAST_LIMIT => Ok(unsafe { driver(value, limit) }),
        _ => wrong(format!("{limit} is no limit")),
    }
}

pub unsafe fn set_limit(driver: pointers::cuCtxSetLimit, limit: c_uint, value: usize) -> CallResult {
    if limit > LAST_LIMIT {
        return wrong(format!("{limit} is no limit"));
    }
    if limit == PRINTF_LIMIT {
        return Ok(Status::UNSUPPORTED_LIMIT);
    }
    // SAFETY: no pointers.
    Ok(unsafe { driver(limit, value) })
}

/// Functions that AMD's library declares and exports but does not support.
pub unsafe fn unsupported() -> CallResult {
    wrong("AMD's library does not support it; hipDeviceSynchronize does the same for the current device")
}
