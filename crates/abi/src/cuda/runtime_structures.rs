//! Structures of CUDA's runtime, as in `driver_types.h` of CUDA 12; a test compares them.
//!
//! Enumerations are plain numbers, and so are opaque handles and addresses.

use super::types::*;
use crate::structure::structures;

structures! {
    /// `cudaMemcpy3DParms`, `hipMemcpy3DParms`
    VolumeCopy = "struct cudaMemcpy3DParms" {
        from_array: u64 = "srcArray",
        from_at: Extent = "srcPos",
        from: PitchedPointer = "srcPtr",
        to_array: u64 = "dstArray",
        to_at: Extent = "dstPos",
        to: PitchedPointer = "dstPtr",
        extent: Extent,
        kind: u32,
    }

    /// `cudaResourceDesc`, which is larger from CUDA 13 on.
    RuntimeResource in "struct cudaResourceDesc" {
        /// The same as the driver's.
        kind: u32 = "resType",
        /// An array; or an address, a [`ChannelFormat`] in 20 bytes, and in the next word bytes, or width and height in
        /// texels and the pitch in bytes.
        words: [u64; 7] = "res",
    }

    /// `cudaTextureDesc`
    RuntimeTexture = "struct cudaTextureDesc" {
        /// The same as the driver's.
        address_modes: [u32; 3] = "addressMode",
        filter: u32 = "filterMode",
        /// 0 unchanged, 1 as floats up to 1.
        read_mode: u32 = "readMode",
        srgb: i32 = "sRGB",
        border: [f32; 4] = "borderColor",
        normalized: i32 = "normalizedCoords",
        anisotropy: u32 = "maxAnisotropy",
        mipmap_filter: u32 = "mipmapFilterMode",
        mipmap_bias: f32 = "mipmapLevelBias",
        least_level: f32 = "minMipmapLevelClamp",
        greatest_level: f32 = "maxMipmapLevelClamp",
        no_trilinear: i32 = "disableTrilinearOptimization",
        seamless: i32 = "seamlessCubemap",
    }

    /// `cudaLaunchConfig_t`, `hipLaunchConfig_t`
    RuntimeLaunchConfiguration = "cudaLaunchConfig_t" {
        grid: Dimensions = "gridDim",
        block: Dimensions = "blockDim",
        /// Dynamic shared memory, bytes.
        shared: usize = "dynamicSmemBytes",
        stream: CUstream,
        /// `cudaLaunchAttribute`, with the same layout as the driver's.
        attributes: *const c_void = "attrs",
        count: c_uint = "numAttrs",
    }

    /// `cudaKernelNodeParams`
    RuntimeKernelNode = "struct cudaKernelNodeParams" {
        host: usize = "func",
        grid: Dimensions = "gridDim",
        block: Dimensions = "blockDim",
        /// Dynamic shared memory, bytes.
        shared: u32 = "sharedMemBytes",
        arguments: usize = "kernelParams",
        extra: usize,
    }

    /// `cudaFuncAttributes`; sizes in bytes.
    FunctionAttributes = "struct cudaFuncAttributes" {
        shared: usize = "sharedSizeBytes",
        constant: usize = "constSizeBytes",
        local: usize = "localSizeBytes",
        max_threads: i32 = "maxThreadsPerBlock",
        registers: i32 = "numRegs",
        ptx: i32 = "ptxVersion",
        binary: i32 = "binaryVersion",
        cache_mode: i32 = "cacheModeCA",
        max_dynamic_shared: i32 = "maxDynamicSharedSizeBytes",
        carveout: i32 = "preferredShmemCarveout",
        /// Whether clusters are set, and which cluster sizes are set, allowed or required.
        cluster: [i32; 6] = "clusterDimMustBeSet",
        reserved: [i32; 16],
    }

    /// `cudaPointerAttributes`
    PointerAttributes = "struct cudaPointerAttributes" {
        /// Unregistered (0), host (1), device (2), managed (3).
        kind: u32 = "type",
        device: i32,
        device_pointer: u64 = "devicePointer",
        host_pointer: u64 = "hostPointer",
    }

    /// `cudaDeviceProp`; HIP 6's structure begins with it; sizes in bytes, clocks in kHz.
    DeviceProperties = "struct cudaDeviceProp" {
        name: [u8; 256],
        uuid: [u8; 16],
        luid: [u8; 8],
        luid_mask: u32 = "luidDeviceNodeMask",
        total_memory: usize = "totalGlobalMem",
        shared_per_block: usize = "sharedMemPerBlock",
        registers_per_block: i32 = "regsPerBlock",
        warp: i32 = "warpSize",
        pitch: usize = "memPitch",
        threads_per_block: i32 = "maxThreadsPerBlock",
        block: [i32; 3] = "maxThreadsDim",
        grid: [i32; 3] = "maxGridSize",
        clock: i32 = "clockRate",
        constant: usize = "totalConstMem",
        major: i32,
        minor: i32,
        texture_alignment: usize = "textureAlignment",
        texture_pitch_alignment: usize = "texturePitchAlignment",
        overlap: i32 = "deviceOverlap",
        multiprocessors: i32 = "multiProcessorCount",
        timeout: i32 = "kernelExecTimeoutEnabled",
        integrated: i32,
        maps_host: i32 = "canMapHostMemory",
        compute_mode: i32 = "computeMode",
        /// `maxTexture1D` to `maxSurfaceCubemapLayered[2]`
        textures_and_surfaces: [i32; 40] = "maxTexture1D",
        surface_alignment: usize = "surfaceAlignment",
        concurrent_kernels: i32 = "concurrentKernels",
        ecc: i32 = "ECCEnabled",
        bus: i32 = "pciBusID",
        pci_device: i32 = "pciDeviceID",
        domain: i32 = "pciDomainID",
        tcc: i32 = "tccDriver",
        asynchronous_engines: i32 = "asyncEngineCount",
        unified_addressing: i32 = "unifiedAddressing",
        memory_clock: i32 = "memoryClockRate",
        memory_bus: i32 = "memoryBusWidth",
        l2: i32 = "l2CacheSize",
        persisting_l2: i32 = "persistingL2CacheMaxSize",
        threads_per_multiprocessor: i32 = "maxThreadsPerMultiProcessor",
        priorities: i32 = "streamPrioritiesSupported",
        global_l1: i32 = "globalL1CacheSupported",
        local_l1: i32 = "localL1CacheSupported",
        shared_per_multiprocessor: usize = "sharedMemPerMultiprocessor",
        registers_per_multiprocessor: i32 = "regsPerMultiprocessor",
        managed: i32 = "managedMemory",
        multi_board: i32 = "isMultiGpuBoard",
        board_group: i32 = "multiGpuBoardGroupID",
        host_atomics: i32 = "hostNativeAtomicSupported",
        double_ratio: i32 = "singleToDoublePrecisionPerfRatio",
        pageable: i32 = "pageableMemoryAccess",
        concurrent_managed: i32 = "concurrentManagedAccess",
        preemption: i32 = "computePreemptionSupported",
        registered_host_pointer: i32 = "canUseHostPointerForRegisteredMem",
        cooperative: i32 = "cooperativeLaunch",
        cooperative_multi: i32 = "cooperativeMultiDeviceLaunch",
        shared_opt_in: usize = "sharedMemPerBlockOptin",
        host_page_tables: i32 = "pageableMemoryAccessUsesHostPageTables",
        direct_managed: i32 = "directManagedMemAccessFromHost",
        blocks_per_multiprocessor: i32 = "maxBlocksPerMultiProcessor",
        window: i32 = "accessPolicyMaxWindowSize",
        reserved_shared: usize = "reservedSharedMemPerBlock",
        host_register: i32 = "hostRegisterSupported",
        sparse: i32 = "sparseCudaArraySupported",
        read_only_register: i32 = "hostRegisterReadOnlySupported",
        timeline: i32 = "timelineSemaphoreInteropSupported",
        pools: i32 = "memoryPoolsSupported",
        rdma: i32 = "gpuDirectRDMASupported",
        rdma_flush: u32 = "gpuDirectRDMAFlushWritesOptions",
        rdma_ordering: i32 = "gpuDirectRDMAWritesOrdering",
        pool_handles: u32 = "memoryPoolSupportedHandleTypes",
        deferred: i32 = "deferredMappingCudaArraySupported",
        ipc_event: i32 = "ipcEventSupported",
        cluster: i32 = "clusterLaunch",
        unified_functions: i32 = "unifiedFunctionPointers",
        reserved: [i32; 63],
    }

    /// `cudaDeviceProp` of CUDA 13.
    DeviceProperties13 = "struct cudaDeviceProp" {
        name: [u8; 256],
        uuid: [u8; 16],
        luid: [u8; 8],
        luid_mask: u32 = "luidDeviceNodeMask",
        total_memory: usize = "totalGlobalMem",
        shared_per_block: usize = "sharedMemPerBlock",
        registers_per_block: i32 = "regsPerBlock",
        warp: i32 = "warpSize",
        pitch: usize = "memPitch",
        threads_per_block: i32 = "maxThreadsPerBlock",
        block: [i32; 3] = "maxThreadsDim",
        grid: [i32; 3] = "maxGridSize",
        constant: usize = "totalConstMem",
        major: i32,
        minor: i32,
        texture_alignment: usize = "textureAlignment",
        texture_pitch_alignment: usize = "texturePitchAlignment",
        multiprocessors: i32 = "multiProcessorCount",
        integrated: i32,
        maps_host: i32 = "canMapHostMemory",
        /// `maxTexture1D` to `maxSurfaceCubemapLayered[2]`
        textures_and_surfaces: [i32; 39] = "maxTexture1D",
        surface_alignment: usize = "surfaceAlignment",
        concurrent_kernels: i32 = "concurrentKernels",
        ecc: i32 = "ECCEnabled",
        bus: i32 = "pciBusID",
        pci_device: i32 = "pciDeviceID",
        domain: i32 = "pciDomainID",
        tcc: i32 = "tccDriver",
        asynchronous_engines: i32 = "asyncEngineCount",
        unified_addressing: i32 = "unifiedAddressing",
        memory_bus: i32 = "memoryBusWidth",
        l2: i32 = "l2CacheSize",
        persisting_l2: i32 = "persistingL2CacheMaxSize",
        threads_per_multiprocessor: i32 = "maxThreadsPerMultiProcessor",
        priorities: i32 = "streamPrioritiesSupported",
        global_l1: i32 = "globalL1CacheSupported",
        local_l1: i32 = "localL1CacheSupported",
        shared_per_multiprocessor: usize = "sharedMemPerMultiprocessor",
        registers_per_multiprocessor: i32 = "regsPerMultiprocessor",
        managed: i32 = "managedMemory",
        multi_board: i32 = "isMultiGpuBoard",
        board_group: i32 = "multiGpuBoardGroupID",
        host_atomics: i32 = "hostNativeAtomicSupported",
        pageable: i32 = "pageableMemoryAccess",
        concurrent_managed: i32 = "concurrentManagedAccess",
        preemption: i32 = "computePreemptionSupported",
        registered_host_pointer: i32 = "canUseHostPointerForRegisteredMem",
        cooperative: i32 = "cooperativeLaunch",
        shared_opt_in: usize = "sharedMemPerBlockOptin",
        host_page_tables: i32 = "pageableMemoryAccessUsesHostPageTables",
        direct_managed: i32 = "directManagedMemAccessFromHost",
        blocks_per_multiprocessor: i32 = "maxBlocksPerMultiProcessor",
        window: i32 = "accessPolicyMaxWindowSize",
        reserved_shared: usize = "reservedSharedMemPerBlock",
        host_register: i32 = "hostRegisterSupported",
        sparse: i32 = "sparseCudaArraySupported",
        read_only_register: i32 = "hostRegisterReadOnlySupported",
        timeline: i32 = "timelineSemaphoreInteropSupported",
        pools: i32 = "memoryPoolsSupported",
        rdma: i32 = "gpuDirectRDMASupported",
        rdma_flush: u32 = "gpuDirectRDMAFlushWritesOptions",
        rdma_ordering: i32 = "gpuDirectRDMAWritesOrdering",
        pool_handles: u32 = "memoryPoolSupportedHandleTypes",
        deferred: i32 = "deferredMappingCudaArraySupported",
        ipc_event: i32 = "ipcEventSupported",
        cluster: i32 = "clusterLaunch",
        unified_functions: i32 = "unifiedFunctionPointers",
        numa_configuration: i32 = "deviceNumaConfig",
        numa: i32 = "deviceNumaId",
        mps: i32 = "mpsEnabled",
        host_numa: i32 = "hostNumaId",
        pci_identity: u32 = "gpuPciDeviceID",
        pci_subsystem: u32 = "gpuPciSubsystemID",
        host_numa_sharing: i32 = "hostNumaMultinodeIpcSupported",
        reserved: [i32; 56],
    }
}
