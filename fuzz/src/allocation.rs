//! An allocator that stops the program at a request which no small input justifies.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes, for one request and for all that live at once.
pub const LIMIT: usize = 1 << 30;

/// Install it with `#[global_allocator]`.
pub struct Limited;

static LIVE: AtomicUsize = AtomicUsize::new(0);

fn count(size: usize) {
    let live = LIVE.fetch_add(size, Ordering::Relaxed).saturating_add(size);
    if size > LIMIT || live > LIMIT {
        // Nothing that allocates may run here.
        let text = b"an input makes its parser allocate more than 1 GiB\n";
        // SAFETY: a plain write of a constant, then the end.
        unsafe {
            nix::libc::write(2, text.as_ptr().cast(), text.len());
            nix::libc::abort();
        }
    }
}

// SAFETY: every request goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
