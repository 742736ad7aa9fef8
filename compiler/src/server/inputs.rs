//! The inputs of a build.
//!
//! They are the plan, which has what the recording and the command line say for all builds, and the configuration's
//! own.

use mneme_builds::progress::BuildProgress;
use mneme_builds::{BuildPlan, BuildSpec, Replacement, Target};

use crate::preloaded::Preloaded;

/// What all builds have in common.
#[derive(Debug, Default)]
pub struct Inputs {
    pub plan: BuildPlan,
    /// The recorded bitcode, the kernel's own unit first.
    pub modules: Vec<Vec<u8>>,
    /// Code in the recorded modules' place, which a configuration may have other code for.
    pub replacement: Option<Replacement>,
}

/// What to compile.
#[derive(Clone, Copy)]
pub struct Build<'a> {
    pub inputs: &'a Inputs,
    pub target: &'a Target,
    pub spec: &'a BuildSpec,
    /// The recorded modules, read already; only for a configuration that prunes.
    pub preloaded: Option<&'a Preloaded>,
    /// How another builder of the same was ended by the assembler that is a library; this one does without it.
    pub lost: Option<&'a str>,
    /// Where to note what the build is at.
    pub progress: Option<&'a BuildProgress>,
}

impl<'a> Build<'a> {
    pub fn new(inputs: &'a Inputs, target: &'a Target, spec: &'a BuildSpec) -> Self {
        Self { inputs, target, spec, preloaded: None, lost: None, progress: None }
    }

    /// Code in the recorded modules' place: what comes with the configuration is nearer than what was given for all.
    pub fn replacement(&self) -> Option<&'a Replacement> {
        self.spec.replacement.as_deref().or(self.inputs.replacement.as_ref())
    }

    /// Whether a build that fails reports the texts that it had come to.
    pub fn reports_texts(&self) -> bool {
        self.inputs.plan.texts || self.spec.keep_ir
    }
}
