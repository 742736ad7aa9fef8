//! Device memory into the chunk store, through page-locked buffers.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, PoisonError};

use cudarc::driver::sys::CUstream_flags;
use mneme_core::hash::ChunkId;
use mneme_core::recording::RecordingError;
use mneme_core::recording::manifest::{Allocation, AllocationKind, CHUNK, Header, Moment, State, Variable};
use mneme_core::recording::store::StoreWriter;

use crate::vendor::{self, CUstream, SUCCESS, Status};

/// Size of one staging buffer, bytes; a multiple of the chunk size.
const PIECE: usize = 128 * CHUNK as usize;
const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Store(#[from] RecordingError),
    #[error("{bytes} bytes at {address:#x} could not be read (CUDA error {status})")]
    Copy { address: u64, bytes: usize, status: Status },
    #[error("no page-locked memory for copies (CUDA error {0})")]
    Staging(Status),
}

/// Two page-locked buffers and a stream of our own in one context: one piece is on its way while the other is stored.
struct Staging {
    buffers: [*mut c_void; 2],
    stream: CUstream,
}

// SAFETY: driver handles and page-locked memory may be used from any thread; one thread has a staging at a time.
unsafe impl Send for Staging {}

static IDLE: LazyLock<Mutex<HashMap<usize, Staging>>> = LazyLock::new(Mutex::default);

fn idle() -> std::sync::MutexGuard<'static, HashMap<usize, Staging>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets what a dead context owned.
pub fn forget_context(context: usize) {
    idle().remove(&context);
}

/// Forgets every context's, where it is not known which one has died; the others' is made anew.
pub fn forget_all_contexts() {
    idle().clear();
}

impl Staging {
    fn create() -> Result<Self, SnapshotError> {
        let mut staging = Self { buffers: [std::ptr::null_mut(); 2], stream: std::ptr::null_mut() };
        // SAFETY: valid places for the results.
        let status = unsafe {
            let mut status = vendor::cuStreamCreate(&mut staging.stream, NON_BLOCKING);
            for buffer in &mut staging.buffers {
                if status == SUCCESS {
                    status = vendor::hooked::cuMemHostAlloc::call(buffer, PIECE, 0);
                }
            }
            status
        };
        if status == SUCCESS { Ok(staging) } else { Err(SnapshotError::Staging(status)) }
    }

    /// Starts copying a piece of a region into one of the buffers.
    fn fetch(&self, region: &Region, offset: u64, which: usize) -> Result<usize, SnapshotError> {
        let bytes = (PIECE as u64).min(region.size - offset) as usize;
        let address = region.address + offset;
        if region.host {
            // SAFETY: the application's page-locked memory is alive (its release waits at the gate); it is only read.
            unsafe { std::ptr::copy(address as *const u8, self.buffers[which].cast(), bytes) };
            return Ok(bytes);
        }
        // SAFETY: the buffer has PIECE bytes and its last copy has been waited for; a bad source is the driver's error.
        let status = unsafe { vendor::hooked::cuMemcpyDtoHAsync_v2::call(self.buffers[which], address, bytes, self.stream) };
        if status == SUCCESS { Ok(bytes) } else { Err(SnapshotError::Copy { address, bytes, status }) }
    }

    fn store(&self, region: &Region, store: &StoreWriter) -> Result<Vec<ChunkId>, SnapshotError> {
        let mut ids = Vec::with_capacity(region.size.div_ceil(CHUNK) as usize);
        if region.size == 0 {
            return Ok(ids);
        }
        let (mut offset, mut which) = (0, 0);
        let mut bytes = self.fetch(region, 0, which)?;
        loop {
            // SAFETY: our own stream.
            let status = unsafe { vendor::cuStreamSynchronize(self.stream) };
            if status != SUCCESS {
                return Err(SnapshotError::Copy { address: region.address + offset, bytes, status });
            }
            // SAFETY: the copy of `bytes` bytes into this buffer is complete and the next one goes to the other.
            let piece = unsafe { std::slice::from_raw_parts(self.buffers[which].cast::<u8>(), bytes) };
            offset += bytes as u64;
            let next = if offset < region.size { Some(self.fetch(region, offset, 1 - which)?) } else { None };
            ids.extend(store.put_region(piece)?);
            match next {
                Some(next) => (bytes, which) = (next, 1 - which),
                None => return Ok(ids),
            }
        }
    }
}

struct Region {
    address: u64,
    size: u64,
    host: bool,
}

/// Takes the state of these variables and allocations in the current context, which must be idle.
pub fn take(
    context: usize,
    moment: Moment,
    variables: &[Variable],
    allocations: &[Allocation],
    store: &StoreWriter,
) -> Result<State, SnapshotError> {
    let known = idle().remove(&context);
    let staging = match known {
        Some(staging) => staging,
        None => Staging::create()?,
    };
    let variable_regions = variables.iter().map(|variable| Region { address: variable.address, size: variable.size, host: false });
    let allocation_regions = allocations.iter().map(|allocation| Region {
        address: allocation.address,
        size: allocation.size,
        host: allocation.kind == AllocationKind::Host,
    });
    let chunks = variable_regions.chain(allocation_regions).map(|region| staging.store(&region, store)).collect::<Result<_, _>>();
    idle().insert(context, staging);
    let header = Header { moment, variables: variables.to_vec(), allocations: allocations.to_vec(), arguments: Vec::new() };
    Ok(State { header, chunks: chunks? })
}
