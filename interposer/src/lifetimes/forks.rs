//! Forked children: they have our memory, but neither the device nor the right to write.

use crate::driver::{contexts, gate};
use crate::memory::sharing::exports;
use crate::process::reentrancy;
use crate::recorder;

/// Has every forked child go on with a gate that nobody has closed, and record nothing. One whose parent has used the
/// device can do nothing with it, and the vendor says so; our own locks may be held by threads that do not exist in it,
/// for ever.
pub fn register() {
    extern "C" fn in_child() {
        gate::renew();
        recorder::note_fork();
        if contexts::are_in_use() {
            reentrancy::switch_off();
            exports::leave_to_parent();
        }
    }
    // SAFETY: the handler does not unwind, allocates (which glibc allows in the child), and is never unloaded (we are
    // preloaded).
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}
