//! Handlers of the launch functions: every variant becomes one [`Request`].

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys::{CUlaunchAttribute, CUlaunchConfig};
use mneme_core::launch::{Dim3, Launch, LaunchAttributes};
use mneme_core::recording::manifest::Argument;

use crate::recorder;
use crate::vendor::{CUfunction, CUstream, STREAM_LEGACY, STREAM_PER_THREAD, Status};

/// The launch attributes that a replay has to repeat.
mod attribute {
    use cudarc::driver::sys::CUlaunchAttributeID;
    pub const COOPERATIVE: u32 = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE as u32;
    pub const CLUSTER_DIMENSION: u32 = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as u32;
}
/// Keys of the `extra` array: `CU_LAUNCH_PARAM_…`.
mod extra {
    pub const END: usize = 0;
    pub const BUFFER_POINTER: usize = 1;
    pub const BUFFER_SIZE: usize = 2;
}

/// A launch as the application asked for it.
pub struct Request {
    pub function: CUfunction,
    pub launch: Launch,
    /// Never 0: the default stream goes by its name.
    pub stream: usize,
    pub arguments: Arguments,
}

/// Where the argument bytes are, during the call.
pub struct Arguments {
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl Arguments {
    /// As the driver's launch functions take them: an array of pointers, or else the list of `extra`.
    pub fn new(parameters: *mut *mut c_void, extra: *mut *mut c_void) -> Self {
        Self { parameters, extra }
    }

    /// The list of `extra` for a packed buffer; both places must outlive it.
    pub fn packed(buffer: &mut [u8], size: &mut usize) -> [*mut c_void; 5] {
        let key = std::ptr::without_provenance_mut;
        [key(extra::BUFFER_POINTER), buffer.as_mut_ptr().cast(), key(extra::BUFFER_SIZE), (&raw mut *size).cast(), key(extra::END)]
    }

    /// Copies the arguments at these offsets and sizes (bytes); `None` if the application passed fewer.
    ///
    /// # Safety
    /// The layout must be the kernel's, and the launch must still be under way.
    pub unsafe fn read(&self, layout: impl Iterator<Item = (u32, u32)>) -> Option<Vec<Argument>> {
        let mut arguments = Vec::new();
        let copy = |_, offset, bytes: &[u8]| arguments.push(Argument { offset, bytes: bytes.to_vec() });
        // SAFETY: the caller's promise.
        unsafe { self.visit(layout, copy) }.then_some(arguments)
    }

    /// Shows the arguments at these offsets and sizes (bytes), with their numbers; false if the application passed fewer.
    ///
    /// # Safety
    /// As for `read`.
    pub unsafe fn visit(&self, layout: impl Iterator<Item = (u32, u32)>, mut visitor: impl FnMut(usize, u32, &[u8])) -> bool {
        // SAFETY: the launch is under way.
        let buffer = if self.parameters.is_null() { unsafe { self.buffer() } } else { None };
        for (index, (offset, size)) in layout.enumerate() {
            let source = if self.parameters.is_null() {
                match buffer {
                    // SAFETY: inside the buffer.
                    Some((start, length)) if offset as usize + size as usize <= length => unsafe { start.add(offset as usize) },
                    _ => return false,
                }
            } else {
                // SAFETY: the array has a pointer for each of the kernel's parameters.
                unsafe { *self.parameters.add(index) }.cast_const().cast::<u8>()
            };
            if source.is_null() {
                return false;
            }
            // SAFETY: each points to a value of the parameter's size.
            visitor(index, offset, unsafe { std::slice::from_raw_parts(source, size as usize) });
        }
        true
    }

    /// The packed buffer of `extra`: start and length in bytes.
    unsafe fn buffer(&self) -> Option<(*const u8, usize)> {
        if self.extra.is_null() {
            return None;
        }
        let (mut start, mut length) = (None, None);
        let mut at = self.extra;
        // SAFETY: the array is pairs of key and value, ended by a key of 0.
        unsafe {
            loop {
                let (key, value) = match *at as usize {
                    extra::END => break,
                    key => (key, *at.add(1)),
                };
                match key {
                    extra::BUFFER_POINTER => start = Some(value.cast_const().cast::<u8>()),
                    extra::BUFFER_SIZE => length = Some(*value.cast::<usize>()),
                    _ => return None,
                }
                at = at.add(2);
            }
        }
        Some((start?, length?))
    }
}

fn named(stream: CUstream, default: usize) -> usize {
    if stream.is_null() { default } else { stream as usize }
}

/// A launch whose dimensions are arguments of their own, on `$default` where the stream is null; `[extra]` where the driver
/// function takes a packed buffer as well.
macro_rules! launch {
    ($(#[$meta:meta])* $name:ident, $default:expr, cooperative: $cooperative:literal, [$($extra:ident)?]) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// The arguments are those of the driver function.
        #[expect(clippy::too_many_arguments, reason = "the driver's")]
        pub unsafe fn $name(
            call: &dyn Fn() -> Status,
            function: CUfunction,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared: c_uint,
            stream: CUstream,
            parameters: *mut *mut c_void,
            $($extra: *mut *mut c_void,)?
        ) -> Status {
            let launch = Launch {
                grid: Dim3::new(grid_x, grid_y, grid_z),
                block: Dim3::new(block_x, block_y, block_z),
                shared_mem: shared,
                attributes: LaunchAttributes { cooperative: $cooperative, ..LaunchAttributes::default() },
            };
            let arguments = Arguments { parameters, extra: launch!(@or_null $($extra)?) };
            recorder::launch(call, Request { function, launch, stream: named(stream, $default), arguments })
        }
    };
    (@or_null) => { std::ptr::null_mut() };
    (@or_null $extra:ident) => { $extra };
}

launch!(
    /// `cuLaunchKernel`.
    kernel,
    STREAM_LEGACY,
    cooperative: false,
    [extra]
);
launch!(
    /// `cuLaunchKernel_ptsz`.
    kernel_per_thread,
    STREAM_PER_THREAD,
    cooperative: false,
    [extra]
);
launch!(
    /// `cuLaunchCooperativeKernel`.
    cooperative,
    STREAM_LEGACY,
    cooperative: true,
    []
);
launch!(
    /// `cuLaunchCooperativeKernel_ptsz`.
    cooperative_per_thread,
    STREAM_PER_THREAD,
    cooperative: true,
    []
);

unsafe fn extended(
    call: &dyn Fn() -> Status,
    configuration: *const CUlaunchConfig,
    function: CUfunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    default: usize,
) -> Status {
    if configuration.is_null() {
        return call();
    }
    // SAFETY: not null; the structure has no enumerations but behind `attrs`, which is read as integers.
    let configuration = unsafe { &*configuration };
    let launch = Launch {
        grid: Dim3::new(configuration.gridDimX, configuration.gridDimY, configuration.gridDimZ),
        block: Dim3::new(configuration.blockDimX, configuration.blockDimY, configuration.blockDimZ),
        shared_mem: configuration.sharedMemBytes,
        // SAFETY: the array has this many elements.
        attributes: unsafe { attributes(configuration.attrs, configuration.numAttrs) },
    };
    recorder::launch(
        call,
        Request { function, launch, stream: named(configuration.hStream, default), arguments: Arguments { parameters, extra } },
    )
}

/// Reads attributes as integers: the identifier at offset 0, the value at 8 (`CUlaunchAttribute`).
unsafe fn attributes(array: *const CUlaunchAttribute, count: c_uint) -> LaunchAttributes {
    let mut found = LaunchAttributes::default();
    if array.is_null() {
        return found;
    }
    for index in 0..count as usize {
        // SAFETY: inside the array; an element is 8 bytes of identifier and padding and 64 of value.
        unsafe {
            let element = array.add(index).cast::<u8>();
            let value = element.add(8).cast::<u32>();
            match *element.cast::<u32>() {
                attribute::COOPERATIVE => found.cooperative = *value != 0,
                attribute::CLUSTER_DIMENSION => found.cluster = Some(Dim3::new(*value, *value.add(1), *value.add(2))),
                _ => {}
            }
        }
    }
    found
}

/// # Safety
/// The arguments are those of `cuLaunchKernelEx`.
pub unsafe fn kernel_ex(
    call: &dyn Fn() -> Status,
    configuration: *const CUlaunchConfig,
    function: CUfunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Status {
    // SAFETY: passed on.
    unsafe { extended(call, configuration, function, parameters, extra, STREAM_LEGACY) }
}

/// # Safety
/// The arguments are those of `cuLaunchKernelEx_ptsz`.
pub unsafe fn kernel_ex_per_thread(
    call: &dyn Fn() -> Status,
    configuration: *const CUlaunchConfig,
    function: CUfunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Status {
    // SAFETY: passed on.
    unsafe { extended(call, configuration, function, parameters, extra, STREAM_PER_THREAD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_from_pointers_and_from_a_buffer() {
        let layout = [(0, 4), (8, 8)];
        let (mut number, mut pointer) = (7u32, 0x1234_5678_9abcu64);
        let mut parameters = [(&raw mut number).cast(), (&raw mut pointer).cast()];
        let from_pointers = Arguments { parameters: parameters.as_mut_ptr(), extra: std::ptr::null_mut() };
        let mut buffer = [7u32, 99, 0x5678_9abc, 0x1234];
        let mut size = 16usize;
        let mut list: [*mut c_void; 5] = [1 as _, buffer.as_mut_ptr().cast(), 2 as _, (&raw mut size).cast(), 0 as _];
        let from_buffer = Arguments { parameters: std::ptr::null_mut(), extra: list.as_mut_ptr() };
        // SAFETY: both hold two values of this layout.
        let (one, other) = unsafe { (from_pointers.read(layout.into_iter()), from_buffer.read(layout.into_iter())) };
        assert_eq!(one, other);
        assert_eq!(one.unwrap()[1], Argument { offset: 8, bytes: pointer.to_le_bytes().to_vec() });
        // The list holds the address of `size`.
        // SAFETY: a local of this type.
        unsafe { (&raw mut size).write_volatile(12) };
        // SAFETY: as above.
        assert_eq!(unsafe { from_buffer.read(layout.into_iter()) }, None, "a buffer that is too short");
    }
}
