//! Machine code of NVIDIA GPUs: kernels with their parameters, variables, and features of the code.
//!
//! A cubin is an ELF object. Section `.nv.info.<kernel>` holds attributes: u8 format, u8 name and a u16, which is the
//! value or, for format 4, the size of the value that follows. The names and layouts below are those of `ptxas` (tested
//! with releases 12.9 and 13) and `cuobjdump -elf`. Section `.nv.callgraph` holds pairs of symbols, caller and callee.

use std::collections::{BTreeSet, HashMap};

use goblin::elf::{Elf, Sym};
use mneme_model::architecture::Architecture;

/// `EM_CUDA`.
const MACHINE: u16 = 190;

/// Attributes of `.nv.info` sections.
mod attribute {
    /// u32, u16 ordinal, u16 offset, u32 of which the upper 14 bits are the size.
    pub const PARAMETER: u8 = 0x17;
    /// The same for parameters beyond 4 KiB, with a u16 size.
    pub const LARGE_PARAMETER: u8 = 0x45;
    /// u32 symbol, u32 registers.
    pub const REGISTERS: u8 = 0x2f;
    /// Three u32.
    pub const MAX_THREADS: u8 = 0x05;
}
/// Format of an attribute whose value follows.
const SIZED: u8 = 4;
/// Symbol types beyond ELF's: texture, surface and sampler references.
const REFERENCES: std::ops::RangeInclusive<u8> = 10..=12;
/// Prefix of the functions of the device's runtime by which kernels launch kernels.
const LAUNCHERS: &str = "__cudaCDP";
/// Larger parameter buffers are damage, bytes (the driver's limit is below 32 KiB).
const MAX_PARAMETERS: u32 = 32 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cubin {
    pub architecture: Option<Architecture>,
    pub kernels: Vec<CubinKernel>,
    pub variables: Vec<CubinVariable>,
    /// Texture, surface and sampler references.
    pub references: Vec<String>,
    /// Callees of each symbol.
    calls: HashMap<u32, Vec<u32>>,
    /// Undefined functions, by symbol.
    undefined: HashMap<u32, String>,
    /// Features of each function's code, by symbol.
    code: HashMap<u32, Features>,
    /// Names of the functions that the object defines, by symbol.
    functions: HashMap<u32, String>,
    references_of: References,
}

/// References to variables, from the relocations that the driver resolves when it loads the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct References {
    /// From a function's code or its own constants (relocatable code, linked): indices into the variables.
    by_function: HashMap<String, BTreeSet<usize>>,
    /// From a variable's initial value: indices into the variables.
    by_variable: HashMap<usize, BTreeSet<usize>>,
    /// From a whole program's table of addresses, which all functions share: indices into the variables.
    by_all: BTreeSet<usize>,
}

/// Features of machine code that restoring memory does not reproduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Reads or writes textures or surfaces.
    pub textures: bool,
    /// Calls functions by addresses in registers.
    pub calls_pointers: bool,
    /// Reads a clock.
    pub clocks: bool,
}

/// Length of an instruction from architecture 70 on, bytes; its lowest 12 bits are the operation and the form of its
/// operands.
const INSTRUCTION: usize = 16;
/// The lowest 9 bits of texture and surface instructions, and all 12 of a call by register, as `ptxas` 12.9 translates
/// each PTX instruction, for architectures 75 to 120.
const TEXTURES: [u16; 9] = [0x160, 0x163, 0x166, 0x16c, 0x16f, 0x199, 0x19b, 0x19d, 0x19f];
const CALLS: [u16; 2] = [0x343, 0x344];
/// Instructions that read the special register in byte 9 (`CS2R`, `S2R`, `S2UR`), and the registers of `%clock` and
/// `%globaltimer`, also from `ptxas` 12.9.
const SPECIAL: [u16; 3] = [0x805, 0x919, 0x9c3];
const CLOCKS: std::ops::RangeInclusive<u8> = 0x50..=0x53;

