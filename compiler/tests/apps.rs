//! Builds every kernel of the real applications in tests/apps under every standard pipeline, as `mneme-replay` would.
//! Needs clang 19 and the CUDA toolkit that `scripts/setup` assembles; the suite's scripts guarantee both.

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_compiler::instrument::Instrument;
use mneme_compiler::{Code, ImageKind, Request, Target, build};
use mneme_core::configuration::Configuration;
use mneme_core::launch::Dim3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn device_bitcode(source: &Path) -> Vec<u8> {
    let output = Command::new("clang++-19")
        .args(["-x", "cuda", "--cuda-gpu-arch=sm_90", "-O3", "-std=c++17", "-w", "--cuda-device-only", "-emit-llvm", "-c"])
        .args(["-Xclang", "-disable-llvm-passes", "-o", "-"])
        .arg(format!("--cuda-path={}", root().join(".deps/cuda").display()))
        .arg(source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn kernels(bitcode: &[u8]) -> Vec<String> {
    let context = inkwell::context::Context::create();
    let buffer = inkwell::memory_buffer::MemoryBuffer::create_from_memory_range_copy(bitcode, "test");
    let module = inkwell::module::Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
    mneme_compiler::ir::annotations::kernels(&module).into_iter().map(|kernel| kernel.name()).collect()
}

#[test]
fn every_kernel_of_the_test_applications_builds_under_every_standard_pipeline() {
    let sources = std::fs::read_dir(root().join("tests/apps")).unwrap();
    let mut built = 0;
    mneme_compiler::warm_up();
    for source in sources.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|extension| extension == "cu")) {
        let bitcode = device_bitcode(&source);
        let names = kernels(&bitcode);
        assert!(!names.is_empty(), "{} has no kernels", source.display());
        for kernel in names {
            for (level, codegen_opt) in [("O0", 0), ("O1", 1), ("O2", 2), ("O3", 3), ("Os", 0), ("Oz", 1)] {
                let mut configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0);
                configuration.passes = format!("default<{level}>");
                configuration.codegen_opt = codegen_opt;
                let target = Target::Nvptx { arch: "sm_90".into() };
                let modules: [&[u8]; 1] = [&bitcode];
                let request = Request::new(Code::Ir(&modules), &kernel, &target, &configuration);
                let artifact = build(&request).unwrap_or_else(|error| panic!("{} {kernel} {level}: {error}", source.display()));
                assert_eq!(artifact.kind, ImageKind::Cubin);
                assert!(artifact.image.starts_with(b"\x7fELF"));
                println!("{kernel} {level}: {:?} {}", artifact.times, artifact.assembler);
                built += 1;
            }
            for instrument in [Instrument::Faults, Instrument::Writes] {
                let configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0);
                let target = Target::Nvptx { arch: "sm_90".into() };
                let modules: [&[u8]; 1] = [&bitcode];
                let request =
                    Request { instrument: Some(instrument), ..Request::new(Code::Ir(&modules), &kernel, &target, &configuration) };
                let artifact = build(&request).unwrap_or_else(|error| panic!("{} {kernel} {instrument:?}: {error}", source.display()));
                assert!(artifact.instrumented.is_some() && artifact.image.starts_with(b"\x7fELF"), "{kernel}");
            }
        }
    }
    assert!(built >= 6);
}
