//! Arrays: texels that kernels access through textures and surfaces.
//!
//! The layout of an array is private to the device. Here rows are consecutive, and so are slices or layers.

use std::sync::Arc;

use mneme_abi::cuda::structures::{ArrayDescription, ArrayDescription2d, CopySide, array_flag, array_format};

use super::{allocations, context, lanes};
use crate::abi::{In, Out};
use crate::execution::images::{NumberKind, TexelFormat, TexelMemory};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

/// An array. The last user frees its memory.
pub struct Array {
    context: usize,
    described: ArrayDescription,
    pub texels: TexelMemory,
}

impl Drop for Array {
    fn drop(&mut self) {
        allocations::unmap(self.texels.start, self.bytes());
    }
}

impl Array {
    /// Size of all slices.
    fn bytes(&self) -> u64 {
        let [_, rows, slices] = self.texels.extent.map(u64::from);
        self.texels.pitch * rows * slices
    }

    pub fn has(&self, flag: u32) -> bool {
        self.described.flags & flag != 0
    }

    /// The texels for a texture or surface object, which keeps the array alive.
    pub fn shared(self: &Arc<Self>) -> TexelMemory {
        TexelMemory { owner: Some(self.clone()), ..self.texels.clone() }
    }
}

static ARRAYS: Registry<Array> = Registry::new("an array");

/// Translates a vendor's format with a number of channels. Prints a sentence if the device lacks it.
pub fn format_of(format: u32, channels: u32) -> Result<TexelFormat, Status> {
    use NumberKind::{Float, Signed, Unsigned};
    let (kind, bytes) = match format {
        array_format::UNSIGNED_8 => (Unsigned, 1),
        array_format::UNSIGNED_16 => (Unsigned, 2),
        array_format::UNSIGNED_32 => (Unsigned, 4),
        array_format::SIGNED_8 => (Signed, 1),
        array_format::SIGNED_16 => (Signed, 2),
        array_format::SIGNED_32 => (Signed, 4),
        array_format::HALF => (Float, 2),
        array_format::FLOAT => (Float, 4),
        other => {
            crate::report::say!(
                "texels of format {other:#x} are not supported; use integers of 8, 16 or 32 bits, halves or floats"
            );
            return Err(Status::NOT_SUPPORTED);
        }
    };
    if ![1, 2, 4].contains(&channels) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(TexelFormat { kind, bytes, channels })
}

/// Limits on extents, of 1D, 2D, 3D and layered arrays, and on the number of layers.
const LONGEST_LINE: usize = 131_072;
const LONGEST_IN_PLANE: [usize; 2] = [131_072, 65_536];
const LONGEST_IN_VOLUME: usize = 16_384;
const LONGEST_IN_LAYERS: usize = 32_768;
const MOST_LAYERS: usize = 2_048;

/// Returns the texels, rows and slices of an array, if its description is valid.
fn extent_of(what: &ArrayDescription) -> Result<[u32; 3], Status> {
    let ArrayDescription { width, height, depth, flags, .. } = *what;
    let layered = flags & array_flag::LAYERED != 0;
    let is_possible = if flags & array_flag::CUBE != 0 {
        let cubes = if layered { depth != 0 && depth.is_multiple_of(6) } else { depth == 6 };
        cubes && width == height && width <= LONGEST_IN_LAYERS && depth <= MOST_LAYERS
    } else if layered {
        depth != 0 && depth <= MOST_LAYERS && width.max(height) <= LONGEST_IN_LAYERS
    } else if depth != 0 {
        height != 0 && width.max(height).max(depth) <= LONGEST_IN_VOLUME
    } else if height != 0 {
        width <= LONGEST_IN_PLANE[0] && height <= LONGEST_IN_PLANE[1]
    } else {
        width <= LONGEST_LINE
    };
    if width == 0 || !is_possible {
        return Err(Status::INVALID_VALUE);
    }
    Ok([width, height.max(1), depth.max(1)].map(|length| length as u32))
}

pub fn create(out: Out<usize>, what: In<ArrayDescription>) -> StatusResult {
    context::usable()?;
    let described = what.get()?;
    let known = array_flag::LAYERED | array_flag::SURFACE | array_flag::CUBE | array_flag::GATHER;
    if described.flags & !(known | array_flag::COLOR_ATTACHMENT) != 0 {
        crate::report::say!("arrays with the flags {:#x} (sparse, deferred, depth) are not supported", described.flags);
        return Err(Status::NOT_SUPPORTED);
    }
    let format = format_of(described.format, described.channels)?;
    let extent = extent_of(&described)?;
    let pitch = u64::from(extent[0]) * u64::from(format.size());
    let [_, rows, slices] = extent.map(u64::from);
    let bytes = pitch.checked_mul(rows * slices).and_then(|bytes| usize::try_from(bytes).ok());
    let start = allocations::obtain(bytes.ok_or(Status::OUT_OF_MEMORY)?)?;
    let texels = TexelMemory { start, format, extent, pitch, owner: None };
    out.put(ARRAYS.insert(Arc::new(Array { context: context::current()?, described, texels })))
}

pub fn create_2d(out: Out<usize>, what: In<ArrayDescription2d>) -> StatusResult {
    let ArrayDescription2d { width, height, format, channels } = what.get()?;
    create(out, In::from(&ArrayDescription { width, height, depth: 0, format, channels, flags: 0 }))
}

pub fn get(array: usize) -> Result<Arc<Array>, Status> {
    ARRAYS.get(array)
}

pub fn destroy(array: usize) -> StatusResult {
    context::usable()?;
    get(array)?;
    lanes::wait(&lanes::of_context(context::current()?))?;
    ARRAYS.remove(array).map(drop)
}

/// Destroys the arrays of a context.
pub fn end_with(context: usize) {
    ARRAYS.remove_all(|array| array.context == context);
}

pub fn description(out: Out<ArrayDescription>, array: usize) -> StatusResult {
    context::usable()?;
    out.put(get(array)?.described)
}

pub fn description_2d(out: Out<ArrayDescription2d>, array: usize) -> StatusResult {
    context::usable()?;
    let ArrayDescription { width, height, format, channels, .. } = get(array)?.described;
    out.put(ArrayDescription2d { width, height, format, channels })
}

/// The address of a position in an array: `row` and `slice` count from the side's own position. Fails if the bytes from
/// there on do not lie inside the array.
pub fn address_of(side: &CopySide, row: usize, slice: usize, bytes: usize) -> Result<u64, Status> {
    let array = get(side.array as usize)?;
    let texels = &array.texels;
    let inside = |from: usize, count: usize, all: u64| {
        from.checked_add(count).is_some_and(|end| end as u64 <= all).then_some(from).ok_or(Status::INVALID_VALUE)
    };
    let place = |from: usize, number: usize, all: u32| {
        inside(from.checked_add(number).ok_or(Status::INVALID_VALUE)?, 1, all.into())
    };
    let (x, y) = (inside(side.x, bytes, texels.pitch)?, place(side.y, row, texels.extent[1])?);
    let z = place(side.z, slice, texels.extent[2])?;
    Ok(texels.address(x as u64, y as u32, z as u32))
}
