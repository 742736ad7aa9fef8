//! Integer instructions: bit fields, 24-bit products, bytes.

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    let value = match parts {
        [name @ ("ubfe" | "sbfe"), _] => bit_field(*name == "sbfe", result, body)?,
        ["mul", kind @ ("u24" | "i24")] => {
            let bits: u32 = result.strip_prefix('i')?.parse().ok()?;
            let (a, b) = (low_24(kind, "%a0", body), low_24(kind, "%a1", body));
            let extend = if *kind == "u24" { "zext" } else { "sext" };
            let mut widen = |value: String| match bits {
                32 => value,
                _ => body.value(format!("{extend} i32 {value} to {result}")),
            };
            let (a, b) = (widen(a), widen(b));
            body.value(format!("mul {result} {a}, {b}"))
        }
        ["mulhi", kind @ ("u24" | "i24")] => {
            let (a, b) = (low_24(kind, "%a0", body), low_24(kind, "%a1", body));
            let extend = if *kind == "u24" { "zext" } else { "sext" };
            let a = body.value(format!("{extend} i32 {a} to i64"));
            let b = body.value(format!("{extend} i32 {b} to i64"));
            let product = body.value(format!("mul i64 {a}, {b}"));
            let high = body.value(format!("lshr i64 {product}, 32"));
            body.value(format!("trunc i64 {high} to i32"))
        }
        // The position of the first bit that differs from the sign.
        ["sffbh", "i32"] => {
            let sign = body.value("ashr i32 %a0, 31");
            let rest = body.value(format!("xor i32 %a0, {sign}"));
            let none = body.value(format!("icmp eq i32 {rest}, 0"));
            let count = body.value(format!("call i32 @llvm.ctlz.i32(i32 {rest}, i1 false)"));
            body.value(format!("select i1 {none}, i32 -1, i32 {count}"))
        }
        ["perm"] => body.value("call i32 @__mneme_cpu.amd_perm(i32 %a0, i32 %a1, i32 %a2)"),
        ["alignbyte"] => {
            let bytes = body.value("and i32 %a2, 3");
            let bits = body.value(format!("shl i32 {bytes}, 3"));
            body.value(format!("call i32 @llvm.fshr.i32(i32 %a0, i32 %a1, i32 {bits})"))
        }
        ["lerp"] => {
            let mut joined = "0".to_owned();
            for shift in (0..32).step_by(8) {
                let (a, b) = (field("%a0", "i32", shift, 255, body), field("%a1", "i32", shift, 255, body));
                let carry = field("%a2", "i32", shift, 1, body);
                let sum = body.value(format!("add i32 {a}, {b}"));
                let sum = body.value(format!("add i32 {sum}, {carry}"));
                let half = body.value(format!("lshr i32 {sum}, 1"));
                joined = place(&half, shift, "i32", &joined, body);
            }
            joined
        }
        ["sad", "u8"] => {
            let sum = sum_of_differences(["%a0", "%a1"], 8, false, body);
            body.value(format!("add i32 {sum}, %a2"))
        }
        ["sad", "u16"] => {
            let sum = sum_of_differences(["%a0", "%a1"], 16, false, body);
            body.value(format!("add i32 {sum}, %a2"))
        }
        ["sad", "hi", "u8"] => {
            let sum = sum_of_differences(["%a0", "%a1"], 8, false, body);
            let high = body.value(format!("shl i32 {sum}, 16"));
            body.value(format!("add i32 {high}, %a2"))
        }
        ["msad", "u8"] => {
            let sum = sum_of_differences(["%a0", "%a1"], 8, true, body);
            body.value(format!("add i32 {sum}, %a2"))
        }
        [name @ ("qsad" | "mqsad"), "pk", "u16", "u8"] => {
            let mut joined = "0".to_owned();
            for step in 0..4 {
                let moved = body.value(format!("lshr i64 %a0, {}", 8 * step));
                let window = body.value(format!("trunc i64 {moved} to i32"));
                let sum = sum_of_differences([&window, "%a1"], 8, *name == "mqsad", body);
                let sum = body.value(format!("zext i32 {sum} to i64"));
                let base = field("%a2", "i64", 16 * step, 0xffff, body);
                let total = body.value(format!("add i64 {sum}, {base}"));
                let total = body.value(format!("and i64 {total}, 65535"));
                joined = place(&total, 16 * step, "i64", &joined, body);
            }
            joined
        }
        _ => return None,
    };
    body.ret(result, value);
    Some(())
}

