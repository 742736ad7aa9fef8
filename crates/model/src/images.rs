//! The arrays, and the texture and surface objects, that a launch can use.
//!
//! A vendor keeps the texels of an array where kernels have no address of them. A recording has them as memory: rows
//! without gaps, slice after slice. The numbers of formats, flags and descriptions are CUDA's.

use serde::{Deserialize, Serialize};

use crate::tolerance::DataType;

/// The most objects, and the greatest handle. Drivers number objects from 1.
pub const MOST_OBJECTS: u64 = 4096;
/// Words of a `CUDA_TEXTURE_DESC` up to the colour of its border, and of a `CUDA_RESOURCE_VIEW_DESC`.
pub const TEXTURE_WORDS: usize = 14;
pub const VIEW_WORDS: usize = 28;

/// All arrays and objects of a launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Images {
    pub arrays: Vec<RecordedArray>,
    pub objects: Vec<ImageObject>,
}

/// The format of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Texel {
    /// `CUarray_format`
    pub format: u32,
    pub channels: u32,
}

/// An array as `CUDA_ARRAY3D_DESCRIPTOR` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedArray {
    /// The address of the recorded memory with its texels.
    pub address: u64,
    /// Lengths in texels. A line has height 0. The depth is 0, or the number of slices or layers.
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    #[serde(flatten)]
    pub texel: Texel,
    /// `CUDA_ARRAY3D_…`
    pub flags: u32,
}

/// A texture or surface object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageObject {
    pub handle: u64,
    pub resource: ImageResource,
    /// The first words of its `CUDA_TEXTURE_DESC`; `None` for a surface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texture: Option<[u32; TEXTURE_WORDS]>,
    /// Its `CUDA_RESOURCE_VIEW_DESC`; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub view: Vec<u32>,
}

/// The texels of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageResource {
    /// The number of the array.
    Array(u32),
    /// A line in recorded memory.
    Linear {
        address: u64,
        #[serde(flatten)]
        texel: Texel,
        bytes: u64,
    },
    /// Rows in recorded memory: lengths in texels, and the bytes from one row to the next.
    Pitched {
        address: u64,
        #[serde(flatten)]
        texel: Texel,
        width: u64,
        height: u64,
        pitch: u64,
    },
}

impl Texel {
    /// The type of a channel; `None` for formats without plain numbers, such as compressed ones.
    pub fn element(self) -> Option<DataType> {
        Some(match self.format {
            0x01 => DataType::U8,
            0x02 => DataType::U16,
            0x03 => DataType::U32,
            0x08 => DataType::I8,
            0x09 => DataType::I16,
            0x0a => DataType::I32,
            0x10 => DataType::F16,
            0x20 => DataType::F32,
            _ => return None,
        })
    }

    /// Its size; `None` for an unknown format.
    pub fn bytes(self) -> Option<u64> {
        let element = self.element().filter(|_| matches!(self.channels, 1 | 2 | 4))?;
        Some(element.size() as u64 * u64::from(self.channels))
    }
}

impl RecordedArray {
    /// Texels of a row, rows of a slice, and slices; at least 1 each.
    pub fn extent(&self) -> [u64; 3] {
        [self.width, self.height, self.depth].map(|length| length.max(1))
    }

    /// Bytes of a row.
    pub fn row(&self) -> Option<u64> {
        self.width.checked_mul(self.texel.bytes()?)
    }

    /// Bytes of all texels; `None` for an unknown format or an impossible size.
    pub fn bytes(&self) -> Option<u64> {
        let [_, rows, slices] = self.extent();
        self.row()?.checked_mul(rows)?.checked_mul(slices).filter(|bytes| *bytes > 0)
    }

    /// The texel (x, y, z) that contains a byte of the recorded memory.
    pub fn place(&self, offset: u64) -> Option<[u64; 3]> {
        let [width, rows, _] = self.extent();
        let texel = offset / self.texel.bytes()?;
        Some([texel % width, texel / width % rows, texel / width / rows])
    }
}

impl ImageResource {
    /// Address and size of its memory, if it is not an array.
    pub fn memory(&self) -> Option<(u64, Option<u64>)> {
        match *self {
            Self::Array(_) => None,
            Self::Linear { address, bytes, .. } => Some((address, Some(bytes))),
            Self::Pitched { address, texel, width, height, pitch } => {
                let row = texel.bytes().and_then(|texel| texel.checked_mul(width));
                let bytes =
                    row.zip(height.checked_sub(1)).and_then(|(row, rows)| rows.checked_mul(pitch)?.checked_add(row));
                Some((address, bytes))
            }
        }
    }
}

