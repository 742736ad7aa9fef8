//! Closes descriptors that a process has inherited.
//!
//! Since Linux 5.9, one call closes a range of them. On older kernels, as in RHEL 8, this module lists `/proc/self/fd`.

use std::ffi::CStr;

/// Offsets of the length and the name in `struct linux_dirent64`.
const LENGTH: usize = 16;
const NAME: usize = 19;

/// Closes the open descriptors from `first` to `last`. If the kernel supports neither closing ranges nor `/proc`, they
/// stay open. Does not allocate, so you may call it after a fork in a process with threads.
///
/// # Safety
/// These descriptors must no longer be in use.
pub unsafe fn close_range(first: u32, last: u32) {
    if first > last {
        return;
    }
    // SAFETY: the call does not take pointers, and the caller guarantees that the descriptors are unused.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } < 0 {
        // SAFETY: as above.
        unsafe { close_each(first, last) };
    }
}

/// # Safety
/// See [`close_range`].
unsafe fn close_each(first: u32, last: u32) {
    // SAFETY: a string that ends.
    let folder = unsafe { libc::open(c"/proc/self/fd".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    if folder < 0 {
        return;
    }
    let mut entries = [0u8; 4096];
    loop {
        // SAFETY: the kernel writes at most the passed length.
        let filled = unsafe { libc::syscall(libc::SYS_getdents64, folder, entries.as_mut_ptr(), entries.len()) };
        let Some(mut rest) = usize::try_from(filled).ok().filter(|filled| *filled > 0).map(|filled| &entries[..filled])
        else {
            break;
        };
        // The kernel continues after the last number that it returned, even if descriptors have been closed since.
        while let Some(&[low, high]) = rest.get(LENGTH..LENGTH + 2) {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let Some(entry) = rest.get(..length).filter(|_| length > 0) else { break };
            if let Some(descriptor) = entry.get(NAME..).and_then(number)
                && descriptor.cast_unsigned() >= first
                && descriptor.cast_unsigned() <= last
                && descriptor != folder
            {
                // SAFETY: the caller guarantees that the descriptor is unused.
                unsafe { libc::close(descriptor) };
            }
            rest = &rest[length..];
        }
    }
    // SAFETY: opened above.
    unsafe { libc::close(folder) };
}

fn number(name: &[u8]) -> Option<libc::c_int> {
    CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(descriptor: libc::c_int) -> bool {
        // SAFETY: takes no pointers.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
    }

    fn closes(from: libc::c_int, close: unsafe fn(u32, u32)) {
        // More descriptors than one call lists.
        let copies: Vec<_> = (0..300)
            // SAFETY: takes no pointers; standard error is open in every test.
            .map(|n| unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, from + n) })
            .collect();
        let (first, last) = (copies[1], copies[298]);
        // SAFETY: opened above, in a range where no other test has any.
        unsafe { close(first.cast_unsigned(), last.cast_unsigned()) };
        let open: Vec<_> = copies.iter().filter(|copy| is_open(**copy)).collect();
        assert_eq!(open, [&copies[0], &copies[299]]);
    }

    #[test]
    fn a_range_is_closed_where_the_kernel_does_it_and_where_it_does_not() {
        closes(300, close_range);
        closes(650, close_each);
    }
}
