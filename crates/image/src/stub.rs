//! A shared library without code, for programs linked with a library that is not installed.
//!
//! Even if a preloaded library already provides the functions, the dynamic loader requires a file with the linked name
//! and the symbol versions that the program names; it prints a warning for each missing version. The preloaded
//! library's unversioned symbols satisfy references with any version.

use goblin::elf::Elf;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// A growing image, in which addresses equal offsets.
struct Image(Vec<u8>);

impl Image {
    fn at(&mut self, alignment: usize) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(alignment), 0);
        self.0.len() as u64
    }

    fn put(&mut self, numbers: &[(u64, usize)]) {
        for (value, bytes) in numbers {
            self.0.extend(&value.to_le_bytes()[..*bytes]);
        }
    }
}

/// The System V ABI's hash of a name.
fn hash(name: &str) -> u64 {
    let mut hash = 0u32;
    for byte in name.bytes() {
        hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        hash = (hash ^ high >> 24) & !high;
    }
    hash.into()
}

/// `EM_X86_64` or `EM_AARCH64`.
const MACHINE: u64 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// An ELF64 library for this machine's processor with these symbol versions and without symbols. Lookups continue in
/// the library that it needs, if any (a path).
pub fn library(name: &str, versions: &[String], needed: Option<&str>) -> Vec<u8> {
    let mut strings = vec![0u8];
    let mut add = |text: &str| {
        let offset = strings.len() as u64;
        strings.extend(text.bytes().chain([0]));
        offset
    };
    // The first is the library's own name.
    let names: Vec<(u64, u64)> =
        std::iter::once(name).chain(versions.iter().map(String::as_str)).map(|text| (add(text), hash(text))).collect();
    let needed = needed.map(&mut add);
    let mut image = Image(vec![0; HEADER + 3 * PROGRAM_HEADER]);
    // A null symbol, with the version of unversioned ones.
    let symbols = image.at(8);
    image.put(&[(0, 8), (0, 8), (0, 8)]);
    let symbol_versions = image.at(2);
    image.put(&[(1, 2)]);
    // One bucket with an empty chain.
    let table = image.at(8);
    image.put(&[(1, 4), (1, 4), (0, 4), (0, 4)]);
    let definitions = image.at(8);
    for (index, (text, hash)) in names.iter().enumerate() {
        let (is_last, is_base) = (index + 1 == names.len(), index == 0);
        let next = if is_last { 0 } else { 28 };
        image.put(&[(1, 2), (u64::from(is_base), 2), (index as u64 + 1, 2), (1, 2), (*hash, 4), (20, 4), (next, 4)]);
        image.put(&[(*text, 4), (0, 4)]);
    }
    let text = image.at(1);
    image.0.extend(&strings);
    let dynamic = image.at(8);
    let entries = [
        // DT_SONAME, HASH, STRTAB, SYMTAB, STRSZ, SYMENT, VERSYM, VERDEF, VERDEFNUM, NULL
        (14, names[0].0),
        (4, table),
        (5, text),
        (6, symbols),
        (10, strings.len() as u64),
        (11, 24),
        (0x6fff_fff0, symbol_versions),
        (0x6fff_fffc, definitions),
        (0x6fff_fffd, names.len() as u64),
        (0, 0),
    ];
    // DT_NEEDED
    for (tag, value) in needed.map(|path| (1, path)).into_iter().chain(entries) {
        image.put(&[(tag, 8), (value, 8)]);
    }
    let end = image.0.len() as u64;
    let Image(bytes) = image;
    let mut head = Image(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec());
    // ET_DYN, the machine, version, no entry point, program headers, no sections, flags, and the sizes of these.
    head.put(&[(3, 2), (MACHINE, 2), (1, 4), (0, 8), (HEADER as u64, 8), (0, 8), (0, 4)]);
    head.put(&[(HEADER as u64, 2), (PROGRAM_HEADER as u64, 2), (3, 2), (64, 2), (0, 2), (0, 2)]);
    // PT_LOAD, which the loader also writes to, PT_DYNAMIC, and PT_GNU_STACK, which is not executable.
    for (kind, start, size, alignment) in [(1, 0, end, 0x1000), (2, dynamic, end - dynamic, 8), (0x6474_e551, 0, 0, 16)]
    {
        head.put(&[(kind, 4), (6, 4), (start, 8), (start, 8), (start, 8), (size, 8), (size, 8), (alignment, 8)]);
    }
    let mut bytes = bytes;
    bytes[..head.0.len()].copy_from_slice(&head.0);
    bytes
}