/// Extracts bits of `%a0`. Offset and width wrap at the type's width.
fn bit_field(signed: bool, ty: &str, body: &mut FunctionBody) -> Option<String> {
    let bits: u32 = ty.strip_prefix('i')?.parse().ok()?;
    let mut wrapped = |argument: &str| {
        let value = body.value(format!("and i32 {argument}, {}", bits - 1));
        if bits == 32 { value } else { body.value(format!("zext i32 {value} to {ty}")) }
    };
    let (offset, width) = (wrapped("%a1"), wrapped("%a2"));
    let shift = if signed { "ashr" } else { "lshr" };
    let end = body.value(format!("add {ty} {offset}, {width}"));
    let inside = body.value(format!("icmp ult {ty} {end}, {bits}"));
    let above = body.value(format!("sub {ty} {bits}, {end}"));
    let above = body.value(format!("select i1 {inside}, {ty} {above}, {ty} 0"));
    let below = body.value(format!("sub {ty} {bits}, {width}"));
    let below = body.value(format!("and {ty} {below}, {}", bits - 1));
    let left = body.value(format!("shl {ty} %a0, {above}"));
    let middle = body.value(format!("{shift} {ty} {left}, {below}"));
    let tail = body.value(format!("{shift} {ty} %a0, {offset}"));
    let value = body.value(format!("select i1 {inside}, {ty} {middle}, {ty} {tail}"));
    let empty = body.value(format!("icmp eq {ty} {width}, 0"));
    Some(body.value(format!("select i1 {empty}, {ty} 0, {ty} {value}")))
}

fn low_24(kind: &str, value: &str, body: &mut FunctionBody) -> String {
    if kind == "u24" {
        return body.value(format!("and i32 {value}, 16777215"));
    }
    let high = body.value(format!("shl i32 {value}, 8"));
    body.value(format!("ashr i32 {high}, 8"))
}

pub fn field(value: &str, ty: &str, shift: u32, mask: u32, body: &mut FunctionBody) -> String {
    let moved = body.value(format!("lshr {ty} {value}, {shift}"));
    body.value(format!("and {ty} {moved}, {mask}"))
}

fn place(value: &str, shift: u32, ty: &str, joined: &str, body: &mut FunctionBody) -> String {
    let moved = body.value(format!("shl {ty} {value}, {shift}"));
    body.value(format!("or {ty} {joined}, {moved}"))
}

/// The sum of absolute differences of the fields of two words. `masked` skips fields that are zero in the second word.
fn sum_of_differences([a, b]: [&str; 2], bits: u32, masked: bool, body: &mut FunctionBody) -> String {
    let mut sum = "0".to_owned();
    for shift in (0..32).step_by(bits as usize) {
        let x = field(a, "i32", shift, (1 << bits) - 1, body);
        let y = field(b, "i32", shift, (1 << bits) - 1, body);
        let difference = body.value(format!("sub i32 {x}, {y}"));
        let mut distance = body.value(format!("call i32 @llvm.abs.i32(i32 {difference}, i1 false)"));
        if masked {
            let left_out = body.value(format!("icmp eq i32 {y}, 0"));
            distance = body.value(format!("select i1 {left_out}, i32 0, i32 {distance}"));
        }
        sum = body.value(format!("add i32 {sum}, {distance}"));
    }
    sum
}
