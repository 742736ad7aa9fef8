//! The valid points of a space, found by constraint propagation and stored as one number each.
//!
//! Constraints and conditions link parameters. Unlinked parameters vary independently, so only the components of linked
//! parameters are enumerated, each separately: depth first, checking each constraint as soon as its parameters are set.
//! The valid points are the product of the components' combinations.

use rand::{Rng, RngExt};
use serde_json::Value;

use super::draw::draw_value;
use super::{Constraints, Domain, Parameter, Point, SearchSpace};
use crate::interrupt;

/// Limit on the combinations of a component, at 8 bytes each.
const MOST: usize = 1 << 25;
/// Limit on the size of a domain that is enumerated.
const LARGEST_DOMAIN: u64 = 1 << 20;

/// Values tried between checks whether the session should end.
const ASK: u64 = 1 << 10;

/// The valid points of a space.
#[derive(Debug)]
pub struct Feasible {
    parameters: Vec<Parameter>,
    components: Vec<Component>,
}

/// Linked parameters with their valid combinations, or a single unlinked parameter with all its values.
#[derive(Debug)]
enum Component {
    Free(usize),
    Linked { members: Vec<Member>, codes: Vec<u64> },
}

/// A parameter of a component.
#[derive(Debug)]
struct Member {
    parameter: usize,
    values: Vec<Value>,
    /// The factor of its digit in a code. The digit after the last value means that the parameter does not apply.
    weight: u64,
}

impl Feasible {
    /// Enumerates the valid points. `None` if the space does not tell its constraints' parameters, if linked parameters
    /// have too many combinations, or if the session should end first.
    pub fn of(space: &dyn SearchSpace) -> Option<Self> {
        let mut constraints = space.constraints()?;
        let parameters = space.parameters().to_vec();
        // A constraint without parameters holds for all points or for none.
        let hopeless =
            (0..constraints.scopes().len()).any(|it| constraints.scopes()[it].is_empty() && !constraints.holds(it));
        if hopeless {
            return Some(Self {
                parameters,
                components: vec![Component::Linked { members: Vec::new(), codes: Vec::new() }],
            });
        }
        let components = components(parameters.len(), &*constraints)
            .into_iter()
            .map(|members| match members[..] {
                [one] if constraints.applies(one) && constraints.scopes().iter().all(|scope| *scope != [one]) => {
                    Some(Component::Free(one))
                }
                _ => enumerate(&parameters, &members, &mut *constraints),
            })
            .collect::<Option<_>>()?;
        Some(Self { parameters, components })
    }

    /// Number of valid points; `None` if infinite or too large to count.
    pub fn size(&self) -> Option<u64> {
        self.components.iter().try_fold(1u64, |size, component| {
            size.checked_mul(match component {
                Component::Free(parameter) => self.parameters[*parameter].domain.size()?,
                Component::Linked { codes, .. } => codes.len() as u64,
            })
        })
    }

    /// Whether no point is valid.
    pub fn is_empty(&self) -> bool {
        self.size() == Some(0)
    }

    /// A valid point, uniformly drawn if domains are finite; `None` if there is none.
    pub fn draw(&self, rng: &mut impl Rng) -> Option<Point> {
        let mut point = Point::new();
        for component in &self.components {
            match component {
                Component::Free(parameter) => {
                    let Parameter { name, domain, .. } = &self.parameters[*parameter];
                    point.insert(name.clone(), draw_value(domain, rng));
                }
                Component::Linked { codes, .. } if codes.is_empty() => return None,
                Component::Linked { members, codes } => {
                    self.decode(members, codes[rng.random_range(0..codes.len())], &mut point)
                }
            }
        }
        Some(point)
    }

    /// Valid point number `number` of a finite space, which must be below its [`size`](Self::size).
    pub fn nth(&self, mut number: u64) -> Point {
        let mut point = Point::new();
        for component in &self.components {
            match component {
                Component::Free(parameter) => {
                    let Parameter { name, domain, .. } = &self.parameters[*parameter];
                    let size = domain.size().unwrap_or(1).max(1);
                    point.insert(name.clone(), domain.nth(number % size));
                    number /= size;
                }
                Component::Linked { members, codes } => {
                    let size = codes.len().max(1) as u64;
                    if let Some(code) = codes.get((number % size) as usize) {
                        self.decode(members, *code, &mut point);
                    }
                    number /= size;
                }
            }
        }
        point
    }

