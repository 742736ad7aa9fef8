//! Reads a kernel's interface from its recorded IR.

use inkwell::context::Context;
use mneme_builds::protocol::KernelInterface;

use crate::error::BuildError;
use crate::ir::diagnostics::Diagnostics;
use crate::ir::read;
use crate::ir::{self, attributes, parameters};

/// LLVM's address space of constant memory.
const CONSTANT: u32 = 4;

/// Reads `modules`, the kernel's own first. LLVM may crash on damaged modules, so call this in a separate process.
pub fn of(modules: &[&[u8]], kernel: &str) -> Result<KernelInterface, BuildError> {
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = read::load(&context, &diagnostics, modules, false)?;
    let function = ir::kernel(&module, kernel)?;
    let constants = ir::variables(&module).into_iter().filter(|variable| variable.space() == CONSTANT);
    Ok(KernelInterface {
        arguments: parameters::of(&module, function),
        constants: constants
            .flat_map(|variable| [variable.name(), crate::prepare::device_symbol(&variable.name())])
            .collect(),
        triple: module.get_triple().as_str().to_string_lossy().into_owned(),
        arch: attributes::string(function, "target-cpu").unwrap_or_default(),
    })
}
