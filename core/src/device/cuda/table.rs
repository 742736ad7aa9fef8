//! The table of driver functions that a replay calls.
//!
//! They are found by name in a library that was loaded by path.
//!
//! cudarc's own loader is not used, because it knows one library only and would find a preloaded recorder's wrappers.

use std::error::Error;
use std::path::Path;

use libloading::Library;
use mneme_abi::cuda::driver::pointers;

use crate::device::DeviceError;

macro_rules! table {
    ($($symbol:ident;)*) => {
        /// Entry points, each named by its symbol.
        #[expect(non_snake_case, reason = "fields are named like the symbols")]
        pub struct DriverTable {
            $(pub $symbol: pointers::$symbol,)*
            /// Keeps the functions in memory.
            _library: Library,
        }

        impl DriverTable {
            pub fn load(path: &Path) -> Result<Self, DeviceError> {
                let failed = |error: libloading::Error| {
                    // The linker's own sentence names the file or the symbol; the error around it says only that the
                    // linker failed.
                    let message = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                    DeviceError::Library { library: path.display().to_string(), message }
                };
                // SAFETY: the constructors of a driver library are made to run when a process loads it.
                let library = unsafe { Library::new(path) }.map_err(failed)?;
                Ok(Self {
                    // SAFETY: the driver's ABI fixes the type of the function with this name; `_library` outlives the
                    // pointer.
                    $($symbol: *unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) }.map_err(failed)?,)*
                    _library: library,
                })
            }
        }
    };
}

table! {
    cuInit;
    cuDriverGetVersion;
    cuGetErrorName;
    cuGetErrorString;
    cuDeviceGetCount;
    cuDeviceGet;
    cuDeviceGetName;
    cuDeviceGetAttribute;
    cuDevicePrimaryCtxRetain;
    cuCtxSetCurrent;
    cuCtxSynchronize;
    cuMemGetInfo_v2;
    cuMemGetAllocationGranularity;
    cuMemAddressReserve;
    cuMemAddressFree;
    cuMemCreate;
    cuMemRelease;
    cuMemMap;
    cuMemSetAccess;
    cuDeviceGetPCIBusId;
    cuMemFree_v2;
    cuMemAlloc_v2;
    cuMemcpyHtoD_v2;
    cuMemcpyDtoH_v2;
    cuMemcpyDtoDAsync_v2;
    cuMemsetD8_v2;
    cuModuleLoadData;
    cuModuleUnload;
    cuModuleGetFunction;
    cuModuleGetGlobal_v2;
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
    cuCtxSetLimit;
    cuFuncGetAttribute;
    cuFuncSetAttribute;
    cuStreamCreate;
    cuEventCreate;
    cuEventRecord;
    cuEventElapsedTime;
    cuStreamSynchronize;
    cuLaunchKernel;
    cuLaunchKernelEx;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_library_cannot_be_used_is_said() {
        let Err(error) = DriverTable::load(Path::new("libmneme-no-such-driver.so")) else {
            panic!("there is no such library")
        };
        assert!(error.to_string().contains("cannot open shared object file"), "{error}");
    }
}
