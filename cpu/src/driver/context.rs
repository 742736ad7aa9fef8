//! Contexts: primary and created ones, and each thread's stack of current contexts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mneme_model::device::MOST_CPU_DEVICES;
use mneme_system::environment;
use mneme_system::thread_stack::ThreadStack;

use crate::abi::Out;
use crate::execution::{self, heap};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

/// A context. All devices share one address space, so it holds little more than its settings.
#[derive(Debug, Default)]
pub struct DeviceContext {
    device: i32,
    flags: AtomicU32,
    /// Values set by `cuCtxSetLimit`, by limit.
    limits: Mutex<BTreeMap<u32, usize>>,
    /// The memory that kernels allocate from.
    heap: Arc<heap::Heap>,
    /// Contexts whose memory this context's kernels may access.
    peers: Mutex<BTreeSet<usize>>,
}

/// The number of devices: `MNEME_CPU_DEVICES`, or 1.
pub fn devices() -> i32 {
    static DEVICES: OnceLock<i32> = OnceLock::new();
    *DEVICES.get_or_init(|| {
        let count = environment::variable("MNEME_CPU_DEVICES").and_then(|text| text.trim().parse::<usize>().ok());
        count.unwrap_or(1).clamp(1, MOST_CPU_DEVICES) as i32
    })
}

#[derive(Clone, Copy)]
struct Primary {
    handle: usize,
    users: u32,
    flags: u32,
}

impl Primary {
    fn end(&mut self) -> usize {
        let handle = std::mem::take(&mut self.handle);
        let _ = CONTEXTS.remove(handle);
        handle
    }
}

static INITIALISED: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);
/// Whether this process was forked from one that had initialised the driver.
static FORKED: AtomicBool = AtomicBool::new(false);
static OUTLIVES_EXIT: AtomicBool = AtomicBool::new(false);
static CONTEXTS: Registry<DeviceContext> = Registry::answering();
static PRIMARY: Mutex<[Primary; MOST_CPU_DEVICES]> =
    Mutex::new([Primary { handle: 0, users: 0, flags: 0 }; MOST_CPU_DEVICES]);
/// The first fault of a kernel on each device, or 0.
static STICKY: [AtomicU32; MOST_CPU_DEVICES] = [const { AtomicU32::new(0) }; MOST_CPU_DEVICES];

thread_local! {
    static STACK: ThreadStack<usize> = const { ThreadStack::new() };
}

/// The top of the calling thread's stack.
fn top() -> Option<usize> {
    STACK.with(|stack| stack.with_top(|top| top.copied()))
}

