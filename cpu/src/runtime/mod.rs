//! The runtime half: the `cuda*` functions, on top of the driver.
//!
//! Programs with a shared cudart call them. They reach the driver only through [`calls`], i.e. through `dlsym` and
//! `cuGetProcAddress`, so a recorder in front of this library can hook the driver as it does under NVIDIA's runtime.

mod arrays;
pub mod calls;
pub mod device;
pub mod error;
pub mod exports;
pub mod launch;
pub mod memory;
pub mod registration;
pub mod session;
pub mod unsupported;
pub mod volumes;
