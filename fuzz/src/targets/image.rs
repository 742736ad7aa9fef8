//! Targets for images of code.

use mneme_image::ir_section::{self, IrArgument, IrTable, Symbol, SymbolKind, VariableInfo};
use mneme_image::{bitcode, elf};
use mneme_model::hash::checksum;

use super::{FuzzTarget, nothing};

pub const ELF: FuzzTarget = FuzzTarget { name: "elf", seeds: elf_seeds, seal: nothing, run: run_elf };
pub const BITCODE: FuzzTarget = FuzzTarget { name: "bitcode", seeds: bitcode_seeds, seal: nothing, run: run_bitcode };
pub const IR_SECTION: FuzzTarget = FuzzTarget { name: "ir_section", seeds: ir_seeds, seal: seal_ir, run: run_ir };

/// An ELF file with a section table of three rows, one of them of this name.
pub(super) fn with_section(name: &str, contents: &[u8]) -> Vec<u8> {
    let names = format!("\0.shstrtab\0{name}\0");
    let mut whole = vec![0u8; 64];
    whole[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x00");
    whole.extend_from_slice(names.as_bytes());
    whole.resize(whole.len().next_multiple_of(32), 0);
    let data = whole.len() as u64;
    whole.extend_from_slice(contents);
    whole.resize(whole.len().next_multiple_of(32), 0);
    let table = whole.len() as u64;
    let mut row = |name: u32, kind: u32, offset: u64, size: u64| {
        let mut row = [0u8; 64];
        row[..4].copy_from_slice(&name.to_le_bytes());
        row[4..8].copy_from_slice(&kind.to_le_bytes());
        row[0x18..0x20].copy_from_slice(&offset.to_le_bytes());
        row[0x20..0x28].copy_from_slice(&size.to_le_bytes());
        whole.extend_from_slice(&row);
    };
    row(0, 0, 0, 0);
    row(1, 3, 64, names.len() as u64);
    row(11, 1, data, contents.len() as u64);
    for (at, value) in [(16, 1u16), (18, 62), (20, 1), (52, 64), (54, 56), (58, 64), (60, 3), (62, 1)] {
        whole[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    whole[0x28..0x30].copy_from_slice(&table.to_le_bytes());
    whole
}

/// A file with one section of ours, and one that begins like a program.
fn elf_seeds() -> Vec<Vec<u8>> {
    let whole = with_section(".mneme.ir", &[7; 32]);
    assert_eq!(elf::section(&whole, ".mneme.ir"), Some(&[7u8; 32][..]), "the seed is well-formed");
    let own = std::fs::read("/proc/self/exe").map(|bytes| bytes[..bytes.len().min(4096)].to_vec()).unwrap_or_default();
    vec![whole, own]
}

fn run_elf(input: &[u8]) {
    if let Some(content) = elf::section(input, ".mneme.ir") {
        ir_section::decode(content);
    }
    elf::needs(input);
}

/// A module with a triple, made by hand: a module block (number 8, abbreviations of 3 bits) of one record, and a string
/// table.
fn bitcode_seeds() -> Vec<Vec<u8>> {
    let bits = |fields: &[(u64, u32)]| {
        let all: Vec<bool> =
            fields.iter().flat_map(|(value, count)| (0..*count).map(move |index| value >> index & 1 == 1)).collect();
        let words = all.chunks(32).map(|word| word.iter().rev().fold(0u32, |word, bit| word << 1 | u32::from(*bit)));
        words.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    };
    let block = |number, body: &[u8]| {
        let head = bits(&[(1, 2), (number, 8), (3, 4)]);
        [&head[..], &(body.len() as u32 / 4).to_le_bytes(), body].concat()
    };
    // An unabbreviated record (3) of the number 2 and the characters, each of them two groups of six bits.
    let characters = "nvptx64".bytes().flat_map(|byte| [(u64::from(byte & 31 | 32), 6), (u64::from(byte >> 5), 6)]);
    let record: Vec<(u64, u32)> = [(3, 3), (2, 6), (7, 6)].into_iter().chain(characters).collect();
    let module = [&b"BC\xc0\xde"[..], &block(13, &[]), &block(8, &bits(&record)), &block(23, b"_Z4stepP")].concat();
    assert_eq!(bitcode::triple(&module).as_deref(), Some("nvptx64"), "the seed is well-formed");
    let header = [0x0b17_c0de_u32, 0, 20, module.len() as u32, 7].map(u32::to_le_bytes).concat();
    vec![[&module[..], &[0; 4], &module].concat(), [&header[..], &module].concat()]
}

fn run_bitcode(input: &[u8]) {
    bitcode::mentions(input, "_Z4stepPf");
    for module in bitcode::modules(input) {
        bitcode::triple(module);
    }
}

fn ir_seeds() -> Vec<Vec<u8>> {
    let symbol = |name: &str, kind, defined, refs: &[u32]| Symbol {
        defined,
        external: defined,
        hash: 5,
        refs: refs.to_vec(),
        arguments: vec![IrArgument::new("x", "ptr", 0, 8)],
        variable: (kind == SymbolKind::Variable).then_some(VariableInfo { space: 1, size: 64, align: 8, code: false }),
        ..Symbol::exported(name, kind)
    };
    let table = |symbols| IrTable { arch: "sm_90".into(), rdc: true, symbols, ..IrTable::default() };
    let kernel = table(vec![
        symbol("k", SymbolKind::Kernel, true, &[1, 2]),
        symbol("helper", SymbolKind::Function, false, &[]),
        symbol("state", SymbolKind::Variable, true, &[0]),
    ]);
    let helper = table(vec![
        symbol("helper", SymbolKind::Function, true, &[0]),
        symbol("state", SymbolKind::Variable, true, &[]),
    ]);
    let records: Vec<_> =
        [kernel, helper].iter().map(|table| ir_section::encode(table, &[3; 500]).expect("it can be encoded")).collect();
    vec![records.concat(), records[0].clone()]
}

/// The sums of the records that follow each other from the start.
fn seal_ir(input: &mut [u8]) {
    let mut start = 0;
    while let Some(record) = input.get_mut(start..).filter(|record| record.len() >= 40) {
        let number = |index: usize| u64::from_le_bytes(record[8 * index..8 * index + 8].try_into().expect("8 bytes"));
        let (length, payload) = (number(1), number(2).saturating_add(number(3)).saturating_add(40));
        let Some(content) = usize::try_from(payload).ok().and_then(|end| record.get(40..end)) else { return };
        let sum = checksum(content);
        record[32..40].copy_from_slice(&sum.to_le_bytes());
        start = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX).max(8));
    }
}

fn run_ir(input: &[u8]) {
    let units = ir_section::decode(input);
    for unit in &units {
        let _ = unit.bitcode();
    }
    ir_section::closure(&units, "k", "sm_90");
}
