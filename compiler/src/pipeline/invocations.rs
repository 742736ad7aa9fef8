//! The pass invocations of a pipeline: a list, a limit, and the IR around one of them.
//!
//! They serve to find the pass that caused a change. Their numbers are those of [`PassObserver`]: with one pipeline and
//! one module, they are the same in every run up to the limit.

use inkwell::module::Module;
use mneme_builds::progress::Invocation;

use crate::ir;
use crate::llvm::PassObserver;

/// An observer of a pipeline's passes.
#[derive(Debug, Default)]
pub struct Invocations {
    /// Skips all optional passes with a greater number.
    pub limit: Option<u64>,
    /// The invocation whose IR is wanted.
    pub shown: Option<u64>,
    /// The invocations that ran, in order.
    pub ran: Vec<Invocation>,
    /// The module before and after `shown`.
    pub before: Option<String>,
    pub after: Option<String>,
}

impl PassObserver for Invocations {
    fn before(&mut self, module: &Module<'_>, number: u64, pass: &str, unit: &str) -> bool {
        if number == 0 {
            return true;
        }
        if self.limit.is_some_and(|limit| number > limit) {
            return false;
        }
        if self.shown == Some(number) {
            self.before = Some(ir::text(module));
        }
        self.ran.push(Invocation { number, pass: pass.into(), unit: unit.into() });
        true
    }

    fn after(&mut self, module: &Module<'_>, number: u64) {
        if self.shown == Some(number) {
            self.after = Some(ir::text(module));
        }
    }
}

/// An observer of the passes of code generation: the back end's IR passes and machine passes. They have their own
/// numbers. Passes that the back end requires have none.
#[derive(Debug, Default)]
pub struct CodegenInvocations {
    pub limit: Option<u64>,
    pub ran: Vec<Invocation>,
    seen: u64,
}

impl CodegenInvocations {
    pub fn limited(limit: Option<u64>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Counts a pass that asks to run. Returns its number, and whether it may run.
    pub fn ask(&mut self, pass: &str, unit: &str) -> (u64, bool) {
        self.seen += 1;
        let number = self.seen;
        let run = self.limit.is_none_or(|limit| number <= limit);
        if run {
            self.ran.push(Invocation { number, pass: pass.into(), unit: unit.into() });
        }
        (number, run)
    }
}
