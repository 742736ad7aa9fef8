//! HIP's runtime: the functions of libamdhip64.
//!
//! HIP is one library where CUDA has a runtime and a driver, so a program calls functions of both kinds. They go
//! straight to this library's own [driver](crate::driver), and share with CUDA's [runtime](crate::runtime) what both
//! runtimes do; here is what is HIP's alone. A recorder sees the `hip*` functions.

pub mod device;
pub mod exports;
pub mod graph;
pub mod launch;
pub mod memory;
pub mod profiling;
pub mod refused;
pub mod release;

use crate::driver::context;
use crate::runtime::{calls, error};
use crate::status::{Status, StatusResult};

/// Runs the body of an exported function.
pub fn enter(body: impl FnOnce() -> StatusResult) -> Status {
    context::outlive_exit();
    error::enter_as_hip(release::major() >= 7, || {
        context::owns_device()?;
        calls::directly(body)
    })
}
