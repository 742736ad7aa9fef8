//! Three-dimensional memory: pitched allocations, fills, and copies slice by slice or of arrays.

use mneme_abi::cuda::runtime_structures::VolumeCopy;
use mneme_abi::cuda::structures::{Copy3d, CopySide};
use mneme_abi::cuda::types::{Extent, PitchedPointer};

use super::arrays;
use super::memory::{self, EndOf, Rows};
use super::session::driver_with_context;
use crate::abi::{In, Out};
use crate::driver::work::{of_array, pitched};
use crate::status::{Status, StatusResult};

pub fn allocate(out: Out<PitchedPointer>, extent: Extent) -> StatusResult {
    let driver = driver_with_context()?;
    allocate_by(out, extent, |address, pitch, width, rows| driver.cuMemAllocPitch_v2(address, pitch, width, rows, 4))
}

/// Allocates a volume with a function that allocates rows.
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

/// The address of a byte of a row of a slice.
fn address_of(memory: &PitchedPointer, x: usize, y: usize, z: usize) -> Result<u64, Status> {
    let row = z.checked_mul(memory.rows).and_then(|rows| rows.checked_add(y));
    let offset = row.and_then(|row| row.checked_mul(memory.pitch)).and_then(|start| start.checked_add(x));
    offset.and_then(|offset| memory.address.checked_add(offset as u64)).ok_or(Status::INVALID_VALUE)
}

/// Fills a volume, on a stream or at once.
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

/// The side of a copy: an array, or pitched memory. Positions along x count texels of this size.
fn side(array: u64, at: &Extent, memory: &PitchedPointer, end: EndOf, texel: usize) -> Result<CopySide, Status> {
    let x = at.width.checked_mul(texel).ok_or(Status::INVALID_VALUE)?;
    Ok(match array {
        0 => pitched(end(memory.address), [at.width, at.height, at.depth], memory.pitch, memory.rows),
        array => of_array(array, [x, at.height, at.depth]),
    })
}

/// Converts a copy to the driver's description. If an array takes part, lengths along x count its texels.
pub fn described(what: In<VolumeCopy>) -> Result<Copy3d, Status> {
    let what = what.get()?;
    let (from, to) = memory::ends(what.kind)?;
    let mut texel = None;
    for array in [what.from_array, what.to_array].into_iter().filter(|array| *array != 0) {
        let size = arrays::texel_bytes(array)?;
        if texel.replace(size).is_some_and(|other| other != size) {
            return Err(Status::INVALID_VALUE);
        }
    }
    let texel = texel.unwrap_or(1);
    Ok(Copy3d {
        from: side(what.from_array, &what.from_at, &what.from, from, texel)?,
        to: side(what.to_array, &what.to_at, &what.to, to, texel)?,
        width: what.extent.width.checked_mul(texel).ok_or(Status::INVALID_VALUE)?,
        height: what.extent.height,
        depth: what.extent.depth,
    })
}

/// Copies a volume, on a stream or at once.
pub fn copy(what: In<VolumeCopy>, stream: Option<usize>) -> StatusResult {
    let VolumeCopy { from_array, from_at, from, to_array, to_at, to, extent, kind } = what.get()?;
    if from_array != 0 || to_array != 0 {
        let driver = driver_with_context()?;
        let copy = described(what)?;
        return match stream {
            None => driver.cuMemcpy3D_v2(In::from(&copy)),
            Some(stream) => driver.cuMemcpy3DAsync_v2(In::from(&copy), stream),
        };
    }
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
