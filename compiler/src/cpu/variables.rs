//! The `__device__` and `__constant__` variables, which the host knows by name.

use inkwell::module::Module;
use llvm_sys::LLVMLinkage;
use llvm_sys::core::{LLVMConstNull, LLVMIsGlobalConstant, LLVMSetInitializer};
use llvm_sys::target::{LLVMABISizeOfType, LLVMGetModuleDataLayout};
use mneme_image::cpu_object::CpuVariable;

use crate::ir::{self, Value, reach};

/// Address spaces, the same for all GPUs.
const GENERIC: u32 = 0;
const GLOBAL: u32 = 1;
const CONSTANT: u32 = 4;

/// clang's placeholders for CUDA's built-in variables. Unoptimised code takes their address but does not read them.
const BUILTIN: [&str; 4] = ["threadIdx", "blockIdx", "blockDim", "gridDim"];

/// Constants that configure ROCm's device library, clang's mark of a translation unit, and LLVM's own lists.
const INTERNAL: [&str; 3] = ["__oclc_", "__hip_cuid_", "llvm."];

/// Gives the built-in variables storage, so they have an address.
pub fn define_builtin(module: &Module<'_>) {
    for variable in
        BUILTIN.iter().filter_map(|name| ir::variable(module, name)).filter(|variable| variable.is_declaration())
    {
        // SAFETY: a live variable; null is a value of every type.
        unsafe { LLVMSetInitializer(variable.raw(), LLVMConstNull(variable.content_type())) };
        variable.set_linkage(LLVMLinkage::LLVMPrivateLinkage);
    }
}

/// Whether a variable is a table of functions, which clang leaves in the generic address space.
fn is_table(variable: Value<'_>) -> bool {
    let is_visible = !variable.is_local() && variable.space() == GENERIC;
    is_visible && reach::references(variable).iter().any(|other| other.as_function().is_some())
}

/// Gives writable private variables a symbol, so the replayer can see whether code keeps results there.
pub fn show_private(module: &Module<'_>) {
    let is_private = |variable: &Value<'_>| variable.linkage() == LLVMLinkage::LLVMPrivateLinkage;
    for variable in ir::variables(module).into_iter().filter(|it| is_private(it) && is_state(*it)) {
        if variable.name().is_empty() {
            variable.set_name("mneme.private");
        }
        variable.set_linkage(LLVMLinkage::LLVMInternalLinkage);
    }
}

/// Whether code may write to a variable that outlives a launch.
fn is_state(variable: Value<'_>) -> bool {
    let is_other = BUILTIN.contains(&variable.name().as_str())
        || INTERNAL.iter().any(|prefix| variable.name().starts_with(prefix));
    // SAFETY: a live variable.
    let is_constant = unsafe { LLVMIsGlobalConstant(variable.raw()) } != 0;
    matches!(variable.space(), GENERIC | GLOBAL) && !variable.is_declaration() && !is_constant && !is_other
}

/// Every named variable in global or constant memory.
pub fn list(module: &Module<'_>) -> Vec<CpuVariable> {
    ir::variables(module)
        .into_iter()
        .filter(|variable| !variable.is_declaration() && variable.linkage() != LLVMLinkage::LLVMPrivateLinkage)
        .filter(|variable| matches!(variable.space(), GLOBAL | CONSTANT) || is_table(*variable) || is_state(*variable))
        .filter(|variable| !INTERNAL.iter().any(|prefix| variable.name().starts_with(prefix)))
        .map(|variable| {
            // SAFETY: a live variable of a sized type, and its module.
            let size =
                unsafe { LLVMABISizeOfType(LLVMGetModuleDataLayout(module.as_mut_ptr()), variable.content_type()) };
            let name = variable.name();
            CpuVariable { symbol: name.clone(), name, size, constant: variable.space() == CONSTANT }
        })
        .collect()
}
