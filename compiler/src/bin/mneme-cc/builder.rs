//! The questions about device code to the builder of the LLVM that wrote it.

use std::time::Duration;

use mneme_builds::builders::{Builders, written_by};
use mneme_builds::protocol::{CodeParts, Question, UnitOrigin};
use mneme_core::compile_options::CompileOptions;
use mneme_core::image::ir_section::IrTable;
use serde::de::DeserializeOwned;

/// No compilation takes longer.
const LIMIT: Duration = Duration::from_secs(3600);

/// The table of a module for the section `.mneme.ir`.
///
/// # Errors
/// A sentence on the builder or the module.
pub fn describe(bitcode: &[u8], origin: UnitOrigin) -> anyhow::Result<IrTable> {
    ask(&[bitcode], Question::Describe { origin }, bitcode).map(|(table, _)| table)
}

/// The module with its kernels and variables under those of `names` that demangle to the same, and the kernels that
/// have none, demangled.
///
/// # Errors
/// As [`describe`].
pub fn rename(bitcode: &[u8], names: Vec<String>) -> anyhow::Result<(Vec<u8>, Vec<String>)> {
    let (missing, renamed) = ask(&[bitcode], Question::Rename { names }, bitcode)?;
    Ok((renamed, missing))
}

/// One object for the CPU device of all kernels of `modules`.
///
/// # Errors
/// As [`describe`].
pub fn cpu_object(
    modules: &[Vec<u8>],
    arch: String,
    compiled: Option<CompileOptions>,
    passes: Option<String>,
) -> anyhow::Result<Vec<u8>> {
    let (parts, blob) = CodeParts::join(modules, None);
    let slices: Vec<&[u8]> = modules.iter().map(Vec::as_slice).collect();
    let ((), object) = ask(&slices, Question::CpuObject { parts, arch, compiled, passes }, &blob)?;
    Ok(object)
}

/// The versions of LLVM whose builders are installed, as text.
pub fn versions() -> String {
    let versions = Builders::find().map_or_else(|_| Vec::new(), |builders| builders.versions());
    let names: Vec<String> = versions.iter().map(u32::to_string).collect();
    if names.is_empty() { "no builder is installed".into() } else { format!("builders of LLVM {}", names.join(", ")) }
}

fn ask<T: DeserializeOwned>(modules: &[&[u8]], question: Question, blob: &[u8]) -> anyhow::Result<(T, Vec<u8>)> {
    let builders = Builders::find()?;
    let program = builders.of(builders.fitting(written_by(modules.iter().copied()))?)?;
    let (answer, blob) = program.ask::<Result<T, String>>(question, blob, LIMIT)?;
    Ok((answer.map_err(anyhow::Error::msg)?, blob))
}
