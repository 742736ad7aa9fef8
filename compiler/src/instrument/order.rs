//! The order of accesses of a block's threads, as far as instructions define one.

use std::collections::{HashMap, HashSet};

use llvm_sys::LLVMOpcode::*;
use llvm_sys::core::*;
use llvm_sys::prelude::LLVMBasicBlockRef;
use mneme_model::architecture::Vendor;

use super::emitter;
use super::target;
use crate::ir::{Value, edit};

/// The threads whose accesses an instruction orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadOrder {
    /// All threads of the block.
    Block,
    /// Lanes of a warp.
    Warp,
    /// Unknown threads.
    Unknown,
}

/// Words in inline PTX after which the order of threads is unknown.
const PTX_ORDER: &[&str] = &[
    "bar", "fence", "membar", "atom", "red", "shfl", "vote", "match", "elect", ".acquire", ".release", ".volatile",
    "exit",
];
/// AMD GPU instructions that do not order accesses.
const IDLE: [&str; 2] = ["s_nop", "s_waitcnt"];

/// NVIDIA intrinsics, without `llvm.nvvm.`, at which all threads of a block wait for one another.
const NVIDIA_BLOCK: [&str; 15] = [
    "barrier0", "barrier0.popc", "barrier0.and", "barrier0.or", "barrier.sync", "bar.sync", "barrier.n",
    // Their names from LLVM 21 on.
    "barrier.cta.sync.all", "barrier.cta.sync.aligned.all", "barrier.cta.red.popc.all",
    "barrier.cta.red.popc.aligned.all", "barrier.cta.red.and.all", "barrier.cta.red.and.aligned.all",
    "barrier.cta.red.or.all", "barrier.cta.red.or.aligned.all",
];
/// Prefixes of NVIDIA intrinsics that synchronise lanes of a warp or order accesses in another way.
const NVIDIA_WARP: &[&str] = &["bar.warp.sync", "shfl.", "vote.", "match.", "redux."];
const NVIDIA_UNKNOWN: &[&str] = &[
    "bar", "membar", "fence", "mbarrier", "cp.async.wait", "cp.async.bulk.wait", "activemask", "nanosleep", "atomic.",
];

/// The same for AMD GPUs, without `llvm.amdgcn.`.
const AMD_BLOCK: [&str; 1] = ["s.barrier"];
const AMD_WARP: &[&str] = &[
    "wave.barrier", "wave.reduce.", "ballot", "icmp.", "fcmp.", "readlane", "readfirstlane", "ds.permute",
    "ds.bpermute", "ds.swizzle", "update.dpp", "mov.dpp", "permlane",
];
const AMD_UNKNOWN: &[&str] = &[
    "s.barrier", "s.sleep", "ds.append", "ds.consume", "ds.gws", "ds.ordered", "strict.", "wqm", "wwm", "softwqm",
    "set.inactive",
];

/// The instructions of a function that order accesses.
pub fn of<'m>(vendor: Vendor, function: Value<'m>) -> HashMap<Value<'m>, ThreadOrder> {
    let mut found: HashMap<Value<'m>, ThreadOrder> = function
        .instructions()
        .into_iter()
        .filter_map(|instruction| Some((instruction, order(vendor, instruction)?)))
        .collect();
    // AMD's front end writes a barrier as three instructions, two of which are fences.
    if vendor == Vendor::Amd {
        let parts = parts_of_barriers(function, &found);
        found.retain(|instruction, _| !parts.contains(instruction));
    }
    found
}

fn order(vendor: Vendor, instruction: Value<'_>) -> Option<ThreadOrder> {
    if instruction.opcode() == LLVMFence {
        return Some(ThreadOrder::Unknown);
    }
    let callee = instruction.is_call().then(|| edit::called_value(instruction)).flatten()?;
    if let Some((text, _)) = edit::inline_asm(callee) {
        let orders = match vendor {
            Vendor::Nvidia => PTX_ORDER.iter().any(|word| text.contains(word)),
            Vendor::Amd => target::instructions(&text).any(|code| !IDLE.iter().any(|idle| code.starts_with(idle))),
        };
        return orders.then_some(ThreadOrder::Unknown);
    }
    let name = callee.name();
    let (name, block, warp, unknown) = if let Some(name) = name.strip_prefix("llvm.nvvm.") {
        (name, &NVIDIA_BLOCK[..], NVIDIA_WARP, NVIDIA_UNKNOWN)
    } else {
        (name.strip_prefix("llvm.amdgcn.")?, &AMD_BLOCK[..], AMD_WARP, AMD_UNKNOWN)
    };
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match name {
        _ if block.contains(&name) => Some(ThreadOrder::Block),
        _ if begins(warp) => Some(ThreadOrder::Warp),
        _ if begins(unknown) => Some(ThreadOrder::Unknown),
        _ => None,
    }
}

