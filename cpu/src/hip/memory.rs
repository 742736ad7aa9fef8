//! Memory functions whose arguments differ between HIP and CUDA.

use std::sync::atomic::{AtomicBool, Ordering};

use mneme_abi::cuda::runtime_structures::PointerAttributes as CudaPointerAttributes;
use mneme_abi::cuda::structures::{AllocationProperties, Copy2d, Copy3d, memory_type, pointer_attribute};
use mneme_abi::hip::properties::MemoryPropertiesR0500;
use mneme_abi::hip::structures::{PointerAttributes, VolumeEnd, VolumesR0000, VolumesR0600};

use super::device::PITCH;
use super::release;
use crate::abi::{In, Out};
use crate::driver::memory::Reach;
use crate::driver::work::{end, pitched};
use crate::driver::{allocations, context, copy, memory, virtual_memory};
use crate::runtime::memory as shared;
use crate::runtime::session::driver_with_context;
use crate::status::{Status, StatusResult};

/// `hipMemcpyDeviceToDeviceNoCU`, which also selects the engine of the copy.
const DEVICE_TO_DEVICE_OTHERWISE: u32 = 1024;

/// Converts a direction to CUDA's.
pub fn direction(kind: u32) -> u32 {
    if kind == DEVICE_TO_DEVICE_OTHERWISE { 3 } else { kind }
}

/// Frees device or host memory. HIP's functions free both kinds.
pub fn free(address: u64) -> StatusResult {
    driver_with_context()?;
    match allocations::find(address).map(|found| found.kind) {
        Some(allocations::MemoryKind::Host) => memory::free_host(address),
        _ => memory::free(address),
    }
}

/// Whether the program was built with headers that describe physical memory in the layout from before HIP 5.3.
static DESCRIBES_AS_BEFORE: AtomicBool = AtomicBool::new(false);

/// Allocates physical memory. Programs built for HIP 5 describe it in either layout.
pub fn create(handle: Out<u64>, size: usize, properties: In<AllocationProperties>, flags: u64) -> StatusResult {
    if release::major() == 5 {
        let early: MemoryPropertiesR0500 = In::of_place(properties.address()).get()?;
        if early.are_in_this_layout() {
            DESCRIBES_AS_BEFORE.store(true, Ordering::Relaxed);
            let properties = AllocationProperties::pinned(early.location[1]).shared_by(early.requestedHandleType);
            return virtual_memory::create(handle, size, In::from(&properties), flags);
        }
    }
    virtual_memory::create(handle, size, properties, flags)
}

