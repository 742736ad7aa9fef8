//! Memory shared between processes (`cuIpc*MemHandle`).
//!
//! When an allocation is first shared, it becomes a mapping of an anonymous file, which other processes open through
//! `/proc`. The file has a random name that the handle repeats, because in another PID namespace the same process id
//! means another process.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::types::CUipcMemHandle;
use mneme_system::files::{OwnedFile, size_limit};
use mneme_system::random;

use super::allocations::{self, MemoryKind};
use super::{context, device, lanes};
use crate::abi::{Give, Out, Take};
use crate::status::{Status, StatusResult};

const NAME: &str = "mneme-cpu-shared";
const MAGIC: u64 = u64::from_le_bytes(*b"mnemecpu");

/// The device's content of the 64 bytes of a `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle {
    magic: u64,
    process: u32,
    descriptor: i32,
    bytes: u64,
    device: i32,
    /// The unique name of the file.
    identity: [u8; 16],
    rest: [u8; 20],
}

impl IpcHandle {
    fn file_name(identity: [u8; 16]) -> String {
        format!("{NAME}-{:032x}", u128::from_le_bytes(identity))
    }
}

impl Take<CUipcMemHandle> for IpcHandle {
    unsafe fn take(raw: CUipcMemHandle) -> Self {
        // SAFETY: both are 64 bytes of plain data.
        unsafe { std::mem::transmute::<CUipcMemHandle, Self>(raw) }
    }
}

impl Give<CUipcMemHandle> for IpcHandle {
    fn give(self) -> CUipcMemHandle {
        // SAFETY: as above.
        unsafe { std::mem::transmute::<Self, CUipcMemHandle>(self) }
    }
}

/// The file of a shared allocation.
struct SharedFile {
    file: OwnedFile,
    identity: [u8; 16],
}

/// The files of this process, by address.
static SHARED: Mutex<BTreeMap<u64, SharedFile>> = Mutex::new(BTreeMap::new());

fn shared() -> MutexGuard<'static, BTreeMap<u64, SharedFile>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shared allocation of another process, mapped here, with the number of times it was opened.
struct Opening {
    start: u64,
    count: u32,
}

/// By the identity of the file.
static OPENED: Mutex<BTreeMap<[u8; 16], Opening>> = Mutex::new(BTreeMap::new());

fn opened() -> MutexGuard<'static, BTreeMap<[u8; 16], Opening>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `cuIpcGetMemHandle`. The first call for an allocation moves its contents into a file, so it waits for all work,
/// which could write to the memory meanwhile.
pub fn share(out: Out<IpcHandle>, address: u64) -> StatusResult {
    context::usable()?;
    let found =
        allocations::find(address).filter(|found| found.kind == MemoryKind::Device).ok_or(Status::INVALID_VALUE)?;
    if !shared().contains_key(&found.start) {
        lanes::wait(&lanes::of_all())?;
    }
    let mut shared = shared();
    let known = match shared.entry(found.start) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) => {
            let made = into_file(found.start, allocations::mapped_size(found.size)).ok_or(Status::OUT_OF_MEMORY)?;
            free.insert(made)
        }
    };
    out.put(IpcHandle {
        magic: MAGIC,
        process: std::process::id(),
        descriptor: known.file.get().map_err(|_| Status::OPERATING_SYSTEM)?.as_raw_fd(),
        bytes: found.size,
        device: found.device,
        identity: known.identity,
        rest: [0; 20],
    })
}

/// Makes a freed allocation unavailable to other processes.
pub fn forget(address: u64) {
    shared().remove(&address);
}

/// `cuIpcOpenMemHandle`.
pub fn open(out: Out<u64>, handle: IpcHandle, _flags: u32) -> StatusResult {
    context::usable()?;
    if handle.magic != MAGIC || out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // A forked child has a copy of its parent's table.
    let is_own = shared().values().any(|shared| shared.identity == handle.identity);
    if is_own && handle.process == std::process::id() {
        return Err(Status::INVALID_CONTEXT);
    }
    context::device(handle.device)?;
    let mut opened = opened();
    if let Some(opening) = opened.get_mut(&handle.identity) {
        opening.count += 1;
        return out.put(opening.start);
    }
    let path = format!("/proc/{}/fd/{}", handle.process, handle.descriptor);
    // Process id and descriptor may both be reused by now, so the name decides.
    let named = |path: &str| {
        let name = std::fs::read_link(path).map_err(|_| Status::INVALID_HANDLE)?;
        let own = format!("/memfd:{}", IpcHandle::file_name(handle.identity));
        if name.to_string_lossy().starts_with(&own) { Ok(()) } else { Err(Status::INVALID_HANDLE) }
    };
    named(&path)?;
    let file = File::options().read(true).write(true).open(path).map_err(|_| Status::INVALID_HANDLE)?;
    named(&format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let size = allocations::mapped_size(handle.bytes);
    if file.metadata().map_err(|_| Status::INVALID_HANDLE)?.len() != size || handle.bytes > device::memory().0 as u64 {
        return Err(Status::INVALID_HANDLE);
    }
    let start = allocations::obtain(handle.bytes as usize)?;
    if !map_over(start, size, &file) {
        allocations::unmap(start, handle.bytes);
        return Err(Status::MAP_FAILED);
    }
    allocations::add_on(handle.device, start, handle.bytes, MemoryKind::Opened);
    opened.insert(handle.identity, Opening { start, count: 1 });
    out.put(start)
}

/// `cuIpcCloseMemHandle`.
pub fn close(address: u64) -> StatusResult {
    context::usable()?;
    let mut opened = opened();
    let found = opened.iter_mut().find(|(_, opening)| opening.start == address);
    let (key, opening) = found.ok_or(Status::INVALID_VALUE)?;
    opening.count -= 1;
    if opening.count > 0 {
        return Ok(());
    }
    let key = *key;
    opened.remove(&key);
    let found = allocations::forget(address, MemoryKind::Opened)?;
    allocations::unmap(found.start, found.size);
    Ok(())
}

/// Replaces memory by a mapping of a file with the same contents.
fn into_file(start: u64, size: u64) -> Option<SharedFile> {
    let identity = random::bytes().ok()?;
    let name = CString::new(IpcHandle::file_name(identity)).ok()?;
    // SAFETY: a NUL-terminated name.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    let file = unsafe { File::from_raw_fd(descriptor) };
    size_limit::as_errors(|| {
        file.set_len(size).ok()?;
        let mut done = 0;
        while done < size {
            // SAFETY: an allocation of this size starts there.
            let written = unsafe {
                libc::pwrite(descriptor, (start + done) as *const _, (size - done) as usize, done as libc::off_t)
            };
            done += u64::try_from(written).ok().filter(|written| *written > 0)?;
        }
        Some(())
    })?;
    let file = OwnedFile::new(file).ok()?;
    map_over(start, size, file.get().ok()?).then_some(SharedFile { file, identity })
}

fn map_over(start: u64, size: u64, file: &File) -> bool {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: replaces pages of an allocation. They stay readable and writable, and keep their contents or were unused.
    let mapped = unsafe { libc::mmap(start as *mut _, size as usize, protection, flags, file.as_raw_fd(), 0) };
    allocations::keep_from_children(start, size);
    mapped != libc::MAP_FAILED
}
