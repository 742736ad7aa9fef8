//! The live arrays, and the texture and surface objects over arrays and memory.
//!
//! The driver describes an object if asked, but it neither lists objects nor says whether an object's array still
//! exists. So the recorder tracks both.

use std::collections::BTreeMap;
use std::ffi::{c_ulonglong, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::structures::{ArrayDescription, ArrayDescription2d, Resource, TextureDescription, resource_kind};
use mneme_model::images::{TEXTURE_WORDS, VIEW_WORDS};

use super::allocations::ALLOCATIONS;
use crate::driver::{self, CUarray, Status, gate};

/// An object. `Resource` and description are the application's.
#[derive(Clone, Debug)]
pub struct LiveObject {
    pub handle: u64,
    pub resource: Resource,
    /// The array, if the resource is one that the recorder saw being made.
    pub array: Option<ArrayDescription>,
    /// Address and size of the allocation that it was made over, if its texels are not an array.
    pub memory: Option<(u64, u64)>,
    /// `None` for a surface.
    pub texture: Option<[u32; TEXTURE_WORDS]>,
    /// The words of its `CUDA_RESOURCE_VIEW_DESC`, or none.
    pub view: Vec<u32>,
}

#[derive(Default)]
struct Live {
    /// By `CUarray`: its context and description.
    arrays: BTreeMap<usize, (usize, ArrayDescription)>,
    /// By context and handle.
    objects: BTreeMap<(usize, u64), LiveObject>,
}

static LIVE: Mutex<Live> = Mutex::new(Live { arrays: BTreeMap::new(), objects: BTreeMap::new() });

impl Live {
    /// Forgets an array and the objects over it, and returns them.
    fn take_array(&mut self, array: usize) -> Self {
        let is_over = |object: &LiveObject| object.array_handle() == Some(array as u64);
        let over: Vec<_> = self.objects.iter().filter(|(_, object)| is_over(object)).map(|(key, _)| *key).collect();
        let objects = over.iter().filter_map(|key| self.objects.remove_entry(key)).collect();
        Self { arrays: self.arrays.remove_entry(&array).into_iter().collect(), objects }
    }
}

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The objects of a context, by handle.
pub fn of_context(context: usize) -> Vec<LiveObject> {
    live().objects.range((context, 0)..=(context, u64::MAX)).map(|(_, object)| object.clone()).collect()
}

/// Forgets what has ended with contexts.
pub fn forget_contexts(has_ended: impl Fn(usize) -> bool) {
    let mut live = live();
    live.arrays.retain(|_, (context, _)| !has_ended(*context));
    live.objects.retain(|(context, _), _| !has_ended(*context));
}

fn add_array(array: *const CUarray, described: ArrayDescription) {
    let context = driver::current_context().unwrap_or(0);
    // SAFETY: the driver has just written it.
    live().arrays.insert(unsafe { *array } as usize, (context, described));
}

/// # Safety
/// The arguments are those of `cuArray3DCreate_v2`.
pub unsafe fn create_array(call: &dyn Fn() -> Status, array: *mut CUarray, what: *const ArrayDescription) -> Status {
    // SAFETY: the driver has just read it.
    gate::passing(&|| call().on_success(|| add_array(array, unsafe { *what })))
}

/// # Safety
/// The arguments are those of `cuArrayCreate_v2`.
pub unsafe fn create_plane(call: &dyn Fn() -> Status, array: *mut CUarray, what: *const ArrayDescription2d) -> Status {
    gate::passing(&|| {
        call().on_success(|| {
            // SAFETY: the driver has just read it.
            let ArrayDescription2d { width, height, format, channels } = unsafe { *what };
            add_array(array, ArrayDescription { width, height, depth: 0, format, channels, flags: 0 });
        })
    })
}

/// Handles `cuArrayDestroy`. Kernels must not use the objects of the array any more.
pub fn destroy_array(call: &dyn Fn() -> Status, array: CUarray) -> Status {
    gate::passing(&|| {
        // Before the call: afterwards another thread may already have got the same handle.
        let taken = live().take_array(array as usize);
        let status = call();
        if status != Status::SUCCESS {
            let mut live = live();
            live.arrays.extend(taken.arrays);
            live.objects.extend(taken.objects);
        }
        status
    })
}

impl LiveObject {
    /// The `CUarray` of its texels, if it has one.
    pub fn array_handle(&self) -> Option<u64> {
        (self.resource.kind == resource_kind::ARRAY).then_some(self.resource.words[0])
    }

    /// Address and size of the allocation that is where its texels begin, if they are not an array.
    pub fn current_memory(&self) -> Option<(u64, u64)> {
        let is_memory = matches!(self.resource.kind, resource_kind::LINEAR | resource_kind::PITCHED);
        let live = is_memory.then(|| ALLOCATIONS.containing(self.resource.words[0]))??;
        Some((live.address, live.size))
    }
}

fn add_object(handle: *const c_ulonglong, resource: Resource, texture: Option<[u32; TEXTURE_WORDS]>, view: Vec<u32>) {
    // SAFETY: the driver has just written it.
    let handle = unsafe { *handle };
    let context = driver::current_context().unwrap_or(0);
    let mut live = live();
    let mut object = LiveObject { handle, resource, array: None, memory: None, texture, view };
    object.memory = object.current_memory();
    let array = object.array_handle().and_then(|array| live.arrays.get(&(array as usize)));
    object.array = array.map(|(_, described)| *described);
    live.objects.insert((context, handle), object);
}

/// # Safety
/// The arguments are those of `cuTexObjectCreate`.
pub unsafe fn create_texture(
    call: &dyn Fn() -> Status,
    handle: *mut c_ulonglong,
    resource: *const Resource,
    what: *const TextureDescription,
    view: *const c_void,
) -> Status {
    gate::passing(&|| {
        call().on_success(|| {
            // SAFETY: the driver has just read both.
            let (resource, words) = unsafe { (*resource, (*what).words()) };
            // SAFETY: null, or a description that the driver has just read.
            let view = unsafe { view.cast::<[u32; VIEW_WORDS]>().as_ref() };
            add_object(handle, resource, Some(words), view.map_or_else(Vec::new, |view| view.to_vec()));
        })
    })
}

/// # Safety
/// The arguments are those of `cuSurfObjectCreate`.
pub unsafe fn create_surface(call: &dyn Fn() -> Status, handle: *mut c_ulonglong, resource: *const Resource) -> Status {
    // SAFETY: the driver has just read it.
    gate::passing(&|| call().on_success(|| add_object(handle, unsafe { *resource }, None, Vec::new())))
}

/// Handles `cuTexObjectDestroy` and `cuSurfObjectDestroy`.
pub fn destroy_object(call: &dyn Fn() -> Status, handle: c_ulonglong) -> Status {
    let key = (driver::current_context().unwrap_or(0), handle);
    gate::passing(&|| {
        // Before the call, as above.
        let removed = live().objects.remove(&key);
        let status = call();
        if status != Status::SUCCESS {
            live().objects.extend(removed.map(|object| (key, object)));
        }
        status
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_end_with_their_array_their_context_or_by_themselves() {
        let (mut array, mut handle) = (0x7100 as CUarray, 1);
        let what = ArrayDescription { width: 4, height: 0, depth: 0, format: 32, channels: 1, flags: 2 };
        let handles = || of_context(0).iter().map(|object| object.handle).collect::<Vec<_>>();
        let made = || Status::SUCCESS;
        // SAFETY: valid places, as the driver would have read and written them.
        unsafe {
            create_array(&|| Status(1), &mut array, &what);
            create_surface(&made, &mut handle, &Resource::array(array as u64));
            assert!(of_context(0)[0].array.is_none(), "the driver has refused the array");
            create_array(&made, &mut array, &what);
            handle = 2;
            create_surface(&made, &mut handle, &Resource::array(array as u64));
            assert_eq!(of_context(0)[1].array.map(|array| array.width), Some(4));
            handle = 3;
            create_surface(&made, &mut handle, &Resource::linear(0x1000, [32, 1], 64));
        }
        assert_eq!((handles(), of_context(1).len()), (vec![1, 2, 3], 0));
        destroy_array(&|| Status(1), array);
        assert_eq!(handles(), [1, 2, 3], "the driver has refused");
        destroy_array(&made, array);
        assert_eq!(handles(), [3]);
        destroy_object(&|| Status(1), 3);
        assert_eq!(handles(), [3]);
        destroy_object(&made, 3);
        assert!(handles().is_empty());
        // SAFETY: as above.
        unsafe { create_surface(&made, &mut handle, &Resource::linear(0x1000, [32, 1], 64)) };
        forget_contexts(|context| context == 7);
        assert_eq!(handles(), [3]);
        forget_contexts(|context| context == 0);
        assert!(handles().is_empty());
    }
}
