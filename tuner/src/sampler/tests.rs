//! Tests of rules for all samplers, on a space with every kind of domain.

use std::collections::HashSet;

use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use mneme_model::result::ReplayStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::space::{Domain, FileSpace, Parameter, PassChoice, Rejection};

const KINDS: [SamplerKind; 9] = [
    SamplerKind::Exhaustive,
    SamplerKind::Auto,
    SamplerKind::Random,
    SamplerKind::Sobol,
    SamplerKind::Tpe,
    SamplerKind::Nsga2,
    SamplerKind::Passes,
    SamplerKind::Greedy,
    SamplerKind::Annealing,
];

/// A space with given parameters. "bounded" applies if "bounds" is true.
pub(super) struct Given(pub(super) Vec<Parameter>);

impl SearchSpace for Given {
    fn parameters(&self) -> &[Parameter] {
        &self.0
    }

    fn is_active(&self, parameter: &Parameter, point: &Point) -> bool {
        parameter.name != "bounded" || point["bounds"] == true
    }

    fn ground(&self, _point: &Point) -> Result<Configuration, Rejection> {
        Ok(self.baseline())
    }

    fn baseline(&self) -> Configuration {
        Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(1, 1, 1), 0)
    }
}

fn choice(passes: &[&str], start: &[&str], longest: usize) -> Domain {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    Domain::Pipeline(PassChoice { passes: names(passes), start: names(start), shortest: 1, longest })
}

/// Every kind of domain; infinite with `fraction`.
fn mixed(fraction: bool) -> Given {
    let mut parameters = vec![
        Parameter::new("width", Domain::Integer { low: 32, high: 1024, step: 32, log: false }),
        Parameter::new("blocks", Domain::Integer { low: 1, high: 1_000_000, step: 1, log: true }),
        Parameter::new("level", Domain::Categorical(vec![json!("O1"), json!("O2"), json!("O3")])),
        Parameter::new(
            "shape",
            Domain::Categorical(vec![json!({"x": 8, "y": 8}), json!({"x": 64, "y": 1}), json!({"x": 32, "y": 4})]),
        ),
        Parameter::new("bounds", Domain::Boolean),
        Parameter::new("bounded", Domain::Real { low: 0.5, high: 2.0, step: Some(0.25), log: true }).when("bounds"),
        Parameter::new("order", Domain::Permutation((0..5).map(Value::from).collect())),
        Parameter::new("passes", choice(&["gvn", "licm", "sroa", "adce"], &["sroa", "gvn"], 8)),
    ];
    if fraction {
        parameters.push(Parameter::new("fraction", Domain::Real { low: 0.0, high: 1.0, step: None, log: false }));
    }
    Given(parameters)
}

/// 12 points, 6 of which have "bounded".
fn small() -> Given {
    Given(vec![
        Parameter::new("width", Domain::Integer { low: 1, high: 3, step: 1, log: false }),
        Parameter::new("bounds", Domain::Boolean),
        Parameter::new("bounded", Domain::Categorical(vec![json!(1), json!(2), json!(3)])).when("bounds"),
        Parameter::new("passes", choice(&["gvn"], &["gvn"], 1)),
    ])
}

fn fits(space: &Given, point: &Point) -> bool {
    let active: Vec<&Parameter> = space.0.iter().filter(|parameter| space.is_active(parameter, point)).collect();
    active.len() == point.len()
        && active
            .iter()
            .all(|parameter| point.get(&parameter.name).is_some_and(|value| parameter.domain.contains(value)))
}

