//! Tests of the compiler with real code: the kernels of the test applications, as clang, nvcc and hipcc make them.
//!
//! They are one program, because each links LLVM.

mod amdgpu;
mod apps;
mod fidelity;
mod fields;
mod hip;
mod lifting;
mod parameters;
mod specialise;
mod variables;
