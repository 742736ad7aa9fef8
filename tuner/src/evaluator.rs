//! Replays candidates on every instance that is tuned for, and replaces servers that die.
//!
//! Each instance has a server, with its memory resident on the devices. Only one server works at a time, so they do not
//! disturb each other's times: a batch of candidates goes through the first instance, and those that verify move to the
//! next. If a server dies, the candidates in flight are tried again one at a time, so exactly the candidate that kills
//! it counts as failed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mneme_model::configuration::Configuration;
use mneme_model::protocol::Examination;
use mneme_model::result::{ReplayResult, ReplayStatus};

use crate::candidate::CandidateNumber;
use crate::interrupt;
use crate::server::{Runs, Server, ServerCommand, ServerError, ServerGreeting};
use crate::simulate::Simulation;

/// Servers that may die in a row without settling a configuration.
const RESTARTS: u32 = 3;

/// The identifier of [`Evaluator::run`], which is not a trial. Trials count from 0.
const ALONE: CandidateNumber = CandidateNumber(u64::MAX - 1);

/// The results of an evaluation.
#[derive(Debug)]
pub struct Evaluated {
    /// The identifier from [`Evaluator::submit`].
    pub id: CandidateNumber,
    /// Results in the order of instances, up to the first that did not verify.
    pub results: Vec<ReplayResult>,
}

/// The servers of all instances.
#[derive(Debug)]
pub struct Evaluator {
    lanes: Vec<Lane>,
    /// Answers instead of the lanes.
    simulation: Option<(Simulation, ServerGreeting)>,
    /// The lane at work.
    active: usize,
    /// Results so far of evaluations that have not ended.
    partial: BTreeMap<CandidateNumber, Pending>,
    /// Failures of servers, for the log.
    incidents: Vec<String>,
}

#[derive(Debug)]
struct Pending {
    configurations: Vec<Configuration>,
    runs: Runs,
    results: Vec<ReplayResult>,
}

/// The server of one instance, with its queue.
#[derive(Debug)]
struct Lane {
    command: ServerCommand,
    server: Server,
    waiting: VecDeque<CandidateNumber>,
    in_flight: BTreeSet<CandidateNumber>,
    /// Number of candidates that may have killed a server, which are tried one at a time.
    suspects: usize,
    deaths: u32,
    /// What timed the first verified result; times by another do not compare with it.
    timer: Option<String>,
}

impl Evaluator {
    /// Starts a server for each instance.
    ///
    /// # Errors A server cannot work, because of its recording or its device.
    pub fn start(commands: Vec<ServerCommand>) -> Result<Self, ServerError> {
        assert!(!commands.is_empty(), "there is an instance to evaluate");
        let start = |command: ServerCommand| {
            let server = command.start()?;
            Ok(Lane {
                command,
                server,
                waiting: VecDeque::new(),
                in_flight: BTreeSet::new(),
                suspects: 0,
                deaths: 0,
                timer: None,
            })
        };
        let lanes = commands.into_iter().map(start).collect::<Result<_, ServerError>>()?;
        Ok(Self { lanes, simulation: None, active: 0, partial: BTreeMap::new(), incidents: Vec::new() })
    }

    /// An evaluator that answers from recorded results.
    pub fn simulated(simulation: Simulation) -> Self {
        let (device, driver) = ("recorded results".into(), "none".into());
        let greeting = ServerGreeting {
            device,
            driver,
            assembler: String::new(),
            llvm: String::new(),
            compilers: Vec::new(),
            timer: String::new(),
            devices: vec![0],
            version: String::new(),
            limits: simulation.limits(),
            builders: 0,
        };
        Self {
            lanes: Vec::new(),
            simulation: Some((simulation, greeting)),
            active: 0,
            partial: BTreeMap::new(),
            incidents: Vec::new(),
        }
    }

    /// Whether results are recorded ones.
    pub fn is_simulated(&self) -> bool {
        self.simulation.is_some()
    }

    /// The greeting of the first instance's server.
    pub fn greeting(&self) -> &ServerGreeting {
        self.simulation.as_ref().map_or_else(|| self.lanes[0].server.greeting(), |(_, greeting)| greeting)
    }

    /// Has the first instance's server examine the kernel and pipelines, before a build. No replay may be in flight.
    ///
    /// # Errors The server ends, or the session is interrupted.
    pub fn examine(&mut self, passes: Vec<String>) -> Result<Examination, ServerError> {
        self.lanes.first_mut().map_or_else(|| Ok(Examination::default()), |lane| lane.server.examine(passes))
    }

    /// Number of evaluations in flight.
    pub fn outstanding(&self) -> usize {
        self.partial.len()
    }

    /// Adds a candidate, with its configuration for each instance. [`wait`](Self::wait) starts the replay.
    pub fn submit(&mut self, id: CandidateNumber, configurations: Vec<Configuration>, runs: Runs) {
        assert!(
            self.simulation.is_some() || configurations.len() == self.lanes.len(),
            "each instance has its configuration"
        );
        let before = self.partial.insert(id, Pending { configurations, runs, results: Vec::new() });
        assert!(before.is_none(), "an id names one evaluation");
        if let Some(first) = self.lanes.first_mut() {
            first.waiting.push_back(id);
        }
    }

