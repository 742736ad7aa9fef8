//! Relocations of AArch64 (ELF for the Arm 64-bit Architecture, sections 5.7.3 to 5.7.10).
//!
//! They are those of position-independent code in the small code model. Writing a field keeps the other bits of the
//! instruction.

use goblin::elf::reloc::{
    R_AARCH64_ABS32, R_AARCH64_ABS64, R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_ADR_GOT_PAGE, R_AARCH64_ADR_PREL_LO21,
    R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_CALL26, R_AARCH64_CONDBR19, R_AARCH64_JUMP26, R_AARCH64_LD_PREL_LO19,
    R_AARCH64_LD64_GOT_LO12_NC, R_AARCH64_LDST8_ABS_LO12_NC, R_AARCH64_LDST16_ABS_LO12_NC,
    R_AARCH64_LDST32_ABS_LO12_NC, R_AARCH64_LDST64_ABS_LO12_NC, R_AARCH64_LDST128_ABS_LO12_NC, R_AARCH64_NONE,
    R_AARCH64_PREL32, R_AARCH64_PREL64, R_AARCH64_TSTBR14,
};

use super::{
    Field, LoadError, Place, Target, absolute, not_independent, outside, put, relative, short_absolute, short_relative,
};

/// `adrp x16, slot`, `ldr x16, [x16, slot]`, `br x16` and padding.
pub const STUB: u64 = 16;
/// The unit of `adrp`, whatever the system's page size.
const PAGE: u64 = 4096;
/// Like `R_AARCH64_PREL32`, of a function. goblin does not name it.
const R_AARCH64_PLT32: u32 = 314;

pub fn relocation(kind: u32) -> Option<(Target, Field)> {
    Some(match kind {
        R_AARCH64_NONE => (Target::Nothing, absolute),
        R_AARCH64_ABS64 => (Target::Anywhere, absolute),
        R_AARCH64_ABS32 => (Target::Anywhere, short_absolute),
        R_AARCH64_PREL64 => (Target::Near, relative),
        R_AARCH64_PREL32 | R_AARCH64_PLT32 => (Target::Near, short_relative),
        R_AARCH64_CALL26 | R_AARCH64_JUMP26 => (Target::Near, jump::<26, 0>),
        R_AARCH64_CONDBR19 | R_AARCH64_LD_PREL_LO19 => (Target::Near, jump::<19, 5>),
        R_AARCH64_TSTBR14 => (Target::Near, jump::<14, 5>),
        R_AARCH64_ADR_PREL_LO21 => (Target::Near, distance),
        R_AARCH64_ADR_PREL_PG_HI21 => (Target::Near, pages),
        R_AARCH64_ADD_ABS_LO12_NC | R_AARCH64_LDST8_ABS_LO12_NC => (Target::Near, in_page::<0>),
        R_AARCH64_LDST16_ABS_LO12_NC => (Target::Near, in_page::<1>),
        R_AARCH64_LDST32_ABS_LO12_NC => (Target::Near, in_page::<2>),
        R_AARCH64_LDST64_ABS_LO12_NC => (Target::Near, in_page::<3>),
        R_AARCH64_LDST128_ABS_LO12_NC => (Target::Near, in_page::<4>),
        R_AARCH64_ADR_GOT_PAGE => (Target::Slot, pages),
        R_AARCH64_LD64_GOT_LO12_NC => (Target::Slot, in_page::<3>),
        _ => return None,
    })
}

pub fn stub(bytes: &mut [u8], address: u64, slot: u64) -> Result<(), LoadError> {
    let instructions = [0x9000_0010u32, 0xf940_0210, 0xd61f_0200, 0xd503_201f];
    for (at, instruction) in instructions.into_iter().enumerate() {
        put(bytes.get_mut(4 * at..).ok_or_else(outside)?, &instruction.to_le_bytes())?;
    }
    let place = Place { address, table: slot };
    pages(bytes, slot, place)?;
    in_page::<3>(&mut bytes[4..], slot, place)
}

