//! Reads the application's memory without faulting.
//!
//! Memory may be gone although it is registered with the driver, because the application can unmap or protect its pages
//! at any time. A fault would reach the application's signal handler or end it.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};

/// Copies memory at an address of this process. Returns false if some of it cannot be read.
pub fn read(address: u64, place: &mut [u8]) -> bool {
    // `process_vm_readv` copies once, but it cannot read a driver's own mappings, and some systems forbid it.
    read_by_call(address, place) || read_by_pipe(address, place)
}

fn read_by_call(address: u64, place: &mut [u8]) -> bool {
    in_steps(address, place, |address, place| {
        let local = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: place.len() };
        // SAFETY: so many bytes at most are written to the place; the system checks the other address.
        unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) }
    })
}

/// Writes the memory into a pipe; the system checks the address as it does for any program's output.
fn read_by_pipe(address: u64, place: &mut [u8]) -> bool {
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return false;
    }
    // SAFETY: just opened, and owned here alone.
    let [mut out, into] = ends.map(|end| unsafe { File::from_raw_fd(end) });
    in_steps(address, place, |address, place| {
        // SAFETY: the system checks the address.
        let count = unsafe { libc::write(into.as_raw_fd(), address as *const _, place.len()) };
        match usize::try_from(count) {
            Ok(count) if out.read_exact(&mut place[..count]).is_err() => -1,
            _ => count,
        }
    })
}

/// Fills a buffer by calling `step`, which returns how many bytes it copied; less than one is a failure.
fn in_steps(address: u64, place: &mut [u8], mut step: impl FnMut(u64, &mut [u8]) -> isize) -> bool {
    let mut done = 0;
    while done < place.len() {
        match address.checked_add(done as u64).map(|address| step(address, &mut place[done..])) {
            Some(count @ 1..) => done += count as usize,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole pages of every system.
    const PAGE: usize = 64 << 10;

    #[test]
    fn what_is_gone_is_told_and_what_is_there_is_read() {
        // SAFETY: a new mapping of the system's choice.
        let pages = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), 3 * PAGE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
                .cast::<u8>()
        };
        // SAFETY: the mapping just made; its last page goes.
        unsafe {
            pages.write_bytes(7, 3 * PAGE);
            assert_eq!(libc::munmap(pages.add(2 * PAGE).cast(), PAGE), 0);
        }
        let start = pages as u64;
        let mut place = [0; 2 * PAGE];
        for read in [read_by_call, read_by_pipe] {
            place.fill(0);
            assert!(read(start, &mut place) && place == [7; 2 * PAGE]);
            assert!(!read(start + 1, &mut place), "its last byte is in the page that is gone");
            assert!(!read(0, &mut place[..1]) && !read(u64::MAX - 10, &mut place[..4]) && read(0, &mut []));
        }
        // SAFETY: the mapping made above.
        unsafe { assert_eq!(libc::mprotect(pages.cast(), PAGE, libc::PROT_NONE), 0) };
        for read in [read_by_call, read_by_pipe] {
            assert!(!read(start, &mut place[..1]) && read(start + PAGE as u64, &mut place[..1]));
        }
        // SAFETY: as above.
        unsafe { libc::munmap(pages.cast(), 2 * PAGE) };
    }
}
