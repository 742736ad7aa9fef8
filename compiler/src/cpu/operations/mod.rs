//! Operations shared by PTX instructions and NVVM's intrinsics, as LLVM assembly.

pub mod arithmetic;
pub mod bits;
pub mod convert;
pub mod sreg;
pub mod text;
