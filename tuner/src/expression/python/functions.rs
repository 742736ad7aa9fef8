//! Functions of Python that restrictions may call.
//!
//! Those of its module `math` are among them, with or without that name.

use std::cmp::Ordering;

use super::value::{Found, Kind, Operator, Trouble, Value, binary, order, raises, unsupported};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Abs,
    All,
    Any,
    Bool,
    Ceil,
    Exp,
    Float,
    Floor,
    Gcd,
    Int,
    Len,
    List,
    Log,
    Log2,
    Max,
    Min,
    Pow,
    Range,
    Round,
    Set,
    Sqrt,
    Str,
    Sum,
    Tuple,
}

/// Name, function, and how many arguments it takes at least and at most.
const FUNCTIONS: [(&str, Function, usize, usize); 24] = [
    ("abs", Function::Abs, 1, 1),
    ("all", Function::All, 1, 1),
    ("any", Function::Any, 1, 1),
    ("bool", Function::Bool, 0, 1),
    ("math.ceil", Function::Ceil, 1, 1),
    ("math.exp", Function::Exp, 1, 1),
    ("float", Function::Float, 0, 1),
    ("math.floor", Function::Floor, 1, 1),
    ("math.gcd", Function::Gcd, 0, usize::MAX),
    ("int", Function::Int, 0, 1),
    ("len", Function::Len, 1, 1),
    ("list", Function::List, 0, 1),
    ("math.log", Function::Log, 1, 1),
    ("math.log2", Function::Log2, 1, 1),
    ("max", Function::Max, 1, usize::MAX),
    ("min", Function::Min, 1, usize::MAX),
    ("pow", Function::Pow, 2, 2),
    ("range", Function::Range, 1, 3),
    ("round", Function::Round, 1, 2),
    ("set", Function::Set, 0, 1),
    ("math.sqrt", Function::Sqrt, 1, 1),
    ("str", Function::Str, 0, 1),
    ("sum", Function::Sum, 1, 2),
    ("tuple", Function::Tuple, 0, 1),
];

impl Function {
    pub fn named(name: &str) -> Option<Self> {
        let is_named = |known: &str| known == name || known.strip_prefix("math.") == Some(name);
        FUNCTIONS.iter().find(|(known, ..)| is_named(known)).map(|(_, function, ..)| *function)
    }

    /// # Errors
    /// It does not take so many arguments.
    pub fn takes(self, arguments: usize) -> Result<(), String> {
        let (_, _, least, most) =
            FUNCTIONS.iter().find(|(_, function, ..)| *function == self).expect("all functions are listed");
        if (*least..=*most).contains(&arguments) {
            return Ok(());
        }
        Err(format!("{arguments} arguments, which it does not take here"))
    }

    pub fn call(self, arguments: &[Value]) -> Found {
        let Some(first) = arguments.first() else {
            return Ok(match self {
                Self::Bool => Value::Bool(false),
                Self::Float => Value::Float(0.0),
                Self::Str => Value::Text("".into()),
                Self::List => Value::Sequence(Kind::List, [].into()),
                Self::Tuple => Value::Sequence(Kind::Tuple, [].into()),
                Self::Set => Value::Sequence(Kind::Set, [].into()),
                _ => Value::Integer(0),
            });
        };
        match self {
            Self::Abs => match (first.integer(), first) {
                (Some(value), _) => match value.checked_abs() {
                    Some(value) => Ok(Value::Integer(value)),
                    None => unsupported("has an integer of more than 127 bits"),
                },
                (None, Value::Float(value)) => Ok(Value::Float(value.abs())),
                _ => unfit("abs", first),
            },
            Self::All => Ok(Value::Bool(first.elements()?.iter().all(Value::truth))),
            Self::Any => Ok(Value::Bool(first.elements()?.iter().any(Value::truth))),
            Self::Bool => Ok(Value::Bool(first.truth())),
            Self::Ceil => rounded("ceil", first, f64::ceil),
            Self::Floor => rounded("floor", first, f64::floor),
            Self::Exp => match real("exp", first)?.exp() {
                value if value.is_infinite() => raises("has a float that is too large"),
                value => Ok(Value::Float(value)),
            },
            Self::Log => logarithm("log", first, f64::ln),
            Self::Log2 => logarithm("log2", first, f64::log2),
            Self::Sqrt => match real("sqrt", first)? {
                value if value < 0.0 => raises("has the root of a negative number"),
                value => Ok(Value::Float(value.sqrt())),
            },
            Self::Gcd => arguments.iter().try_fold(0i128, divisor).map(Value::Integer),
            Self::Int => integer(first),
            Self::Float => match first {
                Value::Text(_) => unsupported("makes a number of text"),
                other => real("float", other).map(Value::Float),
            },
            Self::Str => shown(first).map(|text| Value::Text(text.into())),
            Self::Len => first.length().map(Value::Integer),
            Self::List => Value::sequence(Kind::List, first.elements()?),
            Self::Tuple => Value::sequence(Kind::Tuple, first.elements()?),
            Self::Set => Value::sequence(Kind::Set, first.elements()?),
            Self::Max => extreme(arguments, Ordering::Greater),
            Self::Min => extreme(arguments, Ordering::Less),
            Self::Pow => binary(Operator::Power, first, &arguments[1]),
            Self::Range => range(arguments),
            Self::Round => round(first, arguments.get(1)),
            Self::Sum => {
                let start = arguments.get(1).cloned().unwrap_or(Value::Integer(0));
                if matches!(start, Value::Text(_)) {
                    return raises("sums text");
                }
                first.elements()?.iter().try_fold(start, |sum, value| binary(Operator::Add, &sum, value))
            }
        }
    }
}

