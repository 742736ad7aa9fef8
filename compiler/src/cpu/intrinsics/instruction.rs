//! Intrinsics that correspond to PTX instructions, and are translated like these.

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let mut constraints = vec![format!("={}", register(&signature.result)?)];
    for parameter in &signature.parameters {
        constraints.push(register(parameter)?.to_owned());
    }
    let text = match parts {
        ["d2i", "hi"] => "mov.b64 {_, $0}, $1;".to_owned(),
        ["d2i", "lo"] => "mov.b64 {$0, _}, $1;".to_owned(),
        ["lohi", "i2d"] => "mov.b64 $0, {$1, $2};".to_owned(),
        _ => {
            let operands: Vec<String> = (0..constraints.len()).map(|i| format!("${i}")).collect();
            format!("{} {};", instruction(parts)?, operands.join(", "))
        }
    };
    *body = mneme_ptx::inline(&text, &constraints.join(","), &signature.result, &signature.parameters).ok()?.into();
    Some(())
}

fn instruction(parts: &[&str]) -> Option<String> {
    let (name, rest) = parts.split_first()?;
    let rest = rest.join(".");
    let short = [".f16", ".f16x2", ".bf16", ".bf16x2"].iter().any(|suffix| format!(".{rest}").ends_with(suffix));
    Some(match *name {
        "mulhi" => format!("mul.hi.{}", integer(&rest)?),
        "mul24" => format!("mul24.lo.{}", integer(&rest)?),
        "sad" => format!("sad.{}", integer(&rest)?),
        "d2f" => format!("cvt.{rest}.f32.f64"),
        "f2h" => format!("cvt.{rest}.f16.f32"),
        "ff2f16x2" => format!("cvt.{rest}.f16x2.f32"),
        "ff2bf16x2" => format!("cvt.{rest}.bf16x2.f32"),
        "f2bf16" => format!("cvt.{rest}.bf16.f32"),
        "fmin" | "fmax" if short => format!("{}.{}", &name[1..], rest.replace("nan", "NaN")),
        "add" | "sub" | "mul" | "fma" | "abs" | "neg" | "ex2" | "tanh" if short => format!("{name}.{rest}"),
        _ => return None,
    })
}

/// The PTX type for a type in an intrinsic's name.
fn integer(name: &str) -> Option<&'static str> {
    let types = [("s", "s16"), ("us", "u16"), ("i", "s32"), ("ui", "u32"), ("ll", "s64"), ("ull", "u64")];
    types.iter().find(|(word, _)| *word == name).map(|(_, ty)| *ty)
}

fn register(ty: &str) -> Option<&'static str> {
    match ty {
        "half" | "bfloat" | "i16" => Some("h"),
        "<2 x half>" | "<2 x bfloat>" | "i32" => Some("r"),
        "float" => Some("f"),
        "i64" => Some("l"),
        "double" => Some("d"),
        _ => None,
    }
}
