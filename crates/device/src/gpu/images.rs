//! The arrays, and the texture and surface objects, of a recording on a device.
//!
//! An array's texels are recorded as memory. They are copied to the array before each launch and, if a surface lets the
//! kernel write to it, back after the launch. So whatever happens to that memory between runs happens to the array.

use std::cell::Cell;
use std::ptr::null_mut;

use mneme_abi::cuda::driver::pointers;
use mneme_abi::cuda::structures::{ArrayDescription, Copy3d, CopySide, Resource, TextureDescription};
use mneme_abi::cuda::types::*;
use mneme_model::images::{ImageObject, ImageResource, Images, MOST_OBJECTS, RecordedArray, Texel, VIEW_WORDS};

use super::Gpu;
use crate::error::DeviceError;

/// NVIDIA's functions for arrays and objects, looked up only if a recording has some.
#[expect(non_snake_case, reason = "fields are named like the symbols")]
struct ImageTable {
    cuArray3DCreate_v2: pointers::cuArray3DCreate_v2,
    cuTexObjectCreate: pointers::cuTexObjectCreate,
    cuTexObjectDestroy: pointers::cuTexObjectDestroy,
    cuSurfObjectCreate: pointers::cuSurfObjectCreate,
    cuSurfObjectDestroy: pointers::cuSurfObjectDestroy,
    cuMemcpy3DAsync_v2: pointers::cuMemcpy3DAsync_v2,
}

struct DeviceArray {
    handle: CUarray,
    recorded: RecordedArray,
    /// Whether kernels can write to it.
    has_surface: bool,
}

/// Arrays and objects that exist as long as the context.
pub struct DeviceImages {
    table: ImageTable,
    arrays: Vec<DeviceArray>,
    /// Whether the arrays are already filled for the next launch.
    filled: Cell<bool>,
}

fn format(texel: Texel) -> [u32; 2] {
    [texel.format, texel.channels]
}

impl DeviceImages {
    pub fn make(gpu: &Gpu, images: &Images) -> Result<Self, DeviceError> {
        // SAFETY: the driver's ABI fixes the types of the functions with these names; the device keeps the library.
        let table = unsafe {
            ImageTable {
                cuArray3DCreate_v2: gpu.library.function("cuArray3DCreate_v2")?,
                cuTexObjectCreate: gpu.library.function("cuTexObjectCreate")?,
                cuTexObjectDestroy: gpu.library.function("cuTexObjectDestroy")?,
                cuSurfObjectCreate: gpu.library.function("cuSurfObjectCreate")?,
                cuSurfObjectDestroy: gpu.library.function("cuSurfObjectDestroy")?,
                cuMemcpy3DAsync_v2: gpu.library.function("cuMemcpy3DAsync_v2")?,
            }
        };
        let mut made = Self { table, arrays: Vec::new(), filled: Cell::new(false) };
        for (index, recorded) in images.arrays.iter().enumerate() {
            let handle = made.make_array(gpu, recorded)?;
            made.arrays.push(DeviceArray { handle, recorded: *recorded, has_surface: images.has_surface(index) });
        }
        let handles: Vec<u64> = images.objects.iter().map(|object| object.handle).collect();
        let create = |index: usize| made.make_object(gpu, &images.objects[index]);
        let destroy = |index: usize, handle| made.destroy_object(gpu, &images.objects[index], handle);
        match with_handles(&handles, create, destroy)? {
            None => Ok(made),
            Some(handle) => Err(DeviceError::Handle { handle }),
        }
    }

    fn make_array(&self, gpu: &Gpu, recorded: &RecordedArray) -> Result<CUarray, DeviceError> {
        let RecordedArray { width, height, depth, texel: Texel { format, channels }, flags, .. } = *recorded;
        let [width, height, depth] = [width, height, depth].map(|length| length as usize);
        let described = ArrayDescription { width, height, depth, format, channels, flags };
        let mut array = null_mut();
        // SAFETY: a valid description, and a valid place for the answer.
        match unsafe { (self.table.cuArray3DCreate_v2)(&mut array, &described) } {
            Status::OUT_OF_MEMORY => Err(DeviceError::OutOfMemory { size: recorded.bytes().unwrap_or(0) }),
            status => gpu.check("cuArray3DCreate_v2", status).map(|()| array),
        }
    }

    fn make_object(&self, gpu: &Gpu, object: &ImageObject) -> Result<u64, DeviceError> {
        let resource = match object.resource {
            ImageResource::Array(number) => Resource::array(self.arrays[number as usize].handle as u64),
            ImageResource::Linear { address, texel, bytes } => Resource::linear(address, format(texel), bytes),
            ImageResource::Pitched { address, texel, width, height, pitch } => {
                Resource::pitched(address, format(texel), [width, height], pitch)
            }
        };
        // The structure has fields of 8 bytes.
        let view: Option<[u64; VIEW_WORDS / 2]> = (object.view.len() == VIEW_WORDS).then(|| {
            std::array::from_fn(|at| u64::from(object.view[2 * at]) | u64::from(object.view[2 * at + 1]) << 32)
        });
        let view = view.as_ref().map_or(std::ptr::null(), |view| view.as_ptr().cast());
        let mut handle = 0;
        match &object.texture {
            Some(words) => {
                let described = TextureDescription::of_words(words);
                // SAFETY: descriptions that live until the call returns, or null; a valid place for the answer.
                let status = unsafe { (self.table.cuTexObjectCreate)(&mut handle, &resource, &described, view) };
                gpu.check("cuTexObjectCreate", status)?;
            }
            None => {
                // SAFETY: as above.
                let status = unsafe { (self.table.cuSurfObjectCreate)(&mut handle, &resource) };
                gpu.check("cuSurfObjectCreate", status)?;
            }
        }
        Ok(handle)
    }

