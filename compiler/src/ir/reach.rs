//! The globals that a global refers to, directly or through constant expressions.

use std::collections::{BTreeSet, HashSet};

use super::Value;

/// The globals that the definition of `global` mentions, each once and without itself.
pub fn references(global: Value<'_>) -> BTreeSet<Value<'_>> {
    let mut found = BTreeSet::new();
    let mut seen = HashSet::new();
    let mut pending: Vec<Value<'_>> = if global.as_function().is_some() {
        global.instructions().into_iter().flat_map(Value::operands).filter(|operand| operand.is_constant()).collect()
    } else {
        global.operands()
    };
    while let Some(value) = pending.pop() {
        if !seen.insert(value) {
            continue;
        }
        if value.as_global().is_some() {
            if value != global {
                found.insert(value);
            }
        } else if value.is_constant() {
            pending.extend(value.operands());
        }
    }
    found
}

/// All globals that the roots reach, including the roots.
pub fn closure<'m>(roots: impl IntoIterator<Item = Value<'m>>) -> HashSet<Value<'m>> {
    let mut pending: Vec<Value<'m>> = roots.into_iter().collect();
    let mut reached: HashSet<Value<'m>> = pending.iter().copied().collect();
    while let Some(global) = pending.pop() {
        for reference in references(global) {
            if reached.insert(reference) {
                pending.push(reference);
            }
        }
    }
    reached
}
