//! Errors of a build.

use std::fmt::Display;

use mneme_model::configuration::ConfigurationError;
use thiserror::Error;

use crate::llvm::{LlvmError, OptionError};

/// Why a build failed. Each message is one sentence for the user.
#[derive(Debug, Error)]
pub enum BuildError {
    #[error("the {code} has no kernel named {kernel}{}", others(found))]
    NoKernel { code: &'static str, kernel: String, found: Vec<String> },
    #[error("the IR cannot be read: {message}")]
    Bitcode { message: String },
    #[error(
        "the IR was written by LLVM {found}, newer than the LLVM {supported} of this build; compile the program with clang {supported} or older"
    )]
    NewerBitcode { found: String, supported: String },
    #[error("the IR modules cannot be linked: {message}")]
    Link { message: String },
    /// LLVM's message about an invalid pipeline, with a suggested name.
    #[error("LLVM cannot read the pipeline '{pipeline}': {message}")]
    NoPipeline { pipeline: String, message: String },
    /// LLVM's message about the pass pipeline.
    #[error("the pass pipeline '{pipeline}' failed: {message}")]
    Pipeline { pipeline: String, message: String },
    #[error("the pass pipeline failed in {program}: {message}")]
    External { program: String, message: String },
    #[error("LLVM refused llvm_options: {0}")]
    Options(#[from] OptionError),
    /// No build could have it.
    #[error("the configuration cannot be built: {0}")]
    Impossible(#[from] ConfigurationError),
    #[error("the configuration cannot be built: {message}")]
    Configuration { message: String },
    #[error("the configuration cannot be built: {0}")]
    Revision(#[from] RevisionError),
    /// The configuration has a field that needs IR.
    #[error(
        "the kernel's code is {code}, and {field} needs LLVM IR; build the program with mneme-cc to record its IR, or leave {field} out"
    )]
    NeedsIr { code: &'static str, field: &'static str },
    /// The PTX cannot be lifted to IR, which `field` needs.
    #[error(
        "the kernel's PTX cannot be lifted to LLVM IR, which {field} needs: {message}; build the program with mneme-cc to record its IR, or leave {field} out"
    )]
    Lift { field: &'static str, message: String },
    #[error("the kernel {kernel} takes other arguments than the recorded one: {difference}")]
    Signature { kernel: String, difference: String },
    #[error("LLVM produced no code for {target}: {message}")]
    Codegen { target: String, message: String },
    #[error("the kernel cannot be instrumented (a defect of Mneme): {message}")]
    Instrument { message: String },
    #[error("the kernel's code cannot be linked: {message}")]
    LinkCode { message: String },
    #[error("{assembler} rejected the PTX: {message}")]
    Assemble { assembler: String, message: String },
    #[error("the kernel cannot run on the CPU device: {0}")]
    Cpu(#[from] LowerError),
}

/// Why a kernel's IR is not changed.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    #[error(transparent)]
    Refused(#[from] LlvmError),
    #[error("the reduced IR is not valid: {0}")]
    Invalid(String),
}

/// Why a module cannot be lowered to the CPU device.
#[derive(Debug, Error)]
pub enum LowerError {
    #[error("LLVM produced no code for the CPU: {0}")]
    Codegen(String),
    #[error("the CPU device's runtime does not fit the module (a defect of Mneme): {0}")]
    Runtime(String),
    #[error("the module is not valid after lowering to the CPU (a defect of Mneme): {0}")]
    Invalid(String),
    #[error("the table of the CPU code object cannot be written: {0}")]
    Table(String),
}

fn others(found: &[String]) -> String {
    const SHOWN: usize = 8;
    match found.len() {
        0 => String::new(),
        count if count <= SHOWN => format!("; it has {}", found.join(", ")),
        count => format!("; it has {} and {} others", found[..SHOWN].join(", "), count - SHOWN),
    }
}

impl BuildError {
    /// The error for PTX that cannot be lifted.
    pub fn lift(field: &'static str, reason: impl Display) -> Self {
        Self::Lift { field, message: reason.to_string() }
    }

    /// Whether the request is at fault (an impossible configuration), not its compilation.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Impossible(_)
                | Self::Configuration { .. }
                | Self::Revision(_)
                | Self::NeedsIr { .. }
                | Self::Lift { .. }
        )
    }
}
