//! Makes loops yield that wait for other threads to write to memory.
//!
//! Such loops are the program's own locks, flags and barriers.
//!
//! On a GPU, all threads of the resident blocks make progress. The CPU device runs them in turns, so a waiting thread
//! has to yield. A loop may wait if it contains a volatile or atomic access or a fence, and its end depends on memory.
//! Such a loop counts its iterations down and yields at zero. A loop that counts to a known bound, as in a histogram,
//! does not change.

use std::collections::HashSet;

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::{LLVMAtomicCmpXchg, LLVMAtomicRMW, LLVMCall, LLVMFence, LLVMLoad, LLVMStore};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMAtomicOrdering, LLVMLinkage};

use crate::ir::{self, Value};

use super::graph::{ControlFlowGraph, Loop};
use super::{LowerError, emit};
use crate::ir::edit;

const POLL: &str = "__mneme_cpu.poll";

/// Iterations of a loop in its first turn: enough to pay for the stack on which the next thread begins.
const FIRST: u64 = 4096;

/// The code that a loop that may wait runs in each iteration. Later turns are short, because waiting is then likely.
const DEFINITION: &str = r#"
declare void @__mneme_cpu_yield()

define void @__mneme_cpu.poll(ptr %left) alwaysinline nounwind {
  %count = load i32, ptr %left, align 4
  %less = sub i32 %count, 1
  store i32 %less, ptr %left, align 4
  %due = icmp eq i32 %less, 0
  br i1 %due, label %yield, label %on, !prof !0
yield:
  call void @__mneme_cpu_yield()
  store i32 256, ptr %left, align 4
  br label %on
on:
  ret void
}
!0 = !{!"branch_weights", i32 1, i32 4096}
"#;

