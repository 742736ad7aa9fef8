//! Declarations of the vendor's functions, each made once.
//!
//! Hooks, typed calls, tables and their documentation are made from them.
//!
//! ```
//! use mneme_abi::cuda::types::*;
//!
//! macro_rules! count {
//!     ({} $since:literal $name:ident($($argument:ident: $type:ty),*)) => { [$(stringify!($argument)),*].len() };
//! }
//! assert_eq!(mneme_abi::cuMemcpyHtoD_v2! { count {} }, 3);
//! ```

pub mod cpu_device;
pub mod cuda;
mod declare;
pub mod hip;
pub mod structure;

/// A declared function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendorFunction {
    /// Symbol name in the driver library, e.g. `cuMemAlloc_v2`.
    pub name: &'static str,
    /// Version from which this variant is the one meant by its base name: as `cuGetProcAddress` counts for CUDA (12000
    /// is 12.0), that of the symbol for HIP (402 is 4.2).
    pub since: i32,
    /// Name and type of each argument, as declared.
    pub arguments: &'static [(&'static str, &'static str)],
    /// The type of what it returns: `Status` for most, `()` for nothing.
    pub returns: &'static str,
}
