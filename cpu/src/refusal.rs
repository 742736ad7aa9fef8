//! Functions that the CPU device lacks, each of which prints a sentence once and fails.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::status::{Status, StatusResult};

/// Reports the function once.
pub fn refuse(name: &str, reported: &AtomicBool) -> StatusResult {
    if !reported.swap(true, Ordering::Relaxed) {
        crate::report::say!("{name} is not supported");
    }
    Err(Status::NOT_SUPPORTED)
}

/// Exports functions that are refused, with any arguments: C callers pass them in registers and on their own stack, and
/// remove them themselves. `enter` converts the refusal to the function's result, a status unless another type is
/// given. A function without a result names its feature: `symbol: "what"`.
macro_rules! refused {
    ($enter:ident => $($symbol:ident),* $(,)?) => {
        $crate::refusal::refused! { $enter -> $crate::status::Status => $($symbol),* }
    };
    ($enter:ident -> $return:ty => $($symbol:ident),* $(,)?) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $symbol() -> $return {
                static TOLD: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
                $enter(|| $crate::refusal::refuse(stringify!($symbol), &TOLD))
            }
        )*
    };
    ($enter:ident => $($symbol:ident: $what:literal),* $(,)?) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $symbol() {
                static TOLD: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
                $enter(|| $crate::refusal::refuse($what, &TOLD));
            }
        )*
    };
}
pub(crate) use refused;
