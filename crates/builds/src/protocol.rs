//! The protocol between `mneme-build-NN` and whoever has started it.
//!
//! It runs over the socket that is the standard input of `mneme-build-NN`. Messages are those of
//! [`frame`](mneme_sandbox::frame). `mneme-build-NN` begins with a [`BuilderGreeting`]. It receives one [`Opening`]:
//! either a question, which it answers and ends, or a plan. On a plan follow any number of [`BuildOrder`]s, each with a
//! [`BuildReply`], in whatever order builds end; it ends with the stream.

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

/// What `mneme-build-NN` says of itself, or why there is none, which whoever starts it says in its place.
pub type Greeted = Result<BuilderGreeting, Refusal>;

/// The reason, in LLVM's words or Mneme's, why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{0}")]
pub struct Refusal(pub String);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuilderGreeting {
    /// Mneme's version: those of other versions are not understood.
    pub version: String,
    /// The source of that version, [`SOURCE`]; a builder that does not say so is of an older one.
    #[serde(default)]
    pub source: String,
    /// The version of LLVM, e.g. "19.1.7".
    pub llvm: String,
}

impl BuilderGreeting {
    /// That of a builder with this LLVM.
    pub fn of(llvm: String) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").into(), source: SOURCE.into(), llvm }
    }
}

/// A hash of the source of the packages that define what is sent: 16 hexadecimal digits.
pub const SOURCE: &str = env!("MNEME_SOURCE");

/// What it is for.
#[derive(Debug, Serialize, Deserialize)]
pub enum Opening {
    /// Builds; the blob is the code that they start from.
    Plan(Box<BuildPlan>, CodeParts),
    /// One question; the blob is modules of IR where it has some.
    Question(Question),
}

/// How a blob is cut into the code that builds start from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeParts {
    /// Bytes of the modules of recorded bitcode, the kernel's own unit first.
    pub modules: Vec<usize>,
    /// What the rest is, which takes the modules' place.
    pub replacement: Option<CodeKind>,
}

impl CodeParts {
    /// The blob and how it is cut.
    pub fn join(modules: &[Vec<u8>], replacement: Option<&Replacement>) -> (Self, Vec<u8>) {
        let rest = replacement.map_or(&[][..], Replacement::bytes);
        let blob = modules.iter().map(Vec::as_slice).chain([rest]).collect::<Vec<_>>().concat();
        let modules = modules.iter().map(Vec::len).collect();
        (Self { modules, replacement: replacement.map(Replacement::kind) }, blob)
    }

    /// The modules, and the code in their place.
    ///
    /// # Errors
    /// The blob is not what the parts say.
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

/// A query that only LLVM or the assembler can answer, in a process of its own.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// The interface of a kernel; answered by `Result<KernelInterface, Refusal>`.
    Interface { kernel: String, parts: CodeParts },
    /// One module of several; answered by `Result<(), Refusal>`, and the bitcode is the blob.
    Link { parts: CodeParts },
    /// The table of a module for the section `.mneme.ir`, as the compiler's command line describes it; answered by
    /// `Result<Table, Refusal>`.
    Describe { origin: UnitOrigin },
    /// A module with its kernels and variables under those of `names` that demangle to the same; answered by
    /// `Result<Vec<String>, Refusal>`, the kernels that have none, demangled, and the bitcode is the blob.
    Rename { names: Vec<String> },
    /// All kernels of a program as one object for the CPU device; answered by `Result<(), Refusal>`, and the object is
    /// the blob.
    CpuObject { parts: CodeParts, arch: String, compiled: Option<CompileOptions>, passes: Option<String> },
    /// Whether pipelines can be read, and what a kernel's IR does, before anything is built; without modules, pipelines
    /// alone. Answered by `Result<Examination, Refusal>`.
    Examine { kernel: String, parts: CodeParts, target: Target, passes: Vec<String> },
    /// What makes machine code for a target: name, version, and in which mode; answered by `String`.
    Maker { target: Target },
}

/// The facts that a kernel's recorded IR states of it: recordings of the existing Mneme hold the IR only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInterface {
    pub arguments: Vec<IrArgument>,
    /// Variables in constant memory, as the IR and as the loaded code names them.
    pub constants: Vec<String>,
    pub triple: String,
    /// "sm_90", or "" where the IR does not say.
    pub arch: String,
}

/// What the compiler command line says of a unit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UnitOrigin {
    pub arch: String,
    /// Compilation-unit id.
    pub unit: String,
    pub source: String,
    pub rdc: bool,
    pub compiled: Option<CompileOptions>,
    /// Sums of the images that it became.
    pub images: Vec<u64>,
}

/// A build that is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BuildOrder {
    pub number: u64,
    pub target: Target,
    pub spec: BuildSpec,
    pub limit: Duration,
}

/// The answer; the code object is the blob.
#[derive(Debug, Serialize, Deserialize)]
pub struct BuildReply {
    pub number: u64,
    /// `None` for an order that is to come again: it relied on another, which came to nothing.
    pub outcome: Option<Result<Built, NotBuilt>>,
    /// An assembler ran for it; else its code is that of an earlier build.
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
