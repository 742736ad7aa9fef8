//! Tests of the compiler with the kernels of the test applications.
//!
//! They are one program, because each would link LLVM.

mod amdgpu;
mod apps;
mod fidelity;
mod fields;
mod lifting;
mod parameters;
mod specialise;
mod variables;
