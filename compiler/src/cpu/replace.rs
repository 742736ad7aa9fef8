//! Replaces calls that only a GPU supports by functions that run on the CPU.
//!
//! These are calls of intrinsics and of the device library's builtins, and inline assembly. The functions have the same
//! types.

use std::collections::{BTreeMap, HashMap, HashSet};

use inkwell::module::Module;

use crate::ir::{self, Value, annotations, edit};

use super::intrinsics::{self, amdgcn};
use super::operations::text::{FunctionBody, FunctionSignature, Meaning};
use super::{LowerError, emit, is_amdgcn, narrow, ptx, wave};

/// The results of the replacement.
#[derive(Default)]
pub struct Replaced<'m> {
    /// Definitions of the new functions, in LLVM assembly.
    pub definitions: String,
    /// Functions in which a thread may wait for others.
    pub collective: HashSet<Value<'m>>,
    /// Functions that use the shared memory reserved for CUDA's libraries, and the function that returns its address.
    pub reserved: HashSet<Value<'m>>,
    pub reserved_address: Option<Value<'m>>,
    /// Functions without a meaning on the CPU, with the name of the construct.
    pub unsupported: HashMap<Value<'m>, String>,
    /// The defined functions for intrinsics that inline PTX needs.
    standing_in: HashSet<String>,
}

impl Replaced<'_> {
    /// Adds the definition of a function, and those of the functions that it calls.
    fn define(&mut self, signature: &FunctionSignature, body: &FunctionBody) {
        self.definitions.push_str(&signature.define(body));
        for intrinsic in &body.intrinsics {
            let signature = FunctionSignature::standing_in(intrinsic);
            if self.standing_in.insert(signature.name.clone())
                && let Meaning::Defined(body) = intrinsics::meaning(&intrinsic.name, &signature)
            {
                self.define(&signature, &body);
            }
        }
    }
}

/// The first kilobyte of a block's shared memory, which cooperative groups use.
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
    if is_amdgcn(module) {
        amdgcn(module, &mut replaced);
    }
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

/// Replaces calls in modules for AMD GPUs.
fn amdgcn<'m>(module: &'m Module<'_>, replaced: &mut Replaced<'m>) {
    let (wave_size, is_common) = wave::of_module(module);
    replaced.definitions.push_str(&amdgcn::runtime(wave_size));
    replaced.unsupported.extend(narrow::refusals(module));
    if !is_common {
        let both = annotations::kernels(module).into_iter().map(|kernel| (kernel, "waves of two sizes".to_owned()));
        replaced.unsupported.extend(both);
    }
    let named = |name: &str| ir::function(module, name).filter(|function| edit::has_uses(*function));
    if code_object_version(module).is_some_and(|version| version < HIDDEN_ARGUMENTS_VERSION) {
        let hidden = named("llvm.amdgcn.implicitarg.ptr");
        let reason = "hidden arguments of a code object before version 5";
        replaced.unsupported.extend(hidden.map(|function| (function, reason.to_owned())));
    }
    // The register's number is an operand of each call.
    if let Some(function) = named("llvm.amdgcn.s.getreg") {
        let register = |call: Value<'_>| edit::constant(*call.call_arguments().first()?);
        let is_place = |call: Value<'_>| register(call).is_some_and(|number| PLACES.contains(&(number & 63)));
        if !function.users().into_iter().all(is_place) {
            replaced.unsupported.insert(function, "a hardware register (`llvm.amdgcn.s.getreg`)".into());
        }
    }
    active_lanes(module, replaced);
}

/// The first version in which hidden arguments have the device's layout.
const HIDDEN_ARGUMENTS_VERSION: u64 = 500;
/// The registers HW_ID, HW_ID1, HW_ID2 and XCC_ID, which say where on the GPU a wave runs.
const PLACES: [u64; 4] = [4, 23, 24, 20];

/// The module's code object version times 100, `None` if the module does not contain it.
fn code_object_version(module: &Module<'_>) -> Option<u64> {
    ["amdhsa_code_object_version", "amdgpu_code_object_version"].iter().find_map(|flag| edit::module_flag(module, flag))
}

/// Turns reads of the register with the active lanes into calls of a function without an operand.
fn active_lanes<'m>(module: &'m Module<'_>, replaced: &mut Replaced<'m>) {
    for (read, result) in [("llvm.read_register.i64", "i64"), ("llvm.read_register.i32", "i32")] {
        let Some(function) = ir::function(module, read) else { continue };
        let mut calls: BTreeMap<String, Vec<Value<'_>>> = BTreeMap::new();
        for call in function.users() {
            calls.entry(edit::named_register(call).unwrap_or_default()).or_default().push(call);
        }
        for (register, calls) in calls {
            let Some(body) = amdgcn::active_lanes(&register, result) else {
                replaced.unsupported.insert(function, format!("the register `{register}`"));
                continue;
            };
            let name = format!("__mneme_cpu.{register}.{result}");
            let new = edit::replace_calls(module, &calls, &name);
            let signature = FunctionSignature { name, result: result.into(), parameters: Vec::new() };
            replaced.define(&signature, &body);
            replaced.collective.extend(new);
        }
    }
}

fn declared_function<'m>(module: &'m Module<'_>, function: Value<'m>, replaced: &mut Replaced<'m>) {
    let name = function.name();
    let is_known = replaced.collective.contains(&function) || replaced.unsupported.contains_key(&function);
    if is_known || name.starts_with(ptx::PREFIX) {
        return;
    }
    let new_name = format!("__mneme_cpu.{name}");
    let signature = signature(new_name, function.content_type());
    let own = is_amdgcn(module).then(|| amdgcn::meaning(&name, &signature)).flatten();
    match own.unwrap_or_else(|| intrinsics::meaning(&name, &signature)) {
        Meaning::Native => {}
        Meaning::Unsupported(reason) => {
            replaced.unsupported.insert(function, reason);
        }
        Meaning::Defined(body) => {
            let new = edit::declare(module, &signature.name, function.content_type());
            function.replace_uses_with(new);
            replaced.define(&signature, &body);
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
                let translate = if is_amdgcn(module) { amdgcn::assembly::translate } else { ptx::translate };
                match translate(text, constraints, &signature) {
                    Ok(body) => {
                        if body.collective {
                            replaced.collective.insert(new);
                        }
                        if body.reserved {
                            replaced.reserved.insert(new);
                        }
                        replaced.define(&signature, &body);
                    }
                    Err(error) => {
                        // A distinct name, because no definition was added.
                        new.set_name(&format!("{}unsupported", ptx::PREFIX));
                        replaced.unsupported.insert(new, error.to_string());
                    }
                }
                new
            });
            edit::set_callee(call, new);
        }
    }
}

fn signature(name: String, function_type: llvm_sys::prelude::LLVMTypeRef) -> FunctionSignature {
    let (result, parameters) = edit::signature(function_type);
    FunctionSignature {
        name,
        result: edit::type_text(result),
        parameters: parameters.into_iter().map(edit::type_text).collect(),
    }
}
