//! A test of the declared structures against the vendors' own headers.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_abi::cuda::profiler_structures;
use mneme_abi::structure::Structure;
use mneme_abi::{cuda, hip};

/// The structure with another layout in CUDA 13, whose runtime is another library.
const OTHER_IN_13: &str = "struct cudaPointerAttributes";
/// The structure declared once for each.
const DECLARED_TWICE: &str = "struct cudaDeviceProp";

fn dependencies(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps").join(folder)
}

/// The assertions about a structure, in C.
fn asserted(structure: &Structure) -> String {
    let name = structure.name;
    let mut text = String::new();
    if let Some(layout) = structure.layout {
        let (size, alignment) = (layout.size(), layout.align());
        writeln!(text, "_Static_assert(sizeof({name}) == {size}, \"size of {name}\");").unwrap();
        writeln!(text, "_Static_assert(_Alignof({name}) == {alignment}, \"alignment of {name}\");").unwrap();
    }
    for (field, offset) in structure.fields {
        writeln!(text, "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");").unwrap();
    }
    text
}

/// The compiler's verdict on these structures with this header.
fn compiled(include: &Path, header: &str, structures: &[&Structure]) -> io::Result<()> {
    let all: String = structures.iter().map(|structure| asserted(structure)).collect();
    compiles(include, &format!("{header}\n{all}"))
}

/// The compiler's verdict on a text in C.
fn compiles(include: &Path, text: &str) -> io::Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.c");
    std::fs::write(&file, format!("#include <stddef.h>\n{text}")).unwrap();
    // A header of CUPTI's includes this C++ header without using it.
    std::fs::write(folder.path().join("string"), "").unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-w", "-fsyntax-only", "-I"]).arg(include).arg("-I").arg(folder.path()).arg(&file);
    let output = compiler.output().unwrap();
    if output.status.success() { Ok(()) } else { Err(io::Error::other(String::from_utf8_lossy(&output.stderr))) }
}

#[test]
fn structures_of_the_driver_are_as_in_its_headers() {
    let all: Vec<&Structure> = cuda::structures::STRUCTURES.iter().collect();
    for folder in ["cuda/include", "nvcc/include", "headers"] {
        let include = dependencies(folder);
        assert!(include.join("cuda.h").exists(), "{}: run ./scripts/setup", include.display());
        compiled(&include, "#include <cuda.h>", &all).unwrap_or_else(|error| panic!("{folder}: {error}"));
    }
}

#[test]
fn structures_of_the_runtime_are_as_in_its_headers() {
    let header = "#include <cuda_runtime_api.h>";
    for (folder, is_13) in [("cuda/include", false), ("nvcc/include", true)] {
        let (twice, others): (Vec<&Structure>, Vec<&Structure>) =
            cuda::runtime_structures::STRUCTURES.iter().partition(|structure| structure.name == DECLARED_TWICE);
        let fitting: Vec<bool> =
            twice.iter().map(|structure| compiled(&dependencies(folder), header, &[structure]).is_ok()).collect();
        assert_eq!(fitting, [!is_13, is_13], "{folder}: {DECLARED_TWICE}");
        for structure in others {
            let done = compiled(&dependencies(folder), header, &[structure]);
            let is_another = is_13 && structure.name == OTHER_IN_13;
            assert_eq!(done.is_err(), is_another, "{folder}: {}: {done:?}", structure.name);
        }
    }
}

#[test]
fn structures_of_the_range_profiler_are_as_in_its_headers() {
    let others = std::env::var_os("MNEME_TEST_CUPTI_INCLUDE").map(PathBuf::from);
    let header = "#include <cupti_target.h>\n#include <cupti_profiler_target.h>\n#include <cupti_profiler_host.h>\n\
                  #include <cupti_range_profiler.h>";
    let structures: Vec<&Structure> = profiler_structures::STRUCTURES.iter().collect();
    let sizes = profiler_structures::sizes();
    assert_eq!(sizes.len(), structures.len());
    let size = |(name, size): &(&str, usize)| {
        format!("_Static_assert({name}_STRUCT_SIZE == {size}, \"size that {name} says\");\n")
    };
    let number = |(name, number): &(&str, i64)| format!("_Static_assert({name} == {number}, \"{name}\");\n");
    let said: String = sizes.iter().map(size).chain(profiler_structures::NUMBERS.iter().map(number)).collect();
    for include in others.into_iter().chain([dependencies("cuda/include")]) {
        let failed = |error| panic!("{}: {error}", include.display());
        compiled(&include, header, &structures).unwrap_or_else(failed);
        compiles(&include, &format!("{header}\n{said}")).unwrap_or_else(failed);
        // Show that the test can fail.
        assert!(compiles(&include, &format!("{header}\n{}", size(&(sizes[0].0, sizes[0].1 + 8)))).is_err());
    }
}

#[test]
fn structures_of_hip_are_as_in_its_headers() {
    let others = std::env::var_os("MNEME_TEST_HIP_INCLUDE").map(PathBuf::from);
    let folders = others.into_iter().chain(["/usr/include".into(), "/opt/rocm/include".into()]);
    let folders: Vec<PathBuf> = folders.filter(|folder| folder.join("hip/hip_runtime_api.h").exists()).collect();
    if folders.is_empty() {
        mneme_fixtures::skip("HIP's headers are not installed");
    }
    let header = "#define __HIP_PLATFORM_AMD__ 1\n#include <hip/hip_version.h>\n#include <hip/hip_runtime_api.h>\n\
                  #if HIP_VERSION_MAJOR < 6\n#define type memoryType\n#endif";
    let (volumes, others): (Vec<&Structure>, Vec<&Structure>) =
        hip::structures::STRUCTURES.iter().partition(|structure| structure.name == "HIP_MEMCPY3D");
    for folder in folders {
        compiled(&folder, header, &others).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        // One of the two layouts matches the headers.
        let fitting = volumes.iter().filter(|one| compiled(&folder, header, &[one]).is_ok()).count();
        assert_eq!((fitting, volumes.len()), (1, 2), "{}", folder.display());
    }
}
