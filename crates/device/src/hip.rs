//! AMD's HIP.
//!
//! If an older library lacks a function, only the operations that need it are refused, with the function's name.

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};

use mneme_abi::hip;
use mneme_abi::hip::properties::{PropertiesR0000, PropertiesR0600};
use mneme_abi::hip::runtime::pointers;
use mneme_abi::hip::types::*;
use mneme_model::device::DeviceLimits;
use mneme_model::launch::Dim3;

use super::gpu::{Gpu, LaunchCall, VendorDriver, VendorLibrary};
use crate::error::DeviceError;
use crate::library;

/// Names of HIP's library, newest first: ROCm 7, 6 and 5.
pub const LIBRARIES: [&str; 3] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
/// Names the library to load, for tests.
pub const LIBRARY_VARIABLE: &str = "MNEME_HIP_LIBRARY";

/// The library to load: the one named by the variable, or the newest of the names above that loads.
pub fn library() -> Option<PathBuf> {
    named().or_else(|| LIBRARIES.iter().map(PathBuf::from).find(|name| VendorLibrary::load(name).is_ok()))
}

fn named() -> Option<PathBuf> {
    library::named(LIBRARY_VARIABLE)
}

/// Whether this folder of devices contains AMD's kernel driver; an explicitly named library may not need it.
pub fn is_offered(devices: &Path) -> bool {
    named().is_some() || devices.join("kfd").exists()
}

/// Loads the library and opens device `ordinal`, and makes it current on this thread.
pub fn open(library: &Path, ordinal: i32) -> Result<Gpu, DeviceError> {
    if named().as_deref() == Some(library) {
        library::check(LIBRARY_VARIABLE, library)?;
    }
    let library = VendorLibrary::load(library)?;
    let vendor = Amd::of(&library)?;
    Gpu::open(library, Box::new(vendor), ordinal)
}

