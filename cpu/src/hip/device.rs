//! Properties and attributes of the device in HIP's terms.

use std::ffi::c_char;

use mneme_abi::cuda::runtime_structures::DeviceProperties;
use mneme_abi::hip::properties::{PropertiesR0000, PropertiesR0600};

use super::release;
use crate::abi::Out;
use crate::driver::{attributes, context, processor};
use crate::runtime::calls::driver;
use crate::runtime::device::{check, describe};
use crate::status::{Status, StatusResult};

/// Bytes of local memory per work group. It needs no opting in.
pub const SHARED: u32 = attributes::SHARED_OF_AMD;
/// Alignment of rows, of images and of pitched memory, in bytes.
pub const PITCH: usize = 256;
/// `hipDeviceArch_t`: all features except surfaces and dynamic parallelism.
const FEATURES: u32 = (1 << 17) - 1 - (1 << 14) - (1 << 16);
/// The rate of `clock64` and `wall_clock64`, which count nanoseconds, in kHz.
const CLOCK: i32 = 1_000_000;

/// The compute capability, which is the processor's version.
fn capability() -> (i32, i32) {
    let (major, minor, _) = processor::version(processor::name()).unwrap_or((9, 0, 10));
    (major as i32, minor as i32)
}

fn processor_name() -> [c_char; 256] {
    let mut text = [0; 256];
    for (place, byte) in text.iter_mut().take(255).zip(processor::name().bytes()) {
        *place = byte as c_char;
    }
    text
}

/// The properties that CUDA's structure and HIP's have in common.
fn common(device: i32) -> Result<DeviceProperties, Status> {
    let (major, minor) = capability();
    let shared = SHARED as usize;
    Ok(DeviceProperties {
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
        // The device refuses HIP's functions for them.
        textures_and_surfaces: [0; 40],
        ..describe(device)?
    })
}

fn described(device: i32) -> Result<PropertiesR0600, Status> {
    let mut all = PropertiesR0600::beginning_with(&common(device)?);
    all.gcnArchName = processor_name();
    all.maxSharedMemoryPerMultiProcessor = all.sharedMemPerMultiprocessor;
    (all.clockInstructionRate, all.arch, all.isLargeBar) = (CLOCK, FEATURES, 1);
    Ok(all)
}

pub fn properties(out: Out<PropertiesR0600>, device: i32) -> StatusResult {
    out.put(described(device)?)
}

/// The digits of the processor's name as a decimal number: 910 for gfx90a.
fn gcn_number() -> i32 {
    let (major, minor, stepping) = processor::version(processor::name()).unwrap_or((9, 0, 10));
    (100 * major + 10 * minor + stepping) as i32
}

/// Copies fields that both layouts have.
macro_rules! same {
    ($to:ident from $from:ident: $($field:ident)*) => { $($to.$field = $from.$field;)* };
}

pub fn old_properties(out: Out<PropertiesR0000>, device: i32) -> StatusResult {
    let all = described(device)?;
    let mut old = PropertiesR0000::default();
    same! { old from all:
        name totalGlobalMem sharedMemPerBlock regsPerBlock warpSize maxThreadsPerBlock maxThreadsDim maxGridSize
        clockRate memoryClockRate memoryBusWidth totalConstMem major minor multiProcessorCount l2CacheSize
        maxThreadsPerMultiProcessor clockInstructionRate arch concurrentKernels pciDomainID pciBusID pciDeviceID
        maxSharedMemoryPerMultiProcessor canMapHostMemory gcnArchName cooperativeLaunch memPitch textureAlignment
        texturePitchAlignment isLargeBar managedMemory directManagedMemAccessFromHost concurrentManagedAccess
        pageableMemoryAccess pageableMemoryAccessUsesHostPageTables
    }
    old.gcnArch = gcn_number();
    out.put(old)
}

/// The `CUdevice_attribute` of each `hipDeviceAttribute_t`, from 0 on. 0 for attributes that the device or CUDA lacks,
/// and for cooperative launches, which the device supports for CUDA only.
const OF_CUDA: [u32; 92] = [
    32, 0, 40, 19, 91, 13, 20, 90, 31, 89, 0, 96, 15, 101, 79, 86, 18, 84, 17, 38, 80, 0, 0, 75, 83, 106, 2, 3, 4, 5,
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
        // Local memory of a work group, with and without opting in, and of a compute unit.
        74..=76 | 10002 => SHARED as i32,
        84 => i32::try_from(crate::driver::device::memory().0).unwrap_or(i32::MAX),
        87 => processor::wave_size() as i32,
        68 => device,
        0..92 => match OF_CUDA[number as usize] {
            0 => 0,
            of_cuda => attributes::value(of_cuda).unwrap_or(0),
        },
        // This attribute has no name from HIP 6 on.
        10003 => gcn_number(),
        // Rates of the clocks that kernels can read.
        10000 | 10017 => CLOCK,
        // Memory that the host can access, and fine-grained sharing.
        10011 | 10016 => 1,
        10015 => multiprocessors(),
        10001..10017 => 0,
        _ => return Err(Status::INVALID_VALUE),
    })
}

/// Checks a `hipLimit_t`. Stack and heap have CUDA's numbers; the limit of `printf`'s buffer is not supported.
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

/// Returns a `hipDeviceP2PAttr`. It counts from 0, the driver's from 1.
pub fn peer_attribute(out: Out<i32>, attribute: u32, from: i32, to: i32) -> StatusResult {
    driver()?;
    crate::driver::device::peer_attribute(out, attribute.saturating_add(1), from, to)
}

/// The name of `hipGetDeviceProperties` for a caller of `hipGetProcAddress` with this version.
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
            let (mut new, mut old) = (PropertiesR0600::default(), PropertiesR0000::default());
            properties(Out::to(&mut new), 0).unwrap();
            old_properties(Out::to(&mut old), 0).unwrap();
            let get = |number| {
                let mut value = -1;
                attribute(Out::to(&mut value), number, 0).unwrap();
                value
            };
            let begins = new.gcnArchName.iter().zip(b"gfx90a\0").all(|(place, byte)| *place as u8 == *byte);
            assert!(begins && old.gcnArchName == new.gcnArchName);
            assert_eq!((new.warpSize, old.warpSize, get(87)), (64, 64, 64));
            assert_eq!((new.major, old.major, get(23), get(61)), (9, 9, 9, 0));
            assert_eq!((old.gcnArch, get(10003)), (910, 910));
            assert_eq!((new.sharedMemPerBlock, old.sharedMemPerBlock, get(74)), (65536, 65536, 65536));
            assert_eq!((new.multiProcessorCount, old.multiProcessorCount, get(63)), (get(10015), get(63), get(63)));
            assert_eq!((new.maxThreadsPerBlock, get(56), get(26), get(31)), (1024, 1024, 1024, 65535));
            assert_eq!(new.totalGlobalMem, old.totalGlobalMem);
            assert_eq!(attribute(Out::to(&mut 0), 9999, 0), Err(Status::INVALID_VALUE));
            assert_eq!(attribute(Out::to(&mut 0), 0, 99), Err(Status::INVALID_DEVICE));
        });
    }
}
