//! Arithmetic expressions that users write in spaces and objectives, in Rhai's syntax.
//!
//! Statements, assignments and functions outside of `functions` are not allowed, and time and size are limited. Unlike
//! in Rhai, `/` of whole numbers is exact division, so `ceil(n / block.x)` is right.

mod functions;
mod text;

use std::fmt::Write;

use mneme_model::configuration;
use rhai::{AST, Dynamic, Engine, EvalAltResult, OptimizationLevel, ParseErrorType, Scope};
use serde_json::{Map, Number, Value};

pub use functions::NAMES as FUNCTIONS;
pub use text::{conjuncts, names, paths};

/// Limit on operations of one evaluation, as a safeguard against mistakes.
const MAX_OPERATIONS: u64 = 100_000;
/// Limit on the nesting of an expression.
const MAX_DEPTH: usize = 64;
/// Limit on the characters of a string, and the elements of an array or map.
const MAX_SIZE: usize = 100_000;

/// An error in an expression, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{expression}' {what}")]
pub struct ExpressionError {
    pub expression: String,
    /// Continues a sentence that begins with the expression.
    pub what: String,
}

/// The names that an expression may use, with their values.
#[derive(Clone, Debug, Default)]
pub struct Values(Scope<'static>);

impl Values {
    /// Sets the value of a name.
    pub fn set(&mut self, name: &str, value: &Value) {
        self.0.set_or_push(name, dynamic(value));
    }

    /// Whether the name exists, but has no value.
    pub fn is_nothing(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(Dynamic::is_unit)
    }

    /// All names in alphabetical order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter_raw().map(|(name, _, _)| name).collect();
        names.sort_unstable();
        names
    }
}

/// A parsed expression with known names.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    ast: AST,
}

impl Expression {
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Parses and evaluates expressions.
pub struct ExpressionEngine {
    engine: Engine,
}

impl Default for ExpressionEngine {
    fn default() -> Self {
        let mut engine = Engine::new_raw();
        engine.set_optimization_level(OptimizationLevel::None);
        engine.set_fast_operators(false);
        engine.set_strict_variables(true);
        engine.set_fail_on_invalid_map_property(true);
        engine.set_max_operations(MAX_OPERATIONS);
        engine.set_max_expr_depths(MAX_DEPTH);
        engine.set_max_string_size(MAX_SIZE);
        engine.set_max_array_size(MAX_SIZE);
        engine.set_max_map_size(MAX_SIZE);
        engine.disable_symbol("eval");
        functions::register(&mut engine);
        Self { engine }
    }
}

impl ExpressionEngine {
    /// Parses an expression over the names in `values`.
    ///
    /// # Errors A syntax error, or an unknown name.
    pub fn read(&self, text: &str, values: &Values) -> Result<Expression, ExpressionError> {
        let text = &with_canonical_names(text);
        match self.engine.compile_expression_with_scope(&values.0, text) {
            Ok(ast) => Ok(Expression { text: text.trim().to_owned(), ast }),
            Err(error) => {
                let what = match error.err_type() {
                    ParseErrorType::VariableUndefined(name) => unknown(name, values),
                    other => format!("cannot be read: {}{}", lower(&other.to_string()), place(error.position(), text)),
                };
                Err(ExpressionError { expression: text.trim().into(), what })
            }
        }
    }

    /// Evaluates an expression.
    ///
    /// # Errors The types of values do not fit together, or JSON cannot represent the result.
    pub fn evaluate(&self, expression: &Expression, values: &mut Values) -> Result<Value, ExpressionError> {
        let failed = |what| ExpressionError { expression: expression.text.clone(), what };
        let found = self.engine.eval_ast_with_scope::<Dynamic>(&mut values.0, &expression.ast);
        let found = found.map_err(|error| failed(self.explain(&error, values)))?;
        value(&found).ok_or_else(|| {
            failed(format!("gives {found}, which is not a number, text, true, false or a list of these"))
        })
    }

