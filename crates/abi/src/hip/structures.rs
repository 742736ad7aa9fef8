//! Structures of HIP whose layout differs from CUDA's.
//!
//! Those with two layouts are in [`properties`]. A test compares them with HIP's headers, if installed. Enumerations
//! are plain numbers.
//!
//! [`properties`]: super::properties

use super::types::*;
use crate::structure::structures;

structures! {
    /// `hipMemsetParams`: lengths in elements of 1, 2 or 4 bytes, the pitch in bytes.
    FillNode = "hipMemsetParams" {
        to: u64 = "dst",
        element: u32 = "elementSize",
        height: usize,
        pitch: usize,
        value: u32,
        width: usize,
    }

    /// `hipFuncAttributes`; sizes in bytes.
    FunctionAttributes = "hipFuncAttributes" {
        binary: i32 = "binaryVersion",
        cache_mode: i32 = "cacheModeCA",
        constant: usize = "constSizeBytes",
        local: usize = "localSizeBytes",
        max_dynamic_shared: i32 = "maxDynamicSharedSizeBytes",
        max_threads: i32 = "maxThreadsPerBlock",
        registers: i32 = "numRegs",
        carveout: i32 = "preferredShmemCarveout",
        ptx: i32 = "ptxVersion",
        shared: usize = "sharedSizeBytes",
    }

    /// `hipPointerAttribute_t`, whose first field has another name and other values before HIP 6 (`memoryType`).
    PointerAttributes = "hipPointerAttribute_t" {
        kind: u32 = "type",
        device: i32,
        device_pointer: u64 = "devicePointer",
        host_pointer: u64 = "hostPointer",
        managed: i32 = "isManaged",
        flags: u32 = "allocationFlags",
    }

    /// `hipKernelNodeParams`
    KernelNodeParameters = "hipKernelNodeParams" {
        block: Dimensions = "blockDim",
        extra: *mut *mut c_void,
        /// Address of a host function, or a `hipFunction_t`.
        function: *mut c_void = "func",
        grid: Dimensions = "gridDim",
        parameters: *mut *mut c_void = "kernelParams",
        /// Dynamic shared memory, bytes.
        shared: c_uint = "sharedMemBytes",
    }

    /// `HIP_MEMCPY3D` before HIP 6.
    VolumesR0000 = "HIP_MEMCPY3D" {
        from: VolumeEnd<u32> = "srcXInBytes",
        to: VolumeEnd<u32> = "dstXInBytes",
        extent: [u32; 3] = "WidthInBytes",
    }

    /// `HIP_MEMCPY3D` from HIP 6 on, with wider numbers.
    VolumesR0600 = "HIP_MEMCPY3D" {
        from: VolumeEnd<usize> = "srcXInBytes",
        to: VolumeEnd<usize> = "dstXInBytes",
        extent: [usize; 3] = "WidthInBytes",
    }
}

/// One end of a copy of volumes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VolumeEnd<T> {
    /// x in bytes, y, z and the level.
    pub at: [T; 4],
    pub kind: u32,
    pub host: u64,
    pub device: u64,
    pub array: u64,
    pub pitch: T,
    pub rows: T,
}
