//! The processors for which objects are made.
//!
//! Each has its own relocations, and its own stubs through which code reaches imports. All of this is arithmetic on
//! bytes, so every build contains and tests all processors.

mod aarch64;
mod x86_64;

use goblin::elf::header::{EM_AARCH64, EM_X86_64};

use super::LoadError;

/// A processor, as in an object's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    X86_64,
    Aarch64,
}

/// The target of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// None: the relocation has no effect.
    Nothing,
    /// The symbol, at any distance.
    Anywhere,
    /// The symbol or, for an import, its stub, which lies within the object.
    Near,
    /// The symbol's slot in the GOT.
    Slot,
    /// The GOT itself.
    Table,
}

/// The location of a field.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub address: u64,
    /// The GOT.
    pub table: u64,
}

/// Writes the target's address, which includes the addend, into a field at the start of the bytes.
pub type Field = fn(&mut [u8], u64, Place) -> Result<(), LoadError>;

impl Machine {
    /// The processor of this process.
    pub const HERE: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// The number in ELF headers.
    pub const fn number(self) -> u16 {
        match self {
            Self::X86_64 => EM_X86_64,
            Self::Aarch64 => EM_AARCH64,
        }
    }

    /// The name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "AArch64",
        }
    }

    /// The effect of a relocation of a type (`r_type`), `None` if the type is unknown.
    pub fn relocation(self, kind: u32) -> Option<(Target, Field)> {
        match self {
            Self::X86_64 => x86_64::relocation(kind),
            Self::Aarch64 => aarch64::relocation(kind),
        }
    }

    /// Bytes of a stub.
    pub const fn stub_size(self) -> u64 {
        match self {
            Self::X86_64 => x86_64::STUB,
            Self::Aarch64 => aarch64::STUB,
        }
    }

    /// Writes a stub for an address. It jumps to the address in the slot at `slot`.
    ///
    /// # Errors
    /// If they are too far apart.
    pub fn stub(self, bytes: &mut [u8], address: u64, slot: u64) -> Result<(), LoadError> {
        match self {
            Self::X86_64 => x86_64::stub(bytes, address, slot),
            Self::Aarch64 => aarch64::stub(bytes, address, slot),
        }
    }
}

fn absolute(bytes: &mut [u8], value: u64, _: Place) -> Result<(), LoadError> {
    put(bytes, &value.to_le_bytes())
}

fn relative(bytes: &mut [u8], value: u64, place: Place) -> Result<(), LoadError> {
    put(bytes, &value.wrapping_sub(place.address).to_le_bytes())
}

fn short_absolute(bytes: &mut [u8], value: u64, _: Place) -> Result<(), LoadError> {
    put(bytes, &u32::try_from(value).map_err(|_| not_independent())?.to_le_bytes())
}

fn short_relative(bytes: &mut [u8], value: u64, place: Place) -> Result<(), LoadError> {
    put(bytes, &signed(value.wrapping_sub(place.address))?)
}

fn signed(value: u64) -> Result<[u8; 4], LoadError> {
    i32::try_from(value as i64).map(i32::to_le_bytes).map_err(|_| not_independent())
}

fn not_independent() -> LoadError {
    LoadError::Damaged("it is not position independent".into())
}

fn put(bytes: &mut [u8], value: &[u8]) -> Result<(), LoadError> {
    let place = bytes.get_mut(..value.len()).ok_or_else(outside)?;
    place.copy_from_slice(value);
    Ok(())
}

fn outside() -> LoadError {
    LoadError::Damaged("a relocation lies outside the object".into())
}
