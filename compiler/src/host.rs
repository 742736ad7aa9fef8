//! The processor of this program and the CPU device, in LLVM's terms.

use inkwell::targets::{InitializationConfig, Target, TargetTriple};

/// LLVM's name for it.
#[cfg(target_arch = "aarch64")]
const TRIPLE: &str = "aarch64-unknown-linux-gnu";
#[cfg(target_arch = "x86_64")]
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Passes before code generation. For an AArch64 without compare-and-exchange instructions, LLVM's back end expands an
/// atomic operation on floats to a loop that ignores whether its store succeeded. This pass turns the operation into a
/// compare and exchange, for which code generation makes a correct loop.
#[cfg(target_arch = "aarch64")]
pub const BEFORE_CODE_GENERATION: Option<&str> = Some("function(atomic-expand)");
#[cfg(target_arch = "x86_64")]
pub const BEFORE_CODE_GENERATION: Option<&str> = None;

/// The triple of code for it.
pub fn triple() -> TargetTriple {
    TargetTriple::create(TRIPLE)
}

/// Registers LLVM's target for it.
pub fn initialise() {
    let everything = InitializationConfig::default();
    #[cfg(target_arch = "aarch64")]
    Target::initialize_aarch64(&everything);
    #[cfg(target_arch = "x86_64")]
    Target::initialize_x86(&everything);
}
