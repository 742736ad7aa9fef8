//! Counts the allocations that a launch leaves on the device's heap.
//!
//! Code may keep results there for a later launch. The count is a variable of the module, so a replay sees a launch that
//! leaves allocations like one that changes any other variable.

use std::fmt::Write;

use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use llvm_sys::LLVMLinkage;
use mneme_image::ir_section::HEAP_COUNT;

use crate::error::BuildError;
use crate::ir::{self, Value, edit};

/// The functions of CUDA's device runtime, and what a call does to the count.
const FUNCTIONS: [(&str, &str); 2] = [("malloc", "add"), ("free", "sub")];

/// Replaces the functions of the heap by functions that also count.
pub fn count(module: &Module<'_>) -> Result<(), BuildError> {
    let mut text = String::new();
    let mut counting: Vec<Value<'_>> = Vec::new();
    for (name, change) in FUNCTIONS {
        let used = ir::function(module, name).filter(|it| it.is_declaration() && edit::has_uses(*it));
        let Some(function) = used else { continue };
        let (result, parameters) = edit::signature(function.content_type());
        let [parameter] = parameters[..] else { continue };
        let (result, parameter) = (edit::type_text(result), edit::type_text(parameter));
        let (call, returned) = match result.as_str() {
            "void" => ("", "void".to_owned()),
            _ => ("%result = ", format!("{result} %result")),
        };
        let (memory, ty) = if name == "malloc" { ("%result", &result) } else { ("%operand", &parameter) };
        let null = if ty == "ptr" { "null" } else { "0" };
        let _ = write!(
            text,
            "declare {result} @{name}({parameter})\n\
             define linkonce_odr hidden {result} @__mneme_{name}({parameter} %operand) {{\n\
             \x20 {call}call {result} @{name}({parameter} %operand)\n\
             \x20 %is_memory = icmp ne {ty} {memory}, {null}\n\
             \x20 %one = zext i1 %is_memory to i64\n\
             \x20 %before = atomicrmw {change} ptr addrspace(1) @{HEAP_COUNT}, i64 %one monotonic\n\
             \x20 ret {returned}\n}}\n"
        );
        let other = edit::declare(module, &format!("__mneme_{name}"), function.content_type());
        function.replace_uses_with(other);
        counting.push(other);
    }
    if counting.is_empty() {
        return Ok(());
    }
    let text = format!(
        "target datalayout = \"{}\"\ntarget triple = \"{}\"\n@{HEAP_COUNT} = internal addrspace(1) global i64 0\n{text}",
        module.get_data_layout().as_str().to_string_lossy(),
        module.get_triple().as_str().to_string_lossy(),
    );
    let failed = |message: String| BuildError::Link { message };
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), HEAP_COUNT);
    let definitions = module.get_context().create_module_from_ir(buffer).map_err(|error| failed(error.to_string()))?;
    module.link_in_module(definitions).map_err(|error| failed(error.to_string()))?;
    counting.into_iter().for_each(|function| function.set_linkage(LLVMLinkage::LLVMInternalLinkage));
    Ok(())
}
