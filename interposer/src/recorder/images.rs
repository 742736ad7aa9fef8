//! The arrays, and the texture and surface objects, that a recorded launch can use.
//!
//! A handle is a small number, which any argument or word of memory may be. So the recording has all live objects of the
//! launch's context. The texels of arrays are copied to memory before and after the launch, and are recorded there like
//! other memory.

use std::collections::BTreeMap;

use mneme_abi::cuda::structures::{ArrayDescription, Copy3d, CopySide, array_flag, resource_kind};
use mneme_abi::cuda::sys::CUpointer_attribute;
use mneme_model::images::{ImageObject, ImageResource, Images, MOST_OBJECTS, RecordedArray, Texel};
use mneme_recording::manifest::{Allocation, AllocationKind};

use super::Plan;
use crate::driver::{self, Status};
use crate::memory::arena::vmm::{self, DeviceArena};
use crate::memory::images::{self, LiveObject};
use crate::process::log::debug;
use crate::snapshot::{self, SnapshotError};

/// Flags of arrays that a replay repeats.
const KNOWN_FLAGS: u32 =
    array_flag::LAYERED | array_flag::SURFACE | array_flag::CUBE | array_flag::GATHER | array_flag::COLOR_ATTACHMENT;

/// Why a launch with these objects is not recorded. The subject of a message is the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageRefusal {
    #[error(
        "it can use the texture object {0}, whose texels are a mipmapped array, which is not recorded; destroy the object before the launch if the kernel does not need it"
    )]
    Mipmapped(u64),
    #[error(
        "it can use the texture or surface object {0}, whose array the recorder has not seen being made (a level of a mipmapped array, or memory of another interface); destroy the object before the launch if the kernel does not need it"
    )]
    Unknown(u64),
    #[error(
        "it can use the texture or surface object {0}, whose texels are not integers of 8, 16 or 32 bits, halves or floats"
    )]
    Format(u64),
    #[error(
        "it can use the texture or surface object {0}, whose array is sparse or has another flag that is not recorded ({1:#x})"
    )]
    Flags(u64, u32),
    #[error(
        "it can use the texture or surface object {0}, and objects above {MOST_OBJECTS} are not recorded; destroy those that are not needed"
    )]
    Handle(u64),
    #[error(
        "it can use the texture object {0}, whose memory is a variable, or more than one allocation; destroy the object before the launch if the kernel does not need it"
    )]
    Memory(u64),
    #[error("it can use texture or surface objects over arrays, and the device has no room to copy their {0} bytes")]
    NoRoom(u64),
}

/// The images of a launch, and memory for the texels of its arrays.
#[derive(Default)]
pub struct StagedImages {
    pub images: Images,
    /// The `CUarray` of each array.
    handles: Vec<u64>,
    /// The arena that the memory is from. `None`: the vendor allocated it.
    arena: Option<&'static DeviceArena>,
}

/// Why a launch is refused, whatever memory it reaches. Takes no time on the device.
pub fn refusal(plan: &Plan) -> Result<(), ImageRefusal> {
    if !plan.code.uses_images() {
        return Ok(());
    }
    images::of_context(plan.context.handle).iter().try_for_each(|object| match object.resource.kind {
        _ if !(1..=MOST_OBJECTS).contains(&object.handle) => Err(ImageRefusal::Handle(object.handle)),
        resource_kind::ARRAY => described(object).map(|_| ()),
        resource_kind::MIPMAPPED_ARRAY => Err(ImageRefusal::Mipmapped(object.handle)),
        _ => texel(object).map(|_| ()),
    })
}

impl StagedImages {
    /// Keeps the memory for texels allocated for ever: the device may still write to it, and freeing it may wait for
    /// the device.
    pub fn leak(&mut self) {
        self.handles.clear();
    }

    /// Describes the objects of a launch's context, which is not [refused](refusal), and allocates memory for their
    /// arrays. Objects over memory that was freed are left out: a kernel must not use them.
    pub fn of(plan: &Plan, allocations: &[Allocation]) -> Result<Self, ImageRefusal> {
        let mut staged = Self::default();
        if !plan.code.uses_images() {
            return Ok(staged);
        }
        let mut numbers = BTreeMap::new();
        for object in images::of_context(plan.context.handle) {
            let resource = match object.resource.kind {
                resource_kind::ARRAY => {
                    let array = described(&object)?;
                    let number = *numbers.entry(object.resource.words[0]).or_insert(staged.handles.len() as u32);
                    if number as usize == staged.handles.len() {
                        staged.handles.push(object.resource.words[0]);
                        staged.images.arrays.push(array);
                    }
                    ImageResource::Array(number)
                }
                _ => match in_memory(&object, allocations)? {
                    Some(resource) => resource,
                    None => continue,
                },
            };
            let LiveObject { handle, texture, view, .. } = object;
            staged.images.objects.push(ImageObject { handle, resource, texture, view });
        }
        staged.allocate(plan)?;
        Ok(staged)
    }

    fn allocate(&mut self, plan: &Plan) -> Result<(), ImageRefusal> {
        if self.handles.is_empty() {
            return Ok(());
        }
        self.arena = vmm::of_device(plan.context.device);
        for array in &mut self.images.arrays {
            let bytes = array.bytes().unwrap_or(0);
            let address = match self.arena {
                Some(DeviceArena { arena, mapper }) => arena.allocate(mapper, bytes),
                None => vendors(bytes),
            };
            array.address = address.ok_or(ImageRefusal::NoRoom(bytes))?;
        }
        Ok(())
    }

