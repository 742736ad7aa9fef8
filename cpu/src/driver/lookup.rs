//! `cuGetProcAddress`: finds functions by base name and CUDA version.
//!
//! The version is the one that the caller was built for.

use std::ffi::{CStr, c_char, c_void};

use mneme_abi::cuda::{since_as, split_name};

use crate::abi::{CStringArgument, Out};
use crate::status::{Status, StatusResult};

/// One exported function.
pub struct Export {
    /// The symbol, e.g. `cuMemAlloc_v2`.
    pub symbol: &'static str,
    /// The first CUDA version in which the base name means this function.
    pub since: i32,
    pub address: *const c_void,
}

// SAFETY: the address is that of a function.
unsafe impl Sync for Export {}

/// The function that a name means to a caller built for a CUDA version: an exact symbol, or the newest version of a
/// base name that is not newer than the caller. Per-thread variants are the plain functions.
fn find(table: &[Export], name: &str, version: i32) -> Option<*const c_void> {
    let plain = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    if plain != split_name(plain).0 {
        return table.iter().find(|export| export.symbol == plain).map(|export| export.address);
    }
    let same =
        || table.iter().filter_map(|export| Some((since_as(export.symbol, export.since, plain)?, export.address)));
    let newest = same().filter(|(since, _)| *since <= version).max_by_key(|(since, _)| *since);
    // Version 0 accepts any.
    newest.or_else(|| same().min_by_key(|(since, _)| *since).filter(|_| version == 0)).map(|(_, address)| address)
}

/// `CU_GET_PROC_ADDRESS_SUCCESS`, `_SYMBOL_NOT_FOUND`
pub fn get(
    table: &[Export],
    name: CStringArgument,
    out: Out<*const c_void>,
    version: i32,
    _flags: u64,
    result: Out<u32>,
) -> StatusResult {
    match find(table, name.get()?, version) {
        Some(address) => {
            result.put_if_wanted(0);
            out.put(address)
        }
        None => {
            result.put_if_wanted(1);
            out.put(std::ptr::null())?;
            Err(Status::NOT_FOUND)
        }
    }
}

pub fn error_name(error: Status, out: Out<*const c_char>) -> StatusResult {
    let name = error.driver_name();
    out.put(name.map_or(std::ptr::null(), CStr::as_ptr))?;
    name.map(|_| ()).ok_or(Status::INVALID_VALUE)
}

pub fn error_text(error: Status, out: Out<*const c_char>) -> StatusResult {
    let text = error.text();
    out.put(text.map_or(std::ptr::null(), CStr::as_ptr))?;
    text.map(|_| ()).ok_or(Status::INVALID_VALUE)
}

/// `cuGetExportTable`: the device has none of the vendor's private tables.
pub fn no_table(out: Out<*const c_void>) -> StatusResult {
    out.put_if_wanted(std::ptr::null());
    Err(Status::NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::super::exports::TABLE;
    use super::*;

    #[test]
    fn base_names_mean_the_newest_version_that_the_caller_knows() {
        let symbol = |name, version| {
            let address = find(TABLE, name, version)?;
            TABLE.iter().find(|export| export.address == address).map(|export| export.symbol)
        };
        assert_eq!(symbol("cuMemAlloc", 12090), Some("cuMemAlloc_v2"));
        assert_eq!(symbol("cuLaunchKernel_ptsz", 12090), Some("cuLaunchKernel"));
        assert_eq!(symbol("cuGetProcAddress", 11080), Some("cuGetProcAddress"));
        assert_eq!(symbol("cuGetProcAddress", 12000), Some("cuGetProcAddress_v2"));
        assert_eq!(symbol("cuMemcpyHtoD_v2", 12090), Some("cuMemcpyHtoD_v2"));
        assert_eq!(symbol("cuNoSuchFunction", 12090), None);
    }
}
