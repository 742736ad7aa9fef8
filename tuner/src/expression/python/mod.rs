//! Restrictions in Python, as the spaces of Kernel Tuner have them, with Python's meaning.
//!
//! Numbers, text, lists and what Python's operators and a few of its functions do with them are understood; what is not
//! is refused when a restriction is read.

mod functions;
mod node;
mod parser;
#[cfg(test)]
mod tests;
mod token;
mod value;

use std::collections::BTreeSet;

use node::Node;
pub use value::{Trouble, Value};

/// What has to be true of the parameters of a point.
#[derive(Clone, Debug)]
pub struct Restriction {
    text: String,
    condition: Condition,
}

/// A restriction, or one of several sides of it that all have to be true.
#[derive(Clone, Debug)]
pub struct Condition {
    node: Node,
    /// Places of the parameters that it is about, ascending.
    pub parameters: Vec<usize>,
}

impl Restriction {
    /// Reads a restriction such as `32 <= x * y <= 1024 and (p == 0 or x % 32 != 0)` about the parameters `names`.
    ///
    /// # Errors
    /// A sentence with the restriction and what is not understood.
    pub fn read(text: &str, names: &[String]) -> Result<Self, String> {
        match parser::read(text, names) {
            Ok(node) => Ok(Self { text: text.trim().to_owned(), condition: Condition::of(node) }),
            Err(what) => Err(format!("the restriction '{}' {what}", text.trim())),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// The sides that all have to be true, each by itself.
    pub fn sides(&self) -> Vec<Condition> {
        self.condition.node.conjuncts().into_iter().map(Condition::of).collect()
    }
}

impl Condition {
    fn of(node: Node) -> Self {
        let mut found = BTreeSet::new();
        node.parameters(&mut found);
        Self { node, parameters: found.into_iter().collect() }
    }

    /// Whether it is true where the parameters have these values.
    ///
    /// # Errors
    /// Python raises an exception, or computes what is not computed here.
    pub fn holds(&self, values: &[Value]) -> Result<bool, Trouble> {
        Ok(self.node.evaluate(values)?.truth())
    }
}
