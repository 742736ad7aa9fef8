//! The limit on the address space of this process (`RLIMIT_AS`, `ulimit -v`).

use std::fs::File;
use std::io::Read;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// Whether the limit leaves so many bytes, as far as is known. A process may set it below what it has in use.
pub fn has_room(bytes: usize) -> bool {
    match getrlimit(Resource::RLIMIT_AS) {
        Ok((limit, _)) if limit != RLIM_INFINITY => is_within(limit, used(), bytes as u64),
        _ => true,
    }
}

fn is_within(limit: u64, used: Option<u64>, bytes: u64) -> bool {
    used.unwrap_or(0).saturating_add(bytes) <= limit
}

/// Bytes of address space in use.
fn used() -> Option<u64> {
    let mut text = [0; 128];
    let length = File::open("/proc/self/statm").and_then(|mut file| file.read(&mut text)).ok()?;
    let pages: u64 = std::str::from_utf8(&text[..length]).ok()?.split_whitespace().next()?.parse().ok()?;
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.checked_mul(u64::try_from(page).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_counts() {
        assert!(used().unwrap() > 1 << 20);
        assert!(is_within(100, Some(60), 40) && !is_within(100, Some(60), 41) && !is_within(100, Some(160), 0));
        assert!(has_room(0) && is_within(100, None, 100), "not known");
    }
}