impl Features {
    fn of(code: &[u8]) -> Self {
        let mut found = Self::default();
        for bytes in code.as_chunks::<INSTRUCTION>().0 {
            let operation = u16::from_le_bytes([bytes[0], bytes[1]]) & 0xfff;
            found.textures |= TEXTURES.contains(&(operation & 0x1ff));
            found.calls_pointers |= CALLS.contains(&operation);
            found.clocks |= SPECIAL.contains(&operation) && CLOCKS.contains(&bytes[9]);
        }
        found
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CubinKernel {
    pub name: String,
    /// Offset in the parameter buffer and size, bytes, in the order of the parameters.
    pub parameters: Vec<(u32, u32)>,
    pub registers: Option<u32>,
    /// Launch bound, threads of a block.
    pub max_threads: Option<u32>,
    /// Features of the kernel's section, which also holds private functions.
    features: Features,
    symbol: u32,
}

/// A `__device__` or `__constant__` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubinVariable {
    pub name: String,
    /// Bytes.
    pub size: u64,
    pub constant: bool,
    /// Its initial value holds addresses of functions or variables.
    pub holds_addresses: bool,
    /// Offsets of the words (8 bytes, aligned) of its initial value that are addresses of functions. A whole program's
    /// cubin does not show them.
    pub functions: Vec<u64>,
    /// Offset and size of its initial value in the object, bytes; `None` for zeros.
    pub initial: Option<(usize, usize)>,
}

impl Cubin {
    /// Undefined functions that a kernel's code calls, directly or indirectly (`vprintf`, `malloc`).
    pub fn undefined(&self, kernel: &CubinKernel) -> Vec<String> {
        self.reached(kernel).iter().filter_map(|symbol| self.undefined.get(symbol)).cloned().collect()
    }

    /// The same, and functions by which a kernel may launch others, which linked code defines: they are part of the
    /// device's runtime, and tables lead from there to the kernels.
    pub fn services(&self, kernel: &CubinKernel) -> Vec<String> {
        let reached = self.reached(kernel);
        let calls_pointers = self.features(kernel).calls_pointers;
        let launchers = self
            .functions
            .iter()
            .filter(|(symbol, name)| name.starts_with(LAUNCHERS) && (calls_pointers || reached.contains(symbol)));
        self.undefined(kernel).into_iter().chain(launchers.map(|(_, name)| name.clone())).collect()
    }

    /// Features of a kernel's code and of the functions that it calls; empty for architectures before 70.
    pub fn features(&self, kernel: &CubinKernel) -> Features {
        let parts = self
            .reached(kernel)
            .into_iter()
            .filter_map(|symbol| self.code.get(&symbol).copied())
            .chain([kernel.features]);
        parts.fold(Features::default(), |all, part| Features {
            textures: all.textures | part.textures,
            calls_pointers: all.calls_pointers | part.calls_pointers,
            clocks: all.clocks | part.clocks,
        })
    }

    /// The variables that a kernel may use: all constants, and those that its code, called functions, or such a
    /// variable refer to. If the kernel calls functions by addresses in registers, all variables.
    pub fn variables_of(&self, kernel: &CubinKernel) -> Vec<&CubinVariable> {
        if self.code.is_empty() || self.features(kernel).calls_pointers {
            return self.variables.iter().collect();
        }
        let references = &self.references_of;
        let functions =
            self.reached(kernel).into_iter().chain([kernel.symbol]).filter_map(|symbol| self.functions.get(&symbol));
        let by_code = functions.filter_map(|name| references.by_function.get(name)).flatten().copied();
        let constants = (0..self.variables.len()).filter(|index| self.variables[*index].constant);
        let mut used: BTreeSet<usize> = by_code.chain(constants).chain(references.by_all.iter().copied()).collect();
        let mut pending: Vec<usize> = used.iter().copied().collect();
        while let Some(variable) = pending.pop() {
            let further = references.by_variable.get(&variable).into_iter().flatten();
            pending.extend(further.filter(|further| used.insert(**further)));
        }
        used.into_iter().map(|index| &self.variables[index]).collect()
    }

