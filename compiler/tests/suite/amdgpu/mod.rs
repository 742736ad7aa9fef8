//! Tests that code objects for AMD GPUs describe kernels like clang's.
//!
//! HIP programs are compiled from source with the installed device libraries. The tests need clang 19 and Debian's
//! `rocm-device-libs` and `libamdhip64-dev`, or the ROCm in `MNEME_TEST_ROCM`.

mod clang;
mod fidelity;
mod instrumented;
mod specialise;
