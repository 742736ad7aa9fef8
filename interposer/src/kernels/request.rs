//! A launch as the application requests it, and its arguments while it is in progress.

use std::ffi::c_void;

use mneme_abi::cuda::structures::LaunchAttribute;
use mneme_model::launch::Launch;
use mneme_recording::manifest::RecordedArgument;

use crate::driver::{CUfunction, launch_parameter};

/// A launch as the application requests it.
pub struct LaunchRequest {
    pub function: CUfunction,
    pub launch: Launch,
    /// The stream. Never 0: the default stream is given by name.
    pub stream: usize,
    pub arguments: LaunchArguments,
    pub extras: Extras,
}

/// The properties of a launch besides dimensions, shared memory, stream and arguments.
#[derive(Clone, Copy, Debug)]
pub enum Extras {
    /// No properties beyond [`Launch`].
    None,
    /// The application's array of attributes, and its length.
    Attributes(*const LaunchAttribute, u32),
    /// Properties that only the application's own call can express.
    OwnCall,
}

/// The addresses of the argument bytes, valid during the call.
pub struct LaunchArguments {
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl LaunchArguments {
    /// Arguments as the driver's launch functions take them: an array of pointers, or the list of `extra`.
    pub fn new(parameters: *mut *mut c_void, extra: *mut *mut c_void) -> Self {
        Self { parameters, extra }
    }

    /// The arguments that the caller passed.
    pub fn raw(&self) -> (*mut *mut c_void, *mut *mut c_void) {
        (self.parameters, self.extra)
    }

    /// Copies the arguments at these offsets and sizes (bytes). `None` if the application passed fewer.
    ///
    /// # Safety
    /// The layout must be the kernel's, and the launch must still be in progress.
    pub unsafe fn read(&self, layout: impl Iterator<Item = (u32, u32)>) -> Option<Vec<RecordedArgument>> {
        let mut arguments = Vec::new();
        let copy = |_, offset, bytes: &[u8]| arguments.push(RecordedArgument { offset, bytes: bytes.to_vec() });
        // SAFETY: the caller's promise.
        unsafe { self.visit(layout, copy) }.then_some(arguments)
    }

    /// Passes each argument at these offsets and sizes (bytes) to `visitor`, with its number. Returns false if the
    /// application passed fewer.
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    pub unsafe fn visit(
        &self,
        layout: impl Iterator<Item = (u32, u32)>,
        mut visitor: impl FnMut(usize, u32, &[u8]),
    ) -> bool {
        // SAFETY: the caller's promise.
        let places = unsafe { self.places() };
        for (index, (offset, size)) in layout.enumerate() {
            // SAFETY: the caller's promise.
            let Some(start) = places.and_then(|places| unsafe { places.of(index as u32, offset, size as usize) })
            else {
                return false;
            };
            // SAFETY: a value of the parameter's size starts there.
            visitor(index, offset, unsafe { std::slice::from_raw_parts(start, size as usize) });
        }
        true
    }

    /// The places of the arguments, or `None` if the application passed none.
    ///
    /// # Safety
    /// The launch must still be in progress.
    #[inline]
    pub unsafe fn places(&self) -> Option<Places> {
        if self.parameters.is_null() {
            // SAFETY: the caller's promise.
            return unsafe { self.buffer() }.map(|(start, length)| Places::Buffer(start, length));
        }
        Some(Places::Pointers(self.parameters))
    }

    /// The packed buffer of `extra`: start and length in bytes.
    unsafe fn buffer(&self) -> Option<(*const u8, usize)> {
        if self.extra.is_null() {
            return None;
        }
        let (mut start, mut length) = (None, None);
        let mut at = self.extra;
        // SAFETY: the array consists of pairs of key and value and ends with a key of 0.
        unsafe {
            loop {
                let (key, value) = match *at as usize {
                    launch_parameter::END | launch_parameter::HIP_END => break,
                    key => (key, *at.add(1)),
                };
                match key {
                    launch_parameter::BUFFER_POINTER => start = Some(value.cast_const().cast::<u8>()),
                    launch_parameter::BUFFER_SIZE => length = Some(*value.cast::<usize>()),
                    _ => return None,
                }
                at = at.add(2);
            }
        }
        Some((start?, length?))
    }
}

/// The places of the arguments of a launch in progress.
#[derive(Clone, Copy)]
pub enum Places {
    /// An array of pointers, one for each of the kernel's parameters.
    Pointers(*mut *mut c_void),
    /// The packed buffer of `extra`: start and length in bytes.
    Buffer(*const u8, usize),
}

impl Places {
    /// The start of a parameter of this size, or `None` if the application passed fewer.
    ///
    /// # Safety
    /// The kernel must have such a parameter.
    #[inline]
    pub unsafe fn of(self, index: u32, offset: u32, size: usize) -> Option<*const u8> {
        let start = match self {
            // SAFETY: the array has a pointer for each of the kernel's parameters.
            Self::Pointers(array) => unsafe { *array.add(index as usize) }.cast_const().cast::<u8>(),
            // SAFETY: inside the buffer.
            Self::Buffer(start, length) if offset as usize + size <= length => unsafe { start.add(offset as usize) },
            Self::Buffer(..) => return None,
        };
        (!start.is_null()).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_from_pointers_and_from_a_buffer() {
        let layout = [(0, 4), (8, 8)];
        let (mut number, mut pointer) = (7u32, 0x1234_5678_9abcu64);
        let mut parameters = [(&raw mut number).cast(), (&raw mut pointer).cast()];
        let from_pointers = LaunchArguments { parameters: parameters.as_mut_ptr(), extra: std::ptr::null_mut() };
        let mut buffer = [7u32, 99, 0x5678_9abc, 0x1234];
        let mut size = 16usize;
        let mut list: [*mut c_void; 5] = [1 as _, buffer.as_mut_ptr().cast(), 2 as _, (&raw mut size).cast(), 0 as _];
        let from_buffer = LaunchArguments { parameters: std::ptr::null_mut(), extra: list.as_mut_ptr() };
        // SAFETY: both hold two values of this layout.
        let (one, other) = unsafe { (from_pointers.read(layout.into_iter()), from_buffer.read(layout.into_iter())) };
        assert_eq!(one, other);
        assert_eq!(one.unwrap()[1], RecordedArgument { offset: 8, bytes: pointer.to_le_bytes().to_vec() });
        // The list holds the address of `size`.
        // SAFETY: a local of this type.
        unsafe { (&raw mut size).write_volatile(12) };
        // SAFETY: as above.
        assert_eq!(unsafe { from_buffer.read(layout.into_iter()) }, None, "a buffer that is too short");
    }
}
