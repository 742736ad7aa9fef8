//! Shares allocations of the arena with other processes.
//!
//! A thread sends the slabs' descriptors to processes that have received a handle.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mneme_abi::cuda::sys::{CUipcMemHandle, CUmemAllocationHandleType};
use mneme_system::files::OwnedFile;
use mneme_system::random;
use nix::sys::socket::{ControlMessage, MsgFlags, SockFlag, accept4, getsockopt, sendmsg, sockopt::PeerCredentials};

use super::handle::{SharedHandle, SlabLayout};
use crate::driver::{self, Status};
use crate::memory::allocations::LiveAllocation;
use crate::memory::arena::vmm;
use crate::process::{log, threads};

/// How long the other process may be silent. It sends its request immediately after connecting.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause before the next attempt to accept a connection.
const PAUSE: Duration = Duration::from_millis(10);

/// A slab of an allocation. Allocations in one slab share its descriptor, because the number of open files is limited.
struct Slab {
    /// Bytes.
    size: u64,
    /// The handle of its physical memory.
    handle: u64,
    descriptor: Arc<OwnedFile>,
}

/// An allocation that has a handle.
struct Export {
    number: u64,
    layout: SlabLayout,
    slabs: Vec<Slab>,
}

struct Exports {
    /// By the allocation's address.
    of_address: BTreeMap<u64, Arc<Export>>,
    last: u64,
}

static EXPORTS: Mutex<Exports> = Mutex::new(Exports { of_address: BTreeMap::new(), last: 0 });
/// Whether there may be exports; if not, frees need not look.
static ANY: AtomicBool = AtomicBool::new(false);

fn exports() -> MutexGuard<'static, Exports> {
    EXPORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handle of an allocation of the arena, always the same. `None` if the driver cannot share it or no thread can be
/// started.
pub fn handle_of(live: &LiveAllocation) -> Option<CUipcMemHandle> {
    let known = exports().of_address.get(&live.address).map(|export| export.number);
    let number = match known {
        Some(number) => number,
        None => {
            let (layout, slabs) = export(live)?;
            let mut exports = exports();
            exports.last += 1;
            let number = exports.last;
            ANY.store(true, Ordering::Release);
            // Another thread may have inserted it first.
            exports.of_address.entry(live.address).or_insert_with(|| Arc::new(Export { number, layout, slabs })).number
        }
    };
    Some(SharedHandle { endpoint: endpoint()?, number, process: std::process::id() }.encode())
}

/// Forgets a freed allocation. Processes that have opened it keep the memory, and further requests fail.
pub fn forget(address: u64) {
    if ANY.load(Ordering::Acquire) {
        let removed = exports().of_address.remove(&address);
        drop(removed);
    }
}

/// For a forked child: closes what belongs to the parent, because the child would keep memory alive that the parent
/// frees. Does not wait.
pub fn leave_to_parent() {
    if let Ok(mut exports) = EXPORTS.try_lock() {
        exports.of_address.clear();
    }
    if let Some(listener) = LISTENER.get() {
        listener.close();
    }
}

fn export(live: &LiveAllocation) -> Option<(SlabLayout, Vec<Slab>)> {
    let found = vmm::of_address(live.address)?.arena.slabs_of(live.address, live.size);
    let (first, _, _) = *found.first()?;
    let layout = SlabLayout { bytes: live.size, offset: live.address - first, slabs: found.len() as u64 };
    let slabs = found.into_iter().map(|(_, size, handle)| Some(Slab { size, handle, descriptor: descriptor(handle)? }));
    Some((layout, slabs.collect::<Option<_>>()?))
}

/// A file descriptor of physical memory.
fn descriptor(handle: u64) -> Option<Arc<OwnedFile>> {
    let known = |exports: &Exports| {
        let mut slabs = exports.of_address.values().flat_map(|export| &export.slabs);
        slabs.find(|slab| slab.handle == handle).map(|slab| slab.descriptor.clone())
    };
    if let Some(known) = known(&exports()) {
        return Some(known);
    }
    let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0;
    let mut descriptor = -1i32;
    // SAFETY: a valid place of the type that this kind of handle has; the slab holds an allocation, so the handle is
    // alive.
    let status =
        unsafe { driver::hooked::cuMemExportToShareableHandle::call((&raw mut descriptor).cast(), handle, kind, 0) };
    if status != Status::SUCCESS || descriptor < 0 {
        return None;
    }
    // SAFETY: the driver has just opened it for the recorder. Programs that the application starts do not need it.
    let file = unsafe {
        libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        File::from_raw_fd(descriptor)
    };
    OwnedFile::new(file).ok().map(Arc::new)
}

/// The name of the socket on which this process answers, opened at its first use.
static ENDPOINT: OnceLock<Option<u64>> = OnceLock::new();

/// The listening socket.
static LISTENER: OnceLock<OwnedFile> = OnceLock::new();

/// Whether a handle's socket belongs to this process.
pub fn is_own(endpoint: u64) -> bool {
    ENDPOINT.get() == Some(&Some(endpoint))
}

fn endpoint() -> Option<u64> {
    *ENDPOINT.get_or_init(|| {
        let endpoint = random::number().ok()?;
        let address = SocketAddr::from_abstract_name(SharedHandle::socket(endpoint)).ok()?;
        let listener = UnixListener::bind_addr(&address).ok()?;
        let listener = OwnedFile::new(File::from(OwnedFd::from(listener))).ok()?;
        let listener = LISTENER.get_or_init(|| listener);
        let is_served = threads::start("mneme-sharing", threads::LARGE, move || serve(listener));
        if !is_served {
            listener.close();
        }
        is_served.then_some(endpoint)
    })
}

/// Answers requests until the application closes the socket.
fn serve(listener: &OwnedFile) {
    while let Ok(socket) = listener.get() {
        // SAFETY: a new descriptor, owned here alone.
        let stream = accept4(socket.as_raw_fd(), SockFlag::SOCK_CLOEXEC)
            .map(|stream| unsafe { UnixStream::from_raw_fd(stream) });
        match stream.as_ref().map(answer) {
            Ok(Ok(())) => {}
            // The other process hung up or asked for freed memory.
            Ok(Err(error)) => log::debug!("shared memory could not be handed to another process: {error}"),
            // The application may have used up its descriptors.
            Err(error) => {
                log::debug!("a connection of another process cannot be accepted: {error}");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Refuses a connection with a process of another user.
pub fn check_user(stream: &UnixStream) -> std::io::Result<()> {
    let peer = getsockopt(stream, PeerCredentials)?;
    // SAFETY: it cannot fail.
    if peer.uid() == unsafe { libc::geteuid() } || peer.uid() == 0 {
        return Ok(());
    }
    Err(std::io::Error::other(format!("process {} belongs to another user", peer.pid())))
}

fn answer(mut stream: &UnixStream) -> std::io::Result<()> {
    check_user(stream)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut number = [0; 8];
    stream.read_exact(&mut number)?;
    let number = u64::from_le_bytes(number);
    let export = exports().of_address.values().find(|export| export.number == number).cloned();
    let export = export.ok_or_else(|| std::io::Error::other(format!("allocation {number} is not shared any more")))?;
    stream.write_all(&export.layout.encode())?;
    for slab in &export.slabs {
        let size = slab.size.to_le_bytes();
        let descriptors = [slab.descriptor.get()?.as_raw_fd()];
        let sent = sendmsg::<()>(
            stream.as_raw_fd(),
            &[IoSlice::new(&size)],
            &[ControlMessage::ScmRights(&descriptors)],
            MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        if sent != size.len() {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}
