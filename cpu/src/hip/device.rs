//! Properties and attributes of the device as HIP has them.

use super::release;
use crate::abi::Out;
use crate::driver::{attributes, context, processor};
use crate::runtime::calls::driver;
use crate::runtime::device::{RuntimeProperties, check, describe};
use crate::status::{Status, StatusResult};

/// Local memory of a work group, bytes: no kernel has to ask for more than a default.
pub const SHARED: u32 = attributes::SHARED_OF_AMD;
/// Alignment of rows, of images and of memory with a pitch, bytes.
pub const PITCH: usize = 256;
/// `hipDeviceArch_t`: all features but surfaces and dynamic parallelism.
const FEATURES: u32 = (1 << 17) - 1 - (1 << 14) - (1 << 16);
/// Kilohertz of what `clock64` and `wall_clock64` count, nanoseconds.
const CLOCK: i32 = 1_000_000;

/// Compute capability: the processor's version.
fn capability() -> (i32, i32) {
    let (major, minor, _) = processor::version(processor::name()).unwrap_or((9, 0, 10));
    (major as i32, minor as i32)
}

/// `hipDeviceProp_t` since HIP 6.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    common: RuntimeProperties,
    reserved: [i32; 32],
    processor: [u8; 256],
    shared_per_multiprocessor: usize,
    clock_instruction_rate: i32,
    features: u32,
    /// Addresses of registers, and what cooperative launches on several devices can do: none.
    none: [u32; 8],
    large_bar: i32,
    revision: i32,
}

const _: () = assert!(size_of::<Properties>() == 1472 && std::mem::offset_of!(Properties, processor) == 1160);
const _: () = assert!(std::mem::offset_of!(Properties, large_bar) == 1464);

/// `hipDeviceProp_t` of HIP 5 and older.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OldProperties {
    name: [u8; 256],
    total_memory: usize,
    shared_per_block: usize,
    registers_per_block: i32,
    warp: i32,
    threads_per_block: i32,
    block: [i32; 3],
    grid: [i32; 3],
    clock: i32,
    memory_clock: i32,
    memory_bus: i32,
    constant: usize,
    major: i32,
    minor: i32,
    multiprocessors: i32,
    l2: i32,
    threads_per_multiprocessor: i32,
    compute_mode: i32,
    clock_instruction_rate: i32,
    features: u32,
    concurrent_kernels: i32,
    domain: i32,
    bus: i32,
    pci_device: i32,
    shared_per_multiprocessor: usize,
    multi_board: i32,
    maps_host: i32,
    /// The number in the processor's name, in decimals (910 of "gfx90a").
    number: i32,
    processor: [u8; 256],
    integrated: i32,
    cooperative: i32,
    cooperative_multi: i32,
    textures: [i32; 7],
    registers: [u64; 2],
    pitch: usize,
    texture_alignment: usize,
    texture_pitch_alignment: usize,
    timeout: i32,
    ecc: i32,
    tcc: i32,
    cooperative_unmatched: [i32; 4],
    large_bar: i32,
    revision: i32,
    managed: i32,
    direct_managed: i32,
    concurrent_managed: i32,
    pageable: i32,
    host_page_tables: i32,
}

const _: () = assert!(size_of::<OldProperties>() == 792 && std::mem::offset_of!(OldProperties, processor) == 396);
const _: () = assert!(std::mem::offset_of!(OldProperties, pitch) == 712);
const _: () = assert!(std::mem::offset_of!(OldProperties, large_bar) == 764);

fn processor_name() -> [u8; 256] {
    let mut text = [0; 256];
    let name = processor::name().as_bytes();
    let kept = name.len().min(text.len() - 1);
    text[..kept].copy_from_slice(&name[..kept]);
    text
}

/// What CUDA's structure and HIP's have in common.
fn common(device: i32) -> Result<RuntimeProperties, Status> {
    let (major, minor) = capability();
    let shared = SHARED as usize;
    Ok(RuntimeProperties {
        warp: processor::wave_size() as i32,
        major,
        minor,
        shared_per_block: shared,
        shared_opt_in: shared,
        shared_per_multiprocessor: shared,
        reserved_shared: 0,
        texture_pitch_alignment: PITCH,
        bus: 0,
        pci_device: device,
        ..describe(device)?
    })
}

pub fn properties(out: Out<Properties>, device: i32) -> StatusResult {
    let common = common(device)?;
    out.put(Properties {
        common,
        reserved: [0; 32],
        processor: processor_name(),
        shared_per_multiprocessor: common.shared_per_multiprocessor,
        clock_instruction_rate: CLOCK,
        features: FEATURES,
        none: [0; 8],
        large_bar: 1,
        revision: 0,
    })
}

/// The digits of the processor's name as a decimal number: 910 of gfx90a.
fn gcn_number() -> i32 {
    let (major, minor, stepping) = processor::version(processor::name()).unwrap_or((9, 0, 10));
    (100 * major + 10 * minor + stepping) as i32
}

