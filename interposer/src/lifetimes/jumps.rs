//! Jumps out of hooked calls: `longjmp` and its variants, from a handler that has interrupted one.
//!
//! The interrupted call does not return, so it does not release its thread's mark or its pass of the gate. So these
//! functions are hooked, and a jump that leaves a hook first releases what the hook holds.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::AtomicPtr;

use crate::driver::{c_name, gate};
use crate::process::linker::behind;
use crate::process::reentrancy;

/// The index of the stack pointer in glibc's `jmp_buf`.
#[cfg(target_arch = "x86_64")]
const STACK: usize = 6;
#[cfg(target_arch = "aarch64")]
const STACK: usize = 13;

/// Starts to notice jumps.
pub fn register() {
    reentrancy::undo_also(gate::abandon);
    // Resolved now, because the first jump may come from a handler, which must not call the linker.
    JUMPS.iter().for_each(|(known, name)| _ = behind(known, name));
}

/// The stack pointer after a jump.
///
/// # Safety
/// `setjmp` of glibc, which disguises the word (`PTR_MANGLE`), has filled the place.
unsafe fn target(place: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    let disguised = unsafe { place.cast::<usize>().add(STACK).read() };
    #[cfg(target_arch = "x86_64")]
    {
        let guard: usize;
        // SAFETY: reads a word of the thread's control block, which holds the guard according to glibc's psABI.
        unsafe { std::arch::asm!("mov {}, fs:[0x30]", out(reg) guard, options(nostack, preserves_flags, readonly)) };
        disguised.rotate_right(17) ^ guard
    }
    #[cfg(target_arch = "aarch64")]
    {
        static GUARD: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        disguised
            ^ GUARD.get_or_init(|| {
                // SAFETY: valid names; the loader has a word of this name.
                unsafe {
                    let (name, version) = (c"__pointer_chk_guard".as_ptr(), c"GLIBC_PRIVATE".as_ptr());
                    libc::dlvsym(libc::RTLD_DEFAULT, name, version).cast::<usize>().as_ref().copied().unwrap_or(0)
                }
            })
    }
}

type Jump = unsafe extern "C" fn(*const c_void, c_int) -> !;

macro_rules! jumps {
    ($($name:ident $known:ident)*) => {
        $( static $known: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut()); )*
        const JUMPS: &[(&AtomicPtr<c_void>, &CStr)] = &[$( (&$known, c_name(concat!(stringify!($name), "\0"))) ),*];
        $(
            /// # Safety
            /// As for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(place: *const c_void, value: c_int) -> ! {
                // SAFETY: the caller's promise; every glibc has these functions, with this type.
                unsafe {
                    reentrancy::note_jump(target(place));
                    let function = behind(&$known, const { c_name(concat!(stringify!($name), "\0")) });
                    std::mem::transmute::<*mut c_void, Jump>(function)(place, value)
                }
            }
        )*
    };
}

jumps! { longjmp LONGJMP _longjmp _LONGJMP siglongjmp SIGLONGJMP __longjmp_chk LONGJMP_CHK }

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_jump_tells_where_it_leads() {
        /// Fills the place with itself as the target, and returns its stack pointer.
        #[unsafe(naked)]
        unsafe extern "C" fn mark(place: *mut c_void) -> usize {
            core::arch::naked_asm!(
                "push rbx",
                "call {mark}",
                "lea rax, [rsp]",
                "pop rbx",
                "ret",
                mark = sym setjmp,
            )
        }
        unsafe extern "C" {
            #[link_name = "_setjmp"]
            fn setjmp(place: *mut c_void) -> c_int;
        }
        let mut place = [0_u64; 64];
        // SAFETY: the place is large enough, and is not jumped to.
        unsafe {
            let stack = mark(place.as_mut_ptr().cast());
            assert_eq!(target(place.as_ptr().cast()), stack);
        }
    }
}
