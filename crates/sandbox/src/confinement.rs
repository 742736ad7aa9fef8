//! The confinement of a process that executes recorded code, or lets LLVM read it.
//!
//! The process can only compute. Landlock blocks files and the network; seccomp blocks new programs and processes,
//! sockets, and calls that affect other processes or the system. If the kernel lacks one or both, that part is skipped;
//! [`Enforced`] tells which parts are active.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};
use serde::{Deserialize, Serialize};

use super::descriptors::close_range;

/// Libraries that the C library or the device may load late, and the kernel's files about memory and processors.
const READABLE: [&str; 9] = [
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/proc/meminfo", "/proc/cpuinfo",
    "/proc/self/cgroup", "/sys/fs/cgroup",
];

/// The resources that a process keeps.
#[derive(Clone, Debug, Default)]
pub struct AllowedResources {
    /// Further files and folders to read.
    pub readable: Vec<PathBuf>,
    /// Folders to write to.
    pub writable: Vec<PathBuf>,
    /// Descriptors to keep, besides standard input, output and error; all others are closed.
    pub descriptors: Vec<RawFd>,
}

/// The protections that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    pub landlock: bool,
    pub seccomp: bool,
}

impl std::fmt::Display for Enforced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.landlock, self.seccomp) {
            (true, true) => "confined by Landlock and seccomp",
            (true, false) => "confined by Landlock only, as the kernel offers no seccomp",
            (false, true) => "confined by seccomp only, as the kernel offers no Landlock",
            (false, false) => "not confined, as the kernel offers neither Landlock nor seccomp",
        })
    }
}

/// Confines this process permanently. It should be single-threaded: Landlock does not affect existing threads.
pub fn enter(allowed: &AllowedResources) -> Enforced {
    close_all_but(&allowed.descriptors);
    let landlock = rules(allowed).and_then(RulesetCreated::restrict_self).map(|status| is_enforced(status.ruleset));
    Enforced {
        landlock: landlock.unwrap_or(false),
        seccomp: refuse_calls(&filter(&verdicts(Some(std::process::id())))),
    }
}

/// The dynamic linkers of programs.
const LINKERS: [&str; 2] = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
/// Limits of a confined program: private memory and the size of a file, bytes.
const MOST_MEMORY: u64 = 4 << 30;
const MOST_OUTPUT: u64 = 256 << 20;

/// Has a program start confined, with the resources in `allowed` and limited memory. It may run no program but itself,
/// and start no process. Unlike [`enter`], this never leaves a part out: if the kernel lacks Landlock or seccomp, the
/// program does not start, with an error of the kind [`Unsupported`](io::ErrorKind::Unsupported).
///
/// # Errors
/// The rules cannot be made.
pub fn confine<'a>(
    command: &'a mut Command,
    program: &Path,
    allowed: &AllowedResources,
) -> Result<&'a mut Command, RulesetError> {
    let running = make_bitflags!(AccessFs::{ReadFile | Execute});
    let programs = LINKERS.iter().map(Path::new).chain([program]);
    let mut rules = Some(rules(allowed)?.add_rules(path_beneath_rules(programs, running))?);
    let filter = filter(&verdicts(None));
    let confine = move || {
        let limits = [(libc::RLIMIT_DATA, MOST_MEMORY), (libc::RLIMIT_FSIZE, MOST_OUTPUT), (libc::RLIMIT_CORE, 0)];
        for (resource, most) in limits {
            // SAFETY: the structure is alive.
            unsafe { libc::setrlimit(resource, &libc::rlimit { rlim_cur: most, rlim_max: most }) };
        }
        // SAFETY: the call takes no pointers. Descriptors stay open until the program starts.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        let status = rules.take().map(RulesetCreated::restrict_self);
        let is_confined = status.is_some_and(|status| status.is_ok_and(|status| is_enforced(status.ruleset)));
        if is_confined && refuse_calls(&filter) { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    };
    // SAFETY: between fork and exec, it only makes system calls: rules and filter were made before.
    Ok(unsafe { command.pre_exec(confine) })
}

fn is_enforced(status: RulesetStatus) -> bool {
    status != RulesetStatus::NotEnforced
}

