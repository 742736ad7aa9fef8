//! Memory functions of the runtime.
//!
//! Some of them take a direction and replace several functions of the driver.

use mneme_abi::cuda::runtime_structures::PointerAttributes;
use mneme_abi::cuda::structures::pointer_attribute::{DEVICE_ORDINAL, IS_MANAGED, MEMORY_TYPE};
use mneme_abi::cuda::structures::{Copy2d, Copy3d, memory_type};
use mneme_abi::cuda::types::CUmemLocation;

use super::registration;
use super::session::driver_with_context;
use crate::abi::{In, Out};
use crate::driver::graph_nodes::At;
use crate::driver::work::{self, CopyEnd};
use crate::status::{Status, StatusResult};

/// `cudaMemcpyKind`
const HOST_TO_HOST: u32 = 0;
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEVICE_TO_DEVICE: u32 = 3;
const DEFAULT: u32 = 4;

pub fn allocate(out: Out<u64>, bytes: usize) -> StatusResult {
    let driver = driver_with_context()?;
    if bytes == 0 {
        return out.put(0);
    }
    driver.cuMemAlloc_v2(out, bytes)
}

pub fn copy(to: u64, from: u64, bytes: usize, kind: u32) -> StatusResult {
    let driver = driver_with_context()?;
    if bytes == 0 {
        return Ok(());
    }
    match kind {
        HOST_TO_HOST | DEFAULT => driver.cuMemcpy(to, from, bytes),
        HOST_TO_DEVICE => driver.cuMemcpyHtoD_v2(to, from, bytes),
        DEVICE_TO_HOST => driver.cuMemcpyDtoH_v2(to, from, bytes),
        DEVICE_TO_DEVICE => driver.cuMemcpyDtoD_v2(to, from, bytes),
        _ => Err(Status::INVALID_MEMCPY_DIRECTION),
    }
}

pub fn copy_on(to: u64, from: u64, bytes: usize, kind: u32, stream: usize) -> StatusResult {
    let driver = driver_with_context()?;
    if bytes == 0 {
        return Ok(());
    }
    match kind {
        HOST_TO_HOST | DEFAULT => driver.cuMemcpyAsync(to, from, bytes, stream),
        HOST_TO_DEVICE => driver.cuMemcpyHtoDAsync_v2(to, from, bytes, stream),
        DEVICE_TO_HOST => driver.cuMemcpyDtoHAsync_v2(to, from, bytes, stream),
        DEVICE_TO_DEVICE => driver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream),
        _ => Err(Status::INVALID_MEMCPY_DIRECTION),
    }
}

/// A copy of consecutive bytes, for a node of a graph.
pub fn line(to: u64, from: u64, bytes: usize, kind: u32) -> Result<Copy3d, Status> {
    let (source, destination) = ends(kind)?;
    Ok(work::line(destination(to), source(from), bytes))
}

/// Adds a copy of consecutive bytes to a graph.
pub fn add_line_node(out: Out<usize>, at: At, to: u64, from: u64, bytes: usize, kind: u32) -> StatusResult {
    let copy = line(to, from, bytes, kind)?;
    driver_with_context()?.cuGraphAddMemcpyNode(out, at.graph, at.after, at.count, In::from(&copy), 0usize)
}

/// Makes an end of a copy from an address.
pub type EndOf = fn(u64) -> CopyEnd;

/// The kinds of source and destination for a direction.
pub fn ends(kind: u32) -> Result<(EndOf, EndOf), Status> {
    Ok(match kind {
        HOST_TO_HOST => (CopyEnd::Host, CopyEnd::Host),
        HOST_TO_DEVICE => (CopyEnd::Host, CopyEnd::Device),
        DEVICE_TO_HOST => (CopyEnd::Device, CopyEnd::Host),
        DEVICE_TO_DEVICE => (CopyEnd::Device, CopyEnd::Device),
        DEFAULT => (CopyEnd::Any, CopyEnd::Any),
        _ => return Err(Status::INVALID_MEMCPY_DIRECTION),
    })
}

/// Converts a location for the older functions: a device, or -1 (`cudaCpuDeviceId`) for the host.
fn device_of(location: CUmemLocation) -> i32 {
    location.device_number().unwrap_or(-1)
}

/// `cudaMemPrefetchAsync_v2`
pub fn prefetch_to(location: CUmemLocation, address: u64, bytes: usize, stream: usize) -> StatusResult {
    driver_with_context()?.cuMemPrefetchAsync(address, bytes, device_of(location), stream)
}

/// `cudaMemAdvise_v2`
pub fn advise_at(location: CUmemLocation, address: u64, bytes: usize, advice: u32) -> StatusResult {
    driver_with_context()?.cuMemAdvise(address, bytes, advice, device_of(location))
}

