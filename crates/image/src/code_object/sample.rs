//! A small code object made by hand, for tests and for fuzzing.

use rmpv::Value;

/// Rows of a section table and of a symbol table, bytes.
const ROW: usize = 64;
const HEADER: usize = 64;

/// A code object of this version with these `e_flags`: a kernel `k`, the variable `total` and the constant `table`.
pub fn code_object(version: u32, flags: u32) -> Vec<u8> {
    let mut note = Vec::new();
    rmpv::encode::write_value(&mut note, &metadata()).expect("a vector takes everything");
    let mut notes = [7u32, note.len() as u32, 32].map(u32::to_le_bytes).concat();
    notes.extend(b"AMDGPU\0\0");
    notes.extend(note);
    notes.resize(notes.len().next_multiple_of(4), 0);
    let names = b"\0k\0k.kd\0total\0table\0";
    // Name, type and binding, section, place, size.
    let symbols = [
        (0, 0u8, 0u16, 0u64, 0u64),
        (1, 0x12, 5, 0, 64),
        (3, 0x11, 4, 0, 64),
        (8, 0x11, 6, 256, 8),
        (14, 0x11, 4, 64, 16),
    ];
    let symbol = |(name, info, section, place, size): &(u32, u8, u16, u64, u64)| {
        let mut row = name.to_le_bytes().to_vec();
        row.extend([*info, 0]);
        row.extend(section.to_le_bytes());
        row.extend([place.to_le_bytes(), size.to_le_bytes()].concat());
        row
    };
    let symbols: Vec<u8> = symbols.iter().flat_map(symbol).collect();
    let section_names = b"\0.note\0.dynsym\0.dynstr\0.rodata\0.text\0.bss\0.shstrtab\0";
    /// Name, type, flags, contents, linked section, size of an entry.
    type Section<'a> = (u32, u32, u64, &'a [u8], u32, u64);
    let sections: [Section<'_>; 8] = [
        (0, 0, 0, b"", 0, 0),
        (1, 7, 2, &notes, 0, 0),
        (7, 2, 2, &symbols, 3, 24),
        (15, 3, 2, names, 0, 0),
        (23, 1, 2, &[0; 80], 0, 0),
        (31, 1, 6, &[0; 64], 0, 0),
        (37, 8, 3, b"", 0, 0),
        (42, 3, 0, section_names, 0, 0),
    ];
    let mut image = vec![0; HEADER];
    let mut table = Vec::new();
    for (name, kind, flags, contents, link, entry) in sections {
        image.resize(image.len().next_multiple_of(8), 0);
        let at = image.len() as u64;
        image.extend(contents);
        let size = if kind == 8 { 8 } else { contents.len() as u64 };
        table.extend([name, kind].map(u32::to_le_bytes).concat());
        table.extend([flags, at, at, size].map(u64::to_le_bytes).concat());
        table.extend([link, 1].map(u32::to_le_bytes).concat());
        table.extend([4, entry].map(u64::to_le_bytes).concat());
    }
    image.resize(image.len().next_multiple_of(8), 0);
    let at = image.len() as u64;
    debug_assert_eq!(table.len(), 8 * ROW);
    image.extend(table);
    image[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x40");
    image[8] = version.saturating_sub(2) as u8;
    image[40..48].copy_from_slice(&at.to_le_bytes());
    image[48..52].copy_from_slice(&flags.to_le_bytes());
    for (place, value) in [(16, 3u16), (18, 224), (20, 1), (52, 64), (54, 56), (58, 64), (60, 8), (62, 7)] {
        image[place..place + 2].copy_from_slice(&value.to_le_bytes());
    }
    image
}

fn map(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| (Value::from(*name), value.clone())).collect())
}

fn metadata() -> Value {
    let argument = |offset: u32, size: u32, kind: &str| {
        map(&[(".offset", offset.into()), (".size", size.into()), (".value_kind", kind.into())])
    };
    let arguments =
        vec![argument(0, 8, "global_buffer"), argument(8, 4, "by_value"), argument(16, 4, "hidden_block_count_x")];
    let numbers = [
        (".kernarg_segment_size", 24),
        (".kernarg_segment_align", 8),
        (".group_segment_fixed_size", 1024),
        (".private_segment_fixed_size", 16),
        (".wavefront_size", 64),
        (".max_flat_workgroup_size", 256),
        (".sgpr_count", 30),
        (".vgpr_count", 40),
        (".agpr_count", 8),
        (".sgpr_spill_count", 0),
        (".vgpr_spill_count", 2),
    ];
    let mut fields: Vec<(&str, Value)> = numbers.map(|(name, number)| (name, Value::from(number))).into();
    fields.extend([
        (".name", "k".into()),
        (".symbol", "k.kd".into()),
        (".args", Value::Array(arguments)),
        (".reqd_workgroup_size", Value::Array([64, 2, 1].map(Value::from).into())),
    ]);
    map(&[
        ("amdhsa.kernels", Value::Array(vec![map(&fields)])),
        ("amdhsa.version", Value::Array(vec![1.into(), 2.into()])),
    ])
}
