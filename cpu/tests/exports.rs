//! Tests that the library exports every function of the runtimes, and calls its own functions.
//!
//! It stands in for NVIDIA's runtime and AMD's, so a missing function would resolve to the runtime that the application
//! is linked with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use goblin::elf::Elf;

fn functions(library: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(library)
        .unwrap_or_else(|error| panic!("{} ({error}; scripts/setup fetches it)", library.display()));
    let elf = Elf::parse(&bytes).unwrap();
    let defined = elf.dynsyms.iter().filter(|symbol| symbol.st_shndx != 0 && symbol.is_function());
    defined.map(|symbol| elf.dynstrtab.get_at(symbol.st_name).unwrap().to_owned()).collect()
}

fn own_library() -> std::path::PathBuf {
    std::env::current_exe().unwrap().with_file_name("libmneme_cpu.so")
}

#[test]
fn every_function_of_cuda_s_runtime_is_answered_here() {
    let vendor = functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/cuda/lib64/libcudart.so.12"));
    assert!(vendor.len() > 300, "{} functions", vendor.len());
    let ours = functions(&own_library());
    let missing: Vec<&String> = vendor.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_function_of_hip_is_answered_here() {
    let ours = functions(&own_library());
    let declared = mneme_abi::hip::runtime::FUNCTIONS.iter().map(|function| function.name.to_owned());
    let missing: Vec<String> = declared.filter(|name| !ours.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let rocm = std::env::var_os("MNEME_TEST_ROCM").map_or("/usr".into(), PathBuf::from);
    let installed = [
        rocm.join("lib/x86_64-linux-gnu/libamdhip64.so"),
        rocm.join("lib/x86_64-linux-gnu/libamdhip64.so.5"),
        rocm.join("lib/libamdhip64.so"),
        "/opt/rocm/lib/libamdhip64.so".into(),
    ];
    let Some(library) = installed.iter().find(|library| library.exists()) else {
        mneme_fixtures::skip("HIP is not installed");
        return;
    };
    let vendor: BTreeSet<String> = functions(library)
        .into_iter()
        .filter(|name| name.starts_with("hip") || name.starts_with("__hip"))
        .chain([
            "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j".into()
        ])
        .collect();
    assert!(vendor.len() > 300, "{} functions", vendor.len());
    let missing: Vec<&String> = vendor.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Functions preloaded in front of the library have the same names as its own. They only affect other callers.
#[test]
fn functions_of_the_library_call_one_another_whatever_is_in_front_of_it() {
    let bytes = std::fs::read(own_library()).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let all = elf.dynrelas.iter().chain(elf.pltrelocs.iter());
    let named = all.filter_map(|relocation| elf.dynsyms.get(relocation.r_sym));
    let own = named.filter(|symbol| symbol.st_shndx != 0 && symbol.is_function());
    let names: BTreeSet<&str> = own.filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name)).collect();
    assert!(names.is_empty(), "{names:?}");
}
