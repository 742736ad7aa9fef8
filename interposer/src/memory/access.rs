//! The access of kernels to allocations, by the driver's rules.
//!
//! Memory of `cuMemAlloc` is accessible to its own device and to contexts with peer access to its context. A mapping is
//! accessible to no device until `cuMemSetAccess` grants it. Memory of a pool is accessible to its device and to the
//! devices that `cuMemPoolSetAccess` grants the pool. Kernels cannot touch other memory, and the recorder must not read
//! it: the device would fault.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::structures::AccessDescription;
use mneme_abi::cuda::sys::CUpointer_attribute;

use super::allocations::{ALLOCATIONS, Devices, HOST, KernelAccess, LiveAllocation};
use super::arena::vmm;
use crate::driver::contexts::{self, LiveContext};
use crate::driver::{self, CUcontext, CUdevice, CUdeviceptr, Status, gate, hip};

/// Access that is granted beyond single allocations.
#[derive(Default)]
struct Known {
    /// (accessor, owner): kernels of the first context may touch memory of the second.
    peers: BTreeSet<(usize, usize)>,
    /// Devices with access to a pool (`CUmemoryPool`), besides its own.
    pools: BTreeMap<usize, Devices>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { peers: BTreeSet::new(), pools: BTreeMap::new() });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveAllocation {
    /// Whether kernels of a context can touch it, as far as that does not depend on their arguments.
    pub fn is_accessible_from(&self, context: LiveContext) -> bool {
        match self.access {
            KernelAccess::Peers | KernelAccess::PeersAndThreads => {
                self.device == context.device || known().peers.contains(&(context.handle, self.context))
            }
            KernelAccess::Mapped(devices) | KernelAccess::Pooled { devices, .. } => devices.contains(context.device),
            KernelAccess::Multicast | KernelAccess::Aliased => false,
            KernelAccess::Everywhere | KernelAccess::Arguments | KernelAccess::Variable => true,
        }
    }
}

/// Whether the vendor reports that an address is in managed memory, which a variable can be.
pub fn is_managed(address: u64) -> bool {
    const IS_MANAGED: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED as u32;
    let mut managed = 0u32;
    // SAFETY: the attribute is a boolean of at most these 4 bytes.
    let status = unsafe { driver::hooked::cuPointerGetAttribute::call((&raw mut managed).cast(), IS_MANAGED, address) };
    status == Status::SUCCESS && managed != 0
}

/// The contexts whose kernels can touch one of these allocations, or the variables of the kernel's device.
pub fn that_touch(allocations: &[LiveAllocation], device: CUdevice) -> Vec<usize> {
    let touches = |context: &LiveContext| {
        context.device == device || allocations.iter().any(|live| live.is_accessible_from(*context))
    };
    contexts::all().into_iter().filter(touches).map(|context| context.handle).collect()
}

/// The access to memory of a pool on a device.
pub fn of_pool(pool: usize, device: CUdevice) -> KernelAccess {
    let mut devices = known().pools.get(&pool).copied().unwrap_or_default();
    devices.set(device, true);
    KernelAccess::Pooled { pool, devices }
}

/// Forgets all access by and to a context that has died.
pub fn forget_context(context: usize) {
    known().peers.retain(|(accessor, owner)| *accessor != context && *owner != context);
}

/// Gives a device access to another's arena while any of its contexts has peer access to a context of the other.
fn follow_peers(accessor: CUdevice, owner: CUdevice) {
    let devices: BTreeMap<usize, CUdevice> =
        contexts::all().into_iter().map(|context| (context.handle, context.device)).collect();
    let device = |context: &usize| devices.get(context).copied();
    let is_peer = known().peers.iter().any(|(from, to)| device(from) == Some(accessor) && device(to) == Some(owner));
    match vmm::of_device(owner) {
        Some(arena) if accessor != owner => arena.set_peer(accessor, is_peer),
        _ => {}
    }
}

fn with_peer(
    call: &dyn Fn() -> Status,
    peer: CUcontext,
    change: impl Fn(&mut BTreeSet<(usize, usize)>, (usize, usize)),
) -> Status {
    gate::passing(&|| {
        let status = call();
        let own = driver::current_context().zip(driver::current_device());
        if status == Status::SUCCESS
            && let (Some((context, device)), Some(owner)) = (own, contexts::device_of(peer as usize))
        {
            contexts::note(context, device);
            contexts::note(peer as usize, owner);
            change(&mut known().peers, (context, peer as usize));
            follow_peers(device, owner);
        }
        status
    })
}

/// Handles `cuCtxEnablePeerAccess`.
pub fn enable_peer(call: &dyn Fn() -> Status, peer: CUcontext) -> Status {
    with_peer(call, peer, |peers, pair| _ = peers.insert(pair))
}

