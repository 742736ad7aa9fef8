//! Copies and fills.

use mneme_abi::cuda::driver::pointers;
use mneme_abi::hip::types::*;

use crate::backend;
use crate::books::{Use, books};
use crate::mistake::{CallResult, Mistake, wrong};

/// `hipMemcpyKind`.
const HOST_TO_HOST: u32 = 0;
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEVICE_TO_DEVICE: u32 = 3;
const DEFAULT: u32 = 4;

fn check_host(address: *const c_void, bytes: usize) -> Result<(), Mistake> {
    if bytes > 0 && address.is_null() { wrong("the host's memory is null") } else { Ok(()) }
}

fn check_device(address: CUdeviceptr, bytes: usize, usage: Use) -> Result<(), Mistake> {
    books().check_use(address, bytes as u64, usage)
}

/// Checks a copy between memory kinds that the direction defines.
macro_rules! copy {
    ($name:ident, $driver:ident, $to:ty, $from:ty, |$target:ident, $source:ident, $bytes:ident| $checks:block) => {
        pub unsafe fn $name(driver: pointers::$driver, $target: $to, $source: $from, $bytes: usize) -> CallResult {
            $checks
            // SAFETY: the device's side was checked; the host's is the caller's.
            Ok(unsafe { driver($target, $source, $bytes) })
        }
    };
    (
        async $name:ident, $driver:ident, $to:ty, $from:ty,
        |$target:ident, $source:ident, $bytes:ident| $checks:block
    ) => {
        pub unsafe fn $name(
            driver: pointers::$driver,
            $target: $to,
            $source: $from,
            $bytes: usize,
            stream: CUstream,
        ) -> CallResult {
            books().check_stream(stream)?;
            $checks
            // SAFETY: as above.
            Ok(unsafe { driver($target, $source, $bytes, stream) })
        }
    };
}

copy!(to_device, cuMemcpyHtoD_v2, CUdeviceptr, *const c_void, |to, from, bytes| {
    check_host(from, bytes)?;
    check_device(to, bytes, Use::Write)?;
});
copy!(to_host, cuMemcpyDtoH_v2, *mut c_void, CUdeviceptr, |to, from, bytes| {
    check_host(to, bytes)?;
    check_device(from, bytes, Use::Read)?;
});
copy!(on_device, cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, |to, from, bytes| {
    check_device(to, bytes, Use::Write)?;
    check_device(from, bytes, Use::Read)?;
});
copy!(async to_device_async, cuMemcpyHtoDAsync_v2, CUdeviceptr, *const c_void, |to, from, bytes| {
    check_host(from, bytes)?;
    check_device(to, bytes, Use::Write)?;
});
copy!(async to_host_async, cuMemcpyDtoHAsync_v2, *mut c_void, CUdeviceptr, |to, from, bytes| {
    check_host(to, bytes)?;
    check_device(from, bytes, Use::Read)?;
});
copy!(async on_device_async, cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, |to, from, bytes| {
    check_device(to, bytes, Use::Write)?;
    check_device(from, bytes, Use::Read)?;
});

pub unsafe fn copy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_uint) -> CallResult {
    // SAFETY: as for the caller.
    unsafe { copy_async(to, from, bytes, kind, std::ptr::null_mut()) }
}

pub unsafe fn copy_async(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_uint,
    stream: CUstream,
) -> CallResult {
    books().check_stream(stream)?;
    let (target, source) = (to as u64, from as u64);
    let (knows_target, knows_source) = {
        let books = books();
        (books.knows(target), books.knows(source))
    };
    let kind = match kind {
        DEFAULT => match (knows_target, knows_source) {
            (false, false) => HOST_TO_HOST,
            (true, false) => HOST_TO_DEVICE,
            (false, true) => DEVICE_TO_HOST,
            (true, true) => DEVICE_TO_DEVICE,
        },
        kind @ HOST_TO_HOST..=DEVICE_TO_DEVICE => kind,
        other => return wrong(format!("{other} is no direction of a copy")),
    };
    // SAFETY: the functions have these types. The device's memory was checked; the caller guarantees the host's.
    unsafe {
        match kind {
            HOST_TO_DEVICE => to_device_async(backend::function("cuMemcpyHtoDAsync_v2")?, target, from, bytes, stream),
            DEVICE_TO_HOST => to_host_async(backend::function("cuMemcpyDtoHAsync_v2")?, to, source, bytes, stream),
            DEVICE_TO_DEVICE => {
                on_device_async(backend::function("cuMemcpyDtoDAsync_v2")?, target, source, bytes, stream)
            }
            _ => {
                check_host(to, bytes)?;
                check_host(from, bytes)?;
                // Earlier work is done: the CPU device executes everything synchronously.
                std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes);
                Ok(Status::SUCCESS)
            }
        }
    }
}

fn check_fill(address: CUdeviceptr, count: usize, width: usize) -> Result<(), Mistake> {
    if !address.is_multiple_of(width as u64) {
        return wrong(format!("0x{address:x} is no multiple of the {width} bytes of an element"));
    }
    let Some(bytes) = count.checked_mul(width) else { return wrong("there are more elements than memory") };
    check_device(address, bytes, Use::Write)
}

macro_rules! fill {
    ($name:ident, $in_stream:ident, $driver:ident, $async_driver:ident, $value:ty, $width:literal) => {
        pub unsafe fn $name(
            driver: pointers::$driver,
            address: CUdeviceptr,
            value: $value,
            count: usize,
        ) -> CallResult {
            check_fill(address, count, $width)?;
            // SAFETY: the range was checked.
            Ok(unsafe { driver(address, value, count) })
        }

        pub unsafe fn $in_stream(
            driver: pointers::$async_driver,
            address: CUdeviceptr,
            value: $value,
            count: usize,
            stream: CUstream,
        ) -> CallResult {
            books().check_stream(stream)?;
            check_fill(address, count, $width)?;
            // SAFETY: the range was checked.
            Ok(unsafe { driver(address, value, count, stream) })
        }
    };
}

fill!(fill_bytes, fill_bytes_async, cuMemsetD8_v2, cuMemsetD8Async, c_uchar, 1);
fill!(fill_halves, fill_halves_async, cuMemsetD16_v2, cuMemsetD16Async, c_ushort, 2);
fill!(fill_words, fill_words_async, cuMemsetD32_v2, cuMemsetD32Async, c_uint, 4);

pub unsafe fn fill(to: *mut c_void, value: c_int, bytes: usize) -> CallResult {
    // SAFETY: as for the caller.
    unsafe { fill_async(to, value, bytes, std::ptr::null_mut()) }
}

pub unsafe fn fill_async(to: *mut c_void, value: c_int, bytes: usize, stream: CUstream) -> CallResult {
    // SAFETY: the type is the function's.
    unsafe { fill_bytes_async(backend::function("cuMemsetD8Async")?, to as u64, value as u8, bytes, stream) }
}
