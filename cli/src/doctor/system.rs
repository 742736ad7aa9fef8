//! Checks the operating system: glibc, addresses, limits and permissions.

use std::ffi::CStr;

use nix::sys::resource::{Resource, getrlimit};

use super::Check;

/// The address of device memory in recordings and replays.
const ARENA: usize = 0x1000_0000_0000;
/// Address space of one device.
const ARENA_BYTES: usize = 0x200_0000_0000;
/// Minimum of page-locked memory that staging needs, bytes.
const LOCKED: u64 = 64 << 20;

pub fn checks() -> Vec<Check> {
    vec![glibc(), arena(), address_space(), memlock(), ptrace(), temporary_files()]
}

fn glibc() -> Check {
    // SAFETY: glibc returns static text.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    // Mneme's programs run, so this glibc is sufficient.
    Check::ok("glibc", version.to_string_lossy())
}

/// Whether the recorded addresses are free in a new process.
fn arena() -> Check {
    // SAFETY: this reserves unused addresses without access, and releases them at once.
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
        "remove the limit on address space (ulimit -v unlimited), and do not use tools with their own memory layout (sanitizers, valgrind)",
    )
}

fn address_space() -> Check {
    match getrlimit(Resource::RLIMIT_AS) {
        Ok((soft, _)) if soft != libc::RLIM_INFINITY => Check::missing(
            "ulimit -v",
            format!("addresses are limited to {} MiB", soft >> 20),
            "ulimit -v unlimited: memory is recorded and replayed at fixed addresses, which are far apart",
        ),
        _ => Check::ok("ulimit -v", "unlimited"),
    }
}

fn memlock() -> Check {
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if soft < LOCKED => Check::absent(
            "memlock",
            format!("{} KiB may be locked", soft >> 10),
            "NVIDIA's driver locks memory by itself; if page-locked allocations fail, ulimit -l unlimited",
        ),
        Ok((soft, _)) if soft != libc::RLIM_INFINITY => Check::ok("memlock", format!("{} MiB", soft >> 20)),
        _ => Check::ok("memlock", "unlimited"),
    }
}

/// Debuggers and profilers must be able to attach to replays.
fn ptrace() -> Check {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    match scope.as_deref().map(str::trim).and_then(|scope| scope.parse::<u32>().ok()) {
        Some(scope) if scope >= 2 => Check::absent(
            "ptrace",
            format!("kernel.yama.ptrace_scope is {scope}, so debuggers cannot attach"),
            "for debuggers, sysctl kernel.yama.ptrace_scope=1; recording and replaying do not need it",
        ),
        _ => Check::ok("ptrace", "your own programs can be debugged"),
    }
}

fn temporary_files() -> Check {
    match tempfile::tempfile() {
        Ok(_) => Check::ok("tmp", std::env::temp_dir().display().to_string()),
        Err(error) => Check::missing(
            "tmp",
            format!("cannot create a file in {}: {error}", std::env::temp_dir().display()),
            "set TMPDIR to a writable folder",
        ),
    }
}
