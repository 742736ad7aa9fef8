//! The functions of expressions, and division.

use rhai::{Dynamic, Engine, EvalAltResult};

/// The names of all functions.
pub const NAMES: [&str; 18] = [
    "abs", "ceil", "clamp", "exp", "floor", "join", "len", "log", "log2", "max", "mean", "median", "min", "percentile",
    "round", "round_down", "round_up", "sqrt",
];

type Fallible<T> = Result<T, Box<EvalAltResult>>;

pub fn register(engine: &mut Engine) {
    engine.register_fn("/", |left: i64, right: i64| -> Fallible<Dynamic> {
        match left.checked_rem(right) {
            None => Err("it divides by zero".into()),
            Some(0) => Ok((left / right).into()),
            Some(_) => Ok((left as f64 / right as f64).into()),
        }
    });
    engine.register_fn("/", |left: f64, right: f64| quotient(left, right));
    engine.register_fn("/", |left: f64, right: i64| quotient(left, right as f64));
    engine.register_fn("/", |left: i64, right: f64| quotient(left as f64, right));
    for (name, function) in [("ceil", f64::ceil as fn(f64) -> f64), ("floor", f64::floor), ("round", f64::round)] {
        engine.register_fn(name, move |x: Dynamic| whole(function(number(&x)?)));
    }
    for (name, function) in
        [("sqrt", f64::sqrt as fn(f64) -> f64), ("log2", f64::log2), ("log", f64::ln), ("exp", f64::exp)]
    {
        engine.register_fn(name, move |x: Dynamic| -> Fallible<f64> { Ok(function(number(&x)?)) });
    }
    engine.register_fn("abs", |x: i64| x.saturating_abs());
    engine.register_fn("abs", f64::abs);
    for (name, largest) in [("min", false), ("max", true)] {
        engine.register_fn(name, move |values: rhai::Array| extreme(values, largest));
        engine.register_fn(name, move |a: Dynamic, b: Dynamic| extreme(vec![a, b], largest));
        engine.register_fn(name, move |a: Dynamic, b: Dynamic, c: Dynamic| extreme(vec![a, b, c], largest));
        engine.register_fn(name, move |a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic| {
            extreme(vec![a, b, c, d], largest)
        });
    }
    engine.register_fn("clamp", |x: Dynamic, low: Dynamic, high: Dynamic| {
        extreme(vec![extreme(vec![x, low], true)?, high], false)
    });
    engine.register_fn("round_up", |x: Dynamic, step: Dynamic| multiple(&x, &step, f64::ceil));
    engine.register_fn("round_down", |x: Dynamic, step: Dynamic| multiple(&x, &step, f64::floor));
    engine.register_fn("len", |values: rhai::Array| values.len() as i64);
    engine.register_fn("join", |values: rhai::Array, separator: &str| {
        values.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
    });
    engine.register_fn("mean", |values: rhai::Array| -> Fallible<f64> {
        let numbers = numbers(&values)?;
        Ok(numbers.iter().sum::<f64>() / numbers.len() as f64)
    });
    engine.register_fn("median", |values: rhai::Array| -> Fallible<f64> { Ok(quantile(numbers(&values)?, 0.5)) });
    engine.register_fn("percentile", |values: rhai::Array, percent: Dynamic| -> Fallible<f64> {
        Ok(quantile(numbers(&values)?, number(&percent)?.clamp(0.0, 100.0) / 100.0))
    });
    // Rhai only defines these with its own fast operators, which are off.
    engine.register_fn("!", |value: bool| !value);
    engine.register_fn("-", |x: i64| x.saturating_neg());
    engine.register_fn("-", |x: f64| -x);
    engine.register_fn("+", |x: i64| x);
    engine.register_fn("+", |x: f64| x);
    // Concatenation of text and numbers.
    engine.register_fn("+", |left: &str, right: i64| format!("{left}{right}"));
    engine.register_fn("+", |left: &str, right: f64| format!("{left}{right}"));
    engine.register_fn("+", |left: i64, right: &str| format!("{left}{right}"));
    engine.register_fn("contains", |values: &mut rhai::Array, wanted: Dynamic| {
        values.iter().any(|value| same(value, &wanted))
    });
}

fn quotient(left: f64, right: f64) -> Fallible<f64> {
    if right == 0.0 { Err("it divides by zero".into()) } else { Ok(left / right) }
}

fn number(value: &Dynamic) -> Fallible<f64> {
    value
        .as_int()
        .map(|whole| whole as f64)
        .or_else(|_| value.as_float())
        .map_err(|_| format!("{} is not a number", shown(value)).into())
}

fn shown(value: &Dynamic) -> String {
    if value.is_unit() { "null (a parameter that does not apply)".into() } else { format!("'{value}'") }
}

fn numbers(values: &[Dynamic]) -> Fallible<Vec<f64>> {
    if values.is_empty() {
        return Err("the list is empty".into());
    }
    values.iter().map(number).collect()
}

fn whole(x: f64) -> Fallible<i64> {
    // 2⁶² exceeds all counts here, and is exact.
    if x.abs() < (1u64 << 62) as f64 {
        Ok(x as i64)
    } else {
        Err(format!("{x:e} is too large for a whole number").into())
    }
}

/// The smallest or largest value, unconverted.
fn extreme(values: Vec<Dynamic>, largest: bool) -> Fallible<Dynamic> {
    let numbers = numbers(&values)?;
    let better = |a: f64, b: f64| if largest { a > b } else { a < b };
    let best = (1..numbers.len()).fold(0, |best, i| if better(numbers[i], numbers[best]) { i } else { best });
    Ok(values[best].clone())
}

fn multiple(x: &Dynamic, step: &Dynamic, rounded: fn(f64) -> f64) -> Fallible<i64> {
    let (x, step) = (number(x)?, number(step)?);
    if step > 0.0 { whole(rounded(x / step) * step) } else { Err(format!("a step of {step} is not above 0").into()) }
}

/// Interpolates between neighbours, like R and NumPy by default (type 7 of Hyndman and Fan, 1996).
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = share * (values.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(values.len() - 1);
    values[below] + (place - below as f64) * (values[above] - values[below])
}

fn same(left: &Dynamic, right: &Dynamic) -> bool {
    match (number(left), number(right)) {
        (Ok(left), Ok(right)) => left == right,
        (Err(_), Err(_)) => left.type_name() == right.type_name() && left.to_string() == right.to_string(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_numpy() {
        // numpy.percentile([15, 20, 35, 40, 50], [0, 5, 40, 50, 95, 100])
        let values = vec![50.0, 15.0, 35.0, 20.0, 40.0];
        let found: Vec<f64> =
            [0.0, 0.05, 0.4, 0.5, 0.95, 1.0].iter().map(|share| quantile(values.clone(), *share)).collect();
        for (found, expected) in found.iter().zip([15.0, 16.0, 29.0, 35.0, 48.0, 50.0]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!(quantile(vec![3.0], 0.9), 3.0);
    }
}