/// Makes loops that may wait yield. Always-inlined functions must have been inlined, so accesses are visible in the
/// loops.
pub fn insert(module: &Module<'_>) -> Result<(), LowerError> {
    let communicating = communicating(module);
    let defined = ir::functions(module).into_iter().filter(|function| !function.is_declaration());
    let loops: Vec<(Value<'_>, WaitingLoop)> = defined
        .flat_map(|function| waiting_loops(function, &communicating).into_iter().map(move |found| (function, found)))
        .collect();
    if loops.is_empty() {
        return Ok(());
    }
    emit::link(module, DEFINITION)?;
    let poll = ir::function(module, POLL).ok_or_else(|| LowerError::Runtime(format!("{POLL} is not there")))?;
    for (function, found) in loops {
        // SAFETY: the blocks belong to the live function. Every block has a terminator, and the builder is disposed of.
        unsafe {
            let context = LLVMGetModuleContext(module.as_mut_ptr());
            let int = LLVMInt32TypeInContext(context);
            let builder = LLVMCreateBuilderInContext(context);
            let entry = LLVMGetEntryBasicBlock(function.raw());
            LLVMPositionBuilderBefore(builder, LLVMGetFirstInstruction(entry));
            let left = LLVMBuildAlloca(builder, int, c"left".as_ptr());
            for block in found.before {
                LLVMPositionBuilderBefore(builder, LLVMGetBasicBlockTerminator(block));
                LLVMBuildStore(builder, LLVMConstInt(int, FIRST, 0), left);
            }
            for latch in found.latches {
                LLVMPositionBuilderBefore(builder, LLVMGetBasicBlockTerminator(latch));
                let mut arguments = [left];
                LLVMBuildCall2(builder, poll.content_type(), poll.raw(), arguments.as_mut_ptr(), 1, c"".as_ptr());
            }
            LLVMDisposeBuilder(builder);
        }
    }
    poll.set_linkage(LLVMLinkage::LLVMInternalLinkage);
    Ok(())
}

/// The functions that may learn, themselves or through others, what other threads wrote.
fn communicating<'m>(module: &'m Module<'_>) -> HashSet<Value<'m>> {
    let functions = ir::functions(module);
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for function in &functions {
            if !found.contains(function)
                && function.instructions().into_iter().any(|instruction| communicates(instruction, &found))
            {
                found.insert(*function);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn communicates(instruction: Value<'_>, communicating: &HashSet<Value<'_>>) -> bool {
    match edit::opcode(instruction) {
        LLVMAtomicRMW | LLVMAtomicCmpXchg | LLVMFence => true,
        // SAFETY: a live load or store.
        LLVMLoad | LLVMStore => unsafe {
            LLVMGetVolatile(instruction.raw()) != 0
                || LLVMGetOrdering(instruction.raw()) != LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic
        },
        LLVMCall => match instruction.callee() {
            Some(callee) => communicating.contains(&callee),
            // An indirect call may reach any function. Remaining assembly has no instructions.
            None => edit::called_value(instruction).and_then(edit::inline_asm).is_none(),
        },
        _ => false,
    }
}

/// The entries and latches of a loop that may wait.
struct WaitingLoop {
    before: Vec<LLVMBasicBlockRef>,
    latches: Vec<LLVMBasicBlockRef>,
}

fn waiting_loops(function: Value<'_>, communicating: &HashSet<Value<'_>>) -> Vec<WaitingLoop> {
    let graph = ControlFlowGraph::of(function);
    let mut loops = Vec::new();
    for Loop { header, latches, body } in graph.loops() {
        let instructions = || body.iter().flat_map(|block| instructions(graph.blocks[*block]));
        if instructions().any(|instruction| communicates(instruction, communicating))
            && depends_on_memory(&graph, &body)
        {
            let before = graph.predecessors[header].iter().filter(|block| !latches.contains(block));
            loops.push(WaitingLoop {
                before: before.map(|block| graph.blocks[*block]).collect(),
                latches: latches.iter().map(|block| graph.blocks[*block]).collect(),
            });
        }
    }
    loops
}

fn instructions<'m>(block: LLVMBasicBlockRef) -> impl Iterator<Item = Value<'m>> {
    // SAFETY: a live block, whose list is walked before any insertion.
    unsafe {
        std::iter::successors(Value::new(LLVMGetFirstInstruction(block)), |instruction| {
            Value::new(LLVMGetNextInstruction(instruction.raw()))
        })
    }
}

/// Whether values that the loop reads from memory decide about its end. True for an endless loop.
fn depends_on_memory(graph: &ControlFlowGraph, body: &HashSet<usize>) -> bool {
    let leaves = |block: &&usize| graph.successors[**block].iter().any(|to| !body.contains(to));
    let mut pending: Vec<Value<'_>> = body.iter().filter(leaves).flat_map(|block| condition(graph, *block)).collect();
    let mut seen = HashSet::new();
    let mut branches_seen = false;
    let endless = !body.iter().any(|block| leaves(&block));
    while let Some(value) = pending.pop() {
        let Some(instruction) = value.as_instruction().filter(|instruction| is_in(graph, *instruction, body)) else {
            continue;
        };
        if !seen.insert(instruction) {
            continue;
        }
        match edit::opcode(instruction) {
            LLVMLoad | LLVMAtomicRMW | LLVMAtomicCmpXchg => return true,
            LLVMCall if !instruction.callee().is_some_and(|callee| is_pure(&callee.name())) => return true,
            _ => {}
        }
        // Where paths of the loop join, the branches before decide which value arrives.
        if edit::is_phi(instruction) && !branches_seen && joins(graph, instruction, body) {
            branches_seen = true;
            pending.extend(body.iter().flat_map(|block| condition(graph, *block)));
        }
        pending.extend(instruction.operands());
    }
    endless
}

/// The condition of the branch at the end of a block.
fn condition(graph: &ControlFlowGraph, block: usize) -> Option<Value<'static>> {
    // SAFETY: the terminator of a live block. A conditional branch or a switch has its condition first.
    unsafe {
        let terminator = LLVMGetBasicBlockTerminator(graph.blocks[block]);
        if LLVMGetNumSuccessors(terminator) < 2 { None } else { Value::new(LLVMGetOperand(terminator, 0)) }
    }
}

fn is_in(graph: &ControlFlowGraph, instruction: Value<'_>, body: &HashSet<usize>) -> bool {
    // SAFETY: a live instruction in a block.
    let block = unsafe { LLVMGetInstructionParent(instruction.raw()) };
    graph.numbers.get(&block).is_some_and(|number| body.contains(number))
}

fn joins(graph: &ControlFlowGraph, phi: Value<'_>, body: &HashSet<usize>) -> bool {
    // SAFETY: a live phi, and indices below its count.
    let incoming = unsafe { (0..LLVMCountIncoming(phi.raw())).map(|index| LLVMGetIncomingBlock(phi.raw(), index)) };
    incoming.filter(|block| graph.numbers.get(block).is_some_and(|number| body.contains(number))).count() > 1
}

/// Whether a function's result does not depend on memory.
fn is_pure(name: &str) -> bool {
    ["__mneme_cpu_thread", "__mneme_cpu_implicit_arguments", "__mneme_cpu_dispatch_packet"].contains(&name)
        || (name.starts_with("llvm.") && !name.starts_with("llvm.masked") && !name.starts_with("llvm.mem"))
}