/// Closes inherited descriptors, including the streams of this replay's other processes.
pub(super) fn close_all_but(kept: &[RawFd]) {
    let mut kept: Vec<u32> = kept.iter().filter_map(|descriptor| u32::try_from(*descriptor).ok()).collect();
    kept.sort_unstable();
    let mut first = libc::STDERR_FILENO as u32 + 1;
    for kept in kept.into_iter().filter(|kept| *kept > libc::STDERR_FILENO as u32) {
        close(first, kept.saturating_sub(1));
        first = kept + 1;
    }
    close(first, u32::MAX);
}

fn close(first: u32, last: u32) {
    // SAFETY: this forked process uses only the kept descriptors.
    unsafe { close_range(first, last) };
}

/// Landlock's rules, as far as the kernel supports them.
fn rules(allowed: &AllowedResources) -> Result<RulesetCreated, RulesetError> {
    let abi = ABI::V6;
    let reading = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(READABLE, reading))?
        .add_rules(path_beneath_rules(&allowed.readable, reading))?
        .add_rules(path_beneath_rules(&allowed.writable, AccessFs::from_all(abi) & !AccessFs::Execute))
}

/// Calls that a process does not need for computing: other programs, other processes, the network, permissions and
/// timestamps of files (which Landlock does not cover), and the system itself.
mod refused {
    use libc::*;

    /// The same number on all processors; libc does not define it for each.
    const SYS_FCHMODAT2: c_long = 452;

    pub const CALLS: &[&[c_long]] = &[
        // Programs and processes.
        &[
            SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise,
            SYS_process_mrelease, SYS_kcmp, SYS_migrate_pages, SYS_move_pages, SYS_pidfd_open, SYS_pidfd_getfd,
            SYS_pidfd_send_signal,
        ],
        // Sockets, and asynchronous calls, which would bypass this filter.
        &[
            SYS_socket, SYS_socketpair, SYS_bind, SYS_connect, SYS_listen, SYS_accept, SYS_accept4, SYS_io_uring_setup,
            SYS_io_uring_enter, SYS_io_uring_register, SYS_io_setup, SYS_io_submit,
        ],
        // Permissions and timestamps of files.
        &[
            SYS_fchmod, SYS_fchmodat, SYS_FCHMODAT2, SYS_fchown, SYS_fchownat, SYS_setxattr, SYS_lsetxattr,
            SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_utimensat,
        ],
        // Namespaces and mounts.
        &[
            SYS_unshare, SYS_setns, SYS_chroot, SYS_pivot_root, SYS_mount, SYS_umount2, SYS_mount_setattr,
            SYS_move_mount, SYS_open_tree, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_open_by_handle_at,
            SYS_name_to_handle_at,
        ],
        // The system.
        &[
            SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_init_module,
            SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load, SYS_reboot, SYS_swapon,
            SYS_swapoff, SYS_acct, SYS_quotactl, SYS_syslog, SYS_sethostname, SYS_setdomainname, SYS_settimeofday,
            SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime,
        ],
        HERE,
    ];