/// Fences next to a barrier, with no access to shared or global memory in between: those around a barrier of the block,
/// and those of a wave around a barrier of the wave. The barrier already orders all that they order.
fn parts_of_barriers<'m>(function: Value<'m>, orders: &HashMap<Value<'m>, ThreadOrder>) -> HashSet<Value<'m>> {
    let graph = Graph::of(function);
    function
        .instructions()
        .into_iter()
        .filter(|fence| fence.opcode() == LLVMFence)
        .filter(|fence| {
            let ends = |instruction: Value<'m>| match orders.get(&instruction) {
                Some(ThreadOrder::Block) => true,
                Some(ThreadOrder::Warp) => is_wave_barrier(instruction) && is_of_wave(*fence),
                _ => false,
            };
            graph.meets(*fence, Direction::Forward, &ends) || graph.meets(*fence, Direction::Backward, &ends)
        })
        .collect()
}

fn is_wave_barrier(call: Value<'_>) -> bool {
    call.callee().is_some_and(|callee| Some(&*callee.name()) == target::meeting(Vendor::Amd))
}

/// Whether a fence applies only to the lanes of a wave. LLVM 19's C interface does not provide this.
fn is_of_wave(fence: Value<'_>) -> bool {
    edit::text(fence).contains("syncscope(\"wavefront")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The control-flow graph of a function's blocks.
struct Graph<'m> {
    blocks: HashMap<LLVMBasicBlockRef, Vec<Value<'m>>>,
    successors: HashMap<LLVMBasicBlockRef, Vec<LLVMBasicBlockRef>>,
    predecessors: HashMap<LLVMBasicBlockRef, Vec<LLVMBasicBlockRef>>,
}

fn block_of(instruction: Value<'_>) -> LLVMBasicBlockRef {
    // SAFETY: a live instruction is in a block.
    unsafe { LLVMGetInstructionParent(instruction.raw()) }
}

impl<'m> Graph<'m> {
    fn of(function: Value<'m>) -> Self {
        let mut graph = Self { blocks: HashMap::new(), successors: HashMap::new(), predecessors: HashMap::new() };
        for instruction in function.instructions() {
            graph.blocks.entry(block_of(instruction)).or_default().push(instruction);
        }
        for block in graph.blocks.keys() {
            // SAFETY: a block of a valid function has a terminator; indices are below its number of successors.
            let next: Vec<LLVMBasicBlockRef> = unsafe {
                let end = LLVMGetBasicBlockTerminator(*block);
                (0..LLVMGetNumSuccessors(end)).map(|index| LLVMGetSuccessor(end, index)).collect()
            };
            for successor in &next {
                graph.predecessors.entry(*successor).or_default().push(*block);
            }
            graph.successors.insert(*block, next);
        }
        graph
    }

    /// Whether every path from an instruction reaches one that `ends` it before any access to memory that other threads
    /// see.
    fn meets(&self, from: Value<'m>, direction: Direction, ends: &dyn Fn(Value<'m>) -> bool) -> bool {
        let start = block_of(from);
        let ordered = |block: &LLVMBasicBlockRef| -> Vec<Value<'m>> {
            let instructions = self.blocks[block].iter().copied();
            if direction == Direction::Forward { instructions.collect() } else { instructions.rev().collect() }
        };
        let rest = ordered(&start).into_iter().skip_while(|instruction| *instruction != from).skip(1).collect();
        let mut pending: Vec<(LLVMBasicBlockRef, Vec<Value<'m>>)> = vec![(start, rest)];
        let mut seen = HashSet::new();
        while let Some((block, instructions)) = pending.pop() {
            match instructions.into_iter().find(|instruction| ends(*instruction) || is_seen(*instruction)) {
                Some(instruction) if ends(instruction) => {}
                Some(_) => return false,
                None => {
                    let edges = if direction == Direction::Forward { &self.successors } else { &self.predecessors };
                    let next = edges.get(&block).map_or(&[][..], Vec::as_slice);
                    if next.is_empty() {
                        return false;
                    }
                    let new = next.iter().filter(|block| seen.insert(**block));
                    pending.extend(new.map(|block| (*block, ordered(block))));
                }
            }
        }
        true
    }
}

/// Whether an instruction may access memory that other threads see.
fn is_seen(instruction: Value<'_>) -> bool {
    let pointer = match instruction.opcode() {
        LLVMLoad => instruction.operands()[0],
        LLVMStore => instruction.operands()[1],
        LLVMAtomicRMW | LLVMAtomicCmpXchg | LLVMInvoke | LLVMCallBr | LLVMVAArg => return true,
        LLVMCall => {
            const NOTHING: [&str; 3] = ["llvm.lifetime.", "llvm.dbg.", "llvm.assume"];
            let name = instruction.callee().map(Value::name).unwrap_or_default();
            return !NOTHING.iter().any(|start| name.starts_with(start));
        }
        _ => return false,
    };
    emitter::space(pointer) != target::LOCAL
}
