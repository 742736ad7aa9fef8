//! Generates code for the CPU device.
//!
//! It links the runtime in, makes everything local except entries and variables, and generates code.

use inkwell::OptimizationLevel;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, RelocMode, Target, TargetMachine};
use llvm_sys::LLVMLinkage;
use llvm_sys::comdat::LLVMSetComdat;
use llvm_sys::core::*;
use llvm_sys::debuginfo::LLVMStripModuleDebugInfo;
use llvm_sys::target_machine::LLVMCodeGenFileType;
use mneme_image::cpu_object::{self, CpuTable};

use super::{LowerError, intrinsics};
use crate::host;
use crate::ir;
use crate::ir::edit;
use crate::llvm::{self, PassGate};

/// Inlines the runtime, merges its reads of the thread context, and drops unused functions. The user's own pipeline has
/// already run.
const CLEANUP: &str = "always-inline,function(early-cse),globaldce";

const COMPILER_RT: &str = include_str!("compiler_rt.ll");

/// The code generator for this machine's processor.
pub fn target_machine(codegen_opt: u8) -> Result<TargetMachine, LowerError> {
    host::initialise();
    let triple = host::triple();
    let target = Target::from_triple(&triple).map_err(|message| LowerError::Codegen(message.to_string()))?;
    let level = match codegen_opt {
        0 => OptimizationLevel::None,
        1 => OptimizationLevel::Less,
        2 => OptimizationLevel::Default,
        _ => OptimizationLevel::Aggressive,
    };
    let (cpu, features) = processor();
    let machine = target
        .create_target_machine(&triple, &cpu, &features, level, RelocMode::PIC, CodeModel::Default)
        .ok_or_else(|| LowerError::Codegen(format!("no code generator for processor {cpu}")))?;
    llvm::trap_unreachable(&machine);
    Ok(machine)
}

/// The name and features of this machine's processor.
fn processor() -> (String, String) {
    (TargetMachine::get_host_cpu_name().to_string(), TargetMachine::get_host_cpu_features().to_string())
}

/// Changes the module's target from the GPU to this machine.
pub fn retarget(module: &Module<'_>, machine: &TargetMachine) {
    // SAFETY: the module is alive. The empty text is not read.
    unsafe {
        LLVMStripModuleDebugInfo(module.as_mut_ptr());
        // PTX at file scope declares symbols for the GPU. Kernels that use them are refused, because the names are
        // undefined.
        LLVMSetModuleInlineAsm2(module.as_mut_ptr(), c"".as_ptr(), 0);
    }
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
}

/// Links the runtime and the given definitions.
pub fn link_runtime(module: &Module<'_>, definitions: &str) -> Result<(), LowerError> {
    link(module, &format!("{}\n{definitions}", intrinsics::RUNTIME))
}

/// Links LLVM assembly into a module for any target.
pub fn link(module: &Module<'_>, assembly: &str) -> Result<(), LowerError> {
    let text = format!(
        "target datalayout = \"{}\"\ntarget triple = \"{}\"\n{assembly}",
        module.get_data_layout().as_str().to_string_lossy(),
        module.get_triple().as_str().to_string_lossy(),
    );
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "mneme runtime");
    let runtime = module
        .get_context()
        .create_module_from_ir(buffer)
        .map_err(|message| LowerError::Runtime(message.to_string()))?;
    module.link_in_module(runtime).map_err(|message| LowerError::Runtime(message.to_string()))
}

