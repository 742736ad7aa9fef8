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
    /// The first version in which the base name means this variant: for CUDA, as in `cuGetProcAddress` (12000 is 12.0),
    /// for HIP, the symbol's version (402 is 4.2).
    pub since: i32,
    /// Name and type of each argument, as declared.
    pub arguments: &'static [(&'static str, &'static str)],
    /// The return type: `Status` for most, `()` for none.
    pub returns: &'static str,
}
