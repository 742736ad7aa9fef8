//! The functions with which HIP programs register their code before `main`, which return no status.
//!
//! A process that registers code with HIP uses HIP.

use std::ffi::CStr;

use mneme_abi::hip::registration::pointers;
use mneme_abi::hip::types::*;

use crate::driver::{Slot, c_name};
use crate::kernels::loading;
use crate::process::family::Family;
use crate::process::reentrancy;

/// Returns the address of a function.
pub type FunctionAddress = fn() -> *mut c_void;

/// Runs the vendor's function, with `before` and `after` around it, with hooks switched off. Panics in `before` and
/// `after` do not end the program.
fn followed<R>(before: impl FnOnce(), call: impl FnOnce() -> R, after: impl FnOnce(&R)) -> R {
    let is_outermost = !reentrancy::inside() && Family::Hip.is_recorded();
    reentrancy::bypassing(|| {
        if is_outermost {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(before));
        }
        let result = call();
        if is_outermost {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| after(&result)));
        }
        result
    })
}

/// The return value if the vendor lacks the function.
trait Nothing {
    const NOTHING: Self;
}

impl Nothing for () {
    const NOTHING: Self = ();
}

impl Nothing for *mut *mut c_void {
    const NOTHING: Self = std::ptr::null_mut();
}

/// Binds an argument to its name in the list. `_` is only passed on.
macro_rules! named {
    (_ $raw:ident) => {};
    ($argument:ident $raw:ident) => {
        let $argument = $raw;
    };
}

macro_rules! export {
    (
        { ($($argument:tt),*) { $before:expr } { $after:expr } }
        $since:literal $name:ident($($raw:ident: $type:ty),*) -> $return:ty
    ) => {
        /// # Safety
        /// As for HIP's function of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "HIP's")]
        pub unsafe extern "C" fn $name($($raw: $type),*) -> $return {
            static SLOT: Slot = Slot::new();
            let address = SLOT.get(const { c_name(concat!(stringify!($name), "\0")) });
            if address.is_null() {
                return Nothing::NOTHING;
            }
            // SAFETY: the library's function of this name has this type in every version.
            let real = unsafe { std::mem::transmute::<*mut c_void, pointers::$name>(address) };
            $( named! { $argument $raw } )*
            // SAFETY: the arguments are the program's own.
            followed($before, || unsafe { real($($raw),*) }, $after)
        }
    };
}

/// An entry is `symbol(arguments) before {…} after {…}`: the steps before and after the vendor's function.
macro_rules! follow_each {
    ($($name:ident $arguments:tt before $before:tt after $after:tt;)*) => {
        /// Names and addresses of the functions here.
        pub static FUNCTIONS: &[(&CStr, FunctionAddress)] = &[
            $((c_name(concat!(stringify!($name), "\0")), || $name as *const () as *mut c_void),)*
        ];

        $(mneme_abi::$name! { export { $arguments $before $after } })*
    };
}

follow_each! {
    __hipRegisterFatBinary(wrapper) before { || () } after {
        // SAFETY: the library has just accepted it.
        |handle| unsafe { loading::register_binary(*handle, wrapper) }
    };
    __hipUnregisterFatBinary(handle) before { || loading::forget_binary(handle) } after { |()| () };
    __hipRegisterFunction(handle, host, _, name, _, _, _, _, _, _) before { || () } after {
        |()| loading::register_function(handle, host, name)
    };
    __hipRegisterVar(handle, host, _, name, _, _, _, _) before { || () } after {
        |()| loading::register_variable(handle, host, name, None)
    };
    __hipRegisterManagedVar(handle, place, _, name, bytes, _) before { || () } after {
        |()| loading::register_variable(handle.cast(), place.cast(), name, Some(bytes as u64))
    };
}
