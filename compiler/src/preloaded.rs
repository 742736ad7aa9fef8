//! A kernel's IR as LLVM holds it, which a build can start from.

use std::cell::Cell;

use inkwell::context::Context;
use inkwell::module::Module;

use crate::error::BuildError;

/// A kernel's IR, read, linked and cut down to what the kernel reaches: where builds that prune start from.
///
/// Its first build uses it up. A process that forks for each build has it always.
pub struct Preloaded {
    /// Lives as long as the process, as the module does.
    context: &'static Context,
    module: Cell<Option<Module<'static>>>,
}

impl Preloaded {
    pub(crate) fn new(context: &'static Context, module: Module<'static>) -> Self {
        Self { context, module: Cell::new(Some(module)) }
    }

    pub(crate) fn take(&self) -> Result<(&'static Context, Module<'static>), BuildError> {
        let module =
            self.module.take().ok_or_else(|| BuildError::Bitcode { message: "another build has used it up".into() })?;
        Ok((self.context, module))
    }
}
