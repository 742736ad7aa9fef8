//! Arguments as C callers pass them, wrapped where they enter so that everything behind the ABI is safe code.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Done, Status};

/// A pointer to write a result to. Made only by C callers, which promise that it is null or valid for a `T`.
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

    /// A place whose type another argument of the C call decides; the C caller promises that it is that type.
    pub fn to_place(address: usize) -> Self {
        Self(address as *mut T)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn put(self, value: T) -> Done {
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

/// A pointer to read from, null or valid for a `T` by the C caller's promise.
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
    /// A place whose address came in as a number; the C caller promises that it is valid for a `T`.
    pub fn of_place(address: usize) -> Self {
        Self(address as *const T)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
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

/// A C string, null or NUL-terminated and unchanged during the call by the C caller's promise.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(pub *const c_char);

impl Text {
    pub fn get<'a>(self) -> Result<&'a str, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, so NUL-terminated by the type's promise.
        unsafe { CStr::from_ptr(self.0) }.to_str().map_err(|_| Status::INVALID_VALUE)
    }
}

/// Runs the body of an exported function; a panic becomes a status instead of crossing into C.
pub fn enter(body: impl FnOnce() -> Done) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => Status::UNKNOWN,
    }
}
