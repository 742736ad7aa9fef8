//! Sections of ELF files, found without loading the whole file into the heap.

use std::ops::Range;
use std::path::Path;

use goblin::container::Ctx;
use goblin::elf::section_header::SHT_NOBITS;
use goblin::elf::{Elf, SectionHeader};
use mneme_system::files::regular;

/// A file mapped for reading.
pub struct MappedFile(memmap2::Mmap);

impl MappedFile {
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let file = regular::open(path)?;
        // SAFETY: the mapping is private and only read; a file that is truncated meanwhile raises SIGBUS, which
        // replacing an executable by rename (what linkers and package managers do) does not.
        unsafe { memmap2::Mmap::map(&file) }.map(Self)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The contents of a section.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        section(self.bytes(), name)
    }
}

/// The contents of a section of an ELF image; `None` if the section is missing or the image is not ELF.
pub fn section<'a>(image: &'a [u8], name: &str) -> Option<&'a [u8]> {
    sections(image).into_iter().find(|(known, _)| *known == name).map(|(_, contents)| contents)
}

/// Names and contents of the sections of an ELF image; empty for other images. Skips symbol tables, which may be large.
pub fn sections(image: &[u8]) -> Vec<(&str, &[u8])> {
    let read = || {
        let header = Elf::parse_header(image).ok()?;
        let context = Ctx::new(header.container().ok()?, header.endianness().ok()?);
        let at = usize::try_from(header.e_shoff).ok().filter(|at| *at > 0)?;
        let headers = SectionHeader::parse(image, at, header.e_shnum.into(), context).ok()?;
        let names = image.get(headers.get(usize::from(header.e_shstrndx))?.file_range()?)?;
        let name = |at: usize| {
            let rest = names.get(at..)?;
            std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
        };
        let section = |header: &SectionHeader| Some((name(header.sh_name)?, image.get(header.file_range()?)?));
        Some(headers.iter().filter_map(section).collect())
    };
    read().unwrap_or_default()
}

/// The first bytes of a little-endian 64-bit ELF image.
pub const MAGIC: &[u8; 6] = b"\x7fELF\x02\x01";

/// Reads the eight bytes at an offset as a little-endian number; 0 outside the bytes.
pub(super) fn long(bytes: &[u8]) -> impl Fn(u64) -> u64 {
    move |at| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let found = at.checked_add(8).and_then(|end| bytes.get(at..end)).and_then(|found| found.try_into().ok());
        found.map_or(0, u64::from_le_bytes)
    }
}

/// The size of an ELF image according to its headers, bytes. The image may be incomplete. `None` for other images.
pub fn size_of(image: &[u8]) -> Option<u64> {
    size(long(image))
}

/// The size of an ELF image, bytes: the end of its last table or section. `long` returns the eight bytes at an offset
/// as a number. `None` for other images.
pub fn size(long: impl Fn(u64) -> u64) -> Option<u64> {
    if !long(0).to_le_bytes().starts_with(MAGIC) {
        return None;
    }
    // Offsets of fields in the ELF64 header and in section headers.
    let half = |offset: u64| long(offset & !7) >> (8 * (offset & 7)) & 0xffff;
    let table = |offset: u64, size: u64, count: u64| offset.checked_add(size * count);
    let (sections, section_size, count) = (long(40), half(58), half(60));
    let mut end = table(long(32), half(54), half(56))?.max(table(sections, section_size, count)?).max(64);
    for index in 0..count {
        let header = sections + index * section_size;
        let kind = (long(header) >> 32) as u32;
        if kind != SHT_NOBITS {
            end = end.max(long(header.checked_add(24)?).checked_add(long(header.checked_add(32)?))?);
        }
    }
    Some(end)
}

/// The facts in a program's dynamic section.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// `DT_NEEDED` names.
    pub libraries: Vec<String>,
    /// Whether it holds device code (`.nv_fatbin` or `.hip_fatbin`).
    pub device_code: bool,
}

/// Reads the needs of an executable or library; empty for images other than ELF.
pub fn needs(image: &[u8]) -> Needs {
    let Ok(elf) = Elf::parse(image) else { return Needs::default() };
    let has =
        |name: &str| elf.section_headers.iter().any(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(name));
    Needs {
        libraries: elf.libraries.iter().map(ToString::to_string).collect(),
        device_code: has(".nv_fatbin") || has(".hip_fatbin"),
    }
}

/// Whether an executable or library imports a function of this name.
pub fn imports(image: &[u8], name: &str) -> bool {
    let Ok(elf) = Elf::parse(image) else { return false };
    elf.dynsyms.iter().any(|symbol| symbol.is_import() && elf.dynstrtab.get_at(symbol.st_name) == Some(name))
}

