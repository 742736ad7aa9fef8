//! Folds grid and block dimensions into the code.
//!
//! Sizes become constants, and indices get ranges. AMD's code reads sizes from memory, see [`super::launch_memory`].

use inkwell::module::Module;
use llvm_sys::core::{
    LLVMConstInt, LLVMGetMDKindIDInContext, LLVMGetModuleContext, LLVMGlobalSetMetadata, LLVMInt32TypeInContext,
    LLVMMDNodeInContext2, LLVMMetadataAsValue, LLVMSetMetadata, LLVMValueAsMetadata,
};
use llvm_sys::prelude::{LLVMMetadataRef, LLVMValueRef};
use mneme_model::architecture::Vendor;
use mneme_model::launch::Dim3;

use super::launch_memory;
use crate::architecture::CodegenArchitecture;
use crate::ir::{self, Value};

pub fn fold(module: &Module<'_>, kernel: Value<'_>, grid: Dim3, block: Dim3, architecture: &CodegenArchitecture) {
    let pairs = [("tid", "workitem", block), ("ctaid", "workgroup", grid)];
    for (nvidia, amd, dimensions) in pairs {
        for (axis, count) in ["x", "y", "z"].into_iter().zip(dimensions.as_array()) {
            let index = match architecture.vendor {
                Vendor::Nvidia => format!("llvm.nvvm.read.ptx.sreg.{nvidia}.{axis}"),
                Vendor::Amd => format!("llvm.amdgcn.{amd}.id.{axis}"),
            };
            if architecture.vendor == Vendor::Nvidia {
                for call in ir::calls(module, &format!("llvm.nvvm.read.ptx.sreg.n{nvidia}.{axis}")) {
                    replace(call, count);
                }
            }
            for call in ir::calls(module, &index) {
                if count == 1 {
                    replace(call, 0);
                } else {
                    bound(module, call, count);
                }
            }
        }
    }
    if architecture.vendor == Vendor::Amd {
        launch_memory::fold(module, grid, block);
        require(module, kernel, block);
    }
}

fn replace(call: Value<'_>, number: u32) {
    // SAFETY: the intrinsic returns i32, so its type takes an integer constant.
    if let Some(constant) = Value::new(unsafe { LLVMConstInt(call.ty(), u64::from(number), 0) }) {
        call.replace_uses_with(constant);
        call.erase_instruction();
    }
}

/// States that the call's result is below `limit`.
fn bound(module: &Module<'_>, call: Value<'_>, limit: u32) {
    // SAFETY: `!range` on an integer call is a pair of constants of its type: the lower bound, included, and the upper
    // bound, excluded.
    unsafe {
        let pair = [0, u64::from(limit)].map(|number| LLVMConstInt(call.ty(), number, 0));
        let range = LLVMMetadataAsValue(LLVMGetModuleContext(module.as_mut_ptr()), node(module, &pair));
        LLVMSetMetadata(call.raw(), kind(module, "range"), range);
    }
}

/// Declares the block size of the code. The driver then rejects launches with another.
fn require(module: &Module<'_>, kernel: Value<'_>, block: Dim3) {
    // SAFETY: the context is the module's.
    unsafe {
        let number = LLVMInt32TypeInContext(LLVMGetModuleContext(module.as_mut_ptr()));
        let sizes = block.as_array().map(|size| LLVMConstInt(number, u64::from(size), 0));
        LLVMGlobalSetMetadata(kernel.raw(), kind(module, "reqd_work_group_size"), node(module, &sizes));
    }
}

/// # Safety
/// The values must be constants of the module's context.
unsafe fn node(module: &Module<'_>, values: &[LLVMValueRef]) -> LLVMMetadataRef {
    // SAFETY: by the contract above.
    unsafe {
        let mut parts: Vec<_> = values.iter().map(|value| LLVMValueAsMetadata(*value)).collect();
        LLVMMDNodeInContext2(LLVMGetModuleContext(module.as_mut_ptr()), parts.as_mut_ptr(), parts.len())
    }
}

fn kind(module: &Module<'_>, name: &str) -> u32 {
    // SAFETY: the context is alive, and LLVM reads `len` bytes.
    unsafe {
        LLVMGetMDKindIDInContext(LLVMGetModuleContext(module.as_mut_ptr()), name.as_ptr().cast(), name.len() as u32)
    }
}
