//! Expressions that were read, and their values.

use super::functions::Function;
use super::value::{self, Comparison, Found, Kind, Operator, Sign, Value};

/// An expression that was read. Names are the places of parameters.
#[derive(Clone, Debug)]
pub enum Node {
    Constant(Value),
    Name(usize),
    Sequence(Kind, Vec<Node>),
    Call(Function, Vec<Node>),
    Item(Box<Node>, Box<Node>),
    Unary(Sign, Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Not(Box<Node>),
    /// `and`; a value of its last side, or the first that is not true.
    All(Vec<Node>),
    /// `or`.
    Any(Vec<Node>),
    /// `a < b < c`.
    Comparison(Box<Node>, Vec<(Comparison, Node)>),
    /// `a if condition else b`, as condition, a and b.
    Choice(Box<[Node; 3]>),
}

impl Node {
    /// The value, where parameters have these.
    pub fn evaluate(&self, parameters: &[Value]) -> Found {
        let all = |nodes: &[Self]| nodes.iter().map(|node| node.evaluate(parameters)).collect::<Result<Vec<_>, _>>();
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Name(place) => Ok(parameters[*place].clone()),
            Self::Sequence(kind, items) => Value::sequence(*kind, all(items)?),
            Self::Call(function, arguments) => function.call(&all(arguments)?),
            Self::Item(of, place) => of.evaluate(parameters)?.item(&place.evaluate(parameters)?),
            Self::Unary(sign, of) => value::unary(*sign, &of.evaluate(parameters)?),
            Self::Binary(operator, left, right) => {
                value::binary(*operator, &left.evaluate(parameters)?, &right.evaluate(parameters)?)
            }
            Self::Not(of) => Ok(Value::Bool(!of.evaluate(parameters)?.truth())),
            Self::All(sides) => decided(sides, false, parameters),
            Self::Any(sides) => decided(sides, true, parameters),
            Self::Comparison(first, others) => {
                let mut left = first.evaluate(parameters)?;
                for (comparison, other) in others {
                    let right = other.evaluate(parameters)?;
                    if !value::compare(*comparison, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            Self::Choice(parts) => {
                let [condition, first, second] = &**parts;
                if condition.evaluate(parameters)?.truth() { first } else { second }.evaluate(parameters)
            }
        }
    }

    /// Its value instead, where it is made of constants and has one.
    pub fn folded(self) -> Self {
        let is_constant = |node: &Self| matches!(node, Self::Constant(_));
        let can_be = match &self {
            Self::Sequence(_, nodes) | Self::Call(_, nodes) => nodes.iter().all(is_constant),
            Self::Unary(_, of) => is_constant(of),
            Self::Binary(_, left, right) => is_constant(left) && is_constant(right),
            _ => false,
        };
        match can_be.then(|| self.evaluate(&[])) {
            Some(Ok(value)) => Self::Constant(value),
            _ => self,
        }
    }

    /// The expressions that all have to be true for this one to be.
    pub fn conjuncts(&self) -> Vec<Self> {
        match self {
            Self::All(sides) => sides.iter().flat_map(Self::conjuncts).collect(),
            Self::Comparison(first, others) => {
                let before = std::iter::once(&**first).chain(others.iter().map(|(_, other)| other));
                let pairs = before.zip(others);
                pairs.map(|(left, right)| Self::Comparison(Box::new(left.clone()), vec![right.clone()])).collect()
            }
            other => vec![other.clone()],
        }
    }

    /// Adds the places of the parameters that it is about.
    pub fn parameters(&self, found: &mut std::collections::BTreeSet<usize>) {
        match self {
            Self::Constant(_) => {}
            Self::Name(place) => {
                found.insert(*place);
            }
            Self::Sequence(_, nodes) | Self::Call(_, nodes) | Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.parameters(found));
            }
            Self::Unary(_, of) | Self::Not(of) => of.parameters(found),
            Self::Item(left, right) | Self::Binary(_, left, right) => {
                left.parameters(found);
                right.parameters(found);
            }
            Self::Comparison(first, others) => {
                first.parameters(found);
                others.iter().for_each(|(_, other)| other.parameters(found));
            }
            Self::Choice(parts) => parts.iter().for_each(|node| node.parameters(found)),
        }
    }
}

/// The first side with a truth, which decides; the last one where none has it.
fn decided(sides: &[Node], truth: bool, parameters: &[Value]) -> Found {
    let Some((last, others)) = sides.split_last() else { return Ok(Value::Bool(!truth)) };
    for side in others {
        let value = side.evaluate(parameters)?;
        if value.truth() == truth {
            return Ok(value);
        }
    }
    last.evaluate(parameters)
}