    /// Whether a point is valid.
    pub fn contains(&self, point: &Point) -> bool {
        self.components.iter().all(|component| match component {
            Component::Free(parameter) => {
                let Parameter { name, domain, .. } = &self.parameters[*parameter];
                point.get(name).is_some_and(|value| domain.contains(value))
            }
            Component::Linked { members, codes } => {
                self.encode(members, point).is_some_and(|code| codes.binary_search(&code).is_ok())
            }
        })
    }

    /// The valid points that differ from a point in one parameter with counted values.
    pub fn neighbours(&self, point: &Point) -> Vec<Point> {
        let mut found = Vec::new();
        let changed = |name: &str, value: &Value| {
            let mut point = point.clone();
            point.insert(name.to_owned(), value.clone());
            point
        };
        for component in &self.components {
            match component {
                Component::Free(parameter) => {
                    let Parameter { name, domain, .. } = &self.parameters[*parameter];
                    let size = domain.size().filter(|size| *size <= LARGEST_DOMAIN).unwrap_or(0);
                    let values =
                        (0..size).map(|index| domain.nth(index)).filter(|value| point.get(name) != Some(value));
                    found.extend(values.map(|value| changed(name, &value)));
                }
                Component::Linked { members, codes } => {
                    let Some(code) = self.encode(members, point) else { continue };
                    for member in members {
                        let digit = member.digit(code);
                        let base = code - digit * member.weight;
                        let others = (0..=member.values.len() as u64).filter(|other| *other != digit);
                        for other in others.map(|other| base + other * member.weight) {
                            if codes.binary_search(&other).is_ok() {
                                let mut neighbour = point.clone();
                                self.decode(members, other, &mut neighbour);
                                found.push(neighbour);
                            }
                        }
                    }
                }
            }
        }
        found
    }

    /// Writes the values of a combination into a point.
    fn decode(&self, members: &[Member], code: u64, point: &mut Point) {
        for member in members {
            let name = &self.parameters[member.parameter].name;
            match member.values.get(member.digit(code) as usize) {
                Some(value) => point.insert(name.clone(), value.clone()),
                None => point.remove(name),
            };
        }
    }

    fn encode(&self, members: &[Member], point: &Point) -> Option<u64> {
        members.iter().try_fold(0, |code, member| {
            let digit = match point.get(&self.parameters[member.parameter].name) {
                Some(value) => place(&self.parameters[member.parameter].domain, &member.values, value)?,
                None => member.values.len(),
            };
            Some(code + digit as u64 * member.weight)
        })
    }
}

impl Member {
    fn digit(&self, code: u64) -> u64 {
        code / self.weight % (self.values.len() as u64 + 1)
    }
}

/// The index of a value in a domain.
fn place(domain: &Domain, values: &[Value], value: &Value) -> Option<usize> {
    match domain {
        Domain::Integer { low, step, .. } => {
            usize::try_from((value.as_i64()? - low) / step).ok().filter(|place| values.get(*place) == Some(value))
        }
        _ => values.iter().position(|known| known == value),
    }
}

/// Groups of parameters that constraints and conditions link, each ascending.
fn components(parameters: usize, constraints: &dyn Constraints) -> Vec<Vec<usize>> {
    let mut group: Vec<usize> = (0..parameters).collect();
    let conditions =
        constraints.conditions().iter().enumerate().map(|(parameter, about)| [about.as_slice(), &[parameter]].concat());
    for scope in constraints.scopes().iter().cloned().chain(conditions) {
        for pair in scope.windows(2) {
            let (from, to) = (group[pair[0]], group[pair[1]]);
            group.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
        }
    }
    let mut found: Vec<Vec<usize>> = Vec::new();
    for parameter in 0..parameters {
        match found.iter_mut().find(|members| group[members[0]] == group[parameter]) {
            Some(members) => members.push(parameter),
            None => found.push(vec![parameter]),
        }
    }
    found
}

