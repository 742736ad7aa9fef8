//! Applies the relocations of an object.

use std::collections::HashMap;

use goblin::elf::section_header::{SHF_EXECINSTR, SHN_ABS, SHN_COMMON, SHN_UNDEF};
use goblin::elf::sym::{STB_LOCAL, STB_WEAK};
use goblin::elf::{Elf, Reloc};

use super::layout::{ObjectLayout, SLOT};
use super::machine::{Machine, Place, Target};
use super::{LoadError, imports};

/// A symbol's final value. Imports are reached through their stub or slot.
#[derive(Clone, Copy)]
enum Value {
    Here(u64),
    Import(u64),
    /// The symbol is in a section that is not loaded, or it is an import that no relocation has used yet.
    Unknown,
}

pub struct Linker<'a> {
    elf: &'a Elf<'a>,
    machine: Machine,
    layout: &'a ObjectLayout,
    base: u64,
    values: Vec<Value>,
}

impl<'a> Linker<'a> {
    pub fn new(elf: &'a Elf<'a>, layout: &'a ObjectLayout, base: u64) -> Result<Self, LoadError> {
        let mut values = Vec::with_capacity(elf.syms.len());
        for symbol in &elf.syms {
            values.push(match symbol.st_shndx as u32 {
                SHN_UNDEF => Value::Unknown,
                SHN_ABS => Value::Here(symbol.st_value),
                SHN_COMMON => return Err(LoadError::Damaged("it has common symbols".into())),
                section => match layout.sections.get(&(section as usize)) {
                    Some(offset) => Value::Here(base.wrapping_add(*offset).wrapping_add(symbol.st_value)),
                    None => Value::Unknown,
                },
            });
        }
        Ok(Self { elf, machine: Machine::HERE, layout, base, values })
    }

    /// Addresses of the global symbols that the object defines.
    pub fn definitions(&self) -> HashMap<String, u64> {
        let named = self.elf.syms.iter().zip(&self.values).filter(|(symbol, _)| symbol.st_bind() != STB_LOCAL);
        named
            .filter_map(|(symbol, value)| match value {
                Value::Here(address) => Some((self.elf.strtab.get_at(symbol.st_name)?.to_owned(), *address)),
                _ => None,
            })
            .collect()
    }

    /// Whether a global symbol of this name is the address of code.
    pub fn is_code(&self, name: &str) -> bool {
        let mut named = self.elf.syms.iter().filter(|symbol| self.elf.strtab.get_at(symbol.st_name) == Some(name));
        named.any(|symbol| {
            let section = symbol.st_shndx;
            let header = self.elf.section_headers.get(section).filter(|_| self.layout.sections.contains_key(&section));
            symbol.st_bind() != STB_LOCAL
                && header.is_some_and(|header| {
                    header.sh_flags & u64::from(SHF_EXECINSTR) != 0 && symbol.st_value < header.sh_size
                })
        })
    }

    pub fn relocate(&mut self, contents: &mut [u8]) -> Result<(), LoadError> {
        for (index, relocations) in &self.elf.shdr_relocs {
            let target = self.elf.section_headers.get(*index).map_or(0, |header| header.sh_info as usize);
            let Some(section) = self.layout.sections.get(&target).copied() else { continue };
            let size = self.elf.section_headers[target].sh_size;
            for relocation in relocations.iter() {
                if relocation.r_offset >= size {
                    return Err(LoadError::Damaged("a relocation lies outside its section".into()));
                }
                self.apply(&relocation, section + relocation.r_offset, contents)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, relocation: &Reloc, offset: u64, contents: &mut [u8]) -> Result<(), LoadError> {
        let known = self.machine.relocation(relocation.r_type);
        let (target, field) = known.ok_or(LoadError::Relocation(relocation.r_type))?;
        let table = self.base + self.layout.slots;
        let symbol = relocation.r_sym;
        let address = match target {
            Target::Nothing => return Ok(()),
            Target::Anywhere => self.address(symbol)?,
            Target::Near => self.near(symbol, contents)?,
            Target::Slot => self.slot(symbol, contents)?,
            Target::Table => table,
        };
        let value = address.wrapping_add(relocation.r_addend.unwrap_or(0) as u64);
        field(from(contents, offset), value, Place { address: self.base + offset, table })
    }

    fn value(&mut self, symbol: usize) -> Result<Value, LoadError> {
        let value =
            *self.values.get(symbol).ok_or_else(|| LoadError::Damaged("a relocation names no symbol".into()))?;
        let Value::Unknown = value else { return Ok(value) };
        let entry =
            self.elf.syms.get(symbol).ok_or_else(|| LoadError::Damaged("a relocation names no symbol".into()))?;
        let name = self.elf.strtab.get_at(entry.st_name).unwrap_or_default();
        let value = match imports::address(name) {
            Some(address) if entry.st_shndx as u32 == SHN_UNDEF => Value::Import(address),
            _ if entry.st_bind() == STB_WEAK => Value::Import(0),
            _ if entry.st_shndx as u32 != SHN_UNDEF => {
                return Err(LoadError::Damaged("a relocation refers to a section that is not loaded".into()));
            }
            _ => return Err(LoadError::Import(name.to_owned())),
        };
        self.values[symbol] = value;
        Ok(value)
    }

    /// The symbol's address, at any distance.
    fn address(&mut self, symbol: usize) -> Result<u64, LoadError> {
        Ok(match self.value(symbol)? {
            Value::Here(address) | Value::Import(address) => address,
            Value::Unknown => 0,
        })
    }

    /// An address within the mapping: for an import, that of its stub.
    fn near(&mut self, symbol: usize, contents: &mut [u8]) -> Result<u64, LoadError> {
        let Value::Import(_) = self.value(symbol)? else { return self.address(symbol) };
        let slot = self.slot(symbol, contents)?;
        let stub = self.layout.stubs + symbol as u64 * self.machine.stub_size();
        self.machine.stub(from(contents, stub), self.base + stub, slot)?;
        Ok(self.base + stub)
    }

    /// Fills the symbol's GOT slot and returns the slot's address.
    fn slot(&mut self, symbol: usize, contents: &mut [u8]) -> Result<u64, LoadError> {
        let slot = self.layout.slots + symbol as u64 * SLOT;
        let value = self.address(symbol)?.to_le_bytes();
        contents[slot as usize..][..value.len()].copy_from_slice(&value);
        Ok(self.base + slot)
    }
}

/// The contents from an offset on, empty if it lies behind the end.
fn from(contents: &mut [u8], offset: u64) -> &mut [u8] {
    contents.get_mut(offset as usize..).unwrap_or_default()
}
