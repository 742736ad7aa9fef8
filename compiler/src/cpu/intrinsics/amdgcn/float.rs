//! Floating-point instructions: approximations, parts of numbers, divisions.
//!
//! The CPU device computes the GPU's approximations exactly or with libm.

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

/// The bit layout of a type.
struct Format {
    bits: u32,
    mantissa: u32,
}

fn format(ty: &str) -> Option<Format> {
    match ty {
        "float" => Some(Format { bits: 32, mantissa: 23 }),
        "double" => Some(Format { bits: 64, mantissa: 52 }),
        _ => None,
    }
}

/// A small integer as a constant of a floating-point type, or of a vector of one.
pub fn constant(ty: &str, value: u32) -> Option<String> {
    if let Some(vector) = ty.strip_prefix('<') {
        let (count, element) = vector.strip_suffix('>')?.split_once(" x ")?;
        let one = format!("{element} {}", constant(element, value)?);
        return Some(format!("<{}>", vec![one; count.parse().ok()?].join(", ")));
    }
    matches!(ty, "half" | "bfloat" | "float" | "double").then(|| format!("{value}.0"))
}

fn suffix(ty: &str) -> Option<&'static str> {
    match ty {
        "half" => Some("f16"),
        "float" => Some("f32"),
        "double" => Some("f64"),
        _ => None,
    }
}

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let ty = signature.result.as_str();
    let unary = |intrinsic: &str, body: &mut FunctionBody, operand: &str| -> Option<String> {
        Some(body.value(format!("call {ty} @llvm.{intrinsic}.{}({ty} {operand})", suffix(ty)?)))
    };
    let value = match parts {
        ["rcp", ..] => {
            let one = constant(ty, 1)?;
            body.value(format!("fdiv {ty} {one}, %a0"))
        }
        ["rsq", form] if *form == suffix(ty)? => {
            let one = constant(ty, 1)?;
            let root = unary("sqrt", body, "%a0")?;
            body.value(format!("fdiv {ty} {one}, {root}"))
        }
        ["sqrt", _] => unary("sqrt", body, "%a0")?,
        ["log", _] => unary("log2", body, "%a0")?,
        ["exp2", _] => unary("exp2", body, "%a0")?,
        // The argument counts turns.
        [function @ ("sin" | "cos"), _] => {
            let wide = if ty == "double" { "%a0".to_owned() } else { body.value(format!("fpext {ty} %a0 to double")) };
            let value = body.value(format!("call double @__mneme_cpu.{function}_of_turns(double {wide})"));
            if ty == "double" { value } else { body.value(format!("fptrunc double {value} to {ty}")) }
        }
        // The result is less than one, even if the subtraction rounds up to one.
        ["fract", _] => {
            let floor = unary("floor", body, "%a0")?;
            let rest = body.value(format!("fsub {ty} %a0, {floor}"));
            let one = constant(ty, 1)?;
            let whole = body.value(format!("fcmp oge {ty} {rest}, {one}"));
            let below = match ty {
                "half" => "0xH3BFF",
                "float" => "0x3FEFFFFFE0000000",
                _ => "0x3FEFFFFFFFFFFFFF",
            };
            body.value(format!("select i1 {whole}, {ty} {below}, {ty} {rest}"))
        }
        ["frexp", "mant", "f16"] => {
            let wide = body.value("fpext half %a0 to float");
            let value = mantissa("float", &wide, body)?;
            body.value(format!("fptrunc float {value} to half"))
        }
        ["frexp", "mant", _] => mantissa(ty, "%a0", body)?,
        ["frexp", "exp", _, "f16"] => {
            let wide = body.value("fpext half %a0 to float");
            exponent("float", &wide, ty, body)?
        }
        ["frexp", "exp", _, _] => exponent(signature.parameters.first()?, "%a0", ty, body)?,
        ["class", _] => class(signature.parameters.first()?, body)?,
        ["fmed3", _] => median(ty, body)?,
        ["fmul", "legacy"] => legacy_product(body),
        ["fma", "legacy"] => {
            let product = legacy_product(body);
            let zero = body.value("call i1 @__mneme_cpu.is_zero_product(float %a0, float %a1)");
            let sum = body.value(format!("fadd float {product}, %a2"));
            let fused = body.value("call float @llvm.fma.f32(float %a0, float %a1, float %a2)");
            body.value(format!("select i1 {zero}, float {sum}, float {fused}"))
        }
        // `div.fixup` performs the division, so the instructions before it only need to exist.
        ["div", "scale", _] => {
            let scalar = signature.parameters.first()?;
            let value = body.value(format!("select i1 %a2, {scalar} %a0, {scalar} %a1"));
            let first = body.value(format!("insertvalue {ty} poison, {scalar} {value}, 0"));
            body.value(format!("insertvalue {ty} {first}, i1 false, 1"))
        }
        ["div", "fmas", _] => {
            let kind = suffix(ty)?;
            body.value(format!("call {ty} @llvm.fma.{kind}({ty} %a0, {ty} %a1, {ty} %a2)"))
        }
        ["div", "fixup", _] => body.value(format!("fdiv {ty} %a2, %a1")),
        ["trig", "preop", "f64"] => body.value("call double @__mneme_cpu.two_over_pi(double %a0, i32 %a1)"),
        _ => return None,
    };
    body.ret(ty, value);
    Some(())
}

