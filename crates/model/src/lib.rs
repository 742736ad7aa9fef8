//! The data that Mneme's programs exchange with each other and with users.
//!
//! Configurations, launches, results, observations, tolerances and device limits are plain data, and [`protocol`]
//! defines the messages between `mneme-replay serve` and its clients. All types here are serialised as JSON or shown to
//! people.

// These macros panic if the reader is gone; use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod amd_hardware;
pub mod architecture;
pub mod checked_text;
pub mod compile_options;
pub mod configuration;
pub mod device;
pub mod evaluation;
pub mod fresh;
pub mod hash;
pub mod images;
pub mod launch;
pub mod llvm_version;
pub mod observation;
pub mod protocol;
pub mod result;
pub mod summary;
pub mod text;
pub mod tolerance;
pub mod units;
