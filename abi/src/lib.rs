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

pub mod cuda;
