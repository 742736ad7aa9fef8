//! Adds section `.mneme.ir` to an ELF object and changes nothing else in it.
//!
//! In a host object the section is `SHF_ALLOC`, because `llvm-strip` drops sections that are not, and `SHF_GNU_RETAIN`,
//! because `--gc-sections` drops sections without references. objcopy cannot set the latter. In a code object, which is
//! already linked, the section has neither flag and is in no segment, because loaders do not need it.
//!
//! Layout: the file as before, the section's data, the section name table with one more name, the section header table
//! with one more row (System V ABI, chapter 4).

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use mneme_image::code_object;
use mneme_image::elf::section;
use mneme_image::ir_section::SECTION;
use mneme_image::sum;
use mneme_system::files::{self, FileAccess};

/// The sections in which compilers for CUDA and HIP put the image of a unit that is not linked with others.
const IMAGES: [&str; 2] = [".nv_fatbin", ".hip_fatbin"];
const HEADER: usize = 64;
const ROW: usize = 64;
const SHT_PROGBITS: u32 = 1;
const SHF_ALLOC: u64 = 1 << 1;
const SHF_GNU_RETAIN: u64 = 1 << 21;
const EI_OSABI: usize = 7;
const ELFOSABI_NONE: u8 = 0;
const ELFOSABI_GNU: u8 = 3;
/// From this number of sections on, the count in the ELF header is 0, and row 0 has it.
const SHN_LORESERVE: u64 = 0xff00;
const SHN_XINDEX: u64 = 0xffff;

/// Adds the section with content `data` to the object at `path`, which is replaced atomically.
pub fn append(path: &Path, data: &[u8]) -> anyhow::Result<()> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        // A configure script may compile to /dev/null.
        return Ok(());
    }
    let object = fs::read(path)?;
    replace(path, &with_section(&object, data)?)
}

/// Replaces a file atomically and keeps its permissions.
pub fn replace(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    files::replace(path, contents, FileAccess::Kept).with_context(|| format!("{} cannot be replaced", path.display()))
}

/// The checksums of the device images in the object at `path`.
pub fn images(path: &Path) -> anyhow::Result<Vec<u64>> {
    let object = fs::read(path)?;
    let sections = IMAGES.iter().filter_map(|name| section(&object, name));
    Ok(sections.flat_map(sum::of_image_and_parts).collect())
}

/// Returns `object` with section [`SECTION`] added.
pub fn with_section(object: &[u8], data: &[u8]) -> anyhow::Result<Vec<u8>> {
    ensure!(
        object.len() >= HEADER && object.starts_with(b"\x7fELF\x02\x01"),
        "it is not a 64-bit little-endian ELF object (link-time optimisation?)"
    );
    let is_code_object = code_object::is_code_object(object);
    ensure!(is_code_object || number(object, 16, 2)? == 1, "it is not a relocatable ELF object");
    let table_offset = number(object, 0x28, 8)? as usize;
    ensure!(table_offset != 0 && number(object, 0x3a, 2)? == ROW as u64, "it has no section header table");
    let mut count = number(object, 0x3c, 2)?;
    if count == 0 {
        count = number(object, table_offset + 0x20, 8)?;
    }
    let mut names_index = number(object, 0x3e, 2)?;
    if names_index == SHN_XINDEX {
        names_index = number(object, table_offset + 0x28, 4)?;
    }
    let table_size = usize::try_from(count)?.checked_mul(ROW).context("its section header table is damaged")?;
    let table_end = table_offset.checked_add(table_size).context("its section header table is damaged")?;
    let mut rows = object.get(table_offset..table_end).context("its section header table is damaged")?.to_vec();
    ensure!(names_index < count, "its section name table is damaged");
    let names_row = names_index as usize * ROW;
    let names_offset = number(&rows, names_row + 0x18, 8)? as usize;
    let names_size = number(&rows, names_row + 0x20, 8)? as usize;
    let names_end = names_offset.checked_add(names_size).context("its section name table is damaged")?;
    let mut names = object.get(names_offset..names_end).context("its section name table is damaged")?.to_vec();
    for row in rows.chunks_exact(ROW) {
        let name = names.get(number(row, 0, 4)? as usize..).unwrap_or_default();
        if name.strip_prefix(SECTION.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)) {
            bail!("it has a section {SECTION} already");
        }
    }

    // Compilers put the table at the very end. Then it is replaced, otherwise left in place.
    let mut whole = if table_end == object.len() { object[..table_offset].to_vec() } else { object.to_vec() };
    whole.resize(whole.len().next_multiple_of(8), 0);
    let data_offset = whole.len() as u64;
    whole.extend_from_slice(data);

    let name = names.len() as u32;
    names.extend_from_slice(SECTION.as_bytes());
    names.push(0);
    put(&mut rows, names_row + 0x18, &(whole.len() as u64).to_le_bytes());
    put(&mut rows, names_row + 0x20, &(names.len() as u64).to_le_bytes());
    whole.extend_from_slice(&names);

    let mut row = [0; ROW];
    put(&mut row, 0x00, &name.to_le_bytes());
    put(&mut row, 0x04, &SHT_PROGBITS.to_le_bytes());
    let flags = if is_code_object { 0 } else { SHF_ALLOC | SHF_GNU_RETAIN };
    put(&mut row, 0x08, &flags.to_le_bytes());
    put(&mut row, 0x18, &data_offset.to_le_bytes());
    put(&mut row, 0x20, &(data.len() as u64).to_le_bytes());
    put(&mut row, 0x30, &8u64.to_le_bytes());
    rows.extend_from_slice(&row);
    let count = count + 1;
    let short_count = if count < SHN_LORESERVE { count as u16 } else { 0 };
    put(&mut rows, 0x20, &(if short_count == 0 { count } else { 0 }).to_le_bytes());

    whole.resize(whole.len().next_multiple_of(8), 0);
    let table_offset = whole.len() as u64;
    whole.extend_from_slice(&rows);
    put(&mut whole, 0x28, &table_offset.to_le_bytes());
    put(&mut whole, 0x3c, &short_count.to_le_bytes());
    if whole[EI_OSABI] == ELFOSABI_NONE {
        // SHF_GNU_RETAIN has its meaning only under this ABI.
        whole[EI_OSABI] = ELFOSABI_GNU;
    }
    Ok(whole)
}