/// Makes all definitions local except those in the table, and gives functions this machine's features.
pub fn seal(module: &Module<'_>, table: &CpuTable) {
    let (cpu, features) = processor();
    for name in ["llvm.used", "llvm.compiler.used", "llvm.global_ctors", "llvm.global_dtors"] {
        if let Some(list) = ir::variable(module, name) {
            list.delete_global();
        }
    }
    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        // The old attributes have the GPU's processor, features and float modes.
        edit::remove_string_attributes(function, |_| true);
        edit::add_string_attribute(module, function, "target-cpu", &cpu);
        edit::add_string_attribute(module, function, "target-features", &features);
        // A large frame touches each of its pages, so a thread's guard page catches an overflow.
        edit::add_string_attribute(module, function, "probe-stack", "inline-asm");
        edit::add_enum_attribute(module, function, "nounwind");
        // SAFETY: live functions; 0 is the C calling convention.
        unsafe {
            LLVMSetFunctionCallConv(function.raw(), 0);
            LLVMSetComdat(function.raw(), std::ptr::null_mut());
        }
        for call in function.instructions().into_iter().filter(|instruction| instruction.is_call()) {
            // SAFETY: a live call. All functions have the C calling convention by now.
            unsafe { LLVMSetInstructionCallConv(call.raw(), 0) };
        }
        let name = function.name();
        if !table.kernels.iter().any(|kernel| kernel.entry == name) {
            function.set_linkage(LLVMLinkage::LLVMInternalLinkage);
            edit::set_visibility(function, llvm_sys::LLVMVisibility::LLVMDefaultVisibility);
        }
    }
    for variable in ir::variables(module).into_iter().filter(|variable| !variable.is_declaration()) {
        // SAFETY: a live global.
        unsafe { LLVMSetComdat(variable.raw(), std::ptr::null_mut()) };
        let name = variable.name();
        let linkage = if table.variables.iter().any(|row| row.symbol == name) {
            LLVMLinkage::LLVMExternalLinkage
        } else {
            LLVMLinkage::LLVMInternalLinkage
        };
        edit::set_visibility(variable, llvm_sys::LLVMVisibility::LLVMDefaultVisibility);
        variable.set_linkage(linkage);
    }
}

/// Inlines functions that are always inlined.
pub fn inline(module: &Module<'_>, machine: &TargetMachine) -> Result<(), LowerError> {
    module
        .run_passes("always-inline", machine, PassBuilderOptions::create())
        .map_err(|message| LowerError::Codegen(message.to_string()))
}

/// Runs the cleanup, adds the table, and generates the object.
pub fn object(
    module: &Module<'_>,
    machine: &TargetMachine,
    table: &CpuTable,
    gate: PassGate<'_>,
) -> Result<Vec<u8>, LowerError> {
    module.verify().map_err(|message| LowerError::Invalid(message.to_string()))?;
    module
        .run_passes(CLEANUP, machine, PassBuilderOptions::create())
        .map_err(|message| LowerError::Codegen(message.to_string()))?;
    add_table(module, table)?;
    let object = generate(module, machine, gate)?;
    if !imports_compiler_rt(&object)? {
        return Ok(object);
    }
    link_runtime(module, COMPILER_RT)?;
    seal(module, table);
    inline(module, machine)?;
    generate(module, machine, gate)
}

fn generate(module: &Module<'_>, machine: &TargetMachine, gate: PassGate<'_>) -> Result<Vec<u8>, LowerError> {
    if let Some(passes) = host::BEFORE_CODE_GENERATION {
        module
            .run_passes(passes, machine, PassBuilderOptions::create())
            .map_err(|message| LowerError::Codegen(message.to_string()))?;
    }
    llvm::emit(module, machine, LLVMCodeGenFileType::LLVMObjectFile, gate).map_err(|error| LowerError::Codegen(error.0))
}

/// Whether an object imports a function of the compiler's run-time library.
fn imports_compiler_rt(object: &[u8]) -> Result<bool, LowerError> {
    let elf = goblin::elf::Elf::parse(object).map_err(|error| LowerError::Codegen(error.to_string()))?;
    let mut undefined = elf.syms.iter().filter(|symbol| symbol.st_shndx == 0);
    Ok(undefined.any(|symbol| {
        let name = elf.strtab.get_at(symbol.st_name).unwrap_or_default();
        !name.is_empty()
            && COMPILER_RT.lines().any(|line| line.starts_with("define hidden") && line.contains(&format!("@{name}(")))
    }))
}

fn add_table(module: &Module<'_>, table: &CpuTable) -> Result<(), LowerError> {
    let json = serde_json::to_vec(table).map_err(|error| LowerError::Table(error.to_string()))?;
    let context = module.get_context();
    let bytes = context.const_string(&json, false);
    let global = module.add_global(bytes.get_type(), None, "__mneme_cpu_table");
    global.set_initializer(&bytes);
    global.set_constant(true);
    global.set_section(Some(cpu_object::SECTION));
    Ok(())
}
