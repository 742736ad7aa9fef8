//! Programs that end with the thread that starts them.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel kill the program when the calling thread ends, for any reason.
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

/// Makes writes to a closed pipe fail instead of ending this process.
pub fn survive_broken_pipes() {
    // SAFETY: a disposition without a handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}
