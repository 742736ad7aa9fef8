//! Virtual memory: reservations, physical memory, mappings and access.

use mneme_abi::cuda::driver::pointers;
use mneme_abi::cuda::structures::{AccessDescription, AllocationProperties};
use mneme_abi::hip::types::*;

use crate::books::{ACCESS_NONE, ACCESS_READ, ACCESS_READ_WRITE, Mapping, Physical, books, overlapping};
use crate::devices;
use crate::mistake::{CallResult, Mistake, place, wrong};

/// The granularity of the CPU device, which this library reports.
const GRANULARITY: u64 = 2 << 20;
/// `hipMemAllocationTypePinned`.
const PINNED: u32 = 1;

fn check_whole(value: u64, what: &str) -> Result<(), Mistake> {
    if value.is_multiple_of(GRANULARITY) {
        Ok(())
    } else {
        wrong(format!("{what} is 0x{value:x}, which is no multiple of the granularity 0x{GRANULARITY:x}"))
    }
}

fn check_size(size: usize) -> Result<(), Mistake> {
    if size == 0 {
        return wrong("the size is 0");
    }
    check_whole(size as u64, "the size")
}

fn check_location(location: CUmemLocation) -> Result<(), Mistake> {
    match location.device_number() {
        Some(device) => devices::check(device),
        None => wrong(format!("the type of the location is {}; it has to be a device (1)", location.kind)),
    }
}

unsafe fn check_properties(properties: *const CUmemAllocationProp) -> Result<(), Mistake> {
    // SAFETY: null or the caller's structure.
    let Some(properties) = (unsafe { properties.as_ref() }) else {
        return wrong("the properties are null");
    };
    let AllocationProperties { kind, handle_types: handles, location, .. } = *properties;
    if kind != PINNED {
        return wrong(format!("the type of memory is {kind}; HIP has pinned memory (1) only"));
    }
    check_location(location)?;
    if handles > 1 {
        return wrong(format!("handles of type {handles} are asked for; HIP has file descriptors (1) only"));
    }
    Ok(())
}

pub unsafe fn granularity(
    driver: pointers::cuMemGetAllocationGranularity,
    granularity: *mut usize,
    properties: *const CUmemAllocationProp,
    option: c_uint,
) -> CallResult {
    place(granularity, "the granularity")?;
    // SAFETY: the caller's structure.
    unsafe { check_properties(properties) }?;
    if option > 1 {
        return wrong(format!("{option} is no option; there are minimum (0) and recommended (1)"));
    }
    // SAFETY: the places were checked.
    Ok(unsafe { driver(granularity, properties, option) })
}

pub unsafe fn reserve(
    driver: pointers::cuMemAddressReserve,
    address: *mut CUdeviceptr,
    size: usize,
    alignment: usize,
    hint: CUdeviceptr,
    flags: c_ulonglong,
) -> CallResult {
    place(address, "the address")?;
    check_size(size)?;
    if alignment != 0 && !alignment.is_power_of_two() {
        return wrong(format!("the alignment is {alignment}, which is no power of two"));
    }
    check_whole(hint, "the address that is asked for")?;
    if flags != 0 {
        return wrong("the flags must be 0");
    }
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(address, size, alignment, hint, flags);
        if status == Status::SUCCESS {
            books().reserved.insert(*address, size as u64);
        }
        Ok(status)
    }
}

pub unsafe fn free_reservation(driver: pointers::cuMemAddressFree, address: CUdeviceptr, size: usize) -> CallResult {
    {
        let mut books = books();
        match books.reserved.get(&address) {
            None => return wrong(format!("0x{address:x} is not the start of a reservation")),
            Some(reserved) if *reserved != size as u64 => {
                return wrong(format!("0x{reserved:x} bytes are reserved at 0x{address:x}, and 0x{size:x} were given"));
            }
            Some(_) => {}
        }
        if let Some((mapped, _)) = overlapping(&books.mappings, address, size as u64, |mapping| mapping.size) {
            return wrong(format!("memory is mapped at 0x{mapped:x} in it; hipMemUnmap comes first"));
        }
        books.reserved.remove(&address);
    }
    // SAFETY: the books say that it is reserved.
    Ok(unsafe { driver(address, size) })
}

pub unsafe fn create(
    driver: pointers::cuMemCreate,
    handle: *mut CUmemGenericAllocationHandle,
    bytes: usize,
    properties: *const CUmemAllocationProp,
    flags: c_ulonglong,
) -> CallResult {
    place(handle, "the handle")?;
    check_size(bytes)?;
    // SAFETY: the caller's structure.
    unsafe { check_properties(properties) }?;
    if flags != 0 {
        return wrong("the flags must be 0");
    }
    // SAFETY: the places were checked.
    unsafe {
        let status = driver(handle, bytes, properties, flags);
        if status == Status::SUCCESS {
            books().physical.insert(*handle, Physical { size: bytes as u64, handles: 1 });
        }
        Ok(status)
    }
}

/// Checks for a live handle.
fn check_handle(handle: CUmemGenericAllocationHandle) -> Result<Physical, Mistake> {
    match books().physical.get(&handle) {
        None => wrong(format!("0x{handle:x} is no handle of memory")),
        Some(Physical { handles: 0, .. }) => wrong(format!("the handle of memory 0x{handle:x} was released before")),
        Some(physical) => Ok(*physical),
    }
}

