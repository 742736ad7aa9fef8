//! Finds parameters whose values do not change the configuration.

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::draw::{complete, draw, draw_value};
use super::{Feasible, Parameter, SearchSpace};
use crate::interrupt;

/// Valid points at which each parameter is varied, and values tried at each.
const POINTS: usize = 24;
const VALUES: usize = 8;
/// Valid changes required before a parameter counts as idle.
const ENOUGH: usize = 12;
/// Time for enumerating the valid points. After that, points are drawn from all.
const PATIENCE: Duration = Duration::from_secs(2);

/// Names of parameters that never changed the configuration at random points.
pub fn idle_parameters(space: &dyn SearchSpace) -> Vec<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let feasible = interrupt::until(Some(Instant::now() + PATIENCE), || Feasible::of(space));
    let mut varied: Vec<(&Parameter, usize)> =
        space.parameters().iter().filter(|parameter| parameter.domain.size() != Some(1)).map(|it| (it, 0)).collect();
    for _ in 0..POINTS {
        let point = match &feasible {
            Some(feasible) => feasible.draw(&mut rng),
            None => Some(draw(space, &mut rng)),
        };
        let Some((point, configuration)) = point.and_then(|it| Some((it.clone(), space.ground(&it).ok()?))) else {
            continue;
        };
        varied.retain_mut(|(parameter, changes)| {
            if !point.contains_key(&parameter.name) {
                return true;
            }
            for _ in 0..VALUES {
                let mut other = point.clone();
                other.insert(parameter.name.clone(), draw_value(&parameter.domain, &mut rng));
                let other = complete(space, other, |inactive| draw_value(&inactive.domain, &mut rng));
                if other == point {
                    continue;
                }
                let Ok(changed) = space.ground(&other) else { continue };
                if changed != configuration {
                    return false;
                }
                *changes += 1;
            }
            true
        });
    }
    varied.into_iter().filter(|(_, changes)| *changes >= ENOUGH).map(|(parameter, _)| parameter.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Domain, Point, Rejection};
    use mneme_model::configuration::Configuration;
    use mneme_model::launch::Dim3;

    /// `unused` has no effect, `rounded` only with every fourth value. `x` is the block, and must be even.
    struct Blocks(Vec<Parameter>);

    impl SearchSpace for Blocks {
        fn parameters(&self) -> &[Parameter] {
            &self.0
        }

        fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
            let of = |name: &str| point[name].as_u64().unwrap() as u32;
            if of("x") % 2 == 1 {
                return Err(Rejection("odd".into()));
            }
            Ok(Configuration::recorded(Dim3::new(1 + of("rounded") / 4, 1, 1), Dim3::new(of("x"), 1, 1), 0))
        }

        fn baseline(&self) -> Configuration {
            Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(16, 1, 1), 0)
        }
    }

    #[test]
    fn a_parameter_that_changes_nothing_is_named() {
        let integer = |name: &str| Parameter::new(name, Domain::Integer { low: 1, high: 16, step: 1, log: false });
        assert_eq!(idle_parameters(&Blocks(["x", "unused", "rounded"].map(integer).into())), ["unused"]);
        let only = Parameter::new("unused", Domain::Categorical(vec![1.into()]));
        let space = Blocks([integer("x"), only, integer("rounded")].into());
        assert_eq!(idle_parameters(&space), [""; 0], "a parameter with one value is not reported");
    }
}
