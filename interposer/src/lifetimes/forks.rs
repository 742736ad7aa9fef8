//! Handles forked children, which have the recorder's memory but must not use the device or write.

use crate::driver::{contexts, gate};
use crate::memory::sharing::exports;
use crate::process::reentrancy;
use crate::recorder;

/// Makes every forked child continue with an open gate, without recording. If its parent has used the device, the child
/// cannot use it, and the vendor reports that. The recorder's locks may be held for ever by threads that do not exist
/// in the child.
pub fn register() {
    extern "C" fn in_child() {
        gate::renew();
        recorder::note_fork();
        if contexts::are_in_use() {
            reentrancy::switch_off();
            exports::leave_to_parent();
        }
    }
    // SAFETY: the handler does not unwind, and this preloaded library is never unloaded. The handler allocates, which
    // glibc allows in the child.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}
