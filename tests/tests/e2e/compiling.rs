//! Tests of `mneme-cc`, which produces clang's output plus the IR.
//!
//! The IR survives everything that linkers and strippers do to a program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use goblin::elf::Elf;
use goblin::elf::section_header::{SHF_ALLOC, SHT_NOBITS};
use mneme_e2e::apps::{compile_flags, link_flags, plain_clang, recordable_clang, sources};
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Cudart, have_compiler, program};
use mneme_e2e::platform::llvm;
use mneme_image::ir_section::{IrTable, SECTION, SymbolKind, decode};
use tempfile::TempDir;

/// `SHF_GNU_RETAIN` of the gABI: the linker's garbage collection keeps the section.
const SHF_GNU_RETAIN: u64 = 1 << 21;

/// The tables of every record in a file, in order.
fn tables(path: &Path) -> Vec<IrTable> {
    let bytes = fs::read(path).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let mut found = Vec::new();
    for header in &elf.section_headers {
        if elf.shdr_strtab.get_at(header.sh_name) == Some(SECTION) {
            let section = &bytes[header.file_range().unwrap()];
            for unit in decode(section) {
                assert!(unit.bitcode().unwrap().starts_with(b"BC\xc0\xde"), "a record holds bitcode");
                found.push(unit.table);
            }
        }
    }
    found
}

fn defines_kernel(table: &IrTable, part: &str) -> bool {
    table.symbols.iter().any(|symbol| symbol.defined && symbol.name.contains(part) && symbol.kind == SymbolKind::Kernel)
}

/// Every section's flags and bytes by name, without Mneme's sections, and without the symbol and string tables, which
/// have to name Mneme's sections.
fn other_sections(path: &Path) -> BTreeMap<String, Vec<(u64, Vec<u8>)>> {
    let bytes = fs::read(path).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let mut sections: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for header in &elf.section_headers {
        let name = elf.shdr_strtab.get_at(header.sh_name).unwrap();
        if [SECTION, ".symtab", ".strtab", ".shstrtab", ""].contains(&name) {
            continue;
        }
        let data = if header.sh_type == SHT_NOBITS { Vec::new() } else { bytes[header.file_range().unwrap()].to_vec() };
        sections.entry(name.into()).or_default().push((header.sh_flags, data));
    }
    sections
}

/// The objects of the same command line in the same folder, without and with `mneme-cc`.
struct Objects {
    folder: TempDir,
}

impl Objects {
    fn of(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (clang, object) in [(plain_clang(), "plain.o"), (recordable_clang(), "recordable.o")] {
            clang.args(compile_flags()).args(arguments).args(["-o", "out.o"]).folder(folder.path()).succeed();
            fs::rename(folder.path().join("out.o"), folder.path().join(object)).unwrap();
        }
        Self { folder }
    }

    fn plain(&self) -> PathBuf {
        self.folder.path().join("plain.o")
    }

    fn recordable(&self) -> PathBuf {
        self.folder.path().join("recordable.o")
    }
}

#[test]
fn an_object_is_clangs_with_one_more_section() {
    if !have_compiler("an_object_is_clangs_with_one_more_section") {
        return;
    }
    for (source, switches) in
        [("globals.cu", &["-c"][..]), ("rdc/device.cu", &["-c", "-fgpu-rdc"]), ("saxpy.cu", &["-c", "-g"])]
    {
        let source = sources().join(source);
        let objects = Objects::of(&[switches, &[source.to_str().unwrap()]].concat());
        let (plain, recordable) = (objects.plain(), objects.recordable());
        let (expected, found) = (other_sections(&plain), other_sections(&recordable));
        assert_eq!(
            expected.keys().collect::<Vec<_>>(),
            found.keys().collect::<Vec<_>>(),
            "sections of {}",
            source.display()
        );
        for (name, contents) in expected {
            assert!(contents == found[&name], "section {name} of {} differs", source.display());
        }
        assert!(tables(&plain).is_empty());
        assert_eq!(tables(&recordable).len(), 1);

        let bytes = fs::read(&recordable).unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        let header =
            elf.section_headers.iter().find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(SECTION)).unwrap();
        let flags = u64::from(SHF_ALLOC) | SHF_GNU_RETAIN;
        assert_eq!(header.sh_flags & flags, flags, "the section is allocated and retained");
    }
}

#[test]
fn a_record_says_how_the_application_was_compiled() {
    if !have_compiler("a_record_says_how_the_application_was_compiled") {
        return;
    }
    let source = sources().join("saxpy.cu");
    let words = [
        "-c", "-O2", "-ffp-contract=off", "-mllvm", "-unroll-count=2", "-Xcuda-ptxas", "-maxrregcount=32",
        "-Xcuda-ptxas",
    ];
    let plain = Objects::of(&["-c", "--cuda-gpu-arch=sm_80", source.to_str().unwrap()]);
    let tuned = Objects::of(&[&words[..], &["--fmad=false", source.to_str().unwrap()]].concat());
    for table in tables(&plain.recordable()) {
        let compiled = table.compiled.unwrap();
        assert_eq!(
            (&*compiled.level, &*compiled.contract, compiled.ptx_opt, compiled.llvm_options.len()),
            ("3", "fast", 3, 0)
        );
        assert!(compiled.ptxas_options.is_empty(), "{compiled:?}");
    }
    let compiled = tables(&tuned.recordable()).remove(0).compiled.unwrap();
    assert_eq!((&*compiled.level, &*compiled.contract, compiled.ptx_opt), ("2", "off", 2));
    assert_eq!(
        (compiled.llvm_options.join(" "), compiled.ptxas_options.join(" ")),
        ("-unroll-count=2".into(), "-maxrregcount=32 --fmad=false".into())
    );
}