/// Returns the properties in the layout that the program has used.
pub fn properties_of(out: Out<AllocationProperties>, handle: u64) -> StatusResult {
    let mut properties = AllocationProperties::pinned(0);
    virtual_memory::properties_of(Out::to(&mut properties), handle)?;
    if !DESCRIBES_AS_BEFORE.load(Ordering::Relaxed) {
        return out.put(properties);
    }
    let (location, kind) = ([properties.location.kind as i32, properties.location.id], properties.kind);
    let requested = properties.handle_types;
    let early = MemoryPropertiesR0500 { location, r#type: kind, requestedHandleType: requested, ..Default::default() };
    Out::to_place(out.address()).put(early)
}

/// Allocates rows with the alignment of [`device`](super::device). Without rows, the result is null.
pub fn allocate_rows(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize) -> StatusResult {
    driver_with_context()?;
    if address.is_null() || pitch.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    if width == 0 || height == 0 {
        return address.put(0);
    }
    memory::allocate_rows(address, pitch, width, height, PITCH)
}

/// Allocates rows of elements of this size. Fails if the extent is empty.
pub fn allocate_elements(
    address: Out<u64>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element: u32,
) -> StatusResult {
    if width == 0 || height == 0 || ![4, 8, 16].contains(&element) {
        return Err(Status::INVALID_VALUE);
    }
    allocate_rows(address, pitch, width, height)
}

/// Allocates host memory. For 0 bytes, the result is null.
pub fn allocate_host(address: Out<u64>, bytes: usize, flags: u32) -> StatusResult {
    driver_with_context()?;
    if bytes == 0 || address.is_null() {
        return address.put(0);
    }
    let mut start = 0;
    memory::allocate_host(Out::to(&mut start), bytes)?;
    allocations::note_flags(start, flags);
    address.put(start)
}

pub fn register_host(address: u64, bytes: usize, flags: u32) -> StatusResult {
    memory::register_host(address, bytes, flags)?;
    allocations::note_flags(address, flags);
    Ok(())
}

fn is_of_host(found: &allocations::MemoryAllocation) -> bool {
    matches!(found.kind, allocations::MemoryKind::Host | allocations::MemoryKind::Registered)
}

/// The flags with which host memory was allocated or registered.
pub fn host_flags(out: Out<u32>, address: u64) -> StatusResult {
    context::current()?;
    let found = allocations::find(address).filter(is_of_host).ok_or(Status::INVALID_VALUE)?;
    out.put(found.flags)
}

/// The allocation that contains an address, on any device.
pub fn address_range(base: Out<u64>, size: Out<usize>, address: u64) -> StatusResult {
    context::usable()?;
    let found = allocations::find(address).filter(|found| found.kind != allocations::MemoryKind::Registered);
    let found = found.ok_or(Status::NOT_FOUND)?;
    base.put_if_wanted(found.start);
    size.put_if_wanted(found.size as usize);
    Ok(())
}

/// Returns free and total memory. The caller may leave either out.
pub fn information(free: Out<usize>, total: Out<usize>) -> StatusResult {
    let (mut available, mut all) = (0, 0);
    memory::information(Out::to(&mut available), Out::to(&mut all))?;
    free.put_if_wanted(available);
    total.put_if_wanted(all);
    Ok(())
}

pub fn copy_and_wait(to: u64, from: u64, bytes: usize, kind: u32, stream: usize) -> StatusResult {
    shared::copy_on(to, from, bytes, direction(kind), stream)?;
    driver_with_context()?.cuStreamSynchronize(stream)
}

/// The `hipMemoryType` for CUDA's 0 (unregistered), 1 (host), 2 (device) and 3 (managed).
fn memory_type(major: u32, kind: u32) -> u32 {
    match (major, kind) {
        (6.., kind) => kind,
        (_, 1) => 0,
        _ => 1,
    }
}

pub fn pointer_attributes(out: Out<PointerAttributes>, address: u64) -> StatusResult {
    let mut found = CudaPointerAttributes { kind: 0, device: 0, device_pointer: 0, host_pointer: 0 };
    shared::pointer_attributes(Out::to(&mut found), address)?;
    let major = release::major();
    if found.kind == 0 {
        if major < 6 {
            return Err(Status::INVALID_VALUE);
        }
        found.host_pointer = 0;
    }
    out.put(PointerAttributes {
        kind: memory_type(major, found.kind),
        device: found.device,
        device_pointer: found.device_pointer,
        host_pointer: found.host_pointer,
        managed: i32::from(found.kind == 3),
        flags: allocations::find(address).map_or(0, |found| found.flags),
    })
}

/// Returns an attribute. HIP uses CUDA's numbers.
pub fn pointer_attribute(out: Out<u8>, attribute: u32, address: u64) -> StatusResult {
    driver_with_context()?;
    memory::pointer_attribute(out, attribute, address, Reach::All)?;
    if attribute == pointer_attribute::MEMORY_TYPE {
        let place = Out::<u32>::to_place(out.address());
        place.put(memory_type(release::major(), In::of_place(out.address()).get()?))?;
    }
    Ok(())
}

/// The size of the allocation that contains an address.
pub fn size_of_allocation(address: u64, out: Out<usize>) -> StatusResult {
    driver_with_context()?;
    context::usable()?;
    let found = allocations::find(address).ok_or(Status::INVALID_VALUE)?;
    out.put(found.size as usize)
}

/// The `CUmemorytype` for a `hipMemoryType`.
fn copy_type(major: u32, kind: u32) -> Result<u32, Status> {
    Ok(match (major, kind) {
        (6.., 1) | (..6, 0) => memory_type::HOST,
        (6.., 2) | (..6, 1) => memory_type::DEVICE,
        (6.., 10) | (..6, 2) => {
            crate::report::say!("arrays of HIP are not supported");
            return Err(Status::NOT_SUPPORTED);
        }
        (6.., 3 | 11) | (..6, 3) => memory_type::UNIFIED,
        _ => return Err(Status::INVALID_VALUE),
    })
}

fn described(what: In<Copy2d>) -> Result<Copy2d, Status> {
    let what = what.get()?;
    let major = release::major();
    Ok(Copy2d { from_type: copy_type(major, what.from_type)?, to_type: copy_type(major, what.to_type)?, ..what })
}

/// `hip_Memcpy2D`: the driver's structure, except for the types of memory.
pub fn copy_2d(what: In<Copy2d>) -> StatusResult {
    copy::copy_2d(In::from(&described(what)?))
}

pub fn copy_2d_on(what: In<Copy2d>, stream: usize) -> StatusResult {
    copy::copy_2d_on(In::from(&described(what)?), stream)
}

/// Converts a copy of volumes to the driver's description.
fn described_volumes<T: Copy + TryInto<usize>>(
    from: &VolumeEnd<T>,
    to: &VolumeEnd<T>,
    extent: [T; 3],
    major: u32,
) -> Result<Copy3d, Status> {
    let number = |value: T| value.try_into().map_err(|_| Status::INVALID_VALUE);
    let side = |from: &VolumeEnd<T>| {
        let kind = copy_type(major, from.kind)?;
        let address = if kind == memory_type::HOST { from.host } else { from.device };
        let at = [number(from.at[0])?, number(from.at[1])?, number(from.at[2])?];
        Ok(pitched(end(kind)?(address), at, number(from.pitch)?, number(from.rows)?))
    };
    let [width, height, depth] = [number(extent[0])?, number(extent[1])?, number(extent[2])?];
    Ok(Copy3d { from: side(from)?, to: side(to)?, width, height, depth })
}

/// Copies volumes, given the address of a `HIP_MEMCPY3D`.
pub fn copy_3d(address: usize, stream: Option<usize>) -> StatusResult {
    driver_with_context()?;
    let major = release::major();
    let what = if major >= 6 {
        let VolumesR0600 { from, to, extent } = In::of_place(address).get()?;
        described_volumes(&from, &to, extent, major)?
    } else {
        let VolumesR0000 { from, to, extent } = In::of_place(address).get()?;
        described_volumes(&from, &to, extent, major)?
    };
    match stream {
        None => copy::copy_3d(In::from(&what)),
        Some(stream) => copy::copy_3d_on(In::from(&what), stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::work::{CopyEnd, row_of};

    #[test]
    fn types_of_memory_are_those_of_the_program_s_release() {
        let array = Err(Status::NOT_SUPPORTED);
        assert_eq!([0, 1, 2].map(|kind| copy_type(5, kind)), [Ok(1), Ok(2), array]);
        assert_eq!([1, 2, 10, 11].map(|kind| copy_type(6, kind)), [Ok(1), Ok(2), array, Ok(4)]);
        assert_eq!(copy_type(6, 0), Err(Status::INVALID_VALUE));
        assert_eq!([1, 2, 3].map(|kind| memory_type(5, kind)), [0, 1, 1]);
        assert_eq!([0, 1, 2, 3].map(|kind| memory_type(7, kind)), [0, 1, 2, 3]);
    }

    #[test]
    fn volumes_of_both_releases_mean_the_same() {
        let end =
            |kind| VolumeEnd { at: [4u32, 1, 2, 0], kind, host: 0x1000, device: 0x2000, array: 0, pitch: 64, rows: 8 };
        let old = described_volumes(&end(0), &end(1), [16, 4, 2], 5).unwrap();
        let at = |end: CopyEnd| match end {
            CopyEnd::Host(address) => ("host", address),
            CopyEnd::Device(address) => ("device", address),
            CopyEnd::Any(address) => ("any", address),
        };
        let offset = ((2 + 1) * 8 + 1) * 64 + 4;
        assert_eq!(at(row_of(&old.from, 0, 1, 16, 4).unwrap()), ("host", 0x1000 + offset));
        assert_eq!(at(row_of(&old.to, 0, 1, 16, 4).unwrap()), ("device", 0x2000 + offset));
        assert_eq!((old.width, old.height, old.depth), (16, 4, 2));
    }
}