    /// The functions that a kernel calls, directly or indirectly.
    fn reached(&self, kernel: &CubinKernel) -> BTreeSet<u32> {
        let mut reached = BTreeSet::new();
        let mut pending = vec![kernel.symbol];
        while let Some(caller) = pending.pop() {
            let callees = self.calls.get(&caller).into_iter().flatten();
            pending.extend(callees.filter(|callee| reached.insert(**callee)));
        }
        reached
    }
}

/// Parses a cubin; `None` if the image is something else.
pub fn parse(image: &[u8]) -> Option<Cubin> {
    let elf = Elf::parse(image).ok().filter(|elf| elf.header.e_machine == MACHINE)?;
    let name = |section: usize| {
        elf.section_headers.get(section).and_then(|header| elf.shdr_strtab.get_at(header.sh_name)).unwrap_or("")
    };
    let symbols: Vec<(Sym, &str)> =
        elf.syms.iter().map(|symbol| (symbol, elf.strtab.get_at(symbol.st_name).unwrap_or(""))).collect();
    let sections: HashMap<&str, usize> = (0..elf.section_headers.len()).map(|index| (name(index), index)).collect();
    let contents = |section: &str| {
        let header = elf.section_headers.get(*sections.get(section)?)?;
        image.get(header.file_range()?)
    };
    let relocated: BTreeSet<(usize, u64)> = elf
        .shdr_relocs
        .iter()
        .filter_map(|(section, relocations)| Some((elf.section_headers.get(*section)?.sh_info as usize, relocations)))
        .flat_map(|(target, relocations)| relocations.iter().map(move |relocation| (target, relocation.r_offset)))
        .collect();
    let mut cubin = Cubin {
        architecture: architecture(&elf),
        references: symbols
            .iter()
            .filter(|(symbol, _)| REFERENCES.contains(&symbol.st_type()))
            .map(|(_, name)| (*name).to_owned())
            .collect(),
        ..Cubin::default()
    };
    for pair in words(contents(".nv.callgraph").unwrap_or_default()).chunks_exact(2) {
        cubin.calls.entry(pair[0]).or_default().push(pair[1]);
    }
    let mut places: HashMap<u32, usize> = HashMap::new();
    let is_known = cubin.architecture.is_some_and(|architecture| architecture.number >= 70);
    let mut features: HashMap<usize, Features> = HashMap::new();
    for (index, (symbol, symbol_name)) in symbols.iter().enumerate() {
        let section = name(symbol.st_shndx);
        if symbol.is_function() && symbol.st_shndx != 0 && is_known {
            let found = features
                .entry(symbol.st_shndx)
                .or_insert_with(|| contents(section).map(Features::of).unwrap_or_default());
            cubin.code.insert(index as u32, *found);
        }
        if symbol.is_function() && symbol.st_shndx != 0 {
            // By section, because the section also holds the private functions of its code.
            let section = section.strip_prefix(".text.").unwrap_or(symbol_name);
            cubin.functions.insert(index as u32, section.to_owned());
        }
        if symbol.is_function()
            && symbol.st_shndx != 0
            && section.strip_prefix(".text.") == Some(symbol_name)
            && let Some(attributes) = contents(&format!(".nv.info.{symbol_name}"))
        {
            let features = features.get(&symbol.st_shndx).copied().unwrap_or_default();
            let mut kernel = CubinKernel {
                name: (*symbol_name).to_owned(),
                symbol: index as u32,
                features,
                ..CubinKernel::default()
            };
            read_attributes(attributes, &mut kernel);
            cubin.kernels.push(kernel);
        }
        if symbol.is_function() && symbol.st_shndx == 0 {
            cubin.undefined.insert(index as u32, (*symbol_name).to_owned());
        }
        let constant = section.starts_with(".nv.constant3");
        if symbol.st_type() == goblin::elf::sym::STT_OBJECT && (constant || section.starts_with(".nv.global")) {
            let end = symbol.st_value.saturating_add(symbol.st_size);
            let first = relocated.range((symbol.st_shndx, symbol.st_value)..).next();
            let holds_addresses = first.is_some_and(|(section, at)| *section == symbol.st_shndx && *at < end);
            let header = &elf.section_headers[symbol.st_shndx];
            let initial = (header.sh_type != goblin::elf::section_header::SHT_NOBITS)
                .then(|| Some((header.sh_offset.checked_add(symbol.st_value)?, header.sh_offset.checked_add(end)?)))
                .flatten()
                .filter(|(_, end)| *end <= image.len() as u64)
                .map(|(start, end)| (start as usize, end as usize));
            places.insert(index as u32, cubin.variables.len());
            cubin.variables.push(CubinVariable {
                name: (*symbol_name).to_owned(),
                size: symbol.st_size,
                constant,
                holds_addresses,
                functions: Vec::new(),
                initial,
            });
        }
    }
    for (section, relocations) in &elf.shdr_relocs {
        let Some(section) = elf.section_headers.get(*section).map(|header| header.sh_info as usize) else { continue };
        let of_function = name(section)
            .strip_prefix(".text.")
            .or_else(|| Some(name(section).strip_prefix(".nv.constant")?.split_once('.')?.1));
        if name(section).starts_with(".debug") {
            continue;
        }
        for relocation in relocations {
            let is_inside = |symbol: &Sym| {
                let offset = relocation.r_offset.checked_sub(symbol.st_value);
                symbol.st_shndx == section && offset.is_some_and(|offset| offset < symbol.st_size)
            };
            let holder = || places.iter().find(|(symbol, _)| is_inside(&symbols[**symbol as usize].0));
            if of_function.is_none()
                && let Some((symbol, variable)) = holder()
                && symbols.get(relocation.r_sym).is_some_and(|(target, _)| target.is_function())
            {
                let offset = relocation.r_offset - symbols[*symbol as usize].0.st_value;
                let variable = &mut cubin.variables[*variable];
                let fits = offset.is_multiple_of(8) && variable.size >= 8 && offset <= variable.size - 8;
                variable.functions.extend(fits.then_some(offset));
            }
            let references = &mut cubin.references_of;
            let known = if let Some(function) = of_function {
                references.by_function.entry(function.to_owned()).or_default()
            } else if let Some((_, variable)) = holder() {
                references.by_variable.entry(*variable).or_default()
            } else {
                &mut references.by_all
            };
            known.extend(referred_to(relocation.r_sym, &symbols, &places));
        }
    }
    let registers =
        Attributes(contents(".nv.info").unwrap_or_default()).filter(|(name, _)| *name == attribute::REGISTERS);
    let registers: HashMap<u32, u32> =
        registers.filter_map(|(_, value)| words(value).first_chunk::<2>().map(|it| (it[0], it[1]))).collect();
    for kernel in &mut cubin.kernels {
        kernel.registers = registers.get(&kernel.symbol).copied();
    }
    Some(cubin)
}

/// The variables that a relocation's symbol refers to, by their indices in the list: one, or all of a section.
fn referred_to(symbol: usize, symbols: &[(Sym, &str)], places: &HashMap<u32, usize>) -> Vec<usize> {
    let Some((found, _)) = symbols.get(symbol) else { return Vec::new() };
    if found.st_type() != goblin::elf::sym::STT_SECTION {
        return places.get(&(symbol as u32)).copied().into_iter().collect();
    }
    let inside = |(index, _): &(&u32, &usize)| symbols[**index as usize].0.st_shndx == found.st_shndx;
    places.iter().filter(inside).map(|(_, place)| *place).collect()
}

/// The architecture in the ELF flags: the low byte up to ABI version 7, the second byte from 8 on.
fn architecture(elf: &Elf<'_>) -> Option<Architecture> {
    let flags = elf.header.e_flags;
    let (number, specific) = match elf.header.e_ident[8] {
        0..=7 => (flags & 0xff, flags & 0x800 != 0),
        _ => (flags >> 8 & 0xff, flags & 8 != 0),
    };
    (number > 0).then_some(Architecture { number, suffix: specific.then_some('a') })
}

/// The initial bytes of a variable.
pub fn contents<'a>(image: &'a [u8], variable: &CubinVariable) -> Option<&'a [u8]> {
    variable.initial.and_then(|(start, end)| image.get(start..end))
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// Iterates over an attribute section: name and value.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        let length = if head[0] == SIZED { usize::from(u16::from_le_bytes([head[2], head[3]])) } else { 0 };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((head[1], value))
    }
}

