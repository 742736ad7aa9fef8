//! The release of HIP that the program was built for: layouts and numbers of HIP 5 and 6 differ.

use std::sync::OnceLock;

use crate::abi::Out;
use crate::release;
use crate::status::StatusResult;

/// The release for programs that load the library by a name without a number.
const USUAL: u32 = 6;

/// The number in the name of the library, such as `libamdhip64.so.5`, that the program is linked with or has loaded.
pub fn major() -> u32 {
    static MAJOR: OnceLock<u32> = OnceLock::new();
    *MAJOR.get_or_init(|| release::in_name_of("libamdhip64.so.").unwrap_or(USUAL))
}

/// `hipDriverGetVersion` and `hipRuntimeGetVersion`: `HIP_VERSION` without patch. For HIP 5 it is the last release, in
/// which kinds of graph nodes have the numbers of HIP 6.
pub fn put(out: Out<i32>) -> StatusResult {
    let minor = if major() == 5 { 7 } else { 0 };
    out.put(major() as i32 * 10_000_000 + minor * 100_000)
}
