//! Device queries.

use std::ffi::c_char;

use mneme_abi::cuda::runtime_structures::{DeviceProperties, DeviceProperties13};

use super::calls::driver;
use super::session::{self, driver_with_context};
use crate::abi::Out;
use crate::driver::VERSION;
use crate::release;
use crate::status::{Status, StatusResult};

pub fn check(device: i32) -> StatusResult {
    let mut count = 0;
    driver()?.cuDeviceGetCount(Out::to(&mut count))?;
    if (0..count).contains(&device) { Ok(()) } else { Err(Status::INVALID_DEVICE) }
}

fn attribute(number: u32) -> Result<i32, Status> {
    let mut value = 0;
    driver()?.cuDeviceGetAttribute(Out::to(&mut value), number, 0)?;
    Ok(value)
}

pub fn properties(out: Out<DeviceProperties>, device: i32) -> StatusResult {
    out.put(describe(device)?)
}

/// `cudaGetDeviceProperties` of CUDA 13. CUDA 11 has another layout.
pub fn properties_of_13(out: Out<DeviceProperties13>, device: i32) -> StatusResult {
    if release::of_cuda() != Some(13) {
        crate::report::say!(
            "cudaGetDeviceProperties as programs for CUDA 11 call it is not supported on the CPU device; build for CUDA 12 or 13"
        );
        return Err(Status::NOT_SUPPORTED);
    }
    out.put(in_13(&describe(device)?))
}

/// Attributes with the largest extents of textures and surfaces, in the order of the properties. Mipmaps are
/// unsupported.
const TEXTURES_AND_SURFACES: [u32; 40] = [
    21, 77, 69, 22, 23, 73, 74, 70, 71, 72, 45, 46, 24, 25, 26, 47, 48, 49, 52, 42, 43, 27, 28, 29, 53, 54, 55, 56, 57,
    58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68,
];

/// Converts to the layout of CUDA 13, which has no clocks and lacks the third of the extents.
fn in_13(all: &DeviceProperties) -> DeviceProperties13 {
    macro_rules! same {
        ($($field:ident)*) => {{
            // SAFETY: every field is a number or an array of numbers.
            let mut new: DeviceProperties13 = unsafe { std::mem::zeroed() };
            $( new.$field = all.$field; )*
            new
        }};
    }
    let mut new = same! {
        name uuid luid luid_mask total_memory shared_per_block registers_per_block warp pitch threads_per_block block
        grid constant major minor texture_alignment texture_pitch_alignment multiprocessors integrated maps_host
        surface_alignment concurrent_kernels ecc bus pci_device domain tcc asynchronous_engines
        unified_addressing memory_bus l2 persisting_l2 threads_per_multiprocessor priorities global_l1 local_l1
        shared_per_multiprocessor registers_per_multiprocessor managed multi_board board_group host_atomics pageable
        concurrent_managed preemption registered_host_pointer cooperative shared_opt_in host_page_tables direct_managed
        blocks_per_multiprocessor window reserved_shared host_register sparse read_only_register timeline pools rdma
        rdma_flush rdma_ordering pool_handles deferred ipc_event cluster unified_functions
    };
    let extents = all.textures_and_surfaces.iter().enumerate().filter(|(index, _)| *index != 2);
    for (longest, (_, extent)) in new.textures_and_surfaces.iter_mut().zip(extents) {
        *longest = *extent;
    }
    new
}

