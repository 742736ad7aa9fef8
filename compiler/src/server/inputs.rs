//! The inputs of a build: the plan, which is for all builds, and the configuration's own.

use mneme_builds::progress::BuildProgress;
use mneme_builds::{BuildPlan, BuildSpec, Replacement, Target};

use crate::preloaded::Preloaded;

/// The inputs that all builds share.
#[derive(Debug, Default)]
pub struct Inputs {
    pub plan: BuildPlan,
    /// The recorded bitcode, the kernel's own unit first.
    pub modules: Vec<Vec<u8>>,
    /// Code that replaces the recorded modules. A configuration may override it.
    pub replacement: Option<Replacement>,
}

/// The inputs of one build.
#[derive(Clone, Copy)]
pub struct Build<'a> {
    pub inputs: &'a Inputs,
    pub target: &'a Target,
    pub spec: &'a BuildSpec,
    /// The recorded modules, already read. Only for a configuration that prunes.
    pub preloaded: Option<&'a Preloaded>,
    /// How the assembler library ended an earlier builder of the same order. This one does without the library.
    pub lost: Option<&'a str>,
    /// Where to record the build's progress.
    pub progress: Option<&'a BuildProgress>,
}

impl<'a> Build<'a> {
    pub fn new(inputs: &'a Inputs, target: &'a Target, spec: &'a BuildSpec) -> Self {
        Self { inputs, target, spec, preloaded: None, lost: None, progress: None }
    }

    /// Code that replaces the recorded modules. The configuration's own overrides that for all builds.
    pub fn replacement(&self) -> Option<&'a Replacement> {
        self.spec.replacement.as_deref().or(self.inputs.replacement.as_ref())
    }

    /// Whether a build that fails reports the texts that it has produced.
    pub fn reports_texts(&self) -> bool {
        self.inputs.plan.texts || self.spec.keep_ir
    }
}
