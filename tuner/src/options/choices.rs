//! Types of option values.

use std::fmt;

use clap::ValueEnum;
use mneme_system::arguments::ValueError;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// The timers that `mneme-replay` knows.
pub const TIMERS: [&str; 4] = [AUTO, "events", "cupti", "rocprofiler"];
/// The default timer.
pub const AUTO: &str = "auto";

/// How an on-off setting varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// As recorded
    Fixed,
    On,
    Off,
    /// Try both
    OnOff,
}

impl Switch {
    /// The values to try, in this order.
    pub fn values(self) -> &'static [bool] {
        match self {
            Self::Fixed | Self::Off => &[false],
            Self::On => &[true],
            Self::OnOff => &[false, true],
        }
    }
}

/// A switch may also be a boolean, because YAML 1.1 reads `on` and `off` as booleans.
impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Plain(bool),
            Name(String),
        }
        match Written::deserialize(deserializer) {
            Ok(Written::Plain(on)) => Ok(if on { Self::On } else { Self::Off }),
            Ok(Written::Name(name)) => Self::from_str(&name, false)
                .map_err(|_| D::Error::custom(format!("'{name}' must be one of {SWITCHES}"))),
            Err(_) => Err(D::Error::custom(format!("a switch must be one of {SWITCHES}"))),
        }
    }
}

const SWITCHES: &str = "fixed, on, off or on-off";

/// The arguments that specialisation folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoldedArguments {
    /// All arguments of each instance
    All,
    /// Arguments that are equal in all instances of the session
    Common,
}

/// The number of threads that launch bounds promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaxThreadsPolicy {
    /// The threads of the recorded block; excludes larger blocks
    Recorded,
    /// The threads of the candidate's block
    BlockThreads,
    /// Every power of two from the block's threads up to 1024
    PowersOfTwo,
    /// 1024
    Hardware,
}

/// The code that speedups compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaselineCode {
    /// The application's own code
    Original,
    /// The recorded IR after the first pipeline, as in the existing Mneme
    Pipeline,
}

/// How many runs a candidate gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunsKind {
    /// Until it is clear whether the candidate is among the best, at most --iterations; kernels of 20 ms or more are
    /// measured at most three times, after one warm-up
    Needed,
    /// --iterations, after --warmup
    All,
}

/// Optuna's pruners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pruner {
    None,
    Median,
    Percentile,
    Hyperband,
    SuccessiveHalving,
}

impl Pruner {
    pub fn name(self) -> String {
        name(&self)
    }
}

/// The name of a value in files and on command lines.
fn name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => unreachable!("plain variants are strings"),
    }
}

/// Whole numbers `low`, `low + step`, … up to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub low: u32,
    pub high: u32,
    pub step: u32,
}

impl Range {
    pub fn one(value: u32) -> Self {
        Self { low: value, high: value, step: 1 }
    }

    pub fn values(self) -> Vec<u32> {
        (self.low..=self.high).step_by(self.step as usize).collect()
    }
}

/// Parses `LOW:HIGH` or `LOW:HIGH:STEP`.
impl std::str::FromStr for Range {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let numbers: Vec<u32> = text
            .split(':')
            .map(|part| part.parse().map_err(|_| format!("'{part}' is not a whole number").into()))
            .collect::<Result<_, ValueError>>()?;
        let range = match numbers[..] {
            [low, high] => Self { low, high, step: 1 },
            [low, high, step] => Self { low, high, step },
            _ => return Err("write it as LOW:HIGH or LOW:HIGH:STEP".into()),
        };
        if range.low > range.high || range.step == 0 {
            return Err("LOW must not exceed HIGH, and STEP must be at least 1".into());
        }
        Ok(range)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.low, self.high)?;
        if self.step == 1 { Ok(()) } else { write!(f, ":{}", self.step) }
    }
}

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)
            .map_err(|_| D::Error::custom("write a range as \"LOW:HIGH\", in quotes"))?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Checks the syntax of `--device`, as in `mneme-replay`.
pub fn device(text: &str) -> Result<String, ValueError> {
    let is_device = |name: &str| {
        const KINDS: [&str; 3] = ["cpu", "cuda", "hip"];
        let number = match name.split_once(':') {
            Some((kind, number)) if KINDS.contains(&kind) => number,
            _ => name,
        };
        KINDS.contains(&name) || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let of_cpu = text.split(',').filter(|name| name.starts_with("cpu")).count();
    if text.split(',').all(is_device) && (of_cpu == 0 || of_cpu == text.split(',').count()) {
        Ok(text.into())
    } else {
        Err(format!("use cpu, cuda, hip or the numbers of GPUs, such as 0,1{}", mneme_model::device::kind_hint(text))
            .into())
    }
}

/// Checks a type for `--dtype`, as in `mneme-replay`.
pub fn float_type(text: &str) -> Result<String, ValueError> {
    if ["f16", "f32", "f64"].contains(&text) { Ok(text.into()) } else { Err("use f16, f32 or f64".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_checked_and_written() {
        assert_eq!("1:3".parse::<Range>().unwrap().values(), [1, 2, 3]);
        assert_eq!("0:3:3".parse::<Range>().unwrap().values(), [0, 3]);
        for text in ["1:3", "0:6:2"] {
            assert_eq!(text.parse::<Range>().unwrap().to_string(), text);
        }
        for wrong in ["", "3", "3:1", "0:3:0", "1:2:3:4", "a:b", "-1:2"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn switches_may_be_booleans_in_a_file() {
        let read = |text: &str| serde_json::from_str::<Switch>(text);
        assert_eq!(
            (read("true").unwrap(), read("\"off\"").unwrap(), read("\"on-off\"").unwrap()),
            (Switch::On, Switch::Off, Switch::OnOff)
        );
        assert!(read("\"maybe\"").unwrap_err().to_string().contains("'maybe' must be one of fixed"));
    }

    #[test]
    fn devices_are_kinds_or_lists_of_numbers() {
        for right in ["cpu", "cuda", "0", "0,1,7", "cuda:1", "cpu,cpu:1", "hip", "hip:1"] {
            assert_eq!(device(right).unwrap(), right);
        }
        for wrong in ["gpu", "", "0,", "cpu,0", "-1", "cpu:", "cpu:x", "hip:", "gpu:1"] {
            assert!(device(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn types_are_those_of_floating_point() {
        assert_eq!(float_type("f32").unwrap(), "f32");
        assert!(float_type("i32").is_err() && float_type("").is_err());
    }
}
