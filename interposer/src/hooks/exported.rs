//! The exported functions, and the table of them.

use mneme_abi::cuda::types::*;

use super::{Hook, enter, proc_address};
use crate::driver::{self, captures, contexts, gate};
use crate::kernels::loading;
use crate::launches::{forms, graphs, legacy};
use crate::lifetimes::{contexts as ends, green};
use crate::memory::sharing::physical;
use crate::memory::{access, external, ipc, served, tracked};
use crate::recorder::{self, counted};
use crate::table::every_hook;

macro_rules! body {
    ($name:ident, ($($argument:ident: $type:ty),*), gated) => {
        enter(outer_call!($name($($argument),*)), vendor_call!($name($($argument),*)), gate::passing)
    };
    ($name:ident, ($($argument:ident: $type:ty),*), [$form:path]) => {{
        // Apart, so that it does not make the other way longer.
        #[cold]
        #[inline(never)]
        #[allow(clippy::too_many_arguments)]
        unsafe fn otherwise($($argument: $type),*) -> Status {
            // SAFETY: the arguments are the application's own, as the form's contract wants.
            let handler = |call: &dyn Fn() -> Status| match unsafe { $form($($argument),*) } {
                Some(request) => recorder::launch(call, request),
                None => gate::passing(call),
            };
            enter(outer_call!($name($($argument),*)), vendor_call!($name($($argument),*)), handler)
        }
        // SAFETY: as above.
        match counted::pass(unsafe { $form($($argument),*) }) {
            // SAFETY: the arguments are the application's own.
            Some(_pass) => unsafe { outermost!($name($($argument),*)) },
            // SAFETY: likewise.
            None => unsafe { otherwise($($argument),*) },
        }
    }};
    ($name:ident, ($($argument:ident: $type:ty),*), ($handler:path)) => {
        // SAFETY: the arguments are the application's own, as the handler's contract wants.
        enter(outer_call!($name($($argument),*)), vendor_call!($name($($argument),*)), |call| unsafe { $handler(call, $($argument),*) })
    };
}

/// What the application's call comes to: the vendor's function, or that of another tool before it.
macro_rules! outermost {
    ($name:ident($($argument:ident),*)) => {
        driver::hooked::$name::call_at(
            driver::hooked::$name::SLOT.outermost(const { driver::c_name(concat!(stringify!($name), "\0")) }), $($argument),*
        )
    };
}

macro_rules! outer_call {
    // SAFETY: the arguments are the application's own.
    ($name:ident($($argument:ident),*)) => { || unsafe { outermost!($name($($argument),*)) } };
}

macro_rules! vendor_call {
    // SAFETY: the arguments are the application's own.
    ($name:ident($($argument:ident),*)) => { || unsafe { driver::hooked::$name::call($($argument),*) } };
}

/// The row of [`TABLE`] for a function.
macro_rules! row {
    ({ $purpose:literal $tests:tt } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        Hook {
            name: driver::c_name(concat!(stringify!($name), "\0")),
            since: $since,
            purpose: $purpose,
            tests: &$tests,
            address: || $name as *const () as *mut std::ffi::c_void,
            real: &driver::hooked::$name::SLOT,
        }
    };
}

macro_rules! exported {
    ({ $handler:tt } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// As for the driver function of this name.
        #[allow(non_snake_case, clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            body!($name, ($($argument: $type),*), $handler)
        }
    };
}

/// Makes an exported function of each hook. `=> gated` only passes the gate; `=> [path]` is a launch in this form; `=>
/// (path)` calls a handler with the call itself (`&dyn Fn() -> Status`) and the arguments.
macro_rules! export {
    ($( $purpose:literal $tests:tt { $( $($name:ident),+ => $handler:tt; )* } )*) => {
        /// Every hooked function.
        pub static TABLE: &[Hook] = &[$($($( mneme_abi::$name! { row { $purpose $tests } }, )+)*)*];

        $($($( mneme_abi::$name! { exported { $handler } } )+)*)*
    };
}

every_hook!(export);
