//! What PTX instructions and NVVM's intrinsics have in common, as LLVM assembly.

pub mod arithmetic;
pub mod convert;
pub mod sreg;
pub mod text;
