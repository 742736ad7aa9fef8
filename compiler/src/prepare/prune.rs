//! Removes everything outside the kernel's closure, and makes the rest of the closure local.

use std::collections::HashSet;

use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetMachine;
use llvm_sys::LLVMLinkage;
use llvm_sys::comdat::LLVMSetComdat;

use crate::error::BuildError;
use crate::ir::{self, Value, reach};

/// Deletes `llvm.used` and `llvm.compiler.used`. They keep symbols that the *program* may look up by name (every
/// variable that the host mentions), which a replay does not. Returns the kept symbols.
pub fn drop_used_lists<'m>(module: &'m Module<'_>) -> HashSet<Value<'m>> {
    let mut used = HashSet::new();
    for name in ["llvm.used", "llvm.compiler.used"] {
        if let Some(list) = ir::variable(module, name) {
            used.extend(reach::references(list));
            list.delete_global();
        }
    }
    used
}

/// With `internalize`, everything becomes local except the kernel, the `visible` globals, and the variables of `placed`
/// that they reach. With `prune`, everything that they do not reach is removed.
pub fn trim(
    module: &Module<'_>,
    kernel: Value<'_>,
    visible: &[Value<'_>],
    placed: &[Value<'_>],
    internalize: bool,
    prune: bool,
    machine: &TargetMachine,
) -> Result<(), BuildError> {
    if kernel.is_local() {
        kernel.set_linkage(LLVMLinkage::LLVMExternalLinkage);
    }
    let roots: Vec<Value<'_>> = std::iter::once(kernel).chain(visible.iter().copied()).collect();
    let reached = reach::closure(roots.iter().copied());
    for global in [ir::functions(module), ir::variables(module), ir::aliases(module)].concat() {
        if global.is_declaration()
            || global.is_local()
            || global.name().starts_with("llvm.")
            || roots.contains(&global)
            || (reached.contains(&global) && (!internalize || placed.contains(&global)))
        {
            continue;
        }
        hide(global);
    }
    if prune { sweep(module, machine) } else { Ok(()) }
}

/// Makes a definition local.
pub fn hide(global: Value<'_>) {
    if global.as_function().is_some() || global.as_variable().is_some() {
        // SAFETY: the value is a live global object. Having no comdat is valid, and a local global must have none.
        unsafe { LLVMSetComdat(global.raw(), std::ptr::null_mut()) };
    }
    global.set_linkage(LLVMLinkage::LLVMInternalLinkage);
}

/// Removes local globals without uses.
pub fn sweep(module: &Module<'_>, machine: &TargetMachine) -> Result<(), BuildError> {
    let pipeline = "globaldce";
    module
        .run_passes(pipeline, machine, PassBuilderOptions::create())
        .map_err(|error| BuildError::Pipeline { pipeline: pipeline.into(), message: error.to_string() })
}
