//! The library of the end-to-end tests.
//!
//! It finds the programs under test, builds the applications of `tests/apps`, records them and replays the recordings.
//!
//! You can run the suite in a checkout, where it compiles the applications and takes the programs from cargo's release
//! folder. You can also run it on a machine with a GPU but without a compiler, where everything is precompiled:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `MNEME_TEST_DEVICE` | `cpu` (the default) or `cuda`: what is recorded and replayed on |
//! | `MNEME_TEST_CUDART` | `shared` (the default) or `static`: how the applications are linked to the CUDA runtime |
//! | `MNEME_TEST_APPS` | a folder of compiled applications; nothing is compiled then, and tests of the compiler are skipped |
//! | `MNEME_TEST_CLANG` | the clang that compiles the applications, clang++-19 without |
//! | `MNEME_TEST_HIP_CLANG` | the clang that compiles HIP programs, clang++-19 without |
//! | `MNEME_TEST_LLVM` | a version of LLVM besides 19 whose clang and builder have to be there; without, tests that need another skip |
//! | `MNEME_TEST_PLANTED` | how many generated faults `mneme-replay --check` and `mneme bisect` have to find; a few without |
//! | `MNEME_TEST_EVALUATIONS` | how many evaluations of the original are judged, and how many others are killed; a few without |
//! | `MNEME_TEST_NVCC` | `all` programs that nvcc compiles, `some` (the default) or `none` |
//! | `MNEME_HOME` | an installation of the programs under test, with `bin/` and `lib/` |

pub mod apps;
pub mod command;
pub mod damage;
pub mod differential;
pub mod failing;
pub mod hip;
// This reads x86-64 registers, and qemu-user does not support ptrace.
#[cfg(target_arch = "x86_64")]
pub mod injection;
pub mod installation;
pub mod planting;
pub mod platform;
pub mod recording;
