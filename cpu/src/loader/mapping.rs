//! The memory of a loaded object.

use std::io::{Error, Result};

use crate::architecture::{self, PAGE};

/// Objects start at multiples of this, so that reserving the pages of one's variables (2 MiB granularity) never touches
/// another.
const SLOT: u64 = 2 << 20;

/// Where objects are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementRange {
    /// Objects compiled here from IR: the application's own modules.
    Application,
    /// Objects loaded as they are. A replayer loads those beside memory it has reserved at recorded addresses, among
    /// them variables of [`PlacementRange::Application`], and must not find that range taken.
    Replay,
}

impl PlacementRange {
    /// Behind the device's allocations. Below these a recorder has an arena of 2 TiB for each device, 16 of which end
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
            // SAFETY: a new mapping that replaces none.
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
                // Kernels before 4.17 take the address for a hint.
                // SAFETY: the mapping was just made and nobody knows of it.
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

    /// Writes the contents and gives each page range (offset, size, protection) its protection; none is both writable
    /// and executable.
    pub fn fill(&self, contents: &[u8], protections: &[(u64, u64, i32)]) -> Result<()> {
        let length = contents.len().min(self.size as usize);
        // SAFETY: the mapping is ours, writable and at least `length` bytes long.
        unsafe { std::ptr::copy_nonoverlapping(contents.as_ptr(), self.start as *mut u8, length) };
        architecture::publish_code(self.start as usize, length);
        for (offset, size, protection) in protections {
            // SAFETY: the range lies in our mapping; nobody holds references into it.
            if unsafe { libc::mprotect((self.start + offset) as *mut _, *size as usize, *protection) } != 0 {
                return Err(Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Drop for ObjectMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; the module that owned it has been unloaded.
        unsafe { libc::munmap(self.start as *mut _, self.size as usize) };
    }
}
