//! The functions of the driver that a replay calls, found by name in a library that was loaded by path.
//!
//! cudarc declares the types; its own loader is not used, because it knows one library only and would find a preloaded
//! recorder's wrappers.

use std::error::Error;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::path::Path;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute, CUlaunchConfig, CUlimit,
    CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmodule, CUstream,
};
use libloading::Library;

use crate::device::DeviceError;

/// A `CUresult` as the number that it is: a driver newer than the enumeration may return others.
pub type Code = c_uint;

macro_rules! table {
    ($($symbol:ident($($argument:ty),*);)*) => {
        /// Entry points, each named by its symbol.
        #[expect(non_snake_case, reason = "fields are named like the symbols")]
        pub struct Table {
            $(pub $symbol: unsafe extern "C" fn($($argument),*) -> Code,)*
            /// Keeps the functions in memory.
            _library: Library,
        }

        impl Table {
            pub fn load(path: &Path) -> Result<Self, DeviceError> {
                let failed = |error: libloading::Error| {
                    // The linker's own sentence names the file or the symbol; the error around it says only that the linker failed.
                    let message = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                    DeviceError::Library { library: path.display().to_string(), message }
                };
                // SAFETY: the constructors of a driver library are made to run when a process loads it.
                let library = unsafe { Library::new(path) }.map_err(failed)?;
                Ok(Self {
                    // SAFETY: the driver's ABI fixes the type of the function with this name; `_library` outlives the pointer.
                    $($symbol: *unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) }.map_err(failed)?,)*
                    _library: library,
                })
            }
        }
    };
}

table! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(Code, *mut *const c_char);
    cuGetErrorString(Code, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuCtxSetCurrent(CUcontext);
    cuCtxSynchronize();
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemGetAllocationGranularity(*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
    cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong);
    cuMemAddressFree(CUdeviceptr, usize);
    cuMemCreate(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong);
    cuMemRelease(CUmemGenericAllocationHandle);
    cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
    cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
    cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
    cuMemFree_v2(CUdeviceptr);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemcpyHtoD_v2(CUdeviceptr, *const c_void, usize);
    cuMemcpyDtoH_v2(*mut c_void, CUdeviceptr, usize);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemsetD8_v2(CUdeviceptr, c_uchar, usize);
    cuModuleLoadData(*mut CUmodule, *const c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuModuleGetGlobal_v2(*mut CUdeviceptr, *mut usize, CUmodule, *const c_char);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(*mut c_int, CUfunction, c_int, usize, c_uint);
    cuCtxSetLimit(CUlimit, usize);
    cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction);
    cuFuncSetAttribute(CUfunction, CUfunction_attribute, c_int);
    cuStreamCreate(*mut CUstream, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventRecord(CUevent, CUstream);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuStreamSynchronize(CUstream);
    cuLaunchKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void);
    cuLaunchKernelEx(*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_library_cannot_be_used_is_said() {
        let Err(error) = Table::load(Path::new("libmneme-no-such-driver.so")) else { panic!("there is no such library") };
        assert!(error.to_string().contains("cannot open shared object file"), "{error}");
    }
}
