//! Functions that allocate, free and query memory.
//!
//! Host and device share one address space, so "device memory" is memory whose bounds are known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use mneme_abi::cuda::structures::AccessDescription;
use mneme_abi::cuda::types::CUmemLocation;

use super::allocations::{
    MemoryAllocation, MemoryKind, add, add_of_pool, find, forget, forget_of, obtain, overlaps, unmap,
};
use super::attributes::ALIGNMENT;
use super::graph_memory::{self, GraphAddresses};
use super::lanes::{self, Task};
use super::virtual_memory::HostAccess;
use super::work::Work;
use super::{context, device, graph, sharing, stream, virtual_memory};
use crate::abi::{In, Out};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

/// Checks that a range can be read or written: it lies within one allocation, or in adjacent mappings.
pub fn check(address: u64, bytes: u64, access: HostAccess) -> StatusResult {
    let end = address.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
    let mut at = address;
    while at < end {
        let is_meant = |found: &MemoryAllocation| {
            (at == address || found.kind == MemoryKind::Virtual) && virtual_memory::is_accessible(found.start, access)
        };
        let found = find(at).filter(is_meant).ok_or(Status::INVALID_VALUE)?;
        at = found.start + found.size;
    }
    Ok(())
}

fn release(found: &MemoryAllocation) {
    unmap(found.start, found.size);
}

/// Frees the device memory of a context.
pub fn end_with(context: usize) {
    forget_of(context, MemoryKind::Device).iter().for_each(release);
}

fn allocate_as(kind: MemoryKind, out: Out<u64>, bytes: usize) -> StatusResult {
    allocate_on(context::current_device()?, 0, kind, out, bytes)
}

fn allocate_on(device: i32, pool: usize, kind: MemoryKind, out: Out<u64>, bytes: usize) -> StatusResult {
    context::usable()?;
    if bytes == 0 || out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let start = obtain(bytes)?;
    add_of_pool(pool, device, start, bytes as u64, kind);
    out.put(start)
}

pub fn allocate(out: Out<u64>, bytes: usize) -> StatusResult {
    allocate_as(MemoryKind::Device, out, bytes)
}

/// Freed memory: later calls do not know it, but earlier work may still use it.
enum FreedMemory {
    Own(MemoryAllocation),
    OfGraph(graph_memory::FreedMemory),
}

impl FreedMemory {
    fn at(address: u64) -> Result<Self, Status> {
        match forget(address, MemoryKind::Device).or_else(|_| forget(address, MemoryKind::Managed)) {
            Ok(found) => Ok(Self::Own(found)),
            Err(_) => graph_memory::forget(address).map(Self::OfGraph),
        }
    }

    fn give_back(self) {
        match self {
            Self::Own(found) => {
                sharing::forget(found.start);
                release(&found);
            }
            Self::OfGraph(memory) => memory.discard(),
        }
    }
}

/// Waits for the work of the context, which may use the memory that is to be freed.
fn settle() -> StatusResult {
    lanes::wait(&lanes::of_context(context::current()?))
}

pub fn free(address: u64) -> StatusResult {
    context::usable()?;
    if address == 0 {
        return Ok(());
    }
    let memory = FreedMemory::at(address)?;
    settle()?;
    memory.give_back();
    context::fault()
}

pub fn allocate_pitched(out: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) -> StatusResult {
    if width == 0 || height == 0 || ![4, 8, 16].contains(&element) {
        return Err(Status::INVALID_VALUE);
    }
    allocate_rows(out, pitch, width, height, ALIGNMENT)
}

/// Allocates rows that begin at multiples of an alignment.
pub fn allocate_rows(out: Out<u64>, pitch: Out<usize>, width: usize, height: usize, alignment: usize) -> StatusResult {
    let row = width.checked_next_multiple_of(alignment).ok_or(Status::INVALID_VALUE)?;
    allocate(out, row.checked_mul(height).ok_or(Status::OUT_OF_MEMORY)?)?;
    pitch.put(row)
}

pub fn allocate_managed(out: Out<u64>, bytes: usize, _flags: u32) -> StatusResult {
    allocate_as(MemoryKind::Managed, out, bytes)
}

pub fn allocate_on_stream(out: Out<u64>, bytes: usize, stream: usize) -> StatusResult {
    let pool = current_pool_of(context::current_device()?);
    allocate_from_pool(out, bytes, pool, stream)
}

/// Turns an allocation into a node if the stream is under capture. The address is known at once. Returns whether it was
/// captured.
fn capture_allocation(device: i32, out: Out<u64>, bytes: usize, stream: usize) -> Result<bool, Status> {
    if !graph::is_captured(stream) {
        return Ok(false);
    }
    let place = GraphAddresses::new(device, bytes)?;
    out.put(place.start())?;
    graph::capture(stream, || Ok(Work::Allocate(place)))
}

