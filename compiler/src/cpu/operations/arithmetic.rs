//! Arithmetic: rounding modes, approximations, and special integer operations.

use super::convert::rounding_mode;
use super::text::{FunctionBody, FunctionSignature};

/// Operations in the numbering of `__mneme_cpu_round`.
const ROUNDED: [&str; 6] = ["add", "mul", "fma", "div", "sqrt", "rcp"];

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    match parts {
        ["prmt"] => {
            let value = body.value("call i32 @__mneme_cpu.permute(i32 %a0, i32 %a1, i32 %a2)");
            body.ret(result, value);
        }
        ["rotate", "b32" | "b64"] => rotate("fshl", result, body),
        ["rotate", "right", "b64"] => rotate("fshr", result, body),
        ["swap", "lo", "hi", "b64"] => {
            let value = body.value("call i64 @llvm.fshl.i64(i64 %a0, i64 %a0, i64 32)");
            body.ret(result, value);
        }
        [operation, rest @ .., _] if matches!(result, "float" | "double") => {
            let flush = rest.contains(&"ftz");
            let rest: Vec<&str> = rest.iter().copied().filter(|part| *part != "ftz").collect();
            let arguments: Vec<String> = (0..signature.parameters.len())
                .map(|i| if flush { flushed(body, result, &format!("%a{i}")) } else { format!("%a{i}") })
                .collect();
            let mut value = operate(operation, &rest, result, &arguments, body)?;
            if flush {
                value = flushed(body, result, &value);
            }
            body.ret(result, value);
        }
        _ => return None,
    }
    Some(())
}

fn flushed(body: &mut FunctionBody, ty: &str, value: &str) -> String {
    let function = if ty == "double" { "ftz64" } else { "ftz" };
    body.value(format!("call {ty} @__mneme_cpu.{function}({ty} {value})"))
}

/// A float operation by name and modifiers (`rn`, `approx`, …), without `ftz`.
fn operate(
    operation: &str,
    modifiers: &[&str],
    ty: &str,
    arguments: &[String],
    body: &mut FunctionBody,
) -> Option<String> {
    let suffix = if ty == "double" { "f64" } else { "f32" };
    let a = arguments.first()?;
    let unary = |name: &str| format!("call {ty} @llvm.{name}.{suffix}({ty} {a})");
    Some(match (operation, modifiers) {
        ("fabs", []) => body.value(unary("fabs")),
        ("floor", []) => body.value(unary("floor")),
        ("ceil", []) => body.value(unary("ceil")),
        ("trunc", []) => body.value(unary("trunc")),
        // NVVM's round is `cvt.rni`: ties to even.
        ("round", []) => body.value(unary("rint")),
        ("saturate", []) => saturated(body, ty, a),
        ("sqrt", [] | ["approx"]) => body.value(unary("sqrt")),
        ("ex2", ["approx"]) => body.value(unary("exp2")),
        ("lg2", ["approx"]) => body.value(unary("log2")),
        ("sin", ["approx"]) => body.value(unary("sin")),
        ("cos", ["approx"]) => body.value(unary("cos")),
        ("tanh", ["approx"]) => {
            let function = if ty == "double" { "tanh" } else { "tanhf" };
            body.value(format!("call {ty} @{function}({ty} {a})"))
        }
        ("rcp", ["approx"]) => body.value(format!("fdiv {ty} 1.0, {a}")),
        ("div", ["approx"]) => body.value(format!("fdiv {ty} {a}, {}", arguments.get(1)?)),
        ("rsqrt", ["approx"]) if ty == "float" => {
            // In double precision, so there is only one rounding, as precise as the GPU's.
            let wide = body.value(format!("fpext float {a} to double"));
            let root = body.value(format!("call double @llvm.sqrt.f64(double {wide})"));
            let inverse = body.value(format!("fdiv double 1.0, {root}"));
            body.value(format!("fptrunc double {inverse} to float"))
        }
        ("rsqrt", ["approx"]) => {
            let root = body.value(unary("sqrt"));
            body.value(format!("fdiv double 1.0, {root}"))
        }
        ("fmin" | "fmax", modifiers) => extremum(operation, modifiers, ty, suffix, a, arguments.get(1)?, body)?,
        (_, [mode]) => rounded(operation, rounding_mode(mode)?, ty, suffix, arguments, body)?,
        _ => return None,
    })
}