/// Handles `cuCtxDisablePeerAccess`.
pub fn disable_peer(call: &dyn Fn() -> Status, peer: CUcontext) -> Status {
    with_peer(call, peer, |peers, pair| _ = peers.remove(&pair))
}

/// Handles `hipDeviceEnablePeerAccess`.
pub fn enable_peer_device(call: &dyn Fn() -> Status, peer: c_int) -> Status {
    enable_peer(call, hip::context_on(peer))
}

/// Handles `hipDeviceDisablePeerAccess`.
pub fn disable_peer_device(call: &dyn Fn() -> Status, peer: c_int) -> Status {
    disable_peer(call, hip::context_on(peer))
}

/// # Safety
/// The argument is that of `hipCtxEnablePeerAccess`: a context, which stands for a device.
pub unsafe fn enable_peer_of_hip(call: &dyn Fn() -> Status, peer: CUcontext) -> Status {
    // SAFETY: the application gives this context to the library.
    unsafe { hip::device_of_foreign(peer) }.map_or_else(call, |device| enable_peer_device(call, device))
}

/// # Safety
/// As above, of `hipCtxDisablePeerAccess`.
pub unsafe fn disable_peer_of_hip(call: &dyn Fn() -> Status, peer: CUcontext) -> Status {
    // SAFETY: the application gives this context to the library.
    unsafe { hip::device_of_foreign(peer) }.map_or_else(call, |device| disable_peer_device(call, device))
}

/// Reads an array of access descriptions: each device, or the host, and whether it has access. Read-only access counts.
///
/// # Safety
/// The array must have `count` elements.
unsafe fn described(accesses: *const AccessDescription, count: usize) -> Vec<(CUdevice, bool)> {
    let mut described = Vec::new();
    for index in 0..count {
        // SAFETY: inside the array.
        let AccessDescription { location, flags } = unsafe { accesses.add(index).read() };
        described.push((location.device_number().unwrap_or(HOST), flags != 0));
    }
    described
}

/// # Safety
/// The arguments are those of `cuMemSetAccess`.
pub unsafe fn set(
    call: &dyn Fn() -> Status,
    address: CUdeviceptr,
    bytes: usize,
    accesses: *const AccessDescription,
    count: usize,
) -> Status {
    gate::passing(&|| {
        call().on_success(|| {
            // SAFETY: the driver has taken the array.
            let described = unsafe { described(accesses, count) };
            let end = address.saturating_add(bytes as u64);
            ALLOCATIONS.change_in(address..end, |live| {
                if let KernelAccess::Mapped(devices) = &mut live.access {
                    described.iter().for_each(|(device, has_access)| devices.set(*device, *has_access));
                }
            });
        })
    })
}

/// # Safety
/// The arguments are those of `cuMemPoolSetAccess`.
pub unsafe fn set_pool(
    call: &dyn Fn() -> Status,
    pool: usize,
    accesses: *const AccessDescription,
    count: usize,
) -> Status {
    gate::passing(&|| {
        call().on_success(|| {
            // SAFETY: the driver has taken the array.
            let described = unsafe { described(accesses, count) };
            let give = |devices: &mut Devices| {
                described.iter().for_each(|(device, has_access)| devices.set(*device, *has_access))
            };
            give(known().pools.entry(pool).or_default());
            // Existing allocations of the pool follow it.
            ALLOCATIONS.change(|live| match &mut live.access {
                KernelAccess::Pooled { pool: of, devices } if *of == pool => give(devices),
                _ => {}
            });
        })
    })
}