pub fn old_properties(out: Out<OldProperties>, device: i32) -> StatusResult {
    let all = common(device)?;
    out.put(OldProperties {
        name: all.name,
        total_memory: all.total_memory,
        shared_per_block: all.shared_per_block,
        registers_per_block: all.registers_per_block,
        warp: all.warp,
        threads_per_block: all.threads_per_block,
        block: all.block,
        grid: all.grid,
        clock: all.clock,
        memory_clock: all.memory_clock,
        memory_bus: all.memory_bus,
        constant: all.constant,
        major: all.major,
        minor: all.minor,
        multiprocessors: all.multiprocessors,
        l2: all.l2,
        threads_per_multiprocessor: all.threads_per_multiprocessor,
        compute_mode: 0,
        clock_instruction_rate: CLOCK,
        features: FEATURES,
        concurrent_kernels: all.concurrent_kernels,
        domain: all.domain,
        bus: all.bus,
        pci_device: all.pci_device,
        shared_per_multiprocessor: all.shared_per_multiprocessor,
        multi_board: 0,
        maps_host: all.maps_host,
        number: gcn_number(),
        processor: processor_name(),
        integrated: 0,
        cooperative: all.cooperative,
        cooperative_multi: 0,
        textures: [0; 7],
        registers: [0; 2],
        pitch: all.pitch,
        texture_alignment: all.texture_alignment,
        texture_pitch_alignment: all.texture_pitch_alignment,
        timeout: 0,
        ecc: 0,
        tcc: 0,
        cooperative_unmatched: [0; 4],
        large_bar: 1,
        revision: 0,
        managed: all.managed,
        direct_managed: all.direct_managed,
        concurrent_managed: all.concurrent_managed,
        pageable: all.pageable,
        host_page_tables: all.host_page_tables,
    })
}

/// `CUdevice_attribute` of each of `hipDeviceAttribute_t` from 0 on; 0 for what the device or CUDA lacks.
const OF_CUDA: [u32; 92] = [
    32, 0, 40, 19, 91, 13, 20, 90, 31, 89, 95, 96, 15, 101, 79, 86, 18, 84, 17, 38, 80, 0, 0, 75, 83, 106, 2, 3, 4, 5,
    6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 39, 11, 37, 36, 76, 85, 16, 0, 88,
    100, 33, 34, 50, 108, 12, 82, 111, 8, 97, 81, 87, 78, 14, 35, 14, 51, 9, 0, 41, 0, 10, 115, 102, 99, 0,
];

pub fn attribute(out: Out<i32>, number: u32, device: i32) -> StatusResult {
    check(device)?;
    let multiprocessors = || attributes::value(16).unwrap_or(1);
    out.put(match number {
        23 => capability().0,
        61 => capability().1,
        73 => 0,
        82 => PITCH as i32,
        // Local memory of a work group, with and without asking for it, and of a compute unit.
        74..=76 | 10002 => SHARED as i32,
        84 => i32::try_from(crate::driver::device::memory().0).unwrap_or(i32::MAX),
        87 => processor::wave_size() as i32,
        68 => device,
        0..92 => match OF_CUDA[number as usize] {
            0 => 0,
            of_cuda => attributes::value(of_cuda).unwrap_or(0),
        },
        // Without a name from HIP 6 on.
        10003 => gcn_number(),
        // Rates of the clocks that kernels read.
        10000 | 10017 => CLOCK,
        // Memory that the host can reach, and that it can share finely.
        10011 | 10016 => 1,
        10015 => multiprocessors(),
        10001..10017 => 0,
        _ => return Err(Status::INVALID_VALUE),
    })
}

/// `hipLimit_t`: of the stack and of the heap, as CUDA numbers them; that of `printf`'s buffer is not supported.
fn supported(limit: u32) -> StatusResult {
    match limit {
        0 | 2 => Ok(()),
        1 => Err(Status::UNSUPPORTED_LIMIT),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn limit(out: Out<usize>, limit: u32) -> StatusResult {
    supported(limit)?;
    context::get_limit(out, limit)
}

pub fn set_limit(limit: u32, value: usize) -> StatusResult {
    supported(limit)?;
    context::set_limit(limit, value)
}

pub fn compute_capability(major: Out<i32>, minor: Out<i32>, device: i32) -> StatusResult {
    check(device)?;
    major.put(capability().0)?;
    minor.put(capability().1)
}

/// `hipDeviceP2PAttr` counts from 0, the driver's from 1.
pub fn peer_attribute(out: Out<i32>, attribute: u32, from: i32, to: i32) -> StatusResult {
    driver()?;
    crate::driver::device::peer_attribute(out, attribute.saturating_add(1), from, to)
}

/// `hipGetDeviceProperties` by the name that `hipGetProcAddress` is asked for.
pub fn properties_function(version: i32) -> &'static str {
    if version >= 60_000_000 || (600..1000).contains(&version) || (version == 0 && release::major() >= 6) {
        "hipGetDevicePropertiesR0600"
    } else {
        "hipGetDevicePropertiesR0000"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::calls;

    #[test]
    fn properties_and_attributes_agree() {
        calls::directly(|| {
            // SAFETY: numbers and arrays of numbers.
            let (mut new, mut old): (Properties, OldProperties) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
            properties(Out::to(&mut new), 0).unwrap();
            old_properties(Out::to(&mut old), 0).unwrap();
            let get = |number| {
                let mut value = -1;
                attribute(Out::to(&mut value), number, 0).unwrap();
                value
            };
            assert!(new.processor.starts_with(b"gfx90a\0") && old.processor == new.processor);
            assert_eq!((new.common.warp, old.warp, get(87)), (64, 64, 64));
            assert_eq!((new.common.major, old.major, get(23), get(61)), (9, 9, 9, 0));
            assert_eq!((old.number, get(10003)), (910, 910));
            assert_eq!((new.common.shared_per_block, old.shared_per_block, get(74)), (65536, 65536, 65536));
            assert_eq!((new.common.multiprocessors, old.multiprocessors, get(63)), (get(10015), get(63), get(63)));
            assert_eq!((new.common.threads_per_block, get(56), get(26), get(31)), (1024, 1024, 1024, 65535));
            assert_eq!(new.common.total_memory, old.total_memory);
            assert_eq!(attribute(Out::to(&mut 0), 9999, 0), Err(Status::INVALID_VALUE));
            assert_eq!(attribute(Out::to(&mut 0), 0, 99), Err(Status::INVALID_DEVICE));
        });
    }
}
