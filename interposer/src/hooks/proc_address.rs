//! Functions that return functions by name: `cuGetProcAddress`, and HIP's two.
//!
//! cudart finds nearly every driver function through `cuGetProcAddress`.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{LazyLock, OnceLock};

use super::{CUDA, DefaultStream, HIP, Hook};
use crate::driver::{self, Status};
use crate::process::family::Family;
use crate::process::linker;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD_DEFAULT_STREAM: u64 = 2;
/// The version of the newest header that the table was compared with. Up to this version, the table knows every
/// variant.
pub(super) const NEWEST: c_int = 13050;

/// # Safety
/// The arguments are those of `cuGetProcAddress`.
pub unsafe fn get(
    call: &dyn Fn() -> Status,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> Status {
    let status = call();
    if status == Status::SUCCESS && !symbol.is_null() && !function.is_null() {
        // SAFETY: after a success `function` holds the address (or null) and `symbol` is a C string.
        let (found, name) = unsafe { (*function, CStr::from_ptr(symbol)) };
        if !found.is_null()
            && let Some(hook) = substitute(found, name, version, flags)
        {
            // SAFETY: as above.
            unsafe { *function = hook };
        }
    }
    status
}

/// # Safety
/// The arguments are those of `hipGetProcAddress` or `hipGetDriverEntryPoint`.
pub unsafe fn get_of_hip(call: &dyn Fn() -> Status, symbol: *const c_char, function: *mut *mut c_void) -> Status {
    let status = call();
    if status == Status::SUCCESS && !symbol.is_null() && !function.is_null() {
        // SAFETY: after a success `function` holds the address (or null).
        let found = unsafe { *function };
        // HIP returns the library's own symbols, under the name that the version or the default stream selects.
        let hook = HIP.iter().find(|hook| !found.is_null() && hook.real.get(hook.name) == found);
        if let Some(hook) = hook {
            // SAFETY: as above.
            unsafe { *function = hook.address() };
        }
    }
    status
}

/// The hook in place of the vendor's `found`, if there is one.
///
/// Comparing the address with the result of `dlsym` tells exactly which variant was returned. Only variants of the
/// requested name are compared, because linkers fold functions with equal code into one address. If a driver returns
/// different addresses in the two ways, version and stream semantics decide.
fn substitute(found: *mut c_void, name: &CStr, version: c_int, flags: u64) -> Option<*mut c_void> {
    let text = name.to_str().ok()?;
    let expected = variant(text, version, flags);
    let is_found = |hook: &&Hook| hook.real.get(hook.name) == found;
    if let Some(hook) = expected.filter(is_found).or_else(|| asked_for_by(text).iter().copied().find(is_found)) {
        return Some(hook.address());
    }
    // A variant that the table does not know may have other arguments, so it must not be taken for a known one.
    let hook = expected.filter(|hook| version <= NEWEST || !has_newer(hook))?;
    if hook.real.get(hook.name).is_null() {
        hook.real.learn(found);
    } else if !linker::is_vendors(Family::Cuda, found) {
        // The address belongs to another tool between the recorder and the vendor, which must continue to see the
        // calls.
        hook.real.put_before(found);
    } else if addresses_agree() {
        return None;
    }
    Some(hook.address())
}

/// Whether the vendor has a newer variant of a function than the table.
fn has_newer(hook: &Hook) -> bool {
    let name = hook.name.to_str().unwrap_or_default();
    let form = ["_ptsz", "_ptds"].into_iter().find(|form| name.ends_with(form)).unwrap_or_default();
    let base = hook.base_name();
    let number: u32 = name[base.len()..name.len() - form.len()].trim_start_matches("_v").parse().unwrap_or(1);
    let newer = CString::new(format!("{base}_v{}{form}", number + 1)).unwrap_or_default();
    super::by_name(&newer).is_none() && !linker::vendor_symbol(&newer).is_null()
}

/// Whether this driver returns the same addresses from `dlsym` and `cuGetProcAddress`, tested with a function that has
/// one variant.
fn addresses_agree() -> bool {
    static AGREE: OnceLock<bool> = OnceLock::new();
    *AGREE.get_or_init(|| {
        let name = c"cuDeviceGetName";
        let mut found = std::ptr::null_mut();
        // SAFETY: a valid name and a place for the result; the status is optional.
        let status = unsafe {
            driver::hooked::cuGetProcAddress_v2::call(name.as_ptr(), &mut found, 12000, 0, std::ptr::null_mut())
        };
        status == Status::SUCCESS && found == linker::vendor_symbol(name)
    })
}

/// The hooked functions that a name may mean. A runtime requests hundreds of names at its start.
fn asked_for_by(name: &str) -> &'static [&'static Hook] {
    static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static Hook>>> = LazyLock::new(|| {
        let mut known: HashMap<_, Vec<_>> = HashMap::new();
        for hook in CUDA {
            for name in mneme_abi::cuda::names_asked_for(hook.name.to_str().unwrap_or_default()) {
                known.entry(name).or_default().push(hook);
            }
        }
        known
    });
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// The hooked variant that `cuGetProcAddress` means by a base name: the newest that is not newer than `version`, in the
/// form for the requested default stream if the function has one.
pub(super) fn variant(name: &str, version: c_int, flags: u64) -> Option<&'static Hook> {
    let newest = |stream| {
        let known = asked_for_by(name).iter().filter(|hook| hook.default_stream() == stream);
        let known = known.filter_map(|hook| Some((hook.since_as(name)?, *hook)));
        known.filter(|(since, _)| *since <= version).max_by_key(|(since, _)| *since).map(|(_, hook)| hook)
    };
    if flags & PER_THREAD_DEFAULT_STREAM != 0
        && let Some(hook) = newest(DefaultStream::PerThread)
    {
        return Some(hook);
    }
    newest(DefaultStream::Legacy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(symbol: &str, version: c_int, flags: u64) -> Option<&'static str> {
        variant(symbol, version, flags).and_then(|hook| hook.name.to_str().ok())
    }

    #[test]
    fn versions_choose_the_variant() {
        assert_eq!(name("cuMemAlloc", 12000, 0), Some("cuMemAlloc_v2"));
        assert_eq!(name("cuMemAlloc", 2000, 0), None, "the 32-bit variant is not hooked");
        assert_eq!(name("cuGetProcAddress", 11030, 0), Some("cuGetProcAddress"));
        assert_eq!(name("cuGetProcAddress", 12010, 0), Some("cuGetProcAddress_v2"));
        assert_eq!(name("cuMemPrefetchAsync", 12010, 0), Some("cuMemPrefetchAsync"));
        assert_eq!(name("cuMemPrefetchAsync", 13000, 0), Some("cuMemPrefetchAsync_v2"));
        assert_eq!(name("cuLaunchHostFunc", 13000, 0), Some("cuLaunchHostFunc"));
        assert_eq!(name("cuLaunchHostFunc", 13010, 0), Some("cuLaunchHostFunc_v2"));
        assert_eq!(name("cuGraphInstantiate", 11080, 0), Some("cuGraphInstantiate_v2"));
        assert_eq!(name("cuGraphInstantiate", 12000, 0), Some("cuGraphInstantiateWithFlags"));
    }

    #[test]
    fn flags_choose_the_default_stream() {
        assert_eq!(name("cuLaunchKernel", 12000, 2), Some("cuLaunchKernel_ptsz"));
        assert_eq!(name("cuLaunchKernel", 12000, 1), Some("cuLaunchKernel"));
        assert_eq!(name("cuMemcpyHtoD", 12000, 2), Some("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(name("cuMemAlloc", 12000, 2), Some("cuMemAlloc_v2"), "it has no stream");
    }
}
