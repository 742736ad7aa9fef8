//! The description of an instrumented instruction.

use llvm_sys::core::*;
use mneme_model::observation::{Site, SourceLine};

use super::accesses::MemoryAccess;
use crate::ir::{Value, edit};
use crate::llvm;

/// Collects sites; a site's number is its index.
#[derive(Default)]
pub struct Sites(pub Vec<Site>);

impl Sites {
    pub fn add(&mut self, access: &MemoryAccess<'_>, variable: Option<String>) -> u32 {
        self.0.push(Site { variable, bytes: access.bytes(), access: access.access, ..of(access.instruction) });
        (self.0.len() - 1) as u32
    }

    pub fn add_read(&mut self, instruction: Value<'_>, bytes: u64, variable: Option<String>) -> u32 {
        self.0.push(Site { variable, bytes, ..of(instruction) });
        (self.0.len() - 1) as u32
    }
}

/// Describes the place of an instruction.
pub fn of(instruction: Value<'_>) -> Site {
    Site {
        function: function(instruction),
        instruction: text(instruction),
        source: source(instruction),
        ..Site::default()
    }
}

/// The instruction as LLVM writes it, without metadata.
fn text(instruction: Value<'_>) -> String {
    let text = edit::text(instruction);
    text.split(", !").next().unwrap_or_default().trim().to_owned()
}

/// The name of the function that holds the instruction.
fn function(instruction: Value<'_>) -> String {
    // SAFETY: a live instruction is in a block of a function.
    let function = Value::new(unsafe { LLVMGetBasicBlockParent(LLVMGetInstructionParent(instruction.raw())) });
    function.map(|function| readable(&function.name())).unwrap_or_default()
}

/// A name as in the source, if it can be demangled. Only mangled names are: other names may be the code of a type (`d`
/// demangles to `double`).
pub fn readable(name: &str) -> String {
    if !name.starts_with("_Z") {
        return name.to_owned();
    }
    cpp_demangle::Symbol::new(name)
        .map_or_else(|_| name.to_owned(), |symbol| symbol.demangle().unwrap_or_else(|_| name.to_owned()))
}

fn source(instruction: Value<'_>) -> Vec<SourceLine> {
    let line = |line: &str| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (file, line, column, function) =
            (next().to_owned(), next().parse().unwrap_or(0), next().parse().unwrap_or(0), readable(next()));
        SourceLine { file, line, column, function }
    };
    llvm::location(instruction.raw()).unwrap_or_default().lines().map(line).collect()
}
