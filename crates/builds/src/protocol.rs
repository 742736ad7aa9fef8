//! The protocol between `mneme-build-NN` and the process that started it.
//!
//! Messages are [`frame`](mneme_sandbox::frame)s over a socket, which is the standard input of `mneme-build-NN`. The
//! builder sends a [`BuilderGreeting`] and receives one [`Opening`]: either a question, which it answers before it
//! exits, or a plan. Any number of [`BuildOrder`]s follow a plan. The builder sends a [`BuildReply`] for each, in the
//! order in which builds end, and exits at the end of the stream.

use std::time::Duration;

use mneme_image::ir_section::IrArgument;
use mneme_model::compile_options::CompileOptions;
use mneme_recording::CodeKind;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::outcome::{Built, NotBuilt};
use crate::plan::BuildPlan;
use crate::replacement::{CodeError, Replacement};
use crate::spec::BuildSpec;
use crate::target::Target;

/// The builder's description of itself, or the error of a failed start, which the starting process fills in.
pub type Greeted = Result<BuilderGreeting, Refusal>;

/// The reason for a missing answer, in LLVM's or Mneme's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{0}")]
pub struct Refusal(pub String);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuilderGreeting {
    /// Mneme's version; other versions are incompatible.
    pub version: String,
    /// The source of that version, [`SOURCE`]; missing in greetings of older builders.
    #[serde(default)]
    pub source: String,
    /// The version of LLVM, e.g. "19.1.7".
    pub llvm: String,
}

impl BuilderGreeting {
    /// The greeting of a builder with this LLVM.
    pub fn of(llvm: String) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").into(), source: SOURCE.into(), llvm }
    }
}

/// A hash of the source of the packages that define the messages: 16 hexadecimal digits.
pub const SOURCE: &str = env!("MNEME_SOURCE");

/// The purpose of the process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Opening {
    /// Builds; the blob is their input code.
    Plan(Box<BuildPlan>, CodeParts),
    /// One question; the blob is modules of IR, if any.
    Question(Question),
}

/// The parts of a blob with the input code of builds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeParts {
    /// Bytes of the modules of recorded bitcode, the kernel's own unit first.
    pub modules: Vec<usize>,
    /// The kind of the remaining bytes, which replace the modules.
    pub replacement: Option<CodeKind>,
}

impl CodeParts {
    /// Joins the code into a blob, and describes its parts.
    pub fn join(modules: &[Vec<u8>], replacement: Option<&Replacement>) -> (Self, Vec<u8>) {
        let rest = replacement.map_or(&[][..], Replacement::bytes);
        let blob = modules.iter().map(Vec::as_slice).chain([rest]).collect::<Vec<_>>().concat();
        let modules = modules.iter().map(Vec::len).collect();
        (Self { modules, replacement: replacement.map(Replacement::kind) }, blob)
    }

    /// Returns the modules, and the code that replaces them.
    ///
    /// # Errors
    /// The blob does not match the parts.
    pub fn cut(&self, blob: &[u8]) -> Result<(Vec<Vec<u8>>, Option<Replacement>), CodeError> {
        let mut rest = blob;
        let mut modules = Vec::with_capacity(self.modules.len());
        for size in &self.modules {
            let (module, others) = rest.split_at_checked(*size).ok_or(CodeError::CutOff)?;
            modules.push(module.to_vec());
            rest = others;
        }
        let replacement = self.replacement.map(|kind| Replacement::of(kind, rest.to_vec())).transpose()?;
        Ok((modules, replacement))
    }
}

/// A query that only LLVM or the assembler can answer, in a separate process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// The interface of a kernel; answered by `Result<KernelInterface, Refusal>`.
    Interface { kernel: String, parts: CodeParts },
    /// Links several modules into one; answered by `Result<(), Refusal>`, with the bitcode as the blob.
    Link { parts: CodeParts },
    /// Makes the table of a module for the section `.mneme.ir`, according to the compiler's command line; answered by
    /// `Result<Table, Refusal>`.
    Describe { origin: UnitOrigin },
    /// Renames a module's kernels and variables to those of `names` that demangle to the same text; answered by
    /// `Result<Vec<String>, Refusal>` with the demangled kernels that have no match, and with the bitcode as the blob.
    Rename { names: Vec<String> },
    /// Compiles all kernels of a program to one object for the CPU device; answered by `Result<(), Refusal>`, with the
    /// object as the blob.
    CpuObject { parts: CodeParts, arch: String, compiled: Option<CompileOptions>, passes: Option<String> },
    /// Checks pipelines and examines a kernel's IR before any build; without modules, checks pipelines only. Answered
    /// by `Result<Examination, Refusal>`.
    Examine { kernel: String, parts: CodeParts, target: Target, passes: Vec<String> },
    /// The name, version and mode of the tool that makes machine code for a target; answered by `String`.
    Maker { target: Target },
}

/// The facts about a kernel that its recorded IR contains: recordings of the existing Mneme hold the IR only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInterface {
    pub arguments: Vec<IrArgument>,
    /// Variables in constant memory, by their names in the IR and in the loaded code.
    pub constants: Vec<String>,
    pub triple: String,
    /// "sm_90", or "" if the IR does not name it.
    pub arch: String,
}

/// The facts about a unit on the compiler's command line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UnitOrigin {
    pub arch: String,
    /// Compilation-unit id.
    pub unit: String,
    pub source: String,
    pub rdc: bool,
    pub compiled: Option<CompileOptions>,
    /// Sums of the unit's images.
    pub images: Vec<u64>,
}

/// A request for a build.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BuildOrder {
    pub number: u64,
    pub target: Target,
    pub spec: BuildSpec,
    pub limit: Duration,
}

/// The reply to an order; the code object is the blob.
#[derive(Debug, Serialize, Deserialize)]
pub struct BuildReply {
    pub number: u64,
    /// `None` if the order must be sent again: it relied on another build, which failed.
    pub outcome: Option<Result<Built, NotBuilt>>,
    /// An assembler ran for this build; otherwise its code is that of an earlier build.
    pub assembled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_cut_as_it_was_joined() {
        let modules = [b"one".to_vec(), Vec::new(), b"three".to_vec()];
        let ptx = Replacement::Ptx("text".into());
        for replacement in [None, Some(ptx)] {
            let (parts, blob) = CodeParts::join(&modules, replacement.as_ref());
            assert_eq!(parts.cut(&blob), Ok((modules.to_vec(), replacement)));
            assert!(parts.cut(&blob[..7]).is_err());
        }
    }
}
