//! The inputs of a build.
//!
//! They are the recording, what the command line gives for all builds, and the configuration's own.

use mneme_compiler::pipeline::External;
use mneme_compiler::progress::BuildProgress;
use mneme_compiler::{Keep, Preloaded, Target};

use super::replacement::Replacement;
use super::spec::BuildSpec;
use crate::recording::instance::RecordedInstance;

/// What all builds have in common.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub recorded: &'a RecordedInstance,
    /// The recorded bitcode, the kernel's own unit first.
    pub modules: &'a [Vec<u8>],
    /// Code in the recorded modules' place, which a configuration may have other code for.
    pub replacement: Option<&'a Replacement>,
    /// The program that runs pipelines.
    pub external: Option<&'a External>,
    /// IR to return.
    pub keep: Keep,
    /// Builds that fail tell the texts that they had come to.
    pub texts: bool,
}

/// What to compile.
#[derive(Clone, Copy)]
pub struct Build<'a> {
    pub inputs: Inputs<'a>,
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
    pub fn new(inputs: Inputs<'a>, target: &'a Target, spec: &'a BuildSpec) -> Self {
        Self { inputs, target, spec, preloaded: None, lost: None, progress: None }
    }

    /// Code in the recorded modules' place: what comes with the configuration is nearer than what was given for all.
    pub fn replacement(&self) -> Option<&'a Replacement> {
        self.spec.replacement.as_deref().or(self.inputs.replacement)
    }

    /// Whether a build that fails tells the texts that it had come to.
    pub fn tells_texts(&self) -> bool {
        self.inputs.texts || self.spec.keep_ir
    }
}
