//! Enumerations and flags of the driver as the recorder hands them to it.
//!
//! They are cudarc's. What is read of an application is a number: an enumeration need not be one that is known here.

pub use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_IOMEMORY, CU_MEMHOSTREGISTER_PORTABLE,
    CUdevice_attribute, CUevent_flags, CUfunction_attribute, CUgraphNodeType, CUipcMemHandle, CUjitInputType, CUlimit,
    CUmemAllocationHandleType, CUmemGenericAllocationHandle, CUmemoryPool, CUpointer_attribute, CUstream_flags,
    CUstreamCaptureMode,
};