/// The order in which a component's parameters are set: first those that complete a constraint with the fewest
/// combinations.
fn order(sizes: &dyn Fn(usize) -> f64, members: &[usize], constraints: &dyn Constraints) -> Vec<usize> {
    let mut ordered: Vec<usize> = Vec::new();
    // A parameter comes after those that decide whether it applies.
    fn put(parameter: usize, conditions: &[Vec<usize>], ordered: &mut Vec<usize>) {
        for deciding in &conditions[parameter] {
            put(*deciding, conditions, ordered);
        }
        if !ordered.contains(&parameter) {
            ordered.push(parameter);
        }
    }
    let mut open: Vec<&Vec<usize>> =
        constraints.scopes().iter().filter(|scope| scope.iter().any(|it| members.contains(it))).collect();
    while !open.is_empty() {
        let combinations =
            |scope: &Vec<usize>| scope.iter().filter(|it| !ordered.contains(it)).map(|it| sizes(*it)).product::<f64>();
        let next = (0..open.len())
            .min_by(|a, b| combinations(open[*a]).total_cmp(&combinations(open[*b])))
            .expect("one is open");
        for parameter in open.swap_remove(next) {
            put(*parameter, constraints.conditions(), &mut ordered);
        }
    }
    for parameter in members {
        put(*parameter, constraints.conditions(), &mut ordered);
    }
    ordered
}

/// Enumerates all valid combinations of a component.
fn enumerate(parameters: &[Parameter], members: &[usize], constraints: &mut dyn Constraints) -> Option<Component> {
    let mut weight = 1u64;
    // The last parameter varies fastest, as in a walk.
    let mut found: Vec<Member> = Vec::new();
    for parameter in members.iter().rev() {
        let domain = &parameters[*parameter].domain;
        let size = domain.size().filter(|size| *size <= LARGEST_DOMAIN)?;
        found.push(Member {
            parameter: *parameter,
            values: (0..size).map(|index| domain.nth(index)).collect(),
            weight,
        });
        weight = weight.checked_mul(size + 1)?;
    }
    let order = order(
        &|parameter| parameters[parameter].domain.size().map_or(f64::INFINITY, |size| size as f64),
        members,
        constraints,
    );
    let place = |parameter: &usize| found.iter().position(|member| member.parameter == *parameter).expect("a member");
    let steps: Vec<Step> = order
        .iter()
        .enumerate()
        .map(|(depth, parameter)| {
            let complete =
                |scope: &Vec<usize>| scope.contains(parameter) && scope.iter().all(|it| order[..=depth].contains(it));
            let checks = constraints
                .scopes()
                .iter()
                .enumerate()
                .filter(|(_, scope)| complete(scope))
                .map(|(number, _)| number)
                .collect();
            Step { member: place(parameter), checks }
        })
        .collect();
    let mut codes = Vec::new();
    descend(&found, &steps, 0, constraints, &mut codes, &mut 0).then(|| {
        codes.sort_unstable();
        codes.shrink_to_fit();
        Component::Linked { members: found, codes }
    })
}

/// A parameter to set, and the constraints that can then be checked.
struct Step {
    member: usize,
    checks: Vec<usize>,
}

