//! Handles that are given to C callers.
//!
//! They are numbers that are never dereferenced, so a stale or invented one is an error, not a crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::status::Status;

/// Shared by all kinds, so that a handle of one kind is never valid as another. The first values stay free for the
/// handles with a fixed meaning (streams 0, 1 and 2).
static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000);

/// The live objects of one kind.
pub struct Registry<T> {
    entries: RwLock<BTreeMap<usize, Arc<T>>>,
}

impl<T> Registry<T> {
    pub const fn new() -> Self {
        Self { entries: RwLock::new(BTreeMap::new()) }
    }

    pub fn insert(&self, object: Arc<T>) -> usize {
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(handle, object);
        handle
    }

    pub fn get(&self, handle: usize) -> Result<Arc<T>, Status> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned().ok_or(Status::INVALID_HANDLE)
    }

    pub fn remove(&self, handle: usize) -> Result<Arc<T>, Status> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(&handle).ok_or(Status::INVALID_HANDLE)
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self::new()
    }
}