/// Scales subnormals up, so their exponent fits into the field. Returns the scaled number's bits, its exponent field,
/// whether it was scaled, and whether it has no exponent (zero, infinity, NaN).
fn parts(ty: &str, value: &str, body: &mut FunctionBody) -> Option<(String, String, String, String)> {
    let Format { bits, mantissa } = format(ty)?;
    let (int, exponents) = (format!("i{bits}"), (1u64 << (bits - 1 - mantissa)) - 1);
    let field = |number: &str, body: &mut FunctionBody| {
        let moved = body.value(format!("lshr {int} {number}, {mantissa}"));
        body.value(format!("and {int} {moved}, {exponents}"))
    };
    let plain = body.value(format!("bitcast {ty} {value} to {int}"));
    let plain_field = field(&plain, body);
    let small = body.value(format!("icmp eq {int} {plain_field}, 0"));
    // 2^64
    let scaled = body.value(format!("fmul {ty} {value}, 0x43F0000000000000"));
    let scaled = body.value(format!("bitcast {ty} {scaled} to {int}"));
    let number = body.value(format!("select i1 {small}, {int} {scaled}, {int} {plain}"));
    let exponent = field(&number, body);
    let zero = body.value(format!("icmp eq {int} {exponent}, 0"));
    let special = body.value(format!("icmp eq {int} {plain_field}, {exponents}"));
    let none = body.value(format!("or i1 {zero}, {special}"));
    Some((number, exponent, small, none))
}

fn mantissa(ty: &str, value: &str, body: &mut FunctionBody) -> Option<String> {
    let Format { bits, mantissa } = format(ty)?;
    let int = format!("i{bits}");
    let exponents = (1u64 << (bits - 1 - mantissa)) - 1;
    let (number, _, _, none) = parts(ty, value, body)?;
    let kept = body.value(format!("and {int} {number}, {}", !(exponents << mantissa) as i64));
    // The exponent of numbers from 0.5 to below 1.
    let half = body.value(format!("or {int} {kept}, {}", (exponents / 2 - 1) << mantissa));
    let half = body.value(format!("bitcast {int} {half} to {ty}"));
    Some(body.value(format!("select i1 {none}, {ty} {value}, {ty} {half}")))
}

fn exponent(ty: &str, value: &str, result: &str, body: &mut FunctionBody) -> Option<String> {
    let Format { bits, mantissa } = format(ty)?;
    let int = format!("i{bits}");
    let bias = (1u64 << (bits - 1 - mantissa)) / 2 - 1;
    let (_, exponent, small, none) = parts(ty, value, body)?;
    let offset = body.value(format!("select i1 {small}, {int} {}, {int} {}", bias - 1 + 64, bias - 1));
    let number = body.value(format!("sub {int} {exponent}, {offset}"));
    let number = body.value(format!("select i1 {none}, {int} 0, {int} {number}"));
    let wanted = result.strip_prefix('i')?.parse::<u32>().ok()?;
    Some(if wanted == bits { number } else { body.value(format!("trunc {int} {number} to {result}")) })
}

/// Whether a number is in one of the mask's classes. The bits have the order of LLVM's `is.fpclass`.
fn class(ty: &str, body: &mut FunctionBody) -> Option<String> {
    let kind = suffix(ty)?;
    let mut found = "false".to_owned();
    for bit in 0..10 {
        let moved = body.value(format!("lshr i32 %a1, {bit}"));
        let asked = body.value(format!("trunc i32 {moved} to i1"));
        let is = body.value(format!("call i1 @llvm.is.fpclass.{kind}({ty} %a0, i32 {})", 1 << bit));
        let both = body.value(format!("and i1 {asked}, {is}"));
        found = body.value(format!("or i1 {found}, {both}"));
    }
    Some(found)
}

/// The median of three, or the least of the others if one is NaN.
fn median(ty: &str, body: &mut FunctionBody) -> Option<String> {
    let kind = suffix(ty)?;
    let mut two =
        |which: &str, a: &str, b: &str| body.value(format!("call {ty} @llvm.{which}num.{kind}({ty} {a}, {ty} {b})"));
    let (less, more) = (two("min", "%a0", "%a1"), two("max", "%a0", "%a1"));
    let bounded = two("min", &more, "%a2");
    let middle = two("max", &less, &bounded);
    let least = two("min", &less, "%a2");
    let first = body.value(format!("fcmp uno {ty} %a0, %a1"));
    let last = body.value(format!("fcmp uno {ty} %a2, %a2"));
    let unordered = body.value(format!("or i1 {first}, {last}"));
    Some(body.value(format!("select i1 {unordered}, {ty} {least}, {ty} {middle}")))
}

/// A product that is zero if a factor is.
fn legacy_product(body: &mut FunctionBody) -> String {
    let zero = body.value("call i1 @__mneme_cpu.is_zero_product(float %a0, float %a1)");
    let product = body.value("fmul float %a0, %a1");
    body.value(format!("select i1 {zero}, float 0.0, float {product}"))
}
