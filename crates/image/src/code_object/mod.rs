//! Code objects of AMD GPUs: kernels with their arguments and resources, and variables.
//!
//! A code object is an ELF shared object. Its header gives the processor and the version of the format. A note named
//! "AMDGPU" holds, as MessagePack, the metadata of each kernel for launches. LLVM's "User Guide for AMDGPU Backend"
//! describes both.

pub mod sample;

use goblin::elf::section_header::{SHF_WRITE, SHT_NOBITS};
use goblin::elf::sym::{STB_LOCAL, STT_FUNC, STT_OBJECT};
use goblin::elf::{Elf, Sym};
use mneme_model::architecture::Processor;
use rmpv::ValueRef;

/// `EM_AMDGPU`.
const MACHINE: u16 = 224;
/// `ELFOSABI_AMDGPU_HSA`, and the offsets of it and of the format's version in an ELF header.
const OS_ABI: u8 = 64;
const OS_ABI_AT: usize = 7;
const VERSION_AT: usize = 8;
/// `EI_ABIVERSION` of version 4; later versions count up from it.
const VERSION_4: u8 = 2;
/// Versions with supported flags and metadata.
const VERSIONS: std::ops::RangeInclusive<u32> = 4..=6;
/// The metadata's note: `NT_AMDGPU_METADATA` of the owner `AMDGPU`.
const NOTE: u32 = 32;
const OWNER: &str = "AMDGPU";
/// Larger metadata are damage, bytes.
const MAX_METADATA: usize = 16 << 20;
/// Limit on nested lists in metadata, with some room.
const MAX_DEPTH: usize = 16;
/// Suffix of a kernel descriptor's symbol.
const DESCRIPTOR: &str = ".kd";

/// The low byte of `e_flags`, by processor.
const PROCESSORS: &[(u32, &str)] = &[
    (0x20, "gfx600"),
    (0x21, "gfx601"),
    (0x22, "gfx700"),
    (0x23, "gfx701"),
    (0x24, "gfx702"),
    (0x25, "gfx703"),
    (0x26, "gfx704"),
    (0x28, "gfx801"),
    (0x29, "gfx802"),
    (0x2a, "gfx803"),
    (0x2b, "gfx810"),
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x32, "gfx90c"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x39, "gfx1033"),
    (0x3a, "gfx602"),
    (0x3b, "gfx705"),
    (0x3c, "gfx805"),
    (0x3d, "gfx1035"),
    (0x3e, "gfx1034"),
    (0x3f, "gfx90a"),
    (0x40, "gfx940"),
    (0x41, "gfx1100"),
    (0x42, "gfx1013"),
    (0x43, "gfx1150"),
    (0x44, "gfx1103"),
    (0x45, "gfx1036"),
    (0x46, "gfx1101"),
    (0x47, "gfx1102"),
    (0x48, "gfx1200"),
    (0x4a, "gfx1151"),
    (0x4b, "gfx941"),
    (0x4c, "gfx942"),
    (0x4e, "gfx1201"),
    (0x4f, "gfx950"),
    (0x51, "gfx9-generic"),
    (0x52, "gfx10-1-generic"),
    (0x53, "gfx10-3-generic"),
    (0x54, "gfx11-generic"),
    (0x55, "gfx1152"),
    (0x58, "gfx1153"),
    (0x59, "gfx12-generic"),
    (0x5f, "gfx9-4-generic"),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeObject {
    pub processor: Processor,
    /// Version of the code object's format: 4, 5 or 6.
    pub version: u32,
    pub kernels: Vec<AmdKernel>,
    pub variables: Vec<AmdVariable>,
}

