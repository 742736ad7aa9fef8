//! Structures that an application passes to the driver.
//!
//! Enumerations in them are plain numbers, because the application may be newer than Mneme. A test compares the
//! structures with `cuda.h`. Opaque handles and addresses are numbers.

use super::types::*;
use crate::structure::structures;

/// `CUhostFn`
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

structures! {
    /// `CUDA_MEMCPY2D`, and `hip_Memcpy2D` except for the numbers of the types; offsets and pitches in bytes and rows.
    Copy2d = "CUDA_MEMCPY2D" {
        from_x: usize = "srcXInBytes",
        from_y: usize = "srcY",
        /// One of [`memory_type`].
        from_type: u32 = "srcMemoryType",
        from_host: *const c_void = "srcHost",
        from_device: u64 = "srcDevice",
        from_array: *const c_void = "srcArray",
        from_pitch: usize = "srcPitch",
        to_x: usize = "dstXInBytes",
        to_y: usize = "dstY",
        to_type: u32 = "dstMemoryType",
        to_host: *mut c_void = "dstHost",
        to_device: u64 = "dstDevice",
        to_array: *mut c_void = "dstArray",
        to_pitch: usize = "dstPitch",
        width: usize = "WidthInBytes",
        height: usize = "Height",
    }

    /// One end of a [`Copy3d`]; offsets and pitch in bytes and rows.
    CopySide in "CUDA_MEMCPY3D" {
        x: usize = "srcXInBytes",
        y: usize = "srcY",
        z: usize = "srcZ",
        level: usize = "srcLOD",
        /// One of [`memory_type`].
        kind: u32 = "srcMemoryType",
        host: u64 = "srcHost",
        device: u64 = "srcDevice",
        array: u64 = "srcArray",
        reserved: u64 = "reserved0",
        pitch: usize = "srcPitch",
        rows: usize = "srcHeight",
    }

    /// `CUDA_MEMCPY3D`
    Copy3d = "CUDA_MEMCPY3D" {
        from: CopySide = "srcXInBytes",
        to: CopySide = "dstXInBytes",
        width: usize = "WidthInBytes",
        height: usize = "Height",
        depth: usize = "Depth",
    }

    /// `CUDA_ARRAY_DESCRIPTOR`; lengths in texels.
    ArrayDescription2d = "CUDA_ARRAY_DESCRIPTOR" {
        width: usize = "Width",
        height: usize = "Height",
        /// One of [`array_format`].
        format: u32 = "Format",
        channels: u32 = "NumChannels",
    }

    /// `CUDA_ARRAY3D_DESCRIPTOR`; lengths in texels. A line has height 0. The depth is 0 without depth, or the number
    /// of layers.
    ArrayDescription = "CUDA_ARRAY3D_DESCRIPTOR" {
        width: usize = "Width",
        height: usize = "Height",
        depth: usize = "Depth",
        /// One of [`array_format`].
        format: u32 = "Format",
        channels: u32 = "NumChannels",
        /// Flags of [`array_flag`].
        flags: u32 = "Flags",
    }

    /// `CUDA_RESOURCE_DESC`
    Resource = "CUDA_RESOURCE_DESC" {
        /// One of [`resource_kind`].
        kind: u32 = "resType",
        /// An array; or an address, format and channels in the halves of a word, and bytes; or instead of bytes, width
        /// and height in texels and the pitch in bytes.
        words: [u64; 16] = "res",
        flags: u32,
    }

    /// `CUDA_TEXTURE_DESC`
    TextureDescription = "CUDA_TEXTURE_DESC" {
        /// 0 wrap, 1 clamp, 2 mirror, 3 border.
        address_modes: [u32; 3] = "addressMode",
        /// 0 point, 1 linear.
        filter: u32 = "filterMode",
        /// Flags of [`texture_flag`].
        flags: u32,
        anisotropy: u32 = "maxAnisotropy",
        mipmap_filter: u32 = "mipmapFilterMode",
        mipmap_bias: f32 = "mipmapLevelBias",
        least_level: f32 = "minMipmapLevelClamp",
        greatest_level: f32 = "maxMipmapLevelClamp",
        border: [f32; 4] = "borderColor",
        reserved: [i32; 12],
    }

    /// `CUDA_MEMSET_NODE_PARAMS`: lengths in elements of 1, 2 or 4 bytes, the pitch in bytes.
    Fill = "CUDA_MEMSET_NODE_PARAMS" {
        to: u64 = "dst",
        pitch: usize,
        value: u32,
        element: u32 = "elementSize",
        width: usize,
        height: usize,
    }

    /// `CUDA_HOST_NODE_PARAMS`
    HostCall = "CUDA_HOST_NODE_PARAMS" {
        function: HostFunction = "fn",
        data: *mut c_void = "userData",
    }

    /// `CUDA_KERNEL_NODE_PARAMS_v2`
    KernelNode = "CUDA_KERNEL_NODE_PARAMS_v2" {
        function: usize = "func",
        grid: [u32; 3] = "gridDimX",
        block: [u32; 3] = "blockDimX",
        /// Dynamic shared memory, bytes.
        shared: u32 = "sharedMemBytes",
        parameters: *const *const u8 = "kernelParams",
        extra: *const usize,
        kernel: usize = "kern",
        context: usize = "ctx",
    }

    /// `CUDA_MEM_ALLOC_NODE_PARAMS`, and the runtime's `cudaMemAllocNodeParams`.
    AllocationNode = "CUDA_MEM_ALLOC_NODE_PARAMS" {
        /// `CUmemPoolProps`: allocation type (1: pinned), handle types, kind of location (1: device), device, and
        /// unused fields.
        pool: [u32; 22] = "poolProps",
        accesses: u64 = "accessDescs",
        access_count: usize = "accessDescCount",
        bytes: usize = "bytesize",
        /// Output: the address.
        address: u64 = "dptr",
    }

    /// `CUlaunchConfig`
    LaunchConfiguration = "CUlaunchConfig" {
        grid: [u32; 3] = "gridDimX",
        block: [u32; 3] = "blockDimX",
        /// Dynamic shared memory, bytes.
        shared: u32 = "sharedMemBytes",
        stream: usize = "hStream",
        attributes: *const LaunchAttribute = "attrs",
        count: u32 = "numAttrs",
    }

    /// `CUlaunchAttribute`, whose value can have any type.
    #[repr(align(8))]
    LaunchAttribute = "CUlaunchAttribute" {
        /// One of [`launch_attribute`], among others.
        id: u32,
        padding: u32 = "pad",
        value: [u32; 16],
    }

    /// `CUmemAllocationProp`
    AllocationProperties = "CUmemAllocationProp" {
        kind: u32 = "type",
        handle_types: u32 = "requestedHandleTypes",
        location: CUmemLocation,
        windows: usize = "win32HandleMetaData",
        flags: [u8; 8] = "allocFlags",
    }

    /// `CUmemAccessDesc`
    AccessDescription = "CUmemAccessDesc" {
        location: CUmemLocation,
        /// One of [`memory_access`].
        flags: u32,
    }

    /// `CUdevprop`, of the oldest programs.
    LegacyProperties = "CUdevprop" {
        threads_per_block: i32 = "maxThreadsPerBlock",
        threads: [i32; 3] = "maxThreadsDim",
        grid: [i32; 3] = "maxGridSize",
        shared_bytes: i32 = "sharedMemPerBlock",
        constant_bytes: i32 = "totalConstantMemory",
        warp: i32 = "SIMDWidth",
        pitch: i32 = "memPitch",
        registers: i32 = "regsPerBlock",
        clock: i32 = "clockRate",
        texture_alignment: i32 = "textureAlign",
    }
}

