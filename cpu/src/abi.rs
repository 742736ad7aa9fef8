//! Arguments as C callers pass them.
//!
//! They are wrapped on entry, so all code behind the ABI is safe code.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use mneme_abi::cuda::types::{CUipcMemHandle, CUmemLocation, ChannelFormat, Dimensions, Extent, PitchedPointer};
use mneme_system::cancellation::PutOff;

use crate::status::{Status, StatusResult};

/// A pointer to write a result to. Only C callers create it, and they promise that it is null or valid for a `T`.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    pub fn to(place: &mut T) -> Self {
        Self(place)
    }

    pub fn nowhere() -> Self {
        Self(std::ptr::null_mut())
    }

    /// A place whose type another argument of the C call decides. The C caller promises that the type is right.
    pub fn to_place(address: usize) -> Self {
        Self(address as *mut T)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn put(self, value: T) -> StatusResult {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, so valid by the type's promise; callers do not promise alignment.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    pub fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            let _ = self.put(value);
        }
    }

    /// Element `index` of an array that the caller promises to be long enough.
    pub fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    pub fn address(self) -> usize {
        self.0 as usize
    }
}

/// A pointer to read from. The C caller promises that it is null or valid for a `T`.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    /// A place whose address is a number. The C caller promises that it is valid for a `T`.
    pub fn of_place(address: usize) -> Self {
        Self(address as *const T)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn address(self) -> usize {
        self.0 as usize
    }

    pub fn get(self) -> Result<T, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, so valid by the type's promise.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Element `index` of an array that the caller promises to be long enough.
    pub fn at(self, index: usize) -> Result<T, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller of the C function promises the length.
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }
}

impl<T> From<&T> for In<T> {
    fn from(place: &T) -> Self {
        Self(place)
    }
}

/// A C string. The C caller promises that it is null, or NUL-terminated and unchanged during the call.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct CStringArgument(pub *const c_char);

impl CStringArgument {
    pub fn get<'a>(self) -> Result<&'a str, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, so NUL-terminated by the type's promise.
        unsafe { CStr::from_ptr(self.0) }.to_str().map_err(|_| Status::INVALID_VALUE)
    }
}

/// Converts a C caller's argument to that of a safe function.
pub trait Take<Raw> {
    /// # Safety
    /// A pointer must be null or valid for the type that the API demands, and `Self` must have that type.
    unsafe fn take(raw: Raw) -> Self;
}

/// Converts a C caller's argument to that of a safe function. An argument named `_` is dropped.
macro_rules! take {
    (_ $raw:ident) => {
        let _ = $raw;
    };
    ($argument:ident $raw:ident) => {
        // SAFETY: the caller of an exported function keeps what the API demands.
        let $argument = unsafe { $crate::abi::Take::take($raw) };
    };
}
pub(crate) use take;

/// Exports a function that returns its handler's result unchanged: `{ (arguments) handler }` and its declaration.
macro_rules! answer {
    ({ ($($argument:tt),*) $handler:expr } $since:literal $symbol:ident($($raw:ident: $type:ty),*) -> $return:ty) => {
        /// # Safety
        /// Arguments must be as the API demands: pointers are null or valid for their type.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the signature in the API")]
        pub unsafe extern "C" fn $symbol($($raw: $type),*) -> $return {
            $( $crate::abi::take! { $argument $raw } )*
            $crate::abi::Give::give($handler)
        }
    };
    ({ $($handler:tt)* } $since:literal $symbol:ident $arguments:tt) => {
        $crate::abi::answer! { { $($handler)* } $since $symbol $arguments -> $crate::status::Status }
    };
}
pub(crate) use answer;

/// The same for a list: `symbol: (arguments) => handler`.
macro_rules! answers {
    ($($symbol:ident: $arguments:tt => $handler:expr;)*) => {
        $( mneme_abi::$symbol! { answer { $arguments $handler } } )*
    };
}
pub(crate) use answers;

/// Converts a typed argument to that of a C function.
pub trait Give<Raw> {
    fn give(self) -> Raw;
}

macro_rules! passed_as_they_are {
    ($($type:ty),*) => {
        $(
            impl Take<$type> for $type {
                unsafe fn take(raw: $type) -> Self {
                    raw
                }
            }
            impl Give<$type> for $type {
                fn give(self) -> $type {
                    self
                }
            }
        )*
    };
}

passed_as_they_are!(
    (),
    bool,
    i8,
    u8,
    u16,
    u32,
    i32,
    u64,
    usize,
    f32,
    Status,
    Dimensions,
    Extent,
    PitchedPointer,
    ChannelFormat,
    CUmemLocation,
    CUipcMemHandle
);

