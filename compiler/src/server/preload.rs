//! The recorded IR in the fork server's memory, as LLVM modules.
//!
//! Builders that start from it need not read, link and prune the IR.

use mneme_builds::Target;

use super::inputs::Build;
use crate::preloaded::Preloaded;

/// The preloaded IR. LLVM may crash or hang on damaged IR, so the fork server reads only IR that a builder has
/// compiled.
#[derive(Default)]
pub struct Preload {
    proved: bool,
    /// The target and the IR; no IR if LLVM could not read it.
    read: Option<(Target, Option<Preloaded>)>,
}

impl Preload {
    /// Whether a build compiles the recorded IR.
    pub fn concerns(build: &Build<'_>) -> bool {
        build.replacement().is_none() && !build.inputs.modules.is_empty() && !build.spec.configuration.original
    }

    /// Marks that a build for which [`Preload::concerns`] is true has succeeded.
    pub fn proved(&mut self) {
        self.proved = true;
    }

    /// The IR from which a build can start, if it can. The first call reads it.
    pub fn of(&mut self, build: &Build<'_>) -> Option<&Preloaded> {
        // Builds that report source lines need IR that has them; the preloaded IR doesn't.
        if !(self.proved && Self::concerns(build) && build.spec.configuration.prune && !build.spec.tells_lines()) {
            return None;
        }
        if self.read.as_ref().is_none_or(|(target, _)| target != build.target) {
            let modules: Vec<&[u8]> = build.inputs.modules.iter().map(Vec::as_slice).collect();
            let recorded = &build.inputs.plan.recorded;
            let loaded = crate::warm::preload(&modules, &recorded.name, &recorded.variables, build.target);
            let loaded = loaded.inspect_err(|error| tracing::debug!("builders read the IR themselves: {error}"));
            self.read = Some((build.target.clone(), loaded.ok()));
        }
        self.read.as_ref()?.1.as_ref()
    }
}
