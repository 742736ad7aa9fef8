//! Converts dynamic shared memory to static shared memory.
//!
//! Its size is known, and then its address is too.

use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::target::{LLVMABISizeOfType, LLVMGetModuleDataLayout};
use llvm_sys::{LLVMLinkage, LLVMThreadLocalMode};
use mneme_model::architecture::Vendor;

use super::launch_memory::asks_for_shared;
use crate::ir::{self, Value, reach};

/// The address space of shared memory in NVPTX and AMDGPU.
const SHARED: u32 = 3;
/// The static shared memory in bytes that a kernel may have on every device of a vendor. NVIDIA's GPUs allow more as
/// dynamic memory.
fn most_static(vendor: Vendor) -> u64 {
    match vendor {
        Vendor::Nvidia => 48 << 10,
        Vendor::Amd => 64 << 10,
    }
}

/// Gives all arrays of dynamic shared memory, which share one address, a common definition of `bytes`. Returns false if
/// that is impossible: there is none, it is too large, or the kernel reads its size from a register.
pub fn make_static(module: &Module<'_>, kernel: Value<'_>, bytes: u32, vendor: Vendor) -> bool {
    let reached = reach::closure([kernel]);
    let (dynamic, fixed): (Vec<Value<'_>>, Vec<Value<'_>>) = ir::variables(module)
        .into_iter()
        .filter(|variable| variable.space() == SHARED && reached.contains(variable))
        .partition(|variable| variable.is_declaration());
    let fixed: u64 = fixed.into_iter().map(|variable| size(module, variable)).sum();
    let too_large = fixed + u64::from(bytes) > most_static(vendor);
    if bytes == 0 || dynamic.is_empty() || too_large || asks_for_size(&reached) || asks_for_shared(module) {
        return false;
    }
    // SAFETY: the module is alive. The global gets the address space of those that it replaces, so types agree.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let ty = LLVMArrayType2(LLVMInt8TypeInContext(context), u64::from(bytes));
        let whole = LLVMAddGlobalInAddressSpace(module.as_mut_ptr(), ty, c"mneme_shared".as_ptr(), SHARED);
        LLVMSetInitializer(whole, LLVMGetUndef(ty));
        LLVMSetLinkage(whole, LLVMLinkage::LLVMInternalLinkage);
        LLVMSetThreadLocalMode(whole, LLVMThreadLocalMode::LLVMNotThreadLocal);
        let alignment = dynamic.iter().map(|variable| LLVMGetAlignment(variable.raw())).max().unwrap_or(0);
        LLVMSetAlignment(whole, alignment.max(16));
        let Some(whole) = Value::new(whole) else { return false };
        for variable in dynamic {
            variable.replace_uses_with(whole);
            variable.delete_global();
        }
    }
    true
}

fn size(module: &Module<'_>, variable: Value<'_>) -> u64 {
    // SAFETY: a live global of a sized type, because it is defined.
    unsafe { LLVMABISizeOfType(LLVMGetModuleDataLayout(module.as_mut_ptr()), variable.content_type()) }
}

/// Whether a function reads `%dynamic_smem_size` or `%total_smem_size` of NVIDIA GPUs, which only inline PTX can.
fn asks_for_size(reached: &std::collections::HashSet<Value<'_>>) -> bool {
    let functions = reached.iter().filter(|value| value.as_function().is_some() && !value.is_declaration());
    let mut calls = functions.flat_map(|function| function.instructions()).filter(|instruction| instruction.is_call());
    calls.any(|call| call.inline_assembly().is_some_and(|text| text.contains("smem_size")))
}
