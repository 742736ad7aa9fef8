//! Builds of configurations, each in a separate process.
//!
//! A crash in LLVM is therefore that configuration's result.
//!
//! The programs `mneme-build-NN`, which contain LLVM, make the builds; this program has no LLVM. The crate
//! `mneme_builds` defines the data of a build.

pub mod fork_server;
pub mod replacement;