/// Asks for `count` points, `window` of them in flight. Outcomes depend only on points.
fn run(
    kind: SamplerKind,
    space: &Given,
    seed: u64,
    count: usize,
    window: usize,
    objective: &dyn Fn(&Point) -> TrialOutcome,
) -> Vec<Point> {
    let mut sampler = kind.build(space, &SamplerSettings { seed, trials: Some(count), start: None }).unwrap();
    let mut history = History::default();
    let mut waiting: std::collections::VecDeque<usize> = Default::default();
    loop {
        let point =
            if history.tried().len() < count && waiting.len() < window { sampler.ask(space, &history) } else { None };
        match (point, waiting.pop_front()) {
            (Some(point), first) => {
                waiting.extend(first);
                waiting.push_back(history.add(point, None));
            }
            (None, Some(place)) => {
                let outcome = objective(&history.tried()[place].point);
                sampler.tell(&history.tried()[place].point, &outcome);
                history.settle(place, outcome);
            }
            (None, None) => return history.tried().iter().map(|tried| tried.point.clone()).collect(),
        }
    }
}

fn number(point: &Point, name: &str) -> f64 {
    point.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

/// The minimum, 0, is at width 512, about 1000 blocks, O2 and bounds of 1.0.
fn distance(point: &Point) -> f64 {
    let bounds = if point["bounds"] == true { (number(point, "bounded") - 1.0).abs() } else { 0.5 };
    let level = if point["level"] == "O2" { 0.0 } else { 0.5 };
    ((number(point, "width") - 512.0) / 512.0).abs()
        + ((number(point, "blocks").ln() - 1000f64.ln()) / 7.0).abs()
        + bounds
        + level
}

fn outcome(point: &Point) -> TrialOutcome {
    match number(point, "width") as u64 % 128 {
        32 => TrialOutcome::Failed(ReplayStatus::FailedVerification),
        64 if point["bounds"] == true => TrialOutcome::Rejected,
        _ => TrialOutcome::Measured(vec![1.0 + distance(point), number(point, "blocks")]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]

    #[test]
    fn points_are_of_the_space_and_none_comes_twice(seed: u64, window in 1usize..9, fraction: bool) {
        let space = mixed(fraction);
        for kind in KINDS.into_iter().skip(1) {
            let points = run(kind, &space, seed, 60, window, &outcome);
            prop_assert_eq!(points.len(), 60, "{:?}", kind);
            for point in &points {
                prop_assert!(fits(&space, point), "{:?}: {:?}", kind, point);
            }
            let distinct: HashSet<&Point> = points.iter().collect();
            prop_assert_eq!(distinct.len(), points.len(), "{:?}", kind);
        }
    }

    #[test]
    fn a_seed_decides_all(seed: u64) {
        for kind in KINDS.into_iter().skip(1) {
            let of = |seed| run(kind, &mixed(true), seed, 40, 1, &outcome);
            let points = of(seed);
            prop_assert_eq!(&of(seed), &points, "{:?}", kind);
            prop_assert_ne!(&of(seed ^ 1), &points, "{:?}", kind);
        }
    }

    #[test]
    fn a_small_space_is_tried_to_its_end(seed: u64, window in 1usize..5) {
        for kind in KINDS {
            let space = small();
            let outcome = |point: &Point| TrialOutcome::Measured(vec![1.0 + number(point, "width")]);
            let points = run(kind, &space, seed, 100, window, &outcome);
            prop_assert_eq!(points.len(), 12, "{:?}", kind);
            prop_assert!(points.iter().all(|point| fits(&space, point)));
            prop_assert_eq!(points.iter().collect::<HashSet<_>>().len(), 12, "{:?}", kind);
        }
    }
}

/// The median over seeds of the best of 80 points.
fn best(
    kind: SamplerKind,
    space: &Given,
    outcome: &dyn Fn(&Point) -> TrialOutcome,
    distance: fn(&Point) -> f64,
) -> f64 {
    let mut found: Vec<f64> = (0..5)
        .map(|seed| run(kind, space, seed, 80, 1, outcome).iter().map(distance).fold(f64::INFINITY, f64::min))
        .collect();
    found.sort_by(f64::total_cmp);
    found[2]
}

#[test]
fn densities_find_more_than_chance_does() {
    let (found, chance) = (
        best(SamplerKind::Tpe, &mixed(false), &outcome, distance),
        best(SamplerKind::Random, &mixed(false), &outcome, distance),
    );
    assert!(found < 0.7 * chance, "{found}, chance {chance}");
}

#[test]
fn local_search_goes_down_a_valley() {
    let space = Given(vec![
        Parameter::new("width", Domain::Integer { low: 1, high: 1000, step: 1, log: false }),
        Parameter::new("blocks", Domain::Integer { low: 1, high: 1_000_000, step: 1, log: true }),
        Parameter::new("fraction", Domain::Real { low: 0.0, high: 1.0, step: None, log: false }),
    ]);
    let depth = |point: &Point| {
        let far = [
            (number(point, "width") - 700.0) / 1000.0,
            number(point, "blocks").log10() / 6.0 - 0.5,
            number(point, "fraction") - 0.2,
        ];
        far.iter().map(|far| far.abs()).sum::<f64>()
    };
    let outcome = |point: &Point| TrialOutcome::Measured(vec![1.0 + 10.0 * depth(point)]);
    let chance = best(SamplerKind::Random, &space, &outcome, depth);
    let found = best(SamplerKind::Greedy, &space, &outcome, depth);
    assert!(found < 0.9 * chance, "{found}, chance {chance}");
    // Annealing spends trials on worse points, but ends well below its start.
    let begun =
        (0..9).map(|seed| depth(&run(SamplerKind::Annealing, &space, seed, 1, 1, &outcome)[0])).sum::<f64>() / 9.0;
    let found = best(SamplerKind::Annealing, &space, &outcome, depth);
    assert!(found < 0.6 * begun, "{found}, from {begun}");
}

#[test]
fn evolution_finds_a_front() {
    // Two contrary objectives: few blocks, and many.
    let space = mixed(false);
    let outcome = |point: &Point| {
        TrialOutcome::Measured(vec![
            number(point, "blocks").ln() + distance(point),
            14.0 - number(point, "blocks").ln() + distance(point),
        ])
    };
    let area = |kind| {
        let points = run(kind, &space, 5, 300, 4, &outcome);
        let values: Vec<Vec<f64>> = points.iter().map(|point| outcome(point).values().unwrap().to_vec()).collect();
        // The area below (20, 20) that the front dominates.
        let mut front: Vec<&Vec<f64>> = values.iter().filter(|a| !values.iter().any(|b| dominates(b, a))).collect();
        front.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let mut above = 20.0;
        front.iter().filter(|point| point[0] < 20.0 && point[1] < 20.0).fold(0.0, |area, point| {
            let more = (20.0 - point[0]) * (above - point[1]);
            above = point[1];
            area + more
        })
    };
    let (evolved, chance) = (area(SamplerKind::Nsga2), area(SamplerKind::Random));
    assert!(evolved > 1.02 * chance, "{evolved} against {chance}");
}

#[test]
fn passes_that_do_not_matter_are_dropped() {
    let start = ["adce", "sroa", "adce", "gvn", "adce", "licm", "adce", "gvn", "sroa", "adce"];
    let space = Given(vec![Parameter::new("passes", choice(&["gvn", "licm", "sroa", "adce"], &start, 20))]);
    // Only a gvn with a licm after it helps.
    let time = |point: &Point| {
        let sequence = point["passes"].as_array().unwrap();
        let gvn = sequence.iter().position(|pass| pass == "gvn");
        let helps = gvn.is_some_and(|place| sequence[place..].iter().any(|pass| pass == "licm"));
        if helps { 1.0 } else { 2.0 }
    };
    for window in [1, 6] {
        let points =
            run(SamplerKind::Passes, &space, 11, 120, window, &|point| TrialOutcome::Measured(vec![time(point)]));
        let shortest = points
            .iter()
            .filter(|point| time(point) == 1.0)
            .map(|point| point["passes"].as_array().unwrap().len())
            .min();
        assert_eq!(shortest, Some(2), "window {window}");
        assert_eq!(points[0]["passes"], json!(start));
    }
}

#[test]
fn local_search_starts_where_it_is_told() {
    let space = mixed(false);
    let start = run(SamplerKind::Random, &space, 3, 1, 1, &outcome).remove(0);
    let settings = SamplerSettings { seed: 1, trials: Some(5), start: Some(start.clone()) };
    for kind in [SamplerKind::Greedy, SamplerKind::Annealing] {
        let mut sampler = kind.build(&space, &settings).unwrap();
        assert_eq!(sampler.ask(&space, &History::default()), Some(start.clone()));
    }
}

#[test]
fn samplers_say_what_they_miss() {
    let settings = |trials| SamplerSettings { seed: 0, trials, start: None };
    let error = |kind: SamplerKind, space: &Given, trials| {
        kind.build(space, &settings(trials)).map(|_| ()).unwrap_err().to_string()
    };
    assert!(error(SamplerKind::Exhaustive, &mixed(true), None).contains("'fraction'"));
    assert!(error(SamplerKind::Tpe, &mixed(true), None).contains("--trials"));
    let plain = Given(vec![Parameter::new("width", Domain::Boolean)]);
    assert!(error(SamplerKind::Passes, &plain, Some(3)).contains("pipeline"));
}

/// 1,600 points, 379 of them valid, with several valleys.
fn restricted() -> FileSpace {
    let numbers = |all: &[u32]| all.iter().map(|it| json!(it)).collect::<Vec<_>>();
    let to_twenty = numbers(&(1..=20).collect::<Vec<_>>());
    let lists = [("x", to_twenty.clone()), ("y", to_twenty), ("z", numbers(&[1, 2, 4, 8]))];
    let constraints = ["x * y <= 96 && x * y * z > 16", "(x + y) % z == 0"];
    of_lists(&lists, &constraints)
}

fn of_lists(lists: &[(&str, Vec<Value>)], constraints: &[&str]) -> FileSpace {
    let parameters = lists.iter().map(|(name, values)| ((*name).to_owned(), values.clone())).collect();
    let constraints = constraints.iter().map(|it| (*it).to_owned()).collect();
    FileSpace::of_lists("space.json".as_ref(), parameters, constraints).unwrap()
}

fn valleys(point: &Point) -> f64 {
    let [x, y, z] = ["x", "y", "z"].map(|name| number(point, name));
    let valley = |at: [f64; 3], depth: f64| {
        let far = ((x - at[0]) / 4.0).powi(2) + ((y - at[1]) / 4.0).powi(2) + (z.log2() - at[2]).powi(2);
        depth * (-far).exp()
    };
    3.0 - valley([6.0, 14.0, 2.0], 2.0) - valley([15.0, 3.0, 1.0], 1.5) - valley([4.0, 4.0, 3.0], 1.2)
        + 0.05 * (x * 1.7).sin()
}

#[test]
fn searches_of_constrained_spaces_propose_valid_points_alone() {
    let space = restricted();
    for kind in [
        SamplerKind::Auto,
        SamplerKind::Tpe,
        SamplerKind::Random,
        SamplerKind::Greedy,
        SamplerKind::Annealing,
        SamplerKind::Exhaustive,
    ] {
        for window in [1, 7] {
            let mut sampler = kind.build(&space, &SamplerSettings { seed: 3, trials: Some(150), start: None }).unwrap();
            let (mut history, mut in_flight) = (History::default(), std::collections::VecDeque::new());
            for _ in 0..150 {
                let point = sampler.ask(&space, &history).expect("a point");
                assert!(space.ground(&point).is_ok(), "{kind:?}: {point:?}");
                assert!(!history.has(&point), "{kind:?}: {point:?}");
                in_flight.push_back(history.add(point, None));
                if in_flight.len() == window {
                    let place = in_flight.pop_front().unwrap();
                    let point = history.tried()[place].point.clone();
                    let outcome = TrialOutcome::Measured(vec![valleys(&point)]);
                    sampler.tell(&point, &outcome);
                    history.settle(place, outcome);
                }
            }
        }
    }
}

#[test]
fn the_portfolio_finds_the_deepest_valley() {
    let space = restricted();
    let mean = |kind: SamplerKind| {
        let seeds = 0..16;
        let found = seeds.clone().map(|seed| {
            let mut sampler = kind.build(&space, &SamplerSettings { seed, trials: Some(60), start: None }).unwrap();
            let mut history = History::default();
            let mut best = f64::INFINITY;
            for _ in 0..60 {
                let point = sampler.ask(&space, &history).expect("a point");
                best = best.min(valleys(&point));
                let outcome = TrialOutcome::Measured(vec![valleys(&point)]);
                sampler.tell(&point, &outcome);
                history.add(point, Some(outcome));
            }
            best
        });
        found.sum::<f64>() / seeds.count() as f64
    };
    let mut all = History::default();
    let mut walk = SamplerKind::Exhaustive.build(&space, &SamplerSettings::default()).unwrap();
    let mut optimum = f64::INFINITY;
    while let Some(point) = walk.ask(&space, &all) {
        optimum = optimum.min(valleys(&point));
        all.add(point, Some(TrialOutcome::Rejected));
    }
    let (found, chance) = (mean(SamplerKind::Auto) - optimum, mean(SamplerKind::Random) - optimum);
    assert!(found < 0.3 * chance, "{found} above the optimum, chance {chance}");
}

#[test]
fn the_portfolio_beats_chance_where_nothing_is_constrained() {
    let measured = |point: &Point| TrialOutcome::Measured(vec![1.0 + distance(point)]);
    let (found, chance) = (
        best(SamplerKind::Auto, &mixed(false), &measured, distance),
        best(SamplerKind::Random, &mixed(false), &measured, distance),
    );
    assert!(found < 0.85 * chance, "{found}, chance {chance}");
}

#[test]
fn the_portfolio_is_not_led_astray_by_scattered_failures() {
    // Only points that can be measured count as found.
    let reached = |point: &Point| outcome(point).values().map_or(f64::INFINITY, |_| distance(point));
    let (found, chance) = (
        best(SamplerKind::Auto, &mixed(false), &outcome, reached),
        best(SamplerKind::Random, &mixed(false), &outcome, reached),
    );
    assert!(found < 0.85 * chance, "{found}, chance {chance}");
}

#[test]
fn points_that_constraints_rule_out_are_not_proposed() {
    let values: Vec<Value> = (0..100).map(|it| json!(it)).collect();
    let lists = ["a", "b", "c"].map(|name| (name, values.clone()));
    for kind in [SamplerKind::Sobol, SamplerKind::Nsga2] {
        let space = of_lists(&lists, &["a + b == 190"]);
        let mut sampler =
            kind.build(&space, &SamplerSettings { trials: Some(60), ..SamplerSettings::default() }).unwrap();
        let mut history = History::default();
        for number in 0..60 {
            let point = sampler.ask(&space, &history).unwrap();
            assert!(space.ground(&point).is_ok(), "{kind:?} {point:?}");
            history.add(point, Some(TrialOutcome::Measured(vec![f64::from(number)])));
        }
    }
}

#[test]
fn a_sequence_has_more_dimensions_than_its_points_fill_evenly() {
    let of = |number| Parameter::new(format!("p{number}"), Domain::Integer { low: 0, high: 9, step: 1, log: false });
    let space = Given((0..300).map(of).collect());
    let mut sampler =
        SamplerKind::Sobol.build(&space, &SamplerSettings { trials: Some(60), ..SamplerSettings::default() }).unwrap();
    let mut history = History::default();
    let mut last = HashSet::new();
    for _ in 0..40 {
        let point = sampler.ask(&space, &history).unwrap();
        last.insert(point["p299"].clone());
        history.add(point, Some(TrialOutcome::Rejected));
    }
    assert!(last.len() > 5, "{last:?}");
}