pub fn free_on_stream(address: u64, stream: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(Work::Free(address)))? {
        return Ok(());
    }
    context::usable()?;
    if address == 0 {
        return Ok(());
    }
    let memory = FreedMemory::at(address)?;
    let give_back = Task::quick(move || {
        memory.give_back();
        Ok(())
    });
    lanes::submit(&stream::place(stream)?, &[], give_back).map(|_| ())
}

pub fn information(free: Out<usize>, total: Out<usize>) -> StatusResult {
    context::usable()?;
    let (all, available) = device::memory();
    free.put(available)?;
    total.put(all)
}

pub fn address_range(base: Out<u64>, size: Out<usize>, address: u64) -> StatusResult {
    context::usable()?;
    let device = context::current_device()?;
    // Only device memory of the current device is known (seen with driver 580).
    let is_known = |found: &MemoryAllocation| match found.kind {
        MemoryKind::Registered => false,
        MemoryKind::Device => found.device == device,
        _ => true,
    };
    let found = find(address).filter(is_known).ok_or(Status::NOT_FOUND)?;
    base.put_if_wanted(found.start);
    size.put_if_wanted(found.size as usize);
    Ok(())
}

pub fn allocate_host(out: Out<u64>, bytes: usize) -> StatusResult {
    allocate_as(MemoryKind::Host, out, bytes)
}

pub fn free_host(address: u64) -> StatusResult {
    context::current()?;
    if address == 0 {
        return Ok(());
    }
    let memory = forget(address, MemoryKind::Host)?;
    settle()?;
    release(&memory);
    Ok(())
}

pub fn register_host(address: u64, bytes: usize, _flags: u32) -> StatusResult {
    context::usable()?;
    if address == 0 || bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let end = address.checked_add(bytes as u64).ok_or(Status::INVALID_VALUE)?;
    if overlaps(address, end) {
        return Err(Status::HOST_MEMORY_ALREADY_REGISTERED);
    }
    if !is_mapped(address, end) {
        return Err(Status::INVALID_VALUE);
    }
    add(address, bytes as u64, MemoryKind::Registered);
    Ok(())
}

/// Whether all pages of a range are mapped in the process.
fn is_mapped(start: u64, end: u64) -> bool {
    /// The number of pages per query.
    const BATCH: u64 = 1 << 16;
    // SAFETY: a query without pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let mut resident = vec![0u8; BATCH as usize];
    let mut at = start - start % page;
    while at < end {
        let bytes = (end - at).min(BATCH * page);
        // SAFETY: `resident` has room for the answers, and the kernel only looks the addresses up.
        if unsafe { libc::mincore(at as *mut _, bytes as usize, resident.as_mut_ptr()) } != 0 {
            return false;
        }
        at = at.saturating_add(bytes.next_multiple_of(page));
    }
    true
}

pub fn unregister_host(address: u64) -> StatusResult {
    context::current()?;
    forget(address, MemoryKind::Registered).map_err(|_| Status::HOST_MEMORY_NOT_REGISTERED)?;
    settle()
}