pub fn describe(device: i32) -> Result<DeviceProperties, Status> {
    check(device)?;
    let driver = driver()?;
    let size = |number| attribute(number).map(|value| value as usize);
    // SAFETY: every field is a number or an array of numbers.
    let mut all: DeviceProperties = unsafe { std::mem::zeroed() };
    driver.cuDeviceGetName(Out::<u8>::to_place(all.name.as_mut_ptr() as usize), 256, device)?;
    driver.cuDeviceGetUuid_v2(Out::to(&mut all.uuid), device)?;
    driver.cuDeviceTotalMem_v2(Out::to(&mut all.total_memory), device)?;
    all.shared_per_block = size(8)?;
    all.registers_per_block = attribute(12)?;
    all.warp = attribute(10)?;
    all.pitch = size(11)?;
    all.threads_per_block = attribute(1)?;
    all.block = [attribute(2)?, attribute(3)?, attribute(4)?];
    all.grid = [attribute(5)?, attribute(6)?, attribute(7)?];
    all.clock = attribute(13)?;
    all.constant = size(9)?;
    (all.major, all.minor) = (attribute(75)?, attribute(76)?);
    all.texture_alignment = size(14)?;
    all.texture_pitch_alignment = size(51)?;
    all.overlap = attribute(15)?;
    all.multiprocessors = attribute(16)?;
    all.maps_host = attribute(19)?;
    all.surface_alignment = all.texture_alignment;
    for (longest, number) in all.textures_and_surfaces.iter_mut().zip(TEXTURES_AND_SURFACES) {
        *longest = attribute(number)?;
    }
    all.concurrent_kernels = attribute(31)?;
    all.asynchronous_engines = attribute(40)?;
    all.unified_addressing = attribute(41)?;
    all.memory_clock = attribute(36)?;
    all.memory_bus = attribute(37)?;
    all.l2 = attribute(38)?;
    all.threads_per_multiprocessor = attribute(39)?;
    all.priorities = attribute(78)?;
    (all.global_l1, all.local_l1) = (attribute(79)?, attribute(80)?);
    all.shared_per_multiprocessor = size(81)?;
    all.registers_per_multiprocessor = attribute(82)?;
    all.managed = attribute(83)?;
    all.double_ratio = attribute(87)?;
    all.pageable = attribute(88)?;
    all.concurrent_managed = attribute(89)?;
    all.registered_host_pointer = attribute(91)?;
    all.cooperative = attribute(95)?;
    all.shared_opt_in = size(97)?;
    all.blocks_per_multiprocessor = attribute(106)?;
    all.reserved_shared = size(111)?;
    all.host_register = attribute(99)?;
    all.pools = attribute(115)?;
    all.unified_functions = 1;
    Ok(all)
}

/// `cudaGetDeviceCount`, which needs no context.
pub fn count(count: Out<i32>) -> StatusResult {
    driver()?.cuDeviceGetCount(count)
}

/// `cudaDeviceGetAttribute`
pub fn put_attribute(value: Out<i32>, attribute: u32, device: i32) -> StatusResult {
    driver()?.cuDeviceGetAttribute(value, attribute, device)
}

/// `cudaDeviceCanAccessPeer`
pub fn can_access_peer(can: Out<i32>, device: i32, peer: i32) -> StatusResult {
    driver()?.cuDeviceCanAccessPeer(can, device, peer)
}

/// `cudaRuntimeGetVersion`
pub fn runtime_version(version: Out<i32>) -> StatusResult {
    version.put(VERSION)
}

/// `cudaDriverGetVersion`
pub fn driver_version(version: Out<i32>) -> StatusResult {
    driver()?.cuDriverGetVersion(version)
}

pub fn get(out: Out<i32>) -> StatusResult {
    driver()?;
    out.put(session::device())
}

pub fn set(device: i32) -> StatusResult {
    check(device)?;
    session::set_device(device)
}

pub fn enable_peer(peer: i32, flags: u32) -> StatusResult {
    check(peer)?;
    driver_with_context()?.cuCtxEnablePeerAccess(session::primary_of(peer)?, flags)
}

pub fn disable_peer(peer: i32) -> StatusResult {
    check(peer)?;
    driver_with_context()?.cuCtxDisablePeerAccess(session::primary_of(peer)?)
}

pub fn bus_id(out: Out<c_char>, length: i32, device: i32) -> StatusResult {
    driver()?.cuDeviceGetPCIBusId(out, length, device)
}

/// Returns the device of a stream, after checking the stream.
pub fn of_stream(stream: usize, out: Out<i32>) -> StatusResult {
    check_stream(stream)?;
    out.put(session::device())
}

/// Checks that a handle is a stream.
pub fn check_stream(stream: usize) -> StatusResult {
    let mut flags = 0u32;
    driver_with_context()?.cuStreamGetFlags(stream, Out::to(&mut flags))
}

/// Accepts the flags of `cudaSetDeviceFlags`. They choose how a host thread waits, which makes no difference here.
pub fn accept() -> StatusResult {
    driver().map(|_| ())
}

pub fn put_zero(out: Out<u32>) -> StatusResult {
    driver()?;
    out.put(0)
}
