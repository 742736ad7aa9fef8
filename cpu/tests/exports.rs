//! A test that the library answers every function of the runtime that applications call.
//!
//! It stands in for NVIDIA's runtime: a function that is missing would be looked for in the runtime that the
//! application is linked with.

use std::collections::BTreeSet;
use std::path::Path;

use goblin::elf::Elf;

fn functions(library: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(library)
        .unwrap_or_else(|error| panic!("{} ({error}; scripts/setup fetches it)", library.display()));
    let elf = Elf::parse(&bytes).unwrap();
    let defined = elf.dynsyms.iter().filter(|symbol| symbol.st_shndx != 0 && symbol.is_function());
    defined.map(|symbol| elf.dynstrtab.get_at(symbol.st_name).unwrap().to_owned()).collect()
}

#[test]
fn every_function_of_the_runtime_is_answered_here() {
    let vendor = functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/cuda/lib64/libcudart.so.12"));
    assert!(vendor.len() > 300, "{} functions", vendor.len());
    let ours = functions(&std::env::current_exe().unwrap().with_file_name("libmneme_cpu.so"));
    let missing: Vec<&String> = vendor.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