/// The symbol versions that a program requires from libraries with this name prefix.
pub fn versions_named(program: &[u8], libraries: &str) -> Vec<String> {
    let Ok(elf) = Elf::parse(program) else { return Vec::new() };
    let text = |offset: usize| elf.dynstrtab.get_at(offset);
    let Some(needed) = &elf.verneed else { return Vec::new() };
    let meant = needed.iter().filter(|library| text(library.vn_file).is_some_and(|name| name.starts_with(libraries)));
    let versions = meant.flat_map(|library| library.iter().map(|version| version.vna_name).collect::<Vec<_>>());
    versions.filter_map(|name| text(name).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    fn compile(folder: &Path, source: &str, arguments: &[&str]) -> bool {
        std::fs::write(folder.join("source.c"), source).unwrap();
        let compiler = Command::new("cc").current_dir(folder).arg("source.c").args(arguments).status();
        compiler.is_ok_and(|status| status.success())
    }

    #[test]
    fn a_program_runs_with_preloaded_functions_in_place_of_a_library_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::write(here.join("versions"), "one_1 { global: f; local: *; }; one_2 { global: g; } one_1;").unwrap();
        let link = "-Wl,-soname,libone.so.5,--version-script,versions";
        if !compile(
            here,
            "int f(void) { return 1; } int g(void) { return 2; }",
            &["-shared", "-fPIC", "-o", "libone.so", link],
        ) {
            mneme_fixtures::skip("no C compiler on this machine");
            return;
        }
        assert!(compile(
            here,
            "int f(void), g(void); int main(void) { return f() + g(); }",
            &["-o", "program", "-L.", "-lone"]
        ));
        assert!(compile(
            here,
            "int f(void) { return 30; } int g(void) { return 4; }",
            &["-shared", "-fPIC", "-o", "own.so"]
        ));
        std::fs::remove_file(here.join("libone.so")).unwrap();
        let program = std::fs::read(here.join("program")).unwrap();
        assert_eq!(versions_named(&program, "libone.so."), ["one_1", "one_2"]);
        let run = |versions: &[&str]| {
            let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
            std::fs::write(here.join("libone.so.5"), library("libone.so.5", &versions, None)).unwrap();
            let mut program = Command::new(here.join("program"));
            let output = program.env("LD_LIBRARY_PATH", here).env("LD_PRELOAD", here.join("own.so")).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        assert_eq!(run(&["one_1", "one_2", "one_3"]), (Some(34), String::new()));
        assert!(run(&["one_1"]).1.contains("version `one_2' not found"));

        // On its own, it provides the functions of the library that it needs.
        let own = here.join("own.so");
        std::fs::write(here.join("libone.so.5"), library("libone.so.5", &[], own.to_str())).unwrap();
        let source = "#include <dlfcn.h>\nint main(void) { void *one = dlopen(\"libone.so.5\", RTLD_NOW); \
            int (*f)(void) = one ? (int (*)(void))dlsym(one, \"f\") : 0; return f ? f() : 1; }";
        assert!(compile(here, source, &["-o", "loader", "-ldl"]));
        let status = Command::new(here.join("loader")).env("LD_LIBRARY_PATH", here).status().unwrap();
        assert_eq!(status.code(), Some(30));
    }
}
