//! Operations of the lanes of a wave together: ballots, exchanges, and barriers of the work-group.

use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    let operand = || Some((signature.parameters.first()?.as_str(), "%a0"));
    match parts {
        ["s", "barrier"] => {
            body.line("call void @__mneme_cpu_barrier(i32 0, i32 0)");
            body.ret("void", "");
        }
        // All lanes at the barrier have done everything before it.
        ["wave", "barrier"] => {
            body.value("call i64 @__mneme_cpu.ballot(i32 1)");
            body.ret("void", "");
        }
        ["ballot", _] => {
            let predicate = body.value("zext i1 %a0 to i32");
            ballot(&predicate, result, body)?;
        }
        [kind @ ("icmp" | "fcmp"), ..] => {
            let ty = signature.parameters.first()?;
            let chosen = compare(kind, ty, body);
            ballot(&chosen, result, body)?;
        }
        ["readfirstlane", ..] => {
            let first = body.value("call i32 @__mneme_cpu.first_lane()");
            by_word(result, &[operand()?], body, |body, words| {
                low(body, format!("call i64 @__mneme_cpu.exchange(i32 {}, i32 {first})", words[0]))
            })?;
        }
        ["readlane", ..] => by_word(result, &[operand()?], body, |body, words| {
            body.value(format!("call i32 @__mneme_cpu.read_lane(i32 {}, i32 %a1)", words[0]))
        })?,
        ["writelane", ..] => {
            let own = body.value("call i32 @__mneme_cpu.context(i64 48)");
            let chosen = body.value(format!("icmp eq i32 {own}, %a1"));
            let value = body.value(format!("select i1 {chosen}, {result} %a0, {result} %a2"));
            body.ret(result, value);
            return Some(());
        }
        ["ds", "bpermute"] => {
            let value = body.value("call i32 @__mneme_cpu.bpermute(i32 %a0, i32 %a1)");
            body.ret(result, value);
        }
        ["ds", "permute"] => {
            let value = body.value("call i32 @__mneme_cpu.permute_lanes(i32 %a0, i32 %a1)");
            body.ret(result, value);
        }
        ["ds", "swizzle"] => {
            let value = body.value("call i32 @__mneme_cpu.swizzle(i32 %a0, i32 %a1)");
            body.ret(result, value);
        }
        // Lanes that receive nothing have an undefined value.
        ["mov", "dpp", ..] => by_word(result, &[operand()?], body, |body, words| {
            body.value(format!("call i32 @__mneme_cpu.dpp(i32 0, i32 {}, i32 %a1, i32 %a2, i32 %a3, i1 %a4)", words[0]))
        })?,
        ["update", "dpp", ..] => by_word(result, &[operand()?, (result, "%a1")], body, |body, words| {
            let [old, value] = words else { return String::new() };
            body.value(format!("call i32 @__mneme_cpu.dpp(i32 {old}, i32 {value}, i32 %a2, i32 %a3, i32 %a4, i1 %a5)"))
        })?,
        ["mov", "dpp8", ..] => by_word(result, &[operand()?], body, |body, words| {
            body.value(format!("call i32 @__mneme_cpu.dpp8(i32 {}, i32 %a1)", words[0]))
        })?,
        [kind @ ("permlane16" | "permlanex16"), ..] => {
            let other = if *kind == "permlanex16" { 16 } else { 0 };
            by_word(result, &[operand()?, (result, "%a1")], body, |body, words| {
                let [old, value] = words else { return String::new() };
                body.value(format!(
                    "call i32 @__mneme_cpu.permlane(i32 {old}, i32 {value}, i32 %a2, i32 %a3, i32 {other}, i1 %a5)"
                ))
            })?;
        }
        ["permlane64", ..] => {
            let own = body.value("call i32 @__mneme_cpu.context(i64 48)");
            let other = body.value(format!("xor i32 {own}, 32"));
            by_word(result, &[operand()?], body, |body, words| {
                low(body, format!("call i64 @__mneme_cpu.exchange(i32 {}, i32 {other})", words[0]))
            })?;
        }
        ["mbcnt", half @ ("lo" | "hi")] => {
            let value = body.value(format!("call i32 @__mneme_cpu.mbcnt_{half}(i32 %a0, i32 %a1)"));
            body.ret(result, value);
            return Some(());
        }
        ["inverse", "ballot", _] => {
            let mask = body.value(format!("zext {} %a0 to i64", signature.parameters.first()?));
            let mask = if signature.parameters[0] == "i64" { "%a0".to_owned() } else { mask };
            let own = body.value("call i32 @__mneme_cpu.context(i64 48)");
            let own = body.value(format!("zext i32 {own} to i64"));
            let moved = body.value(format!("lshr i64 {mask}, {own}"));
            let value = body.value(format!("trunc i64 {moved} to i1"));
            body.ret(result, value);
            return Some(());
        }
        // A thread that sleeps usually waits for others.
        ["s", "sleep"] => {
            body.line("call void @__mneme_cpu_yield()");
            body.ret("void", "");
            return Some(());
        }
        // Scheduling hints have no effect, and accesses complete at once.
        ["s", "waitcnt" | "setprio" | "nop"]
        | ["s", "wait", ..]
        | ["sched", "barrier"]
        | ["sched", "group", "barrier"]
        | ["iglp", "opt"] => {
            body.ret("void", "");
            return Some(());
        }
        _ => return None,
    }
    body.collective = true;
    Some(())
}

