//! Runs a pass pipeline, in the syntax of `opt -passes`.

use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetMachine;

use crate::ir::diagnostics::Diagnostics;
use crate::request::BuildError;

/// Runs `pipeline` over `module`. An unknown pass is LLVM's own message.
pub fn run(module: &Module<'_>, pipeline: &str, machine: &TargetMachine, diagnostics: &Diagnostics<'_>) -> Result<(), BuildError> {
    let failed = |message: String| BuildError::Pipeline { pipeline: pipeline.to_owned(), message };
    if pipeline.contains('\0') {
        return Err(failed("it contains a NUL character".into()));
    }
    // LLVM reads the empty string as an error; `opt` without passes changes nothing.
    if pipeline.trim().is_empty() {
        return Ok(());
    }
    module.run_passes(&normalise(pipeline), machine, PassBuilderOptions::create()).map_err(|error| failed(error.to_string()))?;
    match diagnostics.take() {
        Some(message) => Err(failed(message)),
        None => module.verify().map_err(|error| failed(format!("it left invalid IR: {error}"))),
    }
}

/// Gives a bare `instcombine` the parameter that every `default<…>` pipeline gives it: without, LLVM 19 verifies that
/// one iteration reached a fixpoint and aborts on ordinary kernels where it did not.
fn normalise(pipeline: &str) -> String {
    const NAME: &str = "instcombine";
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut normal = String::new();
    let mut rest = pipeline;
    while let Some(at) = rest.find(NAME) {
        let (before, after) = (&rest[..at], &rest[at + NAME.len()..]);
        normal.push_str(before);
        normal.push_str(NAME);
        let whole_word = !before.ends_with(part_of_name) && !after.starts_with(part_of_name);
        if whole_word && !after.starts_with('<') {
            normal.push_str("<no-verify-fixpoint>");
        }
        rest = after;
    }
    normal + rest
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn only_a_bare_instcombine_changes() {
        for (given, expected) in [
            ("instcombine", "instcombine<no-verify-fixpoint>"),
            ("function(instcombine,simplifycfg)", "function(instcombine<no-verify-fixpoint>,simplifycfg)"),
            ("instcombine<max-iterations=2>,instcombine", "instcombine<max-iterations=2>,instcombine<no-verify-fixpoint>"),
            ("aggressive-instcombine,my-instcombine-x", "aggressive-instcombine,my-instcombine-x"),
            ("default<O3>", "default<O3>"),
        ] {
            assert_eq!(normalise(given), expected);
        }
    }
}
