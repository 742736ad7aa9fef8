//! Threads of the recorder, with the hooks switched off.

use mneme_system::own_threads;

use super::reentrancy;

/// Stack size of a thread that writes, bytes. Compression keeps its memory elsewhere.
pub const SMALL: usize = 512 << 10;
/// Stack size of a thread that calls the vendor's library, bytes.
pub const LARGE: usize = 2 << 20;

/// Starts a thread. Returns whether that succeeded.
pub fn start(name: &str, stack: usize, work: impl FnOnce() + Send + 'static) -> bool {
    own_threads::start(name, stack, move || reentrancy::bypassing(work)).is_ok()
}
