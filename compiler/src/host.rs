//! The processor that this program and the CPU device run on, as LLVM has it.

use inkwell::targets::{InitializationConfig, Target, TargetTriple};

/// LLVM's name for it.
#[cfg(target_arch = "aarch64")]
const TRIPLE: &str = "aarch64-unknown-linux-gnu";
#[cfg(target_arch = "x86_64")]
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Passes that go before its code generation. The loop that LLVM makes of a float's atomic operation, for an AArch64
/// without an instruction for compare and exchange, does not look whether its store has succeeded. The pass makes a
/// compare and exchange of the operation, and code generation a right loop of that.
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
