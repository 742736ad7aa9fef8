//! Checks the constraints of a space file while the parameters get their values.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Fields, FileError, FileSpace, SpaceFault, fields, meaning};
use crate::expression::{self, Expression, Values};
use crate::space::{Constraints, Point};

/// A constraint, or one term of its conjunction.
pub struct Conjunct {
    expression: Expression,
    /// The derived values on which it depends, by index.
    derived: Vec<usize>,
}

/// The dependencies of an expression.
#[derive(Default)]
struct Dependencies {
    parameters: BTreeSet<usize>,
    derived: BTreeSet<usize>,
}

impl FileSpace {
    /// Finds the parameters of constraints and conditions.
    ///
    /// # Errors A condition depends on a parameter that comes after its own.
    pub(super) fn link(&mut self) -> Result<(), FileError> {
        let mut known = self.surroundings.clone();
        Fields::new(&self.recorded).publish(&mut known);
        let names =
            self.parameters.iter().map(|parameter| &parameter.name).chain(self.derived.iter().map(|(name, _)| name));
        names.for_each(|name| super::declare(&mut known, name));
        for constraint in &self.constraints {
            let sides: Option<Vec<Expression>> = expression::conjuncts(constraint.text())
                .into_iter()
                .map(|side| self.language.read(side, &known).ok())
                .collect();
            for expression in sides.unwrap_or_else(|| vec![constraint.clone()]) {
                let mut found = Dependencies::default();
                self.depend(&expression, self.derived.len(), &mut found);
                // An expression without parameters that has no value yet must depend on something.
                if found.parameters.is_empty() && self.truth(&expression, &mut known.clone()).is_err() {
                    found.parameters = (0..self.parameters.len()).collect();
                    found.derived = (0..self.derived.len()).collect();
                }
                self.scopes.push(found.parameters.into_iter().collect());
                self.parts.push(Conjunct { expression, derived: found.derived.into_iter().collect() });
            }
        }
        for place in 0..self.parameters.len() {
            let mut found = Dependencies::default();
            if let Some(condition) = &self.conditions[place] {
                self.depend(condition, 0, &mut found);
                if let Some(later) = found.parameters.iter().find(|parameter| **parameter >= place) {
                    let [name, later] = [place, *later].map(|place| self.parameters[place].name.clone());
                    let key = format!("parameters.{name}.when");
                    let what = SpaceFault::Later { expression: condition.text().into(), later, name };
                    return Err(FileError::new(&self.file, key, what));
                }
            }
            self.deciding.push(found.parameters.into_iter().collect());
        }
        Ok(())
    }

    /// Whether some parameter affects a field of the configuration, directly or through derived values.
    pub(super) fn reaches_a_field(&self) -> bool {
        let mut found = Dependencies::default();
        for (place, (name, expression)) in self.derived.iter().enumerate() {
            if fields::is_field(name) {
                self.depend(expression, place, &mut found);
            }
        }
        !found.parameters.is_empty() || self.parameters.iter().any(|parameter| fields::is_field(&parameter.name))
    }

    /// Adds an expression's dependencies; of derived values only those before `derived`.
    fn depend(&self, expression: &Expression, derived: usize, found: &mut Dependencies) {
        let names = expression::names(expression.text());
        // A dimension stands for all of its axes, and a name before a method (`a.abs()`) for itself.
        let begins = |whole: &str, part: &str| whole.strip_prefix(part).is_some_and(|rest| rest.starts_with('.'));
        let is_meant =
            |name: &str| names.iter().any(|named| *named == name || begins(name, named) || begins(named, name));
        for (place, parameter) in self.parameters.iter().enumerate() {
            if is_meant(&parameter.name) {
                found.parameters.insert(place);
            }
        }
        for (place, (name, expression)) in self.derived[..derived].iter().enumerate() {
            if is_meant(name) && found.derived.insert(place) {
                self.depend(expression, place, found);
            }
        }
    }
}

/// Holds the values so far.
pub struct ConstraintChecker<'a> {
    space: &'a FileSpace,
    fields: Fields,
    values: Values,
    given: Vec<Option<Value>>,
}

impl<'a> ConstraintChecker<'a> {
    pub fn new(space: &'a FileSpace) -> Self {
        let fields = Fields::new(&space.recorded);
        let mut values = space.surroundings.clone();
        fields.publish(&mut values);
        Self { space, fields, values, given: vec![None; space.parameters.len()] }
    }

    fn point(&self) -> Point {
        let given = self.space.parameters.iter().zip(&self.given);
        given.filter_map(|(parameter, value)| Some((parameter.name.clone(), value.clone()?))).collect()
    }
}

impl Constraints for ConstraintChecker<'_> {
    fn scopes(&self) -> &[Vec<usize>] {
        &self.space.scopes
    }

    fn conditions(&self) -> &[Vec<usize>] {
        &self.space.deciding
    }

    fn set(&mut self, parameter: usize, value: Option<&Value>) {
        let of = &self.space.parameters[parameter];
        let value = value.map(|value| meaning(&of.domain, value));
        match (of.name.split_once('.'), &value) {
            // If the parameter does not apply, its field stays as recorded.
            (Some(_), None) => {
                let recorded = Fields::new(&self.space.recorded);
                let value = recorded.axis(&of.name);
                self.fields.take(&of.name, &value, &mut self.values);
            }
            (_, value) => self.fields.take(&of.name, value.as_ref().unwrap_or(&Value::Null), &mut self.values),
        }
        self.fields.changed.clear();
        self.given[parameter] = value;
    }

    fn applies(&mut self, parameter: usize) -> bool {
        match &self.space.conditions[parameter] {
            Some(condition) => self.space.truth(condition, &mut self.space.values(&self.point()).1).unwrap_or(false),
            None => true,
        }
    }

    fn holds(&mut self, constraint: usize) -> bool {
        let Conjunct { expression, derived } = &self.space.parts[constraint];
        if derived.is_empty() {
            return self.space.truth(expression, &mut self.values).unwrap_or(false);
        }
        let (mut fields, mut values) = (self.fields.clone(), self.values.clone());
        for (name, expression) in derived.iter().map(|place| &self.space.derived[*place]) {
            let Ok(value) = self.space.language.evaluate(expression, &mut values) else { return false };
            fields.take(name, &value, &mut values);
        }
        self.space.truth(expression, &mut values).unwrap_or(false)
    }
}