/// The little-endian number of `size` bytes at `at`.
fn number(bytes: &[u8], at: usize, size: usize) -> anyhow::Result<u64> {
    let field = at.checked_add(size).and_then(|end| bytes.get(at..end)).context("it is cut short")?;
    Ok(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin::elf::Elf;
    use proptest::prelude::*;

    /// An object as LLVM writes it, with functions, data, relocations and debug-like sections.
    fn object() -> Vec<u8> {
        use inkwell::OptimizationLevel;
        use inkwell::memory_buffer::MemoryBuffer;
        use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine};
        Target::initialize_native(&InitializationConfig::default()).unwrap();
        let context = inkwell::context::Context::create();
        let text = "@d = global [3 x i32] [i32 1, i32 2, i32 3], section \"special\"\ndeclare void @g(ptr)\ndefine void @f() { call void @g(ptr @d) ret void }\0";
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
        let module = context.create_module_from_ir(buffer).unwrap();
        let triple = TargetMachine::get_default_triple();
        let machine = Target::from_triple(&triple)
            .unwrap()
            .create_target_machine(&triple, "", "", OptimizationLevel::Default, RelocMode::PIC, CodeModel::Default)
            .unwrap();
        machine.write_to_memory_buffer(&module, FileType::Object).unwrap().as_slice().to_vec()
    }

    fn sections(bytes: &[u8]) -> Vec<(String, u64, u64, u32, u32, Vec<u8>)> {
        let elf = Elf::parse(bytes).unwrap();
        elf.section_headers
            .iter()
            .map(|row| {
                let name = elf.shdr_strtab.get_at(row.sh_name).unwrap().to_owned();
                let content = row.file_range().map(|range| bytes[range].to_vec()).unwrap_or_default();
                (name, row.sh_flags, row.sh_addralign, row.sh_link, row.sh_info, content)
            })
            .collect()
    }

    #[test]
    fn every_other_section_stays_as_it_was() {
        let object = object();
        let before = sections(&object);
        let after = sections(&with_section(&object, b"some records").unwrap());
        assert_eq!(after.len(), before.len() + 1);
        let names = usize::from(Elf::parse(&object).unwrap().header.e_shstrndx);
        for (index, (before, after)) in before.iter().zip(&after).enumerate() {
            if index == names {
                assert!(after.5.starts_with(&before.5));
            } else {
                assert_eq!(before, after);
            }
        }
        let (name, flags, align, _, _, content) = after.last().unwrap();
        assert_eq!(
            (name.as_str(), *flags, *align, content.as_slice()),
            (".mneme.ir", SHF_ALLOC | SHF_GNU_RETAIN, 8, &b"some records"[..])
        );
    }

    #[test]
    fn symbols_and_relocations_still_resolve() {
        let object = object();
        let whole = with_section(&object, &[1; 100]).unwrap();
        let describe = |bytes: &[u8]| {
            let elf = Elf::parse(bytes).unwrap();
            let symbols: Vec<_> = elf
                .syms
                .iter()
                .map(|symbol| (elf.strtab.get_at(symbol.st_name).unwrap().to_owned(), symbol.st_shndx, symbol.st_value))
                .collect();
            let relocations: Vec<_> = elf
                .shdr_relocs
                .iter()
                .flat_map(|(section, list)| list.iter().map(move |one| (*section, one.r_offset, one.r_sym)))
                .collect();
            (symbols, relocations)
        };
        assert_eq!(describe(&object), describe(&whole));
        assert!(!describe(&whole).1.is_empty());
        assert_eq!(whole[EI_OSABI], ELFOSABI_GNU);
    }

    #[test]
    fn a_second_section_and_other_files_are_refused() {
        let whole = with_section(&object(), b"x").unwrap();
        assert!(with_section(&whole, b"y").unwrap_err().to_string().contains("already"));
        assert!(with_section(b"BC\xc0\xde", b"y").is_err());
    }

    #[test]
    fn many_sections_use_the_extended_count() {
        let plain = object();
        let mut many = plain.clone();
        let offset = number(&plain, 0x28, 8).unwrap() as usize;
        let have = number(&plain, 0x3c, 2).unwrap() as usize;
        // Rows of empty sections, up to the largest count that fits into the header.
        let total = SHN_LORESERVE as usize - 1;
        many.resize(offset + total * ROW, 0);
        assert!(have < total);
        put(&mut many, 0x3c, &(total as u16).to_le_bytes());
        let whole = with_section(&many, b"z").unwrap();
        assert_eq!(number(&whole, 0x3c, 2).unwrap(), 0);
        let table = number(&whole, 0x28, 8).unwrap() as usize;
        assert_eq!(number(&whole, table + 0x20, 8).unwrap(), SHN_LORESERVE);
        assert_eq!((whole.len() - table) / ROW, SHN_LORESERVE as usize);
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(at in 0usize..4096, value in any::<u8>(), length in 0usize..4096) {
            let mut damaged = object();
            let at = at % damaged.len();
            damaged[at] = value;
            let _ = with_section(&damaged, b"data");
            let _ = with_section(&damaged[..length % damaged.len()], b"data");
        }
    }
}
