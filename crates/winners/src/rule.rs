//! Rules for dimensions: they compute a tuned launch from the application's launch.
//!
//! A rule contains a tuning space's derived values (`grid.x = ceil(args[2] / block.x)`), in the same syntax. The
//! application's process evaluates it, so only arithmetic is supported: numbers, `+ - * / %`, parentheses, `ceil`,
//! `floor`, `round`, `abs`, `min`, `max`, and names. An expression with anything else is not a rule.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use mneme_model::launch::Dim3;
use serde::{Deserialize, Serialize};

/// Dimensions of a launch, and its dynamic shared memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchDimensions {
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_mem: u32,
}

impl LaunchDimensions {
    /// Threads of all blocks along an axis.
    pub fn threads_along(&self, axis: usize) -> u64 {
        u64::from(self.grid.as_array()[axis]) * u64::from(self.block.as_array()[axis])
    }

    pub fn has_more_threads_than(&self, other: &Self) -> bool {
        (0..3).any(|axis| self.threads_along(axis) > other.threads_along(axis))
    }
}

/// Limits on characters of an expression, and on nesting.
const MAX_LENGTH: usize = 1000;
const MAX_DEPTH: usize = 32;
/// Integers up to this bound are exact.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Fields of a launch, in the order of [`Fields`].
const FIELDS: [&str; 7] = ["grid.x", "grid.y", "grid.z", "block.x", "block.y", "block.z", "shared_mem"];
const RECORDED: &str = "recorded.";

/// A rule as stored in a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DimensionRule {
    /// The tuner's choices for parameters other than fields of a launch.
    pub values: BTreeMap<String, f64>,
    /// Names and expressions, each of which may use the previous ones.
    pub derived: Vec<(String, String)>,
}

impl DimensionRule {
    /// The rule of the built-in spaces: along each axis, at least as many threads as the application starts, rounded up
    /// to whole blocks.
    pub fn same_threads() -> Self {
        let axis = |axis: &str| {
            (format!("grid.{axis}"), format!("ceil(recorded.grid.{axis} * recorded.block.{axis} / block.{axis})"))
        };
        Self { values: BTreeMap::new(), derived: ["x", "y", "z"].map(axis).into() }
    }

    /// Whether the rule defines the grid along every axis on which the block differs.
    pub fn covers(&self, recorded: &LaunchDimensions, tuned: &LaunchDimensions) -> bool {
        let (recorded, tuned) = (recorded.block.as_array(), tuned.block.as_array());
        let says = |field: &str| self.derived.iter().any(|(name, _)| name == field);
        (0..3).all(|axis| recorded[axis] == tuned[axis] || says(FIELDS[axis]))
    }

    /// Parses the expressions.
    ///
    /// # Errors
    /// An expression is more than arithmetic.
    pub fn read(&self) -> Result<ReadRule, NoArithmetic> {
        let derived = self.derived.iter().map(|(name, text)| {
            let expression = parse(text).ok_or_else(|| NoArithmetic(text.clone()))?;
            Ok((name.clone(), expression))
        });
        Ok(ReadRule { values: self.values.clone(), derived: derived.collect::<Result<_, _>>()? })
    }
}

/// An expression that a rule does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is more than arithmetic of known names")]
pub struct NoArithmetic(String);

/// A rule that can be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadRule {
    values: BTreeMap<String, f64>,
    derived: Vec<(String, Expression)>,
}

/// The inputs of a rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleInputs<'a> {
    /// The application's launch: `recorded.grid.x` and so on, and the grid until the rule changes it.
    pub launch: LaunchDimensions,
    /// The winner's recorded launch and its tuned one: the tuner chose the differences.
    pub recorded: LaunchDimensions,
    pub tuned: LaunchDimensions,
    /// Little-endian bits of each argument of at most 8 bytes; `None` for larger ones.
    pub arguments: &'a [Option<u64>],
}

type Fields = [f64; 7];

fn fields(shape: &LaunchDimensions) -> Fields {
    let (grid, block) = (shape.grid.as_array().map(f64::from), shape.block.as_array().map(f64::from));
    [grid[0], grid[1], grid[2], block[0], block[1], block[2], f64::from(shape.shared_mem)]
}

impl ReadRule {
    /// The tuned dimensions of a launch that was not verified; `None` if the rule does not apply.
    ///
    /// The rule applies to launches with the recorded block and shared memory. A kernel may depend on exactly the
    /// threads that the application starts, so more (or fewer) threads are allowed only if the verified launch also had
    /// more (or fewer).
    pub fn shape_elsewhere(&self, inputs: &RuleInputs<'_>) -> Option<LaunchDimensions> {
        let RuleInputs { launch, recorded, tuned, .. } = inputs;
        if (launch.block, launch.shared_mem) != (recorded.block, recorded.shared_mem) {
            return None;
        }
        let shape = self.shape(inputs)?;
        let bears = |axis: usize| {
            let known = tuned.threads_along(axis).cmp(&recorded.threads_along(axis));
            let change = shape.threads_along(axis).cmp(&launch.threads_along(axis));
            change == Ordering::Equal || change == known
        };
        (0..3).all(bears).then_some(shape)
    }

