//! Questions that only LLVM or the assembler can answer, each in a separate process.

use std::fmt::Display;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use inkwell::context::Context;
use mneme_builds::protocol::{CodeParts, KernelInterface, Question};
use mneme_builds::{Refusal, Target};
use mneme_image::ir_section::IrTable;
use mneme_model::architecture::Vendor;
use mneme_model::protocol::Examination;
use mneme_sandbox::confinement::{self, AllowedResources};
use mneme_sandbox::frame;

use crate::architecture::CodegenArchitecture;
use crate::error::BuildError;
use crate::ir::diagnostics::Diagnostics;
use crate::ir::{self, annotations, reach, read};
use crate::pipeline;

/// Answers a question. LLVM may end this process if the input is damaged.
///
/// # Errors
/// If the stream fails, or the question is cut off.
pub fn answer(mut client: UnixStream, question: Question, blob: &[u8]) -> io::Result<()> {
    match question {
        Question::Interface { kernel, parts } => {
            let modules = modules(&parts, blob)?;
            confine(&client);
            let found: Result<KernelInterface, Refusal> =
                crate::interface::of(&slices(&modules), &kernel).map_err(refusal);
            frame::write(&mut client, &found, &[])
        }
        Question::Link { parts } => {
            let modules = modules(&parts, blob)?;
            confine(&client);
            let (linked, bitcode) = match crate::build::link(&slices(&modules)) {
                Ok(bitcode) => (Ok(()), bitcode),
                Err(error) => (Err(refusal(error)), Vec::new()),
            };
            frame::write(&mut client, &linked, &bitcode)
        }
        Question::Describe { origin } => {
            confine(&client);
            let described: Result<IrTable, Refusal> = crate::unit::describe(blob, &origin).map_err(refusal);
            frame::write(&mut client, &described, &[])
        }
        Question::Rename { names } => {
            confine(&client);
            let (missing, bitcode) = match crate::unit::names::rename(blob, names.iter().map(String::as_str)) {
                Ok(renamed) => (Ok(renamed.missing), renamed.bitcode),
                Err(error) => (Err(refusal(error)), Vec::new()),
            };
            frame::write(&mut client, &missing, &bitcode)
        }
        Question::CpuObject { parts, arch, compiled, passes } => {
            let modules = modules(&parts, blob)?;
            let built = crate::build::build_cpu_object(&slices(&modules), &arch, compiled.as_ref(), passes.as_deref());
            let (built, object) = match built {
                Ok(object) => (Ok(()), object),
                Err(error) => (Err(refusal(error)), Vec::new()),
            };
            frame::write(&mut client, &built, &object)
        }
        Question::Examine { kernel, parts, target, passes } => {
            let modules = modules(&parts, blob)?;
            confine(&client);
            let found: Result<Examination, Refusal> =
                examine(&slices(&modules), &kernel, &target, &passes).map_err(refusal);
            frame::write(&mut client, &found, &[])
        }
        Question::Maker { target } => frame::write(&mut client, &crate::build::maker(&target), &[]),
    }
}

/// Gives up all resources except the stream, because the code after this parses recorded data.
fn confine(client: &UnixStream) {
    confinement::enter(&AllowedResources { descriptors: vec![client.as_raw_fd()], ..AllowedResources::default() });
}

fn refusal(error: impl Display) -> Refusal {
    Refusal(error.to_string())
}

fn modules(parts: &CodeParts, blob: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    parts.cut(blob).map(|(modules, _)| modules).map_err(io::Error::other)
}

fn slices(modules: &[Vec<u8>]) -> Vec<&[u8]> {
    modules.iter().map(Vec::as_slice).collect()
}

/// The prefix of the intrinsics that return the grid's dimensions on NVIDIA GPUs.
const GRID: &str = "llvm.nvvm.read.ptx.sreg.nctaid.";

/// Examines `modules` (the kernel's own first) and pipelines for `target`.
fn examine(modules: &[&[u8]], kernel: &str, target: &Target, passes: &[String]) -> Result<Examination, BuildError> {
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = match modules {
        [] => context.create_module("none"),
        _ => read::load(&context, &diagnostics, modules, false)?,
    };
    let machine = CodegenArchitecture::of(target, &module)?.machine(2)?;
    let problem = |passes: &String| pipeline::problem(passes, &machine).map(|error| error.to_string());
    let problems = passes.iter().map(problem).collect();
    // On AMD GPUs the grid's dimensions are in memory beside other values, so a read of that memory proves nothing.
    let is_amd = Vendor::of_triple(&module.get_triple().as_str().to_string_lossy()) == Some(Vendor::Amd);
    if modules.is_empty() || is_amd {
        return Ok(Examination { problems, ..Examination::default() });
    }
    let kernel = ir::kernel(&module, kernel)?;
    let reads_grid = reach::closure([kernel]).iter().any(|global| global.name().starts_with(GRID));
    let fixes_block = annotations::fixes_block(&module, kernel);
    Ok(Examination { problems, reads_grid: Some(reads_grid), fixes_block: Some(fixes_block) })
}
