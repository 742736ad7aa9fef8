//! The layout of the data that instrumented code and the replayer share.
//!
//! A variable says where everything is; the rest is the form of what is noted.
//!
//! All words are 64 bits, little endian.

/// The variable, [`WORDS`] words in global memory. The code does nothing sensible before they are filled in.
pub const STATE: &str = "__mneme_state";
pub const WORDS: usize = 16;

/// Places in [`STATE`].
pub mod word {
    /// Where the table of live memory is: pairs of first and last + 1 address, ascending; and how many pairs.
    pub const TABLE: usize = 0;
    pub const TABLE_LENGTH: usize = 1;
    /// Where faults are noted: [`super::ENTRY`] bytes for each site and fault, zero at first.
    pub const NOTES: usize = 2;
    /// Memory that stands in for what must not be touched: [`super::SINK`] bytes that are only read, then as many that
    /// are written.
    pub const SINK: usize = 3;
    /// Shadow of the shared memory of a window of blocks, and its bytes for each block.
    pub const SHADOW: usize = 4;
    pub const SHADOW_STRIDE: usize = 5;
    /// Clocks of the threads and warps of the window's blocks: 4 bytes for each thread, then for each of
    /// [`super::WARPS`] warps.
    pub const CLOCKS: usize = 6;
    /// The first block of the window, and its blocks.
    pub const FIRST_BLOCK: usize = 7;
    pub const BLOCKS: usize = 8;
    /// Dynamic shared memory of the launch, bytes.
    pub const DYNAMIC_SHARED: usize = 9;
    /// The watched addresses: first, and last + 1.
    pub const WATCH: usize = 10;
    pub const WATCH_END: usize = 11;
    /// Where writes are noted: a count, then [`super::RING`] records.
    pub const WRITES: usize = 12;
    /// What was touched: [`super::MARKS`] bytes for each granule of live memory, zero at first. And the numbers of the
    /// first granule of each stretch of the table.
    pub const MARKED: usize = 13;
    pub const FIRST_GRANULES: usize = 14;
}

/// Bytes of memory that are marked together.
pub const GRANULE: u64 = 64 * 1024;
/// Marks of a granule, a byte each: it was read, it was written.
pub const MARKS: usize = 2;
/// Faults of a site, in the order of `mneme_model::observation::Fault::ALL`.
pub const FAULTS: usize = 4;
/// Occurrences of a fault at a site that are noted.
pub const EXAMPLES: usize = 4;
/// Words of an occurrence: block, thread, address, bytes, detail.
pub const EXAMPLE_WORDS: usize = 5;
/// Bytes of the notes on one fault of one site: a count, then the occurrences.
pub const ENTRY: usize = 8 + EXAMPLES * EXAMPLE_WORDS * 8;
/// Details of an address outside of all memory, and of one in shared memory outside of all variables. Of others outside
/// of a variable it is the offset there.
pub const NO_MEMORY: u64 = i64::MIN as u64;
pub const NO_SHARED: u64 = NO_MEMORY + 1;
/// The largest access that is redirected, bytes.
pub const SINK: usize = 4096;
/// Warps of a block at most.
pub const WARPS: usize = 32;
/// Bytes of shadow for four bytes of shared memory.
pub const SHADOW_WORD: u64 = 40;
/// The last writes that are kept.
pub const RING: usize = 64;
/// Words of a write: its number (from 1), site, block, thread, address, bytes, the watched bytes after it.
pub const WRITE_WORDS: usize = 8;
