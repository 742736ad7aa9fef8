//! The stand-in, loaded in the same way as a program loads HIP.

use std::path::PathBuf;

use libloading::Library;

pub struct Hip {
    library: Library,
}

impl Hip {
    pub fn path() -> PathBuf {
        let here = std::env::current_exe().unwrap();
        here.parent().unwrap().join("libmneme_stand_in.so")
    }

    pub fn load() -> Self {
        // SAFETY: the library is ours.
        Self { library: unsafe { Library::new(Self::path()) }.unwrap() }
    }

    /// # Safety
    /// `F` must be the function's pointer type.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller guarantees the type.
        unsafe { *self.library.get::<F>(name.as_bytes()).unwrap() }
    }
}

/// Calls a function with its declared type: `hip!(library, hipFree(address))`.
#[macro_export]
macro_rules! hip {
    ($hip:expr, $name:ident($($argument:expr),*)) => {{
        let hip: &$crate::library::Hip = $hip;
        // SAFETY: the type is the function's.
        let function: mneme_abi::hip::runtime::pointers::$name = unsafe { hip.function(stringify!($name)) };
        // SAFETY: the test is about these arguments, and the stand-in checks them before any effect.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "arguments are expressions of tests, and safe")]
        unsafe {
            function($($argument),*)
        }
    }};
}

/// The same for a call that must succeed.
#[macro_export]
macro_rules! done {
    ($hip:expr, $name:ident($($argument:expr),*)) => {
        assert_eq!($crate::hip!($hip, $name($($argument),*)), mneme_abi::hip::types::Status::SUCCESS, stringify!($name))
    };
}
