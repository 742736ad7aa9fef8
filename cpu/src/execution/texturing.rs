//! The functions with which kernels read textures, and read and write surfaces.
//!
//! docs/reference/cpu-code-objects.md defines their arguments. A coordinate is four words: the layer, x, y and z.

use super::device_calls::{fail, image};
use super::fault::KernelFault;
use super::images::{Image, ReadMode, TexelMemory, Texture};
use super::sampling::{self, Axes, Sampler};

/// The parts of a coordinate: its axes, and whether it has a layer or selects the face of a cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Geometry {
    axes: usize,
    layered: bool,
    cube: bool,
}

impl Geometry {
    /// 0 1d, 1 2d, 2 3d, 3 a1d, 4 a2d, 5 cube, 6 acube.
    fn of(number: u32) -> Self {
        let (axes, layered, cube) = match number {
            0 => (1, false, false),
            1 => (2, false, false),
            2 => (3, false, false),
            3 => (1, true, false),
            4 => (2, true, false),
            5 => (2, false, true),
            _ => (2, true, true),
        };
        Self { axes, layered, cube }
    }
}

fn texture(handle: u64) -> &'static Texture {
    match image(handle) {
        Some(Image::Texture(texture)) => texture,
        _ => fail(KernelFault::Image(format!("read {handle:#x}, which is not a texture object"))),
    }
}

fn surface(handle: u64) -> &'static TexelMemory {
    match image(handle) {
        Some(Image::Surface(texels)) => texels,
        _ => fail(KernelFault::Image(format!("used {handle:#x}, which is not a surface object"))),
    }
}

/// The nearest existing layer.
fn nearest(layer: i32, layers: u32) -> u32 {
    u32::try_from(layer).unwrap_or(0).min(layers - 1)
}

/// `__mneme_cpu_texture`: `tex`, `tld4`.
///
/// The bytes of `what` are the geometry, whether coordinates are floats, and 0 or, from 1 on, the component to gather.
pub extern "C" fn read_texture(handle: u64, what: u32, registers: *mut [u32; 4]) {
    let Texture { texels, sampler, read } = texture(handle);
    let [geometry, floats, component, _] = what.to_le_bytes().map(u32::from);
    // SAFETY: the compiler passes a place of four words.
    let place = unsafe { &mut *registers };
    *place = words(Geometry::of(geometry), floats != 0, component as usize, *place, texels, sampler, *read);
}

fn words(
    geometry: Geometry,
    floats: bool,
    component: usize,
    [layer, x, y, z]: [u32; 4],
    texels: &TexelMemory,
    sampler: &Sampler,
    read: ReadMode,
) -> [u32; 4] {
    let mut of = Axes { axes: geometry.axes, extent: texels.extent };
    let mut layer = if geometry.layered { layer.cast_signed() } else { 0 };
    let mut at = [x, y, z].map(f32::from_bits);
    let mut sampler = *sampler;
    if geometry.cube {
        let (face, place) = sampling::face(at);
        // Faces are consecutive, and a cube is a layer of six faces.
        layer = nearest(layer, (texels.extent[2] / 6).max(1)).cast_signed() * 6 + face.cast_signed();
        at = [place[0], place[1], 0.0];
        sampler.normalized = true;
    }
    let first = if of.axes == 3 { 0 } else { nearest(layer, texels.extent[2]) };
    if of.axes < 3 {
        of.extent[2] = 1;
    }
    let texel = |[x, y, z]: [u32; 3]| texels.words([x, y, first + z], read);
    match (floats, component) {
        (true, 0) => sampler.sample(of, at, texel),
        (true, component) => sampler.gather(of, at, (component - 1).min(3), texel),
        (false, _) => Sampler::fetch(of, [x, y, z].map(u32::cast_signed), texel),
    }
}

/// How a surface access outside behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boundary {
    Trap,
    Clamp,
    Zero,
}

