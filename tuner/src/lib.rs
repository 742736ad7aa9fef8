//! `mneme-tune` searches for the configuration that makes a recorded kernel fastest.
//!
//! The tuner itself neither compiles nor runs kernels. A `mneme-replay serve` child process ([`server`]) replays them,
//! so a candidate cannot damage the session that judges it.

// `print!` panics if standard output is closed. Use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod archive;
pub mod bridge;
pub mod cache;
pub mod candidate;
pub mod confirm;
pub mod document;
pub mod early_stop;
pub mod evaluate;
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
