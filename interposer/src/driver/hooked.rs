//! Typed calls of the hooked vendor functions, for the recorder itself.

use mneme_abi::hip::types::*;

use super::function;
use crate::table::{every_hip_hook, every_hook};

macro_rules! typed_calls {
    ($( $purpose:literal $tests:tt { $( $($name:ident),+ => $handler:tt; )* } )*) => {
        $($($( mneme_abi::$name! { function {} } )+)*)*
    };
}

every_hook!(typed_calls);
every_hip_hook!(typed_calls);
