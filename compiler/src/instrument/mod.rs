//! Instrumented builds: code that reports its accesses to memory.
//!
//! All kinds of instrumentation work on IR common to all targets, so a GPU and the CPU device run the same
//! instrumentation. The inserted code calls functions (`common.ll` and the files beside it) that are linked after the
//! pipeline; the pipeline sees only their declarations. The functions find their buffers through one variable that the
//! replayer fills in. [`layout`](mneme_builds::instrument::layout) defines the interface.

pub(crate) mod accesses;
mod copies;
pub(crate) mod emitter;
pub mod faults;
mod locals;
pub(crate) mod objects;
mod operations;
mod order;
mod origins;
mod sites;
mod target;
mod touched;
mod unseen;
mod writes;

use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetMachine;
use llvm_sys::LLVMLinkage;
use mneme_builds::instrument::{Instrument, Instrumented};

use crate::error::BuildError;
use crate::ir;

/// Promotes variables together with their shadows. No pass may remove an access to memory that other threads see.
const PROMOTE: &str = "function(sroa,instsimplify)";

/// Instruments the pipeline's input, for the kinds that instrument it there.
pub fn before(
    module: &Module<'_>,
    kernel: &str,
    instrument: Instrument,
    machine: &TargetMachine,
) -> Result<Instrumented, BuildError> {
    crate::llvm::forget_annotations(module);
    match instrument {
        Instrument::Faults => {}
        Instrument::Writes => return Ok(Instrumented::default()),
        Instrument::Touched => return Ok(touched::watch(module)),
    }
    let kernel = crate::ir::kernel(module, kernel)?;
    faults::inline_pointers(module, kernel);
    faults::forbid_speculation(module, true);
    run(module, target::inline_passes(target::vendor(module)), machine)?;
    let shadowed = locals::shadow(module);
    run(module, PROMOTE, machine)?;
    let locals = locals::settle(module, shadowed, 0);
    let mut instrumented = faults::watch(module, kernel, locals.len());
    instrumented.sites.splice(0..0, locals);
    module.verify().map_err(|error| failed(error.to_string()))?;
    Ok(instrumented)
}

/// Completes the work of [`before`], or instruments the pipeline's output.
pub fn after(
    module: &Module<'_>,
    instrument: Instrument,
    begun: Instrumented,
    machine: &TargetMachine,
) -> Result<Instrumented, BuildError> {
    let instrumented = match instrument {
        Instrument::Faults => {
            faults::forbid_speculation(module, false);
            faults::define_own(module);
            let shared = if begun.has_shared { include_str!("shared.ll") } else { include_str!("unshared.ll") };
            link(module, &[include_str!("faults.ll"), shared], machine)?;
            begun
        }
        Instrument::Writes => {
            let instrumented = writes::watch(module);
            link(module, &[include_str!("writes.ll")], machine)?;
            instrumented
        }
        Instrument::Touched => {
            operations::count(module);
            run(module, "function(mem2reg)", machine)?;
            link(module, &[include_str!("touched.ll")], machine)?;
            begun
        }
    };
    module.strip_debug_info();
    module.verify().map_err(|error| failed(error.to_string()))?;
    Ok(instrumented)
}

/// Links Mneme's functions and makes them internal to the code.
fn link(module: &Module<'_>, functions: &[&str], machine: &TargetMachine) -> Result<(), BuildError> {
    let text = format!(
        "target datalayout = \"{}\"\ntarget triple = \"{}\"\n{}\n{}\n{}",
        module.get_data_layout().as_str().to_string_lossy(),
        module.get_triple().as_str().to_string_lossy(),
        target::functions(target::vendor(module)),
        include_str!("common.ll"),
        functions.concat(),
    );
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "instrumentation");
    let runtime = module.get_context().create_module_from_ir(buffer).map_err(|error| failed(error.to_string()))?;
    module.link_in_module(runtime).map_err(|error| failed(error.to_string()))?;
    target::forget_unused_inputs(module);
    // Called functions arrive with external linkage, because LLVM's linker resolves no others.
    for function in ir::functions(module) {
        if !function.is_declaration() && function.name().starts_with(emitter::PREFIX) {
            function.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        }
    }
    run(module, "always-inline,globaldce", machine)
}

fn run(module: &Module<'_>, passes: &str, machine: &TargetMachine) -> Result<(), BuildError> {
    module.run_passes(passes, machine, PassBuilderOptions::create()).map_err(|error| failed(error.to_string()))
}

fn failed(message: String) -> BuildError {
    BuildError::Instrument { message }
}

#[cfg(test)]
mod tests;
