//! Injects faults at chosen system calls.
//!
//! It runs a program under ptrace, counts its calls on the files of one folder, and makes one of them fail or prevents
//! it.
//!
//! A seccomp filter stops the program only at calls on files, so it runs at nearly full speed. The path or descriptor
//! of a call decides whether it belongs to the folder.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use libc::{c_int, c_long, c_ulong, c_void, pid_t};

/// The time after which a program counts as hanging.
const LIMIT: Duration = Duration::from_secs(120);

/// A fault at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The call fails with this error (`errno`), if such a call can.
    Error(c_int),
    /// This call and all later ones fail: a full disk stays full.
    ErrorsFrom(c_int),
    /// The process gets this signal. `SIGKILL` arrives before the call.
    Signal(c_int),
}

/// The outcome of a program.
#[derive(Debug)]
pub struct Traced {
    /// The status as in a shell. `None` after the time limit.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Calls on files of the folder.
    pub calls: usize,
    /// The call with the fault. `None` if there are fewer calls, or if such a call cannot fail this way.
    pub at: Option<String>,
}

/// The effect of a system call on files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Changes or allocates disk space.
    Writes,
    Reads,
    /// Frees disk space. The only fault here is to end the process.
    Removes,
}

/// How a call names a file.
#[derive(Clone, Copy)]
enum Names {
    Path,
    PathAt,
    Descriptor,
    /// The fifth argument (of `mmap`).
    FifthDescriptor,
}

struct Call {
    number: c_long,
    name: &'static str,
    names: Names,
    effect: Effect,
}

const fn call(number: c_long, name: &'static str, names: Names, effect: Effect) -> Call {
    Call { number, name, names, effect }
}

const CALLS: &[Call] = &[
    call(libc::SYS_open, "open", Names::Path, Effect::Reads),
    call(libc::SYS_openat, "openat", Names::PathAt, Effect::Reads),
    call(libc::SYS_creat, "creat", Names::Path, Effect::Writes),
    call(libc::SYS_read, "read", Names::Descriptor, Effect::Reads),
    call(libc::SYS_pread64, "pread", Names::Descriptor, Effect::Reads),
    call(libc::SYS_getdents64, "getdents", Names::Descriptor, Effect::Reads),
    call(libc::SYS_statx, "statx", Names::PathAt, Effect::Reads),
    call(libc::SYS_newfstatat, "newfstatat", Names::PathAt, Effect::Reads),
    call(libc::SYS_mmap, "mmap", Names::FifthDescriptor, Effect::Reads),
    call(libc::SYS_write, "write", Names::Descriptor, Effect::Writes),
    call(libc::SYS_pwrite64, "pwrite", Names::Descriptor, Effect::Writes),
    call(libc::SYS_writev, "writev", Names::Descriptor, Effect::Writes),
    call(libc::SYS_pwritev, "pwritev", Names::Descriptor, Effect::Writes),
    call(libc::SYS_copy_file_range, "copy_file_range", Names::Descriptor, Effect::Writes),
    call(libc::SYS_ftruncate, "ftruncate", Names::Descriptor, Effect::Writes),
    call(libc::SYS_fsync, "fsync", Names::Descriptor, Effect::Writes),
    call(libc::SYS_fdatasync, "fdatasync", Names::Descriptor, Effect::Writes),
    call(libc::SYS_rename, "rename", Names::Path, Effect::Writes),
    call(libc::SYS_renameat, "renameat", Names::PathAt, Effect::Writes),
    call(libc::SYS_renameat2, "renameat2", Names::PathAt, Effect::Writes),
    call(libc::SYS_mkdir, "mkdir", Names::Path, Effect::Writes),
    call(libc::SYS_mkdirat, "mkdirat", Names::PathAt, Effect::Writes),
    call(libc::SYS_flock, "flock", Names::Descriptor, Effect::Reads),
    call(libc::SYS_unlink, "unlink", Names::Path, Effect::Removes),
    call(libc::SYS_unlinkat, "unlinkat", Names::PathAt, Effect::Removes),
];

