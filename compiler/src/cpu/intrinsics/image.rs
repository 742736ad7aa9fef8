//! Intrinsics of textures and surfaces by handle, translated through the equivalent PTX.

use std::fmt::Write;

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let (text, constraints) = text_of(parts, signature)?;
    *body = mneme_ptx::inline(&text, &constraints, &signature.result, &signature.parameters).ok()?.into();
    Some(())
}

/// The register of a type, as in constraints.
fn register(ty: &str) -> Option<char> {
    match ty {
        "i16" => Some('h'),
        "i32" => Some('r'),
        "i64" => Some('l'),
        "float" => Some('f'),
        _ => None,
    }
}

/// The geometry (`1d`, or `2d.array`), and the parts after it.
fn geometry<'a>(parts: &'a [&'a str]) -> Option<(String, &'a [&'a str])> {
    match parts {
        [geometry, "array", rest @ ..] => Some((format!("a{geometry}"), rest)),
        [geometry, rest @ ..] => Some(((*geometry).to_owned(), rest)),
        [] => None,
    }
}

/// The number of registers of a coordinate, including its layer.
fn coordinates(geometry: &str) -> Option<usize> {
    match geometry {
        "1d" => Some(1),
        "2d" | "a1d" => Some(2),
        "3d" | "a2d" | "cube" => Some(3),
        "acube" => Some(4),
        _ => None,
    }
}

/// The elements in PTX: `v4.f32` for `v4f32`, `b32` for `i32`, `v2.b32` for `v2i32`.
fn elements(name: &str) -> String {
    let name = name.replace('i', "b");
    match name.strip_prefix('v').and_then(|rest| rest.split_at_checked(1)) {
        Some((count, ty)) => format!("v{count}.{ty}"),
        None => name,
    }
}

/// Consecutive operands in braces.
fn operands(first: usize, count: usize) -> String {
    let all: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    format!("{{{}}}", all.join(", "))
}

/// The PTX for an intrinsic, and its constraints.
fn text_of(parts: &[&str], signature: &FunctionSignature) -> Option<(String, String)> {
    let results: Vec<&str> = match signature.result.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) => inner.split(',').map(str::trim).collect(),
        None if signature.result == "void" => Vec::new(),
        None => vec![&signature.result],
    };
    let mut constraints = String::new();
    for ty in &results {
        write!(constraints, "={},", register(ty)?).ok()?;
    }
    for ty in &signature.parameters {
        write!(constraints, "{},", register(ty)?).ok()?;
    }
    let handle = results.len();
    let (to, inputs) = (operands(0, handle), signature.parameters.len().checked_sub(1)?);
    let (geometry, opcode) = match parts {
        ["txq" | "suq", query @ ..] => {
            return Some((format!("{}.{}.b32 $0, [$1];", parts[0], query.join("_")), constraints));
        }
        ["suld", rest @ ..] => {
            let (geometry, [ty, boundary]) = geometry(rest)? else { return None };
            let opcode = format!("suld.b.{geometry}.{}.{boundary}", elements(ty));
            (geometry, opcode)
        }
        ["sust", "b", rest @ ..] => {
            let (geometry, [ty, boundary]) = geometry(rest)? else { return None };
            let count = coordinates(&geometry)?;
            let (at, data) = (operands(1, count), operands(1 + count, inputs.checked_sub(count)?));
            return Some((format!("sust.b.{geometry}.{}.{boundary} [$0, {at}], {data};", elements(ty)), constraints));
        }
        ["tld4", "unified", component, "2d", ty, kind] => {
            ("2d".to_owned(), format!("tld4.{component}.2d.{}.{kind}", elements(ty)))
        }
        ["tex", "unified", rest @ ..] => {
            let (geometry, rest) = geometry(rest)?;
            let (level, rest) = match rest {
                [level @ ("level" | "grad"), rest @ ..] => (format!("{level}."), rest),
                rest => (String::new(), rest),
            };
            let [ty, kind] = rest else { return None };
            let opcode = format!("tex.{level}{geometry}.{}.{kind}", elements(ty));
            (geometry, opcode)
        }
        _ => return None,
    };
    let count = coordinates(&geometry)?;
    let (at, first) = (operands(handle + 1, count), handle + 1 + count);
    let more = match inputs.checked_sub(count)? {
        0 => String::new(),
        1 if opcode.starts_with("tex.level.") => format!(", ${first}"),
        both => format!(", {}, {}", operands(first, both / 2), operands(first + both / 2, both / 2)),
    };
    Some((format!("{opcode} {to}, [${handle}, {at}]{more};"), constraints))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tests::run::{Parameters, Program};
    use crate::cpu::tests::{object_of_text, table};

    fn text(name: &str, result: &str, parameters: &[&str]) -> Option<String> {
        let parameters = parameters.iter().map(|ty| (*ty).to_owned()).collect();
        let signature = FunctionSignature { name: String::new(), result: result.into(), parameters };
        let parts: Vec<&str> = name.split('.').collect();
        let (text, constraints) = text_of(&parts, &signature)?;
        assert!(mneme_ptx::inline(&text, &constraints, &signature.result, &signature.parameters).is_ok(), "{text}");
        Some(text)
    }

    #[test]
    fn each_intrinsic_is_the_instruction_that_it_stands_for() {
        let floats = "{ float, float, float, float }";
        let words = "{ i32, i32, i32, i32 }";
        for (name, result, parameters, expected) in [
            ("txq.width", "i32", vec!["i64"], "txq.width.b32 $0, [$1];"),
            ("suq.array.size", "i32", vec!["i64"], "suq.array_size.b32 $0, [$1];"),
            ("tex.unified.1d.v4s32.s32", words, vec!["i64", "i32"], "tex.1d.v4.s32.s32 {$0, $1, $2, $3}, [$4, {$5}];"),
            (
                "tex.unified.2d.array.level.v4f32.f32",
                floats,
                vec!["i64", "i32", "float", "float", "float"],
                "tex.level.a2d.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5, $6, $7}], $8;",
            ),
            (
                "tex.unified.1d.grad.v4f32.f32",
                floats,
                vec!["i64", "float", "float", "float"],
                "tex.grad.1d.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5}], {$6}, {$7};",
            ),
            (
                "tex.unified.3d.grad.v4u32.f32",
                words,
                [&["i64"][..], &["float"; 9]].concat(),
                "tex.grad.3d.v4.u32.f32 {$0, $1, $2, $3}, [$4, {$5, $6, $7}], {$8, $9, $10}, {$11, $12, $13};",
            ),
            (
                "tex.unified.cube.array.v4f32.f32",
                floats,
                vec!["i64", "i32", "float", "float", "float"],
                "tex.acube.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5, $6, $7, $8}];",
            ),
            (
                "tld4.unified.g.2d.v4f32.f32",
                floats,
                vec!["i64", "float", "float"],
                "tld4.g.2d.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5, $6}];",
            ),
            ("suld.3d.i8.trap", "i16", vec!["i64", "i32", "i32", "i32"], "suld.b.3d.b8.trap {$0}, [$1, {$2, $3, $4}];"),
            (
                "suld.1d.array.v2i64.zero",
                "{ i64, i64 }",
                vec!["i64", "i32", "i32"],
                "suld.b.a1d.v2.b64.zero {$0, $1}, [$2, {$3, $4}];",
            ),
            (
                "sust.b.2d.v4i16.clamp",
                "void",
                vec!["i64", "i32", "i32", "i16", "i16", "i16", "i16"],
                "sust.b.2d.v4.b16.clamp [$0, {$1, $2}], {$3, $4, $5, $6};",
            ),
        ] {
            assert_eq!(text(name, result, &parameters).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(text("tex.2d.v4f32.f32", floats, &["i64", "i64", "float", "float"]), None, "with a sampler");
        assert_eq!(text("sust.p.1d.i32.trap", "void", &["i64", "i32", "i32"]), None);
    }

    /// The tests' device prints the arguments of its calls.
    #[test]
    fn a_module_calls_intrinsics_as_its_llvm_declares_them() {
        let object = object_of_text(
            r#"target triple = "nvptx64-nvidia-cuda"
            declare i32 @llvm.nvvm.txq.width(i64)
            declare { float, float, float, float } @llvm.nvvm.tex.unified.2d.v4f32.f32(i64, float, float)
            declare { i32, i32 } @llvm.nvvm.suld.1d.v2i32.zero(i64, i32)
            declare void @llvm.nvvm.sust.b.1d.i16.trap(i64, i32, i16)
            define void @run(ptr %out) {
                %width = call i32 @llvm.nvvm.txq.width(i64 3)
                store i32 %width, ptr %out
                %texel = call { float, float, float, float } @llvm.nvvm.tex.unified.2d.v4f32.f32(i64 0, float 7.0, float 0.0)
                %what = extractvalue { float, float, float, float } %texel, 0
                %second = getelementptr i32, ptr %out, i64 1
                store float %what, ptr %second
                %x = extractvalue { float, float, float, float } %texel, 2
                %third = getelementptr i32, ptr %out, i64 2
                store float %x, ptr %third
                %pair = call { i32, i32 } @llvm.nvvm.suld.1d.v2i32.zero(i64 0, i32 4)
                %high = extractvalue { i32, i32 } %pair, 1
                %fourth = getelementptr i32, ptr %out, i64 3
                store i32 %high, ptr %fourth
                %fifth = getelementptr i32, ptr %out, i64 4
                %surface = ptrtoint ptr %fifth to i64
                call void @llvm.nvvm.sust.b.1d.i16.trap(i64 %surface, i32 6, i16 291)
                ret void
            }
            !nvvm.annotations = !{!0}
            !0 = !{ptr @run, !"kernel", i32 1}"#,
        );
        assert_eq!(table(&object).refused, []);
        let mut out = [0u32; 9];
        Program::link(&object).launch("run", 1, 1, Parameters::default().pointer(out.as_mut_ptr()).get());
        let loaded = u32::from_le_bytes([46, 56, 66, 76]);
        assert_eq!(out, [2563, 257, 7f32.to_bits(), loaded, 512, 0, 6, 0, 291]);
    }
}
