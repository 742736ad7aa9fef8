//! Forked children: starting them, and reporting how they end.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, setpgid};

use super::allowance::Allowance;
use super::relay::Relay;

/// The time for a killed child to exit before it is left to the system (a driver may hold it for a while).
const REAP_LIMIT: Duration = Duration::from_secs(10);

/// The number of useful bytes of a child's output.
const OUTPUT_LIMIT: u64 = 256 * 1024;

/// A child process; killed when dropped.
pub struct Child {
    pid: Pid,
    /// The child's standard output and error, if kept.
    complaints: Option<File>,
    /// The process between the child and a terminal; must be dropped after the child.
    _relay: Option<Relay>,
    /// The child leads a process group, which ends with it.
    leads: bool,
    ended: Option<ProcessEnd>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    Exited(i32),
    Signalled(Signal),
}

impl std::fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signalled(Signal::SIGKILL) => {
                write!(f, "was ended by SIGKILL (as the system does when memory runs out)")
            }
            Self::Signalled(signal) => write!(f, "was ended by {signal}"),
        }
    }
}

/// The destination of a child's standard error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ChildStderr {
    /// This process's standard error, as plain text if that is a terminal.
    Shown,
    /// Kept for [`Child::output`] and [`Child::complaint`].
    Kept,
}

impl Child {
    /// Forks; the child runs `work` and exits with its value. The caller must be single-threaded.
    pub fn start(complaints: ChildStderr, work: impl FnOnce() -> i32) -> std::io::Result<Self> {
        let kept = match complaints {
            ChildStderr::Shown => None,
            ChildStderr::Kept => Some(File::from(memfd_create(c"complaints", MFdFlags::MFD_CLOEXEC)?)),
        };
        let mut relay = if kept.is_none() { Relay::to_terminal()? } else { None };
        let parent = getpid();
        // SAFETY: this process has one thread (the supervisor's rule), so no lock is held in the child's copy of it.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                if let Some(relay) = &mut relay {
                    relay.hand_over();
                }
                Ok(Self { pid: child, complaints: kept, _relay: relay, leads: false, ended: None })
            }
            ForkResult::Child => {
                let words = kept.as_ref().map(AsFd::as_fd).or_else(|| relay.as_ref()?.input());
                let ready = settle(parent, words);
                // A panic must not unwind into the parent's frames: they hold the child's siblings, which would be
                // killed.
                let work = std::panic::AssertUnwindSafe(work);
                let status = if ready { std::panic::catch_unwind(work).ok() } else { None };
                let status = status.unwrap_or(mneme_system::exit::INTERNAL);
                // SAFETY: _exit takes no pointers. The parent's exit handlers and buffers are not this process's to
                // run.
                unsafe { libc::_exit(status) }
            }
        }
    }

    /// Makes the child the leader of a group, so killing the child also kills the programs that it has started, and
    /// their children. The child calls [`lead`] as well, because either process may run first.
    pub fn leading(mut self) -> Self {
        self.leads = setpgid(self.pid, self.pid).is_ok();
        self
    }

    fn strike(&self) {
        let _ = if self.leads { killpg(self.pid, Signal::SIGKILL) } else { kill(self.pid, Signal::SIGKILL) };
    }

    /// Ends the child with SIGKILL and waits for it.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            self.strike();
            self.wait(REAP_LIMIT);
        }
    }

    /// Kills the child with SIGKILL without waiting, for use right before this process ends: a driver may take a tenth
    /// of a second to let go.
    pub fn abandon(mut self) {
        self.strike();
        self.ended = Some(ProcessEnd::Signalled(Signal::SIGKILL));
    }

    /// Sends SIGKILL without waiting.
    pub fn terminate(&mut self) {
        if self.ended.is_none() {
            self.strike();
        }
    }

    /// Whether the child has used up its time.
    pub fn is_late(&self, allowance: &mut Allowance) -> bool {
        allowance.is_used_up(self.pid)
    }

    /// How the child ended, if it has.
    pub fn end(&mut self) -> Option<ProcessEnd> {
        if self.ended.is_none() {
            self.ended = match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(_, status)) => Some(ProcessEnd::Exited(status)),
                Ok(WaitStatus::Signaled(_, signal, _)) => Some(ProcessEnd::Signalled(signal)),
                Err(nix::errno::Errno::ECHILD) => Some(ProcessEnd::Exited(mneme_system::exit::INTERNAL)),
                _ => None,
            };
        }
        self.ended
    }

    /// Waits for the child to end; `None` if it takes longer than the limit.
    pub fn wait(&mut self, limit: Duration) -> Option<ProcessEnd> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(50);
        while self.end().is_none() {
            if start.elapsed() > limit {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        self.ended
    }

    /// The child's standard output and error, if kept; very long output is truncated.
    pub fn output(&mut self) -> Option<String> {
        let file = self.complaints.as_mut()?;
        file.rewind().ok()?;
        let mut text = Vec::new();
        let mut part = file.take(OUTPUT_LIMIT);
        part.read_to_end(&mut text).ok()?;
        let mut text = String::from_utf8_lossy(&text).into_owned();
        let left = file.metadata().map_or(0, |metadata| metadata.len().saturating_sub(OUTPUT_LIMIT));
        if left > 0 {
            text.push_str(&format!("\n… and {left} bytes more\n"));
        }
        Some(text)
    }

    /// The most informative line of the output about the failure, if any.
    pub fn complaint(&mut self) -> Option<String> {
        let text = self.output()?;
        // LLVM's own message is more useful than the stack dump that follows it.
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        lines
            .clone()
            .find(|line| line.contains("LLVM ERROR") || line.contains("Assertion"))
            .or_else(|| lines.next())
            .map(str::to_owned)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A child's first steps: it dies with its parent, leaves no core file, and keeps standard output clean.
fn settle(parent: Pid, words: Option<BorrowedFd<'_>>) -> bool {
    // SAFETY: prctl, setrlimit and dup2 with these arguments touch no memory but the structure given.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &no_core);
        if let Some(words) = words {
            libc::dup2(words.as_raw_fd(), libc::STDERR_FILENO);
        }
        // Standard output carries results only; device code may print.
        libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO);
    }
    // The parent may have died before the signal was set up.
    getppid() == parent
}

