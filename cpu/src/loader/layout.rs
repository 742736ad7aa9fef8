//! The layout of an object's sections in its mapping.
//!
//! Code and stubs come first, then read-only data and the GOT, then writable data. All variables are writable, even
//! constant ones, because the host sets them.

use std::collections::{HashMap, HashSet};

use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHT_NOBITS};
use goblin::elf::{Elf, SectionHeader};
use mneme_image::cpu_object::CpuVariable;

use super::LoadError;
use super::machine::Machine;
use crate::architecture::PAGE;

/// The compiler's code models reach 2 GiB.
const MAX_SIZE: u64 = 1 << 31;
/// Bytes of one GOT slot.
pub const SLOT: u64 = 8;

pub struct ObjectLayout {
    /// The whole size in bytes.
    pub size: u64,
    /// The offset of each placed section.
    pub sections: HashMap<usize, u64>,
    /// The offset of the stubs. Each symbol of the object has one, used or not.
    pub stubs: u64,
    /// The offset of the GOT, with a slot for each symbol.
    pub slots: u64,
    read_only: u64,
    writable: u64,
}

fn placed(elf: &Elf<'_>, header: &SectionHeader) -> bool {
    let flags = header.sh_flags;
    // Nothing unwinds through kernels.
    flags & u64::from(SHF_ALLOC) != 0
        && header.sh_size > 0
        && elf.shdr_strtab.get_at(header.sh_name) != Some(".eh_frame")
}

impl ObjectLayout {
    /// Places the sections of an object that has these variables.
    pub fn of(elf: &Elf<'_>, image: &[u8], variables: &[CpuVariable]) -> Result<Self, LoadError> {
        let names: HashSet<&str> = variables.iter().map(|variable| variable.symbol.as_str()).collect();
        let named =
            elf.syms.iter().filter(|symbol| elf.strtab.get_at(symbol.st_name).is_some_and(|it| names.contains(it)));
        let of_variables: HashSet<usize> = named.map(|symbol| symbol.st_shndx).collect();
        let symbols = elf.syms.len() as u64;
        let mut sections = HashMap::new();
        let mut offset = 0u64;
        let mut place = |offset: &mut u64, wanted: &dyn Fn(usize, u64) -> bool| -> Result<(), LoadError> {
            for (index, header) in elf
                .section_headers
                .iter()
                .enumerate()
                .filter(|(index, header)| placed(elf, header) && wanted(*index, header.sh_flags))
            {
                if header.sh_flags & u64::from(SHF_TLS) != 0 {
                    return Err(LoadError::Damaged("it has thread-local data".into()));
                }
                if header.sh_type != SHT_NOBITS && header.file_range().and_then(|range| image.get(range)).is_none() {
                    return Err(LoadError::Damaged(format!("section {index} lies outside the file")));
                }
                if header.sh_size > MAX_SIZE || header.sh_addralign > PAGE {
                    return Err(LoadError::Damaged(format!("section {index} is too large or too strictly aligned")));
                }
                *offset = offset.next_multiple_of(header.sh_addralign.max(1));
                sections.insert(index, *offset);
                *offset += header.sh_size;
            }
            Ok(())
        };
        let (write, execute) = (u64::from(SHF_WRITE), u64::from(SHF_EXECINSTR));
        let is_writable = |index: usize, flags: u64| flags & write != 0 || of_variables.contains(&index);
        place(&mut offset, &|_, flags| flags & execute != 0)?;
        let stub = Machine::HERE.stub_size();
        let stubs = offset.next_multiple_of(stub);
        offset = (stubs + symbols * stub).next_multiple_of(PAGE);
        let read_only = offset;
        place(&mut offset, &|index, flags| flags & execute == 0 && !is_writable(index, flags))?;
        let slots = offset.next_multiple_of(SLOT);
        offset = (slots + symbols * SLOT).next_multiple_of(PAGE);
        let writable = offset;
        place(&mut offset, &|index, flags| flags & execute == 0 && is_writable(index, flags))?;
        let size = offset.next_multiple_of(PAGE);
        if size > MAX_SIZE {
            return Err(LoadError::Damaged("it is larger than 2 GiB".into()));
        }
        Ok(Self { size, sections, stubs, slots, read_only, writable })
    }

    /// Copies the sections' bytes to their places.
    pub fn copy(&self, elf: &Elf<'_>, image: &[u8], contents: &mut [u8]) {
        for (index, offset) in &self.sections {
            let header = &elf.section_headers[*index];
            let bytes = header.file_range().filter(|_| header.sh_type != SHT_NOBITS).and_then(|range| image.get(range));
            if let Some(bytes) = bytes {
                contents[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// Offset, size and protection of the three parts, without empty ones.
    pub fn protections(&self) -> Vec<(u64, u64, i32)> {
        let parts = [
            (0, self.read_only, libc::PROT_READ | libc::PROT_EXEC),
            (self.read_only, self.writable - self.read_only, libc::PROT_READ),
            (self.writable, self.size - self.writable, libc::PROT_READ | libc::PROT_WRITE),
        ];
        parts.into_iter().filter(|(_, size, _)| *size > 0).collect()
    }
}
