//! Python's values, and what its operators do with them.

use std::cmp::Ordering;
use std::sync::Arc;

/// Elements of a sequence that is made.
pub const MAX_SIZE: i128 = 100_000;

#[derive(Clone, Debug)]
pub enum Value {
    None,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Arc<str>),
    Sequence(Kind, Arc<[Value]>),
    /// First, end and step, as `range` has them; the step is not 0.
    Range(Arc<[i128; 3]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    List,
    Tuple,
    /// Its elements are distinct.
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Plus,
    Minus,
    Invert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Unequal,
    In,
    NotIn,
    Is,
    IsNot,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Python raises an exception.
    Raises(String),
    /// Python has a value, which is not computed here.
    Unsupported(String),
}

pub type Found = Result<Value, Trouble>;

pub fn raises<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Raises(what.into()))
}

pub fn unsupported<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Unsupported(what.into()))
}

/// An integer that has no place in 128 bits.
fn too_large<T>() -> Result<T, Trouble> {
    unsupported("has an integer of more than 127 bits")
}

/// Two numbers as Python puts them together.
enum Pair {
    Integers(i128, i128),
    Floats(f64, f64),
}

impl Value {
    pub fn of_json(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null | serde_json::Value::Object(_) => Self::None,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(whole), _) => Self::Integer(whole.into()),
                (_, Some(whole)) => Self::Integer(whole.into()),
                _ => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Self::Text(text.as_str().into()),
            serde_json::Value::Array(values) => Self::Sequence(Kind::List, values.iter().map(Self::of_json).collect()),
        }
    }

    pub fn truth(&self) -> bool {
        match self {
            Self::None => false,
            Self::Bool(value) => *value,
            Self::Integer(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Sequence(_, values) => !values.is_empty(),
            Self::Range(range) => length(range) > 0,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "bool",
            Self::Integer(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
            Self::Sequence(Kind::List, _) => "list",
            Self::Sequence(Kind::Tuple, _) => "tuple",
            Self::Sequence(Kind::Set, _) => "set",
            Self::Range(..) => "range",
        }
    }

    /// Bools are integers.
    pub fn integer(&self) -> Option<i128> {
        match self {
            Self::Bool(value) => Some((*value).into()),
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            other => other.integer().map(|value| value as f64),
        }
    }

    /// What a loop over it would have.
    pub fn elements(&self) -> Result<Vec<Value>, Trouble> {
        match self {
            Self::Text(text) => Ok(text.chars().map(|character| Self::Text(character.to_string().into())).collect()),
            Self::Sequence(_, values) => Ok(values.to_vec()),
            Self::Range(range) => match length(range) {
                length if length <= MAX_SIZE => {
                    Ok((0..length).map(|place| Self::Integer(range[0] + place * range[2])).collect())
                }
                _ => unsupported(format!("goes through a range of more than {MAX_SIZE}")),
            },
            other => raises(format!("goes through a value of type {}", other.kind())),
        }
    }

    pub fn length(&self) -> Result<i128, Trouble> {
        match self {
            Self::Text(text) => Ok(text.chars().count() as i128),
            Self::Sequence(_, values) => Ok(values.len() as i128),
            Self::Range(range) => Ok(length(range)),
            other => raises(format!("asks for the length of a value of type {}", other.kind())),
        }
    }

    /// A sequence of values; of a set each once.
    pub fn sequence(kind: Kind, values: Vec<Value>) -> Found {
        if kind != Kind::Set {
            return Ok(Self::Sequence(kind, values.into()));
        }
        let mut distinct: Vec<Value> = Vec::new();
        for value in values {
            if matches!(value, Self::Sequence(Kind::List | Kind::Set, _)) {
                return raises(format!("has a {} in a set", value.kind()));
            }
            if !distinct.iter().any(|known| equal(known, &value)) {
                distinct.push(value);
            }
        }
        Ok(Self::Sequence(kind, distinct.into()))
    }

    fn pair(&self, other: &Self) -> Option<Pair> {
        match (self.integer(), other.integer()) {
            (Some(left), Some(right)) => Some(Pair::Integers(left, right)),
            _ => Some(Pair::Floats(self.float()?, other.float()?)),
        }
    }

    /// The element at a place, which counts from the end where it is negative.
    pub fn item(&self, place: &Self) -> Found {
        let Some(place) = place.integer() else {
            return raises(format!("takes a value of type {} for a place", place.kind()));
        };
        if matches!(self, Self::Sequence(Kind::Set, _)) {
            return raises("asks for a place in a set");
        }
        let elements = self.elements()?;
        let place = if place < 0 { place + elements.len() as i128 } else { place };
        let found = usize::try_from(place).ok().and_then(|place| elements.get(place).cloned());
        found.ok_or_else(|| Trouble::Raises("asks for a place beyond the end".into()))
    }
}

/// Elements of a range.
fn length(&[first, end, step]: &[i128; 3]) -> i128 {
    let (distance, step) = if step > 0 { (end - first, step) } else { (first - end, -step) };
    if distance > 0 { (distance - 1) / step + 1 } else { 0 }
}

pub fn unary(sign: Sign, value: &Value) -> Found {
    match (sign, value.integer(), value) {
        (Sign::Plus, Some(value), _) => Ok(Value::Integer(value)),
        (Sign::Minus, Some(value), _) => value.checked_neg().map_or_else(too_large, |value| Ok(Value::Integer(value))),
        (Sign::Invert, Some(value), _) => Ok(Value::Integer(!value)),
        (Sign::Plus, None, Value::Float(value)) => Ok(Value::Float(*value)),
        (Sign::Minus, None, Value::Float(value)) => Ok(Value::Float(-value)),
        _ => raises(format!("has a sign before a value of type {}", value.kind())),
    }
}

pub fn binary(operator: Operator, left: &Value, right: &Value) -> Found {
    if let Some(pair) = left.pair(right) {
        return match pair {
            Pair::Integers(a, b) => match (operator, left, right) {
                (Operator::And, Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(a & b)),
                (Operator::Or, Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(a | b)),
                (Operator::Xor, Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(a ^ b)),
                _ => of_integers(operator, a, b),
            },
            Pair::Floats(a, b) => of_floats(operator, a, b),
        };
    }
    let unfit = || raises(format!("puts values of types {} and {} together by an operator", left.kind(), right.kind()));
    match (operator, left, right) {
        (Operator::Add, Value::Text(left), Value::Text(right)) => Ok(Value::Text(format!("{left}{right}").into())),
        (Operator::Add, Value::Sequence(kind, left), Value::Sequence(other, right))
            if kind == other && *kind != Kind::Set =>
        {
            Ok(Value::Sequence(*kind, left.iter().chain(right.iter()).cloned().collect()))
        }
        (Operator::Multiply, Value::Text(_) | Value::Sequence(Kind::List | Kind::Tuple, _), _) => {
            right.integer().map_or_else(unfit, |times| repeated(left, times))
        }
        (Operator::Multiply, _, Value::Text(_) | Value::Sequence(Kind::List | Kind::Tuple, _)) => {
            left.integer().map_or_else(unfit, |times| repeated(right, times))
        }
        (Operator::Remainder, Value::Text(_), _) => unsupported("formats text by %"),
        (
            Operator::And | Operator::Or | Operator::Xor | Operator::Subtract,
            Value::Sequence(Kind::Set, _),
            Value::Sequence(Kind::Set, _),
        ) => unsupported("has an operator between sets"),
        _ => unfit(),
    }
}

fn repeated(value: &Value, times: i128) -> Found {
    let times = times.max(0);
    if times.saturating_mul(value.length()?) > MAX_SIZE {
        return unsupported(format!("makes a value of more than {MAX_SIZE} elements"));
    }
    Ok(match value {
        Value::Sequence(kind, values) => {
            Value::Sequence(*kind, (0..times).flat_map(|_| values.iter().cloned()).collect())
        }
        Value::Text(text) => Value::Text(text.repeat(times as usize).into()),
        other => other.clone(),
    })
}

fn of_integers(operator: Operator, a: i128, b: i128) -> Found {
    let by_zero = matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Remainder) && b == 0;
    if by_zero {
        return raises("divides by zero");
    }
    let value = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => return Ok(Value::Float(quotient(a, b))),
        Operator::FloorDivide => floored(a, b).map(|(quotient, _)| quotient),
        Operator::Remainder => floored(a, b).map(|(_, remainder)| remainder),
        Operator::Power if b < 0 => return power(a as f64, b as f64),
        Operator::Power => match a {
            0 | 1 => Some(if b == 0 { 1 } else { a }),
            -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
            _ => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        },
        Operator::And => Some(a & b),
        Operator::Or => Some(a | b),
        Operator::Xor => Some(a ^ b),
        Operator::ShiftLeft | Operator::ShiftRight if b < 0 => return raises("shifts by a negative number"),
        Operator::ShiftLeft if a == 0 => Some(0),
        Operator::ShiftLeft => u32::try_from(b).ok().filter(|b| *b < 127).and_then(|b| a.checked_mul(1i128 << b)),
        Operator::ShiftRight => Some(a >> b.min(127)),
    };
    value.map_or_else(too_large, |value| Ok(Value::Integer(value)))
}