pub fn host_device_pointer(out: Out<u64>, address: u64, _flags: u32) -> StatusResult {
    context::current()?;
    match find(address).map(|found| found.kind) {
        Some(MemoryKind::Host | MemoryKind::Registered | MemoryKind::Managed) => out.put(address),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn host_flags(out: Out<u32>, address: u64) -> StatusResult {
    context::current()?;
    // CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
    find(address)
        .filter(|found| matches!(found.kind, MemoryKind::Host | MemoryKind::Registered))
        .ok_or(Status::INVALID_VALUE)
        .and_then(|_| out.put(3))
}

/// A memory pool. It caches nothing, so it is little more than a name for its device.
struct Pool {
    device: i32,
}

static POOLS: Registry<Pool> = Registry::new("a pool");
/// The default pool of device 0. Those of the other devices follow.
const DEFAULT_POOL: usize = 0x40;

fn pool_device(pool: usize) -> Result<i32, Status> {
    match pool.checked_sub(DEFAULT_POOL) {
        Some(ordinal) if ordinal < context::devices() as usize => Ok(ordinal as i32),
        _ => POOLS.get(pool).map(|pool| pool.device).map_err(|_| Status::INVALID_VALUE),
    }
}

/// Checks that a device exists.
pub fn known_device(ordinal: i32) -> Result<i32, Status> {
    context::device(ordinal).map(|_| ordinal)
}

pub fn pool(out: Out<usize>, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    out.put(DEFAULT_POOL + ordinal as usize)
}

/// The pools of stream-ordered allocations, for devices whose pool is not the default one.
static CURRENT_POOLS: Mutex<BTreeMap<i32, usize>> = Mutex::new(BTreeMap::new());

fn current_pool_of(device: i32) -> usize {
    let chosen = CURRENT_POOLS.lock().unwrap_or_else(PoisonError::into_inner).get(&device).copied();
    chosen.filter(|pool| check_pool(*pool).is_ok()).unwrap_or(DEFAULT_POOL + device as usize)
}

pub fn current_pool(out: Out<usize>, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    out.put(current_pool_of(ordinal))
}

pub fn set_current_pool(ordinal: i32, pool: usize) -> StatusResult {
    context::device(ordinal)?;
    check_pool(pool)?;
    CURRENT_POOLS.lock().unwrap_or_else(PoisonError::into_inner).insert(ordinal, pool);
    Ok(())
}

/// Access flags by pool and device.
static POOL_ACCESS: Mutex<BTreeMap<(usize, i32), u32>> = Mutex::new(BTreeMap::new());

/// Sets access flags. A device always keeps access to its own pool.
pub fn set_pool_access(pool: usize, accesses: In<AccessDescription>, count: usize) -> StatusResult {
    let owner = pool_device(pool)?;
    for index in 0..count {
        let AccessDescription { location, flags } = accesses.at(index)?;
        if location.kind != 1 || !matches!(flags, 0 | 1 | 3) || (location.id == owner && flags != 3) {
            return Err(Status::INVALID_VALUE);
        }
        context::device(location.id)?;
        POOL_ACCESS.lock().unwrap_or_else(PoisonError::into_inner).insert((pool, location.id), flags);
    }
    Ok(())
}

pub fn pool_access(out: Out<u32>, pool: usize, location: In<CUmemLocation>) -> StatusResult {
    let (owner, device) = (pool_device(pool)?, location.get()?.id);
    out.put(if device == owner {
        3
    } else {
        POOL_ACCESS.lock().unwrap_or_else(PoisonError::into_inner).get(&(pool, device)).copied().unwrap_or(0)
    })
}

/// `cuMemPoolCreate`. The properties begin with allocation type (1: pinned), handle types, kind of location (1: device)
/// and device.
pub fn create_pool(out: Out<usize>, properties: In<[i32; 4]>) -> StatusResult {
    context::initialised()?;
    let [kind, handles, location, device] = properties.get()?;
    if kind != 1 || location != 1 || out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    if handles != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    context::device(device)?;
    out.put(POOLS.insert(Arc::new(Pool { device })))
}

/// Destroys a pool. Memory that was allocated from it stays.
pub fn destroy_pool(pool: usize) -> StatusResult {
    POOL_ACCESS.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| *of != pool);
    POOL_ATTRIBUTES.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| *of != pool);
    POOLS.remove(pool).map(|_| ()).map_err(|_| Status::INVALID_VALUE)
}

pub fn check_pool(pool: usize) -> StatusResult {
    pool_device(pool).map(|_| ())
}

/// `CU_MEMPOOL_ATTR_REUSE_…` (4 bytes each) and `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD` (8 bytes).
const REUSE: std::ops::RangeInclusive<u32> = 1..=3;
const RELEASE_THRESHOLD: u32 = 4;
/// `…_RESERVED_MEM_…` and `…_USED_MEM_…`. Pools cache nothing, and the high-water marks can only be set to 0.
const USE: std::ops::RangeInclusive<u32> = 5..=8;

/// Values that were set, by pool and attribute. They have no effect.
static POOL_ATTRIBUTES: Mutex<BTreeMap<(usize, u32), u64>> = Mutex::new(BTreeMap::new());

