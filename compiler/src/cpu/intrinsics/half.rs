//! Intrinsics on 16-bit floats.
//!
//! They are named after the PTX instruction that they are, and are translated as that instruction.

use crate::cpu::ptx;

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let instruction = instruction(parts)?;
    let mut constraints = vec![format!("={}", register(&signature.result)?)];
    for parameter in &signature.parameters {
        constraints.push(register(parameter)?.to_owned());
    }
    let operands: Vec<String> = (0..constraints.len()).map(|i| format!("${i}")).collect();
    let text = format!("{instruction} {};", operands.join(", "));
    *body = ptx::translate(&text, &constraints.join(","), signature).ok()?;
    Some(())
}

fn instruction(parts: &[&str]) -> Option<String> {
    let (name, rest) = parts.split_first()?;
    let rest = rest.join(".");
    let short = [".f16", ".f16x2", ".bf16", ".bf16x2"].iter().any(|suffix| format!(".{rest}").ends_with(suffix));
    Some(match *name {
        "ff2f16x2" => format!("cvt.{rest}.f16x2.f32"),
        "ff2bf16x2" => format!("cvt.{rest}.bf16x2.f32"),
        "f2bf16" => format!("cvt.{rest}.bf16.f32"),
        "fmin" | "fmax" if short => format!("{}.{}", &name[1..], rest.replace("nan", "NaN")),
        "add" | "sub" | "mul" | "fma" | "abs" | "neg" | "ex2" | "tanh" if short => format!("{name}.{rest}"),
        _ => return None,
    })
}

fn register(ty: &str) -> Option<&'static str> {
    match ty {
        "half" | "bfloat" | "i16" => Some("h"),
        "<2 x half>" | "<2 x bfloat>" | "i32" => Some("r"),
        "float" => Some("f"),
        _ => None,
    }
}