    /// Calls that only x86-64 has: superseded calls, and calls for ports.
    #[cfg(target_arch = "x86_64")]
    const HERE: &[c_long] = &[
        SYS_fork, SYS_vfork, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_iopl,
        SYS_ioperm,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const HERE: &[c_long] = &[];
}

/// The filter's decision on a call.
#[derive(Clone)]
enum Verdict {
    /// The call fails with this error.
    Refused(libc::c_int),
    /// Refused unless the low half of this argument is one of the values.
    AllowedFor(u32, Vec<u32>),
    /// Refused if the low half of this argument is one of the values.
    RefusedFor(u32, Vec<u32>),
    /// Refused unless the low half of this argument has one of these bits.
    AllowedWithBits(u32, u32),
}

/// Verdicts by call number, ascending: for this process, which has this id, or for a program that is about to start.
fn verdicts(own: Option<u32>) -> Vec<(u32, Verdict)> {
    let mut verdicts: BTreeMap<libc::c_long, Verdict> =
        refused::CALLS.iter().copied().flatten().map(|call| (*call, Verdict::Refused(libc::EPERM))).collect();
    // Signals may only go to this process; limits, too, may name it by 0. A bare thread id may belong to another
    // process.
    for call in [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        verdicts.insert(call, Verdict::AllowedFor(0, own.into_iter().collect()));
    }
    verdicts.insert(libc::SYS_prlimit64, Verdict::AllowedFor(0, own.into_iter().chain([0]).collect()));
    if own.is_none() {
        // Landlock decides which program.
        verdicts.remove(&libc::SYS_execve);
    }
    verdicts.insert(libc::SYS_tkill, Verdict::Refused(libc::EPERM));
    // Allow threads, but not processes. Without clone3, whose flags a filter cannot see, the C library starts threads
    // by clone.
    verdicts.insert(libc::SYS_clone, Verdict::AllowedWithBits(0, libc::CLONE_THREAD.cast_unsigned()));
    verdicts.insert(libc::SYS_clone3, Verdict::Refused(libc::ENOSYS));
    // Text inserted into a terminal would run as commands of its user.
    verdicts.insert(libc::SYS_ioctl, Verdict::RefusedFor(1, vec![libc::TIOCSTI as u32, libc::TIOCLINUX as u32]));
    verdicts.into_iter().map(|(call, verdict)| (call as u32, verdict)).collect()
}

/// Call numbers from here on use another convention (x32), and the list of usual numbers does not cover them.
const OTHER_CONVENTION: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();

/// `AUDIT_ARCH_X86_64`.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
/// `AUDIT_ARCH_AARCH64`.
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

fn step(code: u32, if_so: usize, if_not: usize, value: u32) -> libc::sock_filter {
    let near = |distance: usize| u8::try_from(distance).expect("a filter this small has near jumps");
    libc::sock_filter { code: code as u16, jt: near(if_so), jf: near(if_not), k: value }
}

fn load(offset: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

fn jump(test: u32, if_so: usize, if_not: usize, value: u32) -> libc::sock_filter {
    step(libc::BPF_JMP | test | libc::BPF_K, if_so, if_not, value)
}

fn answer(value: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, 0, value)
}

/// The filter. Its input begins with the call number, the architecture, eight unused bytes, and the arguments, eight
/// bytes each. It finds calls by binary search: the kernel tries a new filter with every call number, and installing a
/// linear one takes longer than a millisecond.
fn filter(verdicts: &[(u32, Verdict)]) -> Vec<libc::sock_filter> {
    let mut program =
        vec![load(4), jump(libc::BPF_JEQ, 1, 0, ARCHITECTURE), answer(libc::SECCOMP_RET_KILL_PROCESS), load(0)];
    program.extend([jump(libc::BPF_JGE, 0, 1, OTHER_CONVENTION), answer(REFUSE)]);
    program.extend(search(verdicts));
    program
}

/// The filter's part for calls in `verdicts`; the call number is loaded.
fn search(verdicts: &[(u32, Verdict)]) -> Vec<libc::sock_filter> {
    match verdicts {
        [] => vec![answer(ALLOW)],
        [(call, verdict)] => {
            let mut program = vec![jump(libc::BPF_JEQ, 1, 0, *call), answer(ALLOW)];
            program.extend(judge(verdict));
            program
        }
        _ => {
            let (before, from) = verdicts.split_at(verdicts.len() / 2);
            let before = search(before);
            let mut program = vec![jump(libc::BPF_JGE, before.len(), 0, from[0].0)];
            program.extend(before);
            program.extend(search(from));
            program
        }
    }
}

fn judge(verdict: &Verdict) -> Vec<libc::sock_filter> {
    let (argument, test, values, found, other) = match verdict {
        Verdict::Refused(error) => return vec![answer(libc::SECCOMP_RET_ERRNO | error.cast_unsigned())],
        Verdict::AllowedFor(argument, values) => (argument, libc::BPF_JEQ, values.clone(), ALLOW, REFUSE),
        Verdict::RefusedFor(argument, values) => (argument, libc::BPF_JEQ, values.clone(), REFUSE, ALLOW),
        Verdict::AllowedWithBits(argument, bits) => (argument, libc::BPF_JSET, vec![*bits], ALLOW, REFUSE),
    };
    let mut program = vec![load(16 + 8 * argument)];
    program.extend(values.iter().rev().enumerate().rev().map(|(left, value)| jump(test, left + 1, 0, *value)));
    program.extend([answer(other), answer(found)]);
    program
}

/// Installs the filter for all threads of this process; false if the kernel refuses it. Older kernels disable the
/// processor's speculation for filtered processes, which would slow down measured kernels, so the filter keeps
/// speculation enabled. Speculation can only expose this process's own memory.
fn refuse_calls(filter: &[libc::sock_filter]) -> bool {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the first call takes numbers; the kernel copies the filter, which is alive.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::child::{Child, ChildStderr, ProcessEnd};

    /// The error of a system call, 0 on success.
    fn errno(result: libc::c_long) -> i32 {
        if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(-1) } else { 0 }
    }