/// In a child: sets the name in `ps` and debuggers, at most 15 characters.
pub fn name(name: &std::ffi::CStr) {
    // Best effort: nothing depends on it.
    let _ = nix::sys::prctl::set_name(name);
}

/// In a child: leads a group, see [`Child::leading`].
pub fn lead() {
    // Best effort: the parent does the same.
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
}

/// Makes the system choose this process first when memory runs out.
pub fn volunteer_for_oom() {
    // Best effort: without /proc, the system chooses.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Limits this process's private memory (heap, private mappings), in bytes beyond the current size. Shared memory, such
/// as the snapshot, does not count.
pub fn limit_memory(bytes: u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has = status
        .lines()
        .find_map(|line| line.strip_prefix("VmData:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0u64);
    let limit = bytes.saturating_add(has * 1024);
    // Best effort: some systems lack this limit.
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_DATA, limit, limit);
}

/// Limits the size of every file that this process writes, bytes; SIGXFSZ ends a process that writes more.
pub fn limit_files(bytes: u64) {
    // Best effort, as above.
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_FSIZE, bytes, bytes);
}

/// A pipe that is closed on exec.
pub fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_named() {
        assert_eq!(ProcessEnd::Signalled(Signal::SIGSEGV).to_string(), "was ended by SIGSEGV");
        assert!(ProcessEnd::Signalled(Signal::SIGKILL).to_string().contains("memory"));
        assert_eq!(ProcessEnd::Exited(3).to_string(), "exited with status 3");
    }

    #[test]
    fn what_a_child_says_is_kept() {
        let print = |text: &'static str, times: usize| {
            move || {
                // Write directly to the descriptor: the test harness captures the output of the standard library's
                // macros.
                (0..times)
                    .for_each(|_| assert_eq!(nix::unistd::write(std::io::stderr(), text.as_bytes()), Ok(text.len())));
                0
            }
        };
        let said = |work| {
            let mut child = Child::start(ChildStderr::Kept, work).unwrap();
            child.wait(Duration::from_secs(20));
            (child.output().unwrap(), child.complaint())
        };
        assert_eq!(said(print("\nremark: a\nLLVM ERROR: b\n", 1)).1.unwrap(), "LLVM ERROR: b");
        assert_eq!(said(print("", 1)), (String::new(), None));
        let (long, _) = said(print("0123456\n", OUTPUT_LIMIT as usize / 8 + 2));
        assert!(
            long.len() < OUTPUT_LIMIT as usize + 64 && long.ends_with("… and 16 bytes more\n"),
            "{}",
            &long[long.len() - 64..]
        );
    }

    #[test]
    fn a_panic_ends_its_own_child_only() {
        let mut sibling = Child::start(ChildStderr::Kept, || {
            std::thread::sleep(Duration::from_secs(60));
            0
        })
        .unwrap();
        // Skip the panic's hook, which may wait for a lock held by another test at the time of the fork.
        let mut child = Child::start(ChildStderr::Kept, || std::panic::resume_unwind(Box::new(()))).unwrap();
        assert_eq!(child.wait(Duration::from_secs(20)), Some(ProcessEnd::Exited(mneme_system::exit::INTERNAL)));
        assert_eq!(sibling.wait(Duration::ZERO), None, "the sibling is at work still");
    }
}
