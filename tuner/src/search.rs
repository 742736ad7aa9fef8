//! A search: space, sampler and history, independent of a device.
//!
//! The search grounds the sampler's points as configurations. Points of a configuration that was tried already (because
//! of rounding or unused parameters) share its outcome. They do not become candidates again, and neither do points that
//! the space rejects.

use std::collections::HashMap;

use mneme_model::configuration::Configuration;

use crate::candidate::CandidateNumber;
use crate::interrupt;
use crate::sampler::{Ahead, History, Sampler, TrialOutcome};
use crate::space::{Point, SearchSpace};

/// Number of consecutive points without a new candidate at which a search gives up.
const FRUITLESS: usize = 20_000;

/// A configuration to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub number: CandidateNumber,
    pub point: Point,
    pub configuration: Configuration,
    /// [`Configuration::hash`].
    pub hash: String,
}

/// The next step of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Try(Box<Candidate>),
    /// The sampler needs the outcome of a candidate in flight first.
    Wait,
    /// A signal came, or the time was up, before a candidate was found.
    Interrupted,
    /// The search is over.
    End(End),
}

/// Why a search is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    #[error("the sampler has nothing left to propose")]
    Exhausted,
    #[error(
        "each of the last {FRUITLESS} points was rejected by the space's constraints or had a configuration that was tried already"
    )]
    Fruitless,
}

/// A search in progress.
pub struct Search {
    space: Box<dyn SearchSpace>,
    sampler: Box<dyn Sampler>,
    history: History,
    /// Candidates by configuration hash.
    candidates: HashMap<String, CandidateNumber>,
    /// Indices of each candidate's points in the history. The first one is its own.
    places: Vec<Vec<usize>>,
    /// Number of points that were rejected, and of points with a known configuration.
    rejected: u64,
    repeated: u64,
    /// The last rejection.
    reason: Option<String>,
}

impl Search {
    pub fn new(space: Box<dyn SearchSpace>, sampler: Box<dyn Sampler>) -> Self {
        Self {
            space,
            sampler,
            history: History::default(),
            candidates: HashMap::new(),
            places: Vec::new(),
            rejected: 0,
            repeated: 0,
            reason: None,
        }
    }

