//! Draws random points.

use rand::{Rng, RngExt};
use serde_json::Value;

use super::{Domain, Parameter, PassChoice, Point, SearchSpace};

/// A point that is uniform in every domain.
pub fn draw(space: &dyn SearchSpace, rng: &mut impl Rng) -> Point {
    complete(space, Point::new(), |parameter| draw_value(&parameter.domain, rng))
}

/// Gives values to active parameters that have none, and drops values of parameters that do not apply.
pub fn complete(space: &dyn SearchSpace, given: Point, mut value: impl FnMut(&Parameter) -> Value) -> Point {
    let mut point = Point::new();
    for parameter in space.parameters() {
        if space.is_active(parameter, &point) {
            let value = given.get(&parameter.name).cloned().unwrap_or_else(|| value(parameter));
            point.insert(parameter.name.clone(), value);
        }
    }
    point
}

/// A uniformly drawn value of a domain.
pub fn draw_value(domain: &Domain, rng: &mut impl Rng) -> Value {
    match domain {
        Domain::Permutation(values) => shuffled(values, rng).into(),
        Domain::Pipeline(choice) => draw_sequence(choice, rng).into(),
        _ => domain.at(rng.random()),
    }
}

fn shuffled(values: &[Value], rng: &mut impl Rng) -> Vec<Value> {
    let mut order = values.to_vec();
    for end in (1..order.len()).rev() {
        order.swap(end, rng.random_range(0..=end));
    }
    order
}

fn draw_sequence(choice: &PassChoice, rng: &mut impl Rng) -> Vec<Value> {
    let length = rng.random_range(choice.shortest..=choice.longest);
    (0..length).map(|_| choice.passes[rng.random_range(0..choice.passes.len())].as_str().into()).collect()
}
