//! The vendor's functions, each declared once: what hooks, typed calls, tables and their documentation are made from.
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
