//! Calls before which the recorder writes its data to disk.
//!
//! With some of them a program leaves without a visible end: it becomes another program (`exec`), or ends inside the C
//! library while a forked child continues (`daemon`). The call may fail, so recording continues. `_exit` ends the
//! recording for good, without the handlers of `exit`.
//!
//! Others close all descriptors (`closefrom`). They would close a file that the recorder's thread has open, and by the
//! time the thread closes it, its number could belong to a file of the application.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::AtomicPtr;

use crate::driver::c_name;
use crate::process::linker::behind;
use crate::process::reentrancy;
use crate::process::trampoline::passed_on;
use crate::recorder::settling;

/// Replaces a function that this C library lacks.
extern "C" fn missing() -> c_int {
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// Resolves the functions that signal handlers call.
pub fn register() {
    FUNCTIONS.iter().for_each(|(known, name)| _ = behind(known, name));
}

/// Ends the recording. Does nothing if a signal handler ends the process in the middle of a hooked call, because the
/// interrupted code may hold the recorder's locks. Finished instances are on disk; only the summary is lost.
fn end() {
    if !reentrancy::inside() {
        settling::end();
    }
}

macro_rules! departures {
    ($($before:path: $($name:ident)*;)*) => {
        const FUNCTIONS: &[(&AtomicPtr<c_void>, &CStr)] =
            &[$($( (&$name::KNOWN, c_name(concat!(stringify!($name), "\0"))) ),*),*];
        $($( #[allow(non_snake_case)]
        mod $name {
            use super::*;

            pub static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

            passed_on!($name, before);

            /// Also called in signal handlers and in children of `vfork`.
            extern "C" fn before() -> *mut c_void {
                $before();
                let function = behind(&KNOWN, const { c_name(concat!(stringify!($name), "\0")) });
                if function.is_null() { missing as *const () as *mut c_void } else { function }
            }
        } )*)*
    };
}

departures! {
    settling::settle:
        execve execv execvp execvpe execl execle execlp fexecve execveat daemon closefrom close_range;
    end: _exit _Exit;
}