/// `CUmemorytype`
pub mod memory_type {
    pub const HOST: u32 = 1;
    pub const DEVICE: u32 = 2;
    pub const ARRAY: u32 = 3;
    /// Either kind, determined by the address.
    pub const UNIFIED: u32 = 4;
}

/// The plain number formats of `CUarray_format`.
pub mod array_format {
    pub const UNSIGNED_8: u32 = 1;
    pub const UNSIGNED_16: u32 = 2;
    pub const UNSIGNED_32: u32 = 3;
    pub const SIGNED_8: u32 = 8;
    pub const SIGNED_16: u32 = 9;
    pub const SIGNED_32: u32 = 10;
    pub const HALF: u32 = 16;
    pub const FLOAT: u32 = 32;
}

/// `CUDA_ARRAY3D_…`, and the runtime's `cudaArray…` with the same values.
pub mod array_flag {
    pub const LAYERED: u32 = 1;
    pub const SURFACE: u32 = 2;
    pub const CUBE: u32 = 4;
    pub const GATHER: u32 = 8;
    pub const COLOR_ATTACHMENT: u32 = 32;
}

/// `CUresourcetype`, and the runtime's `cudaResourceType`.
pub mod resource_kind {
    pub const ARRAY: u32 = 0;
    pub const MIPMAPPED_ARRAY: u32 = 1;
    pub const LINEAR: u32 = 2;
    pub const PITCHED: u32 = 3;
}

