//! The stand-in, loaded as a program loads HIP.

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
    /// `F` is the type of a pointer to the function.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: as the caller promises.
        unsafe { *self.library.get::<F>(name.as_bytes()).unwrap() }
    }
}

/// Calls a function, whose type is the one that is declared: `hip!(library, hipFree(address))`.
#[macro_export]
macro_rules! hip {
    ($hip:expr, $name:ident($($argument:expr),*)) => {{
        let hip: &$crate::library::Hip = $hip;
        // SAFETY: the type is the function's.
        let function: mneme_abi::hip::runtime::pointers::$name = unsafe { hip.function(stringify!($name)) };
        // SAFETY: the arguments are what the test is about, and the stand-in looks at them before it does anything.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "arguments are expressions of tests, and safe")]
        unsafe {
            function($($argument),*)
        }
    }};
}

/// The same, for a call that has to succeed.
#[macro_export]
macro_rules! done {
    ($hip:expr, $name:ident($($argument:expr),*)) => {
        assert_eq!($crate::hip!($hip, $name($($argument),*)), mneme_abi::hip::types::Status::SUCCESS, stringify!($name))
    };
}