    /// The tuned dimensions; `None` if they cannot be computed, or are not valid.
    pub fn shape(&self, inputs: &RuleInputs<'_>) -> Option<LaunchDimensions> {
        let (asked, recorded, tuned) = (fields(&inputs.launch), fields(&inputs.recorded), fields(&inputs.tuned));
        // Values that the tuner kept are the application's; the grid comes from the rule.
        let mut now: Fields =
            std::array::from_fn(
                |field| if field < 3 || tuned[field] == recorded[field] { asked[field] } else { tuned[field] },
            );
        let mut known = self.values.clone();
        for (name, expression) in &self.derived {
            let lookup = |name: &str| {
                let field = |name: &str| FIELDS.iter().position(|field| *field == name);
                match name.strip_prefix(RECORDED) {
                    Some(name) => field(name).map(|field| asked[field]),
                    None => field(name).map(|field| now[field]).or_else(|| known.get(name).copied()),
                }
            };
            let value = expression.value(&lookup, inputs.arguments)?;
            match FIELDS.iter().position(|field| field == name) {
                Some(field) => now[field] = value,
                None => _ = known.insert(name.clone(), value),
            }
        }
        let whole =
            |value: f64| (value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value)).then_some(value as u32);
        let number = |field: usize| whole(now[field]).filter(|number| *number > 0);
        Some(LaunchDimensions {
            grid: [number(0)?, number(1)?, number(2)?].into(),
            block: [number(3)?, number(4)?, number(5)?].into(),
            shared_mem: whole(now[6])?,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(f64),
    Name(String),
    Argument(usize),
    Negative(Box<Expression>),
    Operation(char, Box<[Expression; 2]>),
    Function(Function, Vec<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Ceil,
    Floor,
    Round,
    Abs,
    Min,
    Max,
}

impl Function {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "ceil" => Self::Ceil,
            "floor" => Self::Floor,
            "round" => Self::Round,
            "abs" => Self::Abs,
            "min" => Self::Min,
            "max" => Self::Max,
            _ => return None,
        })
    }

    fn takes(self, count: usize) -> bool {
        if matches!(self, Self::Min | Self::Max) { (2..=4).contains(&count) } else { count == 1 }
    }
}

impl Expression {
    fn value(&self, lookup: &dyn Fn(&str) -> Option<f64>, arguments: &[Option<u64>]) -> Option<f64> {
        let of = |expression: &Self| expression.value(lookup, arguments);
        let value = match self {
            Self::Number(number) => *number,
            Self::Name(name) => lookup(name)?,
            Self::Argument(index) => arguments.get(*index).copied().flatten()? as f64,
            Self::Negative(inner) => -of(inner)?,
            Self::Operation(operator, sides) => {
                let [left, right] = [of(&sides[0])?, of(&sides[1])?];
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' => left / right,
                    _ => left % right,
                }
            }
            Self::Function(function, inner) => {
                let mut values = inner.iter().map(of).collect::<Option<Vec<_>>>()?.into_iter();
                let first = values.next()?;
                match function {
                    Function::Ceil => first.ceil(),
                    Function::Floor => first.floor(),
                    Function::Round => first.round(),
                    Function::Abs => first.abs(),
                    Function::Min => values.fold(first, f64::min),
                    Function::Max => values.fold(first, f64::max),
                }
            }
        };
        // Larger numbers are not exact.
        (value.abs() < EXACT).then_some(value)
    }
}

