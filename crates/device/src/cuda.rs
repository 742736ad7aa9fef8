//! NVIDIA's driver, and the CPU device, which has the same ABI.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::ptr::null_mut;

use cudarc::driver::sys::{CUdevice_attribute as DeviceAttribute, CUfunction_attribute as FunctionAttribute};
use mneme_abi::cuda::driver::pointers;
use mneme_abi::cuda::structures::{LaunchAttribute, LaunchConfiguration, launch_attribute};
use mneme_abi::cuda::types::*;
use mneme_model::device::DeviceLimits;
use mneme_model::launch::{Dim3, Launch};

use super::gpu::{Gpu, LaunchCall, VendorDriver, VendorLibrary};
use crate::error::DeviceError;

/// NVIDIA's driver library.
pub const LIBRARY: &str = "libcuda.so.1";

/// Loads the driver and opens device `ordinal`, and makes its primary context current on this thread.
pub fn open(library: &Path, ordinal: i32) -> Result<Gpu, DeviceError> {
    let library = VendorLibrary::load(library)?;
    let table = OwnTable::of(&library)?;
    Gpu::open(library, Box::new(Nvidia { table }), ordinal)
}

macro_rules! table {
    ($($symbol:ident;)*) => {
        /// Functions that only NVIDIA has, or that have other numbers in HIP.
        #[expect(non_snake_case, reason = "fields are named like the symbols")]
        struct OwnTable {
            $($symbol: pointers::$symbol,)*
        }

        impl OwnTable {
            fn of(library: &VendorLibrary) -> Result<Self, DeviceError> {
                // SAFETY: the driver's ABI fixes the type of the function with this name; `Gpu` drops this before the
                // library.
                Ok(Self { $($symbol: unsafe { library.function(stringify!($symbol)) }?,)* })
            }
        }
    };
}

table! {
    cuDriverGetVersion;
    cuGetErrorName;
    cuGetErrorString;
    cuDeviceGetAttribute;
    cuDevicePrimaryCtxRetain;
    cuCtxSetCurrent;
    cuCtxSynchronize;
    cuCtxSetLimit;
    cuFuncSetAttribute;
    cuLaunchKernelEx;
}

struct Nvidia {
    table: OwnTable,
}

