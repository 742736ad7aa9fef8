//! A kernel's IR in LLVM's memory, from which a build can start.

use std::cell::Cell;

use inkwell::context::Context;
use inkwell::module::Module;

use crate::error::BuildError;

/// A kernel's IR, read, linked and reduced to the kernel's closure. Builds that prune start from it.
///
/// The first build consumes it, so a process has to fork for each build.
pub struct Preloaded {
    /// Lives as long as the process, because the module does.
    context: &'static Context,
    module: Cell<Option<Module<'static>>>,
}

impl Preloaded {
    pub(crate) fn new(context: &'static Context, module: Module<'static>) -> Self {
        Self { context, module: Cell::new(Some(module)) }
    }

    pub(crate) fn take(&self) -> Result<(&'static Context, Module<'static>), BuildError> {
        let module = self
            .module
            .take()
            .ok_or_else(|| BuildError::Bitcode { message: "another build has consumed it".into() })?;
        Ok((self.context, module))
    }
}
