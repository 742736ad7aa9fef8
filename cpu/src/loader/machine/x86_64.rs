//! Relocations of x86-64 (System V ABI, AMD64 supplement, section 4.4).

use goblin::elf::reloc::{
    R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_GOTOFF64, R_X86_64_GOTPC32, R_X86_64_GOTPC64, R_X86_64_GOTPCREL,
    R_X86_64_GOTPCRELX, R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PC64, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX,
};

use super::{Field, LoadError, Place, Target, absolute, put, relative, short_absolute, short_relative, signed};

/// `jmp *slot(%rip)` and padding.
pub const STUB: u64 = 8;

pub fn relocation(kind: u32) -> Option<(Target, Field)> {
    Some(match kind {
        R_X86_64_NONE => (Target::Nothing, absolute),
        R_X86_64_64 => (Target::Anywhere, absolute),
        R_X86_64_PC64 => (Target::Near, relative),
        R_X86_64_PC32 | R_X86_64_PLT32 => (Target::Near, short_relative),
        R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX => (Target::Slot, short_relative),
        R_X86_64_GOTOFF64 => (Target::Near, from_table),
        R_X86_64_GOTPC32 => (Target::Table, short_relative),
        R_X86_64_GOTPC64 => (Target::Table, relative),
        R_X86_64_32 => (Target::Anywhere, short_absolute),
        R_X86_64_32S => (Target::Anywhere, short_signed),
        _ => return None,
    })
}

fn from_table(bytes: &mut [u8], value: u64, place: Place) -> Result<(), LoadError> {
    put(bytes, &value.wrapping_sub(place.table).to_le_bytes())
}

fn short_signed(bytes: &mut [u8], value: u64, _: Place) -> Result<(), LoadError> {
    put(bytes, &signed(value)?)
}

pub fn stub(bytes: &mut [u8], address: u64, slot: u64) -> Result<(), LoadError> {
    let [a, b, c, d] = signed(slot.wrapping_sub(address + 6))?;
    put(bytes, &[0xff, 0x25, a, b, c, d])
}
