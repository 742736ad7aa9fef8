//! A replacement for librocprofiler-sdk that checks its callers.
//!
//! It is part of this library, which sees the launches. Correct calls behave like the original's headers and source: it
//! notes kernels that are launched while a context is started. Their records arrive late, on another thread, out of
//! order and among other records, and they are gone when the tool returns. It also checks the order of calls: the tool
//! must be configured before the first HIP call, may create its contexts only during initialisation, and may destroy a
//! buffer only after its context has stopped.

mod exports;
mod records;
mod settings;
mod state;

use std::ffi::{CString, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use mneme_abi::hip::rocprofiler::*;

use self::settings::settings;
use self::state::{Phase, ProfilerBuffer, ProfilerContext, state};
use crate::books;
use crate::mistake::{Mistake, place, report, wrong};

/// `ROCPROFILER_STATUS_ERROR`: the result of a wrong call.
const FAILED: Status = Status(1);
/// `ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED`. Its number has changed between versions.
const LOCKED: Status = Status(15);
const LOCKED_1: Status = Status(16);
/// The first handles of contexts and buffers.
const FIRST_CONTEXT: u64 = 300;
const FIRST_BUFFER: u64 = 700;
/// Space for one record.
const LEAST_BUFFER: usize = 192;

type Answer = Result<Status, Mistake>;

/// Whether the program has called HIP.
static HIP: AtomicBool = AtomicBool::new(false);

/// Notes a HIP call.
pub fn hip_is_called() {
    HIP.store(true, Ordering::Relaxed);
}

/// Makes a call of `function`.
fn serve(function: &'static str, call: impl FnOnce() -> Answer) -> Status {
    books::watch_the_end();
    call().unwrap_or_else(|mistake| {
        report(function, &mistake);
        FAILED
    })
}

/// Descriptions of the objects that remain at the end of the process.
pub fn left() -> Vec<String> {
    state().left()
}

fn own_thread() -> u64 {
    // SAFETY: no pointers.
    unsafe { libc::gettid() }.cast_unsigned().into()
}

/// Notes a kernel launched by this thread.
pub fn dispatched() {
    let thread = own_thread();
    let mut state = state();
    let started = state.contexts.iter().filter(|(_, context)| context.started);
    let noting: Vec<(u64, u64)> =
        started.filter_map(|(handle, context)| Some((*handle, *context.services.get(&KERNEL_DISPATCH)?))).collect();
    for (context, buffer) in noting {
        state.kernels += 1;
        let pushed = state.correlations.get(&(context, thread)).and_then(|pushed| pushed.last().copied());
        records::dispatched(buffer, thread, pushed.unwrap_or(0), state.kernels);
    }
}

unsafe fn version(major: *mut c_uint, minor: *mut c_uint, patch: *mut c_uint) -> Answer {
    let version = settings().version;
    for (place, value) in [(major, version / 10_000), (minor, version / 100 % 100), (patch, version % 100)] {
        if !place.is_null() {
            // SAFETY: the caller passes a place for the result.
            unsafe { *place = value };
        }
    }
    Ok(Status::SUCCESS)
}

const CLIENT: u32 = 0x5eed;

/// Asks the tool for its configuration.
unsafe fn ask(configure: Configure) -> Result<Option<ToolConfiguration>, Mistake> {
    let mut old = ClientId0 { name: std::ptr::null(), handle: CLIENT };
    let mut new = ClientId1 { size: size_of::<ClientId1>(), name: std::ptr::null(), handle: CLIENT };
    let version = settings().version;
    let text = CString::new(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100));
    let text = text.unwrap_or_default();
    let client: *mut c_void = if settings().major() == 0 { (&raw mut old).cast() } else { (&raw mut new).cast() };
    // SAFETY: this is the tool's function. The arguments live until it returns, and its result lives for ever.
    let answer = unsafe {
        let answer = configure(version, text.as_ptr(), 0, client);
        if answer.is_null() { None } else { Some(*answer) }
    };
    if old.handle != CLIENT || new.handle != CLIENT || new.size != size_of::<ClientId1>() {
        return wrong("the tool has changed its own handle or the size beside it");
    }
    Ok(answer)
}

unsafe fn force_configure(configure: Option<Configure>) -> Answer {
    let Some(configure) = configure else { return wrong("no function is given, and none is in the process") };
    if HIP.load(Ordering::Relaxed) {
        return wrong("HIP was called before");
    }
    if settings().taken > 0 {
        return Ok(if settings().major() == 0 { LOCKED } else { LOCKED_1 });
    }
    {
        let mut state = state();
        if state.phase != Phase::New {
            return wrong("it was configured before");
        }
        state.phase = Phase::Configuring;
    }
    // SAFETY: as for the caller.
    let Some(tool) = (unsafe { ask(configure) })? else {
        state().phase = Phase::Ready;
        return Ok(Status::SUCCESS);
    };
    if tool.size != size_of::<ToolConfiguration>() {
        return wrong(format!("the configuration says that it has {} bytes", tool.size));
    }
    let Some(initialize) = tool.initialize else { return wrong("the configuration has no function to initialise") };
    state().phase = Phase::Initializing;
    // SAFETY: this is the tool's function with its data. It does not call `finish` here.
    let failed = unsafe { initialize(finish as *mut c_void, tool.data) } != 0;
    let mut state = state();
    state.phase = Phase::Ready;
    if failed {
        (state.contexts, state.buffers) = Default::default();
    }
    Ok(Status::SUCCESS)
}

