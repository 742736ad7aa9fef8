//! Numbers the places where lanes of a warp converge, in the order in which a GPU executes them.
//!
//! Lanes that wait at several places continue at the lowest number first, so they are together again after each branch
//! and each loop. Numbers follow the control flow, with all of a loop before the code after it, as AMD's back end lays
//! out the code of a wave (LLVM's StructurizeCFG). At the end of an iteration that lanes may have finished in different
//! ways, they gather; otherwise some would be at the first place of the next iteration before others are at the last
//! one of this.
//!
//! Places in a function differ with each call of it: calls have numbers too, and lanes remember those of the calls they
//! are inside.

use std::collections::HashSet;

use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetMachine;
use llvm_sys::LLVMTailCallKind;
use llvm_sys::core::*;
use llvm_sys::prelude::*;

use crate::ir::{self, Value, edit};

use super::LowerError;
use super::graph::{ControlFlowGraph, Loop};
use super::lockstep::{CONVERGE, WAVE_CONVERGE};

const SITE: &str = "__mneme_cpu_wave_site";
const ENTER: &str = "__mneme_cpu_wave_enter";
const LEAVE: &str = "__mneme_cpu_wave_leave";
/// The device's functions that get their place from a call of [`SITE`].
const OPERATIONS: [&str; 4] =
    ["__mneme_cpu_activemask", "__mneme_cpu_wave_ballot", "__mneme_cpu_wave_exchange", "__mneme_cpu_wave_permute"];
/// Makes all loops natural loops, each with one latch.
const SIMPLIFY: &str = "function(lower-switch,fix-irreducible,loop-simplify)";

/// How lanes converge at a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meeting {
    /// A gathering. Its number is its operand.
    Gathering,
    Operation,
    /// A call of a function in which lanes converge.
    Call,
}

/// Numbers the operations of warps and the gatherings of lanes, and adds gatherings at the ends of loops.
/// Always-inlined functions must have been inlined before.
pub fn number(module: &Module<'_>, machine: &TargetMachine, is_amdgcn: bool) -> Result<(), LowerError> {
    if meeting_functions(module).is_empty() {
        return Ok(());
    }
    let simplified = module.run_passes(SIMPLIFY, machine, PassBuilderOptions::create());
    simplified.map_err(|message| LowerError::Codegen(message.to_string()))?;
    let functions = meeting_functions(module);
    let calls = Calls::new(module);
    for function in &functions {
        let plan = Plan::of(*function, &functions);
        for (call, meeting, number) in plan.calls {
            match meeting {
                Meeting::Gathering => edit::set_operand(call, 0, calls.constant(number)),
                Meeting::Operation => calls.insert(SITE, Some(number), call.raw()),
                // No instruction may come between such a call and the return.
                Meeting::Call if is_last(call) => {}
                Meeting::Call => {
                    calls.insert(ENTER, Some(number), call.raw());
                    // SAFETY: a call that does not end a block, so an instruction follows it.
                    calls.insert(LEAVE, None, unsafe { LLVMGetNextInstruction(call.raw()) });
                }
            }
        }
        for (block, number) in plan.ends {
            let gathering = if is_amdgcn { WAVE_CONVERGE } else { CONVERGE };
            // SAFETY: a block of the live function, which has a terminator.
            calls.insert(gathering, Some(number), unsafe { LLVMGetBasicBlockTerminator(block) });
        }
    }
    Ok(())
}

