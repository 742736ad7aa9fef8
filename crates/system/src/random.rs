//! Random numbers from the system, for globally unique names.
//!
//! A process id identifies a process in one PID namespace, for as long as the process lives. Containers that share a
//! folder have equal ids, and so have consecutive processes. Files for other processes therefore have random names.

use std::fs::File;
use std::io::{self, Read};

/// A name of 32 hexadecimal digits: 128 random bits.
///
/// # Errors
/// The system cannot provide random numbers: an old kernel, in a folder without `/dev/urandom`.
pub fn name() -> io::Result<String> {
    bytes().map(|bytes| format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// 64 random bits.
///
/// # Errors
/// See [`name`].
pub fn number() -> io::Result<u64> {
    bytes().map(u64::from_le_bytes)
}

/// A few random bytes.
///
/// # Errors
/// See [`name`].
pub fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    const { assert!(COUNT <= 256, "the system gives so many at once, uninterrupted") };
    let mut bytes = [0; COUNT];
    // By number: the C library has the function since 2.25, but Mneme supports older versions.
    // SAFETY: valid for as many bytes.
    let given = unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), COUNT, libc::GRND_NONBLOCK) };
    if usize::try_from(given) != Ok(COUNT) {
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_differ() {
        let names: HashSet<String> = (0..1000).map(|_| name().unwrap()).collect();
        assert!(names.len() == 1000 && names.iter().all(|name| name.len() == 32));
        assert_ne!(number().unwrap(), number().unwrap());
    }
}