pub unsafe fn release(driver: pointers::cuMemRelease, handle: CUmemGenericAllocationHandle) -> CallResult {
    check_handle(handle)?;
    if let Some(physical) = books().physical.get_mut(&handle) {
        physical.handles -= 1;
    }
    // SAFETY: the books say that it is a handle.
    Ok(unsafe { driver(handle) })
}

pub unsafe fn map(
    driver: pointers::cuMemMap,
    address: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: c_ulonglong,
) -> CallResult {
    check_size(bytes)?;
    check_whole(address, "the address")?;
    let physical = check_handle(handle)?;
    if offset != 0 {
        return wrong("the offset must be 0: HIP maps memory from its start");
    }
    if bytes as u64 > physical.size {
        return wrong(format!("0x{bytes:x} bytes are mapped of memory that has 0x{:x}", physical.size));
    }
    if flags != 0 {
        return wrong("the flags must be 0");
    }
    let size = bytes as u64;
    {
        let books = books();
        let inside = books.reserved.range(..=address).next_back();
        if inside.is_none_or(|(start, reserved)| address + size > start + reserved) {
            return wrong(format!("0x{address:x}+0x{size:x} is not inside a reservation"));
        }
        if let Some((other, mapping)) = overlapping(&books.mappings, address, size, |mapping| mapping.size) {
            return wrong(format!("memory is mapped there already: 0x{other:x}+0x{:x}", mapping.size));
        }
    }
    // SAFETY: the books say that the range is reserved and free, and that this is a handle.
    let status = unsafe { driver(address, bytes, offset, handle, flags) };
    if status == Status::SUCCESS {
        books().mappings.insert(address, Mapping { size, access: None });
    }
    Ok(status)
}

pub unsafe fn unmap(driver: pointers::cuMemUnmap, address: CUdeviceptr, bytes: usize) -> CallResult {
    {
        let mut books = books();
        match books.mappings.get(&address) {
            None => return wrong(format!("no mapping starts at 0x{address:x}")),
            Some(mapping) if mapping.size != bytes as u64 => {
                return wrong(format!(
                    "0x{:x} bytes are mapped at 0x{address:x}, and 0x{bytes:x} were given: HIP unmaps one mapping whole",
                    mapping.size
                ));
            }
            Some(_) => {}
        }
        books.mappings.remove(&address);
    }
    // SAFETY: the books say that it is mapped.
    Ok(unsafe { driver(address, bytes) })
}

pub unsafe fn set_access(
    driver: pointers::cuMemSetAccess,
    address: CUdeviceptr,
    bytes: usize,
    accesses: *const CUmemAccessDesc,
    count: usize,
) -> CallResult {
    if accesses.is_null() || count == 0 {
        return wrong("no access is described");
    }
    check_size(bytes)?;
    let mut access = None;
    for index in 0..count {
        // SAFETY: the caller passes this many structures.
        let AccessDescription { location, flags } = unsafe { accesses.add(index).read() };
        check_location(location)?;
        if ![ACCESS_NONE, ACCESS_READ, ACCESS_READ_WRITE].contains(&flags) {
            return wrong(format!("{flags} is no access; there are none (0), read (1) and read and write (3)"));
        }
        access = access.max(Some(flags));
    }
    {
        let books = books();
        let (mut at, end) = (address, address + bytes as u64);
        while at < end {
            let Some(mapping) = books.mappings.get(&at) else {
                return wrong(format!("no mapping starts at 0x{at:x}"));
            };
            at += mapping.size;
        }
        if at != end {
            return wrong(format!("0x{address:x}+0x{bytes:x} ends inside a mapping"));
        }
    }
    // SAFETY: as checked.
    let status = unsafe { driver(address, bytes, accesses, count) };
    if status == Status::SUCCESS {
        for (_, mapping) in books().mappings.range_mut(address..address + bytes as u64) {
            mapping.access = access;
        }
    }
    Ok(status)
}

pub unsafe fn get_access(
    driver: pointers::cuMemGetAccess,
    flags: *mut c_ulonglong,
    location: *const CUmemLocation,
    address: CUdeviceptr,
) -> CallResult {
    place(flags, "the access")?;
    if location.is_null() {
        return wrong("the location is null");
    }
    if crate::books::overlapping(&books().mappings, address, 1, |mapping| mapping.size).is_none() {
        return wrong(format!("nothing is mapped at 0x{address:x}"));
    }
    // SAFETY: the places were checked.
    Ok(unsafe { driver(flags, location, address) })
}

pub unsafe fn retain(
    driver: pointers::cuMemRetainAllocationHandle,
    handle: *mut CUmemGenericAllocationHandle,
    address: *mut c_void,
) -> CallResult {
    place(handle, "the handle")?;
    let start = address as u64;
    let Some((_, mapping)) = overlapping(&books().mappings, start, 1, |mapping| mapping.size) else {
        return wrong(format!("nothing is mapped at 0x{start:x}"));
    };
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(handle, address);
        if status == Status::SUCCESS {
            let mut books = books();
            let physical = books.physical.entry(*handle).or_insert(Physical { size: mapping.size, handles: 0 });
            physical.handles += 1;
        }
        Ok(status)
    }
}
