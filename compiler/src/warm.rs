//! Initialisation that a process does once, before it forks builders.
//!
//! It loads LLVM's targets and pass registry, the assembler's tables, and the recorded IR.

use inkwell::AddressSpace;
use inkwell::context::Context;
use mneme_builds::Target;
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use mneme_recording::manifest::RecordedVariable;

use crate::architecture::{self, CodegenArchitecture};
use crate::assembler::Assembler;
use crate::build::build;
use crate::error::BuildError;
use crate::ir::annotations;
use crate::ir::diagnostics::Diagnostics;
use crate::preloaded::Preloaded;
use crate::request::{BuildRequest, InputCode};
use crate::{ir, prepare};

const KERNEL: &str = "warm_up";

/// Reads `modules`, the kernel's own first, and reduces them to the kernel's closure. LLVM may crash on damaged
/// modules, so read them in a forked process first.
pub fn preload(
    modules: &[&[u8]],
    kernel: &str,
    variables: &[RecordedVariable],
    target: &Target,
) -> Result<Preloaded, BuildError> {
    let context: &'static Context = Box::leak(Box::new(Context::create()));
    let diagnostics = Diagnostics::collect(context);
    let module = ir::read::load(context, &diagnostics, modules, false)?;
    let machine = CodegenArchitecture::of(target, &module)?.machine(3)?;
    prepare::reduce(&module, kernel, variables, &machine)?;
    Ok(Preloaded::new(context, module))
}

/// Initialises LLVM and the assembler and builds a small kernel, so children forked afterwards start warm (measured: 12
/// instead of 25 ms for a small kernel). Starts no threads. If it fails, the first real build reports the error.
pub fn up() {
    architecture::initialise();
    Assembler::find();
    let Some(bitcode) = kernel() else { return };
    let unit = Dim3::new(1, 1, 1);
    let target = Target::Nvptx { arch: "sm_90".into() };
    let configuration = Configuration::recorded(unit, unit, 0);
    let modules: [&[u8]; 1] = [&bitcode];
    let request = BuildRequest::new(InputCode::Ir(&modules), KERNEL, &target, &configuration);
    if let Err(error) = build(&request) {
        tracing::debug!("the warm-up build failed: {error}");
    }
}

/// The bitcode of a kernel that increments a number.
fn kernel() -> Option<Vec<u8>> {
    let context = Context::create();
    let module = context.create_module(KERNEL);
    module.set_triple(&inkwell::targets::TargetTriple::create("nvptx64-nvidia-cuda"));
    let parameters = [context.ptr_type(AddressSpace::default()).into()];
    let function = module.add_function(KERNEL, context.void_type().fn_type(&parameters, false), None);
    let builder = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, "entry"));
    let place = function.get_first_param()?.into_pointer_value();
    let number = context.i32_type();
    let old = builder.build_load(number, place, "old").ok()?.into_int_value();
    let new = builder.build_int_add(old, number.const_int(1, false), "new").ok()?;
    builder.build_store(place, new).ok()?;
    builder.build_return(None).ok()?;
    annotations::mark_kernel(&module, ir::function(&module, KERNEL)?);
    Some(module.write_bitcode_to_memory().as_slice().to_vec())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_warm_up_kernel_builds() {
        let bitcode = super::kernel().unwrap();
        let context = inkwell::context::Context::create();
        let buffer = inkwell::memory_buffer::MemoryBuffer::create_from_memory_range_copy(&bitcode, "test");
        let module = inkwell::module::Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
        module.verify().unwrap();
        assert!(crate::ir::kernel(&module, super::KERNEL).is_ok());
    }
}
