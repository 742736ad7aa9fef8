//! Memory from pools, in stream order.

use mneme_abi::cuda::driver::pointers;
use mneme_abi::hip::types::*;

use crate::books::{MemorySource, books};
use crate::mistake::{CallResult, Mistake, place, wrong};

fn check_pool(pool: CUmemoryPool) -> Result<(), Mistake> {
    let books = books();
    let handle = pool as usize;
    books.check_handle(books.pools.contains_key(&handle), handle, "pool")
}

pub unsafe fn malloc_async(
    driver: pointers::cuMemAllocAsync,
    address: *mut CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CallResult {
    place(address, "the address")?;
    books().check_stream(stream)?;
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(address, bytes, stream);
        if status == Status::SUCCESS {
            books().allocated(*address, bytes as u64, MemorySource::Pool);
        }
        Ok(status)
    }
}

pub unsafe fn malloc_from_pool(
    driver: pointers::cuMemAllocFromPoolAsync,
    address: *mut CUdeviceptr,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> CallResult {
    place(address, "the address")?;
    check_pool(pool)?;
    books().check_stream(stream)?;
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(address, bytes, pool, stream);
        if status == Status::SUCCESS {
            books().allocated(*address, bytes as u64, MemorySource::Pool);
        }
        Ok(status)
    }
}

pub unsafe fn free_async(driver: pointers::cuMemFreeAsync, address: CUdeviceptr, stream: CUstream) -> CallResult {
    let mut books = books();
    books.check_stream(stream)?;
    if address == 0 {
        return wrong("null was never allocated");
    }
    books.release(address, &[MemorySource::Pool, MemorySource::Malloc])?;
    drop(books);
    // SAFETY: the books say that it is allocated.
    Ok(unsafe { driver(address, stream) })
}

pub unsafe fn default_pool(
    driver: pointers::cuDeviceGetDefaultMemPool,
    pool: *mut CUmemoryPool,
    device: CUdevice,
) -> CallResult {
    place(pool, "the pool")?;
    crate::devices::check(device)?;
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(pool, device);
        if status == Status::SUCCESS {
            books().pools.entry(*pool as usize).or_insert(false);
        }
        Ok(status)
    }
}

pub unsafe fn create(driver: pointers::cuMemPoolCreate, pool: *mut usize, properties: *const c_uint) -> CallResult {
    place(pool, "the pool")?;
    if properties.is_null() {
        return wrong("the properties are null");
    }
    // SAFETY: the places were checked.
    unsafe {
        let status = driver(pool, properties);
        if status == Status::SUCCESS {
            let mut books = books();
            books.gone.remove(&*pool);
            books.pools.insert(*pool, true);
        }
        Ok(status)
    }
}

pub unsafe fn destroy(driver: pointers::cuMemPoolDestroy, pool: CUmemoryPool) -> CallResult {
    check_pool(pool)?;
    let mut books = books();
    books.pools.remove(&(pool as usize));
    books.gone.insert(pool as usize);
    drop(books);
    // SAFETY: the books say that it is a pool.
    Ok(unsafe { driver(pool) })
}
