//! Functions that only the CPU device has, for the recorder's queries.

use super::cuda::types::*;
use crate::declare::declare;

declare! { ($)
    // Start and size, in bytes, of a kernel's or function's code object; valid while the function is loaded. A HIP
    // kernel may be named by its host address, as in launches.
    100 mneme_cpu_code(function: CUfunction, start: *mut *const c_uchar, size: *mut usize);
}