fn parse(text: &str) -> Option<Expression> {
    let mut parser = Parser { rest: Some(text).filter(|text| text.len() <= MAX_LENGTH)?, depth: 0 };
    let expression = parser.sum()?;
    parser.rest.trim_start().is_empty().then_some(expression)
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn takes(&mut self, characters: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let found = self.rest.chars().next().filter(|character| characters.contains(character))?;
        self.rest = &self.rest[found.len_utf8()..];
        Some(found)
    }

    fn sum(&mut self) -> Option<Expression> {
        self.operations(&['+', '-'], Self::product)
    }

    fn product(&mut self) -> Option<Expression> {
        self.operations(&['*', '/', '%'], Self::signed)
    }

    fn operations(&mut self, operators: &[char], operand: fn(&mut Self) -> Option<Expression>) -> Option<Expression> {
        let mut left = operand(self)?;
        while let Some(operator) = self.takes(operators) {
            left = Expression::Operation(operator, Box::new([left, operand(self)?]));
        }
        Some(left)
    }

    fn signed(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let expression = match self.takes(&['-']) {
            Some(_) => Expression::Negative(Box::new(self.signed()?)),
            None => self.single()?,
        };
        self.depth -= 1;
        Some(expression)
    }

    fn single(&mut self) -> Option<Expression> {
        if self.takes(&['(']).is_some() {
            let inner = self.sum()?;
            return self.takes(&[')']).map(|_| inner);
        }
        let word = self.word()?;
        if word.starts_with(|character: char| character.is_ascii_digit()) {
            return word.parse().ok().map(Expression::Number);
        }
        if word == "args" {
            self.takes(&['['])?;
            let index = self.word()?.parse().ok()?;
            return self.takes(&[']']).map(|_| Expression::Argument(index));
        }
        if self.takes(&['(']).is_none() {
            return Some(Expression::Name(word));
        }
        let function = Function::of(&word)?;
        let mut inner = vec![self.sum()?];
        while self.takes(&[',']).is_some() {
            inner.push(self.sum()?);
        }
        (self.takes(&[')']).is_some() && function.takes(inner.len())).then_some(Expression::Function(function, inner))
    }

    /// A number or a name.
    fn word(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        let is_part = |character: char| character.is_ascii_alphanumeric() || "._".contains(character);
        let end = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(grid: u32, block: u32) -> LaunchDimensions {
        LaunchDimensions { grid: Dim3::new(grid, 1, 1), block: Dim3::new(block, 1, 1), shared_mem: 0 }
    }

    fn value(text: &str) -> Option<f64> {
        let lookup = |name: &str| (name == "n").then_some(10.0);
        parse(text)?.value(&lookup, &[Some(7), None])
    }

    #[test]
    fn a_rule_for_other_values_is_none_for_the_grid() {
        let rule =
            |name: &str| DimensionRule { derived: vec![(name.into(), "block.x".into())], ..DimensionRule::default() };
        assert!(!rule("max_threads").covers(&shape(40, 256), &shape(40, 128)));
        assert!(rule("grid.x").covers(&shape(40, 256), &shape(40, 128)));
        assert!(rule("max_threads").covers(&shape(40, 256), &shape(20, 256)));
        let tall = LaunchDimensions { block: Dim3::new(256, 2, 1), ..shape(40, 256) };
        assert!(
            !rule("grid.x").covers(&shape(40, 256), &tall)
                && DimensionRule::same_threads().covers(&shape(40, 256), &tall)
        );
    }

    #[test]
    fn arithmetic_is_that_of_spaces() {
        for (text, expected) in [
            ("ceil(n / 4)", 3.0),
            ("2 + 3 * -2 - 1", -5.0),
            ("(2 + 3) * 2 % 4", 2.0),
            ("max(1, min(n, args[0]), 3)", 7.0),
            ("7 / 2", 3.5),
            ("1.5", 1.5),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        for text in [
            "", "n +", "m", "args[1]", "args[9]", "ceil(1, 2)", "sqrt(4)", "n ** 2", "if n { 1 }", "9007199254740993",
            "1 / 0", "n n",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(parse(&"(".repeat(500)), None);
        assert_eq!(parse(&"-".repeat(500)), None);
    }

    #[test]
    fn the_grid_follows_the_launch() {
        let rule = DimensionRule::same_threads().read().unwrap();
        let of = |launch| {
            let inputs = RuleInputs { launch, recorded: shape(40, 256), tuned: shape(80, 128), arguments: &[] };
            rule.shape(&inputs)
        };
        assert_eq!(of(shape(40, 256)), Some(shape(80, 128)));
        assert_eq!(of(shape(7, 256)), Some(shape(14, 128)));
    }

    #[test]
    fn a_space_s_own_rule_may_use_arguments_and_helpers() {
        let rule = DimensionRule {
            values: [("items".to_owned(), 4.0)].into(),
            derived: vec![
                ("threads".into(), "args[1] / items".into()),
                ("grid.x".into(), "ceil(threads / block.x)".into()),
                ("shared_mem".into(), "block.x * 8".into()),
            ],
        };
        let read = rule.read().unwrap();
        let inputs = RuleInputs {
            launch: shape(10, 256),
            recorded: shape(40, 256),
            tuned: shape(1, 64),
            arguments: &[None, Some(1000)],
        };
        assert_eq!(read.shape(&inputs), Some(LaunchDimensions { shared_mem: 512, ..shape(4, 64) }));
        assert_eq!(read.shape(&RuleInputs { arguments: &[None, None], ..inputs }), None);
        assert_eq!(read.shape(&RuleInputs { arguments: &[None, Some(0)], ..inputs }), None, "no empty grid");
        let other = DimensionRule { derived: vec![("grid.x".into(), "device.limits".into())], ..rule };
        assert_eq!(other.read().unwrap().shape(&inputs), None);
    }
}