/// `CU_TRSF_…`
pub mod texture_flag {
    pub const READ_AS_INTEGER: u32 = 1;
    pub const NORMALIZED_COORDINATES: u32 = 2;
    pub const SRGB: u32 = 16;
    pub const SEAMLESS_CUBE: u32 = 64;
}

/// `CUmemAccess_flags`
pub mod memory_access {
    pub const NONE: u32 = 0;
    pub const READ: u32 = 1;
    pub const READ_WRITE: u32 = 3;
}

/// The members of `CUlaunchAttributeID` that a replay repeats.
pub mod launch_attribute {
    pub const COOPERATIVE: u32 = 2;
    pub const CLUSTER_DIMENSION: u32 = 4;
    pub const DEVICE_UPDATABLE_KERNEL_NODE: u32 = 13;
}

/// The members of `CUpointer_attribute` that the runtimes use.
pub mod pointer_attribute {
    pub const MEMORY_TYPE: u32 = 2;
    pub const IS_MANAGED: u32 = 8;
    pub const DEVICE_ORDINAL: u32 = 9;
}

impl KernelNode {
    /// A launch of a `CUkernel`; the last two fields are the addresses of an array of pointers to the arguments, and of
    /// the `extra` list.
    pub fn of_kernel(
        kernel: usize,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        arguments: usize,
        extra: usize,
    ) -> Self {
        let (parameters, extra) = (arguments as *const _, extra as *const _);
        Self { function: 0, grid, block, shared, parameters, extra, kernel, context: 0 }
    }
}

impl AllocationProperties {
    /// Memory of a device, the only supported kind.
    pub fn pinned(device: i32) -> Self {
        Self { kind: 1, handle_types: 0, location: CUmemLocation::device(device), windows: 0, flags: [0; 8] }
    }

    #[must_use]
    pub fn shared_by(self, handle_types: u32) -> Self {
        Self { handle_types, ..self }
    }
}

impl CopySide {
    /// Rows of `pitch` bytes in memory of the device, `rows` of them in each slice.
    pub fn memory(device: u64, pitch: usize, rows: usize) -> Self {
        Self { kind: memory_type::DEVICE, device, pitch, rows, ..Self::array(0) }
    }

    /// A whole array.
    pub fn array(array: u64) -> Self {
        let kind = memory_type::ARRAY;
        Self { x: 0, y: 0, z: 0, level: 0, kind, host: 0, device: 0, array, reserved: 0, pitch: 0, rows: 0 }
    }
}

impl Resource {
    pub fn array(array: u64) -> Self {
        Self::of(resource_kind::ARRAY, &[array])
    }

    /// A line of texels.
    pub fn linear(address: u64, [format, channels]: [u32; 2], bytes: u64) -> Self {
        Self::of(resource_kind::LINEAR, &[address, halves(format, channels), bytes])
    }

    /// Rows of texels; lengths in texels, the pitch in bytes.
    pub fn pitched(address: u64, [format, channels]: [u32; 2], [width, height]: [u64; 2], pitch: u64) -> Self {
        Self::of(resource_kind::PITCHED, &[address, halves(format, channels), width, height, pitch])
    }

    fn of(kind: u32, what: &[u64]) -> Self {
        let mut words = [0; 16];
        words[..what.len()].copy_from_slice(what);
        Self { kind, words, flags: 0 }
    }

    /// The format and the number of channels of its texels in memory.
    pub fn format(&self) -> [u32; 2] {
        [self.words[1] as u32, (self.words[1] >> 32) as u32]
    }
}

fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl TextureDescription {
    /// All words but the reserved ones.
    pub fn words(&self) -> [u32; 14] {
        let Self { address_modes: [x, y, z], filter, flags, anisotropy, mipmap_filter, .. } = *self;
        let [red, green, blue, alpha] = self.border.map(f32::to_bits);
        let [bias, least, greatest] = [self.mipmap_bias, self.least_level, self.greatest_level].map(f32::to_bits);
        [x, y, z, filter, flags, anisotropy, mipmap_filter, bias, least, greatest, red, green, blue, alpha]
    }

    pub fn of_words(words: &[u32; 14]) -> Self {
        let [x, y, z, filter, flags, anisotropy, mipmap_filter, bias, least, greatest, red, green, blue, alpha] =
            *words;
        Self {
            address_modes: [x, y, z],
            filter,
            flags,
            anisotropy,
            mipmap_filter,
            mipmap_bias: f32::from_bits(bias),
            least_level: f32::from_bits(least),
            greatest_level: f32::from_bits(greatest),
            border: [red, green, blue, alpha].map(f32::from_bits),
            reserved: [0; 12],
        }
    }
}
