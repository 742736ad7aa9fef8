//! LLVM for Mneme: link recorded IR, specialise it, run a pass pipeline, generate code.
//!
//! [`build`] is the one entry point. It is meant to run in a forked child: LLVM may abort on IR or pipelines it cannot
//! cope with, and that must be one configuration's result, not the end of a tuning session. The parent calls
//! [`warm_up`] before it forks, so that no child pays for initialisation.

pub mod assembler;
pub mod cpu;
pub mod ir;
pub mod pipeline;
pub mod prepare;
pub mod request;
pub mod target;
pub mod unit;
mod warm;

pub use prepare::device_symbol;
pub use request::{Artifact, BuildError, ImageKind, Request, Target, Times};

use std::time::Instant;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::{FileType, TargetMachine};

use assembler::Assembler;
use ir::diagnostics::Diagnostics;
use target::Architecture;

/// Builds the kernel of `request` into a code object.
pub fn build(request: &Request<'_>) -> Result<Artifact, BuildError> {
    let configuration = request.configuration;
    configuration.check().map_err(|message| BuildError::Configuration { message })?;
    let (Target::Nvptx { arch } | Target::Cpu { arch }) = request.target;
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);

    let clock = Instant::now();
    let module = prepare::load(&context, &diagnostics, request.modules)?;
    let architecture = Architecture::for_module(arch, &module)?;
    let machine = architecture.machine(configuration.codegen_opt)?;
    prepare::specialise(&module, request, &architecture, &machine)?;
    let preprocess = clock.elapsed().as_secs_f64();

    let clock = Instant::now();
    pipeline::run(&module, &configuration.passes, &machine, &diagnostics)?;
    let optimise = clock.elapsed().as_secs_f64();

    let ir = request.keep_ir.then(|| ir::text(&module));
    let clock = Instant::now();
    let (image, kind, ptx, assembler) = match request.target {
        Target::Nvptx { .. } => {
            let ptx = emit_ptx(&module, &machine, &architecture, &diagnostics)?;
            let assembled = Assembler::find().assemble(&ptx, &architecture.device)?;
            (assembled.image, assembled.kind, Some(ptx), assembled.assembler)
        }
        Target::Cpu { .. } => {
            let image = cpu::lower(module, &cpu::LowerOptions { codegen_opt: configuration.codegen_opt })?;
            (image, ImageKind::CpuObject, None, format!("LLVM {}", llvm_version()))
        }
    };
    let times = Times { preprocess, optimise, codegen: clock.elapsed().as_secs_f64() };
    Ok(Artifact { image, kind, entry: request.kernel.to_owned(), ptx, ir, times, assembler })
}

/// Builds all kernels of the linked `modules` into one object for the CPU device, as an application's own code: no
/// recorded values, nothing dropped. `arch` is the GPU architecture that the pipeline runs for.
pub fn build_cpu_object(modules: &[&[u8]], pipeline: &str, arch: &str, codegen_opt: u8) -> Result<Vec<u8>, BuildError> {
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = prepare::load(&context, &diagnostics, modules)?;
    let architecture = Architecture::for_module(arch, &module)?;
    let machine = architecture.machine(codegen_opt)?;
    prepare::whole(&module, &architecture);
    pipeline::run(&module, pipeline, &machine, &diagnostics)?;
    Ok(cpu::lower(module, &cpu::LowerOptions { codegen_opt })?)
}

/// Initialises LLVM and the assembler, so that children forked afterwards need not.
pub fn warm_up() {
    target::initialise();
    Assembler::find();
    warm::up();
}

/// The LLVM this crate is built with, e.g. "19.1.7".
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

fn emit_ptx(
    module: &Module<'_>,
    machine: &TargetMachine,
    architecture: &Architecture,
    diagnostics: &Diagnostics<'_>,
) -> Result<String, BuildError> {
    let failed = |message: String| BuildError::Codegen { target: architecture.cpu.clone(), message };
    let buffer = machine.write_to_memory_buffer(module, FileType::Assembly).map_err(|error| failed(error.to_string()))?;
    if let Some(message) = diagnostics.take() {
        return Err(failed(message));
    }
    let text = String::from_utf8_lossy(buffer.as_slice()).into_owned();
    Ok(text.trim_end_matches('\0').to_owned())
}