#[test]
fn every_architecture_has_a_record() {
    if !have_compiler("every_architecture_has_a_record") {
        return;
    }
    let objects = Objects::of(&["-c", "--cuda-gpu-arch=sm_80", sources().join("saxpy.cu").to_str().unwrap()]);
    let tables = tables(&objects.recordable());
    let mut archs: Vec<_> = tables.iter().map(|table| table.arch.as_str()).collect();
    archs.sort_unstable();
    assert_eq!(archs, ["sm_80", "sm_90"]);
    assert!(tables.iter().all(|table| defines_kernel(table, "saxpy")));
    assert_eq!(tables[0].unit, tables[1].unit);
}

#[test]
fn the_ir_survives_linkers_and_strippers() {
    if !have_compiler("the_ir_survives_linkers_and_strippers") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for linker in ["bfd", "lld"] {
        let path = folder.path().join(linker);
        recordable_clang()
            .args(compile_flags())
            .args(["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"])
            .arg(format!("-fuse-ld={linker}"))
            .args([&sources().join("saxpy.cu"), Path::new("-o"), &path])
            .args(link_flags(Cudart::Shared))
            .succeed();
        for strip in
            [&["strip"][..], &["strip", "--strip-unneeded"], &["llvm-strip-19"], &["llvm-strip-19", "--strip-all"]]
        {
            let stripped = folder.path().join("stripped");
            fs::copy(&path, &stripped).unwrap();
            run(strip[0]).args(&strip[1..]).arg(&stripped).succeed();
            let tables = tables(&stripped);
            assert_eq!(tables.len(), 1, "{linker}, {strip:?}");
            assert!(defines_kernel(&tables[0], "saxpy"), "{linker}, {strip:?}");
        }
    }
}

#[test]
fn errors_and_warnings_are_clangs_own() {
    if !have_compiler("errors_and_warnings_are_clangs_own") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.cu");
    for source in [
        "__global__ void k(int *p) { *p = undeclared; }\nint main() { return 0; }\n",
        "__device__ int f() { return not_there(); }\nint main() { return also_missing; }\n",
        "#error said by the host and the device compilation\n",
        "__global__ void k(int *p) { int unused = 1; *p = 2; }\nint main() { k<<<1, 1>>>(nullptr); int also_unused = 0; }\n",
    ] {
        fs::write(&wrong, source).unwrap();
        let compile = |clang: Run| {
            clang
                .args(compile_flags())
                .args(["-Wall", "-c", "wrong.cu", "-o", "wrong.o"])
                .folder(folder.path())
                .outcome()
        };
        let (plain, recordable) = (compile(plain_clang()), compile(recordable_clang()));
        assert!(!plain.stderr.is_empty(), "{plain}");
        assert_eq!(
            (recordable.status, &recordable.stdout, &recordable.stderr),
            (plain.status, &plain.stdout, &plain.stderr)
        );
    }
}

#[test]
fn what_has_no_device_code_passes_through() {
    if !have_compiler("what_has_no_device_code_passes_through") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("host.cpp"), "int answer() { return 42; }\n").unwrap();
    fs::write(folder.path().join("host.c"), "int answer(void) { return 42; }\n").unwrap();
    let [cxx, cc] = ["clang++", "clang"].map(|name| format!("{name}-{}", llvm()));
    for (ours, theirs, source) in [("cxx", &*cxx, "host.cpp"), ("cc", &*cc, "host.c")] {
        let wrapper = run(program("mneme")).args(["config", ours]).succeed();
        let compile = |compiler: Run, object: &str| {
            compiler.args(["-O2", "-c", source, "-o", object]).folder(folder.path()).succeed();
            fs::read(folder.path().join(object)).unwrap()
        };
        let expected = compile(run(theirs), "plain.o");
        assert!(compile(run(wrapper.stdout.trim()), "wrapped.o") == expected, "mneme config {ours}");
        assert!(compile(run(program("mneme-cc")).arg(theirs), "launched.o") == expected, "mneme-cc {theirs}");
    }
    let version = |clang: Run| clang.arg("--version").succeed().stdout;
    assert_eq!(version(recordable_clang()), version(plain_clang()));
    let preprocessed = |clang: Run| {
        clang.args(compile_flags()).args(["-E".as_ref(), sources().join("saxpy.cu").as_os_str()]).succeed().stdout
    };
    assert!(preprocessed(recordable_clang()) == preprocessed(plain_clang()));
}