/// The nearest float to a quotient: exact where both have floats of their own, or the quotient is whole.
fn quotient(a: i128, b: i128) -> f64 {
    match a.checked_rem(b) {
        Some(0) => a.checked_div(b).map_or(a as f64 / b as f64, |whole| whole as f64),
        _ => a as f64 / b as f64,
    }
}

/// Quotient towards minus infinity, and a remainder of the divisor's sign.
fn floored(a: i128, b: i128) -> Option<(i128, i128)> {
    let (quotient, remainder) = (a.checked_div(b)?, a.checked_rem(b)?);
    if remainder != 0 && (remainder < 0) != (b < 0) {
        Some((quotient - 1, remainder + b))
    } else {
        Some((quotient, remainder))
    }
}

fn of_floats(operator: Operator, a: f64, b: f64) -> Found {
    if matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Remainder) && b == 0.0 {
        return raises("divides by zero");
    }
    Ok(Value::Float(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::FloorDivide => floored_floats(a, b).0,
        Operator::Remainder => floored_floats(a, b).1,
        Operator::Power => return power(a, b),
        _ => return raises("has a bitwise operator on a float"),
    }))
}

/// As CPython has it: the remainder is exact, the quotient what fits to it.
fn floored_floats(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder == 0.0 {
        remainder = remainder.copysign(b);
    } else if (b < 0.0) != (remainder < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    let quotient = match quotient {
        0.0 => quotient.copysign(a / b),
        _ if quotient - quotient.floor() > 0.5 => quotient.floor() + 1.0,
        _ => quotient.floor(),
    };
    (quotient, remainder)
}

fn power(a: f64, b: f64) -> Found {
    if a == 0.0 && b < 0.0 {
        return raises("raises zero to a negative power");
    }
    if a < 0.0 && a.is_finite() && b.is_finite() && b.fract() != 0.0 {
        return unsupported("has a complex number");
    }
    let value = a.powf(b);
    if value.is_infinite() && a.is_finite() && b.is_finite() {
        return raises("has a float that is too large");
    }
    Ok(Value::Float(value))
}

/// How numbers compare, exactly; nothing for what is no number.
fn numbers(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    Some(match (left.integer(), right.integer(), left, right) {
        (Some(a), Some(b), ..) => Some(a.cmp(&b)),
        (Some(a), None, _, Value::Float(b)) => integer_and_float(a, *b),
        (None, Some(b), Value::Float(a), _) => integer_and_float(b, *a).map(Ordering::reverse),
        (None, None, Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        _ => return None,
    })
}

fn integer_and_float(a: i128, b: f64) -> Option<Ordering> {
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if b.is_nan() || b.abs() >= LIMIT {
        return 0.0.partial_cmp(&b);
    }
    Some(a.cmp(&(b.trunc() as i128)).then_with(|| 0.0f64.total_cmp(&(b.fract() + 0.0))))
}

pub fn equal(left: &Value, right: &Value) -> bool {
    if let Some(order) = numbers(left, right) {
        return order == Some(Ordering::Equal);
    }
    match (left, right) {
        (Value::None, Value::None) => true,
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::Sequence(Kind::Set, left), Value::Sequence(Kind::Set, right)) => {
            left.len() == right.len() && left.iter().all(|value| right.iter().any(|other| equal(value, other)))
        }
        (Value::Sequence(kind, left), Value::Sequence(other, right)) => {
            kind == other && left.len() == right.len() && left.iter().zip(right.iter()).all(|(a, b)| equal(a, b))
        }
        (Value::Range(..), Value::Range(..)) => match (left.elements(), right.elements()) {
            (Ok(left), Ok(right)) => left.len() == right.len() && left.iter().zip(&right).all(|(a, b)| equal(a, b)),
            _ => false,
        },
        _ => false,
    }
}

/// What comes first; nothing where neither does, as with NaN.
pub fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, Trouble> {
    if let Some(order) = numbers(left, right) {
        return Ok(order);
    }
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Ok(Some(left.cmp(right))),
        (Value::Sequence(Kind::Set, _), Value::Sequence(Kind::Set, _)) => unsupported("compares sets by their order"),
        (Value::Sequence(kind, left), Value::Sequence(other, right)) if kind == other => {
            match left.iter().zip(right.iter()).find(|(a, b)| !equal(a, b)) {
                Some((a, b)) => order(a, b),
                None => Ok(Some(left.len().cmp(&right.len()))),
            }
        }
        _ => raises(format!("compares values of types {} and {} by their order", left.kind(), right.kind())),
    }
}

