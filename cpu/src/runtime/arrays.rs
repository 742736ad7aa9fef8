//! Arrays, textures and surfaces of the runtime, converted to the driver's terms.

use mneme_abi::cuda::runtime_structures::{RuntimeResource, RuntimeTexture};
use mneme_abi::cuda::structures::{
    ArrayDescription, Copy3d, Resource, TextureDescription, array_format, resource_kind, texture_flag,
};
use mneme_abi::cuda::types::{ChannelFormat, Extent};

use super::memory;
use super::session::driver_with_context;
use crate::abi::{In, Out};
use crate::driver::work::{CopyEnd, of_array, pitched};
use crate::release;
use crate::status::{Status, StatusResult};

/// The driver's formats of 8, 16 and 32 bits for each `cudaChannelFormatKind`; 0 if there is none.
const FORMATS: [[u32; 3]; 3] = [
    [array_format::SIGNED_8, array_format::SIGNED_16, array_format::SIGNED_32],
    [array_format::UNSIGNED_8, array_format::UNSIGNED_16, array_format::UNSIGNED_32],
    [0, array_format::HALF, array_format::FLOAT],
];
const BITS: [i32; 3] = [8, 16, 32];

/// Converts to the driver's format and a number of channels.
fn format_of(what: &ChannelFormat) -> Result<(u32, u32), Status> {
    let bits = [what.x, what.y, what.z, what.w];
    let channels = bits.iter().take_while(|bits| **bits != 0).count();
    let is_even = bits[..channels].iter().all(|bits| *bits == what.x) && bits[channels..].iter().all(|bits| *bits == 0);
    let width = BITS.iter().position(|bits| *bits == what.x).filter(|_| is_even).ok_or(Status::INVALID_VALUE)?;
    let Some(formats) = FORMATS.get(what.kind as usize) else {
        crate::report::say!("channels of kind {} (cudaChannelFormatKind) are not supported", what.kind);
        return Err(Status::NOT_SUPPORTED);
    };
    let format = Some(formats[width]).filter(|format| *format != 0).ok_or(Status::INVALID_VALUE)?;
    Ok((format, channels as u32))
}

/// Converts back from the driver's format.
fn channels_of(what: &ArrayDescription) -> Result<ChannelFormat, Status> {
    let of = |formats: &[u32; 3]| formats.iter().position(|format| *format == what.format);
    let found = FORMATS.iter().enumerate().find_map(|(kind, formats)| Some((kind as u32, BITS[of(formats)?])));
    let (kind, bits) = found.ok_or(Status::INVALID_VALUE)?;
    let [x, y, z, w] = [0, 1, 2, 3].map(|channel| if channel < what.channels { bits } else { 0 });
    Ok(ChannelFormat { x, y, z, w, kind })
}

pub fn allocate(out: Out<usize>, format: In<ChannelFormat>, extent: Extent, flags: u32) -> StatusResult {
    let driver = driver_with_context()?;
    let (format, channels) = format_of(&format.get()?)?;
    let Extent { width, height, depth } = extent;
    driver.cuArray3DCreate_v2(out, In::from(&ArrayDescription { width, height, depth, format, channels, flags }))
}

pub fn free(array: usize) -> StatusResult {
    let driver = driver_with_context()?;
    if array == 0 { Ok(()) } else { driver.cuArrayDestroy(array) }
}

fn description(array: u64) -> Result<ArrayDescription, Status> {
    let mut what = ArrayDescription { width: 0, height: 0, depth: 0, format: 0, channels: 0, flags: 0 };
    driver_with_context()?.cuArray3DGetDescriptor_v2(Out::to(&mut what), array as usize)?;
    Ok(what)
}

/// `cudaArrayGetInfo`
pub fn information(format: Out<ChannelFormat>, extent: Out<Extent>, flags: Out<u32>, array: u64) -> StatusResult {
    let what = description(array)?;
    format.put_if_wanted(channels_of(&what)?);
    extent.put_if_wanted(Extent { width: what.width, height: what.height, depth: what.depth });
    flags.put_if_wanted(what.flags);
    Ok(())
}

pub fn format(out: Out<ChannelFormat>, array: u64) -> StatusResult {
    out.put(channels_of(&description(array)?)?)
}

/// Bytes of a texel of an array.
pub fn texel_bytes(array: u64) -> Result<usize, Status> {
    let format = channels_of(&description(array)?)?;
    let bits: i32 = [format.x, format.y, format.z, format.w].iter().sum();
    Ok(bits as usize / 8)
}

/// One end of a copy of rows: pitched memory, or an array from a byte of a row on.
#[derive(Clone, Copy)]
pub enum Side {
    Memory { address: u64, pitch: usize },
    Array { array: u64, x: usize, y: usize },
}

/// The driver's copy between two sides: `height` rows of `width` bytes.
fn rows(to: Side, from: Side, width: usize, height: usize, kind: u32) -> Result<Copy3d, Status> {
    let (from_end, to_end) = memory::ends(kind)?;
    let side = |side: Side, end: fn(u64) -> CopyEnd| match side {
        Side::Memory { address, pitch } => pitched(end(address), [0; 3], pitch, 0),
        Side::Array { array, x, y } => of_array(array, [x, y, 0]),
    };
    for pitch in [to, from].iter().filter_map(|side| match side {
        Side::Memory { pitch, .. } => Some(*pitch),
        Side::Array { .. } => None,
    }) {
        if height > 1 && pitch < width {
            return Err(Status::INVALID_VALUE);
        }
    }
    Ok(Copy3d { from: side(from, from_end), to: side(to, to_end), width, height, depth: 1 })
}

