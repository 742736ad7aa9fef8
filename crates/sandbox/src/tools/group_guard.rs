//! The process-group guard, which ends the programs that a build has started.
//!
//! On request, Linux ends a process together with its parent, but not the processes that it has started: a wrapper of
//! an assembler would leave the assembler running after the build is killed. The programs of a build are therefore a
//! process group. A small process leads it, waits for this process's end, and outlives it by a moment.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::descriptors::close_range;

/// The leader of a group of programs; all end when this is dropped or this process ends.
pub struct GroupGuard {
    leader: libc::pid_t,
    /// The end of this process closes it, however it happens, because no other process has it.
    _ours: OwnedFd,
}

impl GroupGuard {
    /// # Errors
    /// The system cannot start another process, or has no free descriptor.
    pub fn start() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: new descriptors without another owner.
        let [theirs, ours] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // SAFETY: the child calls nothing but what is safe after a fork of a process with threads, and does not return.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is the child, which needs nothing of what it inherited.
            0 => unsafe { watch(theirs.as_raw_fd()) },
            leader => {
                // The child does the same, because either may run first.
                // SAFETY: takes no pointers.
                unsafe { libc::setpgid(leader, leader) };
                Ok(Self { leader, _ours: ours })
            }
        }
    }

    /// Adds the program to the group. It also ends with the thread that starts it, in case the leader is killed.
    pub fn guard<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // SAFETY: prctl takes no pointers, and is safe between fork and exec.
        unsafe {
            command.process_group(self.leader).pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        }
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        // SAFETY: takes no pointers but to nothing. The leader has not been waited for: no other process or group has
        // its number.
        unsafe {
            libc::killpg(self.leader, libc::SIGKILL);
            while libc::waitpid(self.leader, std::ptr::null_mut(), 0) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
    }
}

/// The leader's work: waits until the other end of `pipe` closes, and ends its group.
///
/// # Safety
/// Call this only in a forked child, which no longer needs anything inherited.
unsafe fn watch(pipe: libc::c_int) -> ! {
    let pipe_number = pipe as libc::c_uint;
    // SAFETY: the only call with a pointer is `read`, which writes at most one byte. The closed descriptors are unused.
    unsafe {
        let leads = libc::setpgid(0, 0) == 0;
        // Close inherited descriptors, because other processes may wait for their end.
        if pipe_number > 0 {
            close_range(0, pipe_number - 1);
        }
        close_range(pipe_number + 1, libc::c_uint::MAX);
        let mut byte = 0u8;
        while libc::read(pipe, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        if leads {
            libc::killpg(0, libc::SIGKILL);
        }
        libc::_exit(0)
    }
}
