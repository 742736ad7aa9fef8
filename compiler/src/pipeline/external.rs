//! Runs a pass pipeline in another program.
//!
//! The program is an `opt` of the same LLVM version, which has loaded additional passes.

use std::path::Path;
use std::process::{Command, Stdio};

use inkwell::context::Context;
use inkwell::module::Module;
use mneme_builds::plan::External;
use mneme_sandbox::tools::{self, TransientFile};

use crate::error::BuildError;
use crate::ir::diagnostics::Diagnostics;
use crate::ir::read;
use crate::version::LLVM_MAJOR;

/// Runs `pipeline` over `module`. The program's result replaces the module.
pub fn run<'ctx>(
    external: &External,
    context: &'ctx Context,
    module: &Module<'ctx>,
    pipeline: &str,
    diagnostics: &Diagnostics<'_>,
) -> Result<Module<'ctx>, BuildError> {
    let program = external.program.clone().unwrap_or_else(|| format!("opt-{LLVM_MAJOR}").into());
    let failed = |message: String| BuildError::External { program: program.display().to_string(), message };
    let pass = |contents: &[u8]| {
        TransientFile::new(contents).map_err(|error| failed(format!("the IR cannot be passed to it: {error}")))
    };
    let (before, mut after) = (pass(module.write_bitcode_to_memory().as_slice())?, pass(&[])?);
    let output =
        tools::output(&mut command(&program, external, pipeline, before.path(), after.path())).map_err(|error| {
            failed(format!(
                "it cannot be run ({error}); --opt names a program of LLVM {}",
                crate::version::llvm_version()
            ))
        })?;
    if !output.status.success() {
        let said = complaint(&String::from_utf8_lossy(&output.stderr));
        return Err(failed(format!("it ended with {}: {said}", output.status)));
    }
    // Passes may print messages for the user.
    let said = String::from_utf8_lossy(&output.stderr);
    if !said.trim_end().is_empty() {
        mneme_system::remark!("{}", said.trim_end());
    }
    let bitcode = after.read().map_err(|error| failed(format!("the IR that it wrote cannot be read: {error}")))?;
    if bitcode.is_empty() {
        return Err(failed("it wrote no IR to the file that -o names".into()));
    }
    read::parse(context, diagnostics, &bitcode)
}

fn command(program: &Path, external: &External, pipeline: &str, before: &Path, after: &Path) -> Command {
    let mut command = Command::new(program);
    for plugin in &external.plugins {
        command.arg(format!("-load-pass-plugin={}", plugin.display()));
    }
    // A name without a slash would be searched on the library path only.
    command
        .arg(format!("-passes={}", super::normalise(pipeline)))
        .args(&external.arguments)
        .arg(before)
        .arg("-o")
        .arg(after);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The line that describes the failure, among those that a program printed.
pub(crate) fn complaint(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = |line: &&str| ["LLVM ERROR", "error:", "Assertion", "Error"].iter().any(|word| line.contains(word));
    lines.clone().find(telling).or_else(|| lines.next()).unwrap_or("it gives no reason").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_line_is_found() {
        assert_eq!(
            complaint("warning: x\n\nopt-19: error: unknown pass\n Stack dump:\n"),
            "opt-19: error: unknown pass"
        );
        assert_eq!(complaint("what now\nmore"), "what now");
        assert_eq!(complaint("  \n"), "it gives no reason");
    }
}