/// Adds all valid combinations that continue `code`. Returns `false` if there are too many, or if the session should
/// end.
fn descend(
    members: &[Member],
    steps: &[Step],
    code: u64,
    constraints: &mut dyn Constraints,
    codes: &mut Vec<u64>,
    tried: &mut u64,
) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        codes.push(code);
        return codes.len() <= MOST;
    };
    let Member { parameter, values, weight } = &members[step.member];
    let absent = !constraints.applies(*parameter);
    let digits = if absent { values.len()..values.len() + 1 } else { 0..values.len() };
    for digit in digits {
        *tried += 1;
        if tried.is_multiple_of(ASK) && interrupt::is_due() {
            return false;
        }
        constraints.set(*parameter, values.get(digit));
        if step.checks.iter().all(|constraint| constraints.holds(*constraint))
            && !descend(members, rest, code + digit as u64 * weight, constraints, codes, tried)
        {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use serde_json::json;

    use super::*;
    use crate::space::FileSpace;
    use crate::space::walk::{Odometer, walk};

    /// A space of lists with constraints, as in a file.
    fn space(lists: &[Vec<i64>], constraints: &[String]) -> Box<dyn SearchSpace> {
        let named =
            |(place, list): (usize, &Vec<i64>)| (format!("p{place}"), list.iter().map(|it| json!(it)).collect());
        let parameters = lists.iter().enumerate().map(named).collect();
        Box::new(FileSpace::of_lists("space.json".as_ref(), parameters, constraints.to_vec()).unwrap())
    }

    #[test]
    fn a_session_that_is_to_end_enumerates_no_further() {
        let wide: Vec<i64> = (0..3_000).collect();
        let endless = space(&[wide.clone(), wide], &["p0 * p1 == 8994002".into()]);
        let now = std::time::Instant::now();
        let soon = Some(now + std::time::Duration::from_millis(20));
        assert!(interrupt::until(soon, || Feasible::of(&*endless)).is_none());
        assert!(now.elapsed().as_secs() < 30, "the wide values of one parameter are many steps, too");
    }

    /// A restriction on two or three of the parameters.
    fn restriction() -> impl Strategy<Value = (u8, usize, usize, usize, i64)> {
        (0u8..6, 0usize..8, 0usize..8, 0usize..8, 1i64..40)
    }

    fn text(parameters: usize, (kind, a, b, c, n): (u8, usize, usize, usize, i64)) -> String {
        let [a, b, c] = [a, b, c].map(|place| format!("p{}", place % parameters));
        match kind {
            0 => format!("{a} * {b} <= {n}"),
            1 => format!("({a} + {b}) % {c} == 0 && {a} < {n}"),
            2 => format!("{a} == 1 || {b} > {c}"),
            3 => format!("2 <= {a} * {b} && {a} * {b} <= {n} * {c}"),
            4 => format!("!({a} > {b} && {c} != {n})"),
            _ => format!("{a} != {n}"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn enumeration_is_what_trying_all_points_finds(
            lists in proptest::collection::vec(1usize..6, 1..6),
            restrictions in proptest::collection::vec(restriction(), 0..5),
            seed: u64,
        ) {
            let values: Vec<Vec<i64>> = lists.iter().map(|length| (1..=*length as i64).collect()).collect();
            let texts: Vec<String> = restrictions.into_iter().map(|it| text(values.len(), it)).collect();
            let space = space(&values, &texts);
            let all: Vec<Point> = walk(&*space).filter(|point| space.ground(point).is_ok()).collect();
            let feasible = Feasible::of(&*space).unwrap();
            prop_assert_eq!(feasible.size(), Some(all.len() as u64), "{:?}", texts);
            prop_assert_eq!(feasible.is_empty(), all.is_empty());
            let found: HashSet<Point> = (0..all.len() as u64).map(|number| feasible.nth(number)).collect();
            prop_assert_eq!(&found, &all.iter().cloned().collect::<HashSet<_>>());
            for point in walk(&*space) {
                prop_assert_eq!(feasible.contains(&point), found.contains(&point));
            }
            // A walk with skipping visits the same points in the same order.
            let mut odometer = Odometer::default();
            let walked: Vec<Point> = std::iter::from_fn(|| odometer.next_valid(&*space)).collect();
            prop_assert_eq!(&walked, &all);
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let Some(point) = feasible.draw(&mut rng) else { return Ok(()) };
            let differing =
                |other: &&Point| other.iter().filter(|(name, value)| point.get(*name) != Some(value)).count() == 1;
            let near: HashSet<&Point> = all.iter().filter(differing).collect();
            let neighbours = feasible.neighbours(&point);
            prop_assert_eq!(neighbours.len(), near.len());
            prop_assert!(neighbours.iter().all(|neighbour| near.contains(neighbour)));
        }
    }

    #[test]
    fn draws_are_uniform_over_the_valid_points() {
        let space = space(&[vec![1, 2, 3, 4], vec![1, 2, 3, 4], vec![7, 9]], &["p0 * p1 <= 4".into()]);
        let feasible = Feasible::of(&*space).unwrap();
        assert_eq!(feasible.size(), Some(16));
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = std::collections::HashMap::new();
        for _ in 0..16_000 {
            *counts.entry(feasible.draw(&mut rng).unwrap()).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 16);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{:?}", counts.values());
    }

    #[test]
    fn parameters_that_nothing_links_are_not_multiplied_out() {
        let long: Vec<i64> = (1..=1000).collect();
        let space = space(&vec![long; 6], &["p0 == p1".into(), "p2 < 3".into()]);
        let feasible = Feasible::of(&*space).unwrap();
        assert_eq!(feasible.size(), Some(1000 * 2 * 1_000_000_000));
        assert!(feasible.contains(&feasible.nth(1_234_567_890_123)));
    }
}