    pub fn space(&self) -> &dyn SearchSpace {
        &*self.space
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    /// How many candidates may be proposed ahead of outcomes.
    pub fn ahead(&self) -> Ahead {
        self.sampler.ahead(&self.history)
    }

    /// Number of points that the space rejected.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Number of points whose configuration was tried already.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// The reason for the last rejection.
    pub fn last_rejection(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The next candidate. Candidates are numbered in this order.
    pub fn propose(&mut self) -> Next {
        let mut fruitless = 0;
        while fruitless < FRUITLESS {
            if interrupt::is_due() {
                return Next::Interrupted;
            }
            // A walk comes nearer to its end with each point.
            fruitless += usize::from(!self.sampler.is_walk());
            let Some(point) = self.sampler.ask(&*self.space, &self.history) else {
                if interrupt::is_due() {
                    return Next::Interrupted;
                }
                return if self.history.in_flight() > 0 { Next::Wait } else { Next::End(End::Exhausted) };
            };
            let configuration = match self.space.ground(&point) {
                Ok(configuration) => configuration,
                Err(rejection) => {
                    self.rejected += 1;
                    self.reason = Some(rejection.to_string());
                    self.sampler.tell(&point, &TrialOutcome::Rejected);
                    self.history.add(point, Some(TrialOutcome::Rejected));
                    continue;
                }
            };
            let hash = configuration.hash();
            if let Some(number) = self.candidates.get(&hash).copied() {
                self.repeated += 1;
                let first = self.places(number)[0];
                let known = self.history.tried()[first].outcome.clone();
                if let Some(outcome) = &known {
                    self.sampler.tell(&point, outcome);
                }
                let place = self.history.add(point, known);
                self.places(number).push(place);
                continue;
            }
            let number = self.begin(hash.clone(), point.clone());
            return Next::Try(Box::new(Candidate { number, point, configuration, hash }));
        }
        Next::End(End::Fruitless)
    }

    /// Adds a trial of the resumed session. Call this for all of them in the order of their numbers, before
    /// [`Search::propose`].
    pub fn resume(&mut self, point: Point, hash: String, outcome: TrialOutcome) -> CandidateNumber {
        let number = self.begin(hash, point);
        self.tell(number, outcome);
        number
    }

    fn begin(&mut self, hash: String, point: Point) -> CandidateNumber {
        let number = CandidateNumber(self.places.len() as u64);
        self.candidates.insert(hash, number);
        self.places.push(vec![self.history.add(point, None)]);
        number
    }

    fn places(&mut self, number: CandidateNumber) -> &mut Vec<usize> {
        &mut self.places[number.0 as usize]
    }

    /// Notes the outcome of a candidate.
    pub fn tell(&mut self, number: CandidateNumber, outcome: TrialOutcome) {
        for place in self.places(number).clone() {
            self.sampler.tell(&self.history.tried()[place].point, &outcome);
            self.history.settle(place, outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{Exhaustive, Random};
    use crate::space::{Domain, Parameter, Rejection};
    use mneme_model::launch::Dim3;
    use mneme_model::result::ReplayStatus;
    use std::collections::BTreeSet;

    /// Blocks of `x` threads, which `half` halves. Rejects odd numbers.
    struct Halves(Vec<Parameter>);

    impl Halves {
        fn boxed() -> Box<dyn SearchSpace> {
            let x = Domain::Integer { low: 1, high: 16, step: 1, log: false };
            Box::new(Self(vec![Parameter::new("x", x), Parameter::new("half", Domain::Boolean)]))
        }
    }

    impl SearchSpace for Halves {
        fn parameters(&self) -> &[Parameter] {
            &self.0
        }

        fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
            let x = point["x"].as_u64().unwrap() as u32;
            if x % 2 == 1 {
                return Err(Rejection(format!("x is {x}")));
            }
            let x = if point["half"] == true { x / 2 } else { x };
            Ok(Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(x, 1, 1), 0))
        }

        fn baseline(&self) -> Configuration {
            Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(16, 1, 1), 0)
        }
    }

    /// The blocks in the order of candidates, each told at once.
    fn candidates(search: &mut Search) -> Vec<u32> {
        let mut blocks = Vec::new();
        while let Next::Try(candidate) = search.propose() {
            blocks.push(candidate.configuration.block.x);
            search.tell(candidate.number, TrialOutcome::Failed(ReplayStatus::Timeout));
        }
        blocks
    }

    #[test]
    fn every_configuration_is_a_candidate_once() {
        let samplers: [Box<dyn Sampler>; 2] = [Box::new(Exhaustive::default()), Box::new(Random::new(7))];
        for sampler in samplers {
            let mut search = Search::new(Halves::boxed(), sampler);
            let mut blocks = candidates(&mut search);
            assert_eq!(search.propose(), Next::End(End::Exhausted));
            blocks.sort_unstable();
            // 2, 4, … 16 and their halves 1, 2, … 8.
            assert_eq!(blocks, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]);
            assert_eq!((search.rejected(), search.repeated()), (16, 4));
        }
    }

    #[test]
    fn a_walk_goes_on_however_many_points_are_rejected_until_its_time_is_up() {
        /// Points of which only the last is valid.
        struct Last(Vec<Parameter>);

        impl SearchSpace for Last {
            fn parameters(&self) -> &[Parameter] {
                &self.0
            }

            fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
                if point["x"] == 30_000 { Ok(self.baseline()) } else { Err(Rejection("it is not the last".into())) }
            }

            fn baseline(&self) -> Configuration {
                Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(1, 1, 1), 0)
            }
        }

        let last = || {
            let x = Domain::Integer { low: 1, high: 30_000, step: 1, log: false };
            Search::new(Box::new(Last(vec![Parameter::new("x", x)])), Box::new(Exhaustive::default()))
        };
        assert!(matches!(last().propose(), Next::Try(_)));
        interrupt::end_at(Some(std::time::Instant::now()));
        assert_eq!(last().propose(), Next::Interrupted);
        interrupt::end_at(None);
    }

    #[test]
    fn points_of_a_configuration_in_flight_get_its_outcome() {
        let mut search = Search::new(Halves::boxed(), Box::new(Exhaustive::default()));
        let mut numbers = Vec::new();
        while let Next::Try(candidate) = search.propose() {
            numbers.push(candidate.number);
        }
        assert_eq!(search.propose(), Next::Wait);
        for number in numbers {
            search.tell(number, TrialOutcome::Measured(vec![number.0 as f64]));
        }
        assert_eq!(search.propose(), Next::End(End::Exhausted));
        assert!(search.history().tried().iter().all(|tried| tried.outcome.is_some()));
        let of = |x: u32, half: bool| {
            search
                .history()
                .tried()
                .iter()
                .find(|tried| tried.point["x"] == x && tried.point["half"] == half)
                .unwrap()
                .outcome
                .clone()
        };
        assert_eq!(of(8, false), of(16, true));
        assert_ne!(of(8, false), of(16, false));
    }

    #[test]
    fn what_was_tried_before_is_not_tried_again() {
        let mut search = Search::new(Halves::boxed(), Box::new(Random::new(1)));
        let Next::Try(first) = search.propose() else { panic!("a candidate") };
        let mut resumed = Search::new(Halves::boxed(), Box::new(Random::new(1)));
        resumed.resume(first.point, first.hash, TrialOutcome::Measured(vec![1.0]));
        let blocks = candidates(&mut resumed);
        assert_eq!(blocks.len(), 11);
        assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), 11);
        assert!(!blocks.contains(&first.configuration.block.x));
    }
}
