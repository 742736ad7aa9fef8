//! `printf` of HIP's device code: collects a message from several calls and prints it.
//!
//! ROCm's device library begins a message, adds its format and arguments in further calls, and marks the last call. A
//! number identifies the message. If a thread was abandoned, its message is dropped with the launch.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::dispatch::Dispatch;
pub use super::printf::Channel;
use super::printf::{self, Slots};

struct Message {
    /// The launch, identified by the address of its [`Dispatch`].
    launch: usize,
    channel: Channel,
    /// The first text that was added.
    format: Option<CString>,
    /// The values after the format, 8 bytes each: numbers, and addresses of `texts` or null.
    arguments: Vec<u64>,
    texts: Vec<CString>,
}

static MESSAGES: Mutex<BTreeMap<u64, Message>> = Mutex::new(BTreeMap::new());
/// The number of the next message. 0 means none.
static NEXT: AtomicU64 = AtomicU64::new(1);

fn messages() -> MutexGuard<'static, BTreeMap<u64, Message>> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn begin(launch: *const Dispatch, channel: Channel) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let message = Message { launch: launch as usize, channel, format: None, arguments: Vec::new(), texts: Vec::new() };
    messages().insert(number, message);
    number
}

/// Adds integers, pointers or the bits of doubles. Returns the message's number, or the result of `printf` if it was
/// the last call.
pub fn append_numbers(number: u64, values: &[u64], last: bool) -> u64 {
    append(number, last, |message| message.arguments.extend(values))
}

/// Adds the format, or a string argument. The length includes the terminating NUL, and is 0 for a null pointer.
///
/// # Safety
/// `text` must be valid for `length` bytes.
pub unsafe fn append_text(number: u64, text: *const u8, length: usize, last: bool) -> u64 {
    let text = (length > 0 && !text.is_null()).then(|| {
        // SAFETY: promised by the caller.
        let bytes = unsafe { std::slice::from_raw_parts(text, length) };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
        CString::new(&bytes[..end]).unwrap_or_default()
    });
    append(number, last, |message| match text {
        Some(text) if message.format.is_none() => message.format = Some(text),
        Some(text) => {
            message.arguments.push(text.as_ptr() as u64);
            message.texts.push(text);
        }
        None => message.arguments.push(0),
    })
}

fn append(number: u64, last: bool, change: impl FnOnce(&mut Message)) -> u64 {
    let mut messages = messages();
    let Some(message) = messages.get_mut(&number) else { return u64::MAX };
    change(message);
    if !last {
        return number;
    }
    let whole = messages.remove(&number);
    drop(messages);
    let Some(Message { channel, format: Some(format), arguments, texts: _texts, .. }) = whole else { return u64::MAX };
    // SAFETY: a C string. String arguments are alive in `texts`; other pointers are the kernel's own.
    let text = unsafe { printf::expand_slots(&format, Slots(&arguments)) };
    printf::print(&text, channel);
    text.len() as u64
}

/// Drops the messages of a launch, which can no longer complete them.
pub fn forget(launch: *const Dispatch) {
    messages().retain(|_, message| message.launch != launch as usize);
}
