//! Objectives: the numbers by which candidates are compared.
//!
//! `time` and `speedup` come from the existing Mneme. Others are expressions over a result's fields, prefixed by `min:`
//! (the default) or `max:`. Several objectives make a Pareto front. docs/reference/samplers.md lists the names.

use std::collections::BTreeSet;

use mneme_model::configuration::Configuration;
use mneme_model::result::ReplayResult;
use serde_json::{Value, json};

use crate::expression::{Expression, ExpressionEngine, ExpressionError, Values, paths};
use crate::metric::Metric;

/// An error in an objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectiveError {
    #[error("the objective {0}")]
    Expression(#[from] ExpressionError),
    #[error("the objective '{objective}' has no value, because this device does not report it")]
    Untold { objective: String },
    #[error("the objective '{objective}' has no value; it must give a number for every result")]
    NoValue { objective: String },
    #[error("the objective '{objective}' gives {value}, which is not a number")]
    NoNumber { objective: String, value: Value },
    #[error(
        "the objective '{objective}' needs the energy of a launch, which could not be measured: that takes an NVIDIA GPU (Volta or later) with NVML, and a launch that uses more energy than the noise of restoring its memory"
    )]
    NoEnergy { objective: String },
    #[error("the objective '{objective}' needs the hardware counter {counter}, which has no value: {reason}")]
    NoCounter { objective: String, counter: String, reason: String },
    #[error("an objective is empty; write time, or an expression such as registers")]
    Empty,
    #[error("the objective '{0}' prefers the slowest; write speedup, or max:time if you mean that")]
    Slowest(String),
    #[error("the result has no measured runs")]
    NothingMeasured,
}

/// The values from which an objective is computed.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'a> {
    pub result: &'a ReplayResult,
    pub configuration: &'a Configuration,
    /// The baseline's metric, ns.
    pub baseline: Option<f64>,
}

/// The objectives of a session.
pub struct Objectives {
    language: ExpressionEngine,
    metric: Metric,
    list: Vec<Objective>,
}

struct Objective {
    text: String,
    maximise: bool,
    kind: Kind,
    /// Hardware counters in the expression.
    counters: Vec<String>,
}

enum Kind {
    Time,
    Speedup,
    Expression(Expression),
}

