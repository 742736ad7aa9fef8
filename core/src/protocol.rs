//! The JSON-lines protocol of `mneme-replay serve`: one message a line, requests on standard input, replies on standard output.
//!
//! The server greets with [`Reply::Hello`]. A client submits configurations under ids of its own and gets one
//! [`Reply::Result`] for each, in order of completion. End of input means: finish what was submitted, then exit.

use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::launch::Dim3;
use crate::result::ReplayResult;

/// Raised when a message changes its meaning; a client refuses a greater one.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Request {
    /// Replay one configuration.
    Submit {
        id: u64,
        config: Configuration,
        /// Measured runs.
        iterations: u32,
        /// Runs before them.
        warmup: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Reply {
    /// First line of the server: the recording is loaded and the device works.
    Hello { protocol: u32, kernel: String, grid: Dim3, block: Dim3, shared_mem: u32, device: String, driver: String },
    /// The outcome of the configuration submitted as `id`.
    Result { id: u64, result: Box<ReplayResult> },
    /// The server cannot go on; it exits with `status` (see [`crate::exit`]).
    Fatal { status: i32, error: String },
}
