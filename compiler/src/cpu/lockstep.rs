//! Lockstep execution of warps, for code that relies on it.
//!
//! Old reductions exchange values through volatile shared memory without `__syncwarp`. AMD's waves cannot run apart, so
//! code for them may not even say `volatile`. Around each store on which another lane may rely, the lanes at it gather:
//! before the first lane stores, all have done everything before it, and before one continues, all have stored. The
//! device waits for lanes elsewhere only until they cannot continue by themselves.

use std::collections::HashSet;

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::{LLVMAtomicCmpXchg, LLVMAtomicRMW, LLVMCall, LLVMLoad, LLVMStore};
use llvm_sys::core::*;
use llvm_sys::prelude::*;

use crate::ir::{self, Value, annotations};

use super::pointers::{LOADS, Memory, memory};
use super::replace::Replaced;
use super::{is_amdgcn, races};
use crate::ir::edit;

/// The device's function at which lanes gather.
pub const CONVERGE: &str = "__mneme_cpu_converge";
/// The same for the lanes of AMD's waves, which never run apart.
pub const WAVE_CONVERGE: &str = "__mneme_cpu_wave_converge";

/// Which stores and atomic operations a warp executes in lockstep (`MNEME_CPU_LOCKSTEP`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lockstep {
    /// Volatile ones to memory that is or may be shared. In code for AMD GPUs also those that race with a load.
    #[default]
    Volatile,
    /// All except those to a thread's own variables.
    All,
    Off,
}

impl Lockstep {
    /// Reads `all`, `off` or `volatile`, the default.
    pub fn from_environment() -> Self {
        match std::env::var("MNEME_CPU_LOCKSTEP").as_deref().map(str::trim) {
            Ok("all") => Self::All,
            Ok("off") => Self::Off,
            _ => Self::Volatile,
        }
    }

    /// The value of the variable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volatile => "volatile",
            Self::All => "all",
            Self::Off => "off",
        }
    }
}

/// Inserts gatherings where lanes must be in lockstep. Shared variables must not have been lowered yet.
pub fn insert<'m>(module: &'m Module<'_>, extent: Lockstep, replaced: &mut Replaced<'m>) {
    if extent == Lockstep::Off {
        return;
    }
    let kernels: HashSet<Value<'_>> = annotations::kernels(module).into_iter().collect();
    let racing = match extent {
        Lockstep::Volatile if is_amdgcn(module) => racing_stores(module, &kernels, replaced),
        _ => HashSet::new(),
    };
    // SAFETY: the types belong to the module's context. The builder lives for this function only and is moved to live
    // instructions.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let int = LLVMInt32TypeInContext(context);
        let mut parameters = [int];
        let ty = LLVMFunctionType(LLVMVoidTypeInContext(context), parameters.as_mut_ptr(), 1, 0);
        let name = if is_amdgcn(module) { WAVE_CONVERGE } else { CONVERGE };
        let builder = LLVMCreateBuilderInContext(context);
        for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
            // After a gathering, another is needed only after a further memory access.
            let mut gathered: Option<LLVMBasicBlockRef> = None;
            for instruction in function.instructions() {
                let block = LLVMGetInstructionParent(instruction.raw());
                if !racing.contains(&instruction) && !in_step(instruction, extent, &kernels) {
                    if matches!(
                        edit::opcode(instruction),
                        LLVMLoad | LLVMStore | LLVMCall | LLVMAtomicRMW | LLVMAtomicCmpXchg
                    ) {
                        gathered = None;
                    }
                    continue;
                }
                let converge = edit::declare(module, name, ty);
                replaced.collective.insert(converge);
                let gather = |before: LLVMValueRef| {
                    LLVMPositionBuilderBefore(builder, before);
                    // The number follows when all calls are in place.
                    let mut arguments = [LLVMConstInt(int, 0, 0)];
                    LLVMBuildCall2(builder, ty, converge.raw(), arguments.as_mut_ptr(), 1, c"".as_ptr());
                };
                if gathered != Some(block) {
                    gather(instruction.raw());
                }
                // A store is not a terminator, so an instruction follows it.
                gather(LLVMGetNextInstruction(instruction.raw()));
                gathered = Some(block);
            }
        }
        LLVMDisposeBuilder(builder);
    }
}

fn racing_stores<'m>(
    module: &'m Module<'_>,
    kernels: &HashSet<Value<'m>>,
    replaced: &Replaced<'m>,
) -> HashSet<Value<'m>> {
    let functions: Vec<Value<'m>> = ir::functions(module);
    let meeting = races::meeting(&functions, replaced);
    let defined = functions.into_iter().filter(|function| !function.is_declaration());
    defined.flat_map(|function| races::racing_stores(function, kernels, &meeting)).collect()
}

fn in_step(instruction: Value<'_>, extent: Lockstep, kernels: &HashSet<Value<'_>>) -> bool {
    let (operand, volatile) = match edit::opcode(instruction) {
        // SAFETY: a live store.
        LLVMStore => (1, unsafe { LLVMGetVolatile(instruction.raw()) != 0 }),
        LLVMAtomicRMW | LLVMAtomicCmpXchg => (0, false),
        _ => return false,
    };
    let Some(pointer) = instruction.operands().get(operand).copied() else { return false };
    match extent {
        Lockstep::Off => false,
        Lockstep::Volatile => volatile && matches!(memory(pointer, kernels, LOADS), Memory::Shared | Memory::Unknown),
        Lockstep::All => memory(pointer, kernels, LOADS) != Memory::Own,
    }
}
