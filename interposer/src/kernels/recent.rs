//! Finds launched functions without a lock: a program launches few functions, millions of times.
//!
//! A slot of the table is written under a lock and read without one; its version shows whether a read was consistent.
//! The table keeps every kernel for ever, because another thread may be using it.

use std::collections::HashSet;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::kernel::{CodeOwner, FunctionHandle, Kernel};

const SLOTS: usize = 256;

/// A handle and its function.
struct Slot {
    /// Odd during a write.
    version: AtomicUsize,
    handle: AtomicUsize,
    /// Null if the slot is empty.
    kernel: AtomicPtr<Kernel>,
    owner: AtomicUsize,
    /// The kind of the owner, by [`kind_of`], and whether the handle is free of a context.
    kind: AtomicUsize,
}

/// The contents of a slot.
#[derive(Clone, Copy)]
struct SlotValue {
    handle: usize,
    kernel: *mut Kernel,
    owner: usize,
    kind: usize,
}

const EMPTY: SlotValue = SlotValue { handle: 0, kernel: ptr::null_mut(), owner: 0, kind: 0 };

impl Slot {
    const fn new() -> Self {
        Self {
            version: AtomicUsize::new(0),
            handle: AtomicUsize::new(0),
            kernel: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicUsize::new(0),
            kind: AtomicUsize::new(0),
        }
    }

    fn read(&self) -> SlotValue {
        let version = self.version.load(Ordering::Acquire);
        let found = SlotValue {
            handle: self.handle.load(Ordering::Relaxed),
            kernel: self.kernel.load(Ordering::Relaxed),
            owner: self.owner.load(Ordering::Relaxed),
            kind: self.kind.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        if is_whole { found } else { EMPTY }
    }

    /// Writes the slot. Only one thread may write at a time.
    fn write(&self, entry: SlotValue) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.handle.store(entry.handle, Ordering::Relaxed);
        self.kernel.store(entry.kernel, Ordering::Relaxed);
        self.owner.store(entry.owner, Ordering::Relaxed);
        self.kind.store(entry.kind, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

/// An owner as two numbers.
fn kind_of(owner: CodeOwner) -> (usize, usize) {
    match owner {
        CodeOwner::Library(handle) => (0, handle),
        CodeOwner::Module(handle) => (1, handle),
        CodeOwner::Binary(handle) => (2, handle),
    }
}

fn owner_of(kind: usize, handle: usize) -> CodeOwner {
    match kind {
        0 => CodeOwner::Library(handle),
        1 => CodeOwner::Module(handle),
        _ => CodeOwner::Binary(handle),
    }
}

struct Table {
    slots: [Slot; SLOTS],
    /// Every kernel that was ever in the table, which owns one reference to each. Writers of slots hold this lock.
    kernels: LazyLock<Mutex<HashSet<usize>>>,
}

static TABLE: Table = Table::new();

impl Table {
    const fn new() -> Self {
        Self { slots: [const { Slot::new() }; SLOTS], kernels: LazyLock::new(Mutex::default) }
    }

    fn slot(&self, handle: usize) -> &Slot {
        // Handles are addresses of structures; the high bits of a product depend on all bits of the factors.
        &self.slots[(handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - SLOTS.ilog2())]
    }

    fn entry(&self, handle: usize) -> Option<SlotValue> {
        let entry = self.slot(handle).read();
        (entry.handle == handle && !entry.kernel.is_null()).then_some(entry)
    }

    fn kernel(&self, handle: usize) -> Option<&'static Kernel> {
        // SAFETY: the table owns it for ever.
        self.entry(handle).map(|entry| unsafe { &*entry.kernel })
    }

    fn find(&self, handle: usize) -> Option<FunctionHandle> {
        let entry = self.entry(handle)?;
        // SAFETY: the table owns it for ever, by a pointer that came from an `Arc`; the increment is for the new `Arc`.
        let kernel = unsafe {
            Arc::increment_strong_count(entry.kernel.cast_const());
            Arc::from_raw(entry.kernel.cast_const())
        };
        Some(FunctionHandle { kernel, home: owner_of(entry.kind >> 1, entry.owner), context_free: entry.kind & 1 == 1 })
    }

    fn remember(&self, handle: usize, function: &FunctionHandle) {
        let slot = self.slot(handle);
        if !slot.read().kernel.is_null() {
            return;
        }
        let kernel = Arc::as_ptr(&function.kernel).cast_mut();
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if kernels.insert(kernel.addr()) {
            let _owned = Arc::into_raw(function.kernel.clone());
        }
        if slot.read().kernel.is_null() {
            let (kind, owner) = kind_of(function.home);
            slot.write(SlotValue { handle, kernel, owner, kind: kind << 1 | usize::from(function.context_free) });
        }
    }

    fn clear(&self) {
        let _alone = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.slots.iter().filter(|slot| !slot.read().kernel.is_null());
        used.for_each(|slot| slot.write(EMPTY));
    }
}

/// The kernel of a handle, if it is in the table.
pub fn kernel(handle: usize) -> Option<&'static Kernel> {
    TABLE.kernel(handle)
}

/// The function of a handle, if it is in the table.
pub fn find(handle: usize) -> Option<FunctionHandle> {
    TABLE.find(handle)
}

/// Remembers a function if its slot is free.
pub fn remember(handle: usize, function: &FunctionHandle) {
    TABLE.remember(handle, function);
}

/// Forgets all functions, because a handle may be reused.
pub fn clear() {
    TABLE.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::kernel::Kernel;

    #[test]
    fn a_function_that_is_loaded_again_takes_no_more_memory() {
        let table = Table::new();
        let kernel = |name: &str| Arc::new(Kernel::new(name.into()));
        let kernels = [kernel("one"), kernel("other")];
        for load in 0..100 {
            let owners = [CodeOwner::Module(load), CodeOwner::Library(load), CodeOwner::Binary(load)];
            for (number, home) in owners.into_iter().enumerate() {
                let kernel = &kernels[number % 2];
                let function = FunctionHandle { kernel: kernel.clone(), home, context_free: number == 1 };
                let handle = 0x7000 + load;
                table.clear();
                table.remember(handle, &function);
                let found = table.find(handle).unwrap();
                assert_eq!((found.home, found.context_free), (home, number == 1));
                assert!(Arc::ptr_eq(&found.kernel, kernel) && ptr::eq(table.kernel(handle).unwrap(), &**kernel));
                assert!(table.find(handle + 1).is_none());
            }
        }
        assert_eq!(table.kernels.lock().unwrap().len(), 2);
        assert!(kernels.iter().all(|kernel| Arc::strong_count(kernel) == 2), "the table has each once");
    }

    #[test]
    fn what_is_found_is_the_function_of_the_handle_while_others_write() {
        let table = Table::new();
        let function = |number: usize| FunctionHandle {
            kernel: Arc::new(Kernel::new(format!("{number}"))),
            home: CodeOwner::Library(number),
            context_free: true,
        };
        // All in one slot.
        let place_of = |handle: usize| ptr::from_ref(table.slot(handle)).addr();
        let handles: Vec<usize> = (1..).filter(|handle| place_of(*handle) == place_of(1)).take(4).collect();
        let functions: Vec<FunctionHandle> = handles.iter().map(|handle| function(*handle)).collect();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0.. {
                    table.clear();
                    table.remember(handles[round % 4], &functions[round % 4]);
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let mut found = 0;
            while found < 20_000 {
                for handle in &handles {
                    if let Some(known) = table.find(*handle) {
                        assert_eq!(known.home, CodeOwner::Library(*handle));
                        found += 1;
                    }
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