    fn destroy_object(&self, gpu: &Gpu, object: &ImageObject, handle: u64) -> Result<(), DeviceError> {
        // SAFETY: the handle is one that the driver gave for this kind of object; no kernel runs.
        unsafe {
            match object.texture {
                Some(_) => gpu.check("cuTexObjectDestroy", (self.table.cuTexObjectDestroy)(handle)),
                None => gpu.check("cuSurfObjectDestroy", (self.table.cuSurfObjectDestroy)(handle)),
            }
        }
    }

    /// Fills the arrays for the next launch, unless they are filled.
    pub fn before_launch(&self, gpu: &Gpu) -> Result<(), DeviceError> {
        if self.filled.replace(false) { Ok(()) } else { self.fill(gpu) }
    }

    /// Fills the arrays for the next launch now.
    pub fn fill_now(&self, gpu: &Gpu) -> Result<(), DeviceError> {
        self.filled.set(true);
        self.fill(gpu)
    }

    fn fill(&self, gpu: &Gpu) -> Result<(), DeviceError> {
        self.arrays.iter().try_for_each(|array| self.copy(gpu, array, |memory, array| (memory, array)))
    }

    /// Copies the arrays that a kernel could write to back to memory.
    pub fn take_back(&self, gpu: &Gpu) -> Result<(), DeviceError> {
        let mut written = self.arrays.iter().filter(|array| array.has_surface);
        written.try_for_each(|array| self.copy(gpu, array, |memory, array| (array, memory)))
    }

    /// Copies all texels. `direction` orders memory and array: from, to.
    fn copy(
        &self,
        gpu: &Gpu,
        array: &DeviceArray,
        direction: impl Fn(CopySide, CopySide) -> (CopySide, CopySide),
    ) -> Result<(), DeviceError> {
        let row = array.recorded.row().unwrap_or(0) as usize;
        let [_, rows, slices] = array.recorded.extent().map(|length| length as usize);
        let memory = CopySide::memory(array.recorded.address, row, rows);
        let (from, to) = direction(memory, CopySide::array(array.handle as u64));
        let copy = Copy3d { from, to, width: row, height: rows, depth: slices };
        // SAFETY: a description that lives until the call returns; the driver checks both sides.
        gpu.check("cuMemcpy3DAsync_v2", unsafe { (self.table.cuMemcpy3DAsync_v2)(&copy, gpu.stream) })
    }
}

/// Creates an object for each of these handles, with others in the way of it, and destroys the others. `create` makes
/// an object with a number's description, and a driver gives it the smallest free handle. Returns a handle that the
/// driver does not give, if there is one.
fn with_handles<E>(
    handles: &[u64],
    mut create: impl FnMut(usize) -> Result<u64, E>,
    mut destroy: impl FnMut(usize, u64) -> Result<(), E>,
) -> Result<Option<u64>, E> {
    let mut order: Vec<usize> = (0..handles.len()).collect();
    order.sort_unstable_by_key(|index| handles[*index]);
    let mut surplus = Vec::new();
    let mut missing = None;
    for index in order {
        loop {
            let handle = create(index)?;
            if handle == handles[index] {
                break;
            }
            surplus.push((index, handle));
            if surplus.len() as u64 > MOST_OBJECTS {
                missing = Some(handles[index]);
                break;
            }
        }
        if missing.is_some() {
            break;
        }
    }
    surplus.into_iter().try_for_each(|(index, handle)| destroy(index, handle))?;
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A driver that numbers objects in its own way.
    struct Driver {
        live: RefCell<BTreeMap<u64, usize>>,
        number: fn(&BTreeMap<u64, usize>) -> u64,
    }

    impl Driver {
        fn with_handles(&self, handles: &[u64]) -> Option<u64> {
            let create = |index| {
                let mut live = self.live.borrow_mut();
                let handle = (self.number)(&live);
                assert_eq!(live.insert(handle, index), None);
                Ok::<u64, ()>(handle)
            };
            let destroy = |index, handle| {
                assert_eq!(self.live.borrow_mut().remove(&handle), Some(index));
                Ok(())
            };
            with_handles(handles, create, destroy).unwrap()
        }
    }

    fn smallest(live: &BTreeMap<u64, usize>) -> u64 {
        (1..).find(|handle| !live.contains_key(handle)).unwrap()
    }

    proptest! {
        #[test]
        fn each_object_has_its_handle_and_no_other_stays(
            handles in proptest::collection::hash_set(1u64..400, 0..20),
            others in proptest::collection::hash_set(400u64..600, 0..20),
        ) {
            let handles: Vec<u64> = handles.into_iter().collect();
            let others: BTreeMap<u64, usize> = others.into_iter().map(|handle| (handle, usize::MAX)).collect();
            let driver = Driver { live: RefCell::new(others.clone()), number: smallest };
            prop_assert_eq!(driver.with_handles(&handles), None);
            let mut expected = others;
            expected.extend(handles.iter().enumerate().map(|(index, handle)| (*handle, index)));
            prop_assert_eq!(driver.live.into_inner(), expected);
        }
    }

    #[test]
    fn the_search_ends_where_the_driver_does_not_give_the_handle() {
        let taken = Driver { live: RefCell::new([(2, usize::MAX)].into()), number: smallest };
        assert_eq!(taken.with_handles(&[1, 2]), Some(2));
        assert_eq!(taken.live.into_inner().len(), 2, "only the object with the other handle stays");
        let address = Driver {
            live: RefCell::default(),
            number: |live| live.keys().next_back().map_or(0x7f00_0000_0000, |last| last + 64),
        };
        assert_eq!(address.with_handles(&[1]), Some(1));
        assert!(address.live.into_inner().is_empty());
    }
}