fn primary() -> std::sync::MutexGuard<'static, [Primary; MOST_CPU_DEVICES]> {
    PRIMARY.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn initialise(flags: u32) -> StatusResult {
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    if !INITIALISED.swap(true, Ordering::AcqRel) {
        extern "C" fn at_exit() {
            ENDED.store(true, Ordering::Release);
            // A forked child has no workers to end, and one of them may have held a lock at the fork.
            if !OUTLIVES_EXIT.load(Ordering::Relaxed) && owns_device().is_ok() {
                execution::end();
            }
        }
        extern "C" fn in_child() {
            FORKED.store(true, Ordering::Release);
        }
        // SAFETY: the handlers do not unwind, and this library is never unloaded.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    }
    Ok(())
}

/// Checks that this process may use the device. As with NVIDIA's driver, a child forked after initialisation may not:
/// it has its parent's memory and locks, but neither its threads nor the device.
pub fn owns_device() -> StatusResult {
    if FORKED.load(Ordering::Acquire) { Err(Status::NOT_INITIALIZED) } else { Ok(()) }
}

/// The first check of every call of the driver API. Like NVIDIA's driver, this one ends with `exit`, before handlers
/// that were registered earlier than its initialisation run.
pub fn alive() -> StatusResult {
    owns_device()?;
    let has_ended = ENDED.load(Ordering::Acquire) && !OUTLIVES_EXIT.load(Ordering::Relaxed);
    if has_ended { Err(Status::DEINITIALIZED) } else { Ok(()) }
}

/// Lets calls succeed during `exit`, because AMD's library still serves destructors and exit handlers.
pub fn outlive_exit() {
    OUTLIVES_EXIT.store(true, Ordering::Relaxed);
}

pub fn initialised() -> StatusResult {
    if INITIALISED.load(Ordering::Acquire) { Ok(()) } else { Err(Status::NOT_INITIALIZED) }
}

pub fn device(ordinal: i32) -> StatusResult {
    initialised()?;
    if (0..devices()).contains(&ordinal) { Ok(()) } else { Err(Status::INVALID_DEVICE) }
}

/// Returns the calling thread's context.
pub fn current() -> Result<usize, Status> {
    initialised()?;
    let handle = top().filter(|handle| *handle != 0).ok_or(Status::INVALID_CONTEXT)?;
    CONTEXTS.get(handle).map(|_| handle).map_err(|_| Status::CONTEXT_IS_DESTROYED)
}

/// The heap of the current context.
pub fn heap() -> Result<Arc<heap::Heap>, Status> {
    Ok(CONTEXTS.get(current()?)?.heap.clone())
}

/// Returns the device of a context.
pub fn device_of(context: usize) -> Result<i32, Status> {
    CONTEXTS.get(context).map(|context| context.device).map_err(|_| Status::INVALID_CONTEXT)
}

pub fn current_device() -> Result<i32, Status> {
    Ok(CONTEXTS.get(current()?)?.device)
}

/// The first check of every call that uses the device: a context is current, and no kernel has failed.
pub fn usable() -> StatusResult {
    current()?;
    fault()
}

/// The fault of an earlier kernel on the current device. It stays until a reset.
pub fn fault() -> StatusResult {
    fault_of(current_device()?)
}

/// The fault of an earlier kernel on the given device.
pub fn fault_of(device: i32) -> StatusResult {
    match STICKY[device as usize].load(Ordering::Acquire) {
        0 => Ok(()),
        status => Err(Status(status)),
    }
}

pub fn set_fault(device: i32, status: Status) {
    let _ = STICKY[device as usize].compare_exchange(0, status.0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Runs `body` with a context current on the calling thread.
pub fn within<R>(context: usize, body: impl FnOnce() -> R) -> R {
    STACK.with(|stack| stack.push(context));
    let done = body();
    STACK.with(ThreadStack::pop);
    done
}

pub fn get_current(out: Out<usize>) -> StatusResult {
    initialised()?;
    out.put(top().unwrap_or(0))
}

pub fn set_current(handle: usize) -> StatusResult {
    initialised()?;
    if handle != 0 {
        CONTEXTS.get(handle).map_err(|_| Status::INVALID_CONTEXT)?;
    }
    STACK.with(|stack| {
        stack.pop();
        if handle != 0 {
            stack.push(handle);
        }
    });
    Ok(())
}

pub fn push(handle: usize) -> StatusResult {
    initialised()?;
    CONTEXTS.get(handle).map_err(|_| Status::INVALID_CONTEXT)?;
    STACK.with(|stack| stack.push(handle));
    Ok(())
}

pub fn pop(out: Out<usize>) -> StatusResult {
    initialised()?;
    let handle = STACK.with(ThreadStack::pop).ok_or(Status::INVALID_CONTEXT)?;
    out.put_if_wanted(handle);
    Ok(())
}

pub fn create(out: Out<usize>, flags: u32, ordinal: i32) -> StatusResult {
    device(ordinal)?;
    let handle = CONTEXTS.insert(Arc::new(DeviceContext {
        device: ordinal,
        flags: AtomicU32::new(flags),
        ..DeviceContext::default()
    }));
    STACK.with(|stack| stack.push(handle));
    out.put(handle)
}

/// Destroys a created context and returns its handle.
pub fn destroy(handle: usize) -> Result<usize, Status> {
    if primary().iter().any(|primary| primary.handle == handle) {
        return Err(Status::INVALID_CONTEXT);
    }
    CONTEXTS.remove(handle).map_err(|_| Status::INVALID_CONTEXT)?;
    if top() == Some(handle) {
        STACK.with(ThreadStack::pop);
    }
    Ok(handle)
}

pub fn get_device(out: Out<i32>) -> StatusResult {
    out.put(current_device()?)
}

/// The id of a context, or of the current one if the handle is 0.
pub fn get_id(handle: usize, out: Out<u64>) -> StatusResult {
    out.put(named(handle)? as u64)
}

fn named(handle: usize) -> Result<usize, Status> {
    initialised()?;
    let handle = if handle == 0 { current()? } else { handle };
    CONTEXTS.get(handle).map(|_| handle).map_err(|_| Status::INVALID_CONTEXT)
}

pub fn get_flags(out: Out<u32>) -> StatusResult {
    let context = CONTEXTS.get(current()?)?;
    out.put(context.flags.load(Ordering::Relaxed))
}

pub fn set_flags(flags: u32) -> StatusResult {
    CONTEXTS.get(current()?)?.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

pub fn get_api_version(handle: usize, out: Out<u32>) -> StatusResult {
    named(handle)?;
    out.put(3020)
}

/// `CU_LIMIT_MALLOC_HEAP_SIZE`.
const HEAP_LIMIT: u32 = 2;

/// `CUlimit`: stack size, printf buffer, malloc heap, device-runtime depth and launches, L2 fetch, persisting L2.
pub fn get_limit(out: Out<usize>, limit: u32) -> StatusResult {
    let context = CONTEXTS.get(current()?)?;
    let default = match limit {
        0 => 1024,
        1 => 1 << 20,
        HEAP_LIMIT => heap::DEFAULT_BYTES,
        3 => 2,
        4 => 2048,
        5 => 64,
        6 => 0,
        _ => return Err(Status::INVALID_VALUE),
    };
    let set = context.limits.lock().unwrap_or_else(PoisonError::into_inner).get(&limit).copied();
    out.put(set.unwrap_or(default))
}

/// Stores a limit, so it can be queried. The device enforces that of the heap, which no longer changes once kernels use
/// it.
pub fn set_limit(limit: u32, value: usize) -> StatusResult {
    let context = CONTEXTS.get(current()?)?;
    if limit > 6 {
        return Err(Status::INVALID_VALUE);
    }
    if limit == HEAP_LIMIT && !context.heap.limit(value) {
        return Err(Status::INVALID_VALUE);
    }
    context.limits.lock().unwrap_or_else(PoisonError::into_inner).insert(limit, value);
    Ok(())
}

/// Accepts cache and shared-memory preferences, which have no effect on the CPU device.
pub fn accept_preference() -> StatusResult {
    current().map(|_| ())
}

pub fn get_preference(out: Out<u32>) -> StatusResult {
    current()?;
    out.put(0)
}

pub fn priority_range(least: Out<i32>, greatest: Out<i32>) -> StatusResult {
    usable()?;
    least.put_if_wanted(0);
    greatest.put_if_wanted(0);
    Ok(())
}

pub fn retain_primary(out: Out<usize>, ordinal: i32) -> StatusResult {
    device(ordinal)?;
    let primary = &mut primary()[ordinal as usize];
    if primary.handle == 0 {
        let flags = AtomicU32::new(primary.flags);
        primary.handle =
            CONTEXTS.insert(Arc::new(DeviceContext { device: ordinal, flags, ..DeviceContext::default() }));
    }
    primary.users += 1;
    out.put(primary.handle)
}

/// The primary context of a device and its number of users, both 0 if it does not exist.
pub fn primary_of(ordinal: i32) -> Result<(usize, u32), Status> {
    device(ordinal)?;
    let Primary { handle, users, .. } = primary()[ordinal as usize];
    Ok((handle, users))
}

/// Returns the context if this was its last user, otherwise 0.
pub fn release_primary(ordinal: i32) -> Result<usize, Status> {
    device(ordinal)?;
    let primary = &mut primary()[ordinal as usize];
    if primary.users == 0 {
        return Err(Status::INVALID_CONTEXT);
    }
    primary.users -= 1;
    Ok(if primary.users == 0 { primary.end() } else { 0 })
}

/// Returns the context that ended, or 0.
pub fn reset_primary(ordinal: i32) -> Result<usize, Status> {
    device(ordinal)?;
    let primary = &mut primary()[ordinal as usize];
    primary.users = 0;
    STICKY[ordinal as usize].store(0, Ordering::Release);
    Ok(primary.end())
}

pub fn primary_state(ordinal: i32, flags: Out<u32>, active: Out<i32>) -> StatusResult {
    device(ordinal)?;
    let primary = primary()[ordinal as usize];
    flags.put_if_wanted(primary.flags);
    active.put_if_wanted(i32::from(primary.handle != 0));
    Ok(())
}

pub fn set_primary_flags(ordinal: i32, flags: u32) -> StatusResult {
    device(ordinal)?;
    primary()[ordinal as usize].flags = flags;
    Ok(())
}

/// `cuCtxEnablePeerAccess`. Kernels can access all memory anyway, but queries have to report what a program may rely
/// on.
pub fn enable_peer(peer: usize, flags: u32) -> StatusResult {
    let own = CONTEXTS.get(current()?)?;
    let other = CONTEXTS.get(peer).map_err(|_| Status::INVALID_CONTEXT)?;
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    if other.device == own.device {
        return Err(Status::PEER_ACCESS_UNSUPPORTED);
    }
    let is_new = own.peers.lock().unwrap_or_else(PoisonError::into_inner).insert(peer);
    if is_new { Ok(()) } else { Err(Status::PEER_ACCESS_ALREADY_ENABLED) }
}

/// Whether a context has access to the memory of another.
pub fn is_peer(own: usize, other: usize) -> bool {
    CONTEXTS.get(own).is_ok_and(|context| context.peers.lock().unwrap_or_else(PoisonError::into_inner).contains(&other))
}

pub fn disable_peer(peer: usize) -> StatusResult {
    let own = CONTEXTS.get(current()?)?;
    let was_there = own.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer);
    if was_there { Ok(()) } else { Err(Status::PEER_ACCESS_NOT_ENABLED) }
}
