//! Fast floating-point arithmetic for IR that was compiled without `-ffast-math`.

use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use llvm_sys::LLVMFastMathAll;
use llvm_sys::LLVMLinkage;
use llvm_sys::core::{LLVMCanValueUseFastMathFlags, LLVMConstInt, LLVMSetFastMathFlags, LLVMSetInitializer};
use mneme_model::architecture::Vendor;

use crate::error::BuildError;
use crate::ir::{self, Value, attributes};
use crate::llvm;

/// The device library's functions that have an approximation in `fast_math.ll`.
const APPROXIMATED: &[&str] = &["sinf", "cosf", "tanf", "expf", "exp2f", "exp10f", "logf", "log2f", "log10f", "powf"];
const APPROXIMATIONS: &str = include_str!("fast_math.ll");
const PREFIX: &str = "mneme_fast.";

/// The attributes that code generation checks: approximate division and roots, contraction.
const ATTRIBUTES: &[(&std::ffi::CStr, &std::ffi::CStr)] = &[
    (c"unsafe-fp-math", c"true"),
    (c"no-nans-fp-math", c"true"),
    (c"no-infs-fp-math", c"true"),
    (c"no-signed-zeros-fp-math", c"true"),
    (c"approx-func-fp-math", c"true"),
];
/// Constants by which AMD's device library asks whether it may approximate, and whether all numbers are finite.
const PERMISSIONS: [&str; 2] = ["__oclc_unsafe_math_opt", "__oclc_finite_only_opt"];

/// Gives every floating-point operation of the module the freedom of `-ffast-math`.
pub fn allow(module: &Module<'_>, vendor: Vendor) -> Result<(), BuildError> {
    approximate(module)?;
    for permission in PERMISSIONS.into_iter().filter_map(|name| ir::variable(module, name)) {
        // SAFETY: the library's constants are numbers.
        if let Some(yes) = Value::new(unsafe { LLVMConstInt(permission.content_type(), 1, 0) })
            && !permission.is_declaration()
        {
            // SAFETY: the initial value has the variable's type.
            unsafe { LLVMSetInitializer(permission.raw(), yes.raw()) };
        }
    }
    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        for (name, value) in ATTRIBUTES {
            attributes::set_string(function, name, value);
        }
        // NVIDIA's approximations are slow with denormals; AMD's hardware does not need this.
        if vendor == Vendor::Nvidia {
            llvm::flush_denormals(function.raw());
        }
        for instruction in function.instructions() {
            // SAFETY: the instruction is alive, and is checked to take the flags.
            unsafe {
                if LLVMCanValueUseFastMathFlags(instruction.raw()) != 0 {
                    LLVMSetFastMathFlags(instruction.raw(), LLVMFastMathAll);
                }
            }
        }
    }
    Ok(())
}

/// Replaces the library's functions by the hardware's approximations, before they can be inlined.
fn approximate(module: &Module<'_>) -> Result<(), BuildError> {
    let library: Vec<(&str, Value<'_>)> =
        APPROXIMATED.iter().filter_map(|name| Some((*name, ir::function(module, &format!("__nv_{name}"))?))).collect();
    if library.is_empty() {
        return Ok(());
    }
    let text = format!(
        "target datalayout = \"{}\"\ntarget triple = \"{}\"\n{APPROXIMATIONS}",
        module.get_data_layout().as_str().to_string_lossy(),
        module.get_triple().as_str().to_string_lossy(),
    );
    let failed = |message: String| BuildError::Link { message };
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "approximations");
    let approximations =
        module.get_context().create_module_from_ir(buffer).map_err(|error| failed(error.to_string()))?;
    module.link_in_module(approximations).map_err(|error| failed(error.to_string()))?;
    for (name, exact) in library {
        if let Some(approximation) = ir::function(module, &format!("{PREFIX}{name}"))
            && approximation.content_type() == exact.content_type()
        {
            exact.replace_uses_with(approximation);
        }
    }
    for name in APPROXIMATED {
        if let Some(approximation) = ir::function(module, &format!("{PREFIX}{name}")) {
            approximation.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        }
    }
    Ok(())
}
