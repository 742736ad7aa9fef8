//! Builds that are looked into: with a part of their passes, of changed IR.

use serde::{Deserialize, Serialize};

use crate::progress::{Invocation, Stage};

/// What is special about a build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The last of the pipeline's numbered passes that runs; all where `None`.
    pub passes: Option<u64>,
    /// The same of code generation.
    pub codegen_passes: Option<u64>,
    /// Return the passes that ran.
    pub listed: bool,
    /// The pass of the pipeline around which the IR is returned.
    pub shown: Option<u64>,
    /// Return the IR that the pipeline starts from.
    pub before: bool,
    /// Return what stands behind the pipeline's name.
    pub expanded: bool,
    /// The last stage of the build, which then has no code and is not run.
    pub until: Option<Stage>,
    /// Whether multiplications and additions are fused, in place of what the recording says.
    pub fuses: Option<bool>,
    /// Changes to the IR that the pipeline starts from.
    pub revisions: Vec<Revision>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Passes of the pipeline, and of code generation, that ran and could have been left out.
    pub passes: Vec<Invocation>,
    pub codegen_passes: Vec<Invocation>,
    /// The module before and after the pass that was to be shown.
    pub shown: Option<(String, String)>,
    /// The pipeline with every pass and its parameters.
    pub pipeline: Option<String>,
    /// What there is in the IR after its last revision.
    pub inventory: Inventory,
}

/// A kind of parts that can be taken out of a module. Each kind is numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModulePart {
    /// What no computation needs: debug information and other metadata. Has no parts.
    Everything,
    /// Functions that the kernel calls, and their calls.
    Functions,
    /// Blocks that go on to others; they return in place of that.
    Ends,
    /// Branches: one for each successor that a branch may always go to.
    Branches,
    /// Instructions, replaced by zero.
    Values,
    /// Instructions, replaced by an operand of theirs.
    Chains,
    /// Arguments, replaced by zero; signatures stay.
    Arguments,
}

impl ModulePart {
    /// Those that have parts, in the order in which taking them out pays.
    pub const ALL: [Self; 6] =
        [Self::Functions, Self::Ends, Self::Branches, Self::Values, Self::Chains, Self::Arguments];
}

/// Change of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Revision {
    /// Takes out the parts from `from` up to, but without, `to`.
    Remove { part: ModulePart, from: u64, to: u64 },
    /// Local variables hold this byte until they are set.
    FillLocals(u8),
    /// Instructions that may break an assumption end the kernel where they do: those from `from` up to, but without,
    /// `to`. For arithmetic these are overflows, inexact quotients, shifts too far, division by zero, unreachable code and
    /// wrong `llvm.assume`; for fast-math flags, what is NaN or infinite in spite of them; for types and `noalias`, what a
    /// thread accesses that it has accessed otherwise.
    Trap { assumption: Assumption, from: u64, to: u64 },
    /// Takes away what passes may assume of the kernel.
    Forget(Assumption),
}

/// What the IR lets passes assume of a kernel, because its language promises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assumption {
    /// Objects of different types do not overlap (TBAA).
    Types,
    /// Pointers that are declared so lead to different objects (`noalias`).
    NoAlias,
    /// Signed integers do not overflow, quotients are exact, addresses stay inside of their object (`nsw`, `nuw`,
    /// `exact`, `inbounds`), shifts go less far than a number is wide, and what `llvm.assume` says holds.
    Arithmetic,
    /// The liberties of fast-math flags.
    FastMath,
}

/// What there is in a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    pub instructions: u64,
    /// Parts by kind, as in [`ModulePart::ALL`].
    pub parts: [u64; 6],
    /// Instructions that [`Revision::Trap`] knows, in words.
    pub checked: Vec<String>,
}
