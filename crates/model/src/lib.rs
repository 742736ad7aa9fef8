//! The words in which the programs of Mneme talk to each other and to their users.
//!
//! Configurations, launches, results, observations, tolerances and the limits of devices are plain data, and
//! [`protocol`] is what `mneme-replay serve` and its clients send. Everything here is read and written as JSON or shown
//! to people.

// They panic if nobody reads; `mneme_system::console` has functions that do not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod amd_hardware;
pub mod architecture;
pub mod checked_text;
pub mod compile_options;
pub mod configuration;
pub mod device;
pub mod fresh;
pub mod hash;
pub mod launch;
pub mod llvm_version;
pub mod observation;
pub mod protocol;
pub mod result;
pub mod summary;
pub mod text;
pub mod tolerance;
pub mod units;