impl Objectives {
    /// Parses objectives; `metric` defines `time`.
    ///
    /// # Errors An expression is wrong.
    pub fn read(texts: &[impl AsRef<str>], metric: Metric) -> Result<Self, ObjectiveError> {
        let language = ExpressionEngine::default();
        let (result, configuration) =
            (ReplayResult::default(), Configuration::recorded([1; 3].into(), [1; 3].into(), 0));
        let known = names(&Measurement { result: &result, configuration: &configuration, baseline: None }, metric, &[]);
        let read = |text: &str| -> Result<Objective, ObjectiveError> {
            let direction = text.split_once(':').map(|(direction, rest)| (direction.trim(), rest.trim()));
            let (direction, rest) = match direction {
                Some(("min" | "max", _)) => direction.unwrap_or_default(),
                _ => ("", text.trim()),
            };
            let maximise = direction == "max";
            let (maximise, kind) = match rest {
                "" => return Err(ObjectiveError::Empty),
                "speedup" if direction == "min" => return Err(ObjectiveError::Slowest(text.trim().into())),
                "time" if !maximise => (false, Kind::Time),
                // More is better, with either prefix.
                "speedup" => (true, Kind::Speedup),
                _ => {
                    let (text, counters) = with_counters(rest);
                    let mut known = known.clone();
                    counters.iter().for_each(|counter| known.set(&in_language(counter), &Value::Null));
                    let read = language.read(&text, &known);
                    let expression = read.map_err(|error| ExpressionError { expression: rest.into(), ..error })?;
                    return Ok(Objective { text: rest.into(), maximise, kind: Kind::Expression(expression), counters });
                }
            };
            Ok(Objective { text: rest.to_owned(), maximise, kind, counters: Vec::new() })
        };
        let list = texts.iter().map(|text| read(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { language, metric, list })
    }

    /// The objectives as the user wrote them, without `min:` and `max:`.
    pub fn names(&self) -> Vec<&str> {
        self.list.iter().map(|objective| objective.text.as_str()).collect()
    }

    /// Whether there is a single objective, not a Pareto front.
    pub fn is_single(&self) -> bool {
        self.list.len() == 1
    }

    /// Whether only the time decides.
    pub fn is_time(&self) -> bool {
        self.is_single() && self.list.iter().all(|objective| matches!(objective.kind, Kind::Time | Kind::Speedup))
    }

    /// Whether an objective needs the energy, which is only measured on request.
    pub fn need_energy(&self) -> bool {
        self.list.iter().any(Objective::needs_energy)
    }

    /// The hardware counters in the objectives, which are only counted on request.
    pub fn counters(&self) -> Vec<String> {
        let all: BTreeSet<&String> = self.list.iter().flat_map(|objective| &objective.counters).collect();
        all.into_iter().cloned().collect()
    }

    /// The objectives of a verified result, in the user's direction.
    ///
    /// # Errors An objective has no value: the device does not report a field, or the result is not a finite number.
    pub fn evaluate(&self, measurement: &Measurement) -> Result<Vec<f64>, ObjectiveError> {
        let time = self.metric.of(measurement.result.measured()).ok_or(ObjectiveError::NothingMeasured)?;
        let mut all = None;
        self.list
            .iter()
            .map(|objective| match &objective.kind {
                Kind::Time => Ok(time),
                // The speedup of the baseline itself.
                Kind::Speedup => Ok(measurement.baseline.map_or(1.0, |baseline| baseline / time)),
                Kind::Expression(_) if objective.needs_energy() && measurement.result.energy_j.is_none() => {
                    Err(ObjectiveError::NoEnergy { objective: objective.text.clone() })
                }
                Kind::Expression(expression) => {
                    let result = measurement.result;
                    if let Some(counter) = objective.counters.iter().find(|it| !result.counters.contains_key(*it)) {
                        let unasked = || "the result was measured without counters".to_owned();
                        let reason = Some(result.counters_reason.clone()).filter(|reason| !reason.is_empty());
                        let (objective, counter) = (objective.text.clone(), counter.clone());
                        let reason = reason.unwrap_or_else(unasked);
                        return Err(ObjectiveError::NoCounter { objective, counter, reason });
                    }
                    let values = all.get_or_insert_with(|| names(measurement, self.metric, &self.counters()));
                    let evaluated = self.language.evaluate(expression, values);
                    let value =
                        evaluated.map_err(|error| ExpressionError { expression: objective.text.clone(), ..error })?;
                    let objective = objective.text.clone();
                    match value.as_f64().filter(|number| number.is_finite()) {
                        Some(number) => Ok(number),
                        None if value.is_null() && names_nothing(&objective, values) => {
                            Err(ObjectiveError::Untold { objective })
                        }
                        None if value.is_null() => Err(ObjectiveError::NoValue { objective }),
                        None => Err(ObjectiveError::NoNumber { objective, value }),
                    }
                }
            })
            .collect()
    }

    /// The same values as costs for samplers: smaller is better.
    pub fn costs(&self, values: &[f64]) -> Vec<f64> {
        self.list
            .iter()
            .zip(values)
            .map(|(objective, value)| if objective.maximise { -value } else { *value })
            .collect()
    }
}

impl Objective {
    fn needs_energy(&self) -> bool {
        self.text.contains(ENERGY)
    }
}

/// Whether an expression uses a name without a value.
fn names_nothing(text: &str, values: &Values) -> bool {
    paths(text).iter().any(|(_, path)| values.is_nothing(path.split('.').next().unwrap_or_default()))
}

/// The objective's name, and that of the result's field.
const ENERGY: &str = "energy_j";

/// All names that an objective may use. Values that the device does not report are `null`.
fn names(measurement: &Measurement, metric: Metric, counters: &[String]) -> Values {
    let Measurement { result, configuration, baseline } = *measurement;
    let said = |number: i64| if number < 0 { Value::Null } else { number.into() };
    let metrics = &result.metrics;
    let time = metric.of(result.measured());
    let mut values = Values::default();
    for (name, value) in [
        ("time", json!(time)),
        ("exec_time", json!(result.measured())),
        ("baseline", json!(baseline)),
        ("speedup", json!(time.zip(baseline).map(|(time, baseline)| baseline / time))),
        ("registers", said(metrics.registers.max(result.reg_usage))),
        ("local", said(metrics.local.max(result.local_mem_usage))),
        ("constant", said(metrics.constant.max(result.const_mem_usage))),
        ("static_shared", said(metrics.static_shared)),
        ("dynamic_shared", said(metrics.dynamic_shared)),
        ("spill_stores", said(metrics.spill_stores)),
        ("spill_loads", said(metrics.spill_loads)),
        ("active_blocks_per_sm", said(metrics.active_blocks_per_sm)),
        ("occupancy", json!(metrics.occupancy)),
        ("code_size", said(metrics.code_size)),
        ("obj_size", json!(result.obj_size)),
        ("build_time", json!(result.preprocess_ir_time + result.opt_time + result.codegen_time)),
        (ENERGY, json!(result.energy_j)),
        ("largest_error", json!(result.largest.map(|it| it.absolute))),
        ("largest_relative_error", json!(result.largest.map(|it| it.relative))),
        ("largest_ulp", json!(result.largest.map(|it| it.ulp))),
        ("config", json!(configuration)),
        ("grid", json!(configuration.grid)),
        ("block", json!(configuration.block)),
        ("result", json!(result)),
    ] {
        values.set(name, &value);
    }
    for counter in counters {
        values.set(&in_language(counter), &json!(result.counters.get(counter)));
    }
    values
}

/// Rewrites an objective so that the expression language can name its hardware counters, and returns the counters.
/// NVIDIA writes a counter as `unit__quantity`, followed by a dot and a suffix.
fn with_counters(text: &str) -> (String, Vec<String>) {
    let (mut rewritten, mut counters, mut rest) = (String::new(), Vec::new(), 0);
    for (start, path) in paths(text) {
        let is_counter = path.split('.').next().is_some_and(|first| first.trim_start_matches('_').contains("__"));
        if is_counter {
            rewritten += &text[rest..start];
            rewritten += &in_language(path);
            rest = start + path.len();
            counters.push(path.to_owned());
        }
    }
    rewritten += &text[rest..];
    (rewritten, counters)
}

/// A hardware counter as a name of the expression language.
fn in_language(counter: &str) -> String {
    counter.replace('.', "__")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::result::{Largest, Metrics};

    fn result() -> ReplayResult {
        ReplayResult {
            exec_time: vec![900, 100, 200, 300, 400, 500],
            warmup: 1,
            opt_time: 0.25,
            codegen_time: 0.5,
            largest: Some(Largest { absolute: 0.125, ..Largest::default() }),
            metrics: Metrics { registers: 40, code_size: 2048, ..Metrics::default() },
            ..ReplayResult::default()
        }
    }

    fn of(objectives: &[&str]) -> Result<Vec<f64>, ObjectiveError> {
        let configuration = Configuration::recorded([10, 1, 1].into(), [64, 1, 1].into(), 0);
        let objectives = Objectives::read(objectives, Metric::Mean)?;
        objectives.evaluate(&Measurement { result: &result(), configuration: &configuration, baseline: Some(600.0) })
    }

    #[test]
    fn objectives_are_computed_from_results() {
        assert_eq!(of(&["time", "speedup"]).unwrap(), [300.0, 2.0]);
        assert_eq!(
            of(&["percentile(exec_time, 90)", "min:registers", "code_size", "build_time"]).unwrap(),
            [460.0, 40.0, 2048.0, 0.75]
        );
        // Two operations for each of 640 threads, per nanosecond.
        assert_eq!(of(&["max: 2 * grid.x * block.x / time"]).unwrap(), [2.0 * 640.0 / 300.0]);
        assert!(of(&["time * (1 + 0.1 * (registers > 32 ? 1 : 0))"]).is_err());
        assert_eq!(of(&["if registers > 32 { time * 1.1 } else { time }"]).unwrap(), [330.0 + 0.0]);
        assert_eq!(of(&["result.metrics.code_size + config.codegen_opt"]).unwrap(), [2051.0]);
        assert_eq!(of(&["max(exec_time) - min(exec_time)", "largest_error"]).unwrap(), [400.0, 0.125]);
    }

    #[test]
    fn what_the_device_does_not_say_is_told_from_an_expression_without_a_value() {
        let failed = |text: &str| {
            let configuration = Configuration::recorded([10, 1, 1].into(), [64, 1, 1].into(), 0);
            let objectives = Objectives::read(&[text], Metric::Mean).unwrap();
            let result = result();
            objectives.evaluate(&Measurement { result: &result, configuration: &configuration, baseline: None })
        };
        assert_eq!(failed("occupancy"), Err(ObjectiveError::Untold { objective: "occupancy".into() }));
        assert_eq!(failed("()"), Err(ObjectiveError::NoValue { objective: "()".into() }));
        let text = "if registers > 99 { 1 }";
        assert_eq!(failed(text), Err(ObjectiveError::NoValue { objective: text.into() }));
    }

    #[test]
    fn energy_is_measured_where_it_is_wanted() {
        let wanted = |objectives: &[&str]| Objectives::read(objectives, Metric::Mean).unwrap().need_energy();
        assert_eq!(
            [&["time"][..], &["time", "registers * energy_j"], &["result.energy_j"]].map(wanted),
            [false, true, true]
        );
        let (result, configuration) = (
            ReplayResult { energy_j: Some(0.25), ..result() },
            Configuration::recorded([1; 3].into(), [1; 3].into(), 0),
        );
        let objectives = Objectives::read(&["energy_j * 4", "result.energy_j"], Metric::Mean).unwrap();
        let measurement = Measurement { result: &result, configuration: &configuration, baseline: None };
        assert_eq!(objectives.evaluate(&measurement), Ok(vec![1.0, 0.25]));
    }

    #[test]
    fn hardware_counters_are_named_as_nvidia_does() {
        let texts = [
            "max: sm__warps_active.avg.pct_of_peak_sustained_active",
            "if config.passes == \"l1tex__no.sum\" { 0 } else { dram__bytes.sum / smsp__inst_executed.sum }",
            "dram__bytes.sum * time",
        ];
        let objectives = Objectives::read(&texts, Metric::Mean).unwrap();
        let wanted =
            ["dram__bytes.sum", "sm__warps_active.avg.pct_of_peak_sustained_active", "smsp__inst_executed.sum"];
        assert_eq!(objectives.counters(), wanted);
        assert_eq!(Objectives::read(&["time", "registers"], Metric::Mean).unwrap().counters(), [""; 0]);
        let counters = [(wanted[0].to_owned(), 4096.0), (wanted[1].to_owned(), 62.5), (wanted[2].to_owned(), 8.0)];
        let mut counted = ReplayResult { counters: counters.into(), ..result() };
        let configuration = Configuration::recorded([1; 3].into(), [1; 3].into(), 0);
        let evaluate = |result: &ReplayResult| {
            objectives.evaluate(&Measurement { result, configuration: &configuration, baseline: None })
        };
        assert_eq!(evaluate(&counted), Ok(vec![62.5, 512.0, 4096.0 * 300.0]));
        assert_eq!(objectives.costs(&[62.5, 512.0, 1.0]), [-62.5, 512.0, 1.0]);
        counted.counters.clear();
        counted.counters_reason = "CUPTI is not there".into();
        let error = evaluate(&counted).unwrap_err().to_string();
        assert_eq!(
            error,
            "the objective 'sm__warps_active.avg.pct_of_peak_sustained_active' needs the hardware counter \
             sm__warps_active.avg.pct_of_peak_sustained_active, which has no value: CUPTI is not there"
        );
        let error = evaluate(&result()).unwrap_err().to_string();
        assert!(error.ends_with("the result was measured without counters"), "{error}");
        let error = Objectives::read(&["dram__bytes.sum * tmie"], Metric::Mean).err().unwrap().to_string();
        assert!(error.contains("'dram__bytes.sum * tmie' has the unknown name 'tmie'"), "{error}");
    }

    #[test]
    fn more_is_better_where_it_is_said() {
        let objectives = Objectives::read(&["speedup", "registers", "max: occupancy"], Metric::Min).unwrap();
        assert_eq!(objectives.costs(&[2.0, 40.0, 0.5]), [-2.0, 40.0, -0.5]);
        assert_eq!(objectives.names(), ["speedup", "registers", "occupancy"]);
    }

    #[test]
    fn mistakes_are_named() {
        use ObjectiveError::*;
        assert_eq!(of(&[""]), Err(Empty));
        assert!(matches!(of(&["min:speedup"]), Err(Slowest(_))));
        for text in ["registres", "occupancy * 2", "time <"] {
            assert!(matches!(of(&[text]), Err(Expression(_))), "{text}");
        }
        for text in ["spill_stores", "spill_loads"] {
            assert!(matches!(of(&[text]), Err(Untold { .. })), "{text}");
        }
        for text in ["energy_j", "time * energy_j"] {
            assert!(matches!(of(&[text]), Err(NoEnergy { .. })), "{text}");
        }
        assert!(matches!(of(&["exec_time"]), Err(NoNumber { .. })));
    }
}
