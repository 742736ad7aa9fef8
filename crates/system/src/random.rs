//! Random numbers of the system, for names that no other process has.
//!
//! A process id names a process in one PID namespace, for as long as the process lives. Containers that share a folder
//! have equal ids, and so have processes that follow each other. What processes leave for each other is therefore named
//! at random.

use std::fs::File;
use std::io::{self, Read};

/// A name of 32 hexadecimal digits: 128 random bits.
///
/// # Errors
/// The system has no random numbers: an old kernel in a folder without `/dev/urandom`.
pub fn name() -> io::Result<String> {
    bytes().map(|bytes| format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// 64 random bits.
///
/// # Errors
/// As [`name`].
pub fn number() -> io::Result<u64> {
    bytes().map(u64::from_le_bytes)
}

/// Random bytes, a few.
///
/// # Errors
/// As [`name`].
pub fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    const { assert!(COUNT <= 256, "the system gives so many at once, uninterrupted") };
    let mut bytes = [0; COUNT];
    // By its number: the C library has the function since 2.25, and older ones are promised.
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
