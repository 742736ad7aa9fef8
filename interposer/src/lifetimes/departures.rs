//! Calls before which the recorder puts on disk what it has.
//!
//! By some a program leaves without an end that we see: it becomes another program (`exec`), or ends inside of the C
//! library when a forked child goes on in its place (`daemon`). The call may fail, so recording goes on. `_exit` ends
//! it for good, without the handlers of `exit`. Others close
//! all descriptors (`closefrom`): a file that our thread has open at that moment would be closed under it, and its
//! number could be the application's next file by the time that our thread closes it.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::AtomicPtr;

use crate::driver::c_name;
use crate::process::linker::behind;
use crate::process::reentrancy;
use crate::process::trampoline::passed_on;
use crate::recorder::settling;

/// In the place of a function that this C library lacks.
extern "C" fn missing() -> c_int {
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// Has the functions known that are called from signal handlers.
pub fn register() {
    FUNCTIONS.iter().for_each(|(known, name)| _ = behind(known, name));
}

/// A signal handler that ends the process in the middle of a hooked call: what it has interrupted may hold our locks.
/// Finished instances are on disk; only the summary is lost.
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

            /// Called in signal handlers, and in children of `vfork`, too.
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
