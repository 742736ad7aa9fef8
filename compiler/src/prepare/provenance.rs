//! The provenance of a kernel's pointers.
//!
//! An allocation into which only one parameter points is reachable only through that parameter if the kernel gets no
//! pointer from elsewhere: it loads none from memory, converts none from a number, and receives none from code outside
//! the module.

use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetMachine;
use llvm_sys::core::{LLVMCountStructElementTypes, LLVMGetElementType, LLVMGetTypeKind, LLVMStructGetTypeAtIndex};
use llvm_sys::prelude::LLVMTypeRef;
use llvm_sys::{LLVMOpcode, LLVMTypeKind};

use crate::instrument::objects::LAUNCH;
use crate::ir::{self, Value, attributes, reach};

/// Moves local variables to registers, across calls, because the front end's code keeps every pointer in memory.
/// Pointers to AMD's global memory become generic by way of an integer until their address space is inferred.
const SIMPLIFY: &str = "function(sroa),always-inline,inline,\
     function(infer-address-spaces,sroa,infer-address-spaces,early-cse)";

/// Whether all pointers of the kernel come from its parameters (pointers, and those in aggregates passed by value),
/// from variables, and from its own local memory. Examines a simplified copy and leaves the module unchanged.
pub fn is_closed(module: &Module<'_>, kernel: &str, machine: &TargetMachine) -> bool {
    let copy = module.clone();
    if copy.run_passes(SIMPLIFY, machine, PassBuilderOptions::create()).is_err() {
        return false;
    }
    let Some(kernel) = ir::function(&copy, kernel) else { return false };
    let reached = reach::closure([kernel]);
    let mut functions = reached.iter().filter(|value| value.as_function().is_some() && !value.is_declaration());
    functions.all(|function| function.instructions().into_iter().all(|instruction| harmless(kernel, instruction)))
}

/// Whether `instruction` creates no pointer from something else.
fn harmless(kernel: Value<'_>, instruction: Value<'_>) -> bool {
    match instruction.opcode() {
        LLVMOpcode::LLVMIntToPtr => false,
        LLVMOpcode::LLVMLoad => {
            !holds_pointer(instruction.ty())
                || instruction.operands().first().is_some_and(|address| by_value(kernel, *address))
        }
        LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke => match instruction.callee() {
            Some(callee) if !callee.is_declaration() => true,
            // The description of the launch is not recorded memory. A pointer loaded from it counts as a loaded
            // pointer.
            Some(callee) => !holds_pointer(instruction.ty()) || LAUNCH.contains(&callee.name().as_str()),
            // Inline PTX may use the addresses that it gets in its own way. A call through a pointer belongs here too.
            None => instruction.inline_assembly().is_some() && !holds_pointer(instruction.ty()),
        },
        LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg | LLVMOpcode::LLVMVAArg => {
            !holds_pointer(instruction.ty())
        }
        _ => true,
    }
}

/// Whether an address lies in one of the kernel's parameters that are passed by value.
fn by_value(kernel: Value<'_>, address: Value<'_>) -> bool {
    let mut address = address;
    while let Some(instruction) = address.as_instruction() {
        match instruction.opcode() {
            LLVMOpcode::LLVMGetElementPtr | LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast => {
                let Some(base) = instruction.operands().first().copied() else { return false };
                address = base;
            }
            _ => return false,
        }
    }
    (0..)
        .zip(kernel.parameters())
        .any(|(index, parameter)| parameter == address && attributes::by_value(kernel, index).is_some())
}

fn holds_pointer(ty: LLVMTypeRef) -> bool {
    // SAFETY: the type is alive, and indices are below its element count.
    unsafe {
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMPointerTypeKind => true,
            LLVMTypeKind::LLVMStructTypeKind => {
                (0..LLVMCountStructElementTypes(ty)).any(|index| holds_pointer(LLVMStructGetTypeAtIndex(ty, index)))
            }
            LLVMTypeKind::LLVMArrayTypeKind | LLVMTypeKind::LLVMVectorTypeKind => holds_pointer(LLVMGetElementType(ty)),
            _ => false,
        }
    }
}
