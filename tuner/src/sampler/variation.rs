//! Small changes of points and crossings of two points, for evolution and local search.

use std::collections::BTreeSet;

use rand::{Rng, RngExt};
use serde_json::Value;

use crate::space::{Domain, Parameter, PassChoice, Point, SearchSpace};

use crate::space::draw::{complete, draw_value};

/// Draws values for missing parameters, and drops those that do not apply.
pub(super) fn completed(space: &dyn SearchSpace, point: Point, rng: &mut impl Rng) -> Point {
    complete(space, point, |parameter| draw_value(&parameter.domain, rng))
}

/// Changes one parameter a little, and draws parameters that this activates.
pub fn neighbour(space: &dyn SearchSpace, point: &Point, rng: &mut impl Rng) -> Point {
    let movable: Vec<&Parameter> = space
        .parameters()
        .iter()
        .filter(|parameter| point.contains_key(&parameter.name) && parameter.domain.size() != Some(1))
        .collect();
    let mut changed = point.clone();
    if !movable.is_empty() {
        let parameter = movable[rng.random_range(0..movable.len())];
        let value = step(&parameter.domain, &point[&parameter.name], rng);
        changed.insert(parameter.name.clone(), value);
    }
    complete(space, changed, |parameter| draw_value(&parameter.domain, rng))
}

/// Changes each parameter with probability `rate`; numbers sometimes move far.
pub fn mutate(space: &dyn SearchSpace, point: &Point, rate: f64, rng: &mut impl Rng) -> Point {
    let mut changed = point.clone();
    for parameter in space.parameters() {
        if let Some(value) = changed.get_mut(&parameter.name)
            && rng.random_bool(rate)
        {
            *value = if rng.random_bool(0.25) {
                draw_value(&parameter.domain, rng)
            } else {
                step(&parameter.domain, value, rng)
            };
        }
    }
    complete(space, changed, |parameter| draw_value(&parameter.domain, rng))
}

/// Mixes the values of two parents.
pub fn cross(space: &dyn SearchSpace, mother: &Point, father: &Point, rng: &mut impl Rng) -> Point {
    let mut child = Point::new();
    for parameter in space.parameters() {
        let value = match (mother.get(&parameter.name), father.get(&parameter.name)) {
            (Some(mother), Some(father)) => mix(&parameter.domain, mother, father, rng),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => continue,
        };
        child.insert(parameter.name.clone(), value);
    }
    complete(space, child, |parameter| draw_value(&parameter.domain, rng))
}

/// Another value near this one, if the domain has another.
pub(super) fn step(domain: &Domain, value: &Value, rng: &mut impl Rng) -> Value {
    match domain {
        Domain::Integer { low, high, step, log } => {
            let (value, reach) = (value.as_i64().unwrap_or(*low), (high - low) / step);
            if reach == 0 {
                return value.into();
            }
            // Short and long steps are equally likely on a scale of ratios, up to a quarter of the extent, or to twice
            // the value on a logarithmic scale.
            let far = if *log { value as f64 / *step as f64 } else { reach as f64 * 0.25 };
            let length = far.max(1.0).powf(rng.random()).round() as i64;
            let moved = value + if rng.random_bool(0.5) { length } else { -length } * step;
            let last = low + reach * step;
            let moved = if (*low..=last).contains(&moved) { moved } else { 2 * value - moved };
            let moved = moved.clamp(*low, last);
            if moved == value { if value < last { value + step } else { value - step } } else { moved }.into()
        }
        Domain::Real { low, high, step: None, log } => {
            let value = value.as_f64().unwrap_or(*low);
            let shift = 0.2 * (rng.random::<f64>() + rng.random::<f64>() - 1.0);
            let moved = if *log { value * (high / low).powf(shift) } else { value + shift * (high - low) };
            moved.clamp(*low, *high).into()
        }
        Domain::Real { low, step: Some(step), .. } => {
            let last = domain.size().unwrap_or(1) - 1;
            let index = ((value.as_f64().unwrap_or(*low) - low) / step).round().max(0.0) as u64;
            let up = index < last && (index == 0 || rng.random_bool(0.5));
            domain.nth(if up { index + 1 } else { index.saturating_sub(1) })
        }
        Domain::Categorical(values) => {
            let others: Vec<&Value> = values.iter().filter(|other| *other != value).collect();
            if others.is_empty() { value.clone() } else { others[rng.random_range(0..others.len())].clone() }
        }
        Domain::Boolean => (!value.as_bool().unwrap_or(false)).into(),
        Domain::Permutation(values) => {
            let mut order = value.as_array().cloned().unwrap_or_else(|| values.clone());
            if order.len() > 1 {
                let from = rng.random_range(0..order.len());
                let moved = order.remove(from);
                let mut to = rng.random_range(0..order.len());
                if to >= from {
                    to += 1;
                }
                order.insert(to, moved);
            }
            order.into()
        }
        Domain::Pipeline(choice) => edit(choice, value.as_array().map_or(&[], Vec::as_slice), rng).into(),
    }
}