    /// The memory for texels, as the recording names it.
    pub fn allocations(&self) -> impl Iterator<Item = Allocation> {
        self.images.arrays.iter().enumerate().map(|(number, array)| Allocation {
            address: array.address,
            size: array.bytes().unwrap_or(0),
            kind: AllocationKind::Array,
            tag: self.images.array_name(number),
            ..Allocation::default()
        })
    }

    /// Copies the texels into memory. The current context must be idle.
    pub fn fetch(&mut self, context: usize) -> Result<(), SnapshotError> {
        if self.handles.is_empty() {
            return Ok(());
        }
        let copy = |(array, handle): (&RecordedArray, &u64)| {
            let row = array.row().unwrap_or(0) as usize;
            let [_, rows, slices] = array.extent().map(|length| length as usize);
            let (from, to) = (CopySide::array(*handle), CopySide::memory(array.address, row, rows));
            Copy3d { from, to, width: row, height: rows, depth: slices }
        };
        let copies: Vec<Copy3d> = self.images.arrays.iter().zip(&self.handles).map(copy).collect();
        let copied = snapshot::arrays::copy(context, &copies);
        copied.inspect_err(|_| self.leak())
    }
}

impl Drop for StagedImages {
    fn drop(&mut self) {
        let arrays = self.images.arrays.iter().zip(&self.handles).map(|(array, _)| array);
        for array in arrays.filter(|array| array.address != 0) {
            match self.arena {
                Some(DeviceArena { arena, mapper }) => arena.free(mapper, array.address, array.bytes().unwrap_or(0)),
                None => {
                    // SAFETY: allocated here, and no copy uses it.
                    unsafe { driver::hooked::cuMemFree_v2::call(array.address) };
                }
            }
        }
    }
}

/// Allocates memory of the vendor.
fn vendors(bytes: u64) -> Option<u64> {
    let mut address = 0;
    // SAFETY: a valid place for the answer.
    let status = unsafe { driver::hooked::cuMemAlloc_v2::call(&mut address, bytes as usize) };
    (status == Status::SUCCESS).then_some(address)
}

fn described(object: &LiveObject) -> Result<RecordedArray, ImageRefusal> {
    let handle = object.handle;
    let ArrayDescription { width, height, depth, format, channels, flags } =
        object.array.ok_or(ImageRefusal::Unknown(handle))?;
    if flags & !KNOWN_FLAGS != 0 {
        return Err(ImageRefusal::Flags(handle, flags));
    }
    let [width, height, depth] = [width, height, depth].map(|length| length as u64);
    let array = RecordedArray { address: 0, width, height, depth, texel: Texel { format, channels }, flags };
    array.bytes().map(|_| array).ok_or(ImageRefusal::Format(handle))
}

fn texel(object: &LiveObject) -> Result<Texel, ImageRefusal> {
    let [format, channels] = object.resource.format();
    let texel = Texel { format, channels };
    texel.bytes().map(|_| texel).ok_or(ImageRefusal::Format(object.handle))
}

/// The texels of an object in recorded memory; `None` if the memory was freed.
fn in_memory(object: &LiveObject, allocations: &[Allocation]) -> Result<Option<ImageResource>, ImageRefusal> {
    let texel = texel(object)?;
    let [address, _, third, fourth, fifth, ..] = object.resource.words;
    let resource = match object.resource.kind {
        resource_kind::LINEAR => ImageResource::Linear { address, texel, bytes: third },
        _ => ImageResource::Pitched { address, texel, width: third, height: fourth, pitch: fifth },
    };
    let Some((address, Some(bytes))) = resource.memory() else { return Ok(None) };
    let has =
        |it: &Allocation| address.checked_sub(it.address).and_then(|offset| it.size.checked_sub(offset)) >= Some(bytes);
    if allocations.iter().any(has) {
        return Ok(Some(resource));
    }
    // Memory that was freed may be in use again, for something else.
    let now = object.current_memory();
    if now == object.memory && (now.is_some() || is_live(address)) {
        return Err(ImageRefusal::Memory(object.handle));
    }
    debug!("the texture object {} is left out: its memory at {address:#x} is gone", object.handle);
    Ok(None)
}

/// Whether an address is one of device memory, as the driver says: of an allocation, a mapping or a variable.
fn is_live(address: u64) -> bool {
    let mut kind = 0u32;
    let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as u32;
    // SAFETY: a place for the attribute's value.
    unsafe {
        driver::hooked::cuPointerGetAttribute::call((&raw mut kind).cast(), attribute, address) == Status::SUCCESS
    }
}

/// The addresses at which objects over memory lead there.
pub fn addresses(plan: &Plan) -> Vec<u64> {
    if !plan.code.uses_images() {
        return Vec::new();
    }
    let is_memory =
        |object: &LiveObject| matches!(object.resource.kind, resource_kind::LINEAR | resource_kind::PITCHED);
    images::of_context(plan.context.handle).iter().filter(|it| is_memory(it)).map(|it| it.resource.words[0]).collect()
}