pub fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool, Trouble> {
    Ok(match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::Unequal => !equal(left, right),
        Comparison::Less => order(left, right)? == Some(Ordering::Less),
        Comparison::Greater => order(left, right)? == Some(Ordering::Greater),
        Comparison::LessOrEqual => order(left, right)?.is_some_and(Ordering::is_le),
        Comparison::GreaterOrEqual => order(left, right)?.is_some_and(Ordering::is_ge),
        Comparison::In => contains(right, left)?,
        Comparison::NotIn => !contains(right, left)?,
        Comparison::Is => same(left, right),
        Comparison::IsNot => !same(left, right),
    })
}

fn contains(values: &Value, wanted: &Value) -> Result<bool, Trouble> {
    match (values, wanted) {
        (Value::Text(text), Value::Text(wanted)) => Ok(text.contains(&**wanted)),
        (Value::Text(_), other) => raises(format!("looks for a value of type {} in text", other.kind())),
        (Value::Sequence(Kind::Set, _), Value::Sequence(Kind::List | Kind::Set, _)) => {
            raises(format!("looks for a {} in a set", wanted.kind()))
        }
        (Value::Sequence(_, values), _) => Ok(values.iter().any(|value| equal(value, wanted))),
        (Value::Range(range), _) => {
            let [first, end, step] = **range;
            let Some(wanted) = whole(wanted) else { return Ok(false) };
            let is_within = if step > 0 { first <= wanted && wanted < end } else { end < wanted && wanted <= first };
            Ok(is_within && (wanted - first) % step == 0)
        }
        (other, _) => raises(format!("looks for something in a value of type {}", other.kind())),
    }
}

/// An integer, also one that is a float.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Float(float) => {
            let whole = *float as i128;
            (integer_and_float(whole, *float) == Some(Ordering::Equal)).then_some(whole)
        }
        other => other.integer(),
    }
}

/// Whether both are the same object, of those of which there is one.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::None, Value::None) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        _ => false,
    }
}
