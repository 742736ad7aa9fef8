//! Copies of arrays into memory that a snapshot can read.

use mneme_abi::cuda::structures::Copy3d;

use super::{PATIENCE, SnapshotError, late_or, with_reader};
use crate::driver::{self, Status};

/// Makes these copies in the current context, which must be idle, and waits for them.
pub fn copy(context: usize, copies: &[Copy3d]) -> Result<(), SnapshotError> {
    with_reader(context, |reader| {
        let stream = reader.own.stream;
        // SAFETY: descriptions that live until the call returns; the driver checks both sides.
        let start = |copy: &Copy3d| unsafe {
            match stream.is_null() {
                true => driver::hooked::cuMemcpy3D_v2::call(copy),
                false => driver::hooked::cuMemcpy3DAsync_v2::call(copy, stream),
            }
        };
        let started = copies.iter().map(start).find(|status| *status != Status::SUCCESS).unwrap_or(Status::SUCCESS);
        // After a failure too: earlier copies still write.
        let finished = if stream.is_null() { Status::SUCCESS } else { reader.own.finish(PATIENCE) };
        match (finished, started) {
            (Status::SUCCESS, Status::SUCCESS) => Ok(()),
            (Status::SUCCESS, status) => Err(SnapshotError::Array(status)),
            (status, _) => Err(late_or(status, SnapshotError::Array)),
        }
    })
}
