//! Checks of the operating system: glibc, addresses, limits and permissions.

use std::ffi::CStr;

use nix::sys::resource::{Resource, getrlimit};

use super::Check;

/// Where the recorder puts device memory, and a replay puts it again.
const ARENA: usize = 0x1000_0000_0000;
/// Of one device.
const ARENA_BYTES: usize = 0x200_0000_0000;
/// Page-locked memory that staging takes at least, bytes.
const LOCKED: u64 = 64 << 20;

pub fn checks() -> Vec<Check> {
    vec![glibc(), arena(), address_space(), memlock(), ptrace(), temporary_files()]
}

fn glibc() -> Check {
    // SAFETY: glibc returns static text.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    // Programs that run have all that they need of it.
    Check::ok("glibc", version.to_string_lossy())
}

/// Whether the recorded addresses are free in a new process.
fn arena() -> Check {
    // SAFETY: a reservation without access at an address that is not replaced, taken back at once.
    let free = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let place = libc::mmap(ARENA as *mut libc::c_void, ARENA_BYTES, libc::PROT_NONE, flags, -1, 0);
        let found = place as usize == ARENA;
        if place != libc::MAP_FAILED {
            libc::munmap(place, ARENA_BYTES);
        }
        found
    };
    if free {
        return Check::ok("arena", format!("addresses from 0x{ARENA:x} are free"));
    }
    let error = std::io::Error::last_os_error();
    Check::missing(
        "arena",
        format!("2 TiB of addresses from 0x{ARENA:x} cannot be reserved ({error})"),
        "lift the limit on address space (ulimit -v unlimited), and leave out tools that lay memory out their own way (sanitizers, valgrind)",
    )
}

fn address_space() -> Check {
    match getrlimit(Resource::RLIMIT_AS) {
        Ok((soft, _)) if soft != libc::RLIM_INFINITY => Check::missing(
            "ulimit -v",
            format!("addresses are limited to {} MiB", soft >> 20),
            "ulimit -v unlimited: memory is recorded and replayed at its own addresses, which are far apart",
        ),
        _ => Check::ok("ulimit -v", "unlimited"),
    }
}

fn memlock() -> Check {
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if soft < LOCKED => Check::absent(
            "memlock",
            format!("{} KiB may be locked", soft >> 10),
            "NVIDIA's driver locks memory by itself; where page-locked allocations fail, ulimit -l unlimited",
        ),
        Ok((soft, _)) if soft != libc::RLIM_INFINITY => Check::ok("memlock", format!("{} MiB", soft >> 20)),
        _ => Check::ok("memlock", "unlimited"),
    }
}

/// Debuggers and profilers under a replay attach to processes.
fn ptrace() -> Check {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    match scope.as_deref().map(str::trim).and_then(|scope| scope.parse::<u32>().ok()) {
        Some(scope) if scope >= 2 => Check::absent(
            "ptrace",
            format!("kernel.yama.ptrace_scope is {scope}: debuggers attach to nothing"),
            "sysctl kernel.yama.ptrace_scope=1, for debuggers alone; recording and replaying need none",
        ),
        _ => Check::ok("ptrace", "programs of one's own can be debugged"),
    }
}

fn temporary_files() -> Check {
    match tempfile::tempfile() {
        Ok(_) => Check::ok("tmp", std::env::temp_dir().display().to_string()),
        Err(error) => Check::missing(
            "tmp",
            format!("no file can be made in {}: {error}", std::env::temp_dir().display()),
            "set TMPDIR to a folder that can be written to",
        ),
    }
}