/// Copies rows, on a stream or at once.
pub fn copy_rows(to: Side, from: Side, width: usize, height: usize, kind: u32, stream: Option<usize>) -> StatusResult {
    let driver = driver_with_context()?;
    let what = rows(to, from, width, height, kind)?;
    match stream {
        None => driver.cuMemcpy3D_v2(In::from(&what)),
        Some(stream) => driver.cuMemcpy3DAsync_v2(In::from(&what), stream),
    }
}

/// Bytes from a side's position to the end of the row. Linear memory is one row.
fn rest_of_row(side: Side) -> Result<usize, Status> {
    Ok(match side {
        Side::Memory { .. } => usize::MAX,
        Side::Array { array, x, .. } => {
            let width = description(array)?.width.checked_mul(texel_bytes(array)?).ok_or(Status::INVALID_VALUE)?;
            width.checked_sub(x).filter(|rest| *rest != 0).ok_or(Status::INVALID_VALUE)?
        }
    })
}

/// The position after a number of bytes, at most the rest of the row.
fn after(side: Side, bytes: usize) -> Result<Side, Status> {
    Ok(match side {
        Side::Memory { address, pitch } => Side::Memory { address: address.wrapping_add(bytes as u64), pitch },
        Side::Array { array, y, .. } if rest_of_row(side)? == bytes => Side::Array { array, x: 0, y: y + 1 },
        Side::Array { array, x, y } => Side::Array { array, x: x + bytes, y },
    })
}

/// Copies bytes, which continue in the next row at the end of an array's row.
pub fn copy_bytes(mut to: Side, mut from: Side, bytes: usize, kind: u32, stream: Option<usize>) -> StatusResult {
    let mut left = bytes;
    while left != 0 {
        let piece = left.min(rest_of_row(to)?).min(rest_of_row(from)?);
        copy_rows(to, from, piece, 1, kind, stream)?;
        left -= piece;
        if left != 0 {
            (to, from) = (after(to, piece)?, after(from, piece)?);
        }
    }
    Ok(())
}

/// Converts a resource to the driver's description.
fn resource_of(what: &RuntimeResource) -> Result<Resource, Status> {
    let mut words = [0; 16];
    words[0] = what.words[0];
    if what.kind == resource_kind::LINEAR || what.kind == resource_kind::PITCHED {
        let [_, first, second, third, rest @ ..] = what.words;
        let half = |word: u64| [word as u32, (word >> 32) as u32];
        let ([[x, y], [z, w]], kind) = ([half(first), half(second)], third as u32);
        let [x, y, z, w] = [x, y, z, w].map(u32::cast_signed);
        let (format, channels) = format_of(&ChannelFormat { x, y, z, w, kind })?;
        words[1] = u64::from(format) | u64::from(channels) << 32;
        words[2..5].copy_from_slice(&rest);
    }
    Ok(Resource { kind: what.kind, words, flags: 0 })
}

pub fn create_texture(
    out: Out<u64>,
    resource: In<RuntimeResource>,
    what: In<RuntimeTexture>,
    view: usize,
) -> StatusResult {
    let driver = driver_with_context()?;
    let (resource, what) = (resource_of(&resource.get()?)?, what.get()?);
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    // The structure of CUDA 11 ends before that field.
    let is_of_12 = release::of_cuda().is_none_or(|release| release >= 12);
    let description = TextureDescription {
        address_modes: what.address_modes,
        filter: what.filter,
        flags: flag(what.read_mode == 0, texture_flag::READ_AS_INTEGER)
            | flag(what.normalized != 0, texture_flag::NORMALIZED_COORDINATES)
            | flag(what.srgb != 0, texture_flag::SRGB)
            | flag(what.seamless != 0 && is_of_12, texture_flag::SEAMLESS_CUBE),
        anisotropy: what.anisotropy,
        mipmap_filter: what.mipmap_filter,
        mipmap_bias: what.mipmap_bias,
        least_level: what.least_level,
        greatest_level: what.greatest_level,
        border: what.border,
        reserved: [0; 12],
    };
    driver.cuTexObjectCreate(out, In::from(&resource), In::from(&description), view)
}

pub fn create_surface(out: Out<u64>, resource: In<RuntimeResource>) -> StatusResult {
    let resource = resource_of(&resource.get()?)?;
    driver_with_context()?.cuSurfObjectCreate(out, In::from(&resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_formats_of_the_driver_and_back() {
        for (kind, bits) in [(0, 8), (0, 16), (0, 32), (1, 8), (1, 16), (1, 32), (2, 16), (2, 32)] {
            for channels in [1, 2, 4] {
                let [x, y, z, w] = [0, 1, 2, 3].map(|channel| if channel < channels { bits } else { 0 });
                let runtime = ChannelFormat { x, y, z, w, kind };
                let (format, found) = format_of(&runtime).unwrap();
                assert_eq!(found, channels);
                let of = ArrayDescription { width: 1, height: 0, depth: 0, format, channels, flags: 0 };
                assert_eq!(channels_of(&of), Ok(runtime));
            }
        }
        let uneven = ChannelFormat { x: 8, y: 16, z: 0, w: 0, kind: 1 };
        let gap = ChannelFormat { x: 8, y: 0, z: 8, w: 0, kind: 1 };
        let narrow = ChannelFormat { x: 8, y: 0, z: 0, w: 0, kind: 2 };
        for wrong in [uneven, gap, narrow] {
            assert_eq!(format_of(&wrong), Err(Status::INVALID_VALUE), "{wrong:?}");
        }
    }
}
