//! Walks every point of a finite space in order; the last parameter varies fastest.

use super::{Point, SearchSpace};
use crate::interrupt;

/// Points walked between checks whether the session should end.
const ASK: u64 = 1 << 10;

/// All points of a finite space, including those that constraints reject.
pub fn walk(space: &dyn SearchSpace) -> impl Iterator<Item = Point> {
    let mut odometer = Odometer::default();
    std::iter::from_fn(move || odometer.next(space))
}

/// The position of a walk.
#[derive(Debug, Default)]
pub enum Odometer {
    #[default]
    Start,
    /// Index of each parameter's value; `None` if it does not apply.
    At(Vec<Option<u64>>),
    End,
}

impl Odometer {
    /// The next point that satisfies all known constraints. Skips points with an invalid beginning at once. Also `None`
    /// if the session should end first.
    pub fn next_valid(&mut self, space: &dyn SearchSpace) -> Option<Point> {
        let Some(mut constraints) = space.constraints() else { return self.next(space) };
        // Constraints on the first parameters come first.
        let mut order: Vec<(usize, usize)> = constraints
            .scopes()
            .iter()
            .enumerate()
            .map(|(number, scope)| (scope.last().map_or(0, |last| *last), number))
            .collect();
        order.sort_unstable();
        for tried in 1u64.. {
            if tried.is_multiple_of(ASK) && interrupt::is_due() {
                return None;
            }
            let point = self.next(space)?;
            for (place, parameter) in space.parameters().iter().enumerate() {
                constraints.set(place, point.get(&parameter.name));
            }
            let Some((last, _)) = order.iter().find(|(_, number)| !constraints.holds(*number)) else {
                return Some(point);
            };
            if let Self::At(indices) = self {
                indices.truncate(last + 1);
            }
        }
        None
    }

    pub fn next(&mut self, space: &dyn SearchSpace) -> Option<Point> {
        let next = match std::mem::replace(self, Self::End) {
            Self::Start
                if space.parameters().iter().all(|parameter| parameter.domain.size().is_some_and(|size| size > 0)) =>
            {
                Vec::new()
            }
            Self::Start | Self::End => return None,
            Self::At(mut indices) => {
                // The last parameter with another value takes it, and those after it start anew.
                while let Some(index) = indices.pop() {
                    let size = space.parameters()[indices.len()].domain.size().unwrap_or(0);
                    if let Some(next) = index.map(|index| index + 1).filter(|next| *next < size) {
                        indices.push(Some(next));
                        break;
                    }
                }
                if indices.is_empty() {
                    return None;
                }
                indices
            }
        };
        let (indices, point) = complete(space, next);
        *self = Self::At(indices);
        Some(point)
    }
}

/// The first point that begins with these indices.
fn complete(space: &dyn SearchSpace, mut indices: Vec<Option<u64>>) -> (Vec<Option<u64>>, Point) {
    let mut point = Point::new();
    for (place, parameter) in space.parameters().iter().enumerate() {
        if place == indices.len() {
            indices.push(space.is_active(parameter, &point).then_some(0));
        }
        if let Some(index) = indices[place] {
            point.insert(parameter.name.clone(), parameter.domain.nth(index));
        }
    }
    (indices, point)
}