    /// The result of `attempt` in a confined child, as an exit status; `None` if this kernel does not support
    /// everything.
    fn confined(allowed: AllowedResources, attempt: impl FnOnce() -> i32) -> Option<i32> {
        const NOT_OFFERED: i32 = 255;
        let mut child = Child::start(ChildStderr::Kept, || {
            let enforced = enter(&allowed);
            if enforced == (Enforced { landlock: true, seccomp: true }) { attempt() } else { NOT_OFFERED }
        })
        .unwrap();
        match child.wait(Duration::from_secs(20)) {
            Some(ProcessEnd::Exited(NOT_OFFERED)) => {
                mneme_fixtures::skip("this kernel does not offer both Landlock and seccomp");
                None
            }
            Some(ProcessEnd::Exited(status)) => Some(status),
            end => panic!("{end:?}: {:?}", child.output()),
        }
    }

    fn open(path: &std::path::Path, flags: i32) -> i32 {
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a string that lives.
        errno(unsafe { libc::open(path.as_ptr(), flags, 0o600) }.into())
    }

    #[test]
    fn nothing_is_written_or_read_but_what_the_room_has() {
        let folder = tempfile::tempdir().unwrap();
        let (own, foreign) = (folder.path().join("own"), folder.path().join("foreign"));
        for folder in [&own, &foreign] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("there"), "x").unwrap();
        }
        let allowed = AllowedResources { writable: vec![own.clone()], ..AllowedResources::default() };
        let attempts: [(std::path::PathBuf, i32, i32); 6] = [
            (own.join("new"), libc::O_CREAT | libc::O_WRONLY, 0),
            (own.join("there"), libc::O_RDWR | libc::O_TRUNC, 0),
            (foreign.join("new"), libc::O_CREAT | libc::O_WRONLY, libc::EACCES),
            (foreign.join("there"), libc::O_RDONLY, libc::EACCES),
            ("/etc/passwd".into(), libc::O_RDONLY, libc::EACCES),
            ("/proc/meminfo".into(), libc::O_RDONLY, 0),
        ];
        for (path, flags, expected) in attempts {
            let status = confined(allowed.clone(), || open(&path, flags));
            assert!(status.is_none_or(|status| status == expected), "{}: {status:?}", path.display());
        }
        let removed = confined(allowed, || if std::fs::remove_file(foreign.join("there")).is_err() { 1 } else { 0 });
        assert!(removed != Some(0) && foreign.join("there").exists());
    }

    #[test]
    fn nothing_reaches_programs_processes_or_the_network() {
        let parent = std::process::id() as libc::pid_t;
        // If the call does not exist, another way to start a program.
        #[cfg(target_arch = "x86_64")]
        const FORK: libc::c_long = libc::SYS_fork;
        #[cfg(not(target_arch = "x86_64"))]
        const FORK: libc::c_long = libc::SYS_execveat;
        type Attempt = (&'static str, fn(libc::pid_t) -> libc::c_long, i32);
        // SAFETY: each call has numbers and null pointers for arguments, which the kernel checks.
        let attempts: [Attempt; 15] = unsafe {
            [
                ("execve", |_| libc::syscall(libc::SYS_execve, c"/bin/true".as_ptr(), 0, 0), libc::EPERM),
                ("fork", |_| libc::syscall(FORK), libc::EPERM),
                ("clone", |_| libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0), libc::EPERM),
                ("clone3", |_| libc::syscall(libc::SYS_clone3, 0, 0), libc::ENOSYS),
                ("socket", |_| libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0), libc::EPERM),
                ("unix socket", |_| libc::syscall(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM, 0), libc::EPERM),
                ("ptrace", |parent| libc::syscall(libc::SYS_ptrace, libc::PTRACE_ATTACH, parent, 0, 0), libc::EPERM),
                (
                    "process_vm_readv",
                    |parent| libc::syscall(libc::SYS_process_vm_readv, parent, 0, 0, 0, 0, 0),
                    libc::EPERM,
                ),
                ("kill", |parent| libc::syscall(libc::SYS_kill, parent, 0), libc::EPERM),
                ("kill of a group", |_| libc::syscall(libc::SYS_kill, 0, 0), libc::EPERM),
                ("tkill", |parent| libc::syscall(libc::SYS_tkill, parent, 0), libc::EPERM),
                ("io_uring_setup", |_| libc::syscall(libc::SYS_io_uring_setup, 1, 0), libc::EPERM),
                ("unshare", |_| libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER), libc::EPERM),
                (
                    "a call of x32",
                    |_| libc::syscall(libc::c_long::from(OTHER_CONVENTION) + libc::SYS_execve, 0, 0, 0),
                    libc::EPERM,
                ),
                ("kill of itself", |_| libc::syscall(libc::SYS_kill, libc::getpid(), 0), 0),
            ]
        };
        for (name, attempt, expected) in attempts {
            let status = confined(AllowedResources::default(), || errno(attempt(parent)));
            assert!(status.is_none_or(|status| status == expected), "{name}: {status:?}");
        }
    }

    /// Every build enters it.
    #[test]
    fn threads_memory_and_kept_descriptors_are_left() {
        let (reader, writer) = crate::child::pipe().unwrap();
        let descriptor = |fd: &std::os::fd::OwnedFd| std::os::fd::AsRawFd::as_raw_fd(fd);
        let (kept, closed) = (descriptor(&writer), descriptor(&reader));
        let status = confined(AllowedResources { descriptors: vec![kept], ..AllowedResources::default() }, || {
            let sum = std::thread::spawn(|| vec![1u8; 1 << 24].iter().map(|byte| i32::from(*byte)).sum::<i32>()).join();
            // SAFETY: asks about numbers.
            let state = |descriptor| unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
            i32::from(!(sum.is_ok_and(|sum| sum == 1 << 24) && state(kept) >= 0 && state(closed) < 0))
        });
        assert!(status.is_none_or(|status| status == 0), "{status:?}");
    }

    /// The output of a shell that confinement lets start, or `None` if this kernel does not support everything.
    fn confined_shell(script: &str, allowed: &AllowedResources) -> Option<std::process::Output> {
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        let mut command = Command::new(&shell);
        command.args(["-c", script]);
        match confine(&mut command, &shell, allowed).unwrap().output() {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                mneme_fixtures::skip("this kernel does not offer both Landlock and seccomp");
                None
            }
            output => Some(output.unwrap()),
        }
    }

    #[test]
    fn a_confined_program_reads_what_it_may_and_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (own, foreign) = (folder.path().join("own"), folder.path().join("foreign"));
        for folder in [&own, &foreign] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("there"), "text\n").unwrap();
        }
        std::os::unix::fs::symlink(foreign.join("there"), own.join("link")).unwrap();
        let allowed = AllowedResources { readable: vec![own.clone()], ..AllowedResources::default() };
        let reads =
            |path: PathBuf| confined_shell(&format!("read line < '{}' && echo $line", path.display()), &allowed);
        let Some(read) = reads(own.join("there")) else { return };
        assert_eq!(read.stdout, b"text\n", "{read:?}");
        let links = [foreign.join("there"), own.join("link"), own.join("../foreign/there"), "/etc/passwd".into()];
        for path in links {
            let output = reads(path.clone()).unwrap();
            assert!(!output.status.success() && output.stdout.is_empty(), "{}: {output:?}", path.display());
        }
        for script in ["exec /bin/cat /dev/null", "/bin/true", "echo x > there", "(echo x)"] {
            let output = confined_shell(&format!("cd '{}'; {script}", own.display()), &allowed).unwrap();
            assert!(!output.status.success() && output.stdout.is_empty(), "{script}: {output:?}");
        }
    }
}
