//! HIP's properties of devices and of physical memory, in two layouts each.

use super::types::*;
use crate::cuda::runtime_structures::DeviceProperties;

/// Declares a structure with C's layout, and the offsets of its fields.
macro_rules! properties {
    ($(#[$attribute:meta])* $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "fields are named as in the header")]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl $name {
            /// Each field and its offset.
            pub const FIELDS: &[(&str, usize)] = &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*];
        }

        impl Default for $name {
            fn default() -> Self {
                // SAFETY: numbers, characters and pointers, for all of which zeros are valid.
                unsafe { std::mem::zeroed() }
            }
        }
    };
}

properties! {
    /// `hipDeviceProp_t` of ROCm 5 and before, filled by the symbol `hipGetDeviceProperties`, and by
    /// `hipGetDevicePropertiesR0000` in later libraries. Flags of the architecture are one word.
    PropertiesR0000 {
        name: [c_char; 256], totalGlobalMem: usize, sharedMemPerBlock: usize, regsPerBlock: c_int, warpSize: c_int,
        maxThreadsPerBlock: c_int, maxThreadsDim: [c_int; 3], maxGridSize: [c_int; 3], clockRate: c_int,
        memoryClockRate: c_int, memoryBusWidth: c_int, totalConstMem: usize, major: c_int, minor: c_int,
        multiProcessorCount: c_int, l2CacheSize: c_int, maxThreadsPerMultiProcessor: c_int, computeMode: c_int,
        clockInstructionRate: c_int, arch: u32, concurrentKernels: c_int, pciDomainID: c_int, pciBusID: c_int,
        pciDeviceID: c_int, maxSharedMemoryPerMultiProcessor: usize, isMultiGpuBoard: c_int, canMapHostMemory: c_int,
        gcnArch: c_int, gcnArchName: [c_char; 256], integrated: c_int, cooperativeLaunch: c_int,
        cooperativeMultiDeviceLaunch: c_int, maxTexture1DLinear: c_int, maxTexture1D: c_int, maxTexture2D: [c_int; 2],
        maxTexture3D: [c_int; 3], hdpMemFlushCntl: *mut c_uint, hdpRegFlushCntl: *mut c_uint, memPitch: usize,
        textureAlignment: usize, texturePitchAlignment: usize, kernelExecTimeoutEnabled: c_int, ECCEnabled: c_int,
        tccDriver: c_int, cooperativeMultiDeviceUnmatchedFunc: c_int, cooperativeMultiDeviceUnmatchedGridDim: c_int,
        cooperativeMultiDeviceUnmatchedBlockDim: c_int, cooperativeMultiDeviceUnmatchedSharedMem: c_int,
        isLargeBar: c_int, asicRevision: c_int, managedMemory: c_int, directManagedMemAccessFromHost: c_int,
        concurrentManagedAccess: c_int, pageableMemoryAccess: c_int, pageableMemoryAccessUsesHostPageTables: c_int,
    }
}

