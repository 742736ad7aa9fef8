//! Operations that PTX instructions and NVVM's intrinsics share, as LLVM assembly.

pub mod arithmetic;
pub mod bits;
pub mod convert;
pub mod sreg;
pub mod text;
