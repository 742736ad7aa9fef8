//! The description of a bitcode module in section `.mneme.ir`.
//!
//! It lists the module's symbols, the references of each, and a hash of each definition, so a recorder without LLVM can
//! find a kernel's closure and identity.

mod definitions;
mod features;
pub mod names;

use std::collections::{HashMap, HashSet};

use inkwell::context::Context;
use inkwell::module::Module;
use llvm_sys::LLVMVisibility;
use llvm_sys::core::{LLVMGetAlignment, LLVMGetVisibility, LLVMIsGlobalConstant, LLVMIsUndef};
use llvm_sys::target::{LLVMABIAlignmentOfType, LLVMABISizeOfType, LLVMGetModuleDataLayout};
pub use mneme_builds::protocol::UnitOrigin;
use mneme_image::bitcode;
use mneme_image::ir_section::{
    CODE_ADDRESS, DEVICE_HEAP, INDIRECT_CALL, IrTable, Symbol, SymbolKind, TEXTURE, VIRTUAL_CALL, VariableInfo,
};
use mneme_model::llvm_version;

use crate::error::BuildError;
use crate::ir::diagnostics::Diagnostics;
use crate::ir::{self, Value, annotations, parameters, reach, read};

/// Address space of `__constant__` variables.
const CONSTANT: u32 = 4;
/// Functions of AMD's device library that implement the heap on the device.
const HEAP_FUNCTIONS: [&str; 2] = ["__ockl_dm_alloc", "__ockl_dm_dealloc"];

/// The table of `bitcode`.
pub fn describe(bitcode: &[u8], origin: &UnitOrigin) -> Result<IrTable, BuildError> {
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = read::parse(&context, &diagnostics, bitcode)?;
    module.strip_debug_info();
    let producer = bitcode::producer(bitcode).unwrap_or_default();
    Ok(IrTable {
        arch: origin.arch.clone(),
        triple: module.get_triple().as_str().to_string_lossy().into_owned(),
        unit: origin.unit.clone(),
        source: origin.source.clone(),
        llvm: llvm_version::number(&producer).to_owned(),
        rdc: origin.rdc,
        compiled: origin.compiled.clone(),
        images: origin.images.clone(),
        symbols: symbols(&module),
    })
}

fn symbols(module: &Module<'_>) -> Vec<Symbol> {
    // `__nvvm_reflect` is resolved before code generation, and never defined.
    let listed = |value: &Value<'_>| !value.is_intrinsic() && !value.name().starts_with("__nvvm_reflect");
    let globals: Vec<Value<'_>> = [ir::functions(module), ir::variables(module), ir::aliases(module)]
        .concat()
        .into_iter()
        .filter(listed)
        .collect();
    let indices: HashMap<Value<'_>, u32> = globals.iter().zip(0..).map(|(global, index)| (*global, index)).collect();
    let kernels = annotations::kernels(module);
    let text = ir::text(module);
    let numbers = numbers(module);
    let text_name = |global: &Value<'_>| numbers.get(global).cloned().unwrap_or_else(|| global.name());
    let hashes = definitions::hashes(&text);
    // The reader treats features as undefined functions, so it finds them in a closure like other undefined symbols.
    let marks = [TEXTURE, INDIRECT_CALL, CODE_ADDRESS, VIRTUAL_CALL, DEVICE_HEAP];
    // A replay can put a table of functions at its recorded address, with its own functions in it.
    let is_code = |value: &Value<'_>| {
        value.as_variable().is_none()
            || (holds_functions(*value) && !variable_info(module, *value).is_some_and(|variable| variable.code))
    };
    let code: HashSet<String> = globals.iter().filter(|value| is_code(value)).map(|value| value.name()).collect();
    let accesses = features::table_accesses(&text);
    let mark_index =
        |mark: &str| marks.iter().position(|other| *other == mark).map(|index| (globals.len() + index) as u32);
    let features: HashMap<String, Vec<u32>> = definitions::texts(&text)
        .into_iter()
        .map(|(name, definition)| {
            let found = features::of(definition, |name| code.contains(name), |tag| accesses.contains(&tag));
            let heap = HEAP_FUNCTIONS.contains(&name.as_str()).then_some(DEVICE_HEAP);
            (name, found.into_iter().chain(heap).filter_map(mark_index).collect())
        })
        .filter(|(_, marks): &(String, Vec<u32>)| !marks.is_empty())
        .collect();
    let has_features = !features.is_empty();
    let mark = |name: &str| Symbol { defined: false, ..Symbol::exported(name, SymbolKind::Function) };
    let own = globals.iter().map(|global| {
        let name = global.name();
        let defined = !global.is_declaration();
        let is_kernel = kernels.contains(global);
        let kind = match (is_kernel, global.as_variable()) {
            (true, _) => SymbolKind::Kernel,
            (false, Some(_)) => SymbolKind::Variable,
            (false, None) => SymbolKind::Function,
        };
        // By index, so one source always gives the same table.
        let mut refs: Vec<u32> =
            reach::references(*global).iter().filter_map(|reference| indices.get(reference).copied()).collect();
        let text_name = text_name(global);
        refs.extend(features.get(&text_name).into_iter().flatten());
        refs.sort_unstable();
        Symbol {
            kind,
            defined,
            external: !global.is_local(),
            hash: if defined { hashes.get(&text_name).copied().unwrap_or(0) } else { 0 },
            refs,
            arguments: if is_kernel { parameters::of(module, *global) } else { Vec::new() },
            variable: global.as_variable().and_then(|variable| variable_info(module, variable)),
            name,
        }
    });
    let marks = marks.iter().filter(|_| has_features).map(|name| mark(name));
    own.chain(marks).collect()
}

/// The numbers of unnamed globals in the module's text. LLVM counts them in this order.
fn numbers<'m>(module: &'m Module<'_>) -> HashMap<Value<'m>, String> {
    let globals = [ir::variables(module), ir::aliases(module), ir::functions(module)].concat();
    let unnamed = globals.into_iter().filter(|global| global.name().is_empty());
    unnamed.zip(0..).map(|(global, number)| (global, number.to_string())).collect()
}

/// Whether a variable's initial value contains addresses of functions.
fn holds_functions(variable: Value<'_>) -> bool {
    reach::references(variable).iter().any(|other| other.as_variable().is_none())
}

/// The memory of a variable. Constants that the host cannot reach have no row: the IR has their contents, or they have
/// none, like HIP's `threadIdx` object.
fn variable_info(module: &Module<'_>, variable: Value<'_>) -> Option<VariableInfo> {
    // SAFETY: the value is a live global variable of the live module.
    unsafe {
        let is_constant = LLVMIsGlobalConstant(variable.raw()) != 0;
        let is_hidden = LLVMGetVisibility(variable.raw()) == LLVMVisibility::LLVMHiddenVisibility;
        let is_empty = variable.initializer().is_some_and(|value| LLVMIsUndef(value.raw()) != 0);
        if is_constant && (variable.is_local() || is_empty || (is_hidden && !holds_functions(variable))) {
            return None;
        }
        let data = LLVMGetModuleDataLayout(module.as_mut_ptr());
        let ty = variable.content_type();
        let align = match LLVMGetAlignment(variable.raw()) {
            0 => LLVMABIAlignmentOfType(data, ty),
            align => align,
        };
        let code = is_constant && variable.space() != CONSTANT && holds_functions(variable);
        Some(VariableInfo { space: variable.space(), size: LLVMABISizeOfType(data, ty), align, code })
    }
}