properties! {
    /// `hipDeviceProp_t` of ROCm 6 and later, filled by `hipGetDevicePropertiesR0600`, which programs compiled with
    /// these versions call for `hipGetDeviceProperties`.
    PropertiesR0600 {
        name: [c_char; 256], uuid: CUuuid, luid: [c_char; 8], luidDeviceNodeMask: c_uint, totalGlobalMem: usize,
        sharedMemPerBlock: usize, regsPerBlock: c_int, warpSize: c_int, memPitch: usize, maxThreadsPerBlock: c_int,
        maxThreadsDim: [c_int; 3], maxGridSize: [c_int; 3], clockRate: c_int, totalConstMem: usize, major: c_int,
        minor: c_int, textureAlignment: usize, texturePitchAlignment: usize, deviceOverlap: c_int,
        multiProcessorCount: c_int, kernelExecTimeoutEnabled: c_int, integrated: c_int, canMapHostMemory: c_int,
        computeMode: c_int, maxTexture1D: c_int, maxTexture1DMipmap: c_int, maxTexture1DLinear: c_int,
        maxTexture2D: [c_int; 2], maxTexture2DMipmap: [c_int; 2], maxTexture2DLinear: [c_int; 3],
        maxTexture2DGather: [c_int; 2], maxTexture3D: [c_int; 3], maxTexture3DAlt: [c_int; 3],
        maxTextureCubemap: c_int, maxTexture1DLayered: [c_int; 2], maxTexture2DLayered: [c_int; 3],
        maxTextureCubemapLayered: [c_int; 2], maxSurface1D: c_int, maxSurface2D: [c_int; 2], maxSurface3D: [c_int; 3],
        maxSurface1DLayered: [c_int; 2], maxSurface2DLayered: [c_int; 3], maxSurfaceCubemap: c_int,
        maxSurfaceCubemapLayered: [c_int; 2], surfaceAlignment: usize, concurrentKernels: c_int, ECCEnabled: c_int,
        pciBusID: c_int, pciDeviceID: c_int, pciDomainID: c_int, tccDriver: c_int, asyncEngineCount: c_int,
        unifiedAddressing: c_int, memoryClockRate: c_int, memoryBusWidth: c_int, l2CacheSize: c_int,
        persistingL2CacheMaxSize: c_int, maxThreadsPerMultiProcessor: c_int, streamPrioritiesSupported: c_int,
        globalL1CacheSupported: c_int, localL1CacheSupported: c_int, sharedMemPerMultiprocessor: usize,
        regsPerMultiprocessor: c_int, managedMemory: c_int, isMultiGpuBoard: c_int, multiGpuBoardGroupID: c_int,
        hostNativeAtomicSupported: c_int, singleToDoublePrecisionPerfRatio: c_int, pageableMemoryAccess: c_int,
        concurrentManagedAccess: c_int, computePreemptionSupported: c_int, canUseHostPointerForRegisteredMem: c_int,
        cooperativeLaunch: c_int, cooperativeMultiDeviceLaunch: c_int, sharedMemPerBlockOptin: usize,
        pageableMemoryAccessUsesHostPageTables: c_int, directManagedMemAccessFromHost: c_int,
        maxBlocksPerMultiProcessor: c_int, accessPolicyMaxWindowSize: c_int, reservedSharedMemPerBlock: usize,
        hostRegisterSupported: c_int, sparseHipArraySupported: c_int, hostRegisterReadOnlySupported: c_int,
        timelineSemaphoreInteropSupported: c_int, memoryPoolsSupported: c_int, gpuDirectRDMASupported: c_int,
        gpuDirectRDMAFlushWritesOptions: c_uint, gpuDirectRDMAWritesOrdering: c_int,
        memoryPoolSupportedHandleTypes: c_uint, deferredMappingHipArraySupported: c_int, ipcEventSupported: c_int,
        clusterLaunch: c_int, unifiedFunctionPointers: c_int, reserved: [c_int; 63], hipReserved: [c_int; 32],
        gcnArchName: [c_char; 256], maxSharedMemoryPerMultiProcessor: usize, clockInstructionRate: c_int, arch: u32,
        hdpMemFlushCntl: *mut c_uint, hdpRegFlushCntl: *mut c_uint, cooperativeMultiDeviceUnmatchedFunc: c_int,
        cooperativeMultiDeviceUnmatchedGridDim: c_int, cooperativeMultiDeviceUnmatchedBlockDim: c_int,
        cooperativeMultiDeviceUnmatchedSharedMem: c_int, isLargeBar: c_int, asicRevision: c_int,
    }
}

const _: () = assert!(std::mem::offset_of!(PropertiesR0600, hipReserved) == size_of::<DeviceProperties>());

impl PropertiesR0600 {
    /// These properties, with zeros for HIP-only fields: HIP's structure begins with CUDA's.
    pub fn beginning_with(properties: &DeviceProperties) -> Self {
        let mut all = Self::default();
        // SAFETY: fields of the same names and types are at the same places, up to the first one that only HIP has.
        unsafe {
            let (from, to) = (std::ptr::from_ref(properties).cast::<u8>(), (&raw mut all).cast::<u8>());
            to.copy_from_nonoverlapping(from, size_of::<DeviceProperties>());
        }
        all
    }
}