/// The functions in which lanes converge, and their callers.
fn meeting_functions<'m>(module: &'m Module<'_>) -> HashSet<Value<'m>> {
    let defined: Vec<_> = ir::functions(module).into_iter().filter(|function| !function.is_declaration()).collect();
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for function in &defined {
            if !found.contains(function)
                && function.instructions().into_iter().any(|instruction| meeting(instruction, &found).is_some())
            {
                found.insert(*function);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn meeting(instruction: Value<'_>, functions: &HashSet<Value<'_>>) -> Option<Meeting> {
    if !instruction.is_call() {
        return None;
    }
    let Some(callee) = instruction.callee() else {
        // An indirect call may reach any function. Remaining assembly calls none.
        let is_assembly = edit::called_value(instruction).and_then(edit::inline_asm).is_some();
        return (!is_assembly && !functions.is_empty()).then_some(Meeting::Call);
    };
    match &*callee.name() {
        CONVERGE | WAVE_CONVERGE => Some(Meeting::Gathering),
        name if OPERATIONS.contains(&name) => Some(Meeting::Operation),
        _ => functions.contains(&callee).then_some(Meeting::Call),
    }
}

/// Whether the function returns right after the call, which is then a jump.
fn is_last(call: Value<'_>) -> bool {
    // SAFETY: a live call.
    unsafe { LLVMGetTailCallKind(call.raw()) == LLVMTailCallKind::LLVMTailCallKindMustTail }
}

/// The numbers of a function's places.
struct Plan<'m> {
    calls: Vec<(Value<'m>, Meeting, u32)>,
    /// Blocks at whose end the lanes of a loop gather.
    ends: Vec<(LLVMBasicBlockRef, u32)>,
}

impl<'m> Plan<'m> {
    fn of(function: Value<'m>, functions: &HashSet<Value<'_>>) -> Self {
        let graph = ControlFlowGraph::of(function);
        let mut meetings: Vec<Vec<(Value<'m>, Meeting)>> = vec![Vec::new(); graph.blocks.len()];
        for instruction in function.instructions() {
            if let Some(meeting) = meeting(instruction, functions) {
                // SAFETY: a live instruction in a block of the function.
                let block = graph.numbers[&unsafe { LLVMGetInstructionParent(instruction.raw()) }];
                meetings[block].push((instruction, meeting));
            }
        }
        let loops = graph.loops();
        let nesting = graph.nesting(&loops);
        let mut plan = Self { calls: Vec::new(), ends: Vec::new() };
        let mut next = 0;
        let mut number = || {
            next += 1;
            next
        };
        let mut open: Vec<usize> = Vec::new();
        let order = graph.in_order(&loops, &nesting);
        for block in order.into_iter().map(Some).chain([None]) {
            let inside = block.map_or(&[][..], |block| &nesting[block]);
            while open.last().is_some_and(|last| !inside.contains(last)) {
                let ended = open.pop().map(|index| &loops[index]);
                if let Some(ended) =
                    ended.filter(|ended| Self::may_part(&graph, ended, open.len(), &nesting, &meetings))
                {
                    // The highest number in the loop.
                    let end = number();
                    plan.ends.extend(ended.latches.iter().map(|latch| (graph.blocks[*latch], end)));
                }
            }
            open.clear();
            open.extend(inside);
            let here = block.map_or(&[][..], |block| &meetings[block]);
            plan.calls.extend(here.iter().map(|(call, meeting)| (*call, *meeting, number())));
        }
        plan
    }

    /// Whether lanes may come to a place of the loop in the next iteration before others have left the places of this
    /// one. They cannot if each lane comes to all of the places in each iteration.
    fn may_part(
        graph: &ControlFlowGraph,
        of: &Loop,
        depth: usize,
        nesting: &[Vec<usize>],
        meetings: &[Vec<(Value<'_>, Meeting)>],
    ) -> bool {
        let mut places = of.body.iter().filter(|block| !meetings[**block].is_empty());
        places.any(|block| nesting[*block].len() != depth + 1 || !graph.is_in_each_round(*block, of))
    }
}

/// A writer of calls to the device's functions.
struct Calls<'m, 'ctx> {
    module: &'m Module<'ctx>,
    builder: LLVMBuilderRef,
}

impl<'m, 'ctx> Calls<'m, 'ctx> {
    fn new(module: &'m Module<'ctx>) -> Self {
        // SAFETY: a builder of the module's context, disposed of below.
        Self { module, builder: unsafe { LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr())) } }
    }

    fn int(&self) -> LLVMTypeRef {
        // SAFETY: the context is alive.
        unsafe { LLVMInt32TypeInContext(LLVMGetModuleContext(self.module.as_mut_ptr())) }
    }

    fn constant(&self, number: u32) -> Value<'m> {
        // SAFETY: a constant of the module's context, never null.
        unsafe { Value::new(LLVMConstInt(self.int(), u64::from(number), 0)).expect("a constant") }
    }

    /// Inserts a call of `name`, with or without a number, before a live instruction.
    fn insert(&self, name: &str, number: Option<u32>, before: LLVMValueRef) {
        let mut parameters: Vec<LLVMTypeRef> = number.iter().map(|_| self.int()).collect();
        let mut arguments: Vec<LLVMValueRef> = number.iter().map(|number| self.constant(*number).raw()).collect();
        let count = arguments.len() as u32;
        // SAFETY: types and values belong to the module's context. Callers pass live instructions of the module.
        unsafe {
            let void = LLVMVoidTypeInContext(LLVMGetModuleContext(self.module.as_mut_ptr()));
            let ty = LLVMFunctionType(void, parameters.as_mut_ptr(), count, 0);
            let function = edit::declare(self.module, name, ty);
            LLVMPositionBuilderBefore(self.builder, before);
            LLVMBuildCall2(self.builder, ty, function.raw(), arguments.as_mut_ptr(), count, c"".as_ptr());
        }
    }
}

impl Drop for Calls<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: created in `new`, not used elsewhere.
        unsafe { LLVMDisposeBuilder(self.builder) };
    }
}
