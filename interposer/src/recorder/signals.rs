//! Makes signals that end the process wait for instances that are being written.
//!
//! For these signals the recorder installs a handler in place of the default action. The application must not notice: a
//! query returns the default action, and setting the default action installs the recorder's handler, which has the same
//! effect. So `sigaction` and its older forms are hooked.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{SIG_DFL, SIG_ERR, sigaction as Action, sighandler_t, siginfo_t};

use super::{is_recording_process, stall};
use crate::driver::c_name;
use crate::process::flags::FLAGS;
use crate::process::linker::behind;
use crate::snapshot::background;

/// How long writing the end of a recording may take, ms. The sender of the signal expects the process to end.
const PATIENCE: u32 = 10_000;

/// The signals that end a process without a handler.
const FATAL: [c_int; 8] =
    [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Instances are being written in this process, so the recorder's handler replaces the default action.
static OUTLASTS: AtomicBool = AtomicBool::new(false);

/// Makes signals that end the process wait for instances that are being written, if the application has no handler for
/// them. The summary is then lost, the recording is not.
pub fn outlast() {
    OUTLASTS.store(true, Ordering::Relaxed);
    for signal in FATAL {
        // SAFETY: both structures are valid.
        unsafe {
            let mut action: Action = std::mem::zeroed();
            if real_sigaction(signal, std::ptr::null(), &mut action) == 0
                && action.sa_sigaction == SIG_DFL
                && real_sigaction(signal, &waiting(signal), &mut action) == 0
                && seen_as(action.sa_sigaction) != SIG_DFL
            {
                // Another thread has installed a handler in the meantime.
                real_sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }
}

/// Waits, then ends the process as the default action does. The system calls it, or a handler of the application that
/// learned its address in a way that is not hooked.
extern "C" fn wait(signal: c_int, information: *const siginfo_t, _context: *const c_void) {
    // A second signal does not wait, and the signal sent below must not reach the caller's handler.
    // SAFETY: the structure is valid; zeros are the default action.
    unsafe { real_sigaction(signal, &std::mem::zeroed(), std::ptr::null_mut()) };
    // Does not wait for new launches of other threads.
    FLAGS.records.store(false, Ordering::SeqCst);
    stall::wait_while(|| background::is_busy() && is_recording_process(), PATIENCE);
    // SAFETY: the signal is sent again with its information, which a core dump shows, and takes its default action when
    // the handler returns. The information comes from the system, or from a caller that got it from the system.
    unsafe {
        let thread = libc::syscall(libc::SYS_gettid);
        let sent = !information.is_null()
            && libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), thread, signal, information) == 0;
        if !sent {
            libc::raise(signal);
        }
    }
}

fn is_ours(action: sighandler_t) -> bool {
    action == wait as *const () as sighandler_t
}

fn waiting(signal: c_int) -> Action {
    // SAFETY: zeros are an empty mask and no flags.
    let mut action: Action = unsafe { std::mem::zeroed() };
    action.sa_sigaction = wait as *const () as sighandler_t;
    // A full stack has no room for a handler. Other signals may reach threads whose alternate stack is too small for
    // one.
    let stack = if matches!(signal, libc::SIGSEGV | libc::SIGBUS) { libc::SA_ONSTACK } else { 0 };
    action.sa_flags = libc::SA_SIGINFO | stack;
    action
}

/// Whether the application has a handler for a signal.
pub fn is_handled(signal: c_int) -> bool {
    // SAFETY: a valid place; zeros are a value of the structure.
    let action = unsafe {
        let mut action: Action = std::mem::zeroed();
        real_sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction
    };
    ![SIG_DFL, libc::SIG_IGN].contains(&seen_as(action))
}

/// Whether the recorder's handler replaces this action.
fn is_replaced(signal: c_int, action: sighandler_t) -> bool {
    action == SIG_DFL && OUTLASTS.load(Ordering::Relaxed) && FATAL.contains(&signal)
}

/// The action that the application sees in place of this one.
fn seen_as(action: sighandler_t) -> sighandler_t {
    if is_ours(action) { SIG_DFL } else { action }
}

static SIGACTION: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Resolves the functions that signal handlers call.
pub fn register() {
    behind(&SIGACTION, c"sigaction");
    OLDER_FORMS.iter().for_each(|(known, name)| _ = behind(known, name));
}

/// # Safety
/// As for `sigaction` of the C library.
unsafe fn real_sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
    // SAFETY: every C library has the function, with this type.
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(behind(&SIGACTION, c"sigaction")) };
    // SAFETY: the caller's promise.
    unsafe { function(signal, new, old) }
}

/// # Safety
/// As for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: null, or valid as the caller promises.
    let replaced = unsafe { new.as_ref() }.filter(|new| is_replaced(signal, new.sa_sigaction)).map(|_| waiting(signal));
    // SAFETY: as the caller promises, or a local structure.
    let result = unsafe { real_sigaction(signal, replaced.as_ref().map_or(new, std::ptr::from_ref), old) };
    if result == 0 && !old.is_null() {
        // SAFETY: the caller's place, which has just been written.
        let old = unsafe { &mut *old };
        if is_ours(old.sa_sigaction) {
            // SAFETY: zeros are the default action.
            *old = unsafe { std::mem::zeroed() };
        }
    }
    result
}

/// The forms of `signal`, each of which the C library treats differently.
macro_rules! older_forms {
    ($($name:ident $known:ident)*) => {
        $( static $known: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut()); )*
        const OLDER_FORMS: &[(&AtomicPtr<c_void>, &CStr)] = &[$( (&$known, c_name(concat!(stringify!($name), "\0"))) ),*];
        $(
        /// # Safety
        /// As for the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, action: sighandler_t) -> sighandler_t {
            type Function = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
            let function = behind(&$known, const { c_name(concat!(stringify!($name), "\0")) });
            if function.is_null() {
                return SIG_ERR;
            }
            // SAFETY: the function of this name has this type.
            let function = unsafe { std::mem::transmute::<*mut c_void, Function>(function) };
            // SAFETY: the caller's arguments.
            let before = unsafe { function(signal, action) };
            if before != SIG_ERR && is_replaced(signal, action) {
                // SAFETY: a valid structure. These functions cannot set a handler with three arguments.
                unsafe { real_sigaction(signal, &waiting(signal), std::ptr::null_mut()) };
            }
            seen_as(before)
        }
        )*
    };
}

older_forms! {
    signal SIGNAL bsd_signal BSD_SIGNAL ssignal SSIGNAL sysv_signal SYSV_SIGNAL __sysv_signal SYSV_SIGNAL_OF_GLIBC
    sigset SIGSET
}