impl Call {
    /// Whether the call can fail with this error on Linux' file systems, given these arguments.
    fn can_fail_with(&self, error: c_int, registers: &libc::user_regs_struct) -> bool {
        // The call may create the file.
        let creates = self.name == "openat" && registers.rdx & libc::O_CREAT as u64 != 0;
        let never_waits = self.name == "flock" && registers.rsi & libc::LOCK_NB as u64 != 0;
        match (self.effect, error) {
            (_, libc::EINTR) if never_waits => false,
            (Effect::Removes, _) => false,
            (_, libc::EIO | libc::ENOMEM) => true,
            (effect, libc::ENOSPC) => creates || effect == Effect::Writes,
            // For calls that can wait for a slow disk or for another process's lock.
            (_, libc::EINTR) => matches!(
                self.name,
                "openat" | "read" | "pread" | "write" | "pwrite" | "pwritev" | "flock" | "ftruncate"
            ),
            _ => false,
        }
    }
}

/// Runs a program and counts its calls on files in `folder` and its subfolders from 0. Injects `fault` at the call with
/// that number. Skips an error that such a call cannot return.
pub fn trace(mut command: Command, folder: &Path, fault: Option<(usize, InjectedFault)>) -> Traced {
    let output = tempfile::tempdir().expect("a temporary folder");
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| output.path().join(name));
    let create = |path: &Path| Stdio::from(File::create(path).expect("a file for the output"));
    command.stdin(Stdio::null()).stdout(create(&stdout)).stderr(create(&stderr)).process_group(0);
    let filter = filter();
    // SAFETY: the closure only makes system calls, on memory allocated before the fork.
    unsafe { command.pre_exec(move || be_traced(&filter)) };
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let root = child.id() as pid_t;
    let (done, watched) = channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let hangs = watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout);
        if hangs {
            // SAFETY: this signals our own child's group. The child has not been waited for, so it still exists.
            unsafe { libc::kill(-root, libc::SIGKILL) };
        }
        hangs
    });
    let folder = folder.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut tracer = Tracer { root, folder, fault, calls: 0, at: None, known: HashSet::from([root]), status: 0 };
    tracer.follow();
    // The child was already waited for, but the library does not know that.
    let _ = child.wait();
    let _ = done.send(());
    let hangs = watchdog.join().expect("the watchdog does not panic");
    let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("its output")).into_owned();
    Traced {
        status: (!hangs).then_some(tracer.status),
        stdout: text(&stdout),
        stderr: text(&stderr),
        calls: tracer.calls,
        at: tracer.at,
    }
}

/// Stops at the calls of [`CALLS`], and allows all others.
fn filter() -> Vec<libc::sock_filter> {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    // The first word of the filter's input is the number of the call.
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (index, call) in CALLS.iter().enumerate() {
        let to_the_last = (CALLS.len() - index) as u8;
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to_the_last, 0, call.number as u32));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_TRACE));
    program
}