impl Images {
    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty() && self.objects.is_empty()
    }

    /// The name of an array in recordings and messages.
    pub fn array_name(&self, number: usize) -> String {
        format!("array{}", number + 1)
    }

    /// Whether kernels can write to an array.
    pub fn has_surface(&self, array: usize) -> bool {
        let is_surface =
            |object: &ImageObject| object.texture.is_none() && object.resource == ImageResource::Array(array as u32);
        self.objects.iter().any(is_surface)
    }

    /// Why a replay cannot make these. `is_whole` says whether the recording has an array's memory of this address and
    /// size, and `is_recorded` whether it has all of some memory.
    pub fn fault(
        &self,
        is_whole: impl Fn(u64, u64) -> bool,
        is_recorded: impl Fn(u64, u64) -> bool,
    ) -> Option<&'static str> {
        // Each array is that of an object. Checked first, because each is looked for in all of the memory.
        if self.arrays.len() > self.objects.len() || self.objects.len() > MOST_OBJECTS as usize {
            return Some("it has too many arrays or objects");
        }
        if !self.arrays.iter().all(|array| array.bytes().is_some_and(|bytes| is_whole(array.address, bytes))) {
            return Some("its arrays do not fit its memory");
        }
        let mut handles: Vec<u64> = self.objects.iter().map(|object| object.handle).collect();
        handles.sort_unstable();
        let is_number = |handle: &u64| (1..=MOST_OBJECTS).contains(handle);
        if !handles.iter().all(is_number) || handles.windows(2).any(|pair| pair[0] == pair[1]) {
            return Some("its texture and surface objects have impossible handles");
        }
        let is_possible = |object: &ImageObject| {
            let is_there = match (object.resource, object.resource.memory()) {
                (ImageResource::Array(number), _) => (number as usize) < self.arrays.len(),
                (_, Some((address, Some(bytes)))) => is_recorded(address, bytes),
                _ => false,
            };
            let is_line = matches!(object.resource, ImageResource::Array(_)) || object.texture.is_some();
            is_there && is_line && matches!(object.view.len(), 0 | VIEW_WORDS)
        };
        (!self.objects.iter().all(is_possible)).then_some("its texture and surface objects do not fit its memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOATS: Texel = Texel { format: 0x20, channels: 4 };

    fn array(width: u64, height: u64, depth: u64) -> RecordedArray {
        RecordedArray { address: 0x1000, width, height, depth, texel: FLOATS, flags: 0 }
    }

    fn object(handle: u64, resource: ImageResource) -> ImageObject {
        ImageObject { handle, resource, texture: Some([0; TEXTURE_WORDS]), view: Vec::new() }
    }

    #[test]
    fn bytes_have_their_texels() {
        assert_eq!((array(5, 0, 0).bytes(), array(5, 3, 2).bytes()), (Some(80), Some(480)));
        assert_eq!(array(5, 0, 2).place(80), Some([0, 0, 1]), "the second layer of a line");
        assert_eq!(array(5, 3, 2).place(479), Some([4, 2, 1]));
        assert_eq!((array(0, 3, 2).bytes(), array(u64::MAX, 3, 2).bytes()), (None, None));
        let compressed = RecordedArray { texel: Texel { format: 0x91, channels: 4 }, ..array(4, 4, 0) };
        assert_eq!(compressed.bytes(), None);
    }

    #[test]
    fn what_a_replay_cannot_make_is_a_fault() {
        let fault = |images: &Images| {
            let is_recorded = |address, bytes| address >= 0x8000 && address + bytes <= 0x9000;
            images.fault(|address, bytes| (address, bytes) == (0x1000, 480), is_recorded)
        };
        let linear = |address, bytes| ImageResource::Linear { address, texel: FLOATS, bytes };
        let pitched =
            |height, pitch| ImageResource::Pitched { address: 0x8000, texel: FLOATS, width: 4, height, pitch };
        let images = |objects: Vec<ImageObject>| Images { arrays: vec![array(5, 3, 2)], objects };
        let good = images(vec![
            object(2, ImageResource::Array(0)),
            ImageObject { texture: None, ..object(1, ImageResource::Array(0)) },
            object(4096, linear(0x8000, 0x1000)),
            ImageObject { view: vec![0; VIEW_WORDS], ..object(3, pitched(16, 256)) },
        ]);
        assert_eq!(fault(&good), None);
        assert!(good.has_surface(0) && !images(vec![object(1, ImageResource::Array(0))]).has_surface(0));
        assert_eq!(serde_json::from_value::<Images>(serde_json::to_value(&good).unwrap()).unwrap(), good);
        for wrong in [
            object(1, ImageResource::Array(1)),
            object(0, ImageResource::Array(0)),
            object(4097, ImageResource::Array(0)),
            object(1, linear(0x8000, 0x1001)),
            object(1, pitched(18, 256)),
            object(1, pitched(u64::MAX, u64::MAX)),
            object(1, pitched(0, 256)),
            ImageObject { texture: None, ..object(1, linear(0x8000, 16)) },
            ImageObject { view: vec![0; 3], ..object(1, ImageResource::Array(0)) },
        ] {
            assert!(fault(&images(vec![wrong.clone()])).is_some(), "{wrong:?}");
        }
        let twice = vec![object(1, ImageResource::Array(0)), object(1, ImageResource::Array(0))];
        assert!(fault(&images(twice)).is_some());
        assert!(fault(&Images { arrays: vec![array(5, 3, 3)], objects: vec![] }).is_some());
    }
}