/// Rows of a two-dimensional copy, in the order of `cudaMemcpy2D`.
pub struct Rows {
    pub to: u64,
    pub to_pitch: usize,
    pub from: u64,
    pub from_pitch: usize,
    pub width: usize,
    pub height: usize,
}

impl Rows {
    fn described(&self, kind: u32) -> Result<Copy2d, Status> {
        let (host, device, unified) = (memory_type::HOST, memory_type::DEVICE, memory_type::UNIFIED);
        let (from_type, to_type) = match kind {
            HOST_TO_HOST => (host, host),
            HOST_TO_DEVICE => (host, device),
            DEVICE_TO_HOST => (device, host),
            DEVICE_TO_DEVICE => (device, device),
            DEFAULT => (unified, unified),
            _ => return Err(Status::INVALID_MEMCPY_DIRECTION),
        };
        Ok(Copy2d {
            from_x: 0,
            from_y: 0,
            from_type,
            from_host: self.from as *const _,
            from_device: self.from,
            from_array: std::ptr::null(),
            from_pitch: self.from_pitch,
            to_x: 0,
            to_y: 0,
            to_type,
            to_host: self.to as *mut _,
            to_device: self.to,
            to_array: std::ptr::null_mut(),
            to_pitch: self.to_pitch,
            width: self.width,
            height: self.height,
        })
    }
}

pub fn copy_2d(rows: &Rows, kind: u32) -> StatusResult {
    let driver = driver_with_context()?;
    driver.cuMemcpy2DUnaligned_v2(In::from(&rows.described(kind)?))
}

pub fn copy_2d_on(rows: &Rows, kind: u32, stream: usize) -> StatusResult {
    let driver = driver_with_context()?;
    driver.cuMemcpy2DAsync_v2(In::from(&rows.described(kind)?), stream)
}

/// The address of the part of a variable that a copy uses.
pub fn part_of(symbol: usize, offset: usize, bytes: usize) -> Result<u64, Status> {
    driver_with_context()?;
    let (address, size) = registration::variable(symbol)?;
    if offset.checked_add(bytes).is_none_or(|end| end > size) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(address + offset as u64)
}

pub fn to_symbol(symbol: usize, from: u64, bytes: usize, offset: usize, kind: u32) -> StatusResult {
    copy(part_of(symbol, offset, bytes)?, from, bytes, kind)
}

pub fn to_symbol_on(symbol: usize, from: u64, bytes: usize, offset: usize, kind: u32, stream: usize) -> StatusResult {
    copy_on(part_of(symbol, offset, bytes)?, from, bytes, kind, stream)
}

pub fn from_symbol(to: u64, symbol: usize, bytes: usize, offset: usize, kind: u32) -> StatusResult {
    copy(to, part_of(symbol, offset, bytes)?, bytes, kind)
}

pub fn from_symbol_on(to: u64, symbol: usize, bytes: usize, offset: usize, kind: u32, stream: usize) -> StatusResult {
    copy_on(to, part_of(symbol, offset, bytes)?, bytes, kind, stream)
}

pub fn symbol_address(out: Out<u64>, symbol: usize) -> StatusResult {
    driver_with_context()?;
    out.put(registration::variable(symbol)?.0)
}

pub fn symbol_size(out: Out<usize>, symbol: usize) -> StatusResult {
    driver_with_context()?;
    out.put(registration::variable(symbol)?.1)
}

/// Returns the attributes of a pointer. Unknown memory is "unregistered", which is not an error.
pub fn pointer_attributes(out: Out<PointerAttributes>, address: u64) -> StatusResult {
    let driver = driver_with_context()?;
    let (mut kind, mut managed) = (0u32, 0u8);
    if driver.cuPointerGetAttribute((&raw mut kind) as usize, MEMORY_TYPE, address).is_err() {
        return out.put(PointerAttributes { kind: 0, device: -2, device_pointer: 0, host_pointer: address });
    }
    driver.cuPointerGetAttribute((&raw mut managed) as usize, IS_MANAGED, address)?;
    let mut device = 0i32;
    driver.cuPointerGetAttribute((&raw mut device) as usize, DEVICE_ORDINAL, address)?;
    out.put(match (managed, kind) {
        (1, _) => PointerAttributes { kind: 3, device, device_pointer: address, host_pointer: address },
        (_, memory_type::HOST) => PointerAttributes { kind: 1, device, device_pointer: address, host_pointer: address },
        _ => PointerAttributes { kind: 2, device, device_pointer: address, host_pointer: 0 },
    })
}
