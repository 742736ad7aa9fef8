//! Records of kernels: creation, delay and delivery to the tool.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use mneme_abi::hip::rocprofiler::*;
use mneme_abi::hip::types::Dimensions;

use super::settings::settings;
use super::state::state;

/// The delay between a launch and its record in the buffer.
const LATE: Duration = Duration::from_millis(3);
/// Bytes of a record since version 1.0, which added a four-byte number at the end.
const SIZE_1: usize = size_of::<DispatchRecord>() + 8;
/// The duration of a kernel, ns, to which its number is added.
const TIME: u64 = 10_000;
/// `ROCPROFILER_BUFFER_TRACING_MEMORY_COPY`: another kind of records, which this tool has not requested.
const MEMORY_COPY: u32 = 10;
/// The contents of records after delivery.
const GONE: u8 = 0xdd;

thread_local! {
    /// Whether this thread is calling the tool.
    static DELIVERS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is calling the tool. Such a thread must not request more records.
pub fn delivers() -> bool {
    DELIVERS.get()
}

/// Notes a kernel with a correlation in this buffer.
pub fn dispatched(buffer: u64, thread: u64, external: u64, number: u64) {
    let settings = settings();
    if number == settings.lose || (settings.lose_from > 0 && number >= settings.lose_from) {
        return;
    }
    let count = if number == settings.double { 2 } else { 1 };
    later(buffer, vec![record(thread, external, number); count]);
}

/// A record's bytes in the layout of this version.
fn record(thread: u64, external: u64, number: u64) -> Vec<u8> {
    let settings = settings();
    let known = if settings.major() == 0 { size_of::<DispatchRecord>() } else { SIZE_1 };
    let size = if settings.size > 0 { settings.size as usize } else { known };
    let start = now();
    let record = DispatchRecord {
        size: size as u64,
        kind: KERNEL_DISPATCH,
        operation: DISPATCH_COMPLETE,
        internal: 1000 + number,
        external: UserData { value: external },
        thread,
        start,
        end: start + TIME + number,
        dispatch: DispatchInfo {
            size: offset_of!(DispatchInfo, reserved) as u64,
            agent: 1,
            queue: 1,
            kernel: 1,
            dispatch: number,
            private_segment: 0,
            group_segment: 0,
            workgroup: Dimensions::default(),
            grid: Dimensions::default(),
            reserved: [0; 56],
        },
    };
    // SAFETY: plain data without padding.
    let bytes: &[u8] = unsafe { std::slice::from_raw_parts((&raw const record).cast(), size_of::<DispatchRecord>()) };
    let mut bytes = bytes.to_vec();
    if settings.moved > 0 {
        let at = offset_of!(DispatchRecord, thread);
        bytes.splice(at..at, 0_u64.to_le_bytes());
    }
    bytes.resize(size, 0);
    bytes
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the result is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Records of a kernel, their buffer, and the time of their arrival.
type Coming = (Instant, u64, Vec<Vec<u8>>);

/// Puts records into their buffer later, like the original's thread that waits for the device's signals.
fn later(buffer: u64, records: Vec<Vec<u8>>) {
    static HANDLER: OnceLock<Sender<Coming>> = OnceLock::new();
    let handler = HANDLER.get_or_init(|| {
        let (sender, receiver) = channel::<Coming>();
        std::thread::spawn(move || {
            for (due, buffer, records) in receiver {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                // The buffer may have been destroyed.
                if let Some(buffer) = state().buffers.get_mut(&buffer) {
                    buffer.records.extend(records);
                }
            }
        });
        sender
    });
    let _ = handler.send((Instant::now() + LATE, buffer, records));
}

/// Delivers the buffer's records to the tool, the last one first, and waits for the tool. Holds no lock.
pub fn deliver(buffer: u64) {
    let Some((context, callback, data, mut records)) = state().buffers.get_mut(&buffer).map(|of| {
        let records = std::mem::take(&mut of.records);
        (of.context, of.callback, of.data, records)
    }) else {
        return;
    };
    if records.is_empty() {
        return;
    }
    // Kernels of the library itself, which copy and fill, and records that are not kernels.
    records.push(record(0, 0, 0));
    let data = data as usize;
    let worker = std::thread::spawn(move || {
        DELIVERS.set(true);
        let mut strange = vec![GONE; 16];
        let header = |kind, payload: &mut Vec<u8>| RecordHeader {
            category: CATEGORY_TRACING,
            kind,
            payload: payload.as_mut_ptr().cast(),
        };
        let mut headers: Vec<RecordHeader> =
            records.iter_mut().rev().map(|record| header(KERNEL_DISPATCH, record)).collect();
        headers.push(header(MEMORY_COPY, &mut strange));
        let mut places: Vec<*mut RecordHeader> = headers.iter_mut().map(|header| &raw mut *header).collect();
        // SAFETY: this is the tool's function with its data. Headers and records live until it returns.
        unsafe {
            let context = ContextId { handle: context };
            let buffer = BufferId { handle: buffer };
            callback(context, buffer, places.as_mut_ptr(), places.len(), data as *mut c_void, 0);
        }
        records.iter_mut().for_each(|record| record.fill(GONE));
    });
    let _ = worker.join();
}
