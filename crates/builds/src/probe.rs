//! Builds for inspection: with a part of their passes, or of modified IR.

use serde::{Deserialize, Serialize};

use crate::progress::{Invocation, Stage};

/// The special settings of a build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The last of the pipeline's numbered passes to run; `None` for all.
    pub passes: Option<u64>,
    /// The same for code generation.
    pub codegen_passes: Option<u64>,
    /// Return the passes that ran.
    pub listed: bool,
    /// The pass of the pipeline around which the IR is returned.
    pub shown: Option<u64>,
    /// Return the IR that the pipeline starts from.
    pub before: bool,
    /// Return the expanded pipeline.
    pub expanded: bool,
    /// The last stage of the build, which then produces no code to run.
    pub until: Option<Stage>,
    /// Whether to fuse multiplications and additions, overriding the recording.
    pub fuses: Option<bool>,
    /// Changes to the IR that the pipeline starts from.
    pub revisions: Vec<Revision>,
}

/// The results of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Passes of the pipeline, and of code generation, that ran and were optional.
    pub passes: Vec<Invocation>,
    pub codegen_passes: Vec<Invocation>,
    /// The module before and after the requested pass.
    pub shown: Option<(String, String)>,
    /// The pipeline with every pass and its parameters.
    pub pipeline: Option<String>,
    /// The contents of the IR after its last revision.
    pub inventory: Inventory,
}

/// A kind of removable part of a module. Parts of each kind are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModulePart {
    /// Everything irrelevant to computation: debug information and other metadata. This kind has no parts.
    Everything,
    /// Functions that the kernel calls, and their calls.
    Functions,
    /// Blocks that branch to others; they return instead.
    Ends,
    /// Branches: one part for each successor, which the branch then always takes.
    Branches,
    /// Instructions, replaced by zero.
    Values,
    /// Instructions, replaced by one of their operands.
    Chains,
    /// Arguments, replaced by zero; signatures do not change.
    Arguments,
}

impl ModulePart {
    /// The kinds that have parts, in the order in which removal is most effective.
    pub const ALL: [Self; 6] =
        [Self::Functions, Self::Ends, Self::Branches, Self::Values, Self::Chains, Self::Arguments];
}

/// A change to a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Revision {
    /// Removes the parts in the range `from..to`.
    Remove { part: ModulePart, from: u64, to: u64 },
    /// Fills local variables with this byte until they are set.
    FillLocals(u8),
    /// Ends the kernel at an instruction that breaks an assumption, for the checked instructions in the range
    /// `from..to`. For arithmetic these are overflows, inexact quotients, excessive shifts, division by zero,
    /// unreachable code and wrong `llvm.assume`; for fast-math flags, NaN or infinite values despite the flags; for
    /// types and `noalias`, accesses to memory that the thread has accessed in another way.
    Trap { assumption: Assumption, from: u64, to: u64 },
    /// Removes an assumption about the kernel.
    Forget(Assumption),
}

/// An assumption that the IR lets passes make about a kernel, because its language promises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assumption {
    /// Objects of different types do not overlap (TBAA).
    Types,
    /// Pointers declared as `noalias` lead to different objects.
    NoAlias,
    /// Signed integers do not overflow, quotients are exact, addresses stay inside their objects (`nsw`, `nuw`,
    /// `exact`, `inbounds`), shifts are smaller than the number's width, and the conditions of `llvm.assume` hold.
    Arithmetic,
    /// The freedoms of fast-math flags.
    FastMath,
}

/// The contents of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    pub instructions: u64,
    /// Parts by kind, as in [`ModulePart::ALL`].
    pub parts: [u64; 6],
    /// Instructions that [`Revision::Trap`] can check, in words.
    pub checked: Vec<String>,
}
