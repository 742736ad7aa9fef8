//! The symbols that code objects may import.
//!
//! These are the device's functions, libm, the memory functions, and the compiler's helpers for 128-bit integers and
//! half precision.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use crate::execution::device_calls as calls;
use crate::execution::{fragments, matrix, texturing};
use crate::half;

type ImportedSymbol = (&'static str, *const ());

/// The functions of `docs/reference/cpu-code-objects.md`, and the compiler's helpers.
fn table() -> [ImportedSymbol; 58] {
    [
        ("__mneme_cpu_thread", calls::thread_address()),
        ("__mneme_cpu_barrier", calls::barrier as *const ()),
        ("__mneme_cpu_barrier_arrive", calls::barrier_arrive as *const ()),
        ("__mneme_cpu_barrier_vote", calls::barrier_vote as *const ()),
        ("__mneme_cpu_warp_sync", calls::warp_sync as *const ()),
        ("__mneme_cpu_shuffle", calls::shuffle as *const ()),
        ("__mneme_cpu_vote", calls::vote as *const ()),
        ("__mneme_cpu_match", calls::match_lanes as *const ()),
        ("__mneme_cpu_redux", calls::redux as *const ()),
        ("__mneme_cpu_activemask", calls::activemask_address()),
        ("__mneme_cpu_converge", calls::converge as *const ()),
        ("__mneme_cpu_wave_converge", calls::wave_converge as *const ()),
        ("__mneme_cpu_wave_site", calls::wave_site as *const ()),
        ("__mneme_cpu_wave_enter", calls::wave_enter as *const ()),
        ("__mneme_cpu_wave_leave", calls::wave_leave as *const ()),
        ("__mneme_cpu_wave_ballot", calls::wave_ballot_address()),
        ("__mneme_cpu_wave_exchange", calls::wave_exchange_address()),
        ("__mneme_cpu_wave_permute", calls::wave_permute_address()),
        ("__mneme_cpu_implicit_arguments", calls::implicit_arguments as *const ()),
        ("__mneme_cpu_dispatch_packet", calls::dispatch_packet as *const ()),
        ("__mneme_cpu_ockl_printf_begin", calls::ockl_printf_begin as *const ()),
        ("__mneme_cpu_ockl_printf_append_args", calls::ockl_printf_append_args as *const ()),
        ("__mneme_cpu_ockl_printf_append_string_n", calls::ockl_printf_append_string_n as *const ()),
        ("__mneme_cpu_ockl_fprintf_stderr_begin", calls::ockl_fprintf_stderr_begin as *const ()),
        ("__mneme_cpu_grid_workspace", calls::grid_workspace as *const ()),
        ("__mneme_cpu_multiply_matrices", matrix::multiply_matrices as *const ()),
        ("__mneme_cpu_load_matrices", matrix::load_matrices as *const ()),
        ("__mneme_cpu_store_matrices", matrix::store_matrices as *const ()),
        ("__mneme_cpu_multiply_fragments", fragments::multiply_fragments as *const ()),
        ("__mneme_cpu_load_fragment", fragments::load_fragment as *const ()),
        ("__mneme_cpu_store_fragment", fragments::store_fragment as *const ()),
        ("__mneme_cpu_texture", texturing::read_texture as *const ()),
        ("__mneme_cpu_surface_load", texturing::load_surface as *const ()),
        ("__mneme_cpu_surface_store", texturing::store_surface as *const ()),
        ("__mneme_cpu_image_query", texturing::query_image as *const ()),
        ("__mneme_cpu_cluster_arrive", calls::cluster_arrive as *const ()),
        ("__mneme_cpu_cluster_wait", calls::cluster_wait as *const ()),
        ("__mneme_cpu_yield", calls::give_way as *const ()),
        ("__mneme_cpu_malloc", calls::allocate as *const ()),
        ("__mneme_cpu_free", calls::release as *const ()),
        ("__mneme_cpu_printf", calls::printf as *const ()),
        ("__mneme_cpu_assert", calls::assert_failed as *const ()),
        ("__mneme_cpu_trap", calls::trap as *const ()),
        ("__mneme_cpu_clock", calls::clock as *const ()),
        ("__mneme_cpu_round", crate::execution::round::round as *const ()),
        ("memcpy", libc::memcpy as *const ()),
        ("memmove", libc::memmove as *const ()),
        ("memset", libc::memset as *const ()),
        ("memcmp", libc::memcmp as *const ()),
        ("__udivti3", unsigned_divide as *const ()),
        ("__umodti3", unsigned_remainder as *const ()),
        ("__divti3", signed_divide as *const ()),
        ("__modti3", signed_remainder as *const ()),
        ("__extendhfsf2", half::to_float as *const ()),
        ("__gnu_h2f_ieee", half::bits_to_float as *const ()),
        ("__truncsfhf2", half::from_float as *const ()),
        ("__gnu_f2h_ieee", half::float_to_bits as *const ()),
        ("__truncdfhf2", half::from_double as *const ()),
    ]
}

extern "C" fn unsigned_divide(a: u128, b: u128) -> u128 {
    a.checked_div(b).unwrap_or(u128::MAX)
}

extern "C" fn unsigned_remainder(a: u128, b: u128) -> u128 {
    a.checked_rem(b).unwrap_or(a)
}

extern "C" fn signed_divide(a: i128, b: i128) -> i128 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

extern "C" fn signed_remainder(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { a.wrapping_rem(b) }
}

/// The address of an import, `None` for a name that the contract does not allow.
pub fn address(name: &str) -> Option<u64> {
    table().iter().find(|(known, _)| *known == name).map(|(_, address)| *address as u64).or_else(|| libm(name))
}

fn libm(name: &str) -> Option<u64> {
    static HANDLE: OnceLock<usize> = OnceLock::new();
    // SAFETY: the process has loaded libm already, so opening it runs no foreign code.
    let handle = *HANDLE.get_or_init(|| unsafe { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW) } as usize);
    let name = CString::new(name).ok()?;
    if handle == 0 {
        return None;
    }
    // SAFETY: a valid handle and a NUL-terminated name.
    let address = unsafe { libc::dlsym(handle as *mut _, name.as_ptr()) };
    // A look-up in libm also searches the libraries that libm needs, but kernels may not call the C library.
    (!address.is_null() && belongs_to_libm(address)).then_some(address as u64)
}

fn belongs_to_libm(address: *const libc::c_void) -> bool {
    // SAFETY: all zeros is a valid value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a valid place to write.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return false;
    }
    // SAFETY: dladdr succeeded, so this is a NUL-terminated string.
    let file = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
    file.rsplit('/').next().is_some_and(|file| file.starts_with("libm.") || file.starts_with("libm-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libm_is_offered_and_the_rest_of_the_c_library_is_not() {
        for name in ["fmaf", "sin", "powf", "memcpy", "__mneme_cpu_thread"] {
            assert!(address(name).is_some(), "{name}");
        }
        for name in ["system", "malloc", "write", "no_such_function"] {
            assert!(address(name).is_none(), "{name}");
        }
    }
}
