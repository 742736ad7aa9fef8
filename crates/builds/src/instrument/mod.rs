//! The kinds and descriptions of instrumented builds, whose code reports its accesses to memory.

pub mod layout;

use mneme_model::observation::Site;
use serde::{Deserialize, Serialize};

/// The purpose of the instrumentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Instrument {
    /// Invalid accesses of a kernel, in the front end's code.
    Faults,
    /// Writers of an address, in the pipeline's output.
    Writes,
    /// Memory that is read, and that is written, in the front end's code.
    Touched,
}

/// The description of an instrumented build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Instrumented {
    /// The instrumented instructions, by number.
    pub sites: Vec<Site>,
    /// Accesses that are not instrumented, a sentence each.
    pub unwatched: Vec<String>,
    /// Static shared memory with a shadow, bytes; dynamic shared memory follows it.
    pub shared_bytes: u64,
    /// Whether the kernel uses shared memory.
    pub has_shared: bool,
}
