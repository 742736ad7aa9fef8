//! The macro that structures of the vendors' headers are written in.

use std::alloc::Layout;

/// A declared structure: the header's name for it, and where its fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure {
    /// As C has it, e.g. `CUDA_MEMCPY2D`.
    pub name: &'static str,
    /// Its size and alignment; `None` for what is a part of the structure.
    pub layout: Option<Layout>,
    /// Each field by the header's name for it, and its offset in bytes.
    pub fields: &'static [(&'static str, usize)],
}

/// Declares structures laid out as in C: `Name = "C's name" { field: type = "C's name", }`, and `in` for a part of one
/// from its beginning on. Behind a field that has C's name no other one is written.
macro_rules! structures {
    ($($(#[$attribute:meta])* $name:ident $whole:tt $c_name:literal {
        $($(#[$field_attribute:meta])* $field:ident: $type:ty $(= $c_field:literal)?,)*
    })*) => {
        $(
            $(#[$attribute])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            #[allow(non_snake_case, reason = "where fields are named as in the header")]
            pub struct $name {
                $($(#[$field_attribute])* pub $field: $type,)*
            }
        )*

        /// Every structure that is declared here.
        pub static STRUCTURES: &[$crate::structure::Structure] = &[$(
            $crate::structure::Structure {
                name: $c_name,
                layout: structures! { @layout $whole $name },
                fields: &[$((structures! { @name $field $($c_field)? }, std::mem::offset_of!($name, $field)),)*],
            },
        )*];
    };
    (@layout = $name:ident) => { Some(std::alloc::Layout::new::<$name>()) };
    (@layout in $name:ident) => { None };
    (@name $field:ident $c_field:literal) => { $c_field };
    (@name $field:ident) => { stringify!($field) };
}
pub(crate) use structures;
