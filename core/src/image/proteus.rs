//! LLVM IR that Proteus has put into device code.

use goblin::elf::Elf;

/// Start of the names of the device globals that hold a translation unit's bitcode in a cubin.
pub const VARIABLE: &str = "_jit_bitcode";
/// Start of the names of the sections that hold a kernel's bitcode in an AMDGPU code object.
pub const SECTION: &str = ".jit.bitcode";

/// The bitcode modules in a cubin, by the name of their variable.
pub fn in_cubin(image: &[u8]) -> Vec<(String, &[u8])> {
    let Some(cubin) = super::cubin::parse(image) else { return Vec::new() };
    let own = cubin.variables.iter().filter(|variable| variable.name.starts_with(VARIABLE));
    own.filter_map(|variable| {
        let bytes = super::cubin::contents(image, variable)?;
        is_bitcode(bytes).then(|| (variable.name.clone(), bytes))
    })
    .collect()
}

/// The bitcode modules in an AMDGPU code object, by the name of their section.
pub fn in_code_object(image: &[u8]) -> Vec<(String, &[u8])> {
    let Ok(elf) = Elf::parse(image) else { return Vec::new() };
    elf.section_headers
        .iter()
        .filter_map(|header| {
            let name = elf.shdr_strtab.get_at(header.sh_name).filter(|name| name.starts_with(SECTION))?;
            let bytes = image.get(header.file_range()?)?;
            is_bitcode(bytes).then(|| (name.to_owned(), bytes))
        })
        .collect()
}

/// Whether bytes begin as LLVM bitcode does, plain or wrapped.
pub fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(&0x0b17_c0de_u32.to_le_bytes())
}

/// Whether bitcode mentions a symbol: names are in a string table of whole bytes (LLVM 5 and later).
pub fn mentions(bitcode: &[u8], name: &str) -> bool {
    let name = name.as_bytes();
    !name.is_empty() && bitcode.windows(name.len()).any(|window| window == name)
}
