//! Child processes of ours: they do not outlive the thread that starts them, and it outlives them.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the program killed when the calling thread ends, whatever ends it.
pub fn end_with_this_thread(command: &mut Command) {
    let own = std::process::id();
    // SAFETY: both calls are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let is_left = libc::getppid().cast_unsigned() != own;
            if is_left { Err(std::io::ErrorKind::Interrupted.into()) } else { Ok(()) }
        });
    }
}

/// From here on, a reader that is gone makes a write of this process fail, and does not end it.
pub fn survive_broken_pipes() {
    // SAFETY: a disposition without a handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}
