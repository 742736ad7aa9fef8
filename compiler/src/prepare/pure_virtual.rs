//! A definition of `__cxa_pure_virtual` for kernels that refer to it.
//!
//! Tables of virtual functions name it for pure virtual functions. nvcc and clang take it from a library that is not
//! part of the recorded IR, and assemblers refuse code that names an undefined function.

use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;

use crate::error::BuildError;
use crate::ir;

const NAME: &str = "__cxa_pure_virtual";

/// Gives the function a body that traps, because its call is undefined behaviour.
pub fn define(module: &Module<'_>) -> Result<(), BuildError> {
    if !ir::function(module, NAME).is_some_and(|function| function.is_declaration()) {
        return Ok(());
    }
    let text = format!(
        "target datalayout = \"{}\"\ntarget triple = \"{}\"\n\
         declare void @llvm.trap()\n\
         define linkonce_odr hidden void @{NAME}() {{\n  call void @llvm.trap()\n  unreachable\n}}\n",
        module.get_data_layout().as_str().to_string_lossy(),
        module.get_triple().as_str().to_string_lossy(),
    );
    let failed = |message: String| BuildError::Link { message };
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), NAME);
    let definition = module.get_context().create_module_from_ir(buffer).map_err(|error| failed(error.to_string()))?;
    module.link_in_module(definition).map_err(|error| failed(error.to_string()))
}