/// An object loaded into this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedObject {
    pub path: std::path::PathBuf,
    /// Addresses of its loadable segments.
    pub segments: Vec<Range<usize>>,
    /// Read-only segments, which match the file: addresses, and offset in the file, bytes.
    pub constant: Vec<(Range<usize>, u64)>,
}

impl LoadedObject {
    /// The offset in the file of read-only bytes; `None` for all others.
    pub fn file_offset(&self, bytes: Range<usize>) -> Option<u64> {
        let holds = |(segment, _): &&(Range<usize>, u64)| segment.start <= bytes.start && bytes.end <= segment.end;
        let (segment, offset) = self.constant.iter().find(holds)?;
        Some(offset + (bytes.start - segment.start) as u64)
    }
}

/// Every ELF object of this process, the executable first.
pub fn loaded_objects() -> Vec<LoadedObject> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, out: *mut libc::c_void) -> libc::c_int {
        // SAFETY: dl_iterate_phdr passes a valid info and the pointer that it was given, the vector below.
        let (info, out) = unsafe { (&*info, &mut *out.cast::<Vec<LoadedObject>>()) };
        let name = if info.dlpi_name.is_null() {
            &[][..]
        } else {
            // SAFETY: dlpi_name is a NUL-terminated string (empty for the executable).
            unsafe { std::ffi::CStr::from_ptr(info.dlpi_name) }.to_bytes()
        };
        let path = if name.is_empty() && out.is_empty() {
            "/proc/self/exe".into()
        } else {
            std::path::PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name))
        };
        // SAFETY: dlpi_phdr points to dlpi_phnum program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let addresses = |header: &libc::Elf64_Phdr, size: u64| {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            start..start.wrapping_add(size as usize)
        };
        let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let constant = loaded().filter(|header| header.p_flags & libc::PF_W == 0);
        out.push(LoadedObject {
            path,
            segments: loaded().map(|header| addresses(header, header.p_memsz)).collect(),
            constant: constant.map(|header| (addresses(header, header.p_filesz), header.p_offset)).collect(),
        });
        0
    }
    let mut objects: Vec<LoadedObject> = Vec::new();
    // SAFETY: `visit` does not unwind and takes the vector back with the type it has.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut objects).cast()) };
    objects
}

/// The object that contains an address of this process.
pub fn object_at(address: usize) -> Option<LoadedObject> {
    loaded_objects().into_iter().find(|object| object.segments.iter().any(|segment| segment.contains(&address)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn our_own_program_is_understood() {
        let object = object_at(our_own_program_is_understood as *const () as usize).unwrap();
        let file = MappedFile::open(&object.path).unwrap();
        assert!(file.section(".text").is_some_and(|text| !text.is_empty()));
        assert!(file.section(".no.such.section").is_none());
        let needs = needs(file.bytes());
        assert!(needs.libraries.iter().any(|library| library.starts_with("libc.so")), "{needs:?}");
        assert!(!needs.device_code);
    }

    #[test]
    fn what_the_program_cannot_write_is_found_in_its_file() {
        static CONSTANT: [u8; 16] = *b"of a constant 16";
        static WRITTEN: std::sync::Mutex<[u8; 16]> = std::sync::Mutex::new([7; 16]);
        let object = object_at(CONSTANT.as_ptr() as usize).unwrap();
        let range = |start: usize| start..start + 16;
        let offset = object.file_offset(range(CONSTANT.as_ptr() as usize)).unwrap() as usize;
        let file = MappedFile::open(&object.path).unwrap();
        assert_eq!(file.bytes()[offset..][..16], CONSTANT);
        let written = range((&raw const WRITTEN) as usize);
        assert!(object.segments.iter().any(|segment| segment.contains(&written.start)));
        assert_eq!(object.file_offset(written), None);
        let last = object.constant.iter().map(|(segment, _)| segment.end).max().unwrap();
        assert_eq!(object.file_offset(last - 1..last + 1), None, "it goes on behind the segment");
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(at in 0usize..4096, byte in any::<u8>(), length in 64usize..16384) {
            // A small object, whose section table is near the damage.
            let mut bytes = vec![0u8; 16384];
            bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x00");
            for (at, value) in [(16, 1u16), (18, 62), (52, 64), (58, 64), (60, 4), (62, 1)] {
                bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
            }
            bytes[40..48].copy_from_slice(&64u64.to_le_bytes());
            bytes[at] = byte;
            bytes.truncate(length);
            section(&bytes, ".text");
            needs(&bytes);
        }
    }
}
