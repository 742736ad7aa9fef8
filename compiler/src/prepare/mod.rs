//! Prepares the module with which a pipeline starts, from recorded bitcode.
//!
//! The steps are the same for every target, so a pipeline sees the same IR for a GPU and for the CPU device.

mod arguments;
mod bounds;
mod dimensions;
mod facts;
mod fast_math;
mod heap;
mod launch_memory;
mod provenance;
mod prune;
mod reflect;
mod shared;
mod variables;

pub use variables::{Placement, device_symbol};

use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use mneme_builds::Target;
use mneme_builds::instrument::Instrument;
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Specialize;
use mneme_recording::database::ArgumentLayout;
use mneme_recording::manifest::RecordedVariable;

use crate::architecture::CodegenArchitecture;
use crate::error::BuildError;
use crate::ir::{self, Value, parameters};
use crate::llvm;
use crate::request::BuildRequest;

/// The result of specialising.
#[derive(Debug, Default)]
pub struct Specialised {
    /// Whether the launch's dynamic shared memory is part of the code.
    pub shared_is_static: bool,
    /// The recorded variables, which get their addresses after the pipeline.
    pub variables: Placement,
    /// The changes, one per line.
    pub log: Vec<String>,
}

/// Specialises and reduces a linked module for `request`.
pub fn specialise(
    module: &Module<'_>,
    request: &BuildRequest<'_>,
    architecture: &CodegenArchitecture,
    machine: &TargetMachine,
) -> Result<Specialised, BuildError> {
    let kernel = ir::kernel(module, request.kernel)?;
    check_signature(module, kernel, request.recorded.signature)?;
    let used = prune::drop_used_lists(module);
    if !matches!(request.target, Target::Cpu { .. }) {
        define_pure_virtual(module)?;
    }
    // Instrumented code runs once.
    if request.instrument.is_none() {
        heap::count(module)?;
    }
    let configuration = request.configuration;
    let variables = Placement::of(
        module,
        request.recorded.variables,
        !matches!(request.target, Target::Nvptx { .. }),
        request.recorded.compiled.is_some_and(CompileOptions::is_of_the_ir),
    );
    let mut done = Specialised { variables, ..Specialised::default() };
    let mut visible = done.variables.visible(module);
    // The check for faults expects memory at its recorded addresses, and passes must not know more about it.
    if request.instrument == Some(Instrument::Faults) {
        done.variables.put(module, kernel, configuration.prune, false, machine)?;
    }
    let absolute = done.variables.absolute(module);
    if configuration.prune {
        variables::show_escaping(&absolute, visible.iter().copied().chain([kernel]), &used);
    }
    done.variables.stand_in(module);
    visible.extend(Placement::other_code(module));
    if configuration.fast_math {
        fast_math::allow(module, architecture.vendor)?;
    }
    reflect::resolve(module, architecture, configuration.fast_math);
    arguments::fold(module, kernel, &configuration.specialize, &request.recorded, &mut done.log);
    if configuration.specialize == Specialize::All {
        done.shared_is_static = shared::make_static(module, kernel, configuration.shared_mem, architecture.vendor);
        if done.shared_is_static {
            done.log.push(format!("{} bytes of dynamic shared memory are static", configuration.shared_mem));
        }
    }
    if configuration.specialize_dims {
        dimensions::fold(module, kernel, configuration.grid, configuration.block, architecture);
    }
    // Instrumented code needs more registers than a block may have if the block's size is unknown.
    if configuration.set_launch_bounds || request.instrument.is_some() {
        bounds::set(module, kernel, configuration, architecture);
    }
    if configuration.maxnreg > 0 {
        bounds::limit_registers(module, kernel, configuration.maxnreg, architecture);
    }
    keep_loops(module, request.recorded.compiled, &configuration.passes);
    if configuration.internalize || configuration.prune {
        prune::trim(module, kernel, &visible, &absolute, configuration.internalize, configuration.prune, machine)?;
    }
    if configuration.facts {
        facts::state(module, kernel, &request.recorded, machine, &mut done.log);
    }
    Ok(done)
}

/// The steps that do not depend on the configuration, for builds that prune: removes everything that neither the kernel
/// nor the recorded `variables` reach.
pub fn reduce(
    module: &Module<'_>,
    kernel_name: &str,
    variables: &[RecordedVariable],
    machine: &TargetMachine,
) -> Result<(), BuildError> {
    let kernel = ir::kernel(module, kernel_name)?;
    let used = prune::drop_used_lists(module);
    let recorded = |variable: &Value<'_>| variables::record_of(variables, *variable).is_some();
    let kept: Vec<Value<'_>> = ir::variables(module).into_iter().filter(recorded).collect();
    variables::show_escaping(&kept, kept.iter().copied().chain([kernel]), &used);
    prune::trim(module, kernel, &kept, &[], false, true, machine)
}

/// The steps of [`specialise`] without a particular kernel or launch, for the CPU device, which runs whole modules.
pub fn whole(module: &Module<'_>, architecture: &CodegenArchitecture, compiled: Option<&CompileOptions>, passes: &str) {
    prune::drop_used_lists(module);
    reflect::resolve(module, architecture, false);
    keep_loops(module, compiled, passes);
}

/// Keeps the pipeline of `-O1` from unrolling more than in the application, because the recorded IR is that of higher
/// levels.
fn keep_loops(module: &Module<'_>, compiled: Option<&CompileOptions>, passes: &str) {
    if compiled.is_some_and(|application| application.level == "1" && application.pipeline() == passes) {
        llvm::keep_loops(module);
    }
}

/// Checks the parameters of code from elsewhere, which is launched with the recorded parameter buffer.
fn check_signature(module: &Module<'_>, kernel: Value<'_>, recorded: &[ArgumentLayout]) -> Result<(), BuildError> {
    if recorded.is_empty() {
        return Ok(());
    }
    let found: Vec<u32> = parameters::of(module, kernel).into_iter().map(|parameter| parameter.size).collect();
    crate::signature::check(&kernel.name(), recorded, &found)
}

/// Tables of virtual functions name it for pure virtual functions. nvcc and clang take it from a library that is not part
/// of the recorded IR, and assemblers refuse code that names an undefined function.
const PURE_VIRTUAL: &str = "__cxa_pure_virtual";

/// Gives the function for pure virtual functions a body that traps, because its call is undefined behaviour.
fn define_pure_virtual(module: &Module<'_>) -> Result<(), BuildError> {
    if !ir::function(module, PURE_VIRTUAL).is_some_and(|function| function.is_declaration()) {
        return Ok(());
    }
    let text = format!(
        "target datalayout = \"{}\"\ntarget triple = \"{}\"\n\
         declare void @llvm.trap()\n\
         define linkonce_odr hidden void @{PURE_VIRTUAL}() {{\n  call void @llvm.trap()\n  unreachable\n}}\n",
        module.get_data_layout().as_str().to_string_lossy(),
        module.get_triple().as_str().to_string_lossy(),
    );
    let failed = |message: String| BuildError::Link { message };
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), PURE_VIRTUAL);
    let definition = module.get_context().create_module_from_ir(buffer).map_err(|error| failed(error.to_string()))?;
    module.link_in_module(definition).map_err(|error| failed(error.to_string()))
}
