//! The closure of each kernel: the functions and variables that it reaches.
//!
//! The closure shows whether the kernel's threads wait for each other, and what makes the kernel impossible to run.

use std::collections::{BTreeSet, HashMap, HashSet};

use inkwell::module::Module;

use crate::ir::{self, Value, annotations};

use super::SHARED;
use super::replace::Replaced;
use crate::ir::edit;

/// A kernel and its closure.
pub struct KernelClosure<'m> {
    pub function: Value<'m>,
    pub name: String,
    pub collective: bool,
    /// Shared variables, in the order of the module.
    pub shared: Vec<Value<'m>>,
    /// Why it cannot run.
    pub refusal: Option<String>,
}

/// Finds the kernels of the module.
pub fn kernels<'m>(module: &'m Module<'_>, replaced: &Replaced<'m>) -> Vec<KernelClosure<'m>> {
    let mut references = References::default();
    annotations::kernels(module)
        .into_iter()
        .map(|function| analyse(module, function, replaced, &mut references))
        .collect()
}

fn analyse<'m>(
    module: &'m Module<'_>,
    function: Value<'m>,
    replaced: &Replaced<'m>,
    references: &mut References<'m>,
) -> KernelClosure<'m> {
    let mut seen = HashSet::from([function]);
    let mut pending = vec![function];
    let mut collective = false;
    let mut reasons = BTreeSet::new();
    while let Some(value) = pending.pop() {
        collective |= replaced.collective.contains(&value);
        if replaced.reserved.contains(&value) {
            pending.extend(replaced.reserved_address.filter(|address| seen.insert(*address)));
        }
        if let Some(reason) = replaced.unsupported.get(&value) {
            reasons.insert(reason.clone());
        }
        if let Some(variable) =
            value.as_variable().filter(|variable| variable.space() != SHARED && variable.is_declaration())
        {
            reasons.insert(format!("undefined device variable `{}`", variable.name()));
        }
        let found = references.of(value);
        collective |= found.calls_indirectly;
        for global in &found.globals {
            if value.as_variable().is_some() && global.as_variable().is_some_and(|g| g.space() == SHARED) {
                reasons.insert(format!("a table of shared-memory addresses (`{}`)", value.name()));
            }
            if seen.insert(*global) {
                pending.push(*global);
            }
        }
    }
    KernelClosure {
        function,
        name: function.name(),
        collective,
        shared: ir::variables(module).into_iter().filter(|v| v.space() == SHARED && seen.contains(v)).collect(),
        refusal: (!reasons.is_empty()).then(|| reasons.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// The globals in a function's instructions or in a variable's initialiser.
#[derive(Clone, Default)]
struct Found<'m> {
    globals: Vec<Value<'m>>,
    calls_indirectly: bool,
}

#[derive(Default)]
struct References<'m>(HashMap<Value<'m>, Found<'m>>);

impl<'m> References<'m> {
    fn of(&mut self, global: Value<'m>) -> Found<'m> {
        self.0.entry(global).or_insert_with(|| find(global)).clone()
    }
}

fn find(global: Value<'_>) -> Found<'_> {
    let mut found = Found::default();
    let mut seen = HashSet::new();
    let mut pending = Vec::new();
    if global.as_function().is_some() {
        for instruction in global.instructions() {
            if instruction.is_call() {
                let callee = edit::called_value(instruction);
                found.calls_indirectly |=
                    callee.is_some_and(|callee| callee.as_function().is_none() && edit::inline_asm(callee).is_none());
            }
            pending.extend(instruction.operands().into_iter().filter(|operand| operand.is_constant()));
        }
    } else if global.as_variable().is_some() {
        pending.extend(global.initializer());
    } else {
        pending.extend(global.operands());
    }
    while let Some(value) = pending.pop() {
        if !seen.insert(value) {
            continue;
        }
        if value.as_global().is_some() {
            found.globals.push(value);
        } else {
            pending.extend(value.operands());
        }
    }
    found
}
