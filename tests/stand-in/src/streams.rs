//! Streams and events.

use mneme_abi::cuda::driver::pointers;
use mneme_abi::hip::types::*;

use crate::books::{Event, books};
use crate::mistake::{CallResult, place, wrong};

/// `hipStreamNonBlocking`
const NON_BLOCKING: u32 = 1;
/// `hipEventBlockingSync`, `…DisableTiming`, `…Interprocess`, `…DisableSystemFence`, `…ReleaseToDevice`, `…ToSystem`.
const EVENT_FLAGS: u32 = 0x1 | DISABLE_TIMING | 0x4 | 0x2000_0000 | 0x4000_0000 | 0x8000_0000;
const SHARED_EVENT_FLAGS: u32 = 0x7;
const DISABLE_TIMING: u32 = 0x2;

fn made(stream: CUstream) {
    let mut books = books();
    books.gone.remove(&(stream as usize));
    books.streams.insert(stream as usize);
}

pub unsafe fn create(driver: pointers::cuStreamCreate, stream: *mut CUstream, flags: c_uint) -> CallResult {
    place(stream, "the stream")?;
    if flags & !NON_BLOCKING != 0 {
        return wrong(format!("0x{flags:x} has flags that streams do not have"));
    }
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(stream, flags);
        if status == Status::SUCCESS {
            made(*stream);
        }
        Ok(status)
    }
}

pub unsafe fn create_plain(driver: pointers::cuStreamCreate, stream: *mut CUstream) -> CallResult {
    // SAFETY: as for the caller.
    unsafe { create(driver, stream, 0) }
}

pub unsafe fn create_with_priority(
    driver: pointers::cuStreamCreateWithPriority,
    stream: *mut CUstream,
    flags: c_uint,
    priority: c_int,
) -> CallResult {
    place(stream, "the stream")?;
    if flags & !NON_BLOCKING != 0 {
        return wrong(format!("0x{flags:x} has flags that streams do not have"));
    }
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(stream, flags, priority);
        if status == Status::SUCCESS {
            made(*stream);
        }
        Ok(status)
    }
}

pub unsafe fn destroy(driver: pointers::cuStreamDestroy_v2, stream: CUstream) -> CallResult {
    {
        let mut books = books();
        let handle = stream as usize;
        books.check_handle(books.streams.contains(&handle), handle, "stream")?;
        books.streams.remove(&handle);
        books.gone.insert(handle);
    }
    // SAFETY: the books say that it is a stream.
    Ok(unsafe { driver(stream) })
}

pub unsafe fn synchronize(driver: pointers::cuStreamSynchronize, stream: CUstream) -> CallResult {
    books().check_stream(stream)?;
    // SAFETY: the books say that it is a stream.
    Ok(unsafe { driver(stream) })
}

pub unsafe fn device(stream: CUstream, device: *mut CUdevice) -> CallResult {
    books().check_stream(stream)?;
    // SAFETY: as for the caller. In every test the stream belongs to the thread's device.
    unsafe { crate::devices::get_device(device) }
}

pub unsafe fn query(driver: pointers::cuStreamQuery, stream: CUstream) -> CallResult {
    books().check_stream(stream)?;
    // SAFETY: the books say that it is a stream.
    Ok(unsafe { driver(stream) })
}

pub unsafe fn wait_event(
    driver: pointers::cuStreamWaitEvent,
    stream: CUstream,
    event: CUevent,
    flags: c_uint,
) -> CallResult {
    books().check_stream(stream)?;
    books().check_event(event)?;
    if flags != 0 {
        return wrong("the flags must be 0");
    }
    // SAFETY: the books know both.
    Ok(unsafe { driver(stream, event, flags) })
}

pub unsafe fn event_create(driver: pointers::cuEventCreate, event: *mut CUevent, flags: c_uint) -> CallResult {
    place(event, "the event")?;
    if flags & !EVENT_FLAGS != 0 {
        return wrong(format!("0x{flags:x} has flags that events do not have"));
    }
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(event, flags & SHARED_EVENT_FLAGS);
        if status == Status::SUCCESS {
            let mut books = books();
            books.gone.remove(&(*event as usize));
            books.events.insert(*event as usize, Event { timed: flags & DISABLE_TIMING == 0, recorded: false });
        }
        Ok(status)
    }
}

pub unsafe fn event_create_plain(driver: pointers::cuEventCreate, event: *mut CUevent) -> CallResult {
    // SAFETY: as for the caller.
    unsafe { event_create(driver, event, 0) }
}

pub unsafe fn event_destroy(driver: pointers::cuEventDestroy_v2, event: CUevent) -> CallResult {
    {
        let mut books = books();
        books.check_event(event)?;
        books.events.remove(&(event as usize));
        books.gone.insert(event as usize);
    }
    // SAFETY: the books say that it is an event.
    Ok(unsafe { driver(event) })
}

pub unsafe fn event_record(driver: pointers::cuEventRecord, event: CUevent, stream: CUstream) -> CallResult {
    {
        let mut books = books();
        books.check_event(event)?;
        books.check_stream(stream)?;
        if let Some(event) = books.events.get_mut(&(event as usize)) {
            event.recorded = true;
        }
    }
    // SAFETY: the books know both.
    Ok(unsafe { driver(event, stream) })
}

pub unsafe fn event_synchronize(driver: pointers::cuEventSynchronize, event: CUevent) -> CallResult {
    books().check_event(event)?;
    // SAFETY: the books say that it is an event.
    Ok(unsafe { driver(event) })
}

pub unsafe fn event_query(driver: pointers::cuEventQuery, event: CUevent) -> CallResult {
    books().check_event(event)?;
    // SAFETY: the books say that it is an event.
    Ok(unsafe { driver(event) })
}

pub unsafe fn elapsed(
    driver: pointers::cuEventElapsedTime,
    milliseconds: *mut f32,
    start: CUevent,
    end: CUevent,
) -> CallResult {
    place(milliseconds, "the time")?;
    for event in [start, end] {
        let event = books().check_event(event)?;
        if !event.recorded {
            return wrong("an event was not recorded");
        }
        if !event.timed {
            return wrong("an event was created without timing");
        }
    }
    // SAFETY: the books know both.
    Ok(unsafe { driver(milliseconds, start, end) })
}
