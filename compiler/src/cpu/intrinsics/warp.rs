//! Intrinsics in which threads wait for each other: barriers, shuffles, votes, matches and reductions.

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

const FULL: &str = "-1";

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    match parts {
        ["barrier0"] => barrier(body, "0", "0"),
        ["barrier", "sync", "cnt"] | ["barrier"] if signature.parameters.len() == 2 => barrier(body, "%a0", "%a1"),
        ["barrier", "sync"] | ["barrier", "n"] | ["bar", "sync"] => barrier(body, "%a0", "0"),
        // The names from LLVM 21 on. Whether the threads of a warp arrive together makes no difference here.
        ["barrier", "cta", "sync", "aligned", "all"] | ["barrier", "cta", "sync", "all"] => barrier(body, "%a0", "0"),
        ["barrier", "cta", "sync", "aligned", "count"] | ["barrier", "cta", "sync", "count"] => {
            barrier(body, "%a0", "%a1");
        }
        ["barrier", "cta", "red", reduction, "aligned", "all"] | ["barrier", "cta", "red", reduction, "all"] => {
            let vote = body.value("zext i1 %a1 to i32");
            barrier_vote(body, reduction, ("%a0", "0"), &vote, result)?;
        }
        ["barrier", "cta", "red", reduction, "aligned", "count"] | ["barrier", "cta", "red", reduction, "count"] => {
            let vote = body.value("zext i1 %a2 to i32");
            barrier_vote(body, reduction, ("%a0", "%a1"), &vote, result)?;
        }
        ["barrier", "cta", "arrive", "aligned", "count"] | ["barrier", "cta", "arrive", "count"] => {
            body.line("call void @__mneme_cpu_barrier_arrive(i32 %a0, i32 %a1)");
            body.ret("void", "");
        }
        ["barrier0", reduction] => barrier_vote(body, reduction, ("0", "0"), "%a0", result)?,
        ["barrier", "cluster", operation @ ("arrive" | "wait"), ..] => {
            body.line(format_args!("call void @__mneme_cpu_cluster_{operation}()"));
            body.ret("void", "");
        }
        ["bar", "warp", "sync"] => {
            body.line("call void @__mneme_cpu_warp_sync(i32 %a0)");
            body.ret("void", "");
        }
        ["shfl", "sync", mode, kind] => shuffle(mode, kind, "%a0", ["%a1", "%a2", "%a3"], result, body)?,
        ["shfl", mode, kind] => shuffle(mode, kind, FULL, ["%a0", "%a1", "%a2"], result, body)?,
        ["vote", mode, "sync"] => vote(mode, "%a0", "%a1", result, body)?,
        ["vote", mode] => vote(mode, FULL, "%a0", result, body)?,
        ["match", mode, "sync", width] => matched(mode, width, result, body)?,
        ["redux", "sync", kind] => {
            let kind = ["add", "umin", "umax", "min", "max", "and", "or", "xor"].iter().position(|k| k == kind)?;
            let value = body.value(format!("call i32 @__mneme_cpu_redux(i32 {kind}, i32 %a1, i32 %a0)"));
            body.ret(result, value);
        }
        ["activemask"] => {
            let value = body.value("call i32 @__mneme_cpu_activemask()");
            body.ret(result, value);
        }
        // A thread that sleeps usually waits for others.
        ["nanosleep"] => {
            body.line("call void @__mneme_cpu_yield()");
            body.ret("void", "");
            return Some(());
        }
        _ => return None,
    }
    body.collective = true;
    Some(())
}

fn barrier(body: &mut FunctionBody, id: &str, count: &str) {
    body.line(format_args!("call void @__mneme_cpu_barrier(i32 {id}, i32 {count})"));
    body.ret("void", "");
}

fn barrier_vote(
    body: &mut FunctionBody,
    reduction: &str,
    (id, count): (&str, &str),
    vote: &str,
    result: &str,
) -> Option<()> {
    let kind = ["popc", "and", "or"].iter().position(|name| *name == reduction)?;
    let value =
        body.value(format!("call i32 @__mneme_cpu_barrier_vote(i32 {id}, i32 {count}, i32 {kind}, i32 {vote})"));
    let value = if result == "i1" { body.value(format!("icmp ne i32 {value}, 0")) } else { value };
    body.ret(result, value);
    Some(())
}

/// The low half of a 64-bit result, whose bit 32 is the predicate.
fn low_half(body: &mut FunctionBody, pair: &str) -> String {
    body.value(format!("trunc i64 {pair} to i32"))
}

fn predicate(body: &mut FunctionBody, pair: &str) -> String {
    let shifted = body.value(format!("lshr i64 {pair}, 32"));
    body.value(format!("trunc i64 {shifted} to i1"))
}

fn pair_result(body: &mut FunctionBody, result: &str, ty: &str, value: &str, flag: &str) {
    let first = body.value(format!("insertvalue {result} poison, {ty} {value}, 0"));
    let both = body.value(format!("insertvalue {result} {first}, i1 {flag}, 1"));
    body.ret(result, both);
}

fn shuffle(
    mode: &str,
    kind: &str,
    mask: &str,
    operands: [&str; 3],
    result: &str,
    body: &mut FunctionBody,
) -> Option<()> {
    let code = ["idx", "up", "down", "bfly"].iter().position(|name| *name == mode)?;
    let [value, lane, clamp] = operands;
    let (ty, with_predicate) = match kind {
        "i32" => ("i32", false),
        "f32" => ("float", false),
        "i32p" => ("i32", true),
        "f32p" => ("float", true),
        _ => return None,
    };
    let bits = if ty == "float" { body.value(format!("bitcast float {value} to i32")) } else { value.to_owned() };
    let pair = body
        .value(format!("call i64 @__mneme_cpu_shuffle(i32 {code}, i32 {mask}, i32 {bits}, i32 {lane}, i32 {clamp})"));
    let low = low_half(body, &pair);
    let value = if ty == "float" { body.value(format!("bitcast i32 {low} to float")) } else { low };
    if with_predicate {
        let flag = predicate(body, &pair);
        pair_result(body, result, ty, &value, &flag);
    } else {
        body.ret(result, value);
    }
    Some(())
}

fn vote(mode: &str, mask: &str, flag: &str, result: &str, body: &mut FunctionBody) -> Option<()> {
    let code = ["ballot", "any", "all", "uni"].iter().position(|name| *name == mode)?;
    let wide = body.value(format!("zext i1 {flag} to i32"));
    let value = body.value(format!("call i32 @__mneme_cpu_vote(i32 {code}, i32 {mask}, i32 {wide})"));
    let value = if result == "i1" { body.value(format!("icmp ne i32 {value}, 0")) } else { value };
    body.ret(result, value);
    Some(())
}

fn matched(mode: &str, width: &str, result: &str, body: &mut FunctionBody) -> Option<()> {
    let value = if width.starts_with("i32") { body.value("zext i32 %a1 to i64") } else { "%a1".to_owned() };
    match mode {
        "any" => {
            let pair = body.value(format!("call i64 @__mneme_cpu_match(i32 0, i32 %a0, i64 {value})"));
            let low = low_half(body, &pair);
            body.ret(result, low);
        }
        "all" => {
            let pair = body.value(format!("call i64 @__mneme_cpu_match(i32 1, i32 %a0, i64 {value})"));
            let low = low_half(body, &pair);
            let flag = predicate(body, &pair);
            pair_result(body, result, "i32", &low, &flag);
        }
        _ => return None,
    }
    Some(())
}
