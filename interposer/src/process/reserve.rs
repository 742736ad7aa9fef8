//! Memory for allocations that the system refuses.
//!
//! The application may lower the limit on its address space (`RLIMIT_AS`) below its present use. Then a failed
//! allocation of the recorder would end the process. It comes from a reserve instead, which lasts until the recorder
//! has stopped and reported the reason.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size, bytes. These are zeroed pages of the library, which take memory only when they are written to.
const BYTES: usize = 4 << 20;

/// The system's allocator, with the reserve for refused allocations.
pub struct WithReserve {
    reserve: UnsafeCell<[u8; BYTES]>,
    /// Used bytes from the start.
    used: AtomicUsize,
}

// SAFETY: `used` gives each byte to one owner.
unsafe impl Sync for WithReserve {}

impl WithReserve {
    #[expect(clippy::new_without_default, reason = "a constant for a static")]
    pub const fn new() -> Self {
        Self { reserve: UnsafeCell::new([0; BYTES]), used: AtomicUsize::new(0) }
    }

    fn start(&self) -> *mut u8 {
        self.reserve.get().cast()
    }

    fn holds(&self, place: *mut u8) -> bool {
        (self.start().addr()..self.start().addr() + BYTES).contains(&place.addr())
    }

    /// Takes an uninitialised piece of the reserve, or returns null if none is large enough.
    fn take(&self, layout: Layout) -> *mut u8 {
        let end = |used: usize| {
            let padding = (self.start().addr() + used).wrapping_neg() & (layout.align() - 1);
            used.checked_add(padding)?.checked_add(layout.size()).filter(|end| *end <= BYTES)
        };
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, end) {
            // SAFETY: the piece ends within the reserve.
            Ok(used) => unsafe { self.start().add(end(used).unwrap_or(BYTES) - layout.size()) },
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// Takes back a piece if it is the last one. Others are lost.
    fn give_back(&self, place: *mut u8, size: usize) {
        let start = place.addr() - self.start().addr();
        let _ = self.used.compare_exchange(start + size, start, Ordering::AcqRel, Ordering::Relaxed);
    }
}

// SAFETY: pieces come from the system's allocator, or from the reserve, which hands each out once.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let place = unsafe { System.alloc(layout) };
        if place.is_null() { self.take(layout) } else { place }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            return place;
        }
        let place = self.take(layout);
        if !place.is_null() {
            // SAFETY: this many bytes were taken.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if self.holds(place) {
            self.give_back(place, layout.size());
        } else {
            // SAFETY: the piece is the system's; the caller's promise.
            unsafe { System.dealloc(place, layout) };
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.holds(place) {
            // SAFETY: the piece is the system's; the caller's promise.
            let moved = unsafe { System.realloc(place, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller has promised that the size is valid for this alignment.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both are at least as long as the shorter one, and the new one has no other owner.
            unsafe {
                new.copy_from_nonoverlapping(place, layout.size().min(size));
                self.dealloc(place, layout);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_gives_aligned_pieces_until_it_is_empty() {
        static ALLOCATOR: WithReserve = WithReserve::new();
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let one = ALLOCATOR.take(layout(3, 1));
        let other = ALLOCATOR.take(layout(100, 64));
        assert!(ALLOCATOR.holds(one) && ALLOCATOR.holds(other));
        assert!(other.addr() >= one.addr() + 3 && other.addr().is_multiple_of(64));
        // SAFETY: this test owns both pieces.
        unsafe {
            other.write_bytes(7, 100);
            let larger = ALLOCATOR.realloc(other, layout(100, 64), 200);
            assert!(!ALLOCATOR.holds(larger) && *larger.add(99) == 7, "the system has some again");
            ALLOCATOR.dealloc(larger, layout(200, 64));
        }
        assert!(ALLOCATOR.take(layout(BYTES, 1)).is_null());
        let last = ALLOCATOR.take(layout(BYTES / 2, 1));
        ALLOCATOR.give_back(last, BYTES / 2);
        assert_eq!(ALLOCATOR.take(layout(BYTES / 2, 1)), last, "the last piece is there again");
    }
}