properties! {
    /// `hipMemAllocationProp` of HIP before 5.3; newer versions have the layout of `CUmemAllocationProp`.
    MemoryPropertiesR0500 {
        compressionType: u8, location: [c_int; 2], requestedHandleType: c_uint, r#type: c_uint, usage: u16,
        win32HandleMetaData: *mut c_void,
    }
}

impl MemoryPropertiesR0500 {
    const PINNED: c_uint = 1;
    const DEVICE: c_int = 1;

    /// Whether these are the properties of a device's memory in this layout. In the later layout, the type's place is
    /// inside a pointer to data for Windows.
    pub fn are_in_this_layout(&self) -> bool {
        (self.location[0], self.r#type) == (Self::DEVICE, Self::PINNED)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Whether the structure in the headers of `include` matches the declaration.
    fn compare(include: &Path, structure: &str, guard: &str, fields: &[(&str, usize)], size: usize) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("layout.c");
        let mut source = format!(
            "#define __HIP_PLATFORM_AMD__ 1\n#include <stddef.h>\n#include <hip/hip_version.h>\n\
             #include <hip/hip_runtime_api.h>\n#if {guard}\n_Static_assert(sizeof({structure}) == {size}, \"size\");\n"
        );
        for (field, offset) in fields {
            writeln!(source, "_Static_assert(offsetof({structure}, {field}) == {offset}, \"{field}\");").unwrap();
        }
        std::fs::write(&file, source + "#endif\n").unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-w", "-fsyntax-only", "-I"]).arg(include).arg(file);
        let output = compiler.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn the_later_layout_begins_with_cuda_s() {
        let cuda = crate::cuda::runtime_structures::STRUCTURES;
        let cuda = cuda.iter().find(|structure| structure.name == "struct cudaDeviceProp").unwrap();
        for (name, offset) in cuda.fields {
            let field = (&*name.replace("CudaArray", "HipArray"), *offset);
            assert!(PropertiesR0600::FIELDS.contains(&field), "{name}");
        }
        // SAFETY: numbers, for all of which any bytes are valid.
        let mut properties: DeviceProperties = unsafe { std::mem::zeroed() };
        (properties.warp, properties.unified_functions, properties.l2) = (64, 1, 77);
        let all = PropertiesR0600::beginning_with(&properties);
        assert_eq!((all.warpSize, all.unifiedFunctionPointers, all.l2CacheSize), (64, 1, 77));
    }

    #[test]
    fn structures_are_as_in_the_headers() {
        let others = std::env::var_os("MNEME_TEST_HIP_INCLUDE").map(Into::into);
        let folders = others.into_iter().chain(["/usr/include".into(), "/opt/rocm/include".into()]);
        let folders: Vec<std::path::PathBuf> =
            folders.filter(|folder: &std::path::PathBuf| folder.join("hip/hip_runtime_api.h").exists()).collect();
        if folders.is_empty() {
            mneme_fixtures::skip("HIP's headers are not installed");
        }
        for folder in folders {
            type Old = PropertiesR0000;
            type New = PropertiesR0600;
            let (old, new) = (size_of::<Old>(), size_of::<New>());
            type Memory = MemoryPropertiesR0500;
            compare(&folder, "hipDeviceProp_t", "HIP_VERSION_MAJOR < 6", Old::FIELDS, old);
            compare(&folder, "hipDeviceProp_t", "HIP_VERSION_MAJOR >= 6", New::FIELDS, new);
            let fields: Vec<_> =
                Memory::FIELDS.iter().map(|(name, offset)| (name.trim_start_matches("r#"), *offset)).collect();
            let early = "HIP_VERSION < 50300000";
            compare(&folder, "hipMemAllocationProp", early, &fields, size_of::<Memory>());
        }
    }
}