/// Adds, removes, replaces or moves a pass of a sequence; sometimes repeats or drops a part.
pub(super) fn edit(choice: &PassChoice, sequence: &[Value], rng: &mut impl Rng) -> Vec<Value> {
    let mut edited = sequence.to_vec();
    let pass = |rng: &mut _| Value::from(choice.passes[RngExt::random_range(rng, 0..choice.passes.len())].as_str());
    let stretch = |length: usize, rng: &mut _| {
        let from = RngExt::random_range(rng, 0..length);
        from..(from + RngExt::random_range(rng, 1..=4usize)).min(length)
    };
    match rng.random_range(0..10) {
        0..=2 => {
            let place = rng.random_range(0..=edited.len());
            edited.insert(place, pass(rng));
        }
        3..=4 if !edited.is_empty() => {
            edited.remove(rng.random_range(0..edited.len()));
        }
        5..=6 if !edited.is_empty() => {
            let place = rng.random_range(0..edited.len());
            edited[place] = pass(rng);
        }
        7 if edited.len() > 1 => {
            let moved = edited.remove(rng.random_range(0..edited.len()));
            edited.insert(rng.random_range(0..=edited.len()), moved);
        }
        8 if !edited.is_empty() => {
            edited.drain(stretch(edited.len(), rng));
        }
        9 if !edited.is_empty() => {
            let repeated = edited[stretch(edited.len(), rng)].to_vec();
            let place = rng.random_range(0..=edited.len());
            edited.splice(place..place, repeated);
        }
        _ => edited.push(pass(rng)),
    }
    edited.truncate(choice.longest);
    while edited.len() < choice.shortest {
        edited.push(pass(rng));
    }
    edited
}

fn mix(domain: &Domain, mother: &Value, father: &Value, rng: &mut impl Rng) -> Value {
    match (domain, mother.as_array(), father.as_array()) {
        (Domain::Permutation(_), Some(mother), Some(father)) => ordered(mother, father, rng).into(),
        (Domain::Pipeline(choice), Some(mother), Some(father)) => splice(choice, mother, father, rng).into(),
        _ => if rng.random_bool(0.5) { mother } else { father }.clone(),
    }
}

/// A part of one order, the rest in the order of the other (order crossover).
fn ordered(mother: &[Value], father: &[Value], rng: &mut impl Rng) -> Vec<Value> {
    let from = rng.random_range(0..=mother.len());
    let to = rng.random_range(from..=mother.len());
    let kept = &mother[from..to];
    let mut rest = father.iter().filter(|value| !kept.contains(value)).cloned();
    let mut child: Vec<Value> = rest.by_ref().take(from).collect();
    child.extend_from_slice(kept);
    child.extend(rest);
    child
}

/// The beginning of one sequence and the end of the other, cut at about the same share.
fn splice(choice: &PassChoice, mother: &[Value], father: &[Value], rng: &mut impl Rng) -> Vec<Value> {
    let share: f64 = rng.random();
    let cut = |sequence: &[Value]| (share * sequence.len() as f64).round() as usize;
    let mut child = [&mother[..cut(mother)], &father[cut(father)..]].concat();
    child.truncate(choice.longest);
    if child.len() < choice.shortest { mother.to_vec() } else { child }
}

/// The sequences that result from leaving out one of `parts` parts.
pub fn cuts(sequence: &[Value], parts: usize) -> Vec<Vec<Value>> {
    let parts = parts.min(sequence.len());
    let mut seen = BTreeSet::new();
    (0..parts)
        .map(|part| {
            let (from, to) = (part * sequence.len() / parts, (part + 1) * sequence.len() / parts);
            [&sequence[..from], &sequence[to..]].concat()
        })
        .filter(|cut| seen.insert(Value::from(cut.clone()).to_string()))
        .collect()
}
