//! Instrumented builds, whose code notes what it does to memory.
//!
//! What they are for, and what they say of themselves.

pub mod layout;

use mneme_model::observation::Site;
use serde::{Deserialize, Serialize};

/// What to instrument for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Instrument {
    /// Accesses that a kernel should not make, in the code as the front end wrote it.
    Faults,
    /// Who writes an address, in the code that the pipeline made.
    Writes,
    /// Which memory is read and which is written, in the code as the front end wrote it.
    Touched,
}

/// What the instrumentation says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Instrumented {
    /// The instrumented instructions, by number.
    pub sites: Vec<Site>,
    /// Accesses that are not watched, a sentence each.
    pub unwatched: Vec<String>,
    /// Static shared memory that is shadowed, bytes; dynamic shared memory follows it.
    pub shared_bytes: u64,
    /// Whether there is shared memory at all.
    pub has_shared: bool,
}
