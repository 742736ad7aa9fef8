//! The addresses of device variables in a replay.
//!
//! A pointer to a `__device__` variable may be anywhere in recorded memory, so a replay must have the variable at its
//! recorded address: the code refers to that address as a constant, and the replayer maps memory there. Constant
//! memory cannot be mapped at will on NVIDIA's GPUs; those variables stay in the module, and the replayer fills them by name.

use inkwell::module::Module;
use llvm_sys::LLVMLinkage;
use llvm_sys::core::{LLVMConstInt, LLVMConstIntToPtr, LLVMGetModuleContext, LLVMInt64TypeInContext};
use mneme_core::recording::manifest::Variable;

use crate::ir::{self, Value};

/// Address spaces of `__shared__` and of `__constant__` variables, NVPTX's and AMDGPU's.
const SHARED: u32 = 3;
const CONSTANT: u32 = 4;

/// The name under which a variable of the IR appears in PTX and cubins: PTX has no `.` or `@` in names, and LLVM
/// spells them `_$_`.
pub fn device_symbol(name: &str) -> String {
    name.replace(['.', '@'], "_$_")
}

/// Makes the recorded variables absolute, constant ones too if `everything` (on the CPU device and on AMD's GPUs, whose
/// constant memory is memory like any other). Returns those that stay in the module and
/// must remain visible: the constant ones otherwise, and tables of functions, from which the replayer fills what is at
/// the recorded address.
pub fn place<'m>(module: &'m Module<'_>, recorded: &[Variable], everything: bool) -> Vec<Value<'m>> {
    let mut visible = Vec::new();
    let mut absolute = Vec::new();
    for variable in ir::variables(module) {
        let name = variable.name();
        let Some(record) = recorded.iter().find(|record| record.name == name || record.name == device_symbol(&name))
        else {
            continue;
        };
        match variable.space() {
            SHARED => {}
            CONSTANT if !everything => {
                if variable.is_local() {
                    variable.set_linkage(LLVMLinkage::LLVMExternalLinkage);
                    variable.set_name(&device_symbol(&name));
                }
                visible.push(variable);
            }
            _ => absolute.push((variable, record)),
        }
    }
    for (variable, record) in absolute {
        // SAFETY: the context is the module's; the type of a global is a pointer type.
        let pointer = unsafe {
            let number =
                LLVMConstInt(LLVMInt64TypeInContext(LLVMGetModuleContext(module.as_mut_ptr())), record.address, 0);
            Value::new(LLVMConstIntToPtr(number, variable.ty()))
        };
        if let Some(pointer) = pointer {
            variable.replace_uses_with(pointer);
            if record.code && !variable.is_declaration() {
                variable.set_linkage(LLVMLinkage::LLVMExternalLinkage);
                visible.push(variable);
            } else {
                variable.delete_global();
            }
        }
    }
    visible
}
