//! `mneme-tune` searches for the configuration under which a recorded kernel is fastest.
//!
//! Neither compiles nor runs anything itself: kernels are replayed by a `mneme-replay serve` child process
//! ([`server`]), so that nothing a candidate does can damage the session that judges it.

// They panic where nobody reads; `mneme_core::console` has what does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod archive;
pub mod bridge;
pub mod cache;
pub mod confirm;
pub mod document;
pub mod early_stop;
pub mod evaluator;
pub mod export;
pub mod expression;
pub mod failure;
pub mod interrupt;
pub mod kept;
pub mod live;
pub mod measured;
pub mod metric;
pub mod objective;
pub mod options;
pub mod report;
pub mod results;
pub mod sampler;
pub mod search;
pub mod sequential;
pub mod server;
pub mod session;
pub mod simulate;
pub mod space;
pub mod statistics;
pub mod tune;
pub mod winner;
