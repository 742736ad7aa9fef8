//! Descriptions of builds and the protocol that mneme-replay and its builders share.
//!
//! It does not use LLVM. `mneme-replay` orders builds with it, and `mneme-build-NN`, a program of the compiler's crate,
//! performs them (see [`protocol`]).

// These macros panic if the reader is gone; use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod builder;
pub mod builders;
pub mod instrument;
pub mod nvrtc;
pub mod outcome;
pub mod plan;
pub mod probe;
pub mod progress;
pub mod protocol;
pub mod replacement;
pub mod source;
pub mod spec;
pub mod target;
pub mod texts;

pub use outcome::{BuildOutcome, Built, NotBuilt, Spills};
pub use plan::{BuildPlan, RecordedKernel};
pub use probe::{Probe, ProbeResult};
pub use protocol::Refusal;
pub use replacement::{CodeError, Replacement};
pub use spec::{BuildKey, BuildSpec};
pub use target::{ImageKind, Target};
pub use texts::{BuildText, BuildTexts, Keep};