/// Forgets the access to a new pool's handle. The handle may have belonged to a destroyed pool whose memory still
/// exists.
///
/// # Safety
/// After a success `pool` must be readable.
pub unsafe fn new_pool(call: &dyn Fn() -> Status, pool: *const usize) -> Status {
    gate::passing(&|| {
        call().on_success(|| {
            // SAFETY: the caller's promise.
            let new = unsafe { *pool };
            known().pools.remove(&new);
            ALLOCATIONS.change(|live| match &mut live.access {
                KernelAccess::Pooled { pool, .. } if *pool == new => *pool = 0,
                _ => {}
            });
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_recording::manifest::AllocationKind;

    fn context(handle: usize, device: CUdevice) -> LiveContext {
        LiveContext { handle, device }
    }

    fn live(access: KernelAccess, device: CUdevice, context: usize) -> LiveAllocation {
        LiveAllocation {
            address: 0x7000_0000,
            size: 4096,
            kind: AllocationKind::Vendor,
            access,
            device,
            context,
            shared: false,
        }
    }

    #[test]
    fn peers_reach_what_their_contexts_were_given_until_it_is_taken() {
        let of_41 = live(KernelAccess::Peers, 41, 0xb0);
        known().peers.insert((0xa0, 0xb0));
        assert!(of_41.is_accessible_from(context(0xa0, 40)) && of_41.is_accessible_from(context(0xb1, 41)));
        assert!(!of_41.is_accessible_from(context(0xa1, 40)), "another context of the same device was given nothing");
        assert!(!live(KernelAccess::Peers, 40, 0xa0).is_accessible_from(context(0xb0, 41)), "access is one-way");
        contexts::note(0xa0, 40);
        contexts::note(0xa1, 40);
        contexts::note(0xb0, 41);
        let own = [0xa0, 0xa1, 0xb0];
        // Other tests have contexts of theirs.
        let touching = |live| that_touch(&[live], 41).into_iter().filter(|context| own.contains(context));
        assert!(touching(of_41).eq([0xa0, 0xb0]), "a peer may write to it");
        assert!(touching(live(KernelAccess::Everywhere, 41, 0xb0)).eq(own));
        forget_context(0xa0);
        assert!(!of_41.is_accessible_from(context(0xa0, 40)));
        own.into_iter().for_each(contexts::forget);
    }

    fn description(device: CUdevice, flags: u32) -> [i32; 3] {
        [1, device, flags as i32]
    }

    /// Makes two mappings accessible with one call, then revokes one device's access to one of them.
    #[test]
    fn each_mapping_and_device_has_access_of_its_own() {
        let page = 2 << 20;
        let base = 0x7100_0000_0000u64;
        for (address, device) in [(base, 42), (base + page, 43)] {
            ALLOCATIONS.insert(LiveAllocation {
                address,
                size: page,
                ..live(KernelAccess::Mapped(Devices::default()), device, 0)
            });
        }
        let find = |address| ALLOCATIONS.containing(address).unwrap();
        let reached = |address| [42, 43].map(|device| find(address).is_accessible_from(context(1, device)));
        assert_eq!(reached(base), [false, false], "mapped, and given to nobody");
        let both = [description(42, 3), description(43, 1), [2, 0, 1]];
        let none = [description(43, 0)];
        // SAFETY: arrays of so many descriptions.
        unsafe {
            set(&|| Status::SUCCESS, base, 2 * page as usize, both.as_ptr().cast(), 3);
            assert_eq!((reached(base), reached(base + page)), ([true; 2], [true; 2]));
            assert!(find(base).is_host_visible(), "the host was given it, too");
            set(&|| Status::SUCCESS, base + page, page as usize, none.as_ptr().cast(), 1);
            assert_eq!((reached(base), reached(base + page)), ([true; 2], [true, false]));
            set(&|| Status::INVALID_VALUE, base, page as usize, none.as_ptr().cast(), 1);
            assert_eq!(reached(base), [true; 2], "the driver has refused");
        }
        ALLOCATIONS.remove(base);
        ALLOCATIONS.remove(base + page);
    }

    #[test]
    fn memory_of_a_pool_follows_the_pool() {
        let (pool, address) = (0x900usize, 0x7200_0000_0000u64);
        ALLOCATIONS.insert(LiveAllocation { address, ..live(of_pool(pool, 44), 44, 0xc0) });
        let reached =
            || [44, 45].map(|device| ALLOCATIONS.containing(address).unwrap().is_accessible_from(context(1, device)));
        assert_eq!(reached(), [true, false]);
        let (given, taken) = (description(45, 3), description(45, 0));
        // SAFETY: one description each, and a place for a pool.
        unsafe {
            set_pool(&|| Status::SUCCESS, pool, given.as_ptr().cast(), 1);
            assert_eq!(reached(), [true; 2]);
            let mut devices = Devices::of(44);
            devices.set(45, true);
            assert_eq!(of_pool(pool, 44), KernelAccess::Pooled { pool, devices }, "what is allocated from now on, too");
            set_pool(&|| Status::SUCCESS, pool, taken.as_ptr().cast(), 1);
            assert_eq!(reached(), [true, false]);
            set_pool(&|| Status::SUCCESS, pool, given.as_ptr().cast(), 1);
            new_pool(&|| Status::SUCCESS, &pool);
            assert_eq!(
                of_pool(pool, 44),
                KernelAccess::Pooled { pool, devices: Devices::of(44) },
                "another pool of the same handle"
            );
            set_pool(&|| Status::SUCCESS, pool, taken.as_ptr().cast(), 1);
            assert_eq!(reached(), [true; 2], "memory of the earlier pool does not belong to it");
        }
        ALLOCATIONS.remove(address);
    }
}
