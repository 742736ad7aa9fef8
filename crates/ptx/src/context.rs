//! The state that the functions of a lifted module share.

use std::collections::BTreeSet;

use super::debug::DebugInfo;
use super::lifted::Statistics;
use super::syntax::{Module, Variable};

/// The target of the code. Most instructions become the same for both.
#[derive(Clone, Debug)]
pub enum Target {
    /// A GPU, by way of LLVM's NVPTX. An instruction that LLVM has no exact operation for stays inline assembly.
    Nvptx,
    /// The CPU device. Calls of its functions stand for what only a GPU has.
    Cpu(Results),
}

/// What inline assembly gives: the type of all of it, and of each output.
#[derive(Clone, Debug)]
pub struct Results {
    pub whole: String,
    pub outputs: Vec<String>,
}

/// An intrinsic of NVVM that code for the CPU device calls under another name, and its types.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intrinsic {
    /// With its prefix, `llvm.nvvm.`.
    pub name: String,
    pub result: String,
    pub parameters: Vec<String>,
}

impl Intrinsic {
    /// The name of the function that stands for it.
    pub fn stand_in(&self) -> String {
        format!("__mneme_cpu.ptx.{}", self.name)
    }
}

/// What the functions of a module share.
pub struct Context<'a> {
    pub target: Target,
    pub module: &'a Module<'a>,
    pub variables: Vec<Variable<'a>>,
    pub names: Vec<String>,
    pub declarations: BTreeSet<String>,
    pub statistics: Statistics,
    pub debug: DebugInfo,
    /// Those that code for the CPU device calls.
    pub intrinsics: BTreeSet<Intrinsic>,
    /// Whether code for the CPU device makes its thread wait for others.
    pub collective: bool,
    /// Whether it uses the shared memory that CUDA reserves for its own libraries.
    pub reserved: bool,
    /// The instruction that the CPU device has not.
    pub refused: Option<&'a str>,
}

impl<'a> Context<'a> {
    pub fn new(target: Target, module: &'a Module<'a>) -> Self {
        Self {
            target,
            module,
            variables: Vec::new(),
            names: Vec::new(),
            declarations: BTreeSet::new(),
            statistics: Statistics::default(),
            debug: DebugInfo::default(),
            intrinsics: BTreeSet::new(),
            collective: false,
            reserved: false,
            refused: None,
        }
    }

    pub fn variable(&self, index: usize) -> &Variable<'a> {
        &self.variables[index]
    }

    pub fn variable_name(&self, index: usize) -> String {
        symbol(&self.names[index])
    }

    pub fn function_name(&self, index: usize) -> String {
        symbol(self.module.functions[index].name)
    }

    pub fn declare(&mut self, declaration: String) {
        self.declarations.insert(declaration);
    }
}

/// `@"name"`.
pub fn symbol(name: &str) -> String {
    format!("@\"{}\"", name.replace('\\', "\\5C"))
}