/// A distance in instructions, in a field of `BITS` bits that begins at bit `AT`.
fn jump<const BITS: u32, const AT: u32>(bytes: &mut [u8], value: u64, place: Place) -> Result<(), LoadError> {
    let distance = value.wrapping_sub(place.address);
    if !distance.is_multiple_of(4) {
        return Err(LoadError::Damaged("it jumps to an address that is not a multiple of 4".into()));
    }
    insert(bytes, &[(AT, BITS)], fitting(distance as i64 >> 2, BITS)?)
}

/// A distance in bytes, for `adr`.
fn distance(bytes: &mut [u8], value: u64, place: Place) -> Result<(), LoadError> {
    address(bytes, value.wrapping_sub(place.address) as i64)
}

/// The distance from the instruction's page to the target's, for `adrp`.
fn pages(bytes: &mut [u8], value: u64, place: Place) -> Result<(), LoadError> {
    address(bytes, (value & !(PAGE - 1)).wrapping_sub(place.address & !(PAGE - 1)) as i64 >> 12)
}

fn address(bytes: &mut [u8], distance: i64) -> Result<(), LoadError> {
    insert(bytes, &[(29, 2), (5, 19)], fitting(distance, 21)?)
}

/// The offset in the target's page, for an instruction that counts in powers of two.
fn in_page<const SCALE: u32>(bytes: &mut [u8], value: u64, _: Place) -> Result<(), LoadError> {
    let within = (value % PAGE) as u32;
    if !within.is_multiple_of(1 << SCALE) {
        return Err(LoadError::Damaged("it accesses a misaligned address".into()));
    }
    insert(bytes, &[(10, 12)], within >> SCALE)
}

/// Checks that a signed number fits into a number of bits.
fn fitting(value: i64, bits: u32) -> Result<u32, LoadError> {
    let most = 1i64 << (bits - 1);
    if (-most..most).contains(&value) { Ok(value as u32) } else { Err(not_independent()) }
}

