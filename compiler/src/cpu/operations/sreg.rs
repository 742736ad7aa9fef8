//! Special registers: `llvm.nvvm.read.ptx.sreg.*`.

use super::text::{FunctionBody, FunctionSignature};

/// Offsets in the thread context (docs/reference/cpu-code-objects.md).
const LANE: u32 = 48;
const WARP: u32 = 52;
const CLUSTER: u32 = 72;
const EXPLICIT_CLUSTER: u32 = 84;
pub const THREAD_IDS: [(&str, u32); 4] = [("tid", 0), ("ntid", 12), ("ctaid", 24), ("nctaid", 36)];

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let register = match parts {
        ["read", "ptx", "sreg", register @ ..] => register,
        ["is_explicit_cluster"] => parts,
        _ => return None,
    };
    let result = signature.result.as_str();
    let value = read(register, body)?;
    let value = match (result, value) {
        (_, Word::Narrow(value)) if result == "i32" => value,
        (_, Word::Narrow(value)) if result == "i64" => body.value(format!("zext i32 {value} to i64")),
        (_, Word::Narrow(value)) if result == "i1" => body.value(format!("trunc i32 {value} to i1")),
        (_, Word::Wide(value)) if result == "i64" => value,
        (_, Word::Wide(value)) if result == "i32" => body.value(format!("trunc i64 {value} to i32")),
        _ => return None,
    };
    body.ret(result, value);
    Some(())
}

/// A register's value, 32 or 64 bits wide.
pub enum Word {
    Narrow(String),
    Wide(String),
}

fn context(body: &mut FunctionBody, offset: u32) -> Word {
    Word::Narrow(body.value(format!("call i32 @__mneme_cpu.context(i64 {offset})")))
}

fn component(axis: &str) -> Option<u32> {
    ["x", "y", "z"].iter().position(|name| *name == axis).map(|index| index as u32)
}

/// A block index or count divided by the cluster's extent, or the remainder.
fn in_cluster(operation: &str, vector: &str, axis: &str, body: &mut FunctionBody) -> Option<Word> {
    let base = THREAD_IDS.iter().find(|(name, _)| *name == vector)?.1;
    let Word::Narrow(blocks) = context(body, base + 4 * component(axis)?) else { return None };
    let Word::Narrow(extent) = context(body, CLUSTER + 4 * component(axis)?) else { return None };
    Some(Word::Narrow(body.value(format!("{operation} i32 {blocks}, {extent}"))))
}

/// Reads a special register by the parts of its name without the `%`.
pub fn read(register: &[&str], body: &mut FunctionBody) -> Option<Word> {
    let constant = |value: u32| Some(Word::Narrow(value.to_string()));
    match register {
        // PTX: the fourth component is always zero.
        [vector, "w"] if THREAD_IDS.iter().any(|(name, _)| name == vector) => constant(0),
        ["clusterid" | "nclusterid", "w"] | ["cluster", "ctaid" | "nctaid", "w"] => constant(0),
        ["clusterid", axis] => in_cluster("udiv", "ctaid", axis, body),
        ["nclusterid", axis] => in_cluster("udiv", "nctaid", axis, body),
        ["cluster", "ctaid", axis] => in_cluster("urem", "ctaid", axis, body),
        ["cluster", "nctaid", axis] => Some(context(body, CLUSTER + 4 * component(axis)?)),
        ["cluster", "ctarank"] => Some(Word::Narrow(body.value("call i32 @__mneme_cpu.cluster_rank()"))),
        ["cluster", "nctarank"] => Some(Word::Narrow(body.value("call i32 @__mneme_cpu.cluster_blocks()"))),
        ["is_explicit_cluster"] => Some(context(body, EXPLICIT_CLUSTER)),
        [vector, axis] if THREAD_IDS.iter().any(|(name, _)| name == vector) => {
            let base = THREAD_IDS.iter().find(|(name, _)| name == vector)?.1;
            Some(context(body, base + 4 * component(axis)?))
        }
        ["laneid"] => Some(context(body, LANE)),
        ["warpid"] => Some(context(body, WARP)),
        ["dynamic_smem_size"] => Some(context(body, 56)),
        ["total_smem_size"] => Some(context(body, 60)),
        ["warpsize"] => constant(32),
        // Blocks have at most 1024 threads; there is one multiprocessor and one grid.
        ["nwarpid"] => constant(32),
        ["nsmid"] => constant(1),
        ["smid" | "gridid" | "pm0" | "pm1" | "pm2" | "pm3"] => constant(0),
        // The driver's workspace of cooperative launches, in which their blocks wait for each other.
        [half @ ("envreg1" | "envreg2")] => {
            let address = body.value("call i64 @__mneme_cpu_grid_workspace()");
            let word = match *half {
                "envreg1" => body.value(format!("lshr i64 {address}, 32")),
                _ => address,
            };
            Some(Word::Narrow(body.value(format!("trunc i64 {word} to i32"))))
        }
        ["clock" | "clock64" | "globaltimer"] => Some(Word::Wide(body.value("call i64 @__mneme_cpu_clock()"))),
        ["lanemask", relation] => {
            let Word::Narrow(lane) = context(body, LANE) else { return None };
            let own = body.value(format!("shl i32 1, {lane}"));
            let below = body.value(format!("sub i32 {own}, 1"));
            Some(Word::Narrow(match *relation {
                "eq" => own,
                "lt" => below,
                "le" => body.value(format!("or i32 {below}, {own}")),
                "ge" => body.value(format!("xor i32 {below}, -1")),
                "gt" => {
                    let through = body.value(format!("or i32 {below}, {own}"));
                    body.value(format!("xor i32 {through}, -1"))
                }
                _ => return None,
            }))
        }
        _ => None,
    }
}
