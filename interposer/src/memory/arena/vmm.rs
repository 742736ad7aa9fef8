//! The arenas of this process's devices, on the driver's virtual memory management.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mneme_abi::cuda::structures::{AccessDescription, AllocationProperties, memory_access};
use mneme_abi::cuda::sys::{CUdevice_attribute, CUmemAllocationHandleType};
use mneme_image::elf::{self, MappedFile};

use super::{Arena, Mapper};
use crate::driver::{self, CUdevice, CUmemLocation, Status};
use crate::process::settings::settings;

/// The index of the allocation flag that lets network cards read the memory.
const GPU_DIRECT_RDMA: usize = 1;
/// The requested address of the first device's arena. A driver with 47 address bits grants it exactly.
const BASE: u64 = 0x1000_0000_0000;
/// The greatest size of an arena, and the distance between the arenas of two devices: 2 TiB.
const STRIDE: u64 = 0x200_0000_0000;
/// The smallest useful range: 1 GiB.
const SMALLEST: u64 = 1 << 30;
const DEVICES: usize = 64;

/// The arena of one device and its source of memory.
pub struct DeviceArena {
    pub arena: Arena,
    pub mapper: Vmm,
}

static ARENAS: [OnceLock<Option<DeviceArena>>; DEVICES] = [const { OnceLock::new() }; DEVICES];

/// The arena of a device, reserved at its first use. `None` if the device or driver lacks virtual memory management.
pub fn of_device(device: CUdevice) -> Option<&'static DeviceArena> {
    ARENAS.get(usize::try_from(device).ok()?)?.get_or_init(|| reserve(device)).as_ref()
}

/// The arena of a device, if it has been used.
pub fn reserved(device: CUdevice) -> Option<&'static DeviceArena> {
    ARENAS.get(usize::try_from(device).ok()?)?.get()?.as_ref()
}

/// The arena that contains an address.
pub fn of_address(address: u64) -> Option<&'static DeviceArena> {
    ARENAS.iter().filter_map(OnceLock::get).flatten().find(|device| device.arena.contains(address))
}

/// Whether the program's own symbol table shows that it shares memory. Libraries do not count: frameworks import these
/// functions, and few of their users need them.
fn sharing_is_expected() -> bool {
    static EXPECTED: OnceLock<bool> = OnceLock::new();
    *EXPECTED.get_or_init(|| {
        let Ok(program) = MappedFile::open(Path::new("/proc/self/exe")) else { return false };
        ["cudaIpcGetMemHandle", "cuIpcGetMemHandle", "hipIpcGetMemHandle"]
            .iter()
            .any(|name| elf::imports(program.bytes(), name))
    })
}

fn reserve(device: CUdevice) -> Option<DeviceArena> {
    if !settings().arena || (sharing_is_expected() && !settings().arena_forced) {
        return None;
    }
    if driver::device_attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device)?
        == 0
    {
        crate::process::log::info!(
            "device {device} does not support virtual memory management; its allocations are recorded at the vendor's addresses"
        );
        return None;
    }
    let mapper = Vmm::new(device);
    let mut granularity = mapper.granularity()?;
    if settings().whole_pages {
        granularity = granularity.max(UPSTREAM_PAGE);
    }
    let limit = settings().arena_bytes.unwrap_or(STRIDE).clamp(SMALLEST, STRIDE);
    let hint = BASE + u64::try_from(device).ok()? * STRIDE;
    let mut size = limit.next_multiple_of(granularity);
    while size >= SMALLEST {
        let mut address = 0;
        // SAFETY: the pointer is valid to write.
        let status = unsafe { driver::cuMemAddressReserve(&mut address, size as usize, 0, hint, 0) };
        if status == Status::SUCCESS && address != 0 {
            if address != hint {
                crate::process::log::info!("the arena of device {device} is at {address:#x}, not at {hint:#x}");
            }
            let arena = Arena::new(address, size, granularity);
            let arena = if settings().whole_pages { arena.with_whole_pages() } else { arena };
            return Some(DeviceArena { arena, mapper });
        }
        size = (size / 2).next_multiple_of(granularity);
    }
    crate::process::log::info!(
        "cannot reserve an address range on device {device}; its allocations are recorded at the vendor's addresses"
    );
    None
}

/// Granularity at which the existing Mneme maps memory for a replay, bytes.
const UPSTREAM_PAGE: u64 = 2 << 20;

