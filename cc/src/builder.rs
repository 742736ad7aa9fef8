//! Asks the builder of the right LLVM version about device code.

use std::time::Duration;

use mneme_builds::Refusal;
use mneme_builds::builders::{Builders, written_by};
use mneme_builds::protocol::{CodeParts, Question, UnitOrigin};
use mneme_image::ir_section::IrTable;
use mneme_model::compile_options::CompileOptions;
use serde::de::DeserializeOwned;

/// A limit that no compilation reaches.
const LIMIT: Duration = Duration::from_secs(3600);

/// The table of a module for the section `.mneme.ir`.
///
/// # Errors
/// A sentence about the builder or the module.
pub fn describe(bitcode: &[u8], origin: UnitOrigin) -> anyhow::Result<IrTable> {
    ask(&[bitcode], Question::Describe { origin }, bitcode).map(|(table, _)| table)
}

/// Renames the module's kernels and variables to those of `names` that demangle to the same. Returns also the kernels
/// without such a name, demangled.
///
/// # Errors
/// As [`describe`].
pub fn rename(bitcode: &[u8], names: Vec<String>) -> anyhow::Result<(Vec<u8>, Vec<String>)> {
    let (missing, renamed) = ask(&[bitcode], Question::Rename { names }, bitcode)?;
    Ok((renamed, missing))
}

/// Compiles all kernels of `modules` into one object for the CPU device.
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
    let (answer, blob) = program.ask::<Result<T, Refusal>>(question, blob, LIMIT)?;
    Ok((answer?, blob))
}
