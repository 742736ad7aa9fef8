//! Allocations of other processes' arenas that this process has opened.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mneme_abi::cuda::structures::{AccessDescription, memory_access};
use mneme_abi::cuda::sys::CUmemAllocationHandleType;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, connect, recvmsg, socket,
};

use super::exports::{self, check_user};
use super::handle::{SharedHandle, SlabLayout};
use crate::driver::{self, CUmemLocation, Status};
use crate::memory::allocations::ALLOCATIONS;
use crate::process::log;

/// How long the other process may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The requested address of the first import: below the arenas, so a replay finds the same addresses free.
const BASE: u64 = 0x0800_0000_0000;
/// The greatest possible number of slabs: the pages of 2 MiB in an arena of 2 TiB.
const MOST_SLABS: u64 = 1 << 20;

/// Slabs of another process, mapped one after the other.
struct Mapping {
    start: u64,
    /// Bytes reserved.
    size: u64,
    /// Size in bytes and physical memory of each slab.
    slabs: Vec<(u64, u64)>,
}

struct Import {
    mapping: Mapping,
    /// The size of the allocation.
    bytes: u64,
    handle: SharedHandle,
    /// The context in which it was opened.
    context: usize,
    /// How often it was opened minus how often it was closed; at least 1.
    opened: usize,
}

/// Imports by the allocation's address in this process.
static IMPORTS: Mutex<BTreeMap<u64, Import>> = Mutex::new(BTreeMap::new());
/// Whether there may be imports; if not, look-ups of other memory cost nothing.
static ANY: AtomicBool = AtomicBool::new(false);

fn imports() -> MutexGuard<'static, BTreeMap<u64, Import>> {
    IMPORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an address is in memory that was opened here.
pub fn contains(address: u64) -> bool {
    let within =
        |(start, import): (&u64, &Import)| address < import.mapping.start + import.mapping.size && address >= *start;
    ANY.load(Ordering::Acquire) && imports().range(..=address).next_back().is_some_and(within)
}

/// Opens an allocation again that this context has open. Returns its address and size.
pub fn reopen(handle: SharedHandle, context: usize) -> Option<(u64, u64)> {
    let mut imports = imports();
    let (address, import) =
        imports.iter_mut().find(|(_, import)| import.handle == handle && import.context == context)?;
    import.opened += 1;
    Some((*address, import.bytes))
}

/// Closes memory once. The last close waits for its context with `wait` and unmaps. Returns `None` for other memory.
pub fn close(address: u64, wait: impl FnOnce(usize) -> Status) -> Option<Status> {
    if !ANY.load(Ordering::Acquire) {
        return None;
    }
    /// Counts a close. For the last one returns the context to wait for, and leaves the import in place.
    fn last(imports: &mut BTreeMap<u64, Import>, address: u64) -> Option<Option<usize>> {
        let import = imports.get_mut(&address)?;
        if import.opened == 1 {
            return Some(Some(import.context));
        }
        import.opened -= 1;
        Some(None)
    }
    let Some(context) = last(&mut imports(), address)? else { return Some(Status::SUCCESS) };
    // As with a free, kernels that still use it end first.
    let status = wait(context);
    if status != Status::SUCCESS {
        return Some(status);
    }
    let removed = {
        let mut imports = imports();
        // Another thread may have opened it again in the meantime.
        if last(&mut imports, address)?.is_none() {
            return Some(Status::SUCCESS);
        }
        imports.remove(&address)?
    };
    ALLOCATIONS.remove(address);
    removed.mapping.remove();
    Some(Status::SUCCESS)
}

/// Transfers imports of a context that has ended to another context.
pub fn inherit(from: usize, to: usize) {
    if ANY.load(Ordering::Acquire) {
        imports().values_mut().filter(|import| import.context == from).for_each(|import| import.context = to);
    }
}

/// Forgets memory that was destroyed with its context.
pub fn forget(address: u64) {
    if ANY.load(Ordering::Acquire) {
        let removed = imports().remove(&address);
        if let Some(import) = removed {
            import.mapping.remove();
        }
    }
}

/// An allocation as another process has sent it.
pub struct ReceivedAllocation {
    handle: SharedHandle,
    layout: SlabLayout,
    /// Size in bytes and descriptor of each slab.
    slabs: Vec<(u64, OwnedFd)>,
}

/// Requests an allocation from the process that shares it, which may take up to ten seconds. Errors are those of
/// `cuIpcOpenMemHandle`.
pub fn request(handle: SharedHandle) -> Result<ReceivedAllocation, Status> {
    if exports::is_own(handle.endpoint) {
        return Err(Status::INVALID_CONTEXT);
    }
    let deadline = Instant::now() + PATIENCE;
    let answer = loop {
        match try_request(handle, deadline) {
            // A signal handler of the application interrupted the call.
            Err(error) if error.kind() == ErrorKind::Interrupted && Instant::now() < deadline => {}
            answer => break answer,
        }
    };
    answer.map_err(|error| {
        log::warning!("cannot get the device memory that process {} shares: {error}", handle.process);
        Status::INVALID_HANDLE
    })
}

