//! The layout of the data that instrumented code and the replayer share.
//!
//! A variable holds all addresses; the other constants describe the form of the notes. All words are 64 bits, little
//! endian.

/// The variable, [`WORDS`] words in global memory. Fill it in before launching the code.
pub const STATE: &str = "__mneme_state";
pub const WORDS: usize = 17;

/// Indices in [`STATE`].
pub mod word {
    /// Address of the table of live memory (pairs of first and last + 1 address, ascending), and the number of pairs.
    pub const TABLE: usize = 0;
    pub const TABLE_LENGTH: usize = 1;
    /// Address of the notes on faults: [`super::ENTRY`] bytes for each site and fault, zero at first.
    pub const NOTES: usize = 2;
    /// Address of memory that replaces forbidden memory: [`super::SINK`] bytes that are only read, then as many that
    /// are written.
    pub const SINK: usize = 3;
    /// Address of the shadow of shared memory for a window of blocks, and its bytes for each block.
    pub const SHADOW: usize = 4;
    pub const SHADOW_STRIDE: usize = 5;
    /// Address of clocks of the threads and warps of the window's blocks: 4 bytes for each thread, then for each of
    /// [`super::WARPS`] warps.
    pub const CLOCKS: usize = 6;
    /// The first block of the window, and the number of its blocks.
    pub const FIRST_BLOCK: usize = 7;
    pub const BLOCKS: usize = 8;
    /// Dynamic shared memory of the launch, bytes.
    pub const DYNAMIC_SHARED: usize = 9;
    /// The watched addresses: first, and last + 1.
    pub const WATCH: usize = 10;
    pub const WATCH_END: usize = 11;
    /// Address of the notes on writes: a count, then [`super::RING`] records.
    pub const WRITES: usize = 12;
    /// Address of the marks: [`super::MARKS`] bytes for each unit of live memory, zero at first; of the numbers of the
    /// first unit of each range in the table; and the binary logarithm of a unit's bytes ([`super::SECTOR`] or
    /// [`super::GRANULE`]).
    pub const MARKED: usize = 13;
    pub const FIRST_MARKS: usize = 14;
    pub const MARK_SHIFT: usize = 15;
    /// Address of the counts of floating-point operations: [`super::COUNTS`] slots, zero at first.
    pub const PERFORMED: usize = 16;
}

/// Bytes of memory that share a mark: a sector, the least that a GPU moves, or for large memory a granule.
pub const SECTOR: u64 = 32;
pub const GRANULE: u64 = 64 * 1024;
/// Marks of a unit, a byte each: whether it is read ([`READ_FIRST`]: before it is written), and whether it is written.
pub const MARKS: usize = 2;
pub const READ_FIRST: u8 = 2;
/// Slots among which blocks divide the counts, so that few processors add to the same memory, and the words of a slot.
/// The first [`WIDTHS`] count operations on numbers of 16, 32 and 64 bits.
pub const COUNTS: usize = 64;
pub const COUNT_WORDS: usize = 8;
pub const WIDTHS: usize = 3;
/// Faults of a site, in the order of `mneme_model::observation::Fault::ALL`.
pub const FAULTS: usize = 4;
/// The number of noted occurrences of a fault at a site.
pub const EXAMPLES: usize = 4;
/// Words of an occurrence: block, thread, address, bytes, detail.
pub const EXAMPLE_WORDS: usize = 5;
/// Bytes of the notes on one fault of one site: a count, then the occurrences.
pub const ENTRY: usize = 8 + EXAMPLES * EXAMPLE_WORDS * 8;
/// Details of an address outside all memory, and of one in shared memory outside all variables. For other addresses
/// outside a variable, the detail is the offset from it.
pub const NO_MEMORY: u64 = i64::MIN as u64;
pub const NO_SHARED: u64 = NO_MEMORY + 1;
/// The largest access that is redirected, bytes.
pub const SINK: usize = 4096;
/// The maximum number of warps in a block.
pub const WARPS: usize = 32;
/// Bytes of shadow for four bytes of shared memory.
pub const SHADOW_WORD: u64 = 40;
/// The number of last writes that are kept.
pub const RING: usize = 64;
/// Words of a write: its number (from 1), site, block, thread, address, bytes, the watched bytes after it.
pub const WRITE_WORDS: usize = 8;