    /// Submits waiting candidates, and waits for the next evaluation to end; `None` if there are none.
    ///
    /// # Errors Servers keep dying or cannot be started again, or the session is interrupted.
    pub fn wait(&mut self) -> Result<Option<Evaluated>, ServerError> {
        interrupt::check()?;
        if let Some((simulation, _)) = &self.simulation {
            let done = self.partial.pop_first();
            return Ok(done.map(|(id, pending)| Evaluated {
                id,
                results: pending.configurations.iter().map(|it| simulation.replay(it)).collect(),
            }));
        }
        while !self.partial.is_empty() {
            if self.lanes[self.active].in_flight.is_empty() {
                // The last lane first, so that candidates that are nearly done make room for others.
                self.active = self
                    .lanes
                    .iter()
                    .rposition(|lane| !lane.waiting.is_empty())
                    .expect("what is under way is in a lane");
            }
            if let Some(done) = self.step()? {
                return Ok(Some(done));
            }
        }
        Ok(None)
    }

    /// Replays one configuration for each instance and waits for the results. No other evaluation may be in flight.
    ///
    /// # Errors As [`wait`](Self::wait).
    pub fn run(&mut self, configurations: Vec<Configuration>, runs: Runs) -> Result<Vec<ReplayResult>, ServerError> {
        assert!(self.partial.is_empty(), "no other evaluation is in flight");
        self.submit(ALONE, configurations, runs);
        Ok(self.wait()?.map_or_else(Vec::new, |evaluated| evaluated.results))
    }

    /// Failures of servers since the last call, one sentence each.
    pub fn incidents(&mut self) -> Vec<String> {
        std::mem::take(&mut self.incidents)
    }

    /// Fills the active lane and takes one result from it.
    fn step(&mut self) -> Result<Option<Evaluated>, ServerError> {
        let Self { lanes, active, partial, .. } = self;
        let (place, lane) = (*active, &mut lanes[*active]);
        match lane.fill(place, partial).and_then(|()| lane.server.next_result()) {
            Ok((id, result)) => {
                let id = CandidateNumber(id);
                if !lane.in_flight.remove(&id) {
                    return Err(ServerError::Garbled { line: format!("a result for {id:?}, which was not submitted") });
                }
                (lane.deaths, lane.suspects) = (0, lane.suspects.saturating_sub(1));
                Ok(self.settle(id, result))
            }
            Err(error) => self.recover(error),
        }
    }

    fn recover(&mut self, error: ServerError) -> Result<Option<Evaluated>, ServerError> {
        // An interrupt that ends this session has ended its servers, too.
        interrupt::check()?;
        let lane = &mut self.lanes[self.active];
        self.incidents.push(format!("{error}; in flight: {:?}", lane.in_flight));
        let lost: Vec<CandidateNumber> = std::mem::take(&mut lane.in_flight).into_iter().collect();
        let killer = if let [only] = lost[..] {
            (lane.deaths, lane.suspects) = (0, lane.suspects.saturating_sub(1));
            Some(only)
        } else {
            lane.deaths += 1;
            lane.suspects = lost.len();
            lost.iter().rev().for_each(|id| lane.waiting.push_front(*id));
            None
        };
        if lane.deaths > RESTARTS {
            return Err(error);
        }
        lane.server = lane.command.start()?;
        Ok(killer.and_then(|id| self.settle(id, broken(&error))))
    }

    /// Notes a result of the active lane. Returns the evaluation if it has ended.
    fn settle(&mut self, id: CandidateNumber, result: ReplayResult) -> Option<Evaluated> {
        let pending = self.partial.get_mut(&id).expect("what has a result was submitted");
        let result = self.lanes[self.active].comparable(result);
        let goes_on = result.verified && pending.results.len() + 1 < self.lanes.len();
        pending.results.push(result);
        if goes_on {
            self.lanes[self.active + 1].waiting.push_back(id);
            return None;
        }
        self.partial.remove(&id).map(|pending| Evaluated { id, results: pending.results })
    }
}

impl Lane {
    /// The result, or that its times do not compare with those before it.
    fn comparable(&mut self, result: ReplayResult) -> ReplayResult {
        let environment = &result.environment;
        let is_timed = result.verified && !result.exec_time.is_empty();
        if !is_timed || *self.timer.get_or_insert_with(|| environment.timer.clone()) == environment.timer {
            return result;
        }
        let timer = self.timer.as_deref().unwrap_or_default();
        let reason = match environment.timer_reason.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let error = format!(
            "timed by {}{reason}, which does not compare with times by {timer}; --timer events times all by events",
            environment.timer
        );
        ReplayResult { verified: false, failed: true, status: ReplayStatus::InternalError, error, ..result }
    }

    fn fill(&mut self, place: usize, partial: &BTreeMap<CandidateNumber, Pending>) -> Result<(), ServerError> {
        while (self.suspects == 0 || self.in_flight.is_empty())
            && let Some(id) = self.waiting.front()
        {
            let pending = &partial[id];
            self.server.submit(id.0, &pending.configurations[place], pending.runs.clone())?;
            self.in_flight.extend(self.waiting.pop_front());
        }
        Ok(())
    }
}

/// The result of a configuration whose server died.
fn broken(error: &ServerError) -> ReplayResult {
    ReplayResult {
        failed: true,
        error: error.to_string(),
        status: ReplayStatus::InternalError,
        ..ReplayResult::default()
    }
}