impl Nvidia {
    fn limits(&self, device: CUdevice) -> DeviceLimits {
        use DeviceAttribute as Of;
        let said = |attribute| {
            self.attribute(device, attribute)
                .ok()
                .and_then(|value| u32::try_from(value).ok())
                .filter(|value| *value > 0)
        };
        let axes = |[x, y, z]: [Of; 3]| Some(Dim3::new(said(x)?, said(y)?, said(z)?));
        let default = DeviceLimits::default();
        DeviceLimits {
            max_threads: said(Of::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK).unwrap_or(default.max_threads),
            max_block: axes([
                Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
            ])
            .unwrap_or(default.max_block),
            max_grid: axes([
                Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
            ])
            .unwrap_or(default.max_grid),
            warp_size: said(Of::CU_DEVICE_ATTRIBUTE_WARP_SIZE).unwrap_or(default.warp_size),
            shared_mem: said(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK).unwrap_or(default.shared_mem),
            shared_mem_optin: said(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            shared_mem_per_multiprocessor: said(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            registers: said(Of::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
            registers_per_multiprocessor: said(Of::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
            multiprocessors: said(Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            threads_per_multiprocessor: said(Of::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
            blocks_per_multiprocessor: said(Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
            l2_cache: said(Of::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        }
    }

    fn attribute(&self, device: CUdevice, attribute: DeviceAttribute) -> Result<c_int, DeviceError> {
        let mut value = 0;
        // SAFETY: `value` is a valid place for the answer.
        self.check("cuDeviceGetAttribute", unsafe {
            (self.table.cuDeviceGetAttribute)(&mut value, attribute as c_uint, device)
        })?;
        Ok(value)
    }

    fn set_attribute(
        &self,
        function: CUfunction,
        attribute: FunctionAttribute,
        value: c_int,
    ) -> Result<(), DeviceError> {
        // SAFETY: the handle is the driver's; no pointers besides.
        self.check("cuFuncSetAttribute", unsafe {
            (self.table.cuFuncSetAttribute)(function, attribute as c_uint, value)
        })
    }
}

impl VendorDriver for Nvidia {
    fn spelling(&self) -> fn(&'static str) -> &'static str {
        |symbol| symbol
    }

    fn error(&self, status: Status) -> (String, String) {
        let text = |get: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = std::ptr::null();
            // SAFETY: `text` is a valid place; on success the driver points it at a string constant.
            unsafe {
                match get(status, &mut text) {
                    Status::SUCCESS if !text.is_null() => Some(CStr::from_ptr(text).to_string_lossy().into_owned()),
                    _ => None,
                }
            }
        };
        (
            text(self.table.cuGetErrorName).unwrap_or_else(|| format!("CUDA error {status}")),
            text(self.table.cuGetErrorString).unwrap_or_else(|| "no description".into()),
        )
    }

    fn select(&self, device: CUdevice) -> Result<(), DeviceError> {
        let mut context: CUcontext = null_mut();
        // SAFETY: the place is valid for the answer.
        self.check("cuDevicePrimaryCtxRetain", unsafe { (self.table.cuDevicePrimaryCtxRetain)(&mut context, device) })?;
        // SAFETY: the context was just retained.
        self.check("cuCtxSetCurrent", unsafe { (self.table.cuCtxSetCurrent)(context) })
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: no pointers; the context is current.
        self.check("cuCtxSynchronize", unsafe { (self.table.cuCtxSynchronize)() })
    }

    fn version(&self) -> Result<String, DeviceError> {
        let mut version = 0;
        // SAFETY: the place is valid for the answer.
        self.check("cuDriverGetVersion", unsafe { (self.table.cuDriverGetVersion)(&mut version) })?;
        // 1000 * major + 10 * minor.
        Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    fn properties(&self, device: CUdevice) -> Result<(String, DeviceLimits), DeviceError> {
        let major = self.attribute(device, DeviceAttribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(device, DeviceAttribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok((format!("sm_{major}{minor}"), self.limits(device)))
    }

    fn set_limit(&self, limit: c_uint, value: usize) -> Result<(), DeviceError> {
        // SAFETY: no pointers; the context is current.
        self.check("cuCtxSetLimit", unsafe { (self.table.cuCtxSetLimit)(limit, value) })
    }

    fn allow_dynamic_shared(&self, function: CUfunction, bytes: u32) -> Result<(), DeviceError> {
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        self.set_attribute(function, attribute, c_int::try_from(bytes).unwrap_or(c_int::MAX))
    }

    fn allow_large_clusters(&self, function: CUfunction) -> Result<(), DeviceError> {
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        self.set_attribute(function, attribute, 1)
    }

    unsafe fn launch_with_attributes(&self, call: &LaunchCall<'_>) -> Result<(), DeviceError> {
        let attributes = attributes(call.launch);
        let config = launch_configuration(call.launch, call.stream, &attributes);
        // SAFETY: as the caller promises; `config` and its attributes live until the call returns.
        self.check("cuLaunchKernelEx", unsafe {
            (self.table.cuLaunchKernelEx)(&config, call.function, call.parameters, null_mut())
        })
    }
}

/// A launch in the form for `cuLaunchKernelEx`; the result points to the attributes.
pub fn launch_configuration(launch: &Launch, stream: CUstream, attributes: &[LaunchAttribute]) -> LaunchConfiguration {
    LaunchConfiguration {
        grid: launch.grid.as_array(),
        block: launch.block.as_array(),
        shared: launch.shared_mem,
        stream: stream as usize,
        attributes: attributes.as_ptr(),
        count: attributes.len() as u32,
    }
}

/// The launch attributes that differ from the defaults.
pub fn attributes(launch: &Launch) -> Vec<LaunchAttribute> {
    let attribute = |id, words: &[u32]| {
        let mut value = [0; 16];
        value[..words.len()].copy_from_slice(words);
        LaunchAttribute { id, padding: 0, value }
    };
    let mut attributes = Vec::new();
    if let Some(cluster) = launch.attributes.cluster {
        attributes.push(attribute(launch_attribute::CLUSTER_DIMENSION, &cluster.as_array()));
    }
    if launch.attributes.cooperative {
        attributes.push(attribute(launch_attribute::COOPERATIVE, &[1]));
    }
    attributes
}
