//! Restrictions against a list of truths, and against Python where it is installed.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use super::{Restriction, Trouble, Value};

/// Truth for each combination of values, the last name's varying fastest; `None` where Python raises an exception.
fn truths(text: &str, names: &[&str], lists: &[Vec<Json>]) -> Result<Vec<Option<bool>>, String> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let restriction = Restriction::read(text, &names)?;
    let mut points: Vec<Vec<Value>> = vec![Vec::new()];
    for list in lists {
        points = points
            .iter()
            .flat_map(|point| list.iter().map(|value| [&point[..], &[Value::of_json(value)]].concat()))
            .collect();
    }
    let mut found = Vec::new();
    for point in points {
        let whole = restriction.condition().holds(&point);
        let sides: Vec<_> = restriction.sides().iter().map(|side| side.holds(&point)).collect();
        assert_eq!(whole == Ok(true), sides.iter().all(|side| *side == Ok(true)), "{text}: {whole:?} {sides:?}");
        found.push(match whole {
            Ok(truth) => Some(truth),
            Err(Trouble::Raises(_)) => None,
            Err(Trouble::Unsupported(what)) => return Err(what),
        });
    }
    Ok(found)
}

/// Parameters, their values and restrictions about them.
fn cases() -> Vec<(Vec<&'static str>, Json, Vec<&'static str>)> {
    vec![
        (
            vec!["x", "y", "z"],
            json!([[1, 2, 4, 8, 32], [1, 2, 3], [-3, -1, 0, 1, 2]]),
            include_str!("restrictions/integers.txt").lines().collect(),
        ),
        (
            vec!["x", "b", "p", "q", "s"],
            json!([[1, 2, 4, 8, 32], [true, false], [0, 1], [0, 1], ["a", "b", "", "0"]]),
            include_str!("restrictions/truths.txt").lines().collect(),
        ),
        (
            vec!["x", "f", "y"],
            json!([[1, 2, 4, 8, 32, -7], [0.5, 1.0, 2.0, -2.5, 3.5, 0.1, 1e16, 1e-5, 123.456], [1, 2, 3]]),
            include_str!("restrictions/floats.txt").lines().collect(),
        ),
    ]
}

const ORACLE: &str = "
import itertools, json, math, sys, warnings
from math import ceil, exp, floor, gcd, log, log2, sqrt
warnings.simplefilter('ignore')
known = {name: globals()[name] for name in 'ceil exp floor gcd log log2 sqrt math'.split()}
def truth(code, values):
    try: return bool(eval(code, {**known, **values}))
    except Exception: return None
found = []
for names, lists, texts in json.load(sys.stdin):
    points = [dict(zip(names, point)) for point in itertools.product(*lists)]
    found.append([[truth(compile(text.strip(), '', 'eval'), point) for point in points] for text in texts])
json.dump(found, sys.stdout)
";

#[test]
fn restrictions_mean_what_python_finds() {
    let cases = cases();
    let python = Command::new("python3").args(["-c", ORACLE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let expected: Option<Vec<Vec<Vec<Option<bool>>>>> = python.ok().map(|mut python| {
        python.stdin.take().unwrap().write_all(json!(cases).to_string().as_bytes()).unwrap();
        serde_json::from_slice(&python.wait_with_output().unwrap().stdout).expect("Python's answers")
    });
    let mut differing = Vec::new();
    for (place, (names, lists, texts)) in cases.iter().enumerate() {
        let lists: Vec<Vec<Json>> = serde_json::from_value(lists.clone()).unwrap();
        for (number, text) in texts.iter().enumerate() {
            match truths(text, names, &lists) {
                Err(what) => differing.push(format!("{text}: {what}")),
                Ok(found) if expected.as_ref().is_some_and(|all| all[place][number] != found) => {
                    differing.push(format!("{text}: {found:?}\n  {:?}", expected.as_ref().unwrap()[place][number]));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn restrictions_mean_what_they_mean_in_python() {
    let names = ["x", "y", "z", "p", "b", "s", "f"];
    let lists: Vec<Vec<Json>> = [json!(32), json!(3), json!(-3), json!(0), json!(true), json!(""), json!(2.5)]
        .into_iter()
        .map(|value| vec![value])
        .collect();
    for (text, expected) in [
        ("32 <= x * y <= 1024", true),
        ("96 < x * y <= 1024", false),
        ("p", false),
        ("-x + 2 ** y ** 1 == -24", true),
        ("x in [16, 32] and y not in (1, 2)", true),
        ("(x*1+ y * 2) * (2+p) * 4 <= 303", false),
        ("int(x/3 + y/2) == 12", true),
        ("b == 1 and p == False and (x > 2) + (y > 2) == 2", true),
        ("(p or x) == 32 and (x and y) == 3", true),
        ("z % 2 == 1 and z // 2 == -2 and x*y//4 % 5 == 4", true),
        ("round(f) == 2 and round(f + 1) == 4 and int(-f) == -2", true),
        ("s or []", false),
        ("0.1 + 0.2 == 0.3", false),
        ("max(x*2, y) == 64 and z in range(-3, 0) and pow(2, z) == 0.125", true),
        ("b is True and len([x, y]) == 2 and any([p, y]) and not all([p, y]) and sum([x, y]) == 35", true),
        ("f > 1.5e-3 and str(f) == '2.5' and bool(x) and float(y) == 3", true),
    ] {
        assert_eq!(truths(text, &names, &lists), Ok(vec![Some(expected)]), "{text}");
    }
}

#[test]
fn what_is_not_understood_is_refused_by_the_restriction_s_text() {
    let names = ["x".to_owned(), "y".to_owned()];
    for text in [
        "x >",
        "x ? y",
        "(x",
        "x)",
        "lambda x: x",
        "x y",
        "q > 1",
        "x.y > 1",
        "x is y",
        "x == 2\nand y == 1",
        "",
        "x, y",
        "[v for v in x]",
        "{1: 2}[x]",
        "f'x'",
        "x := 1",
        "012",
        "1__0",
        "pow(x, y, 2)",
        "open('x')",
        "x == 'a",
        "x not y",
        "x = 1",
        "x;",
        "max()",
        "int(x, y)",
        "x if y",
        "\"\"\"a\"\"\"",
        "x!",
        "1x",
        "math.tau > x",
        "x <> y",
        "x && y",
    ] {
        let error = Restriction::read(text, &names).err().unwrap_or_else(|| panic!("{text} was read"));
        assert!(error.starts_with(&format!("the restriction '{text}' ")), "{error}");
    }
    let deep = format!("{}x{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(Restriction::read(&deep, &names).unwrap_err().ends_with("levels deep"));
}