/// A kernel's metadata; memory in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmdKernel {
    /// The kernel's name in the program.
    pub name: String,
    /// The descriptor's symbol, "name.kd".
    pub symbol: String,
    /// Explicit arguments first, in order; then hidden ones.
    pub arguments: Vec<AmdArgument>,
    /// Size of all arguments, including hidden ones.
    pub kernarg_size: u32,
    pub kernarg_align: u32,
    /// Shared memory of a block, without the launch's dynamic part.
    pub group_segment: u32,
    /// Scratch memory of a work item.
    pub private_segment: u32,
    /// Scratch memory may grow beyond `private_segment` while the kernel runs.
    pub dynamic_stack: bool,
    /// Lanes of a wave.
    pub wavefront_size: u32,
    /// Launch bound, work items of a block.
    pub max_workgroup_size: u32,
    /// The only block size that the kernel supports, if it requires one.
    pub required_workgroup_size: Option<[u32; 3]>,
    pub sgprs: u32,
    /// All vector registers, including accumulation registers on processors that keep both in one file.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// Registers that did not fit.
    pub sgpr_spills: u32,
    pub vgpr_spills: u32,
    /// Size of its machine code; 0 if the object does not state it.
    pub code_size: u64,
}

impl AmdKernel {
    /// The arguments that a program passes.
    pub fn explicit(&self) -> impl Iterator<Item = &AmdArgument> {
        self.arguments.iter().filter(|argument| !argument.is_hidden())
    }
}

/// An argument in the kernarg segment; offset and size in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmdArgument {
    /// "" unless the compiler kept names.
    pub name: String,
    pub offset: u32,
    pub size: u32,
    /// "by_value", "global_buffer", "dynamic_shared_pointer", "hidden_block_count_x", …
    pub kind: String,
}

impl AmdArgument {
    /// Whether the runtime passes it instead of the program.
    pub fn is_hidden(&self) -> bool {
        self.kind.starts_with("hidden_")
    }
}

/// A `__device__` or `__constant__` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmdVariable {
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// The code cannot write it.
    pub constant: bool,
    /// The initial value is all zeros.
    pub zero: bool,
}

/// Whether an image begins like a code object of an AMD GPU.
pub fn is_code_object(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF\x02\x01")
        && image.get(OS_ABI_AT) == Some(&OS_ABI)
        && image.get(18..20) == Some(&MACHINE.to_le_bytes())
}

/// Parses a code object of version 4, 5 or 6; `None` if the image is something else or damaged.
pub fn parse(image: &[u8]) -> Option<CodeObject> {
    if !is_code_object(image) {
        return None;
    }
    let version = u32::from(image.get(VERSION_AT)?.checked_sub(VERSION_4)?) + VERSIONS.start();
    if !VERSIONS.contains(&version) {
        return None;
    }
    let elf = Elf::parse(image).ok()?;
    let processor = processor(elf.header.e_flags)?;
    let metadata = metadata(&elf, image)?;
    let ValueRef::Map(entries) = &metadata else { return None };
    let mut kernels = match get(entries, "amdhsa.kernels") {
        Some(ValueRef::Array(kernels)) => kernels.iter().map(kernel).collect::<Option<Vec<_>>>()?,
        _ => Vec::new(),
    };
    let symbols = symbols(&elf);
    for kernel in &mut kernels {
        let code = symbols.iter().find(|(name, symbol)| *name == kernel.name && symbol.st_type() == STT_FUNC);
        kernel.code_size = code.map_or(0, |(_, symbol)| symbol.st_size);
    }
    let variables = symbols.iter().filter_map(|(name, symbol)| variable(&elf, name, symbol)).collect();
    Some(CodeObject { processor, version, kernels, variables })
}