fn rounded(
    operation: &str,
    mode: usize,
    ty: &str,
    suffix: &str,
    arguments: &[String],
    body: &mut FunctionBody,
) -> Option<String> {
    let code = ROUNDED.iter().position(|name| *name == operation)?;
    if mode == 0 {
        let a = arguments.first()?;
        let b = arguments.get(1);
        return Some(match operation {
            "sqrt" => body.value(format!("call {ty} @llvm.sqrt.{suffix}({ty} {a})")),
            "rcp" => body.value(format!("fdiv {ty} 1.0, {a}")),
            "fma" => {
                let c = arguments.get(2)?;
                body.value(format!("call {ty} @llvm.fma.{suffix}({ty} {a}, {ty} {}, {ty} {c})", b?))
            }
            // Without the `contract` flag, because these are never fused.
            _ => body.value(format!("f{operation} {ty} {a}, {}", b?)),
        });
    }
    let mut bits = vec!["0".to_owned(); 3];
    for (slot, argument) in bits.iter_mut().zip(arguments) {
        *slot = if ty == "double" {
            body.value(format!("bitcast double {argument} to i64"))
        } else {
            let narrow = body.value(format!("bitcast float {argument} to i32"));
            body.value(format!("zext i32 {narrow} to i64"))
        };
    }
    let code = if ty == "double" { code } else { code + 16 };
    let value = body.value(format!(
        "call i64 @__mneme_cpu_round(i32 {code}, i32 {mode}, i64 {}, i64 {}, i64 {})",
        bits[0], bits[1], bits[2]
    ));
    Some(if ty == "double" {
        body.value(format!("bitcast i64 {value} to double"))
    } else {
        let narrow = body.value(format!("trunc i64 {value} to i32"));
        body.value(format!("bitcast i32 {narrow} to float"))
    })
}

/// Limits a number to the range from 0 to 1; NaN becomes 0.
fn saturated(body: &mut FunctionBody, ty: &str, value: &str) -> String {
    let positive = body.value(format!("fcmp ogt {ty} {value}, 0.0"));
    let raised = body.value(format!("select i1 {positive}, {ty} {value}, {ty} 0.0"));
    let small = body.value(format!("fcmp olt {ty} {raised}, 1.0"));
    body.value(format!("select i1 {small}, {ty} {raised}, {ty} 1.0"))
}

/// `min`/`max`: -0 is less than +0, and a number wins against NaN, unless the modifier is `.nan`.
fn extremum(
    operation: &str,
    modifiers: &[&str],
    ty: &str,
    suffix: &str,
    a: &str,
    b: &str,
    body: &mut FunctionBody,
) -> Option<String> {
    let (propagate, signs) = match modifiers {
        [] => (false, false),
        ["nan"] => (true, false),
        ["xorsign", "abs"] => (false, true),
        ["nan", "xorsign", "abs"] => (true, true),
        _ => return None,
    };
    let function = if operation == "fmin" { "minimum" } else { "maximum" };
    let (mut left, mut right) = (a.to_owned(), b.to_owned());
    if signs {
        left = body.value(format!("call {ty} @llvm.fabs.{suffix}({ty} {a})"));
        right = body.value(format!("call {ty} @llvm.fabs.{suffix}({ty} {b})"));
    }
    let mut value = body.value(format!("call {ty} @llvm.{function}.{suffix}({ty} {left}, {ty} {right})"));
    if !propagate {
        let right_nan = body.value(format!("fcmp uno {ty} {right}, {right}"));
        value = body.value(format!("select i1 {right_nan}, {ty} {left}, {ty} {value}"));
        let left_nan = body.value(format!("fcmp uno {ty} {left}, {left}"));
        value = body.value(format!("select i1 {left_nan}, {ty} {right}, {ty} {value}"));
    }
    if signs {
        let integer = if ty == "double" { "i64" } else { "i32" };
        let a_bits = body.value(format!("bitcast {ty} {a} to {integer}"));
        let b_bits = body.value(format!("bitcast {ty} {b} to {integer}"));
        let sign_bits = body.value(format!("xor {integer} {a_bits}, {b_bits}"));
        let sign = body.value(format!("bitcast {integer} {sign_bits} to {ty}"));
        value = body.value(format!("call {ty} @llvm.copysign.{suffix}({ty} {value}, {ty} {sign})"));
    }
    Some(value)
}

fn rotate(function: &str, ty: &str, body: &mut FunctionBody) {
    let amount = if ty == "i64" { body.value("zext i32 %a1 to i64") } else { "%a1".to_owned() };
    let value = body.value(format!("call {ty} @llvm.{function}.{ty}({ty} %a0, {ty} %a0, {ty} {amount})"));
    body.ret(ty, value);
}
