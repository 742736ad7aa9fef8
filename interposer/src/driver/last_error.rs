//! HIP's last error of a thread, which the application finds as its own calls have left it.
//!
//! Each call of HIP sets it, those that we make too, and programs ask for it after every launch. Where a handler leaves
//! another one behind, the application's is kept here until it asks, or until a later call of its own has failed.

use std::cell::Cell;

use super::{Status, hip};

thread_local! {
    static KEPT: Cell<Option<Status>> = const { Cell::new(None) };
}

/// What a thread would be told now.
fn visible() -> Status {
    match hip::peek_at_last_error() {
        Status::SUCCESS => KEPT.get().unwrap_or(Status::SUCCESS),
        newer => newer,
    }
}

/// Runs a handler. `call` is the application's own call; what it leaves as the last error stays, and what further calls
/// leave is taken back.
pub fn kept(call: &dyn Fn() -> Status, handler: impl FnOnce(&dyn Fn() -> Status) -> Status) -> Status {
    let own = Cell::new(None);
    let before = visible();
    let call = || {
        // What was before is seen no more after a call that fails; after one that does not, as the library has it.
        hip::take_last_error();
        let status = call();
        let left = hip::peek_at_last_error();
        own.set(Some(if left == Status::SUCCESS && is_sticky() { before } else { left }));
        status
    };
    let status = handler(&call);
    let expected = match own.get() {
        Some(left) => left,
        // Served by us, as the library would have.
        None if status != Status::SUCCESS => status,
        None if is_sticky() => before,
        None => Status::SUCCESS,
    };
    keep(expected);
    status
}

fn keep(expected: Status) {
    if hip::peek_at_last_error() != expected {
        hip::take_last_error();
        KEPT.set((expected != Status::SUCCESS).then_some(expected));
    } else {
        KEPT.set(None);
    }
}

/// Whether a call that succeeds leaves an earlier error, as from HIP 7 on.
fn is_sticky() -> bool {
    use std::sync::OnceLock;
    static STICKY: OnceLock<bool> = OnceLock::new();
    *STICKY.get_or_init(|| {
        let mut version = 0;
        // SAFETY: a valid place.
        let known = unsafe { hip::hipRuntimeGetVersion(&mut version) } == Status::SUCCESS;
        // As HIP_VERSION: major version times ten millions.
        known && version >= 70_000_000
    })
}

/// # Safety
/// The arguments are those of `hipGetLastError`.
pub unsafe fn take(call: &dyn Fn() -> Status) -> Status {
    let kept = KEPT.take();
    match call() {
        Status::SUCCESS => kept.unwrap_or(Status::SUCCESS),
        newer => newer,
    }
}

/// # Safety
/// The arguments are those of `hipPeekAtLastError`.
pub unsafe fn peek(call: &dyn Fn() -> Status) -> Status {
    match call() {
        Status::SUCCESS => KEPT.get().unwrap_or(Status::SUCCESS),
        newer => newer,
    }
}
