//! Types of the driver and of the runtime.
//!
//! Handles are cudarc's; structures are in [`structures`](super::structures), with numbers for enumerations.

pub use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

pub use cudarc::driver::sys::{
    CUDA_MEMCPY3D_PEER, CUarray, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUipcMemHandle, CUkernel,
    CUlibrary, CUmemGenericAllocationHandle, CUmemoryPool, CUmodule, CUstream, CUuuid,
};

pub use super::status::Status;
pub use super::structures::{
    AccessDescription as CUmemAccessDesc, AllocationNode as CUDA_MEM_ALLOC_NODE_PARAMS,
    AllocationProperties as CUmemAllocationProp, ArrayDescription as CUDA_ARRAY3D_DESCRIPTOR,
    ArrayDescription2d as CUDA_ARRAY_DESCRIPTOR, Copy2d as CUDA_MEMCPY2D, Copy3d as CUDA_MEMCPY3D,
    Fill as CUDA_MEMSET_NODE_PARAMS, HostCall as CUDA_HOST_NODE_PARAMS, KernelNode as CUDA_KERNEL_NODE_PARAMS,
    LaunchAttribute as CUlaunchAttribute, LaunchConfiguration as CUlaunchConfig, LegacyProperties as CUdevprop,
    Resource as CUDA_RESOURCE_DESC, TextureDescription as CUDA_TEXTURE_DESC,
};

/// `CUmemLocation`, `cudaMemLocation`, `hipMemLocation`. The kind is a number, because an application may use unknown
/// kinds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUmemLocation {
    pub kind: c_uint,
    pub id: c_int,
}

impl CUmemLocation {
    /// `CU_MEM_LOCATION_TYPE_DEVICE`
    pub const DEVICE: c_uint = 1;

    /// The device with this number.
    pub fn device(id: c_int) -> Self {
        Self { kind: Self::DEVICE, id }
    }

    /// The device's number, if the location is a device.
    pub fn device_number(self) -> Option<c_int> {
        (self.kind == Self::DEVICE).then_some(self.id)
    }
}

/// `dim3` in CUDA's and HIP's runtimes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dimensions {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

impl Dimensions {
    /// x, y, z
    pub fn extents(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// `cudaExtent`, `hipExtent`: width in bytes, height in rows, depth in slices.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// `cudaPitchedPtr`, `hipPitchedPtr`: pitch and logical width in bytes, rows of a slice.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PitchedPointer {
    pub address: CUdeviceptr,
    pub pitch: usize,
    pub width: usize,
    pub rows: usize,
}

/// `cudaChannelFormatDesc`, `hipChannelFormatDesc`: bits of each component, and their kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFormat {
    pub x: c_int,
    pub y: c_int,
    pub z: c_int,
    pub w: c_int,
    pub kind: c_uint,
}

/// Keys of the `extra` array of a launch: `CU_LAUNCH_PARAM_…`.
pub mod launch_parameter {
    pub const END: usize = 0;
    pub const BUFFER_POINTER: usize = 1;
    pub const BUFFER_SIZE: usize = 2;
    /// `HIP_LAUNCH_PARAM_END`, which has no meaning in CUDA.
    pub const HIP_END: usize = 3;
}

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`, which name the two meanings of stream 0.
pub const STREAM_LEGACY: usize = 1;
pub const STREAM_PER_THREAD: usize = 2;
