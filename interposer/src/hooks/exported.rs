//! The exported functions, and their tables.

use std::ffi::c_int;

use mneme_abi::hip::types::*;

use super::{Hook, enter, proc_address};
use crate::driver::{self, STREAM_LEGACY, STREAM_PER_THREAD, captures, contexts, gate, hip, last_error};
use crate::kernels::function_settings::Setting;
use crate::kernels::kernel::CodeOwner;
use crate::kernels::request::LaunchArguments;
use crate::kernels::{loading, setting};
use crate::launches::forms::named;
use crate::launches::graphs::changes;
use crate::launches::{by_address, forms, graphs, refused, work_items};
use crate::lifetimes::{contexts as ends, green};
use crate::memory::bounds::{Touched, meant, touched_volumes};
use crate::memory::sharing::physical;
use crate::memory::{access, bounds, external, images, ipc, served, tracked};
use crate::process::family::Family;
use crate::recorder::{self, counted};
use crate::table::{every_hip_hook, every_hook};

macro_rules! body {
    ($family:ident, $name:ident, ($($argument:ident: $type:ty),*), gated) => {
        enter(Family::$family, outer_call!($name($($argument),*)), vendor_call!($name($($argument),*)), gate::passing)
    };
    ($family:ident, $name:ident, ($($argument:ident: $type:ty),*), {$($handler:tt)*}) => {
        enter(
            Family::$family,
            outer_call!($name($($argument),*)),
            vendor_call!($name($($argument),*)),
            // SAFETY: the arguments are the application's own, as the handler's contract requires.
            |call| unsafe { handled!(($($argument),*) [call,] $($handler)*) },
        )
    };
    ($family:ident, $name:ident, ($($argument:ident: $type:ty),*), [$($form:tt)*]) => {{
        // Separate, because it would slow the fast path down.
        #[cold]
        #[inline(never)]
        #[allow(clippy::too_many_arguments, reason = "the vendor's")]
        unsafe fn otherwise($($argument: $type),*) -> Status {
            // SAFETY: the arguments are the application's own, as the form's contract requires.
            let handler = |call: &dyn Fn() -> Status| match unsafe { handled!(($($argument),*) [] $($form)*) } {
                Some(request) => recorder::launch(call, request),
                None => gate::passing(call),
            };
            enter(
                Family::$family,
                outer_call!($name($($argument),*)),
                vendor_call!($name($($argument),*)),
                kept!($family handler),
            )
        }
        // SAFETY: as above.
        match counted::pass(unsafe { handled!(($($argument),*) [] $($form)*) }) {
            // SAFETY: the arguments are the application's own.
            Some(_pass) => unsafe { outermost!($name($($argument),*)) },
            // SAFETY: the arguments are the application's own.
            None => unsafe { otherwise($($argument),*) },
        }
    }};
    ($family:ident, $name:ident, ($($argument:ident: $type:ty),*), ($($handler:tt)*)) => {{
        // SAFETY: the arguments are the application's own, as the handler's contract requires.
        let handler = |call: &dyn Fn() -> Status| unsafe { handled!(($($argument),*) [call,] $($handler)*) };
        enter(
            Family::$family,
            outer_call!($name($($argument),*)),
            vendor_call!($name($($argument),*)),
            kept!($family handler),
        )
    }};
}

/// Calls a handler: with all arguments, or with those that a row of the table passes.
macro_rules! handled {
    (($($argument:ident),*) [$($call:tt)*] |$($own:tt),*| $($handler:ident)::+($($passed:expr),* $(,)?)) => {{
        let ($($own,)*) = ($($argument,)*);
        $($handler)::+($($call)* $($passed),*)
    }};
    (($($argument:ident),*) [$($call:tt)*] $handler:path) => { $handler($($call)* $($argument),*) };
}

/// Wraps a handler that makes further calls, to hide their effect on HIP's last error.
macro_rules! kept {
    (Cuda $handler:ident) => {
        $handler
    };
    (Hip $handler:ident) => {
        |call: &dyn Fn() -> Status| last_error::kept(call, $handler)
    };
}

/// The outermost function of a call: the vendor's, or that of another tool before it.
macro_rules! outermost {
    ($name:ident($($argument:ident),*)) => {
        driver::hooked::$name::call_at(
            driver::hooked::$name::SLOT.outermost(const { driver::c_name(concat!(stringify!($name), "\0")) }),
            $($argument),*
        )
    };
}

macro_rules! outer_call {
    // SAFETY: the arguments are the application's own.
    ($name:ident($($argument:ident),*)) => { || unsafe { outermost!($name($($argument),*)) } };
}

macro_rules! vendor_call {
    // SAFETY: the arguments are the application's own.
    ($name:ident($($argument:ident),*)) => { || unsafe {
        driver::hooked::$name::call_at(
            driver::hooked::$name::SLOT.get(const { driver::c_name(concat!(stringify!($name), "\0")) }), $($argument),*
        )
    } };
}

/// The row of a table for a function.
macro_rules! row {
    ({ $family:ident $purpose:literal $tests:tt } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        Hook {
            family: Family::$family,
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
    ({ $family:ident $handler:tt } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// As for the vendor's function of this name.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the vendor's")]
        #[allow(unused_unsafe, reason = "some handlers are safe")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> Status {
            body!($family, $name, ($($argument: $type),*), $handler)
        }
    };
}

/// Makes an exported function of each hook. `=> gated` only passes the gate. `=> [path]` is a launch in this form. `=>
/// (path)` calls a handler with the call itself (`&dyn Fn() -> Status`) and the arguments. `=> {path}` does the same
/// with a handler that makes no further calls. In each, `|names| path(arguments)` stands for a path whose function
/// takes other arguments: the names are those of the vendor's arguments, `_` for an unused one.
macro_rules! export {
    ($family:ident $table:ident $( $purpose:literal $tests:tt { $( $($name:ident),+ => $handler:tt; )* } )*) => {
        /// Every hooked function of an interface.
        pub static $table: &[Hook] = &[$($($( mneme_abi::$name! { row { $family $purpose $tests } }, )+)*)*];

        $($($( mneme_abi::$name! { exported { $family $handler } } )+)*)*
    };
}

macro_rules! export_cuda {
    ($($list:tt)*) => { export! { Cuda CUDA $($list)* } };
}

macro_rules! export_hip {
    ($($list:tt)*) => { export! { Hip HIP $($list)* } };
}

every_hook!(export_cuda);
every_hip_hook!(export_hip);
