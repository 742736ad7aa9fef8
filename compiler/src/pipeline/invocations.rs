//! The pass invocations of a pipeline: a list, a limit, and the IR around one of them.
//!
//! For looking for the pass that did something. Numbers are those of [`PassObserver`]: with one pipeline and one module
//! they are the same in every run up to the limit.

use inkwell::module::Module;
use mneme_builds::progress::Invocation;

use crate::ir;
use crate::llvm::PassObserver;

/// Observes a pipeline.
#[derive(Debug, Default)]
pub struct Invocations {
    /// Leave out all passes with a greater number, where they can be.
    pub limit: Option<u64>,
    /// The invocation whose IR is wanted.
    pub shown: Option<u64>,
    /// Those that ran, in order.
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

/// The passes of code generation, as [`Invocations`] has those of a pipeline: IR passes of the back end and machine
/// passes, numbered by themselves. Those that the back end cannot do without have no number.
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

    /// Whether the pass that asks may run; its number.
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