macro_rules! pointers_of_nothing {
    ($($type:ty),*) => {
        $(
            impl Take<$type> for $type {
                unsafe fn take(raw: $type) -> Self {
                    raw
                }
            }
        )*
    };
}

pointers_of_nothing!(*mut c_void, *const c_void);

/// Arguments that are passed on unchanged: one API's pointer becomes the other's, or its address.
macro_rules! passed_on {
    ($($pointer:ident)*) => {
        $(
            impl<T, U> Give<*mut T> for $pointer!(U) {
                fn give(self) -> *mut T {
                    self as *mut T
                }
            }
            impl<T, U> Give<*const T> for $pointer!(U) {
                fn give(self) -> *const T {
                    self as *const T
                }
            }
            impl<U> Give<u64> for $pointer!(U) {
                fn give(self) -> u64 {
                    self as u64
                }
            }
            impl<U> Give<usize> for $pointer!(U) {
                fn give(self) -> usize {
                    self as usize
                }
            }
        )*
    };
}

macro_rules! constant {
    ($type:ty) => { *const $type };
}

macro_rules! changeable {
    ($type:ty) => { *mut $type };
}

passed_on!(constant changeable);

/// Lengths are `usize` throughout the device.
impl Take<u32> for usize {
    unsafe fn take(raw: u32) -> Self {
        raw as usize
    }
}

/// Functions of the application. The ABI declares them as addresses.
macro_rules! functions {
    ($($type:ty),*) => {
        $(
            impl Take<*mut c_void> for $type {
                unsafe fn take(raw: *mut c_void) -> Self {
                    // SAFETY: by the caller's promise, the address of such a function, or null, which becomes `None`.
                    unsafe { std::mem::transmute::<*mut c_void, Self>(raw) }
                }
            }
            impl Give<*mut c_void> for $type {
                fn give(self) -> *mut c_void {
                    self.map_or(std::ptr::null_mut(), |function| function as *mut c_void)
                }
            }
        )*
    };
}

functions!(HostFunction, Callback);

/// Handles and addresses are numbers throughout the device.
macro_rules! numbers_for_pointers {
    ($($number:ty),*) => {
        $(
            impl<T> Take<*mut T> for $number {
                unsafe fn take(raw: *mut T) -> Self {
                    raw as $number
                }
            }
            impl<T> Take<*const T> for $number {
                unsafe fn take(raw: *const T) -> Self {
                    raw as $number
                }
            }
            impl<T> Give<*mut T> for $number {
                fn give(self) -> *mut T {
                    self as *mut T
                }
            }
            impl<T> Give<*const T> for $number {
                fn give(self) -> *const T {
                    self as *const T
                }
            }
        )*
    };
}

numbers_for_pointers!(u64, usize);

impl<T, U> Take<*mut T> for Out<U> {
    unsafe fn take(raw: *mut T) -> Self {
        Self(raw.cast())
    }
}

impl<T, U> Give<*mut T> for Out<U> {
    fn give(self) -> *mut T {
        self.0.cast()
    }
}

impl<T, U> Take<*mut T> for In<U> {
    unsafe fn take(raw: *mut T) -> Self {
        Self(raw.cast())
    }
}

impl<T, U> Take<*const T> for In<U> {
    unsafe fn take(raw: *const T) -> Self {
        Self(raw.cast())
    }
}

impl<T, U> Give<*mut T> for In<U> {
    fn give(self) -> *mut T {
        self.0.cast_mut().cast()
    }
}

impl<T, U> Give<*const T> for In<U> {
    fn give(self) -> *const T {
        self.0.cast()
    }
}

impl Take<*const c_char> for CStringArgument {
    unsafe fn take(raw: *const c_char) -> Self {
        Self(raw)
    }
}

impl Give<*const c_char> for CStringArgument {
    fn give(self) -> *const c_char {
        self.0
    }
}

pub use mneme_abi::cuda::structures::HostFunction;

/// `CUstreamCallback`
pub type Callback = Option<unsafe extern "C" fn(usize, Status, *mut c_void)>;

/// Runs the body of an exported function. A panic becomes a status instead of crossing into C. If the thread is
/// cancelled (`pthread_cancel`), it ends only afterwards, because Rust ends the process if a thread unwinds inside.
pub fn enter(body: impl FnOnce() -> StatusResult) -> Status {
    let _put_off = PutOff::begin();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => Status::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_system::cancellation;

    #[test]
    fn a_thread_is_not_cancelled_within_a_call() {
        let before = cancellation::set(0);
        let status = enter(|| {
            assert_eq!(cancellation::set(1), 1);
            Ok(())
        });
        assert_eq!((status, cancellation::set(before)), (Status::SUCCESS, 0));
    }
}
