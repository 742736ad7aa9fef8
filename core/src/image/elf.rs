//! Sections of ELF files, found without loading the whole file into the heap.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use goblin::elf::Elf;

/// A file mapped for reading.
pub struct MappedFile(memmap2::Mmap);

impl MappedFile {
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
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

/// The contents of a section of an ELF image, `None` if it has none of that name (or is no ELF image).
pub fn section<'a>(image: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let elf = Elf::parse(image).ok()?;
    let header = elf.section_headers.iter().find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(name))?;
    image.get(header.file_range()?)
}

/// What the dynamic section says about a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// `DT_NEEDED` names.
    pub libraries: Vec<String>,
    /// Whether it holds device code (`.nv_fatbin` or `.hip_fatbin`).
    pub device_code: bool,
}

/// Reads the needs of an executable or library; empty for what is no ELF image.
pub fn needs(image: &[u8]) -> Needs {
    let Ok(elf) = Elf::parse(image) else { return Needs::default() };
    let has =
        |name: &str| elf.section_headers.iter().any(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(name));
    Needs {
        libraries: elf.libraries.iter().map(ToString::to_string).collect(),
        device_code: has(".nv_fatbin") || has(".hip_fatbin"),
    }
}

/// Whether an executable or library takes a function of this name from another.
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
        let segments = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .map(|header| {
                let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
                start..start.wrapping_add(header.p_memsz as usize)
            })
            .collect();
        out.push(LoadedObject { path, segments });
        0
    }
    let mut objects: Vec<LoadedObject> = Vec::new();
    // SAFETY: `visit` does not unwind and takes the vector back with the type it has.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut objects).cast()) };
    objects
}

/// The object that an address of this process lies in.
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

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(at in 0usize..4096, byte in any::<u8>(), length in 64usize..16384) {
            // A small object whose section table is within reach of the damage.
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
