//! The runtime half: the `cuda*` functions, on top of the driver.
//!
//! Programs with a shared cudart call them.
//!
//! It reaches the driver only through [`calls`], i.e. through `dlsym` and `cuGetProcAddress`, so that a recorder loaded
//! in front of this library puts its hooks there exactly as it does under NVIDIA's runtime.

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