/// The active lanes of the wave, for reads of a register that contains them.
pub fn active_lanes(register: &str, result: &str) -> Option<FunctionBody> {
    let mut body = FunctionBody::default();
    let mask = body.value("call i64 @__mneme_cpu.ballot(i32 1)");
    let mask = match (register, result) {
        ("exec", "i64") => mask,
        ("exec" | "exec_lo", "i32") => body.value(format!("trunc i64 {mask} to i32")),
        ("exec_hi", "i32") => {
            let high = body.value(format!("lshr i64 {mask}, 32"));
            body.value(format!("trunc i64 {high} to i32"))
        }
        _ => return None,
    };
    body.ret(result, mask);
    body.collective = true;
    Some(body)
}

fn ballot(predicate: &str, result: &str, body: &mut FunctionBody) -> Option<()> {
    let mask = body.value(format!("call i64 @__mneme_cpu.ballot(i32 {predicate})"));
    let mask = match result {
        "i64" => mask,
        "i32" => body.value(format!("trunc i64 {mask} to i32")),
        _ => return None,
    };
    body.ret(result, mask);
    Some(())
}

/// Compares `%a0` and `%a1` by the predicate `%a2`, which is a constant at each call.
fn compare(kind: &str, ty: &str, body: &mut FunctionBody) -> String {
    let (first, names): (u32, &[&str]) = match kind {
        "icmp" => (32, &["eq", "ne", "ugt", "uge", "ult", "ule", "sgt", "sge", "slt", "sle"]),
        _ => (
            0,
            &[
                "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "uno", "ueq", "ugt", "uge", "ult", "ule",
                "une", "true",
            ],
        ),
    };
    let mut chosen = "false".to_owned();
    for (number, name) in (first..).zip(names) {
        let holds = body.value(format!("{kind} {name} {ty} %a0, %a1"));
        let asked = body.value(format!("icmp eq i32 %a2, {number}"));
        chosen = body.value(format!("select i1 {asked}, i1 {holds}, i1 {chosen}"));
    }
    body.value(format!("zext i1 {chosen} to i32"))
}

fn low(body: &mut FunctionBody, call: String) -> String {
    let pair = body.value(call);
    body.value(format!("trunc i64 {pair} to i32"))
}

/// Returns the result of `operation` on the operands, 32 bits at a time.
fn by_word(
    result: &str,
    operands: &[(&str, &str)],
    body: &mut FunctionBody,
    mut operation: impl FnMut(&mut FunctionBody, &[String]) -> String,
) -> Option<()> {
    let bits = width(result)?;
    let count = bits.div_ceil(32);
    let whole = format!("i{}", 32 * count);
    let mut wide = Vec::new();
    for (ty, value) in operands {
        if width(ty)? != bits {
            return None;
        }
        let integer = format!("i{bits}");
        let value = match *ty {
            ty if ty == integer => (*value).to_owned(),
            ty if ty.starts_with("ptr") => body.value(format!("ptrtoint {ty} {value} to {integer}")),
            ty => body.value(format!("bitcast {ty} {value} to {integer}")),
        };
        wide.push(if integer == whole { value } else { body.value(format!("zext {integer} {value} to {whole}")) });
    }
    let mut joined = "0".to_owned();
    for index in 0..count {
        let words: Vec<String> = wide
            .iter()
            .map(|value| {
                if count == 1 {
                    return value.clone();
                }
                let moved = body.value(format!("lshr {whole} {value}, {}", 32 * index));
                body.value(format!("trunc {whole} {moved} to i32"))
            })
            .collect();
        let word = operation(body, &words);
        joined = if count == 1 {
            word
        } else {
            let word = body.value(format!("zext i32 {word} to {whole}"));
            let placed = body.value(format!("shl {whole} {word}, {}", 32 * index));
            body.value(format!("or {whole} {joined}, {placed}"))
        };
    }
    let integer = format!("i{bits}");
    let narrow = if integer == whole { joined } else { body.value(format!("trunc {whole} {joined} to {integer}")) };
    let value = match result {
        ty if ty == integer => narrow,
        ty if ty.starts_with("ptr") => body.value(format!("inttoptr {integer} {narrow} to {ty}")),
        ty => body.value(format!("bitcast {integer} {narrow} to {ty}")),
    };
    body.ret(result, value);
    Some(())
}

/// The bits of a type.
fn width(ty: &str) -> Option<u32> {
    if let Some(vector) = ty.strip_prefix('<') {
        let (count, element) = vector.strip_suffix('>')?.split_once(" x ")?;
        return Some(count.parse::<u32>().ok()? * width(element)?);
    }
    match ty {
        "half" | "bfloat" => Some(16),
        "float" => Some(32),
        "double" => Some(64),
        _ if ty.starts_with("ptr") => Some(64),
        _ => ty.strip_prefix('i')?.parse().ok(),
    }
}