/// Puts a number into parts of an instruction, lowest first. A part is its first bit and its number of bits.
fn insert(bytes: &mut [u8], parts: &[(u32, u32)], mut value: u32) -> Result<(), LoadError> {
    let field = bytes.first_chunk().ok_or_else(outside)?;
    let mut instruction = u32::from_le_bytes(*field);
    for (at, bits) in parts {
        let mask = ((1u32 << bits) - 1) << at;
        instruction = instruction & !mask | value << at & mask;
        value >>= bits;
    }
    put(bytes, &instruction.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 0x2000_0000_1234;

    /// Relocates an instruction at [`HERE`].
    fn relocated(kind: u32, instruction: u32, value: u64) -> Result<u32, LoadError> {
        let mut bytes = instruction.to_le_bytes();
        relocation(kind).unwrap().1(&mut bytes, value, Place { address: HERE, table: 0 })?;
        Ok(u32::from_le_bytes(bytes))
    }

    #[test]
    fn jumps_reach_as_far_as_their_field() {
        let (call, branch, condition, bit) = (0x9400_0000, 0x1400_0000, 0x5400_0001, 0x3608_0003);
        // The results are those of LLVM's assembler, for bl, b, b.ne and tbz w3, #1.
        for (kind, plain, distance, expected) in [
            (R_AARCH64_CALL26, call, 8, 0x9400_0002),
            (R_AARCH64_CALL26, call, -4, 0x97ff_ffff),
            (R_AARCH64_JUMP26, branch, (128 << 20) - 4, 0x15ff_ffff),
            (R_AARCH64_JUMP26, branch, -(128 << 20), 0x1600_0000),
            (R_AARCH64_CONDBR19, condition, 8, 0x5400_0041),
            (R_AARCH64_CONDBR19, condition, -4, 0x54ff_ffe1),
            (R_AARCH64_TSTBR14, bit, 8, 0x3608_0043),
            (R_AARCH64_TSTBR14, bit, -4, 0x360f_ffe3),
        ] {
            let found = relocated(kind, plain, HERE.wrapping_add_signed(distance)).unwrap();
            assert_eq!(found, expected, "{kind} {distance}: {found:#x}");
        }
        for (kind, distance) in [
            (R_AARCH64_CALL26, 128i64 << 20),
            (R_AARCH64_CALL26, -(128 << 20) - 4),
            (R_AARCH64_CALL26, 2),
            (R_AARCH64_CONDBR19, 1 << 20),
            (R_AARCH64_TSTBR14, -(1 << 15) - 4),
            (R_AARCH64_ADR_PREL_LO21, 1 << 20),
            (R_AARCH64_PREL32, 1 << 31),
        ] {
            assert!(relocated(kind, 0, HERE.wrapping_add_signed(distance)).is_err(), "{kind} {distance}");
        }
    }

    #[test]
    fn addresses_are_a_page_and_a_place_in_it() {
        // adrp x0, add x0, x0, and loads of each width from [x0].
        let page = 0x9000_0000;
        assert_eq!(relocated(R_AARCH64_ADR_PREL_PG_HI21, page, HERE & !0xfff).unwrap(), 0x9000_0000);
        assert_eq!(relocated(R_AARCH64_ADR_PREL_PG_HI21, page, HERE + 0x1000).unwrap(), 0xb000_0000);
        assert_eq!(relocated(R_AARCH64_ADR_PREL_PG_HI21, page, HERE - 0x1000).unwrap(), 0xf0ff_ffe0);
        assert_eq!(relocated(R_AARCH64_ADR_GOT_PAGE, page, HERE + 0x4000).unwrap(), 0x9000_0020);
        assert!(relocated(R_AARCH64_ADR_PREL_PG_HI21, page, HERE + (4 << 30)).is_err());
        let value = 0x5000_0abc_dab0;
        for (kind, plain, expected) in [
            (R_AARCH64_ADD_ABS_LO12_NC, 0x9100_0000, 0x912a_c000),
            (R_AARCH64_LDST8_ABS_LO12_NC, 0x3940_0000, 0x396a_c000),
            (R_AARCH64_LDST16_ABS_LO12_NC, 0x7940_0000, 0x7955_6000),
            (R_AARCH64_LDST32_ABS_LO12_NC, 0xb940_0000, 0xb94a_b000),
            (R_AARCH64_LDST64_ABS_LO12_NC, 0xf940_0000, 0xf945_5800),
            (R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc0_0000, 0x3dc2_ac00),
            (R_AARCH64_LD64_GOT_LO12_NC, 0xf940_0000, 0xf945_5800),
        ] {
            let found = relocated(kind, plain, value).unwrap();
            assert_eq!(found, expected, "{kind}: {found:#x}");
        }
        assert!(relocated(R_AARCH64_LDST64_ABS_LO12_NC, 0xf940_0000, value + 4).is_err());
    }

    #[test]
    fn data_refers_to_code_and_data() {
        let place = Place { address: HERE, table: 0 };
        let mut bytes = [0; 8];
        relocation(R_AARCH64_ABS64).unwrap().1(&mut bytes, HERE + 77, place).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), HERE + 77);
        relocation(R_AARCH64_PREL64).unwrap().1(&mut bytes, HERE - 77, place).unwrap();
        assert_eq!(i64::from_le_bytes(bytes), -77);
        assert_eq!(relocated(R_AARCH64_PREL32, 0, HERE + 77).unwrap(), 77);
        assert!(relocated(R_AARCH64_ABS32, 0, HERE).is_err(), "it has 46 bits");
        assert!(relocation(R_AARCH64_ABS64).unwrap().1(&mut bytes[..7], HERE, place).is_err());
    }

    #[test]
    fn a_stub_jumps_through_its_slot() {
        let mut bytes = [0; STUB as usize];
        stub(&mut bytes, 0x1_0000, 0x2_1238).unwrap();
        let instructions: Vec<u32> = bytes.chunks(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect();
        // adrp x16, 0x21000; ldr x16, [x16, #0x238]; br x16; nop
        assert_eq!(instructions, [0xb000_0090, 0xf941_1e10, 0xd61f_0200, 0xd503_201f]);
        assert!(stub(&mut bytes[..12], 0, 0).is_err());
    }
}
