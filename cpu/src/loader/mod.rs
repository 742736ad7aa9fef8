//! The loader of CPU code objects (`ET_REL`).
//!
//! It places objects in memory itself, so users need no linker.
//!
//! An object gets one contiguous mapping of code, read-only data and writable data, in a range that the kernel's `mmap`
//! does not use by itself, so a replay can have the recorded addresses of variables again. Imports are reached through
//! a table of addresses (GOT) and jump stubs (PLT), because the rest of the process is more than 2 GiB away.

mod imports;
mod layout;
mod machine;
mod mapping;
mod relocation;

use goblin::elf::Elf;
use goblin::elf::header::ET_REL;
use mneme_image::cpu_object::{CpuTable, SECTION};
use thiserror::Error;

use machine::Machine;
pub use mapping::PlacementRange;

/// Why an object cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error("the code object is damaged: {0}")]
    Damaged(String),
    #[error("the code object needs '{0}', which the CPU device does not provide")]
    Import(String),
    #[error("the code object has a relocation of type {0}, which the CPU device does not support")]
    Relocation(u32),
    #[error("no memory for the code object: {0}")]
    Memory(#[from] std::io::Error),
}

/// A code object in memory, unmapped on drop.
pub struct Loaded {
    pub table: CpuTable,
    mapping: mapping::ObjectMapping,
    symbols: std::collections::HashMap<String, u64>,
}

impl Loaded {
    /// The address of a symbol that the object defines.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// The addresses of the object, code and data.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.mapping.addresses()
    }
}

/// Whether the bytes begin a relocatable object for this processor. [`load`] checks that it has a table.
pub fn is_code_object(image: &[u8]) -> bool {
    let field = |at: usize| image.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    image.starts_with(b"\x7fELF\x02\x01") && field(16) == Some(ET_REL) && field(18) == Some(Machine::HERE.number())
}

/// Loads an object into the next free slot of a range.
pub fn load(image: &[u8], range: PlacementRange) -> Result<Loaded, LoadError> {
    let damaged = |error: &dyn std::fmt::Display| LoadError::Damaged(error.to_string());
    let elf = Elf::parse(image).map_err(|error| damaged(&error))?;
    if elf.header.e_type != ET_REL || elf.header.e_machine != Machine::HERE.number() {
        return Err(LoadError::Damaged(format!("it is not a relocatable object for {}", Machine::HERE.name())));
    }
    let table = mneme_image::elf::section(image, SECTION)
        .ok_or_else(|| LoadError::Damaged(format!("it has no section {SECTION}")))?;
    let table: CpuTable = serde_json::from_slice(table).map_err(|error| damaged(&error))?;
    if table.version != mneme_image::cpu_object::VERSION {
        return Err(LoadError::Damaged(format!(
            "its table has version {}, this CPU device reads version {}",
            table.version,
            mneme_image::cpu_object::VERSION
        )));
    }
    let layout = layout::ObjectLayout::of(&elf, image, &table.variables)?;
    let mapping = mapping::ObjectMapping::reserve(range, layout.size)?;
    let mut linker = relocation::Linker::new(&elf, &layout, mapping.start())?;
    if let Some(kernel) = table.kernels.iter().find(|kernel| !linker.is_code(&kernel.entry)) {
        return Err(LoadError::Damaged(format!("its kernel {} has no code", kernel.name)));
    }
    let mut contents = vec![0u8; layout.size as usize];
    layout.copy(&elf, image, &mut contents);
    linker.relocate(&mut contents)?;
    let symbols = linker.definitions();
    mapping.fill(&contents, &layout.protections())?;
    Ok(Loaded { table, mapping, symbols })
}

#[cfg(test)]
mod tests;
