//! Handles that C callers get.
//!
//! A handle is a number that is never dereferenced, so a stale or invented one causes an error, not a crash. A vendor's
//! driver may crash, or use the object that has the handle now; with `MNEME_CPU_STALE_HANDLES=abort` you can find such
//! calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use mneme_system::environment;

use crate::status::Status;

/// The next handle. All kinds share it, so a handle of one kind is never valid as another. The first values stay free
/// for handles with a fixed meaning (streams 0, 1 and 2).
static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000);

/// Whether a call with a stale handle ends the process (`MNEME_CPU_STALE_HANDLES`).
fn aborts() -> bool {
    static ABORTS: OnceLock<bool> = OnceLock::new();
    *ABORTS.get_or_init(|| environment::variable("MNEME_CPU_STALE_HANDLES").is_some_and(|text| text.trim() == "abort"))
}

struct Entries<T> {
    live: BTreeMap<usize, Arc<T>>,
    /// Stale handles, if a call with one ends the process.
    gone: BTreeSet<usize>,
}

/// The objects of one kind.
pub struct Registry<T> {
    /// The kind for messages, such as "a stream". `None` if vendors' drivers accept stale handles of this kind.
    kind: Option<&'static str>,
    entries: RwLock<Entries<T>>,
}

impl<T> Registry<T> {
    /// A registry of a kind, such as "a stream", whose stale handles can end the process.
    pub const fn new(kind: &'static str) -> Self {
        Self { kind: Some(kind), entries: RwLock::new(Entries { live: BTreeMap::new(), gone: BTreeSet::new() }) }
    }

    /// A registry of objects whose stale handles a program may query.
    pub const fn answering() -> Self {
        Self { kind: None, entries: RwLock::new(Entries { live: BTreeMap::new(), gone: BTreeSet::new() }) }
    }

    /// Whether stale handles of this kind end the process.
    fn aborts(&self) -> bool {
        self.kind.is_some() && aborts()
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<T>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<T>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn insert(&self, object: Arc<T>) -> usize {
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        self.write().live.insert(handle, object);
        handle
    }

    /// Inserts an object under the smallest free number from 1, as NVIDIA's driver (580) numbers texture and surface
    /// objects.
    pub fn insert_lowest(&self, object: Arc<T>) -> usize {
        let live = &mut self.write().live;
        let handle = (1..).zip(live.keys()).find(|(free, used)| free < *used).map_or(live.len() + 1, |(free, _)| free);
        live.insert(handle, object);
        handle
    }

    pub fn get(&self, handle: usize) -> Result<Arc<T>, Status> {
        let entries = self.read();
        entries.live.get(&handle).cloned().ok_or_else(|| self.missing(&entries, handle))
    }

    pub fn remove(&self, handle: usize) -> Result<Arc<T>, Status> {
        let mut entries = self.write();
        let object = entries.live.remove(&handle).ok_or_else(|| self.missing(&entries, handle))?;
        if self.aborts() {
            entries.gone.insert(handle);
        }
        Ok(object)
    }

    /// Removes the objects that belong to something that has ended. Returns their handles.
    pub fn remove_all(&self, belongs: impl Fn(&T) -> bool) -> Vec<usize> {
        let mut entries = self.write();
        let mut ended = Vec::new();
        entries.live.retain(|handle, object| {
            let stays = !belongs(object);
            if !stays {
                ended.push(*handle);
            }
            stays
        });
        if self.aborts() {
            entries.gone.extend(&ended);
        }
        ended
    }

    pub fn for_each(&self, work: impl FnMut(&Arc<T>)) {
        self.read().live.values().for_each(work);
    }

    /// The status for a handle without a live object. Ends the process if stale handles do that.
    fn missing(&self, entries: &Entries<T>, handle: usize) -> Status {
        if let Some(kind) = self.kind
            && entries.gone.contains(&handle)
        {
            crate::report::say!("a call used the stale handle {handle:#x} of {kind} (MNEME_CPU_STALE_HANDLES)");
            std::process::abort();
        }
        Status::INVALID_HANDLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_that_of_one_object_and_no_other_s() {
        let (streams, events) = (Registry::new("a stream"), Registry::new("an event"));
        let (first, second, event) =
            (streams.insert(Arc::new(1)), streams.insert(Arc::new(2)), events.insert(Arc::new(1)));
        assert_eq!(
            (streams.get(first).as_deref(), streams.get(event).as_deref()),
            (Ok(&1), Err(&Status::INVALID_HANDLE))
        );
        assert_eq!(streams.remove_all(|number| *number == 1), [first]);
        assert_eq!(streams.get(first), Err(Status::INVALID_HANDLE));
        assert_eq!((streams.remove(second).as_deref(), streams.remove(second)), (Ok(&2), Err(Status::INVALID_HANDLE)));
        assert_eq!(events.get(event).as_deref(), Ok(&1));
    }

    #[test]
    fn the_smallest_free_number_is_taken() {
        let textures = Registry::new("a texture");
        let next = || textures.insert_lowest(Arc::new(()));
        assert_eq!([next(), next(), next()], [1, 2, 3]);
        textures.remove(1).unwrap();
        textures.remove(2).unwrap();
        assert_eq!([next(), next(), next()], [1, 2, 4]);
    }
}