/// The address of an access; x counts bytes. `None` if the access is outside and has no effect.
fn place(
    texels: &TexelMemory,
    geometry: Geometry,
    bytes: u32,
    boundary: Boundary,
    [layer, x, y, z]: [i32; 4],
) -> Result<Option<u64>, KernelFault> {
    let [_, rows, slices] = texels.extent.map(i64::from);
    let width = i64::from(texels.extent[0]) * i64::from(texels.format.size());
    let (row, slice) = match (geometry.axes, geometry.layered) {
        (1, layered) => (0, if layered { layer } else { 0 }),
        (2, layered) => (y, if layered { layer } else { 0 }),
        _ => (y, z),
    };
    let asked = [i64::from(x), i64::from(row), i64::from(slice)];
    let last = [width - i64::from(bytes), rows - 1, slices - 1];
    let inside = (0..3).all(|axis| (0..=last[axis]).contains(&asked[axis]));
    let at = match boundary {
        _ if inside => asked,
        Boundary::Clamp if last[0] >= 0 => [0, 1, 2].map(|axis: usize| asked[axis].clamp(0, last[axis])),
        Boundary::Zero => return Ok(None),
        _ => {
            let [x, row, slice] = asked;
            let of = format!("surface of {width} bytes, {rows} rows and {slices} slices");
            return Err(KernelFault::Image(format!("accessed byte {x}, row {row}, slice {slice} of a {of}")));
        }
    };
    if at[0] % i64::from(bytes) != 0 {
        return Err(KernelFault::Image(format!(
            "accessed {bytes} bytes at byte {} of a surface, which is not aligned",
            at[0]
        )));
    }
    Ok(Some(texels.address(at[0] as u64, at[1] as u32, at[2] as u32)))
}

/// Coordinates, and the bytes of an access in the order of memory.
#[repr(C)]
pub struct SurfaceAccess {
    coordinates: [i32; 4],
    bytes: [u8; 16],
}

/// Returns the number of bytes and the address of an access. The bytes of `what` are the geometry, the size of the
/// access, and the behaviour outside: 0 trap, 1 clamp, 2 zero.
fn accessed(handle: u64, what: u32, coordinates: [i32; 4]) -> (usize, Option<u64>) {
    let [geometry, bytes, boundary, _] = what.to_le_bytes().map(u32::from);
    let boundary = match boundary {
        0 => Boundary::Trap,
        1 => Boundary::Clamp,
        _ => Boundary::Zero,
    };
    let bytes = bytes.clamp(1, 16);
    match place(surface(handle), Geometry::of(geometry), bytes, boundary, coordinates) {
        Ok(address) => (bytes as usize, address),
        Err(fault) => fail(fault),
    }
}

/// `__mneme_cpu_surface_load`: `suld`.
pub extern "C" fn load_surface(handle: u64, what: u32, registers: *mut SurfaceAccess) {
    // SAFETY: the compiler passes a place of eight words.
    let access = unsafe { &mut *registers };
    let (bytes, address) = accessed(handle, what, access.coordinates);
    access.bytes = [0; 16];
    if let Some(address) = address {
        // SAFETY: the bytes lie inside an array that lives until the launch has ended.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, access.bytes.as_mut_ptr(), bytes) };
    }
}

/// `__mneme_cpu_surface_store`: `sust`.
pub extern "C" fn store_surface(handle: u64, what: u32, registers: *const SurfaceAccess) {
    // SAFETY: as in `load_surface`.
    let access = unsafe { &*registers };
    let (bytes, address) = accessed(handle, what, access.coordinates);
    if let Some(address) = address {
        // SAFETY: as in `load_surface`.
        unsafe { std::ptr::copy_nonoverlapping(access.bytes.as_ptr(), address as *mut u8, bytes) };
    }
}

/// `__mneme_cpu_image_query`: `txq` (with 256 added) and `suq`. 0 width, 1 height, 2 depth, 3 layers, 4 levels, 5
/// whether coordinates are normalised.
pub extern "C" fn query_image(handle: u64, what: u32) -> u32 {
    let (texels, normalized) = if what & 256 != 0 {
        let texture = texture(handle);
        (&texture.texels, texture.sampler.normalized)
    } else {
        (surface(handle), false)
    };
    match what & 255 {
        axis @ 0..=2 => texels.extent[axis as usize],
        3 => texels.extent[2],
        4 => 1,
        _ => u32::from(normalized),
    }
}

