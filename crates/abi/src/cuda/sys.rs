//! Enumerations and flags of the driver, as the recorder passes them.
//!
//! They are cudarc's. Values from an application are plain numbers, because they may be unknown here.

pub use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_IOMEMORY, CU_MEMHOSTREGISTER_PORTABLE,
    CUdevice_attribute, CUevent_flags, CUfunction_attribute, CUgraphNodeType, CUipcMemHandle, CUjitInputType, CUlimit,
    CUmemAllocationHandleType, CUmemGenericAllocationHandle, CUmemoryPool, CUpointer_attribute, CUstream_flags,
    CUstreamCaptureMode,
};