/// Physical memory of one device.
pub struct Vmm {
    device: CUdevice,
    rdma: bool,
    /// Whether other processes may receive it. Some systems do not support that.
    shareable: AtomicBool,
    /// Devices that may access it: the device itself and its peers.
    accessors: Mutex<Vec<CUdevice>>,
}

impl Vmm {
    fn new(device: CUdevice) -> Self {
        let supports = |attribute| driver::device_attribute(attribute, device).is_some_and(|supported| supported != 0);
        let shareable = supports(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
        Self {
            device,
            rdma: supports(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
            shareable: AtomicBool::new(shareable),
            accessors: Mutex::new(vec![device]),
        }
    }

    fn properties(&self) -> AllocationProperties {
        let handle_types = if self.is_shareable() {
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        } else {
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE
        };
        let mut properties = AllocationProperties::pinned(self.device).shared_by(handle_types.0);
        properties.flags[GPU_DIRECT_RDMA] = self.rdma.into();
        properties
    }

    fn granularity(&self) -> Option<u64> {
        let mut granularity = 0;
        // SAFETY: valid pointers; option 0 is CU_MEM_ALLOC_GRANULARITY_MINIMUM.
        let status = unsafe { driver::cuMemGetAllocationGranularity(&mut granularity, &self.properties(), 0) };
        (status == Status::SUCCESS && granularity.is_power_of_two()).then_some(granularity as u64)
    }

    /// Whether other processes may receive its memory.
    pub fn is_shareable(&self) -> bool {
        self.shareable.load(Ordering::Relaxed)
    }

    /// Creates physical memory. If the system refuses shareable memory, falls back to memory that is not.
    fn create(&self, size: u64) -> Result<u64, Status> {
        let mut handle = 0;
        let properties = self.properties();
        // SAFETY: valid pointers.
        match unsafe {
            driver::hooked::cuMemCreate::call(&mut handle, size as usize, (&raw const properties).cast(), 0)
        } {
            Status::SUCCESS => Ok(handle),
            status if status != Status::OUT_OF_MEMORY && self.shareable.swap(false, Ordering::Relaxed) => {
                self.create(size)
            }
            status => Err(status),
        }
    }

    fn accessors(&self) -> MutexGuard<'_, Vec<CUdevice>> {
        self.accessors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_to(&self, accessors: &[CUdevice], flags: u32, address: u64, size: u64) -> bool {
        let descriptors: Vec<_> = accessors
            .iter()
            .map(|device| AccessDescription { location: CUmemLocation::device(*device), flags })
            .collect();
        // SAFETY: the range is mapped, the descriptors are valid for their count.
        unsafe {
            driver::hooked::cuMemSetAccess::call(address, size as usize, descriptors.as_ptr(), descriptors.len())
                == Status::SUCCESS
        }
    }
}

impl DeviceArena {
    /// Grants or revokes a peer device's access to all of the arena, present and future.
    pub fn set_peer(&self, peer: CUdevice, has_access: bool) {
        let mut accessors = self.mapper.accessors();
        if accessors.contains(&peer) == has_access {
            return;
        }
        let flags = if has_access {
            accessors.push(peer);
            memory_access::READ_WRITE
        } else {
            accessors.retain(|device| *device != peer);
            memory_access::NONE
        };
        drop(accessors);
        for (address, size) in self.arena.slabs() {
            if !self.mapper.give_to(&[peer], flags, address, size) {
                let device = self.mapper.device;
                crate::process::log::warning!("cannot change the access of device {peer} to memory of device {device}");
            }
        }
    }
}

impl Mapper for Vmm {
    fn map(&self, address: u64, size: u64) -> Option<u64> {
        let handle = self.create(size).ok()?;
        // SAFETY: the address range is reserved and unmapped (the arena's invariant).
        unsafe {
            if driver::hooked::cuMemMap::call(address, size as usize, 0, handle, 0) != Status::SUCCESS {
                driver::hooked::cuMemRelease::call(handle);
                return None;
            }
        }
        let accessors = self.accessors().clone();
        if !self.give_to(&accessors, memory_access::READ_WRITE, address, size) {
            self.unmap(address, size, handle);
            return None;
        }
        Some(handle)
    }

    fn unmap(&self, address: u64, size: u64, handle: u64) {
        // SAFETY: the range is an unused slab, the handle is its memory.
        unsafe {
            driver::hooked::cuMemUnmap::call(address, size as usize);
            driver::hooked::cuMemRelease::call(handle);
        }
    }
}
