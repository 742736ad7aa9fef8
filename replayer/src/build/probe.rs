//! Builds that are looked into: with a part of their passes, of changed IR.

use mneme_compiler::pipeline::revise::{Inventory, Revision};
use mneme_compiler::pipeline::{CodegenInvocations, Invocation, Invocations};
use mneme_compiler::progress::Stage;
use serde::{Deserialize, Serialize};

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

impl Probe {
    /// What observes the pipeline and code generation.
    pub fn observers(&self) -> (Invocations, CodegenInvocations) {
        let passes = Invocations { limit: self.passes, shown: self.shown, ..Invocations::default() };
        (passes, CodegenInvocations::limited(self.codegen_passes))
    }

    pub fn looked(
        &self,
        passes: Invocations,
        codegen: CodegenInvocations,
        pipeline: Option<String>,
        inventory: Inventory,
    ) -> ProbeResult {
        let (ran, codegen_passes) = if self.listed { (passes.ran, codegen.ran) } else { Default::default() };
        ProbeResult { passes: ran, codegen_passes, shown: passes.before.zip(passes.after), pipeline, inventory }
    }
}
