//! Textures and surfaces: arrays and memory that kernels reach by a handle.
//!
//! A launch uses the objects that existed when it began, and their arrays stay until it ends.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::sampling::Sampler;
use crate::half;

/// The type of a texel's components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    Unsigned,
    Signed,
    Float,
}

/// The format of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TexelFormat {
    pub kind: NumberKind,
    /// Bytes of each component: 1, 2 or 4.
    pub bytes: u32,
    /// The number of components: 1, 2 or 4.
    pub channels: u32,
}

/// How a texture converts a texel's components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Unchanged, except that halves become floats.
    Element,
    /// Integers of 8 and 16 bits become floats between 0 or −1 and 1.
    Normalized,
    /// The same for sRGB; the first three components become linear.
    Srgb,
}

impl TexelFormat {
    /// Bytes of a texel.
    pub fn size(self) -> u32 {
        self.bytes * self.channels
    }

    /// Converts a texel's bytes to words. Components that the texel lacks are 0.
    fn words(self, texel: &[u8], read: ReadMode) -> [u32; 4] {
        let mut words = [0; 4];
        for (channel, (word, bytes)) in words.iter_mut().zip(texel.chunks_exact(self.bytes as usize)).enumerate() {
            let mut whole = [0; 4];
            whole[..bytes.len()].copy_from_slice(bytes);
            let unsigned = u32::from_le_bytes(whole);
            let unused = 32 - 8 * self.bytes;
            let signed = ((unsigned << unused) as i32) >> unused;
            *word = match (self.kind, read) {
                (NumberKind::Float, _) if self.bytes == 2 => half::bits_to_float(unsigned as u16).to_bits(),
                (NumberKind::Float, _) | (NumberKind::Unsigned, ReadMode::Element) => unsigned,
                (NumberKind::Signed, ReadMode::Element) => signed.cast_unsigned(),
                (NumberKind::Signed, _) => (signed as f32 / (i32::MAX >> unused) as f32).max(-1.0).to_bits(),
                (NumberKind::Unsigned, _) => {
                    let number = unsigned as f32 / (u32::MAX >> unused) as f32;
                    let number = if read == ReadMode::Srgb && channel < 3 { linear(number) } else { number };
                    number.to_bits()
                }
            };
        }
        words
    }
}

/// Converts a component from sRGB to linear.
fn linear(number: f32) -> f32 {
    let number = f64::from(number);
    (if number <= 0.04045 { number / 12.92 } else { ((number + 0.055) / 1.055).powf(2.4) }) as f32
}

/// Texels in memory: rows, and slices of rows.
#[derive(Clone)]
pub struct TexelMemory {
    pub start: u64,
    pub format: TexelFormat,
    /// Texels of a row, rows of a slice, and slices (of a volume, or layers). At least 1 each.
    pub extent: [u32; 3],
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Keeps the memory alive.
    #[expect(dead_code, reason = "only keeps the memory alive")]
    pub owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl TexelMemory {
    /// The address of a byte of a row.
    pub fn address(&self, byte: u64, row: u32, slice: u32) -> u64 {
        self.start + (u64::from(slice) * u64::from(self.extent[1]) + u64::from(row)) * self.pitch + byte
    }

    /// Reads a texel, which must lie inside.
    pub fn words(&self, [x, y, z]: [u32; 3], read: ReadMode) -> [u32; 4] {
        let size = self.format.size();
        let mut texel = [0u8; 16];
        let from = self.address(u64::from(x) * u64::from(size), y, z) as *const u8;
        // SAFETY: the texel lies inside, so it is in an array that is alive, or in the memory that the object was made
        // of. Freed memory is a fault of the kernel. A texel has at most 16 bytes.
        unsafe { std::ptr::copy_nonoverlapping(from, texel.as_mut_ptr(), size as usize) };
        self.format.words(&texel[..size as usize], read)
    }
}

/// A texture object.
pub struct Texture {
    pub texels: TexelMemory,
    pub sampler: Sampler,
    pub read: ReadMode,
}

/// The object of a handle.
pub enum Image {
    Texture(Texture),
    /// A surface object.
    Surface(TexelMemory),
}

/// Objects by handle.
pub type Images = BTreeMap<u64, Arc<Image>>;

/// The live objects, shared with running launches.
static LIVE: Mutex<Option<Arc<Images>>> = Mutex::new(None);

fn change(change: impl FnOnce(&mut Images)) {
    change(Arc::make_mut(LIVE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default()));
}

pub fn add(handle: u64, image: Image) {
    change(|all| drop(all.insert(handle, Arc::new(image))));
}

pub fn remove(handle: u64) {
    change(|all| drop(all.remove(&handle)));
}

/// Returns the objects that exist now.
pub fn live() -> Arc<Images> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: NumberKind, bytes: u32, texel: &[u8], read: ReadMode) -> [u32; 4] {
        TexelFormat { kind, bytes, channels: texel.len() as u32 / bytes }.words(texel, read)
    }

    #[test]
    fn numbers_are_read_as_they_are_or_as_floats() {
        use NumberKind::{Float, Signed, Unsigned};
        let floats = |kind, bytes, texel: &[u8]| words(kind, bytes, texel, ReadMode::Normalized).map(f32::from_bits);
        assert_eq!(words(Unsigned, 1, &[1, 255, 0, 128], ReadMode::Element), [1, 255, 0, 128]);
        assert_eq!(words(Signed, 1, &[1, 255], ReadMode::Element), [1, u32::MAX, 0, 0]);
        assert_eq!(words(Signed, 2, &[0, 128, 255, 127], ReadMode::Element), [0xffff_8000, 0x7fff, 0, 0]);
        assert_eq!(words(Unsigned, 4, &[1, 2, 3, 4], ReadMode::Element), [0x0403_0201, 0, 0, 0]);
        assert_eq!(words(Float, 2, &[0, 0x3c], ReadMode::Element), [1f32.to_bits(), 0, 0, 0]);
        assert_eq!(words(Float, 4, &1.5f32.to_le_bytes(), ReadMode::Normalized), [1.5f32.to_bits(), 0, 0, 0]);
        assert_eq!(floats(Unsigned, 1, &[0, 255, 51, 1]), [0.0, 1.0, 0.2, 1.0 / 255.0]);
        assert_eq!(floats(Signed, 1, &[127, 128, 129, 0]), [1.0, -1.0, -1.0, 0.0]);
        assert_eq!(floats(Signed, 2, &[255, 127, 0, 128]), [1.0, -1.0, 0.0, 0.0]);
        assert_eq!(floats(Unsigned, 2, &[255, 255, 0, 0]), [1.0, 0.0, 0.0, 0.0]);
        let srgb = words(Unsigned, 1, &[255, 10, 128, 128], ReadMode::Srgb).map(f32::from_bits);
        assert!((srgb[1] - 10.0 / 255.0 / 12.92).abs() < 1e-7 && (srgb[2] - 0.215_861).abs() < 1e-6, "{srgb:?}");
        assert_eq!((srgb[0], srgb[3]), (1.0, 128.0 / 255.0));
    }

    /// A launch keeps the objects that it began with.
    #[test]
    fn what_a_launch_has_stays() {
        let format = TexelFormat { kind: NumberKind::Unsigned, bytes: 1, channels: 1 };
        let memory = TexelMemory { start: 0, format, extent: [1; 3], pitch: 1, owner: None };
        add(7, Image::Surface(memory));
        let of_launch = live();
        remove(7);
        assert!(of_launch.contains_key(&7) && !live().contains_key(&7));
    }
}
