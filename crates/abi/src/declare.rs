//! The macro for declarations of functions.

/// Declares functions; the parentheses hold a `$`, needed by macros that define macros. A function returns a status
/// unless it specifies another type (`-> type`).
macro_rules! declare {
    (($d:tt) $($since:literal $name:ident $arguments:tt $(-> $return:ty)? $(, $form_since:literal $form:ident)?;)*) => {
        $(
            declare! { @one ($d) $since $name $arguments $(-> $return)? }
            $(declare! { @one ($d) $form_since $form $arguments })?
        )*

        /// Every declared function.
        pub static FUNCTIONS: &[$crate::VendorFunction] = &[$(
            declare! { @row $since $name $arguments $(-> $return)? },
            $(declare! { @row $form_since $form $arguments },)?
        )*];

        /// The type of each function.
        #[allow(non_camel_case_types, reason = "named like the functions")]
        pub mod pointers {
            use super::*;
            $(
                declare! { @pointer $name $arguments $(-> $return)? }
                $(declare! { @pointer $form $arguments })?
            )*
        }

        // A form returns the same type as its function.
        $($(const _: fn(pointers::$form) -> pointers::$name = |form| form;)?)*
    };
    (@one ($d:tt) $since:literal $name:ident ($($argument:ident: $type:ty),* $(,)?) $(-> $return:ty)?) => {
        #[macro_export]
        #[doc(hidden)]
        macro_rules! $name {
            ($d callback:ident $d extra:tt) => {
                $d callback! { $d extra $since $name($($argument: $type),*) $(-> $return)? }
            };
        }
    };
    (@row $since:literal $name:ident ($($argument:ident: $type:ty),* $(,)?) $(-> $return:ty)?) => {
        $crate::VendorFunction {
            name: stringify!($name),
            since: $since,
            arguments: &[$((stringify!($argument), stringify!($type))),*],
            returns: declare! { @text $(-> $return)? },
        }
    };
    (@text -> $return:ty) => { stringify!($return) };
    (@text) => { "Status" };
    (@pointer $name:ident ($($argument:ident: $type:ty),* $(,)?) -> $return:ty) => {
        pub type $name = unsafe extern "C" fn($($type),*) -> $return;
    };
    (@pointer $name:ident $arguments:tt) => {
        declare! { @pointer $name $arguments -> Status }
    };
}
pub(crate) use declare;