/// Returns an attribute. After creation, reuse flags are on and the release threshold is 0; usage is always 0.
pub fn pool_attribute(pool: usize, attribute: u32, out: Out<u64>) -> StatusResult {
    check_pool(pool)?;
    let set = POOL_ATTRIBUTES.lock().unwrap_or_else(PoisonError::into_inner).get(&(pool, attribute)).copied();
    match attribute {
        _ if REUSE.contains(&attribute) => Out::to_place(out.address()).put(set.unwrap_or(1) as i32),
        RELEASE_THRESHOLD => out.put(set.unwrap_or(0)),
        _ if USE.contains(&attribute) => out.put(0),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn set_pool_attribute(pool: usize, attribute: u32, value: In<u64>) -> StatusResult {
    check_pool(pool)?;
    let value = match attribute {
        _ if REUSE.contains(&attribute) => u64::from(In::<u32>::of_place(value.address()).get()? != 0),
        RELEASE_THRESHOLD => value.get()?,
        _ if USE.contains(&attribute) && value.get()? == 0 => return Ok(()),
        _ => return Err(Status::INVALID_VALUE),
    };
    POOL_ATTRIBUTES.lock().unwrap_or_else(PoisonError::into_inner).insert((pool, attribute), value);
    Ok(())
}

pub fn allocate_from_pool(out: Out<u64>, bytes: usize, pool: usize, stream: usize) -> StatusResult {
    stream::check(stream)?;
    let device = pool_device(pool)?;
    if capture_allocation(device, out, bytes, stream)? {
        return Ok(());
    }
    allocate_on(device, pool, MemoryKind::Device, out, bytes)
}

/// Whether kernels of the current context cannot use an allocation: it is another device's, and peer access to its
/// context is off. NVIDIA's driver makes the same distinction.
fn is_out_of_reach(found: &MemoryAllocation) -> bool {
    let is_other = |context| context::device_of(context).is_ok_and(|device| device != found.device);
    let is_of_context = found.kind == MemoryKind::Device && found.pool == 0;
    is_of_context && context::current().is_ok_and(|own| is_other(own) && !context::is_peer(own, found.context))
}

/// The kernels for which a query returns the device pointer of an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those of the current context (CUDA).
    Context,
    /// Those of any context (HIP).
    All,
}

/// `cuPointerGetAttribute`
pub fn pointer_attribute(out: Out<u8>, attribute: u32, address: u64, reach: Reach) -> StatusResult {
    context::initialised()?;
    if out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let place = out.address();
    let found = find(address);
    // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR and _MAPPED also answer for reservations.
    let known = found.ok_or(Status::INVALID_VALUE);
    let host = |kind| matches!(kind, MemoryKind::Host | MemoryKind::Registered);
    let on_device = known.map(|found| !host(found.kind));
    match attribute {
        1 => known.and_then(|found| Out::to_place(place).put(found.context)),
        // CU_MEMORYTYPE_HOST 1, DEVICE 2
        2 => on_device.and_then(|device| Out::to_place(place).put(if device { 2u32 } else { 1 })),
        3 if reach == Reach::Context && found.is_some_and(|found| is_out_of_reach(&found)) => {
            Err(Status::INVALID_VALUE)
        }
        3 => known.and_then(|_| Out::to_place(place).put(address)),
        4 => match known?.kind {
            kind if host(kind) || kind == MemoryKind::Managed => Out::to_place(place).put(address),
            _ => Err(Status::INVALID_VALUE),
        },
        7 => known.and_then(|found| Out::to_place(place).put(found.id)),
        8 => known.and_then(|found| Out::to_place(place).put(u8::from(found.kind == MemoryKind::Managed))),
        9 => known.and_then(|found| Out::to_place(place).put(found.device)),
        11 => known.and_then(|found| Out::to_place(place).put(found.start)),
        12 => known.and_then(|found| Out::to_place(place).put(found.size)),
        13 => Out::to_place(place).put(u8::from(found.is_some())),
        // CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
        10 => known.and_then(|found| Out::to_place(place).put(u8::from(found.kind == MemoryKind::Device))),
        // Synchronous operations and GPUDirect capability: unsupported.
        6 | 15 => known.and_then(|_| Out::to_place(place).put(0u8)),
        14 => Out::to_place(place).put(0u32),
        // Access flags of the current context's device.
        16 => known.and_then(|found| {
            Out::to_place(place).put(virtual_memory::access(found.start, context::current_device()?))
        }),
        17 => known.and_then(|found| Out::to_place(place).put(found.pool as u64)),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// `cuPointerGetAttributes`: an attribute that does not apply reads as zero.
pub fn pointer_attributes(
    count: u32,
    attributes: In<u32>,
    data: In<usize>,
    address: u64,
    reach: Reach,
) -> StatusResult {
    context::initialised()?;
    for index in 0..count as usize {
        let (attribute, place) = (attributes.at(index)?, data.at(index)?);
        if place == 0 {
            return Err(Status::INVALID_VALUE);
        }
        if pointer_attribute(Out::to_place(place), attribute, address, reach).is_err() {
            match attribute {
                1 | 3 | 4 | 7 | 11 | 12 | 17 => Out::to_place(place).put(0u64)?,
                2 | 14 | 16 => Out::to_place(place).put(0u32)?,
                9 => Out::to_place(place).put(-2i32)?,
                _ => Out::to_place(place).put(0u8)?,
            }
        }
    }
    Ok(())
}
