//! HIP's runtime: the functions of libamdhip64.
//!
//! HIP is one library where CUDA has a runtime and a driver, so its functions are of both kinds. They call this
//! library's [driver](crate::driver) directly and share common code with CUDA's [runtime](crate::runtime). This module
//! has what only HIP has. A recorder hooks the `hip*` functions.

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