/// Variables with addresses of code or variables in their initial values.
pub fn holding_addresses(image: &[u8]) -> Vec<String> {
    let (Some(_), Ok(elf)) = (parse(image), Elf::parse(image)) else { return Vec::new() };
    let mut places: Vec<u64> = elf.dynrelas.iter().map(|relocation| relocation.r_offset).collect();
    places.sort_unstable();
    let holds = |symbol: &Sym| {
        let first = places.partition_point(|place| *place < symbol.st_value);
        places.get(first).is_some_and(|place| *place - symbol.st_value < symbol.st_size)
    };
    symbols(&elf)
        .into_iter()
        .filter(|(name, symbol)| variable(&elf, name, symbol).is_some() && holds(symbol))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Variables that kernels can write to and that programs cannot find by name: those private to their file.
pub fn private_variables(image: &[u8]) -> Vec<String> {
    let (Some(_), Ok(elf)) = (parse(image), Elf::parse(image)) else { return Vec::new() };
    let named = elf.syms.iter().filter_map(|symbol| Some((elf.strtab.get_at(symbol.st_name)?, symbol)));
    let is_writable = |name: &str, symbol: &Sym| variable(&elf, name, symbol).is_some_and(|found| !found.constant);
    named
        .filter(|(name, symbol)| symbol.st_bind() == STB_LOCAL && is_writable(name, symbol))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// The dynamic symbols, or all symbols if there are none.
fn symbols<'a>(elf: &Elf<'a>) -> Vec<(&'a str, Sym)> {
    let (symbols, names) =
        if elf.dynsyms.is_empty() { (&elf.syms, &elf.strtab) } else { (&elf.dynsyms, &elf.dynstrtab) };
    symbols.iter().filter_map(|symbol| Some((names.get_at(symbol.st_name)?, symbol))).collect()
}

/// The processor of `e_flags`, from version 4 on.
fn processor(flags: u32) -> Option<Processor> {
    let (_, name) = PROCESSORS.iter().find(|(number, _)| *number == flags & 0xff)?;
    // 0: no such feature, 1: any setting, 2: off, 3: on.
    let setting = |bits: u32| match bits & 3 {
        2 => Some(false),
        3 => Some(true),
        _ => None,
    };
    Some(Processor { name: (*name).to_owned(), xnack: setting(flags >> 8), sramecc: setting(flags >> 10) })
}

fn metadata<'a>(elf: &Elf<'a>, image: &'a [u8]) -> Option<ValueRef<'a>> {
    let segments = elf.iter_note_headers(image).into_iter().flatten();
    let sections = elf.iter_note_sections(image, None).into_iter().flatten();
    let note = segments
        .chain(sections)
        // An iterator over damaged notes repeats its error forever.
        .map_while(Result::ok)
        .find(|note| note.n_type == NOTE && note.name.trim_end_matches('\0') == OWNER)?;
    let mut bytes = note.desc;
    if bytes.len() > MAX_METADATA {
        return None;
    }
    rmpv::decode::read_value_ref_with_max_depth(&mut bytes, MAX_DEPTH).ok()
}

type Map<'a> = [(ValueRef<'a>, ValueRef<'a>)];

fn get<'v, 'a>(map: &'v Map<'a>, key: &str) -> Option<&'v ValueRef<'a>> {
    map.iter().find(|(name, _)| text(name) == Some(key)).map(|(_, value)| value)
}

fn text<'v>(value: &'v ValueRef<'_>) -> Option<&'v str> {
    match value {
        ValueRef::String(text) => text.as_str(),
        _ => None,
    }
}

fn number(value: &ValueRef<'_>) -> Option<u32> {
    match value {
        ValueRef::Integer(number) => u32::try_from(number.as_u64()?).ok(),
        _ => None,
    }
}

fn kernel(value: &ValueRef<'_>) -> Option<AmdKernel> {
    let ValueRef::Map(map) = value else { return None };
    let required = |key| get(map, key).and_then(number);
    let or_none = |key| required(key).unwrap_or(0);
    let arguments = match get(map, ".args") {
        Some(ValueRef::Array(arguments)) => arguments.iter().map(argument).collect::<Option<Vec<_>>>()?,
        _ => Vec::new(),
    };
    let size = match get(map, ".reqd_workgroup_size") {
        Some(ValueRef::Array(sizes)) => {
            let sizes: Vec<u32> = sizes.iter().map(number).collect::<Option<_>>()?;
            Some(<[u32; 3]>::try_from(sizes).ok()?)
        }
        _ => None,
    };
    let boolean = |key| matches!(get(map, key), Some(ValueRef::Boolean(true)));
    Some(AmdKernel {
        name: get(map, ".name").and_then(text)?.to_owned(),
        symbol: get(map, ".symbol").and_then(text)?.to_owned(),
        arguments,
        kernarg_size: required(".kernarg_segment_size")?,
        kernarg_align: required(".kernarg_segment_align")?,
        group_segment: required(".group_segment_fixed_size")?,
        private_segment: required(".private_segment_fixed_size")?,
        dynamic_stack: boolean(".uses_dynamic_stack"),
        wavefront_size: required(".wavefront_size")?,
        max_workgroup_size: or_none(".max_flat_workgroup_size"),
        required_workgroup_size: size,
        sgprs: or_none(".sgpr_count"),
        vgprs: or_none(".vgpr_count"),
        agprs: or_none(".agpr_count"),
        sgpr_spills: or_none(".sgpr_spill_count"),
        vgpr_spills: or_none(".vgpr_spill_count"),
        code_size: 0,
    })
}

fn argument(value: &ValueRef<'_>) -> Option<AmdArgument> {
    let ValueRef::Map(map) = value else { return None };
    let required = |key| get(map, key).and_then(number);
    Some(AmdArgument {
        name: get(map, ".name").and_then(text).unwrap_or_default().to_owned(),
        offset: required(".offset")?,
        size: required(".size")?,
        kind: get(map, ".value_kind").and_then(text)?.to_owned(),
    })
}

/// The variable of a symbol, if the symbol is a variable.
fn variable(elf: &Elf<'_>, name: &str, symbol: &Sym) -> Option<AmdVariable> {
    if symbol.st_type() != STT_OBJECT || symbol.is_import() || symbol.st_size == 0 || name.ends_with(DESCRIPTOR) {
        return None;
    }
    let section = elf.section_headers.get(symbol.st_shndx);
    Some(AmdVariable {
        name: name.to_owned(),
        size: symbol.st_size,
        constant: section.is_some_and(|section| section.sh_flags & u64::from(SHF_WRITE) == 0),
        zero: section.is_some_and(|section| section.sh_type == SHT_NOBITS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_code_object_says_is_read() {
        let object = parse(&sample::code_object(5, 0xb3f)).unwrap();
        assert_eq!((object.version, object.processor.to_string().as_str()), (5, "gfx90a:sramecc-:xnack+"));
        let kernel = &object.kernels[0];
        assert_eq!((kernel.name.as_str(), kernel.symbol.as_str()), ("k", "k.kd"));
        assert_eq!((kernel.kernarg_size, kernel.group_segment, kernel.private_segment), (24, 1024, 16));
        assert_eq!((kernel.wavefront_size, kernel.max_workgroup_size), (64, 256));
        assert_eq!((kernel.sgprs, kernel.vgprs, kernel.agprs, kernel.vgpr_spills), (30, 40, 8, 2));
        assert_eq!(kernel.required_workgroup_size, Some([64, 2, 1]));
        let arguments: Vec<_> = kernel.arguments.iter().map(|it| (it.offset, it.size, it.is_hidden())).collect();
        assert_eq!(arguments, [(0, 8, false), (8, 4, false), (16, 4, true)]);
        assert_eq!((kernel.explicit().count(), kernel.code_size), (2, 64));
        let variables: Vec<_> =
            object.variables.iter().map(|it| (it.name.as_str(), it.size, it.constant, it.zero)).collect();
        assert_eq!(variables, [("total", 8, false, true), ("table", 16, true, false)]);
        assert!(holding_addresses(&sample::code_object(5, 0xb3f)).is_empty());
    }

    #[test]
    fn other_versions_and_files_are_none() {
        assert!(parse(&sample::code_object(4, 0x2f)).is_some_and(|object| object.version == 4));
        assert!(parse(&sample::code_object(3, 0x2f)).is_none() && parse(&sample::code_object(7, 0x2f)).is_none());
        assert!(parse(&sample::code_object(5, 0xff)).is_none(), "no such processor");
        assert!(parse(b"").is_none() && parse(&std::fs::read("/proc/self/exe").unwrap()).is_none());
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            length in any::<prop::sample::Index>(),
        ) {
            let mut image = sample::code_object(5, 0x53f);
            for (at, byte) in damage {
                let at = at.index(image.len());
                image[at] = byte;
            }
            image.truncate(length.index(image.len() * 4));
            parse(&image);
            holding_addresses(&image);
        }
    }
}