#[cfg(test)]
mod tests {
    use super::super::images::{NumberKind, TexelFormat};
    use super::super::sampling::AddressMode;
    use super::*;

    const BYTES: TexelFormat = TexelFormat { kind: NumberKind::Unsigned, bytes: 1, channels: 1 };

    fn memory(texels: &[u8], extent: [u32; 3]) -> TexelMemory {
        TexelMemory { start: texels.as_ptr() as u64, format: BYTES, extent, pitch: extent[0].into(), owner: None }
    }

    fn nearest_texel(normalized: bool) -> Sampler {
        Sampler { modes: [AddressMode::Clamp; 3], linear: false, normalized, border: [0; 4] }
    }

    #[test]
    fn layers_slices_and_faces_are_found() {
        let texels: Vec<u8> = (0..4 * 3 * 12).collect();
        let memory = memory(&texels, [4, 3, 12]);
        let read = |geometry, floats, at: [u32; 4], normalized| {
            let sampler = nearest_texel(normalized);
            words(Geometry::of(geometry), floats, 0, at, &memory, &sampler, ReadMode::Element)[0]
        };
        let float = |[x, y, z]: [f32; 3], layer: i32| [layer.cast_unsigned(), x.to_bits(), y.to_bits(), z.to_bits()];
        assert_eq!(read(0, true, float([2.5, 1.5, 3.5], 5), false), 2);
        assert_eq!(read(1, true, float([2.5, 1.5, 3.5], 5), false), 4 + 2);
        assert_eq!(read(2, true, float([2.5, 1.5, 3.5], 5), false), 3 * 12 + 4 + 2);
        assert_eq!(read(3, true, float([2.5, 1.5, 3.5], 5), false), 5 * 12 + 2);
        assert_eq!(read(4, true, float([2.5, 1.5, 3.5], 99), false), 11 * 12 + 4 + 2);
        assert_eq!(read(4, true, float([2.5, 1.5, 3.5], -1), false), 4 + 2);
        assert_eq!(read(4, false, [2, 3, 2, 0], false), 2 * 12 + 2 * 4 + 3);
        // Along the z axis, from the centre of the face, of the first cube and of the second one.
        assert_eq!(read(5, true, float([0.1, 0.0, -1.0], 9), true), 5 * 12 + 4 + 1);
        assert_eq!(read(6, true, float([-0.1, 0.0, -1.0], 1), true), 11 * 12 + 4 + 2);
    }

    #[test]
    fn outside_of_a_surface_traps_is_the_nearest_or_is_nothing() {
        let texels = [0u8; 4 * 3 * 2];
        let memory = memory(&texels, [4, 3, 2]);
        let at = |geometry, bytes, boundary, place: [i32; 4]| {
            super::place(&memory, Geometry::of(geometry), bytes, boundary, place)
                .map(|address| address.map(|address| address - memory.start))
        };
        for boundary in [Boundary::Trap, Boundary::Clamp, Boundary::Zero] {
            assert_eq!(at(2, 2, boundary, [0, 2, 1, 1]), Ok(Some(12 + 4 + 2)));
            assert_eq!(at(3, 4, boundary, [1, 0, 9, 9]), Ok(Some(12)));
            assert_eq!(at(4, 1, boundary, [1, 3, 2, 9]), Ok(Some(23)));
        }
        assert_eq!(at(1, 2, Boundary::Clamp, [0, 9, -1, 0]), Ok(Some(2)));
        assert_eq!(at(1, 2, Boundary::Zero, [0, 4, 0, 0]), Ok(None));
        assert_eq!(at(1, 4, Boundary::Zero, [0, 2, 0, 0]), Ok(None));
        let trapped = at(1, 2, Boundary::Trap, [0, 0, 3, 0]).unwrap_err();
        let sentence = "accessed byte 0, row 3, slice 0 of a surface of 4 bytes, 3 rows and 2 slices";
        assert_eq!(trapped, KernelFault::Image(sentence.into()));
        assert!(at(1, 2, Boundary::Clamp, [0, 1, 0, 0]).is_err(), "unaligned");
        assert!(at(1, 8, Boundary::Clamp, [0, 0, 0, 0]).is_err(), "wider than a row");
    }
}
