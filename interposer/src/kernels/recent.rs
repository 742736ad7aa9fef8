//! The functions that are launched, found without a lock: a program launches few, a million times.
//!
//! Entries are never freed, because another thread may be reading one; each place of the table is filled once until
//! something is unloaded, so that there are few.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::kernel::FunctionHandle;

const PLACES: usize = 256;

struct Entry {
    handle: usize,
    function: FunctionHandle,
}

static TABLE: [AtomicPtr<Entry>; PLACES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES];

fn place(handle: usize) -> &'static AtomicPtr<Entry> {
    // Handles are addresses of structures; the high bits of a product depend on all of theirs.
    &TABLE[(handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - PLACES.ilog2())]
}

/// The function behind a handle, if it has been remembered.
pub fn find(handle: usize) -> Option<&'static FunctionHandle> {
    // SAFETY: null, or leaked and never changed.
    let entry = unsafe { place(handle).load(Ordering::Acquire).as_ref() }?;
    (entry.handle == handle).then_some(&entry.function)
}

/// Remembers a function, where its place is free.
pub fn remember(handle: usize, function: &FunctionHandle) {
    let place = place(handle);
    if place.load(Ordering::Relaxed).is_null() {
        let entry = Box::into_raw(Box::new(Entry { handle, function: function.clone() }));
        if place.compare_exchange(std::ptr::null_mut(), entry, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: just made, and nobody has seen it.
            drop(unsafe { Box::from_raw(entry) });
        }
    }
}

/// Forgets everything: a handle may be given out anew.
pub fn clear() {
    TABLE.iter().for_each(|place| place.store(std::ptr::null_mut(), Ordering::Release));
}
