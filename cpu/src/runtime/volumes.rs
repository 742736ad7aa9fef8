//! Three-dimensional memory: allocations with a pitch, fills and copies slice by slice.
//!
//! There are no arrays.

use mneme_abi::cuda::runtime_structures::VolumeCopy;
use mneme_abi::cuda::structures::Copy3d;
use mneme_abi::cuda::types::{Extent, PitchedPointer};

use super::memory::{self, Rows};
use super::session::driver_with_context;
use crate::abi::{In, Out};
use crate::driver::work::{CopyEnd, pitched};
use crate::status::{Status, StatusResult};

pub fn allocate(out: Out<PitchedPointer>, extent: Extent) -> StatusResult {
    let driver = driver_with_context()?;
    allocate_by(out, extent, |address, pitch, width, rows| driver.cuMemAllocPitch_v2(address, pitch, width, rows, 4))
}

/// The same by a function that allocates rows.
pub fn allocate_by(
    out: Out<PitchedPointer>,
    extent: Extent,
    allocate: impl FnOnce(Out<u64>, Out<usize>, usize, usize) -> StatusResult,
) -> StatusResult {
    let Extent { width, height, depth } = extent;
    let rows = height.checked_mul(depth).ok_or(Status::OUT_OF_MEMORY)?;
    if width == 0 || rows == 0 {
        return out.put(PitchedPointer { address: 0, pitch: 0, width, rows: height });
    }
    let (mut address, mut pitch) = (0u64, 0usize);
    allocate(Out::to(&mut address), Out::to(&mut pitch), width, rows)?;
    out.put(PitchedPointer { address, pitch, width, rows: height })
}

/// Address of a byte of a row of a slice.
fn address_of(memory: &PitchedPointer, x: usize, y: usize, z: usize) -> Result<u64, Status> {
    let row = z.checked_mul(memory.rows).and_then(|rows| rows.checked_add(y));
    let offset = row.and_then(|row| row.checked_mul(memory.pitch)).and_then(|start| start.checked_add(x));
    offset.and_then(|offset| memory.address.checked_add(offset as u64)).ok_or(Status::INVALID_VALUE)
}

/// Fills on a stream, or at once.
pub fn fill(what: PitchedPointer, value: i32, extent: Extent, stream: Option<usize>) -> StatusResult {
    let driver = driver_with_context()?;
    for z in 0..extent.depth {
        let start = address_of(&what, 0, 0, z)?;
        match stream {
            None => driver.cuMemsetD2D8_v2(start, what.pitch, value as u8, extent.width, extent.height)?,
            Some(stream) => {
                driver.cuMemsetD2D8Async(start, what.pitch, value as u8, extent.width, extent.height, stream)?
            }
        }
    }
    Ok(())
}

fn check_arrays(what: &VolumeCopy) -> StatusResult {
    if what.from_array != 0 || what.to_array != 0 {
        crate::say!("arrays are not supported");
        return Err(Status::NOT_SUPPORTED);
    }
    Ok(())
}

/// The same as the driver describes it.
pub fn described(what: In<VolumeCopy>) -> Result<Copy3d, Status> {
    let what = what.get()?;
    check_arrays(&what)?;
    let (from, to) = memory::ends(what.kind)?;
    let side = |at: &Extent, memory: &PitchedPointer, end: fn(u64) -> CopyEnd| {
        pitched(end(memory.address), [at.width, at.height, at.depth], memory.pitch, memory.rows)
    };
    Ok(Copy3d {
        from: side(&what.from_at, &what.from, from),
        to: side(&what.to_at, &what.to, to),
        width: what.extent.width,
        height: what.extent.height,
        depth: what.extent.depth,
    })
}

/// Copies on a stream, or at once.
pub fn copy(what: In<VolumeCopy>, stream: Option<usize>) -> StatusResult {
    let what = what.get()?;
    check_arrays(&what)?;
    let VolumeCopy { from_at, from, to_at, to, extent, kind, .. } = what;
    for z in 0..extent.depth {
        let rows = Rows {
            to: address_of(&to, to_at.width, to_at.height, to_at.depth + z)?,
            to_pitch: to.pitch,
            from: address_of(&from, from_at.width, from_at.height, from_at.depth + z)?,
            from_pitch: from.pitch,
            width: extent.width,
            height: extent.height,
        };
        match stream {
            None => memory::copy_2d(&rows, kind)?,
            Some(stream) => memory::copy_2d_on(&rows, kind, stream)?,
        }
    }
    Ok(())
}
