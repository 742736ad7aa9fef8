//! Functions that only the CPU device has, for queries of the recorder.

use super::cuda::types::*;
use crate::declare::declare;

declare! { ($)
    // The code object that a kernel or function is in: where it is and its size in bytes, for as long as the function
    // is loaded. A kernel of HIP's may be named by the host's address of it, as its launch does.
    100 mneme_cpu_code(function: CUfunction, start: *mut *const c_uchar, size: *mut usize);
}
