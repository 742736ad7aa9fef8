//! Runs a pass pipeline, in the syntax of `opt -passes`.
//!
//! The pipeline runs in this process, or in a program like `opt`.

pub mod external;
mod forget;
pub mod invocations;
mod names;
pub mod revise;

use std::borrow::Cow;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use inkwell::values::FunctionValue;
use mneme_builds::progress::BuildProgress;
use mneme_model::llvm_version;

pub use self::invocations::{CodegenInvocations, Invocations};
pub use crate::llvm::PassObserver;
use crate::llvm::{self, LlvmError};

use crate::error::BuildError;
use crate::ir::diagnostics::Diagnostics;

/// Runs `pipeline` over `module`.
pub fn run(
    module: &Module<'_>,
    pipeline: &str,
    machine: &TargetMachine,
    diagnostics: &Diagnostics<'_>,
    observer: &mut dyn PassObserver,
    instrument: bool,
) -> Result<(), BuildError> {
    let failed = |message: String| BuildError::Pipeline { pipeline: pipeline.to_owned(), message };
    // LLVM rejects the empty string, but `opt` without passes leaves the module unchanged.
    if pipeline.trim().is_empty() {
        return Ok(());
    }
    let (passes, attributes) = for_size(pipeline);
    attributes.iter().for_each(|name| set_on_functions(module, name));
    llvm::run(module, &normalise(&passes), machine, observer, instrument)
        .map_err(|LlvmError(message)| problem(pipeline, machine).unwrap_or_else(|| failed(message)))?;
    match diagnostics.take() {
        Some(message) => Err(failed(message)),
        None => module.verify().map_err(|error| failed(format!("it left invalid IR: {error}"))),
    }
}

/// Records which pass is running, in case the process dies, and calls another observer.
pub struct ProgressObserver<'p, 'o> {
    pub progress: Option<&'p BuildProgress>,
    pub other: Option<&'o mut dyn PassObserver>,
}

impl PassObserver for ProgressObserver<'_, '_> {
    fn before(&mut self, module: &Module<'_>, number: u64, pass: &str, unit: &str) -> bool {
        if let Some(progress) = self.progress {
            progress.pass(number, pass, unit);
        }
        self.other.as_mut().is_none_or(|other| other.before(module, number, pass, unit))
    }

    fn after(&mut self, module: &Module<'_>, number: u64) {
        if let Some(other) = &mut self.other {
            other.after(module, number);
        }
    }
}

/// Why LLVM cannot parse a pipeline, with a suggested name; `None` if it can.
pub fn problem(pipeline: &str, machine: &TargetMachine) -> Option<BuildError> {
    if pipeline.trim().is_empty() {
        return None;
    }
    let LlvmError(message) = llvm::parse(&normalise(&for_size(pipeline).0), machine).err()?;
    Some(BuildError::NoPipeline { pipeline: pipeline.to_owned(), message: names::explain(&message) })
}

/// The pipeline with every pass and its parameters; `None` if LLVM cannot parse it.
pub fn expand(pipeline: &str, machine: &TargetMachine) -> Option<String> {
    llvm::print(&normalise(&for_size(pipeline).0), machine)
}

/// The replacement for pipelines that optimise for size, which LLVM 23 dropped: O2 with function attributes. Returns
/// the pipeline and the attributes.
fn for_size(pipeline: &str) -> (Cow<'_, str>, &'static [&'static str]) {
    const LEVELS: [(&str, &[&str]); 2] = [("<Oz>", &["optsize", "minsize"]), ("<Os>", &["optsize"])];
    let used = LEVELS.into_iter().find(|(level, _)| pipeline.contains(level));
    match used.filter(|_| llvm_version::major(&crate::version::llvm_version()) >= Some(23)) {
        Some((_, attributes)) => (pipeline.replace("<Oz>", "<O2>").replace("<Os>", "<O2>").into(), attributes),
        None => (pipeline.into(), &[]),
    }
}

fn set_on_functions(module: &Module<'_>, attribute: &str) {
    let attribute = module.get_context().create_enum_attribute(Attribute::get_named_enum_kind_id(attribute), 0);
    // LLVM does not allow `optnone` together with these attributes.
    let optnone = Attribute::get_named_enum_kind_id("optnone");
    let takes = |function: &FunctionValue<'_>| {
        function.count_basic_blocks() > 0 && function.get_enum_attribute(AttributeLoc::Function, optnone).is_none()
    };
    let functions = module.get_functions().filter(takes);
    functions.for_each(|function| function.add_attribute(AttributeLoc::Function, attribute));
}

/// Gives a bare `instcombine` the parameter that every `default<…>` pipeline gives it. Without it, LLVM 19 aborts if
/// one iteration does not reach a fixpoint, which happens with ordinary kernels.
pub(crate) fn normalise(pipeline: &str) -> String {
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
            (
                "instcombine<max-iterations=2>,instcombine",
                "instcombine<max-iterations=2>,instcombine<no-verify-fixpoint>",
            ),
            ("aggressive-instcombine,my-instcombine-x", "aggressive-instcombine,my-instcombine-x"),
            ("default<O3>", "default<O3>"),
        ] {
            assert_eq!(normalise(given), expected);
        }
    }
}
