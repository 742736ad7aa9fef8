//! The memory of a loaded object.

use std::io::{Error, Result};

use crate::architecture::{self, PAGE};

/// Objects start at multiples of this. Reserving the pages of one object's variables (2 MiB granularity) therefore
/// never touches another object.
const SLOT: u64 = 2 << 20;

/// The address range in which an object is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementRange {
    /// For objects compiled from IR by this process: the application's own modules.
    Application,
    /// For objects that are loaded as such. A replayer loads them beside memory that it has reserved at recorded
    /// addresses, which include variables in [`PlacementRange::Application`], so that range must stay free.
    Replay,
}

impl PlacementRange {
    /// Above the device's allocations. Below these, a recorder has an arena of 2 TiB for each device; 16 of these end
    /// at 0x3000_0000_0000.
    fn bounds(self) -> (u64, u64) {
        match self {
            PlacementRange::Application => (0x5000_0000_0000, 0x5200_0000_0000),
            PlacementRange::Replay => (0x5200_0000_0000, 0x5400_0000_0000),
        }
    }
}

#[derive(Debug)]
pub struct ObjectMapping {
    start: u64,
    size: u64,
}

impl ObjectMapping {
    /// Reserves `size` bytes at the first free slot.
    pub fn reserve(range: PlacementRange, size: u64) -> Result<Self> {
        let size = size.max(1).next_multiple_of(PAGE);
        let (mut start, end) = range.bounds();
        while start + size <= end {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: a new mapping that replaces no other.
            let address =
                unsafe { libc::mmap(start as *mut _, size as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            if address as u64 == start {
                return Ok(Self { start, size });
            }
            if address == libc::MAP_FAILED {
                let error = Error::last_os_error();
                if error.raw_os_error() != Some(libc::EEXIST) {
                    return Err(error);
                }
            } else {
                // Kernels before 4.17 treat the address as a hint. SAFETY: the mapping was just made, and no pointer to
                // it exists.
                unsafe { libc::munmap(address, size as usize) };
            }
            start += SLOT.max(size.next_multiple_of(SLOT));
        }
        Err(Error::other("the address range for code objects is full"))
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.size) as usize
    }

    /// Writes the contents and sets the protection of each page range (offset, size, protection). No range is both
    /// writable and executable.
    pub fn fill(&self, contents: &[u8], protections: &[(u64, u64, i32)]) -> Result<()> {
        let length = contents.len().min(self.size as usize);
        // SAFETY: this object owns the mapping, which is writable and at least `length` bytes long.
        unsafe { std::ptr::copy_nonoverlapping(contents.as_ptr(), self.start as *mut u8, length) };
        architecture::publish_code(self.start as usize, length);
        for (offset, size, protection) in protections {
            // SAFETY: the range lies in this object's mapping, and no reference into it exists.
            if unsafe { libc::mprotect((self.start + offset) as *mut _, *size as usize, *protection) } != 0 {
                return Err(Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Drop for ObjectMapping {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, and the module that used it has been unloaded.
        unsafe { libc::munmap(self.start as *mut _, self.size as usize) };
    }
}
