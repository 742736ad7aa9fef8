//! The functions of a vendor's library that a replay calls, under the CUDA driver's names.
//!
//! They are looked up in a library loaded by path, each under the vendor's own name. cudarc's loader is not used,
//! because it supports one library only and would find a preloaded recorder's wrappers.

use std::error::Error;
use std::path::Path;

use libloading::Library;
use mneme_abi::cuda::driver::pointers;

use crate::error::DeviceError;

/// A vendor's library.
pub struct VendorLibrary {
    library: Library,
    name: String,
}

impl VendorLibrary {
    pub fn load(path: &Path) -> Result<Self, DeviceError> {
        let name = path.display().to_string();
        // SAFETY: the constructors of a vendor's library are made to run when a process loads it.
        match unsafe { Library::new(path) } {
            Ok(library) => Ok(Self { library, name }),
            Err(error) => Err(unusable(name, &error)),
        }
    }

    /// The library's name for the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Looks up a function by its symbol.
    ///
    /// # Safety
    /// `F` must be the type of a pointer to the function. The pointer must not be used after this is dropped.
    pub unsafe fn function<F: Copy>(&self, symbol: &str) -> Result<F, DeviceError> {
        // SAFETY: as the caller promises.
        let found = unsafe { self.library.get::<F>(symbol.as_bytes()) };
        found.map(|function| *function).map_err(|error| unusable(self.name.clone(), &error))
    }
}

/// The linker's own message names the file or the symbol; the error around it only says that the linker failed.
fn unusable(library: String, error: &libloading::Error) -> DeviceError {
    DeviceError::Library { library, message: error.source().map_or_else(|| error.to_string(), ToString::to_string) }
}

macro_rules! table {
    ($($symbol:ident;)*) => {
        /// Functions shared by the vendors, by the driver's symbols.
        #[cfg(test)]
        pub const SHARED: &[&str] = &[$(stringify!($symbol)),*];

        /// Entry points, each named by the driver's symbol.
        #[expect(non_snake_case, reason = "fields are named like the symbols")]
        pub struct FunctionTable {
            $(pub $symbol: pointers::$symbol,)*
        }

        impl FunctionTable {
            /// Looks up the functions in a library, each under the name that `spelled` returns.
            pub fn of(
                library: &VendorLibrary,
                spelled: fn(&'static str) -> &'static str,
            ) -> Result<Self, DeviceError> {
                Ok(Self {
                    // SAFETY: the vendor's ABI fixes the type of the function with this name, and functions under other
                    // names are those declared to have the same (`mneme_abi::hip::equivalent`).
                    $($symbol: unsafe { library.function(spelled(stringify!($symbol))) }?,)*
                })
            }
        }
    };
}

table! {
    cuInit;
    cuDeviceGetCount;
    cuDeviceGet;
    cuDeviceGetName;
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
    cuFuncGetAttribute;
    cuStreamCreate;
    cuEventCreate;
    cuEventRecord;
    cuEventElapsedTime;
    cuStreamSynchronize;
    cuLaunchKernel;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_library_cannot_be_used_is_said() {
        let Err(error) = VendorLibrary::load(Path::new("libmneme-no-such-driver.so")) else {
            panic!("there is no such library")
        };
        assert!(error.to_string().contains("cannot open shared object file"), "{error}");
    }
}
