//! Replacement of calls that only a GPU has by functions that run on the CPU.
//!
//! They are calls of intrinsics and of the device library's builtins, and inline PTX; the functions have the same
//! types.

use std::collections::{HashMap, HashSet};

use inkwell::module::Module;

use crate::ir::{self, Value};

use super::intrinsics::{self, Meaning};
use super::operations::text::Signature;
use super::{LowerError, emit, ptx};
use crate::ir::edit;

/// What the replacement left to know.
#[derive(Default)]
pub struct Replaced<'m> {
    /// Definitions of the new functions, in LLVM assembly.
    pub definitions: String,
    /// Functions in which a thread may wait for others.
    pub collective: HashSet<Value<'m>>,
    /// Functions that use the shared memory reserved for CUDA's libraries, and the function that gives its address.
    pub reserved: HashSet<Value<'m>>,
    pub reserved_address: Option<Value<'m>>,
    /// Functions without a meaning on the CPU, with the construct's name.
    pub unsupported: HashMap<Value<'m>, String>,
}

/// The block's first kilobyte of shared memory, which cooperative groups share.
const RESERVED_ADDRESS: &str = "__mneme_cpu.reserved";
const RESERVED: &str = r#"
@__mneme_cpu.reserved_memory = internal addrspace(3) global [1024 x i8] undef, align 16
define ptr addrspace(3) @__mneme_cpu.reserved() alwaysinline nounwind {
  ret ptr addrspace(3) @__mneme_cpu.reserved_memory
}
"#;

pub fn replace<'m>(module: &'m Module<'_>) -> Result<Replaced<'m>, LowerError> {
    let mut replaced = Replaced::default();
    inline_assembly(module, &mut replaced);
    for function in ir::functions(module) {
        if function.is_declaration() && edit::has_uses(function) {
            declared_function(module, function, &mut replaced);
        }
    }
    if !replaced.reserved.is_empty() {
        emit::link(module, RESERVED)?;
        replaced.reserved_address = ir::function(module, RESERVED_ADDRESS);
    }
    Ok(replaced)
}

fn declared_function<'m>(module: &'m Module<'_>, function: Value<'m>, replaced: &mut Replaced<'m>) {
    let name = function.name();
    if replaced.collective.contains(&function) || name.starts_with(ptx::PREFIX) {
        return;
    }
    let new_name = format!("__mneme_cpu.{name}");
    let signature = signature(new_name, function.content_type());
    match intrinsics::meaning(&name, &signature) {
        Meaning::Native => {}
        Meaning::Unsupported(reason) => {
            replaced.unsupported.insert(function, reason);
        }
        Meaning::Defined(body) => {
            let new = edit::declare(module, &signature.name, function.content_type());
            function.replace_uses_with(new);
            replaced.definitions.push_str(&signature.define(&body));
            if body.collective {
                replaced.collective.insert(new);
            }
        }
    }
}

fn inline_assembly<'m>(module: &'m Module<'_>, replaced: &mut Replaced<'m>) {
    let mut known: HashMap<(String, String, String), Value<'m>> = HashMap::new();
    for function in ir::functions(module) {
        for call in function.instructions().into_iter().filter(|instruction| instruction.is_call()) {
            let Some((text, constraints)) = edit::called_value(call).and_then(edit::inline_asm) else { continue };
            let ty = edit::called_function_type(call);
            let key = (text, constraints, edit::type_text(ty));
            let new = *known.entry(key.clone()).or_insert_with_key(|(text, constraints, _)| {
                let signature = signature(format!("{}{}", ptx::PREFIX, replaced.definitions.len()), ty);
                let new = edit::declare(module, &signature.name, ty);
                match ptx::translate(text, constraints, &signature) {
                    Ok(body) => {
                        if body.collective {
                            replaced.collective.insert(new);
                        }
                        if body.reserved {
                            replaced.reserved.insert(new);
                        }
                        replaced.definitions.push_str(&signature.define(&body));
                    }
                    Err(reason) => {
                        // A distinct name, as nothing grew.
                        new.set_name(&format!("{}unsupported", ptx::PREFIX));
                        replaced.unsupported.insert(new, reason);
                    }
                }
                new
            });
            edit::set_callee(call, new);
        }
    }
}

fn signature(name: String, function_type: llvm_sys::prelude::LLVMTypeRef) -> Signature {
    let (result, parameters) = edit::signature(function_type);
    Signature {
        name,
        result: edit::type_text(result),
        parameters: parameters.into_iter().map(edit::type_text).collect(),
    }
}
