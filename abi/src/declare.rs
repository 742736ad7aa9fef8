//! The macro that declarations of functions are written in.

/// Declares functions; the parentheses hold a `$`, which macros that are made by macros need.
macro_rules! declare {
    (($d:tt) $($since:literal $name:ident $arguments:tt $(, $form_since:literal $form:ident)?;)*) => {
        $(
            declare! { @one ($d) $since $name $arguments }
            $(declare! { @one ($d) $form_since $form $arguments })?
        )*

        /// Every declared function.
        pub static FUNCTIONS: &[$crate::Function] = &[$(
            declare! { @row $since $name $arguments },
            $(declare! { @row $form_since $form $arguments },)?
        )*];

        /// The type of each function.
        #[allow(non_camel_case_types, reason = "named like the functions")]
        pub mod pointers {
            use super::*;
            $(
                declare! { @pointer $name $arguments }
                $(declare! { @pointer $form $arguments })?
            )*
        }
    };
    (@one ($d:tt) $since:literal $name:ident ($($argument:ident: $type:ty),* $(,)?)) => {
        #[macro_export]
        #[doc(hidden)]
        macro_rules! $name {
            ($d callback:ident $d extra:tt) => { $d callback! { $d extra $since $name($($argument: $type),*) } };
        }
    };
    (@row $since:literal $name:ident ($($argument:ident: $type:ty),* $(,)?)) => {
        $crate::Function { name: stringify!($name), since: $since, arguments: &[$((stringify!($argument), stringify!($type))),*] }
    };
    (@pointer $name:ident ($($argument:ident: $type:ty),* $(,)?)) => {
        pub type $name = unsafe extern "C" fn($($type),*) -> Status;
    };
}
pub(crate) use declare;
