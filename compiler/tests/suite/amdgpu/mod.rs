//! Tests of code objects for AMD's GPUs: what they say of kernels is what clang's say.
//!
//! HIP programs are compiled from source with the installed device libraries; they need clang 19 and Debian's
//! `rocm-device-libs` and `libamdhip64-dev`, or the ROCm that `MNEME_TEST_ROCM` names.

mod clang;
mod fidelity;
mod instrumented;
mod specialise;
