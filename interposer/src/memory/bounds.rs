//! Refuses copies and fills that reach beyond an allocation of the arena or into freed memory.
//!
//! The vendor refuses them for its own allocations. It cannot for the arena's, which lie in one mapping, one behind the
//! other, and stay mapped when they are freed.
//!
//! Each handler is `fn(call, arguments of the function)`; `call` executes the vendor's function with the same
//! arguments. A handler that executes it makes no other call.

use std::ffi::{c_uint, c_void};

use mneme_abi::cuda::runtime_structures::VolumeCopy;
use mneme_abi::cuda::structures::{Copy2d, memory_type};
use mneme_abi::hip::types::{Extent, PitchedPointer};

use super::allocations::ALLOCATIONS;
use super::arena::vmm;
use crate::driver::{self, CUdeviceptr, CUstream, Status, captures, gate, hip, last_error};
use crate::process::recorded_family;

/// An address in the type of a function's parameter.
pub trait Address: Copy {
    fn number(self) -> u64;
}

impl Address for CUdeviceptr {
    fn number(self) -> u64 {
        self
    }
}

impl Address for *mut c_void {
    fn number(self) -> u64 {
        self as u64
    }
}

impl Address for *const c_void {
    fn number(self) -> u64 {
        self as u64
    }
}

/// Bytes from an address on, for which the vendor would check that they are memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    address: u64,
    bytes: usize,
}

impl Touched {
    pub fn line(address: impl Address, bytes: usize) -> Self {
        Self { address: address.number(), bytes }
    }

    /// Rows of `width` bytes, `pitch` bytes apart. An overflow saturates, which is more than any memory.
    pub fn rows(address: impl Address, pitch: usize, width: usize, height: usize) -> Self {
        let bytes = match height.checked_sub(1) {
            Some(further) if width > 0 => pitch.saturating_mul(further).saturating_add(width),
            _ => 0,
        };
        Self { address: address.number(), bytes }
    }

    /// Both ends of a copy of rows. Overlapping rows have a different status, which the vendor reports.
    pub fn by_rows(
        to: impl Address,
        to_pitch: usize,
        from: impl Address,
        from_pitch: usize,
        width: usize,
        height: usize,
    ) -> [Self; 2] {
        let height = if width <= to_pitch.min(from_pitch) { height } else { 0 };
        [Self::rows(to, to_pitch, width, height), Self::rows(from, from_pitch, width, height)]
    }

    pub fn volume(of: &PitchedPointer, extent: &Extent) -> Self {
        let rows = match extent.depth.checked_sub(1) {
            Some(further) if extent.height > 0 => of.rows.saturating_mul(further).saturating_add(extent.height),
            _ => 0,
        };
        Self::rows(of.address, of.pitch, extent.width, rows)
    }

    fn is_memory(&self) -> bool {
        if self.bytes == 0 || vmm::of_address(self.address).is_none() {
            return true;
        }
        ALLOCATIONS
            .containing(self.address)
            .is_some_and(|live| self.bytes as u64 <= live.size - (self.address - live.address))
    }
}

/// Passes a call on if it touches only memory.
pub fn checked<const ENDS: usize>(call: &dyn Fn() -> Status, touched: [Touched; ENDS]) -> Status {
    if touched.iter().all(Touched::is_memory) { gate::passing(call) } else { refuse(call, None) }
}

/// As [`checked`], for calls that enqueue work.
pub fn enqueued<const ENDS: usize>(call: &dyn Fn() -> Status, touched: [Touched; ENDS], stream: CUstream) -> Status {
    if touched.iter().all(Touched::is_memory) { gate::passing(call) } else { refuse(call, Some(stream)) }
}

