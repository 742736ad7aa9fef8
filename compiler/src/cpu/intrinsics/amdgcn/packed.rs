//! Packed conversions and dot products.

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

use super::integer::field;

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    let value = match parts {
        ["cvt", "pkrtz"] => {
            let mut half = |argument: &str| {
                let wide = body.value(format!("fpext float {argument} to double"));
                let bits = body.value(format!("call i16 @__mneme_cpu.narrow16(double {wide}, i32 1, i64 10, i64 15)"));
                body.value(format!("bitcast i16 {bits} to half"))
            };
            let (low, high) = (half("%a0"), half("%a1"));
            pair(result, "half", [&low, &high], body)
        }
        ["cvt", "pknorm", kind @ ("i16" | "u16")] => {
            let (scale, least) = if *kind == "i16" { (32767, "-1.0") } else { (65535, "0.0") };
            let mut number = |argument: &str| {
                let above = body.value(format!("call float @llvm.maxnum.f32(float {argument}, float {least})"));
                let inside = body.value(format!("call float @llvm.minnum.f32(float {above}, float 1.0)"));
                let scaled = body.value(format!("fmul float {inside}, {scale}.0"));
                let nearest = body.value(format!("call float @llvm.rint.f32(float {scaled})"));
                let wide = body.value(format!("fptosi float {nearest} to i32"));
                let narrow = body.value(format!("trunc i32 {wide} to i16"));
                let unordered = body.value(format!("fcmp uno float {argument}, {argument}"));
                body.value(format!("select i1 {unordered}, i16 0, i16 {narrow}"))
            };
            let (low, high) = (number("%a0"), number("%a1"));
            pair(result, "i16", [&low, &high], body)
        }
        ["cvt", "pk", kind @ ("i16" | "u16")] => {
            let mut clamped = |argument: &str| {
                let value = if *kind == "i16" {
                    let above = body.value(format!("call i32 @llvm.smax.i32(i32 {argument}, i32 -32768)"));
                    body.value(format!("call i32 @llvm.smin.i32(i32 {above}, i32 32767)"))
                } else {
                    body.value(format!("call i32 @llvm.umin.i32(i32 {argument}, i32 65535)"))
                };
                body.value(format!("trunc i32 {value} to i16"))
            };
            let (low, high) = (clamped("%a0"), clamped("%a1"));
            pair(result, "i16", [&low, &high], body)
        }
        ["cvt", "pk", "u8", "f32"] => {
            let nearest = body.value("call float @llvm.rint.f32(float %a0)");
            let byte = body.value(format!("call i8 @llvm.fptoui.sat.i8.f32(float {nearest})"));
            let byte = body.value(format!("zext i8 {byte} to i32"));
            let number = body.value("and i32 %a1, 3");
            let shift = body.value(format!("shl i32 {number}, 3"));
            let mask = body.value(format!("shl i32 255, {shift}"));
            let kept = body.value(format!("xor i32 {mask}, -1"));
            let kept = body.value(format!("and i32 %a2, {kept}"));
            let placed = body.value(format!("shl i32 {byte}, {shift}"));
            body.value(format!("or i32 {kept}, {placed}"))
        }
        [name @ ("sdot4" | "udot4" | "sdot8" | "udot8")] => dot(name, body)?,
        [name @ ("sdot2" | "udot2")] => {
            let a = body.value("bitcast <2 x i16> %a0 to i32");
            let b = body.value("bitcast <2 x i16> %a1 to i32");
            products(name, [&a, &b], 16, body)
        }
        ["fdot2"] => {
            let mut sum = "%a2".to_owned();
            for index in 0..2 {
                let mut element = |vector: &str| {
                    let half = body.value(format!("extractelement <2 x half> {vector}, i32 {index}"));
                    body.value(format!("fpext half {half} to float"))
                };
                let (a, b) = (element("%a0"), element("%a1"));
                sum = body.value(format!("call float @llvm.fma.f32(float {a}, float {b}, float {sum})"));
            }
            let above = body.value(format!("call float @llvm.maxnum.f32(float {sum}, float 0.0)"));
            let clamped = body.value(format!("call float @llvm.minnum.f32(float {above}, float 1.0)"));
            body.value(format!("select i1 %a3, float {clamped}, float {sum}"))
        }
        _ => return None,
    };
    body.ret(result, value);
    Some(())
}

fn pair(ty: &str, element: &str, values: [&str; 2], body: &mut FunctionBody) -> String {
    let first = body.value(format!("insertelement {ty} poison, {element} {}, i32 0", values[0]));
    body.value(format!("insertelement {ty} {first}, {element} {}, i32 1", values[1]))
}

fn dot(name: &str, body: &mut FunctionBody) -> Option<String> {
    let count: u32 = name.get(4..)?.parse().ok()?;
    Some(products(name, ["%a0", "%a1"], 32 / count, body))
}

/// The third argument plus the products of the fields of two words, saturated if the fourth is true.
fn products(name: &str, [a, b]: [&str; 2], bits: u32, body: &mut FunctionBody) -> String {
    let signed = name.starts_with('s');
    let extend = if signed { "sext" } else { "zext" };
    let mut sum = body.value(format!("{extend} i32 %a2 to i64"));
    for shift in (0..32).step_by(bits as usize) {
        let mut factor = |word: &str| {
            let bits_only = field(word, "i32", shift, ((1u64 << bits) - 1) as u32, body);
            let narrow = body.value(format!("trunc i32 {bits_only} to i{bits}"));
            body.value(format!("{extend} i{bits} {narrow} to i64"))
        };
        let (x, y) = (factor(a), factor(b));
        let product = body.value(format!("mul i64 {x}, {y}"));
        sum = body.value(format!("add i64 {sum}, {product}"));
    }
    let plain = body.value(format!("trunc i64 {sum} to i32"));
    let bounded = if signed {
        let above = body.value(format!("call i64 @llvm.smax.i64(i64 {sum}, i64 {})", i32::MIN));
        body.value(format!("call i64 @llvm.smin.i64(i64 {above}, i64 {})", i32::MAX))
    } else {
        body.value(format!("call i64 @llvm.umin.i64(i64 {sum}, i64 {})", u32::MAX))
    };
    let bounded = body.value(format!("trunc i64 {bounded} to i32"));
    body.value(format!("select i1 %a3, i32 {bounded}, i32 {plain}"))
}