/// The function that a tool may call to finish early. Its argument is the client by value.
extern "C" fn finish() {}

unsafe fn create_context(context: *mut ContextId) -> Answer {
    place(context, "the context")?;
    let mut state = state();
    state.check_initializing()?;
    // SAFETY: the place was checked.
    unsafe {
        if (*context).handle != 0 {
            return wrong(format!("the place for the context holds {}, and not 0", (*context).handle));
        }
        (*context).handle = FIRST_CONTEXT + state.contexts.len() as u64;
        state.contexts.insert((*context).handle, ProfilerContext::default());
    }
    Ok(Status::SUCCESS)
}

#[allow(clippy::too_many_arguments, reason = "as the vendor's function")]
unsafe fn create_buffer(
    context: ContextId,
    size: usize,
    watermark: usize,
    policy: c_uint,
    callback: Option<BufferCallback>,
    data: *mut c_void,
    buffer: *mut BufferId,
) -> Answer {
    place(buffer, "the buffer")?;
    let mut state = state();
    state.check_initializing()?;
    state.context(context)?;
    let Some(callback) = callback else { return wrong("there is no function to give records to") };
    if size < LEAST_BUFFER {
        return wrong(format!("{size} bytes have no room for a record"));
    }
    if watermark > size {
        return wrong(format!("{watermark} bytes of {size} are never reached"));
    }
    if ![POLICY_DISCARD, POLICY_LOSSLESS].contains(&policy) {
        return wrong(format!("{policy} is no policy"));
    }
    // SAFETY: the place was checked.
    unsafe {
        if (*buffer).handle != 0 {
            return wrong(format!("the place for the buffer holds {}, and not 0", (*buffer).handle));
        }
        (*buffer).handle = FIRST_BUFFER + state.buffers.len() as u64;
        state
            .buffers
            .insert((*buffer).handle, ProfilerBuffer { context: context.handle, callback, data, records: Vec::new() });
    }
    Ok(Status::SUCCESS)
}

unsafe fn configure_tracing(
    context: ContextId,
    kind: c_uint,
    operations: *const c_int,
    count: usize,
    buffer: BufferId,
) -> Answer {
    let mut state = state();
    state.check_initializing()?;
    state.context(context)?;
    let of = state.check_buffer(buffer)?.context;
    if of != context.handle {
        return wrong(format!("the buffer {} is that of context {of}", buffer.handle));
    }
    if kind != KERNEL_DISPATCH {
        return wrong(format!("records of kind {kind} are not served"));
    }
    if operations.is_null() != (count == 0) {
        return wrong(format!("{count} operations do not go with their array"));
    }
    match state.context(context)?.services.insert(kind, buffer.handle) {
        None => Ok(Status::SUCCESS),
        Some(_) => wrong(format!("records of kind {kind} are asked for already")),
    }
}

unsafe fn start_context(context: ContextId) -> Answer {
    let mut state = state();
    let of = state.context(context)?;
    if of.services.is_empty() {
        return wrong("the context has no services");
    }
    if std::mem::replace(&mut of.started, true) {
        return wrong("the context is started already");
    }
    Ok(Status::SUCCESS)
}

unsafe fn stop_context(context: ContextId) -> Answer {
    if std::mem::replace(&mut state().context(context)?.started, false) {
        Ok(Status::SUCCESS)
    } else {
        wrong("the context is not started")
    }
}

unsafe fn flush_buffer(buffer: BufferId) -> Answer {
    if records::delivers() {
        return wrong("the thread that gives records waits for itself");
    }
    state().check_buffer(buffer)?;
    records::deliver(buffer.handle);
    Ok(Status::SUCCESS)
}

unsafe fn destroy_buffer(buffer: BufferId) -> Answer {
    let mut state = state();
    let context = state.check_buffer(buffer)?.context;
    if state.context(ContextId { handle: context })?.started {
        return wrong(format!("the context {context} is started, whose buffer it is"));
    }
    state.buffers.remove(&buffer.handle);
    state.gone.insert(buffer.handle);
    Ok(Status::SUCCESS)
}

unsafe fn thread_id(thread: *mut u64) -> Answer {
    place(thread, "the thread")?;
    // SAFETY: the place was checked.
    unsafe { *thread = own_thread() };
    Ok(Status::SUCCESS)
}

/// Checks that a thread acts for itself. The original also lets threads act for others.
fn check_thread(thread: u64) -> Result<(), Mistake> {
    if thread == own_thread() { Ok(()) } else { wrong(format!("{thread} is not the thread that calls")) }
}

unsafe fn push(context: ContextId, thread: u64, correlation: UserData) -> Answer {
    let mut state = state();
    state.context(context)?;
    check_thread(thread)?;
    state.correlations.entry((context.handle, thread)).or_default().push(correlation.value);
    Ok(Status::SUCCESS)
}

unsafe fn pop(context: ContextId, thread: u64, correlation: *mut UserData) -> Answer {
    let mut state = state();
    state.context(context)?;
    check_thread(thread)?;
    let popped = state.correlations.get_mut(&(context.handle, thread)).and_then(Vec::pop);
    let Some(popped) = popped else { return wrong("nothing was pushed that is not popped") };
    if !correlation.is_null() {
        // SAFETY: the caller passes a place for the result.
        unsafe { (*correlation).value = popped };
    }
    Ok(Status::SUCCESS)
}