/// Returns the error. While a stream is captured into a graph the vendor accepts any address, so then the call is
/// passed on.
#[cold]
fn refuse(call: &dyn Fn() -> Status, stream: Option<CUstream>) -> Status {
    let handler = |call: &dyn Fn() -> Status| match stream {
        Some(stream) if captures::captures(stream) => gate::passing(call),
        _ => driver::answer(Status::INVALID_VALUE),
    };
    if recorded_family::is_hip() { last_error::kept(call, handler) } else { handler(call) }
}

/// Whether a direction is valid, which HIP checks first. `hipMemcpyDefault` is 4, and 1024 copies from device to
/// device.
fn is_direction(kind: c_uint) -> bool {
    kind <= 4 || kind == 1024
}

/// A size, or 0 if the direction of the copy is invalid.
pub fn meant(kind: c_uint, size: usize) -> usize {
    if is_direction(kind) { size } else { 0 }
}

/// Handles `cuMemcpy`, `cuMemcpyHtoD_v2` and their like.
pub fn copy<T: Address, F: Address>(call: &dyn Fn() -> Status, to: T, from: F, bytes: usize) -> Status {
    checked(call, [Touched::line(to, bytes), Touched::line(from, bytes)])
}

/// Handles `cuMemcpyAsync`, `cuMemcpyHtoDAsync_v2` and their like.
pub fn copy_on<T: Address, F: Address>(
    call: &dyn Fn() -> Status,
    to: T,
    from: F,
    bytes: usize,
    stream: CUstream,
) -> Status {
    enqueued(call, [Touched::line(to, bytes), Touched::line(from, bytes)], stream)
}

/// One end of a copy of rows.
struct DescribedEnd {
    x: usize,
    y: usize,
    kind: c_uint,
    host: u64,
    device: u64,
    pitch: usize,
}

/// The numbers for host memory and for arrays, which HIP 6 has changed.
fn kinds_of_memory() -> [c_uint; 2] {
    match recorded_family::is_hip() {
        false => [memory_type::HOST, memory_type::ARRAY],
        true if hip::known_release().is_some_and(|release| release < 6) => [0, 2],
        true => [1, 10],
    }
}

impl DescribedEnd {
    fn touches(&self, width: usize, height: usize) -> Touched {
        let [host, array] = kinds_of_memory();
        let base = if self.kind == host { self.host } else { self.device };
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let start = base.wrapping_add(self.y.wrapping_mul(pitch).wrapping_add(self.x) as u64);
        // The vendor reports a too small pitch with another status.
        let is_meant = self.kind != array && self.x.saturating_add(width) <= pitch;
        Touched::rows(start, pitch, width, if is_meant { height } else { 0 })
    }
}

/// The memory that a copy of rows touches.
fn touched_rows(rows: &Copy2d) -> [Touched; 2] {
    let to = DescribedEnd {
        x: rows.to_x,
        y: rows.to_y,
        kind: rows.to_type,
        host: rows.to_host as u64,
        device: rows.to_device,
        pitch: rows.to_pitch,
    };
    let from = DescribedEnd {
        x: rows.from_x,
        y: rows.from_y,
        kind: rows.from_type,
        host: rows.from_host as u64,
        device: rows.from_device,
        pitch: rows.from_pitch,
    };
    [to, from].map(|end| end.touches(rows.width, rows.height))
}

/// # Safety
/// The argument is that of `cuMemcpy2D_v2` or `hipMemcpyParam2D`.
pub unsafe fn copy_described<W>(call: &dyn Fn() -> Status, what: *const W) -> Status {
    // SAFETY: null or the application's structure.
    match unsafe { what.cast::<Copy2d>().as_ref() } {
        Some(rows) => checked(call, touched_rows(rows)),
        None => gate::passing(call),
    }
}

/// # Safety
/// The arguments are those of `cuMemcpy2DAsync_v2` or `hipMemcpyParam2DAsync`.
pub unsafe fn copy_described_on<W>(call: &dyn Fn() -> Status, what: *const W, stream: CUstream) -> Status {
    // SAFETY: null or the application's structure.
    match unsafe { what.cast::<Copy2d>().as_ref() } {
        Some(rows) => enqueued(call, touched_rows(rows), stream),
        None => gate::passing(call),
    }
}

