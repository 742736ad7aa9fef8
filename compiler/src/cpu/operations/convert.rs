//! Conversions between floats and integers with a rounding mode.
//!
//! Like `cvt`, they saturate, and convert NaN to a fixed value.

use super::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    match parts {
        ["bitcast", _] => {
            let value = body.value(format!("bitcast {} %a0 to {result}", signature.parameters.first()?));
            body.ret(result, value);
        }
        [kind, mode, rest @ ..] => {
            let mode = rounding_mode(mode)?;
            let (from, to) = kind.split_once('2')?;
            match (float_type(from), integer_type(to), integer_type(from), float_type(to)) {
                (Some(from), Some((width, signed)), ..) => {
                    let value = if from == "float" { flushed(rest, body) } else { "%a0".to_owned() };
                    let value = to_integer(body, from, &value, width, signed, mode);
                    body.ret(result, value);
                }
                (.., Some((width, signed)), Some(to)) => {
                    let value = from_integer(body, "%a0", width, signed, to, mode);
                    body.ret(result, value);
                }
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(())
}

/// PTX's rounding modes in the numbering of `__mneme_cpu_round`: nearest even, toward zero, down, up.
pub fn rounding_mode(name: &str) -> Option<usize> {
    ["rn", "rz", "rm", "rp"].iter().position(|mode| *mode == name)
}

fn flushed(rest: &[&str], body: &mut FunctionBody) -> String {
    if rest.contains(&"ftz") { body.value("call float @__mneme_cpu.ftz(float %a0)") } else { "%a0".to_owned() }
}

fn float_type(letter: &str) -> Option<&'static str> {
    match letter {
        "f" => Some("float"),
        "d" => Some("double"),
        _ => None,
    }
}

fn integer_type(letter: &str) -> Option<(u32, bool)> {
    match letter {
        "i" => Some((32, true)),
        "ui" => Some((32, false)),
        "ll" => Some((64, true)),
        "ull" => Some((64, false)),
        _ => None,
    }
}

fn suffix(ty: &str) -> &'static str {
    match ty {
        "half" => "f16",
        "float" => "f32",
        _ => "f64",
    }
}

/// Rounds a float to an integer of `width` bits.
fn to_integer(body: &mut FunctionBody, from: &str, value: &str, width: u32, signed: bool, mode: usize) -> String {
    let rounding = ["rint", "trunc", "floor", "ceil"][mode];
    let from_suffix = suffix(from);
    let rounded = body.value(format!("call {from} @llvm.{rounding}.{from_suffix}({from} {value})"));
    let sign = if signed { "s" } else { "u" };
    let converted = body.value(format!("call i{width} @llvm.fpto{sign}i.sat.i{width}.{from_suffix}({from} {rounded})"));
    // PTX: NaN gives zero, or only the top bit if one side has 64 bits.
    if from == "double" || width == 64 {
        let nan = body.value(format!("fcmp uno {from} {value}, {value}"));
        let top = 1u64 << (width - 1);
        body.value(format!("select i1 {nan}, i{width} {top}, i{width} {converted}"))
    } else {
        converted
    }
}

/// Rounds an integer of `width` bits to a float.
fn from_integer(body: &mut FunctionBody, value: &str, width: u32, signed: bool, to: &str, mode: usize) -> String {
    let sign = if signed { "s" } else { "u" };
    let mantissa = match to {
        "half" => 11,
        "float" => 24,
        _ => 53,
    };
    let exact = width - u32::from(signed) <= mantissa;
    if mode == 0 || exact {
        return body.value(format!("{sign}itofp i{width} {value} to {to}"));
    }
    // The leading bits of the magnitude convert exactly. The lost ones decide whether to step outward by one.
    let magnitude = if signed {
        body.value(format!("call i{width} @llvm.abs.i{width}(i{width} {value}, i1 false)"))
    } else {
        value.to_owned()
    };
    let wide = if width == 64 { magnitude } else { body.value(format!("zext i{width} {magnitude} to i64")) };
    let zeros = body.value(format!("call i64 @llvm.ctlz.i64(i64 {wide}, i1 false)"));
    let excess = body.value(format!("call i64 @llvm.usub.sat.i64(i64 {}, i64 {zeros})", 64 - mantissa));
    let kept = body.value(format!("lshr i64 {wide}, {excess}"));
    let back = body.value(format!("shl i64 {kept}, {excess}"));
    let inexact = body.value(format!("icmp ne i64 {back}, {wide}"));
    let negative = if signed { body.value(format!("icmp slt i{width} {value}, 0")) } else { "false".to_owned() };
    let outward = match mode {
        1 => "false".to_owned(),
        2 => negative.clone(),
        _ => body.value(format!("xor i1 {negative}, true")),
    };
    let step = body.value(format!("and i1 {inexact}, {outward}"));
    let step = body.value(format!("zext i1 {step} to i64"));
    let stepped = body.value(format!("add i64 {kept}, {step}"));
    let leading = body.value(format!("uitofp i64 {stepped} to {to}"));
    let unit = body.value(format!("shl i64 1, {excess}"));
    let scale = body.value(format!("uitofp i64 {unit} to {to}"));
    let absolute = body.value(format!("fmul {to} {leading}, {scale}"));
    let opposite = body.value(format!("fneg {to} {absolute}"));
    body.value(format!("select i1 {negative}, {to} {opposite}, {to} {absolute}"))
}