/// Runs in the child before `exec`.
fn be_traced(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the filter, which is alive.
    let done = unsafe {
        let (none, one): (c_ulong, c_ulong) = (0, 1);
        libc::ptrace(libc::PTRACE_TRACEME, 0, none, none) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, none, none, none) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, c_ulong::from(libc::SECCOMP_MODE_FILTER), &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

struct Tracer {
    root: pid_t,
    folder: PathBuf,
    fault: Option<(usize, InjectedFault)>,
    calls: usize,
    at: Option<String>,
    /// Threads that have stopped before.
    known: HashSet<pid_t>,
    status: i32,
}

impl Tracer {
    /// Follows the program and its descendants until all have ended.
    fn follow(&mut self) {
        let mut first = true;
        loop {
            let mut status = 0;
            // Waits only for this thread's children, because other tests have children too.
            // SAFETY: `status` is a valid place.
            let thread = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
            if thread < 0 {
                return;
            }
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                self.known.remove(&thread);
                if thread == self.root {
                    self.status =
                        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
                }
                continue;
            }
            let (event, signal) = (status >> 16, libc::WSTOPSIG(status));
            let mut deliver = signal;
            if std::mem::take(&mut first) {
                let wanted = libc::PTRACE_O_TRACESECCOMP
                    | libc::PTRACE_O_TRACEFORK
                    | libc::PTRACE_O_TRACEVFORK
                    | libc::PTRACE_O_TRACECLONE
                    | libc::PTRACE_O_TRACEEXEC
                    | libc::PTRACE_O_EXITKILL;
                ptrace(libc::PTRACE_SETOPTIONS, thread, c_long::from(wanted));
                deliver = 0;
            } else if event == libc::PTRACE_EVENT_SECCOMP {
                deliver = self.call(thread);
            } else if event != 0 || (signal == libc::SIGSTOP && self.known.insert(thread)) {
                deliver = 0;
            }
            // An error is harmless: the thread may have been killed meanwhile.
            ptrace(libc::PTRACE_CONT, thread, c_long::from(deliver));
        }
    }

    /// Handles a thread that is about to make one of the calls. Returns the signal to continue with.
    fn call(&mut self, thread: pid_t) -> c_int {
        let Some(mut registers) = registers(thread) else { return 0 };
        let Some(call) = CALLS.iter().find(|call| call.number == registers.orig_rax as c_long) else { return 0 };
        let Some(path) = named(thread, call, &registers) else { return 0 };
        if !path.starts_with(&self.folder) {
            return 0;
        }
        let number = self.calls;
        self.calls += 1;
        let Some((at, fault)) = self.fault else { return 0 };
        let is_due = number == at || (number > at && matches!(fault, InjectedFault::ErrorsFrom(_)));
        if !is_due {
            return 0;
        }
        let what = format!("{} of {}", call.name, path.display());
        match fault {
            InjectedFault::Error(error) | InjectedFault::ErrorsFrom(error) => {
                if call.can_fail_with(error, &registers) {
                    registers.orig_rax = u64::MAX;
                    registers.rax = i64::from(-error).cast_unsigned();
                    ptrace(libc::PTRACE_SETREGS, thread, &raw const registers as c_long);
                    self.at.get_or_insert(what);
                }
                0
            }
            InjectedFault::Signal(libc::SIGKILL) => {
                self.at = Some(what);
                // SAFETY: the process is traced, so it exists.
                unsafe { libc::kill(process_of(thread), libc::SIGKILL) };
                0
            }
            InjectedFault::Signal(signal) => {
                self.at = Some(what);
                // SAFETY: as above. The signal goes to the process, and the kernel chooses the thread.
                unsafe { libc::kill(process_of(thread), signal) };
                0
            }
        }
    }
}

/// Sends a request about a stopped thread to the kernel. False if the thread no longer exists. `data` is a number or
/// the address of registers, depending on the request.
fn ptrace(request: libc::c_uint, thread: pid_t, data: c_long) -> bool {
    let none: c_long = 0;
    // SAFETY: the requests of this module have a number or the address of live registers as their last argument.
    unsafe { libc::ptrace(request, thread, none, data) == 0 }
}

fn registers(thread: pid_t) -> Option<libc::user_regs_struct> {
    // SAFETY: all fields are plain numbers, so zeros are valid.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, thread, &raw mut registers as c_long).then_some(registers)
}

fn process_of(thread: pid_t) -> pid_t {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.and_then(|group| group.trim().parse().ok()).unwrap_or(thread)
}

/// The file that a call names.
fn named(thread: pid_t, call: &Call, registers: &libc::user_regs_struct) -> Option<PathBuf> {
    let link = |descriptor: u64| std::fs::read_link(format!("/proc/{thread}/fd/{}", descriptor as i32)).ok();
    let start = |descriptor: u64| match descriptor as i32 {
        libc::AT_FDCWD => std::fs::read_link(format!("/proc/{thread}/cwd")).ok(),
        _ => link(descriptor),
    };
    match call.names {
        Names::Descriptor => link(registers.rdi),
        Names::FifthDescriptor => (registers.r8 as i32 >= 0).then(|| link(registers.r8)).flatten(),
        Names::Path => Some(start(libc::AT_FDCWD as u64)?.join(text(thread, registers.rdi)?)),
        Names::PathAt => Some(start(registers.rdi)?.join(text(thread, registers.rsi)?)),
    }
}

/// Reads a string from the memory of a thread.
fn text(thread: pid_t, address: u64) -> Option<String> {
    let mut bytes = Vec::new();
    // Do not cross the end of a page, because the next one may be unmapped.
    while !bytes.contains(&0) && bytes.len() < libc::PATH_MAX as usize {
        let at = address + bytes.len() as u64;
        let mut part = vec![0u8; 4096 - (at % 4096) as usize];
        let local = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
        let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: part.len() };
        // SAFETY: the local buffer is ours and has the given length. The other memory belongs to another process.
        let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
        bytes.extend_from_slice(part.get(..usize::try_from(read).ok().filter(|read| *read > 0)?)?);
    }
    let end = bytes.iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}
