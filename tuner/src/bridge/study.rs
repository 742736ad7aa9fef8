//! A sampler that asks an Optuna study.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::{Bridge, BridgeError, PythonSpace};
use crate::early_stop::EarlyStop;
use crate::sampler::{History, Sampler, TrialOutcome};
use crate::space::{Domain, Parameter, Point, SearchSpace};

/// Proposals of Optuna in a row that another session has tried. After that many, the sampler takes one, because there
/// may be no others.
const DRAWS: usize = 50;

/// Options for opening a study.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Optuna's name for the study; with a storage, the default is made from the kernel's name.
    pub name: Option<String>,
    /// A URL, or a journal file; without one, the study is in memory.
    pub storage: Option<String>,
    /// "tpe", "random" or "nsga2".
    pub sampler: String,
    /// The name of Optuna's class, for example "median".
    pub pruner: Option<String>,
    pub seed: Option<u64>,
    /// Number of objectives, all minimised.
    pub objectives: usize,
    /// Mangled name.
    pub kernel: String,
    /// The results folder, which tells this session's trials from others in the study.
    pub session: String,
}

/// A sampler that asks a study for points.
pub struct OptunaSampler {
    bridge: Bridge,
    /// Trials without an outcome.
    asked: Rc<RefCell<Asked>>,
}

/// Trials of the study without an outcome.
#[derive(Debug, Default)]
struct Asked {
    /// Their numbers, by point.
    numbers: HashMap<Point, Vec<u64>>,
    /// Points that the study's pruner gave up.
    pruned: HashSet<Point>,
}

/// Gives up candidates by the study's pruner.
pub struct OptunaPruner {
    bridge: Bridge,
    asked: Rc<RefCell<Asked>>,
}

impl EarlyStop for OptunaPruner {
    fn hopeless(&mut self, point: &Point, metric: f64) -> bool {
        let Some(number) = self.asked.borrow().numbers.get(point).and_then(|numbers| numbers.last().copied()) else {
            return false;
        };
        let answer = self.bridge.ask(&json!({"type": "report", "number": number, "step": 0, "value": metric}));
        let prune = answer.map_err(|error| self.bridge.fail(error)).is_ok_and(|answer| answer["prune"] == true);
        if prune {
            self.asked.borrow_mut().pruned.insert(point.clone());
        }
        prune
    }
}

impl OptunaSampler {
    /// Opens or creates the study. If the space is a Python class, `python` is its number and the study suggests its
    /// points; otherwise it suggests points of `space`.
    ///
    /// # Errors Python has no Optuna, or Optuna cannot open the storage.
    pub fn new(
        bridge: &Bridge,
        options: &StudyOptions,
        space: &dyn SearchSpace,
        python: Option<u64>,
    ) -> Result<Self, BridgeError> {
        let parameters: Vec<Value> = space.parameters().iter().map(describe).collect::<Result<_, _>>()?;
        bridge.ask(&json!({
            "type": "study", "name": options.name, "storage": options.storage, "sampler": options.sampler, "pruner": options.pruner,
            "seed": options.seed, "directions": vec!["minimize"; options.objectives], "kernel": options.kernel, "session": options.session,
            "space": python, "parameters": parameters,
        }))?;
        Ok(Self { bridge: bridge.clone(), asked: Rc::default() })
    }

    /// Sends a request. A failure ends the session.
    fn request(&self, request: &Value) -> Option<Value> {
        self.bridge.ask(request).map_err(|error| self.bridge.fail(error)).ok()
    }

    /// The study's pruner.
    pub fn pruner(&self) -> OptunaPruner {
        OptunaPruner { bridge: self.bridge.clone(), asked: Rc::clone(&self.asked) }
    }
}

impl Bridge {
    /// Closes trials that this session asked for before it was interrupted. Trials with an outcome were told before.
    ///
    /// # Errors The helper process is gone.
    pub fn abandon(&self) -> Result<(), BridgeError> {
        self.ask(&json!({"type": "abandon"})).map(drop)
    }
}

impl PythonSpace {
    /// The number by which a study refers to this class.
    pub fn number(&self) -> u64 {
        self.number
    }
}

fn describe(parameter: &Parameter) -> Result<Value, BridgeError> {
    let mut described = match &parameter.domain {
        Domain::Integer { low, high, step, log } => {
            json!({"kind": "integer", "low": low, "high": high, "step": step, "log": log})
        }
        Domain::Real { low, high, step, log } => {
            json!({"kind": "real", "low": low, "high": high, "step": step, "log": log})
        }
        Domain::Categorical(values) => json!({"kind": "categorical", "values": values}),
        Domain::Boolean => json!({"kind": "categorical", "values": [false, true]}),
        Domain::Permutation(values) => json!({"kind": "permutation", "values": values}),
        Domain::Pipeline(_) => {
            let name = &parameter.name;
            return Err(BridgeError::Refused(format!(
                "Optuna cannot sample sequences of passes such as '{name}'; use --sampler passes"
            )));
        }
    };
    described["name"] = parameter.name.as_str().into();
    Ok(described)
}

impl Sampler for OptunaSampler {
    fn ask(&mut self, space: &dyn SearchSpace, _history: &History) -> Option<Point> {
        for left in (0..DRAWS).rev() {
            let mut answer = self.request(&json!({"type": "ask"}))?;
            let number = answer["number"].as_u64()?;
            let mut suggested: Map<String, Value> = serde_json::from_value(answer["point"].take()).ok()?;
            // Optuna suggests every parameter. Those that do not apply get no value.
            let mut point = Point::new();
            for parameter in space.parameters() {
                if let Some(value) = suggested.remove(&parameter.name)
                    && space.is_active(parameter, &point)
                {
                    point.insert(parameter.name.clone(), value);
                }
            }
            point.extend(suggested);
            let claim = json!({"type": "claim", "number": number, "point": point, "force": left == 0});
            if self.request(&claim)?["taken"] == true {
                self.asked.borrow_mut().numbers.entry(point.clone()).or_default().push(number);
                return Some(point);
            }
        }
        None
    }

    fn tell(&mut self, point: &Point, outcome: &TrialOutcome) {
        let mut asked = self.asked.borrow_mut();
        let values = outcome.values().filter(|_| !asked.pruned.contains(point));
        let number = asked.numbers.get_mut(point).and_then(Vec::pop);
        let request = match number {
            Some(number) => json!({"type": "tell", "number": number, "values": values}),
            None => json!({"type": "recall", "point": point, "values": values}),
        };
        if let Err(error) = self.bridge.ask(&request) {
            self.bridge.fail(error);
        }
    }
}
