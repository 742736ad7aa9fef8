//! The examination of a kernel and of pipelines before any build.

use inkwell::context::Context;
use mneme_builds::Target;
use mneme_model::architecture::Vendor;
use mneme_model::protocol::Examination;

use crate::architecture::CodegenArchitecture;
use crate::error::BuildError;
use crate::ir::diagnostics::Diagnostics;
use crate::ir::{self, reach, read};
use crate::pipeline;

/// The prefix of the intrinsics that return the grid's dimensions on NVIDIA GPUs.
const GRID: &str = "llvm.nvvm.read.ptx.sreg.nctaid.";

/// Examines `modules` (the kernel's own first) and pipelines for `target`. LLVM may crash on damaged modules, so call
/// this in a separate process.
pub fn of(modules: &[&[u8]], kernel: &str, target: &Target, passes: &[String]) -> Result<Examination, BuildError> {
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = match modules {
        [] => context.create_module("none"),
        _ => read::load(&context, &diagnostics, modules, false)?,
    };
    let machine = CodegenArchitecture::of(target, &module)?.machine(2)?;
    let problems = passes.iter().map(|passes| pipeline::problem(passes, &machine)).collect();
    // On AMD GPUs the grid's dimensions are in memory beside other values, so a read of that memory proves nothing.
    let is_amd = Vendor::of_triple(&module.get_triple().as_str().to_string_lossy()) == Some(Vendor::Amd);
    let reads_grid = if modules.is_empty() || is_amd {
        None
    } else {
        let reached = reach::closure([ir::kernel(&module, kernel)?]);
        Some(reached.iter().any(|global| global.name().starts_with(GRID)))
    };
    Ok(Examination { problems, reads_grid })
}