/// One end of a copy of volumes: an array or memory, and the position in it.
struct VolumeEnd {
    array: u64,
    at: Extent,
    memory: PitchedPointer,
}

impl VolumeEnd {
    fn touches(&self, extent: &Extent) -> Touched {
        let PitchedPointer { address, pitch, rows, .. } = self.memory;
        let row = self.at.depth.wrapping_mul(rows).wrapping_add(self.at.height);
        let start = address.wrapping_add(row.wrapping_mul(pitch).wrapping_add(self.at.width) as u64);
        let is_meant = self.array == 0 && self.at.width.saturating_add(extent.width) <= pitch;
        let depth = if is_meant { extent.depth } else { 0 };
        Touched::volume(&PitchedPointer { address: start, ..self.memory }, &Extent { depth, ..*extent })
    }
}

/// The memory that a copy of volumes touches.
///
/// # Safety
/// The address is null or that of such a structure.
pub unsafe fn touched_volumes(what: *const c_void) -> [Touched; 2] {
    // SAFETY: the caller's promise.
    match unsafe { what.cast::<VolumeCopy>().as_ref() } {
        Some(volumes) if is_direction(volumes.kind) => {
            let to = VolumeEnd { array: volumes.to_array, at: volumes.to_at, memory: volumes.to };
            let from = VolumeEnd { array: volumes.from_array, at: volumes.from_at, memory: volumes.from };
            [to, from].map(|end| end.touches(&volumes.extent))
        }
        _ => [Touched::line(0u64, 0); 2],
    }
}

/// Handles `cuMemsetD8_v2` and its like.
pub fn fill<V>(call: &dyn Fn() -> Status, to: CUdeviceptr, _value: V, count: usize) -> Status {
    checked(call, [Touched::line(to, count.saturating_mul(size_of::<V>()))])
}

/// Handles `cuMemsetD8Async` and its like.
pub fn fill_on<V>(call: &dyn Fn() -> Status, to: CUdeviceptr, _value: V, count: usize, stream: CUstream) -> Status {
    enqueued(call, [Touched::line(to, count.saturating_mul(size_of::<V>()))], stream)
}

/// Handles `cuMemsetD2D8_v2` and its like.
pub fn fill_rows<V>(
    call: &dyn Fn() -> Status,
    to: CUdeviceptr,
    pitch: usize,
    _value: V,
    width: usize,
    height: usize,
) -> Status {
    checked(call, [Touched::rows(to, pitch, width.saturating_mul(size_of::<V>()), height)])
}

/// Handles `cuMemsetD2D8Async` and its like.
pub fn fill_rows_on<V>(
    call: &dyn Fn() -> Status,
    to: CUdeviceptr,
    pitch: usize,
    _value: V,
    width: usize,
    height: usize,
    stream: CUstream,
) -> Status {
    enqueued(call, [Touched::rows(to, pitch, width.saturating_mul(size_of::<V>()), height)], stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_reach_to_the_end_of_the_last_one() {
        let bytes = |width, height| Touched::rows(0x1000u64, 100, width, height).bytes;
        assert_eq!([bytes(10, 3), bytes(10, 1), bytes(0, 3), bytes(10, 0)], [210, 10, 0, 0]);
        assert_eq!(bytes(10, usize::MAX), usize::MAX);
        let of = PitchedPointer { address: 0x1000, pitch: 100, width: 10, rows: 5 };
        let volume = |height, depth| Touched::volume(&of, &Extent { width: 10, height, depth }).bytes;
        assert_eq!([volume(3, 2), volume(3, 1), volume(0, 2), volume(3, 0)], [710, 210, 0, 0]);
    }

    #[test]
    fn memory_outside_the_arena_is_the_vendors_to_check() {
        assert!(Touched::line(8u64, usize::MAX).is_memory());
    }
}
