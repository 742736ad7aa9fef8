//! Conversion of dynamic shared memory to static.
//!
//! Its size is known, and then its address is too.

use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::target::{LLVMABISizeOfType, LLVMGetModuleDataLayout};
use llvm_sys::{LLVMLinkage, LLVMThreadLocalMode};

use crate::ir::{self, Value, reach};

/// NVPTX address space of shared memory.
const SHARED: u32 = 3;
/// Static shared memory that a kernel may have on every device, bytes; dynamic memory may be more.
const MOST_STATIC: u64 = 48 * 1024;

/// Gives all arrays of dynamic shared memory (they share one address) a common definition of `bytes`. False where that
/// cannot be done: there is none, it is too large, or the kernel asks the hardware for its size.
pub fn make_static(module: &Module<'_>, kernel: Value<'_>, bytes: u32) -> bool {
    let reached = reach::closure([kernel]);
    let (dynamic, fixed): (Vec<Value<'_>>, Vec<Value<'_>>) = ir::variables(module)
        .into_iter()
        .filter(|variable| variable.space() == SHARED && reached.contains(variable))
        .partition(|variable| variable.is_declaration());
    let fixed: u64 = fixed.into_iter().map(|variable| size(module, variable)).sum();
    if bytes == 0 || dynamic.is_empty() || fixed + u64::from(bytes) > MOST_STATIC || asks_for_size(&reached) {
        return false;
    }
    // SAFETY: the module is alive; the global gets the address space of those that it replaces, so that types agree.
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
    // SAFETY: a live global of a sized type, as it is defined.
    unsafe { LLVMABISizeOfType(LLVMGetModuleDataLayout(module.as_mut_ptr()), variable.content_type()) }
}

/// Whether a function reads `%dynamic_smem_size` or `%total_smem_size`, which inline PTX alone can.
fn asks_for_size(reached: &std::collections::HashSet<Value<'_>>) -> bool {
    let functions = reached.iter().filter(|value| value.as_function().is_some() && !value.is_declaration());
    let mut calls = functions.flat_map(|function| function.instructions()).filter(|instruction| instruction.is_call());
    calls.any(|call| call.inline_assembly().is_some_and(|text| text.contains("smem_size")))
}
