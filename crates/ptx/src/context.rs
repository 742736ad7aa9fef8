//! The state that the functions of a lifted module share.

use std::collections::BTreeSet;

use super::debug::DebugInfo;
use super::lifted::Statistics;
use super::syntax::{Module, Variable};

/// The target of the code. Most instructions are lifted in the same way for both.
#[derive(Clone, Debug)]
pub enum Target {
    /// A GPU, through LLVM's NVPTX. Instructions without an exact equivalent in LLVM stay inline assembly.
    Nvptx,
    /// The CPU device. Calls of its functions replace GPU-only features.
    Cpu(Results),
}

/// The results of inline assembly: the type of the whole, and of each output.
#[derive(Clone, Debug)]
pub struct Results {
    pub whole: String,
    pub outputs: Vec<String>,
}

/// An NVVM intrinsic that code for the CPU device calls under another name, and its types.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intrinsic {
    /// The name with its prefix, `llvm.nvvm.`.
    pub name: String,
    pub result: String,
    pub parameters: Vec<String>,
}

impl Intrinsic {
    /// The name of the replacing function.
    pub fn stand_in(&self) -> String {
        format!("__mneme_cpu.ptx.{}", self.name)
    }
}

/// State shared by the functions of a module.
pub struct Context<'a> {
    pub target: Target,
    pub module: &'a Module<'a>,
    pub variables: Vec<Variable<'a>>,
    pub names: Vec<String>,
    pub declarations: BTreeSet<String>,
    pub statistics: Statistics,
    pub debug: DebugInfo<'a>,
    /// The intrinsics that code for the CPU device calls.
    pub intrinsics: BTreeSet<Intrinsic>,
    /// Whether code for the CPU device makes its thread wait for others.
    pub collective: bool,
    /// Whether the code uses the shared memory that CUDA reserves for its own libraries.
    pub reserved: bool,
    /// An instruction that the CPU device does not support.
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
            debug: DebugInfo::new(module),
            intrinsics: BTreeSet::new(),
            collective: false,
            reserved: false,
            refused: None,
        }
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
