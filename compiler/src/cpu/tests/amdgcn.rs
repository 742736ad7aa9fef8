//! Tests of lowering code for AMD's GPUs.

use std::path::Path;
use std::process::Command;

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};

use super::run::{Parameters, Program};
use super::{IMPORTS, LIBRARY, LowerOptions, lower, table, undefined};

const DEVICE_LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode";
const PIPELINES: [&str; 2] = ["default<O0>", "default<O3>"];
const WAVE_IMPORTS: &[&str] = &[
    "__mneme_cpu_wave_ballot",
    "__mneme_cpu_wave_exchange",
    "__mneme_cpu_wave_permute",
    "__mneme_cpu_implicit_arguments",
    "__mneme_cpu_dispatch_packet",
    "__mneme_cpu_ockl_printf_begin",
    "__mneme_cpu_ockl_printf_append_args",
    "__mneme_cpu_ockl_printf_append_string_n",
    "__mneme_cpu_ockl_fprintf_stderr_begin",
];

/// Device bitcode of a HIP source, unoptimised; `None` where HIP is not installed.
fn device_ir(source: &Path, processor: &str) -> Option<Vec<u8>> {
    if !Path::new(DEVICE_LIBRARY).is_dir() || !Path::new("/usr/include/hip/hip_runtime.h").is_file() {
        eprintln!("skipped: HIP is not installed (scripts/setup --hip)");
        return None;
    }
    let output = Command::new("clang++-19")
        .args(["-x", "hip", "--rocm-path=/usr", &format!("--rocm-device-lib-path={DEVICE_LIBRARY}")])
        .args([&format!("--offload-arch={processor}"), "--cuda-device-only", "--no-gpu-bundle-output"])
        .args(["-emit-llvm", "-c", "-O3", "-Xclang", "-disable-llvm-passes", "-o", "-"])
        .arg(source)
        .output()
        .expect("clang++-19 (scripts/setup installs it)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

fn device_ir_of(text: &str, processor: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("test.hip");
    std::fs::write(&source, format!("#include <hip/hip_runtime.h>\n{text}")).unwrap();
    device_ir(&source, processor)
}

fn amdgpu(processor: &str) -> TargetMachine {
    Target::initialize_amd_gpu(&InitializationConfig::default());
    let triple = TargetTriple::create("amdgcn-amd-amdhsa");
    Target::from_triple(&triple)
        .unwrap()
        .create_target_machine(
            &triple,
            processor,
            "",
            inkwell::OptimizationLevel::Aggressive,
            RelocMode::PIC,
            CodeModel::Default,
        )
        .unwrap()
}

/// Runs `pipeline` as for the GPU, then lowers.
fn object(bitcode: &[u8], pipeline: &str, processor: &str) -> Vec<u8> {
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, "test");
    let module = Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
    super::super::library::cut(&module);
    module.run_passes(pipeline, &amdgpu(processor), PassBuilderOptions::create()).unwrap();
    lower(module, &LowerOptions::new(2), &mut |_, _| true).unwrap_or_else(|error| panic!("{pipeline}: {error}"))
}

#[test]
fn adhoc() {
    let Some(folder) = std::env::var_os("MNEME_TEST_HIP") else { return };
    let processor = std::env::var("MNEME_TEST_ARCH").unwrap_or("gfx90a".into());
    let pipelines = std::env::var("MNEME_TEST_PASSES").unwrap_or("default<O0>;default<O1>;default<O2>;default<O3>;default<Oz>".into());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bitcode = if path.extension().is_some_and(|e| e == "hip") { device_ir(&path, &processor).unwrap() }
            else if path.extension().is_some_and(|e| e == "bc") { std::fs::read(&path).unwrap() } else { continue };
        for pipeline in pipelines.split(';') {
            let object = object(&bitcode, pipeline, &processor);
            let table = table(&object);
            eprintln!("{} {pipeline}: {} kernels, refused {:?}", path.display(), table.kernels.len(), table.refused);
            if let Some(out) = std::env::var_os("MNEME_TEST_OUT") { std::fs::write(Path::new(&out).join(format!("{}.{}.o", path.file_name().unwrap().to_str().unwrap(), &pipeline[8..10])), &object).unwrap(); }
            for k in &table.kernels { eprintln!("  {k:?}"); }
            eprintln!("  {:?}", table.variables);
            for name in undefined(&object) {
                if !IMPORTS.contains(&&*name) && !LIBRARY.contains(&&*name) && !WAVE_IMPORTS.contains(&&*name) {
                    eprintln!("  IMPORTS {name}");
                }
            }
        }
    }
}
