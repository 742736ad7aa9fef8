//! Intrinsics on memory: fences, cached loads, atomics, address spaces.

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    let parameter = |i: usize| signature.parameters.get(i).map(String::as_str);
    match parts {
        ["membar", _] | ["fence", "sc", "cluster"] => {
            body.line("fence seq_cst");
            body.ret("void", "");
        }
        ["ldg" | "ldu", "global", ..] => {
            // The promised alignment is an operand and not known here. CPUs do not need it.
            let value = body.value(format!("load {result}, {} %a0, align 1", parameter(0)?));
            body.ret(result, value);
        }
        ["isspacep", "shared"] => {
            let inside = body.value("call i1 @__mneme_cpu.is_shared(ptr %a0)");
            body.ret(result, inside);
        }
        ["isspacep", "shared", "cluster"] => {
            let inside = body.value("call i1 @__mneme_cpu.is_cluster_shared(ptr %a0)");
            body.ret(result, inside);
        }
        ["isspacep", "local"] => {
            let inside = body.value("call i1 @__mneme_cpu.is_local(ptr %a0)");
            body.ret(result, inside);
        }
        // All memory except the cluster's shared memory and the thread's variables on its stack.
        ["isspacep", "global"] => {
            let shared = body.value("call i1 @__mneme_cpu.is_cluster_shared(ptr %a0)");
            let local = body.value("call i1 @__mneme_cpu.is_local(ptr %a0)");
            let inside = body.value(format!("or i1 {shared}, {local}"));
            let outside = body.value(format!("xor i1 {inside}, true"));
            body.ret(result, outside);
        }
        ["mapa", ..] if parameter(0) == Some(result) && result.starts_with("ptr") => {
            let address = body.value(format!("ptrtoint {result} %a0 to i64"));
            let mapped = body.value(format!("call i64 @__mneme_cpu.in_block(i64 {address}, i32 %a1)"));
            let pointer = body.value(format!("inttoptr i64 {mapped} to {result}"));
            body.ret(result, pointer);
            body.collective = true;
        }
        ["getctarank", ..] if parameter(0).is_some_and(|ty| ty.starts_with("ptr")) => {
            let address = body.value(format!("ptrtoint {} %a0 to i64", parameter(0)?));
            let rank = body.value(format!("call i32 @__mneme_cpu.block_of(i64 {address})"));
            body.ret(result, rank);
            body.collective = true;
        }
        // The copy happens at once, so waiting for it has no effect.
        ["cp", "async", "ca" | "cg", "shared", "global", bytes, rest @ ..] => {
            let bytes: u32 = bytes.parse().ok()?;
            let (to, from) = (parameter(0)?, parameter(1)?);
            let size = if rest == ["s"] { body.value("zext i32 %a2 to i64") } else { bytes.to_string() };
            let to = body.value(format!("addrspacecast {to} %a0 to ptr"));
            let from = body.value(format!("addrspacecast {from} %a1 to ptr"));
            body.line(format_args!("call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {bytes}, i1 false)"));
            body.line(format_args!("call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {from}, i64 {size}, i1 false)"));
            body.ret("void", "");
        }
        ["cp", "async", "commit", "group"] | ["cp", "async", "wait", ..] => body.ret("void", ""),
        ["ptr", _, "to", ..] => {
            let from = parameter(0)?;
            let value = if from == result {
                "%a0".to_owned()
            } else {
                body.value(format!("addrspacecast {from} %a0 to {result}"))
            };
            body.ret(result, value);
        }
        ["move", ..] if parameter(0) == Some(result) => body.ret(result, "%a0"),
        ["atomic", "load", operation @ ("inc" | "dec"), ..] => {
            read_modify_write(operation, result, parameter(0)?, body)?;
        }
        ["atomic", "cas", "gen", ..] => {
            let pair =
                body.value(format!("cmpxchg {} %a0, {result} %a1, {result} %a2 monotonic monotonic", parameter(0)?));
            let old = body.value(format!("extractvalue {{ {result}, i1 }} {pair}, 0"));
            body.ret(result, old);
        }
        ["atomic", operation, "gen", ..] => read_modify_write(operation, result, parameter(0)?, body)?,
        _ => return None,
    }
    Some(())
}

fn read_modify_write(operation: &str, ty: &str, pointer: &str, body: &mut FunctionBody) -> Option<()> {
    let operation = match operation {
        "add" if ty.starts_with('i') => "add",
        "add" => "fadd",
        "exch" => "xchg",
        "inc" => "uinc_wrap",
        "dec" => "udec_wrap",
        "min" | "max" | "and" | "or" | "xor" => operation,
        _ => return None,
    };
    let old = body.value(format!("atomicrmw {operation} {pointer} %a0, {ty} %a1 monotonic"));
    body.ret(ty, old);
    Some(())
}
