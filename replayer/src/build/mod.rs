//! Builds of configurations, each in a process of its own.
//!
//! A crash in LLVM is then that configuration's result.
//!
//! They are made by the programs `mneme-build-NN`, which have LLVM; this one has none. What a build is, is in the crate
//! `mneme_builds`.

pub mod fork_server;
pub mod replacement;
