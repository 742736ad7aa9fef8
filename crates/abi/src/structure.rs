//! The macro for structures of the vendors' headers.

use std::alloc::Layout;

/// A declared structure: its name in the header, and the places of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure {
    /// The name in C, e.g. `CUDA_MEMCPY2D`.
    pub name: &'static str,
    /// Size and alignment; `None` for a declaration of the beginning of a structure.
    pub layout: Option<Layout>,
    /// Each field's name in the header, and its offset in bytes.
    pub fields: &'static [(&'static str, usize)],
}

/// Declares structures with C's layout: `Name = "C's name" { field: type = "C's name", }`, and `in` for the beginning
/// of a structure. A field with the same name in C omits it.
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

        /// All structures declared here.
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
