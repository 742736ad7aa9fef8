//! Computes the identities of chunks on the device that holds them, and finds the addresses in them.
//!
//! The tables of input and results are in page-locked host memory. The recorder thus takes no device memory, and the
//! amount of free memory that the application sees stays right.

use std::ffi::{CStr, c_void};
use std::ops::Range;

use mneme_model::hash::ChunkId;

use super::PATIENCE;
use super::pinned::Pinned;
use crate::driver::waiting::OwnStream;
use crate::driver::{self, CUfunction, CUmodule, Status};
use crate::snapshot::chunk_hash::{self, Stretch};

/// How many entries the smallest table has.
const LEAST: usize = 64 << 10;

/// The kernel that finds addresses in memory, in PTX like [`chunk_hash::CODE`].
const SCAN: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("address_scan.ptx"), "\0").as_bytes()) {
    Ok(code) => code,
    Err(_) => panic!("PTX has no NUL but the one appended"),
};
const SCAN_ENTRY: &CStr = c"mneme_address_scan";

/// The kernels in one context, and their tables.
pub struct Hasher {
    function: CUfunction,
    /// Compiled by the driver at its first use.
    scan: Option<CUfunction>,
    own: OwnStream,
    tables: Option<Tables>,
}

struct Tables {
    stretches: Pinned,
    ids: Pinned,
    entries: usize,
}

// SAFETY: driver handles may be used from any thread; one thread at a time has a hasher.
unsafe impl Send for Hasher {}

/// Loads a kernel into the current context, bypassing the hooks.
fn load(code: &CStr, entry: &CStr) -> Result<CUfunction, Status> {
    let mut module: CUmodule = std::ptr::null_mut();
    let mut function: CUfunction = std::ptr::null_mut();
    // SAFETY: valid places for the results; the code and the name end with NUL.
    unsafe {
        check(driver::hooked::cuModuleLoadData::call(&mut module, code.as_ptr().cast()))?;
        check(driver::hooked::cuModuleGetFunction::call(&mut function, module, entry.as_ptr()))?;
    }
    Ok(function)
}

fn check(status: Status) -> Result<(), Status> {
    if status == Status::SUCCESS { Ok(()) } else { Err(status) }
}

impl Tables {
    /// Their addresses on the device.
    fn addresses(&self) -> Result<(u64, u64), Status> {
        self.stretches.device().zip(self.ids.device()).ok_or(Status::INVALID_VALUE)
    }
}

impl Hasher {
    /// Loads the hashing kernel into the current context. It runs on this private stream of the context. Fails if the
    /// driver does not accept PTX.
    pub fn load(own: OwnStream) -> Result<Self, Status> {
        Ok(Self { function: load(chunk_hash::CODE, chunk_hash::ENTRY)?, scan: None, own, tables: None })
    }

    /// Ensures that the tables have room for this many stretches; call it before [`Hasher::hash`].
    pub fn with_tables_for(mut self, entries: usize) -> Result<Self, Status> {
        if self.tables.as_ref().is_none_or(|tables| tables.entries < entries) {
            if let Some(small) = self.tables.take() {
                small.stretches.unregister();
                small.ids.unregister();
            }
            let entries = entries.next_power_of_two().max(LEAST);
            let table = || Pinned::new(entries * size_of::<Stretch>());
            let tables = Tables { stretches: table()?, ids: table()?, entries };
            if tables.stretches.device().is_none() || tables.ids.device().is_none() {
                tables.stretches.unregister();
                tables.ids.unregister();
                return Err(Status::OUT_OF_MEMORY);
            }
            self.tables = Some(tables);
        }
        Ok(self)
    }

    /// The identities of stretches of live memory in order. Each stretch is at most a chunk.
    pub fn hash(&mut self, stretches: &[Stretch]) -> Result<Vec<ChunkId>, Status> {
        if stretches.is_empty() {
            return Ok(Vec::new());
        }
        let tables = self.tables_with(stretches)?;
        let (table, ids) = tables.addresses()?;
        // SAFETY: the kernel takes these two parameters, reads live, aligned memory, and writes inside its table.
        unsafe { self.run(self.function, stretches.len(), [table, ids])? };
        // SAFETY: the kernel has ended.
        let found = unsafe { tables.ids.bytes() };
        Ok(chunk_hash::ids(&found[..stretches.len() * 16]).collect())
    }

    /// Which of these sorted, disjoint ranges the words of the stretches lead into. The tables must have room for all
    /// stretches and for twice the number of ranges.
    pub fn find(&mut self, stretches: &[Stretch], ranges: &[Range<u64>]) -> Result<Vec<bool>, Status> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(Vec::new()) };
        let scan = match self.scan {
            Some(scan) => scan,
            None => *self.scan.insert(load(SCAN, SCAN_ENTRY)?),
        };
        let tables = self.tables_with(stretches)?;
        let bounds: Vec<[u64; 2]> = ranges.iter().map(|range| [range.start, range.end]).collect();
        if tables.entries < 2 * bounds.len() {
            return Err(Status::INVALID_VALUE);
        }
        // The results follow the ranges.
        let (bytes, count) = (size_of_val(&bounds[..]), bounds.len());
        // SAFETY: the table has room for both and page alignment, and no kernel uses it.
        unsafe {
            std::ptr::copy_nonoverlapping(bounds.as_ptr(), tables.ids.as_ptr().cast(), count);
            tables.ids.as_ptr().add(bytes).write_bytes(0, count * 4);
        }
        let (table, ids) = tables.addresses()?;
        let parameters = [table, ids, count as u64, first.start, last.end - first.start, ids + bytes as u64];
        // SAFETY: the kernel takes these parameters, reads live, aligned memory, and writes inside its table.
        unsafe { self.run(scan, stretches.len(), parameters)? };
        // SAFETY: the kernel has ended.
        let found = unsafe { tables.ids.bytes() };
        Ok(found[bytes..][..count * 4].as_chunks::<4>().0.iter().map(|found| *found != [0; 4]).collect())
    }

    /// The tables, with these stretches in the first.
    fn tables_with(&self, stretches: &[Stretch]) -> Result<&Tables, Status> {
        let tables =
            self.tables.as_ref().filter(|tables| tables.entries >= stretches.len()).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: the table has room for them and page alignment, and no kernel reads it.
        unsafe { std::ptr::copy_nonoverlapping(stretches.as_ptr(), tables.stretches.as_ptr().cast(), stretches.len()) };
        Ok(tables)
    }

    /// Runs a kernel with a block for each stretch and waits for it. [`Status::NOT_READY`] if it does not finish in
    /// time.
    ///
    /// # Safety
    /// The kernel takes these parameters, and the addresses among them are valid.
    unsafe fn run<const N: usize>(
        &self,
        function: CUfunction,
        stretches: usize,
        mut values: [u64; N],
    ) -> Result<(), Status> {
        let Ok(blocks) = u32::try_from(stretches) else { return Err(Status::INVALID_VALUE) };
        let mut parameters = values.each_mut().map(|value| std::ptr::from_mut(value).cast::<c_void>());
        let (threads, parameters, none) = (chunk_hash::THREADS, parameters.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the caller's promise.
        unsafe {
            check(driver::hooked::cuLaunchKernel::call(
                function, blocks, 1, 1, threads, 1, 1, 0, self.own.stream, parameters, none,
            ))?;
        }
        check(self.own.finish(PATIENCE))
    }
}