/// HIP's name for a driver function.
fn spelled(driver: &'static str) -> &'static str {
    hip::equivalent(driver).unwrap_or(driver)
}

/// The function that returns a device's properties, which determines their layout.
enum AskProperties {
    R0600(pointers::hipGetDevicePropertiesR0600),
    R0000(pointers::hipGetDeviceProperties),
}

/// Functions that the driver lacks, or that have other arguments or numbers there.
struct Amd {
    error_name: pointers::hipGetErrorName,
    error_text: pointers::hipGetErrorString,
    version: pointers::hipRuntimeGetVersion,
    set_device: pointers::hipSetDevice,
    synchronize: pointers::hipDeviceSynchronize,
    properties: AskProperties,
    /// From HIP 5.3.
    set_limit: Option<pointers::hipDeviceSetLimit>,
    /// From HIP 5.5.
    launch_cooperative: Option<pointers::hipModuleLaunchCooperativeKernel>,
}

impl Amd {
    fn of(library: &VendorLibrary) -> Result<Self, DeviceError> {
        // SAFETY: HIP's ABI fixes the types of the functions with these names; `Gpu` drops this before the library.
        unsafe {
            let properties = match library.function("hipGetDevicePropertiesR0600") {
                Ok(function) => AskProperties::R0600(function),
                // The symbol without a suffix has kept its old layout.
                Err(_) => AskProperties::R0000(library.function("hipGetDeviceProperties")?),
            };
            Ok(Self {
                error_name: library.function("hipGetErrorName")?,
                error_text: library.function("hipGetErrorString")?,
                version: library.function("hipRuntimeGetVersion")?,
                set_device: library.function("hipSetDevice")?,
                synchronize: library.function("hipDeviceSynchronize")?,
                properties,
                set_limit: library.function("hipDeviceSetLimit").ok(),
                launch_cooperative: library.function("hipModuleLaunchCooperativeKernel").ok(),
            })
        }
    }
}

/// The error for a feature that this device or HIP library lacks.
fn refused(function: &'static str, text: impl Into<String>) -> DeviceError {
    let name = hip::types::error_name(Status::NOT_SUPPORTED).unwrap_or_default().to_string_lossy().into_owned();
    DeviceError::Call { function, code: Status::NOT_SUPPORTED.0, name, text: text.into() }
}

impl VendorDriver for Amd {
    fn spelling(&self) -> fn(&'static str) -> &'static str {
        spelled
    }

    fn error(&self, status: Status) -> (String, String) {
        let text = |get: pointers::hipGetErrorName| {
            // SAFETY: the function accepts any number, and returns a string constant or null.
            unsafe {
                let text = get(status);
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        (
            text(self.error_name).unwrap_or_else(|| format!("HIP error {status}")),
            text(self.error_text).unwrap_or_else(|| "no description".into()),
        )
    }

    fn select(&self, device: CUdevice) -> Result<(), DeviceError> {
        // SAFETY: no pointers.
        self.check("hipSetDevice", unsafe { (self.set_device)(device) })
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        // Not hipCtxSynchronize, which AMD's library does not support.
        // SAFETY: no pointers.
        self.check("hipDeviceSynchronize", unsafe { (self.synchronize)() })
    }

    fn version(&self) -> Result<String, DeviceError> {
        let mut version = 0;
        // SAFETY: the place is valid for the answer.
        self.check("hipRuntimeGetVersion", unsafe { (self.version)(&mut version) })?;
        // HIP_VERSION: 10,000,000 * major + 100,000 * minor + patch.
        Ok(format!("{}.{}", version / 10_000_000, version / 100_000 % 100))
    }

    fn properties(&self, device: CUdevice) -> Result<(String, DeviceLimits), DeviceError> {
        match self.properties {
            AskProperties::R0600(ask) => {
                let mut properties = PropertiesR0600::default();
                // SAFETY: the place is a structure of the layout that this symbol fills.
                let status = unsafe { ask((&raw mut properties).cast(), device) };
                self.check("hipGetDeviceProperties", status)?;
                Ok((text(&properties.gcnArchName), limits_r0600(&properties)))
            }
            AskProperties::R0000(ask) => {
                let mut properties = PropertiesR0000::default();
                // SAFETY: as above.
                let status = unsafe { ask((&raw mut properties).cast(), device) };
                self.check("hipGetDeviceProperties", status)?;
                Ok((text(&properties.gcnArchName), limits_r0000(&properties)))
            }
        }
    }

    fn set_limit(&self, limit: c_uint, value: usize) -> Result<(), DeviceError> {
        let Some(set_limit) = self.set_limit else {
            let text = "this library is older than HIP 5.3 and cannot set the limit that the application had set";
            return Err(refused("hipDeviceSetLimit", text));
        };
        // SAFETY: no pointers.
        self.check("hipDeviceSetLimit", unsafe { set_limit(limit, value) })
    }

    /// A no-op: kernels may use all shared memory of a block without permission, and a launch that requests more is
    /// refused.
    fn allow_dynamic_shared(&self, _: CUfunction, _: u32) -> Result<(), DeviceError> {
        Ok(())
    }

    fn allow_large_clusters(&self, _: CUfunction) -> Result<(), DeviceError> {
        Err(refused("hipModuleLaunchKernel", "AMD GPUs have no clusters of blocks"))
    }

    unsafe fn launch_with_attributes(&self, call: &LaunchCall<'_>) -> Result<(), DeviceError> {
        const FUNCTION: &str = "hipModuleLaunchCooperativeKernel";
        if call.launch.attributes.cluster.is_some() {
            return Err(refused("hipModuleLaunchKernel", "AMD GPUs have no clusters of blocks"));
        }
        let Some(launch_cooperative) = self.launch_cooperative else {
            let text =
                "this library is older than HIP 5.5 and cannot launch the code objects of a replay cooperatively";
            return Err(refused(FUNCTION, text));
        };
        let (grid, block) = (call.launch.grid, call.launch.block);
        // SAFETY: as the caller promises.
        self.check(FUNCTION, unsafe {
            launch_cooperative(
                call.function, grid.x, grid.y, grid.z, block.x, block.y, block.z, call.launch.shared_mem, call.stream,
                call.parameters,
            )
        })
    }
}

/// Characters up to the first zero.
fn text(characters: &[c_char]) -> String {
    // Characters are signed on x86-64, and unsigned on aarch64.
    let bytes: Vec<u8> =
        characters.iter().flat_map(|character| character.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A positive number that fits.
fn said(value: impl TryInto<u32>) -> Option<u32> {
    value.try_into().ok().filter(|value| *value > 0)
}

fn axes(values: [c_int; 3]) -> Option<Dim3> {
    let [x, y, z] = values.map(said);
    Some(Dim3::new(x?, y?, z?))
}

/// Fills [`DeviceLimits`] from the fields that both layouts have.
macro_rules! common_limits {
    ($properties:expr) => {{
        let (properties, default) = ($properties, DeviceLimits::default());
        DeviceLimits {
            max_threads: said(properties.maxThreadsPerBlock).unwrap_or(default.max_threads),
            max_block: axes(properties.maxThreadsDim).unwrap_or(default.max_block),
            max_grid: axes(properties.maxGridSize).unwrap_or(default.max_grid),
            warp_size: said(properties.warpSize).unwrap_or(default.warp_size),
            shared_mem: said(properties.sharedMemPerBlock).unwrap_or(default.shared_mem),
            shared_mem_optin: None,
            shared_mem_per_multiprocessor: said(properties.maxSharedMemoryPerMultiProcessor),
            registers: said(properties.regsPerBlock),
            registers_per_multiprocessor: None,
            multiprocessors: said(properties.multiProcessorCount),
            threads_per_multiprocessor: said(properties.maxThreadsPerMultiProcessor),
            blocks_per_multiprocessor: None,
            l2_cache: said(properties.l2CacheSize),
        }
    }};
}

fn limits_r0000(properties: &PropertiesR0000) -> DeviceLimits {
    common_limits!(properties)
}

fn limits_r0600(properties: &PropertiesR0600) -> DeviceLimits {
    DeviceLimits {
        registers_per_multiprocessor: said(properties.regsPerMultiprocessor),
        blocks_per_multiprocessor: said(properties.maxBlocksPerMultiProcessor),
        ..common_limits!(properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_shared_is_in_hip() {
        for symbol in super::super::gpu::SHARED {
            assert!(hip::equivalent(symbol).is_some(), "{symbol}");
        }
    }

    #[test]
    fn names_and_sizes_that_a_library_leaves_out_are_not_made_up() {
        let mut properties = PropertiesR0600::default();
        for (place, byte) in properties.gcnArchName.iter_mut().zip(b"gfx90a:sramecc+:xnack-") {
            *place = c_char::from_ne_bytes([*byte]);
        }
        assert_eq!(text(&properties.gcnArchName), "gfx90a:sramecc+:xnack-");
        (properties.warpSize, properties.sharedMemPerBlock, properties.maxThreadsDim) = (64, 64 << 10, [1024; 3]);
        let limits = limits_r0600(&properties);
        assert_eq!(
            (limits.warp_size, limits.shared_mem, limits.max_block),
            (64, 64 << 10, Dim3::new(1024, 1024, 1024))
        );
        assert_eq!((limits.l2_cache, limits.multiprocessors), (None, None));
    }
}