fn unfit<T>(name: &str, value: &Value) -> Result<T, Trouble> {
    raises(format!("calls {name} with a value of type {}", value.kind()))
}

fn real(name: &str, value: &Value) -> Result<f64, Trouble> {
    value.float().map_or_else(|| unfit(name, value), Ok)
}

/// A float that is whole, as an integer.
fn whole(value: f64) -> Found {
    if !value.is_finite() {
        return raises("makes an integer of what is not finite");
    }
    if value.abs() >= 1e38 {
        return unsupported("has an integer of more than 127 bits");
    }
    Ok(Value::Integer(value as i128))
}

fn rounded(name: &str, value: &Value, function: fn(f64) -> f64) -> Found {
    match value.integer() {
        Some(value) => Ok(Value::Integer(value)),
        None => whole(function(real(name, value)?)),
    }
}

fn logarithm(name: &str, value: &Value, function: fn(f64) -> f64) -> Found {
    match real(name, value)? {
        value if value <= 0.0 => raises("has the logarithm of what is not above zero"),
        value => Ok(Value::Float(function(value))),
    }
}

fn divisor(known: i128, value: &Value) -> Result<i128, Trouble> {
    let Some(value) = value.integer() else { return unfit("gcd", value) };
    let (mut a, mut b) = (known.unsigned_abs(), value.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).or_else(|_| unsupported("has an integer of more than 127 bits"))
}

fn integer(value: &Value) -> Found {
    match value {
        Value::Float(value) => whole(value.trunc()),
        Value::Text(_) => unsupported("makes a number of text"),
        other => match other.integer() {
            Some(value) => Ok(Value::Integer(value)),
            None => unfit("int", other),
        },
    }
}

/// The first of the largest or smallest, of several arguments or of one that has several.
fn extreme(arguments: &[Value], wanted: Ordering) -> Found {
    let own;
    let values = match arguments {
        [one] => {
            own = one.elements()?;
            &own[..]
        }
        several => several,
    };
    let Some((first, others)) = values.split_first() else { return raises("asks for the extreme of nothing") };
    let mut found = first;
    for value in others {
        if order(value, found)? == Some(wanted) {
            found = value;
        }
    }
    Ok(found.clone())
}

fn range(arguments: &[Value]) -> Found {
    let mut numbers = Vec::new();
    for argument in arguments {
        let Some(number) = argument.integer() else { return unfit("range", argument) };
        if number.unsigned_abs() > 1 << 120 {
            return unsupported("has a range of integers of more than 120 bits");
        }
        numbers.push(number);
    }
    let range = match numbers[..] {
        [end] => [0, end, 1],
        [first, end] => [first, end, 1],
        [_, _, 0] => return raises("has a range in steps of zero"),
        [first, end, step] => [first, end, step],
        _ => return raises("has a range without an end"),
    };
    Ok(Value::Range(range.into()))
}

/// To the nearest, and half way to the even one.
fn round(value: &Value, digits: Option<&Value>) -> Found {
    match (value.integer(), digits) {
        (Some(value), None | Some(Value::None)) => Ok(Value::Integer(value)),
        (None, None | Some(Value::None)) => whole(real("round", value)?.round_ties_even()),
        (is_integer, Some(digits)) => {
            let Some(digits) = digits.integer() else { return unfit("round", digits) };
            let Ok(digits) = usize::try_from(digits) else { return unsupported("rounds to tens") };
            match is_integer {
                Some(value) => Ok(Value::Integer(value)),
                // Decimals of a float are exact, and so is the choice between two of them.
                None => {
                    let value = real("round", value)?;
                    let text = format!("{value:.0$}", digits.min(400));
                    Ok(Value::Float(text.parse().unwrap_or(value)))
                }
            }
        }
    }
}

/// As `str` has it.
fn shown(value: &Value) -> Result<String, Trouble> {
    Ok(match value {
        Value::None => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => shown_float(*value),
        Value::Text(text) => text.to_string(),
        other => return unsupported(format!("makes text of a {}", other.kind())),
    })
}

fn shown_float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan".into()
        } else if value > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        exponent if (-4..16).contains(&exponent) => format!("{value:?}"),
        exponent => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}