fn read_attributes(bytes: &[u8], kernel: &mut CubinKernel) {
    let mut parameters: Vec<(u32, (u32, u32))> = Vec::new();
    for (name, value) in Attributes(bytes) {
        match (name, words(value).as_slice()) {
            (attribute::PARAMETER | attribute::LARGE_PARAMETER, [_, place, packed, ..]) => {
                let size = if name == attribute::PARAMETER { packed >> 18 } else { packed & 0xffff };
                let (ordinal, offset) = (place & 0xffff, place >> 16);
                if offset + size <= MAX_PARAMETERS {
                    parameters.push((ordinal, (offset, size)));
                }
            }
            (attribute::MAX_THREADS, [x, y, z, ..]) => {
                kernel.max_threads = x.checked_mul(*y).and_then(|threads| threads.checked_mul(*z));
            }
            _ => {}
        }
    }
    parameters.sort_unstable();
    parameters.dedup_by_key(|(ordinal, _)| *ordinal);
    kernel.parameters = parameters.into_iter().map(|(_, layout)| layout).collect();
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::elf;
    use proptest::prelude::*;

    /// Assembles PTX; `None` if this machine lacks `ptxas`.
    pub(crate) fn assemble(ptx: &str, arch: &str) -> Option<Vec<u8>> {
        assemble_with(ptx, arch, &[])
    }

    fn assemble_with(ptx: &str, arch: &str, options: &[&str]) -> Option<Vec<u8>> {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.deps/cuda/bin/ptxas");
        let program = if std::path::Path::new(own).exists() { own } else { "ptxas" };
        let folder = tempfile::tempdir().unwrap();
        let (source, cubin) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
        std::fs::write(&source, ptx).unwrap();
        let status = std::process::Command::new(program)
            .arg(format!("-arch={arch}"))
            .args(options)
            .arg(&source)
            .arg("-o")
            .arg(&cubin)
            .status();
        match status {
            Ok(status) => assert!(status.success()),
            Err(_) => {
                mneme_fixtures::skip("no ptxas on this machine");
                return None;
            }
        }
        Some(std::fs::read(&cubin).unwrap())
    }

    const PTX: &str = r"
.version 8.1
.target sm_90
.address_size 64
.global .align 4 .u32 counter = 7;
.visible .global .align 8 .u64 place = counter;
.visible .const .align 4 .b8 table[16] = {1, 2, 3};
.extern .func (.param .b64 r) malloc (.param .b64 n);
.visible .entry add(.param .u64 p, .param .u32 n, .param .u16 s) .maxntid 128, 2, 1
{
    .reg .b64 %d<9>; .reg .b32 %r<9>;
    ld.param.u64 %d1, [p];
    ld.param.u32 %r1, [n];
    ld.global.u32 %r2, [counter];
    ld.const.u32 %r3, [table+4];
    add.u32 %r1, %r1, %r2;
    add.u32 %r1, %r1, %r3;
    ld.global.u64 %d2, [place];
    st.global.u64 [%d1+8], %d2;
    st.global.u32 [%d1], %r1;
    ret;
}
.visible .entry allocates(.param .align 8 .b8 large[6000], .param .u64 p)
{
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    { .param .b64 n; .param .b64 r; st.param.b64 [n], 16; call.uni (r), malloc, (n); ld.param.b64 %d2, [r]; }
    st.global.u64 [%d1], %d2;
    ret;
}
.visible .entry follows(.param .u64 p)
{
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    ld.global.u64 %d2, [place];
    st.global.u64 [%d1], %d2;
    ret;
}
";

    #[test]
    fn what_ptxas_writes_is_understood() {
        let Some(image) = assemble(PTX, "sm_90") else { return };
        assert_eq!(elf::size_of(&image), Some(image.len() as u64));
        let cubin = parse(&image).unwrap();
        assert_eq!(cubin.architecture, Some(Architecture::new(90)));
        let kernel = |name: &str| cubin.kernels.iter().find(|kernel| kernel.name == name).unwrap();
        assert_eq!(kernel("add").parameters, [(0, 8), (8, 4), (12, 2)]);
        assert_eq!((kernel("add").max_threads, cubin.undefined(kernel("add")).len()), (Some(256), 0));
        assert!(kernel("add").registers.is_some_and(|count| count > 0));
        assert_eq!(kernel("allocates").parameters, [(0, 6000), (6000, 8)]);
        assert_eq!(cubin.undefined(kernel("allocates")), ["malloc"]);
        let variable = |name: &str| cubin.variables.iter().find(|variable| variable.name == name).unwrap();
        assert_eq!(contents(&image, variable("counter")).unwrap(), 7u32.to_le_bytes());
        assert!(!variable("counter").holds_addresses && !variable("counter").constant);
        assert!(variable("place").holds_addresses);
        assert!(variable("table").constant && contents(&image, variable("table")).unwrap().starts_with(&[1, 2, 3]));
    }

    /// The device's runtime is linked into code, so its functions are defined there.
    #[test]
    fn kernels_that_launch_others_are_known_in_linked_code() {
        let text = ".version 8.1\n.target sm_90\n.address_size 64\n\
            .visible .func __cudaCDP2LaunchDeviceV2(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.u64 [%a], %a; ret; }\n\
            .visible .func (.param .u64 r) f(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.param.u64 [r], %a; ret; }\n\
            .visible .global .align 8 .u64 pair[3] = {1, 2, f};\n\
            .visible .entry parent(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; \
            { .param .u64 q; st.param.u64 [q], %a; call.uni __cudaCDP2LaunchDeviceV2, (q); } ret; }\n\
            .visible .entry calls(.param .u64 p) { .reg .b64 %a, %b; ld.param.u64 %a, [p]; ld.u64 %b, [%a];\n\
            t: .callprototype (.param .u64 _) _ (.param .u64 _);\n\
            { .param .u64 q; .param .u64 r; st.param.u64 [q], %a; call (r), %b, (q), t; } ret; }\n\
            .visible .entry plain(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.u64 [%a], %a; ret; }\n";
        let Some(object) = assemble_with(text, "sm_90", &["-c"]) else { return };
        let Some(image) = link(&object, "sm_90") else { return };
        let cubin = parse(&image).unwrap();
        let launches = |name: &str| {
            let kernel = cubin.kernels.iter().find(|kernel| kernel.name == name).unwrap();
            cubin.services(kernel).iter().any(|name| name.starts_with(LAUNCHERS))
        };
        assert_eq!(["parent", "calls", "plain"].map(launches), [true, true, false]);
        let pair = cubin.variables.iter().find(|variable| variable.name == "pair").unwrap();
        assert!(pair.holds_addresses && pair.functions == [16], "{pair:?}");
    }

    /// Links relocatable code; `None` if this machine lacks `nvlink`.
    fn link(object: &[u8], arch: &str) -> Option<Vec<u8>> {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.deps/nvcc/bin/nvlink");
        let program = if std::path::Path::new(own).exists() { own } else { "nvlink" };
        let folder = tempfile::tempdir().unwrap();
        let (source, linked) = (folder.path().join("k.cubin"), folder.path().join("linked.cubin"));
        std::fs::write(&source, object).unwrap();
        match std::process::Command::new(program)
            .arg(format!("-arch={arch}"))
            .arg(&source)
            .arg("-o")
            .arg(&linked)
            .status()
        {
            Ok(status) => assert!(status.success()),
            Err(_) => {
                mneme_fixtures::skip("no nvlink on this machine");
                return None;
            }
        }
        Some(std::fs::read(&linked).unwrap())
    }

    /// Whole programs keep addresses in a table for all kernels; linked relocatable code keeps them in instructions.
    #[test]
    fn relocatable_code_tells_which_variables_a_kernel_uses() {
        let used = |image: &[u8], name: &str| {
            let cubin = parse(image).unwrap();
            let kernel = cubin.kernels.iter().find(|kernel| kernel.name == name).unwrap();
            let mut names: Vec<_> = cubin.variables_of(kernel).iter().map(|variable| variable.name.clone()).collect();
            names.sort_unstable();
            names
        };
        let all = ["counter", "place", "table"];
        let Some(whole) = assemble(PTX, "sm_90") else { return };
        assert_eq!(
            (used(&whole, "add"), used(&whole, "allocates")),
            (all.map(String::from).to_vec(), all.map(String::from).to_vec())
        );
        let Some(linked) = assemble_with(PTX, "sm_90", &["-c"]).and_then(|object| link(&object, "sm_90")) else {
            return;
        };
        assert_eq!(used(&linked, "add"), all);
        assert_eq!(used(&linked, "allocates"), ["table"]);
        // By its address in the other.
        assert_eq!(used(&linked, "follows"), ["counter", "place", "table"]);
    }

    /// A kernel with one statement between its loads and stores.
    fn kernel_of(statement: &str, version: &str, arch: &str) -> String {
        format!(
            ".version {version}\n.target {arch}\n.address_size 64\n\
             .func (.param .b32 r) direct (.param .b32 a) {{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; mul.lo.u32 %r1, %r1, %r1; st.param.b32 [r], %r1; ret; }}\n\
             .visible .entry k(.param .u64 t, .param .u64 p, .param .u32 n) {{ .reg .b64 %d<4>; .reg .f32 %f<9>; .reg .b32 %r<9>;\n\
             ld.param.u64 %d1, [t]; ld.param.u64 %d2, [p]; ld.param.u32 %r5, [n]; ld.global.f32 %f5, [%d2]; mov.u32 %r1, 0; mov.f32 %f1, 0f00000000;\n\
             {statement}\n st.global.u32 [%d2], %r1; st.global.f32 [%d2+16], %f1; ret; }}\n"
        )
    }

    #[test]
    fn textures_calls_through_pointers_and_clocks_show_in_machine_code() {
        let call = |callee: &str, prototype: &str| {
            format!(
                "{{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r5; pr: .callprototype (.param .b32 _) _ (.param .b32 _); \
                 call (r), {callee}, (a){prototype}; ld.param.b32 %r1, [r]; }}"
            )
        };
        let textures = Features { textures: true, ..Features::default() };
        let pointers = Features { calls_pointers: true, ..Features::default() };
        let clocks = Features { clocks: true, ..Features::default() };
        let statements = [
            ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f5, %f5}];".to_owned(), textures),
            ("tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f5, %f5}], {%f5, %f5}, {%f5, %f5};".to_owned(), textures),
            ("tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%d1, {%r5}];".to_owned(), textures),
            ("tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f5, %f5}];".to_owned(), textures),
            ("txq.width.b32 %r1, [%d1];".to_owned(), textures),
            ("suld.b.1d.b32.trap {%r1}, [%d1, {%r5}];".to_owned(), textures),
            ("sust.b.1d.b32.trap [%d1, {%r5}], {%r5};".to_owned(), textures),
            ("sust.p.2d.v4.b32.trap [%d1, {%r5, %r5}], {%r5, %r5, %r5, %r5};".to_owned(), textures),
            ("sured.b.add.2d.u32.trap [%d1, {%r5, %r5}], %r5;".to_owned(), textures),
            (call("%d1", ", pr"), pointers),
            ("mov.u32 %r1, %clock;".to_owned(), clocks),
            ("mov.u64 %d1, %clock64; st.global.u64 [%d2], %d1;".to_owned(), clocks),
            ("mov.u64 %d1, %globaltimer; st.global.u64 [%d2], %d1;".to_owned(), clocks),
            ("mov.u32 %r1, %tid.x; mov.u32 %r2, %smid; add.u32 %r1, %r1, %r2;".to_owned(), Features::default()),
            (call("direct", ""), Features::default()),
            (
                "ts: .branchtargets L0, L1, L2; brx.idx %r5, ts; L0: mov.u32 %r1, %r5; bra L2; L1: st.global.u32 [%d2], %r5; L2:"
                    .to_owned(),
                Features::default(),
            ),
            ("atom.global.add.f32 %f1, [%d2], %f5; bar.sync 0; red.global.add.u32 [%d2], %r5;".to_owned(), Features::default()),
        ];
        for (arch, version) in [("sm_75", "7.0"), ("sm_90", "8.1"), ("sm_100", "8.6")] {
            for (statement, expected) in &statements {
                let Some(image) = assemble(&kernel_of(statement, version, arch), arch) else { return };
                let cubin = parse(&image).unwrap();
                let kernel = cubin.kernels.iter().find(|kernel| kernel.name == "k").unwrap();
                assert_eq!(cubin.features(kernel), *expected, "{arch}: {statement}");
            }
        }
    }

    #[test]
    fn architecture_specific_code_is_known() {
        let specific = |arch: &str, version: &str| PTX.replace("sm_90", arch).replace("8.1", version);
        for (arch, version) in [("sm_90a", "8.1"), ("sm_100", "8.6"), ("sm_100a", "8.6")] {
            let Some(image) = assemble(&specific(arch, version), arch) else { return };
            assert_eq!(parse(&image).unwrap().architecture, Architecture::parse(arch));
        }
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(
            changes in proptest::collection::vec((0usize..6000, any::<u8>()), 1..6),
            length in 0usize..9000,
        ) {
            static IMAGE: std::sync::OnceLock<Option<Vec<u8>>> = std::sync::OnceLock::new();
            if let Some(image) = IMAGE.get_or_init(|| assemble(PTX, "sm_90")) {
                let mut image = image.clone();
                for (at, byte) in changes { let at = at % image.len(); image[at] = byte; }
                image.truncate(length);
                if let Some(cubin) = parse(&image) { for kernel in &cubin.kernels { cubin.undefined(kernel); } }
                let _ = elf::size_of(&image);
            }
        }
    }
}
