//! Lowers device IR to a code object of the CPU device.
//!
//! docs/reference/cpu-code-objects.md describes the code object.
//!
//! The input is a module for NVPTX or AMDGCN after its pipeline. The steps: constructs that only a GPU has become
//! functions over the CPU device's imports (`intrinsics`, `ptx`, `library`); lanes that rely on it run in lockstep
//! (`lockstep`); the closure of each kernel is examined (`closure`); shared memory becomes offsets (`shared`); pointers
//! get the CPU's width (`narrow`); kernels get entries (`entry`); loops that may wait for other threads yield
//! (`waits`); the places where lanes converge are numbered (`sites`); and code is generated (`emit`).

mod closure;
mod emit;
mod entry;
mod exits;
mod graph;
mod hazards;
mod intrinsics;
pub mod library;
mod lockstep;
mod narrow;
mod operations;
mod pointers;
mod ptx;
mod races;
mod replace;
mod shared;
mod sites;
mod variables;
mod waits;
mod wave;

use inkwell::module::Module;
use mneme_image::cpu_object::{self, CpuTable, Refusal};
use mneme_model::compile_options::CompileOptions;

use crate::llvm::{self, PassGate};
use entry::EntryLayout;
pub use lockstep::Lockstep;

pub use crate::error::LowerError;

/// The address space of shared memory, the same for all GPUs.
const SHARED: u32 = 3;

/// Options of the lowering.
#[derive(Clone, Copy, Debug, Default)]
pub struct LowerOptions {
    /// The code generation level of the CPU's back end, 0 to 3.
    pub codegen_opt: u8,
    pub lockstep: Lockstep,
}

impl LowerOptions {
    /// Options for a level, with the lockstep from the environment.
    pub fn new(codegen_opt: u8) -> Self {
        Self { codegen_opt, lockstep: Lockstep::from_environment() }
    }

    /// The same for code of a program, whose own level counts as 1 at least.
    ///
    /// At level 0 the back end selects single instructions if it can, and otherwise whole blocks, and only for blocks
    /// does it fuse products into sums. Whether it can depends on how the code refers to variables. From level 1 on it
    /// always selects blocks, so the application and its replays fuse the same products.
    pub fn of_program(codegen_opt: u8, application: Option<&CompileOptions>) -> Self {
        let own = application.is_some_and(|application| application.codegen_opt() == codegen_opt);
        Self::new(if own { codegen_opt.max(1) } else { codegen_opt })
    }
}

/// Lowers a module to a relocatable object with its table.
///
/// `gate` decides about the passes of code generation. Kernels that need features the CPU device lacks are listed in
/// the table as refused, and the others stay usable.
///
/// # Errors
/// If LLVM cannot generate code for the module.
pub fn lower<'ctx>(module: Module<'ctx>, options: &LowerOptions, gate: PassGate<'_>) -> Result<Vec<u8>, LowerError> {
    lower_part(module, options, Vec::new(), gate)
}

/// Like [`lower`], for a module from which refused kernels were removed before.
///
/// # Errors
/// As for [`lower`].
pub fn lower_part<'ctx>(
    module: Module<'ctx>,
    options: &LowerOptions,
    refused: Vec<Refusal>,
    gate: PassGate<'_>,
) -> Result<Vec<u8>, LowerError> {
    let machine = emit::target_machine(options.codegen_opt)?;
    exits::lower(&module)?;
    variables::show_private(&module);
    variables::define_builtin(&module);
    let mut replaced = replace::replace(&module)?;
    lockstep::insert(&module, options.lockstep, &mut replaced);
    let kernels = closure::kernels(&module, &replaced);
    let interfaces: Vec<EntryLayout> = kernels.iter().map(|kernel| EntryLayout::of(&module, kernel.function)).collect();
    let extents = shared::lower(&module, &kernels);

    hazards::guard(&module);
    let is_amdgcn = is_amdgcn(&module);
    emit::retarget(&module, &machine);
    if is_amdgcn {
        narrow::lower(&module);
        llvm::widen_scopes(&module);
    }
    let mut table =
        CpuTable { version: cpu_object::VERSION, variables: variables::list(&module), refused, ..CpuTable::default() };
    for ((kernel, interface), extent) in kernels.iter().zip(interfaces).zip(extents) {
        if let Some(reason) = &kernel.refusal {
            table.refused.push(Refusal { kernel: kernel.name.clone(), reason: reason.clone() });
            entry::remove(&module, kernel);
        } else {
            table.kernels.push(entry::define(&module, kernel, interface, extent));
        }
    }
    emit::link_runtime(&module, &replaced.definitions)?;
    emit::seal(&module, &table);
    emit::inline(&module, &machine)?;
    waits::insert(&module)?;
    sites::number(&module, &machine, is_amdgcn)?;
    emit::object(&module, &machine, &table, gate)
}

/// Whether a module is code for AMD GPUs.
fn is_amdgcn(module: &Module<'_>) -> bool {
    module.get_triple().as_str().to_bytes().starts_with(b"amdgcn")
}

#[cfg(test)]
pub(crate) mod tests;
