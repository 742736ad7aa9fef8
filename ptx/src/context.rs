//! The state that the functions of a lifted module share.

use std::collections::BTreeSet;

use super::Statistics;
use super::debug::DebugInfo;
use super::syntax::{Module, Variable};

/// What the functions of a module share.
pub struct Context<'a> {
    pub module: &'a Module<'a>,
    pub variables: Vec<Variable<'a>>,
    pub names: Vec<String>,
    pub declarations: BTreeSet<String>,
    pub statistics: Statistics,
    pub debug: DebugInfo,
}

impl<'a> Context<'a> {
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
