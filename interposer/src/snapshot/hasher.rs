//! Identities of chunks of device memory, computed where the memory is.
//!
//! The table of what to hash and the identities found lie in page-locked host memory, so that the recorder takes no device memory
//! and what the application is told about free memory stays true.

use std::ffi::c_void;

use mneme_core::chunk_hash::{self, Stretch};
use mneme_core::hash::ChunkId;

use super::pinned::Pinned;
use crate::vendor::{self, CUfunction, CUmodule, CUstream, SUCCESS, Status};

/// Entries of the smallest table.
const LEAST: usize = 64 << 10;

/// The kernel, loaded into one context, and its tables.
pub struct Hasher {
    function: CUfunction,
    stream: CUstream,
    tables: Option<Tables>,
}

struct Tables {
    stretches: Pinned,
    ids: Pinned,
    entries: usize,
}

// SAFETY: driver handles may be used from any thread; one thread has a hasher at a time.
unsafe impl Send for Hasher {}

fn check(status: Status) -> Result<(), Status> {
    if status == SUCCESS { Ok(()) } else { Err(status) }
}

impl Hasher {
    /// Loads the kernel into the current context, past the hooks; it will run on this stream, a private one of the context.
    pub fn load(stream: CUstream) -> Result<Self, Status> {
        let mut module: CUmodule = std::ptr::null_mut();
        let mut function: CUfunction = std::ptr::null_mut();
        // SAFETY: valid places for the results; the code and the name end with NUL.
        unsafe {
            check(vendor::hooked::cuModuleLoadData::call(&mut module, chunk_hash::CODE.as_ptr().cast()))?;
            check(vendor::hooked::cuModuleGetFunction::call(&mut function, module, chunk_hash::ENTRY.as_ptr()))?;
        }
        Ok(Self { function, stream, tables: None })
    }

    /// Has tables for so many stretches, which has to be asked for before [`Hasher::hash`].
    pub fn with_tables_for(mut self, entries: usize) -> Result<Self, Status> {
        if self.tables.as_ref().is_none_or(|tables| tables.entries < entries) {
            if let Some(small) = self.tables.take() {
                small.stretches.unregister();
                small.ids.unregister();
            }
            let entries = entries.next_power_of_two().max(LEAST);
            let table = || Pinned::new(entries * Stretch::SIZE);
            let tables = Tables { stretches: table()?, ids: table()?, entries };
            if tables.stretches.device().is_none() || tables.ids.device().is_none() {
                tables.stretches.unregister();
                tables.ids.unregister();
                return Err(vendor::OUT_OF_MEMORY);
            }
            self.tables = Some(tables);
        }
        Ok(self)
    }

    /// The identities of stretches of live memory, of at most a chunk each, in order.
    pub fn hash(&mut self, stretches: &[Stretch]) -> Result<Vec<ChunkId>, Status> {
        let Ok(blocks) = u32::try_from(stretches.len()) else { return Err(vendor::INVALID_VALUE) };
        if blocks == 0 {
            return Ok(Vec::new());
        }
        let (function, stream) = (self.function, self.stream);
        let tables = self.tables.as_ref().filter(|tables| tables.entries >= stretches.len()).ok_or(vendor::INVALID_VALUE)?;
        let (Some(mut table), Some(mut ids)) = (tables.stretches.device(), tables.ids.device()) else { return Err(vendor::INVALID_VALUE) };
        // SAFETY: the table has room for so many, is aligned to pages, and no kernel is reading it.
        unsafe { std::ptr::copy_nonoverlapping(stretches.as_ptr(), tables.stretches.as_ptr().cast(), stretches.len()) };
        let mut parameters: [*mut c_void; 2] = [(&raw mut table).cast(), (&raw mut ids).cast()];
        // SAFETY: the kernel takes these two parameters; it reads live, aligned memory and writes inside its table.
        unsafe {
            let (threads, parameters) = (chunk_hash::THREADS, parameters.as_mut_ptr());
            check(vendor::hooked::cuLaunchKernel::call(
                function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream,
                parameters,
                std::ptr::null_mut(),
            ))?;
            check(vendor::cuStreamSynchronize(stream))?;
        }
        // SAFETY: the kernel has ended.
        let found = unsafe { tables.ids.bytes() };
        Ok(chunk_hash::ids(&found[..stretches.len() * 16]).collect())
    }
}