/// Connects to the process that answers at a socket. If that process is stopped, its queue may be full. This is an
/// error here, because a blocking connect would wait without a limit.
fn connect_to(endpoint: u64) -> std::io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let unconnected = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(unconnected.as_raw_fd(), &UnixAddr::new_abstract(SharedHandle::socket(endpoint).as_bytes())?)?;
    let stream = UnixStream::from(unconnected);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn try_request(handle: SharedHandle, deadline: Instant) -> std::io::Result<ReceivedAllocation> {
    let mut stream = connect_to(handle.endpoint)?;
    check_user(&stream)?;
    let patience = |stream: &UnixStream| {
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left).filter(|left| !left.is_zero()).ok_or(ErrorKind::TimedOut)?.into())
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&handle.number.to_le_bytes())?;
    let mut layout = [0; SlabLayout::ENCODED];
    patience(&stream)?;
    stream.read_exact(&mut layout)?;
    let layout = SlabLayout::decode(layout);
    if layout.slabs > MOST_SLABS {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut slabs = Vec::new();
    for _ in 0..layout.slabs {
        patience(&stream)?;
        slabs.push(receive(&stream)?);
    }
    Ok(ReceivedAllocation { handle, layout, slabs })
}

fn receive(stream: &UnixStream) -> std::io::Result<(u64, OwnedFd)> {
    let mut size = [0; 8];
    // Room for more descriptors than expected, so any surplus ones are received and closed.
    let mut space = nix::cmsg_space!([i32; 253]);
    let mut parts = [IoSliceMut::new(&mut size)];
    let message = recvmsg::<()>(
        stream.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_WAITALL,
    )?;
    let mut descriptors = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = part {
            // SAFETY: the kernel has just opened them for this process.
            descriptors.extend(received.into_iter().map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }));
        }
    }
    match (message.bytes, descriptors.pop()) {
        (8, Some(descriptor)) if descriptors.is_empty() => Ok((u64::from_le_bytes(size), descriptor)),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

impl ReceivedAllocation {
    /// Maps the allocation for the current device. Returns its address and size. It stays until [`close`] was called as
    /// often. Errors are those of `cuIpcOpenMemHandle`.
    pub fn map(&self, context: usize) -> Result<(u64, u64), Status> {
        let mapping = Mapping::new(&self.slabs).ok_or(Status::MAP_FAILED)?;
        let SlabLayout { bytes, offset, .. } = self.layout;
        if offset.checked_add(bytes).is_none_or(|end| end > mapping.size) {
            mapping.remove();
            return Err(Status::INVALID_HANDLE);
        }
        // Another thread may have mapped it first.
        if let Some(opened) = reopen(self.handle, context) {
            mapping.remove();
            return Ok(opened);
        }
        let address = mapping.start + offset;
        imports().insert(address, Import { mapping, bytes, handle: self.handle, context, opened: 1 });
        ANY.store(true, Ordering::Release);
        Ok((address, bytes))
    }
}

impl Mapping {
    fn new(slabs: &[(u64, OwnedFd)]) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(BASE);
        let size = slabs.iter().try_fold(0u64, |sum, (size, _)| sum.checked_add(*size)).filter(|size| *size > 0)?;
        let hint = NEXT.fetch_add(size, Ordering::Relaxed);
        let mut start = 0;
        // SAFETY: the pointer is valid to write.
        if unsafe { driver::cuMemAddressReserve(&mut start, size as usize, 0, hint, 0) } != Status::SUCCESS {
            return None;
        }
        let mut mapping = Self { start, size, slabs: Vec::new() };
        let mut at = start;
        for (size, descriptor) in slabs {
            match map(at, *size, descriptor) {
                Some(memory) => mapping.slabs.push((*size, memory)),
                None => {
                    mapping.remove();
                    return None;
                }
            }
            at += size;
        }
        let access = driver::current_device().map(|device| AccessDescription {
            location: CUmemLocation::device(device),
            flags: memory_access::READ_WRITE,
        });
        // SAFETY: the whole range is mapped, and the description is one.
        let granted = access.is_some_and(|access| unsafe {
            driver::hooked::cuMemSetAccess::call(mapping.start, mapping.size as usize, &access, 1) == Status::SUCCESS
        });
        if !granted {
            mapping.remove();
            return None;
        }
        Some(mapping)
    }

    fn remove(self) {
        let mut at = self.start;
        // SAFETY: the slabs are mapped there one behind the other and are not used any more.
        unsafe {
            for (size, memory) in self.slabs {
                driver::hooked::cuMemUnmap::call(at, size as usize);
                driver::hooked::cuMemRelease::call(memory);
                at += size;
            }
            driver::cuMemAddressFree(self.start, self.size as usize);
        }
    }
}

/// Maps a slab and returns its physical memory.
fn map(at: u64, size: u64, descriptor: &OwnedFd) -> Option<u64> {
    let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0;
    let mut memory = 0;
    // SAFETY: a valid place. The API passes a descriptor in place of the pointer. The range is reserved and unmapped.
    unsafe {
        if driver::hooked::cuMemImportFromShareableHandle::call(
            &mut memory,
            descriptor.as_raw_fd() as usize as *mut _,
            kind,
        ) != Status::SUCCESS
        {
            return None;
        }
        if driver::hooked::cuMemMap::call(at, size as usize, 0, memory, 0) != Status::SUCCESS {
            driver::hooked::cuMemRelease::call(memory);
            return None;
        }
    }
    Some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, bind, listen};

    #[test]
    fn a_process_that_accepts_no_connections_is_an_error() {
        let endpoint = 0x7e57_0000_0000_0000 | u64::from(std::process::id());
        let stopped = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(stopped.as_raw_fd(), &UnixAddr::new_abstract(SharedHandle::socket(endpoint).as_bytes()).unwrap()).unwrap();
        listen(&stopped, Backlog::new(1).unwrap()).unwrap();
        let connections: Vec<_> = (0..8).map(|_| connect_to(endpoint)).collect();
        let full = connections.iter().find_map(|connection| connection.as_ref().err()).unwrap();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }
}
