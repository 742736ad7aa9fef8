//! The interfaces through which programs use devices: CUDA's driver and HIP's runtime.

use std::ffi::CStr;

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Cuda = 1,
    Hip = 2,
}

impl Family {
    /// The interface that a function belongs to.
    pub fn of_symbol(name: &CStr) -> Self {
        let name = name.to_bytes();
        let is_mangled = |text: &[u8]| text.starts_with(b"_Z") && text.windows(3).any(|part| part == b"hip");
        if name.starts_with(b"hip") || name.starts_with(b"__hip") || is_mangled(name) { Self::Hip } else { Self::Cuda }
    }

    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Hip => "HIP",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_interface() {
        for (name, family) in [
            (c"hipMalloc", Family::Hip),
            (c"__hipRegisterFunction", Family::Hip),
            (c"_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tj", Family::Hip),
            (c"cuMemAlloc_v2", Family::Cuda),
            (c"mneme_cpu_code", Family::Cuda),
        ] {
            assert_eq!(Family::of_symbol(name), family, "{name:?}");
        }
    }
}
