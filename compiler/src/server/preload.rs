//! The recorded IR as LLVM holds it, in the fork server's memory.
//!
//! Builders that start from it need not read, link and prune.

use mneme_builds::Target;

use super::inputs::Build;
use crate::preloaded::Preloaded;

/// LLVM may crash or hang on IR that is damaged, so the fork server reads only what a builder has compiled before.
#[derive(Default)]
pub struct Preload {
    proved: bool,
    /// What was read, and for which target; nothing where LLVM could not make sense of it.
    read: Option<(Target, Option<Preloaded>)>,
}

impl Preload {
    /// Whether a build is of the recorded IR.
    pub fn concerns(build: &Build<'_>) -> bool {
        build.replacement().is_none() && !build.inputs.modules.is_empty() && !build.spec.configuration.original
    }

    /// A build that [`Preload::concerns`] this has succeeded.
    pub fn proved(&mut self) {
        self.proved = true;
    }

    /// What a build can start from, if it can; it is read now where that has not been done.
    pub fn of(&mut self, build: &Build<'_>) -> Option<&Preloaded> {
        // An instrumented build tells lines of the source, which are not kept here.
        if !(self.proved && Self::concerns(build) && build.spec.configuration.prune && build.spec.instrument.is_none())
        {
            return None;
        }
        if self.read.as_ref().is_none_or(|(target, _)| target != build.target) {
            let modules: Vec<&[u8]> = build.inputs.modules.iter().map(Vec::as_slice).collect();
            let recorded = &build.inputs.plan.recorded;
            let loaded = crate::preload(&modules, &recorded.name, &recorded.variables, build.target);
            let loaded = loaded.inspect_err(|error| tracing::debug!("builders read the IR themselves: {error}"));
            self.read = Some((build.target.clone(), loaded.ok()));
        }
        self.read.as_ref()?.1.as_ref()
    }
}
