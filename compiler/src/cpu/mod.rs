//! Lowering of device IR to a code object of the CPU device.
//!
//! docs/how-it-works/cpu-device.md describes the code object.
//!
//! The module comes in as its pipeline left it, for NVPTX or AMDGCN. What only a GPU has is replaced by functions over
//! the CPU device's imports (`intrinsics`, `ptx`, `library`); lanes that rely on it run in step (`lockstep`); each
//! kernel is examined for what it reaches (`closure`); shared memory becomes offsets (`shared`); pointers get the CPU's
//! width (`narrow`); kernels get entries (`entry`); loops that may wait for other threads yield (`waits`); the places
//! where lanes converge are numbered (`sites`); the CPU's code is generated (`emit`).

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
use mneme_core::compile_options::CompileOptions;
use mneme_core::image::cpu_object::{self, CpuTable, Refusal};

use crate::llvm::{self, PassGate};

use entry::EntryLayout;
pub use lockstep::Lockstep;

pub use crate::error::LowerError;

/// Address space of shared memory, the same for all GPUs.
const SHARED: u32 = 3;

/// How to lower.
#[derive(Clone, Copy, Debug, Default)]
pub struct LowerOptions {
    /// Code generation level of the CPU's back end, 0 to 3.
    pub codegen_opt: u8,
    pub lockstep: Lockstep,
}

impl LowerOptions {
    /// At a level, with the lockstep that the environment asks for.
    pub fn new(codegen_opt: u8) -> Self {
        Self { codegen_opt, lockstep: Lockstep::from_environment() }
    }

    /// The same for code of a program: its own level is 1 at least.
    ///
    /// At 0 the back end takes each instruction by itself where it can, and a whole block at once where it cannot,
    /// which alone fuses products into sums. Where it can depends on what the code refers to variables by; from 1 on it
    /// takes blocks, and fuses the same in the application and in its replays.
    pub fn of_program(codegen_opt: u8, application: Option<&CompileOptions>) -> Self {
        let own = application.is_some_and(|application| application.codegen_opt() == codegen_opt);
        Self::new(if own { codegen_opt.max(1) } else { codegen_opt })
    }
}

/// Lowers a module to a relocatable object with its table.
///
/// `gate` is asked about the passes of code generation. Kernels that need what the CPU device does not have are listed
/// in the table as refused; the others stay usable.
///
/// # Errors
/// LLVM cannot generate code for the module.
pub fn lower<'ctx>(module: Module<'ctx>, options: &LowerOptions, gate: PassGate<'_>) -> Result<Vec<u8>, LowerError> {
    lower_part(module, options, Vec::new(), gate)
}

/// [`lower`], where the module lacks kernels that were refused before.
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

/// Whether a module is code for AMD's GPUs.
fn is_amdgcn(module: &Module<'_>) -> bool {
    module.get_triple().as_str().to_bytes().starts_with(b"amdgcn")
}

#[cfg(test)]
pub(crate) mod tests;