    fn explain(&self, error: &EvalAltResult, values: &Values) -> String {
        match error {
            EvalAltResult::ErrorVariableNotFound(name, _) => unknown(name, values),
            EvalAltResult::ErrorPropertyNotFound(name, _) => format!("reads '.{name}', which does not exist"),
            EvalAltResult::ErrorFunctionNotFound(signature, _) => {
                let name = signature.split(' ').next().unwrap_or_default();
                let arguments = signature[name.len()..]
                    .trim()
                    .replace("i64", "number")
                    .replace("f64", "number")
                    .replace("()", "null");
                if name.chars().all(|c| c.is_alphanumeric() || c == '_') && !FUNCTIONS.contains(&name) {
                    format!("calls the unknown function '{name}'; the functions are {}", FUNCTIONS.join(", "))
                } else {
                    format!("cannot apply '{name}' to {arguments} (a parameter that does not apply is null)")
                }
            }
            EvalAltResult::ErrorTooManyOperations(_) | EvalAltResult::ErrorStackOverflow(_) => "takes too long".into(),
            other => {
                let mut other = other.to_string();
                if let Some(end) = other.rfind(" (line ") {
                    other.truncate(end);
                }
                format!("has no value: {}", lower(&other))
            }
        }
    }
}

/// An expression with `block.x` in place of other names for it, such as `blockDim.x`.
fn with_canonical_names(text: &str) -> String {
    let mut canonical = text.to_owned();
    for (start, path) in paths(text).into_iter().rev().filter(|(_, path)| path.contains('.')) {
        canonical.replace_range(start..start + path.len(), &configuration::canonical(path));
    }
    canonical
}

fn unknown(name: &str, values: &Values) -> String {
    format!("has the unknown name '{name}'; the known names are {}", values.names().join(", "))
}

/// The position in a text; empty if unknown or at the end.
fn place(position: rhai::Position, text: &str) -> String {
    let mut place = String::new();
    if let Some(column) = position.position().filter(|column| *column <= text.chars().count()) {
        let _ = write!(place, " (at character {column})");
    }
    place
}

fn lower(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

fn dynamic(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(values) => values.iter().map(dynamic).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.as_str().into(), dynamic(value))).collect::<rhai::Map>().into()
        }
    }
}

/// `None` for values that JSON cannot represent.
fn value(found: &Dynamic) -> Option<Value> {
    if found.is_unit() {
        return Some(Value::Null);
    }
    if let Ok(value) = found.as_bool() {
        return Some(value.into());
    }
    if let Ok(value) = found.as_int() {
        return Some(value.into());
    }
    if let Ok(value) = found.as_float() {
        return Number::from_f64(value).map(Value::Number);
    }
    if let Ok(text) = found.as_immutable_string_ref() {
        return Some(text.as_str().into());
    }
    if let Ok(values) = found.as_array_ref() {
        return values.iter().map(value).collect::<Option<Vec<_>>>().map(Value::Array);
    }
    let fields = found.as_map_ref().ok()?;
    fields
        .iter()
        .map(|(name, field)| Some((name.to_string(), value(field)?)))
        .collect::<Option<Map<_, _>>>()
        .map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values() -> Values {
        let mut values = Values::default();
        values.set("n", &json!(1000));
        values.set("fraction", &json!(0.25));
        values.set("block", &json!({"x": 64, "y": 1, "z": 1}));
        values.set("args", &json!([7, 2.5]));
        values.set("passes", &json!("default<O3>"));
        values.set("absent", &Value::Null);
        values.set("bounds", &json!(true));
        values
    }

    fn of(text: &str) -> Result<Value, ExpressionError> {
        let (language, mut values) = (ExpressionEngine::default(), values());
        let expression = language.read(text, &values)?;
        language.evaluate(&expression, &mut values)
    }

    #[test]
    fn arithmetic_is_that_of_paper() {
        for (text, expected) in [
            ("ceil(n / block.x)", json!(16)),
            ("n / block.x", json!(15.625)),
            ("1024 / 64", json!(16)),
            ("-7 / 2", json!(-3.5)),
            ("7 % 4 + 2 ** 3", json!(11)),
            ("floor(fraction * 10) + round(2.5) + ceil(2.1)", json!(2 + 3 + 3)),
            ("max(1, fraction, 3)", json!(3)),
            ("min(block.x, 2.5)", json!(2.5)),
            ("max([1, 9, 4])", json!(9)),
            ("clamp(n, 1, 512)", json!(512)),
            ("round_up(65, 32) + round_down(65, 32)", json!(96 + 64)),
            ("if bounds { n } else { absent * 2 }", json!(1000)),
            ("args[1] * 2", json!(5.0)),
            ("sqrt(16) + abs(-3) + log2(8)", json!(10.0)),
            ("passes == \"default<O3>\" && n >= 10 || false", json!(true)),
            ("passes in [\"a\", \"default<O3>\"]", json!(true)),
            ("absent == ()", json!(true)),
            ("!bounds || -n < -fraction", json!(true)),
            ("join([\"gvn\", \"licm\"], \",\")", json!("gvn,licm")),
            ("\"default<O\" + 3 + \">\"", json!("default<O3>")),
            ("#{x: 1, y: n}", json!({"x": 1, "y": 1000})),
            ("block.x * 1.5 > 95 && block.x != 63", json!(true)),
        ] {
            assert_eq!(of(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("blok.x", "'blok.x' has the unknown name 'blok'; the known names are absent, args, block"),
            ("block.w", "reads '.w'"),
            ("block.x +", "cannot be read"),
            ("ceil(n / )", "at character 10"),
            ("sine(n)", "calls the unknown function 'sine'; the functions are abs, "),
            ("absent * 2", "cannot apply '*' to (null, number)"),
            ("n / 0", "divides by zero"),
            ("let x = 3; x", "cannot be read"),
            ("while true {}", "cannot be read"),
            ("eval(\"1\")", "cannot be read"),
            ("args[5]", "has no value"),
            ("sqrt(-1)", "not a number"),
            ("ceil(1e300)", "too large"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
