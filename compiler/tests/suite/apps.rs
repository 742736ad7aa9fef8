//! Builds every kernel in tests/apps, and uses every standard pipeline.
//!
//! The builds are those of `mneme-replay`. They need clang 19 and the CUDA toolkit that `scripts/setup` assembles; the
//! suite's scripts guarantee both.

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_builds::instrument::Instrument;
use mneme_builds::{ImageKind, Target};
use mneme_compiler::{BuildRequest, InputCode, build};
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn device_bitcode(source: &Path) -> Vec<u8> {
    let output = Command::new(concat!("clang++-", env!("MNEME_LLVM_MAJOR")))
        .args([
            "-x", "cuda", "--cuda-gpu-arch=sm_90", "-O3", "-std=c++17", "-w", "--cuda-device-only", "-emit-llvm", "-c",
        ])
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

/// Pipelines with levels of code generation.
const STANDARD: [(&str, u8); 6] = [("O0", 0), ("O1", 1), ("O2", 2), ("O3", 3), ("Os", 0), ("Oz", 1)];
const INSTRUMENTS: [Instrument; 3] = [Instrument::Faults, Instrument::Writes, Instrument::Touched];

/// Each kernel is built with one of the pipelines and one instrument, in turn, or with all if
/// `MNEME_TEST_PIPELINES=all`.
#[test]
fn every_kernel_of_the_test_applications_builds_and_every_standard_pipeline_does() {
    let sources = std::fs::read_dir(root().join("tests/apps")).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<PathBuf> =
        sources.filter(|path| path.extension().is_some_and(|extension| extension == "cu")).collect();
    sources.sort();
    let all = std::env::var("MNEME_TEST_PIPELINES").is_ok_and(|which| which == "all");
    let mut built = [0; STANDARD.len()];
    let mut number = 0;
    mneme_compiler::warm_up();
    for source in sources {
        let bitcode = device_bitcode(&source);
        let names = kernels(&bitcode);
        assert!(!names.is_empty(), "{} has no kernels", source.display());
        for kernel in names {
            number += 1;
            let is_due = |index: usize, of: usize| all || index % of == number % of;
            for (index, (level, codegen_opt)) in STANDARD.into_iter().enumerate() {
                if !is_due(index, STANDARD.len()) {
                    continue;
                }
                let mut configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0);
                configuration.passes = format!("default<{level}>");
                configuration.codegen_opt = codegen_opt;
                let target = Target::Nvptx { arch: "sm_90".into() };
                let modules: [&[u8]; 1] = [&bitcode];
                let request = BuildRequest::new(InputCode::Ir(&modules), &kernel, &target, &configuration);
                let artifact =
                    build(&request).unwrap_or_else(|error| panic!("{} {kernel} {level}: {error}", source.display()));
                assert_eq!(artifact.kind, ImageKind::Cubin);
                assert!(artifact.image.starts_with(b"\x7fELF"));
                println!("{kernel} {level}: {:?} {}", artifact.times, artifact.assembler);
                built[index] += 1;
            }
            for (index, instrument) in INSTRUMENTS.into_iter().enumerate() {
                if !is_due(index, INSTRUMENTS.len()) {
                    continue;
                }
                let configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0);
                let target = Target::Nvptx { arch: "sm_90".into() };
                let modules: [&[u8]; 1] = [&bitcode];
                let request = BuildRequest {
                    instrument: Some(instrument),
                    ..BuildRequest::new(InputCode::Ir(&modules), &kernel, &target, &configuration)
                };
                let artifact = build(&request)
                    .unwrap_or_else(|error| panic!("{} {kernel} {instrument:?}: {error}", source.display()));
                assert!(artifact.instrumented.is_some() && artifact.image.starts_with(b"\x7fELF"), "{kernel}");
                println!(
                    "{kernel} {instrument:?}: {:?} {} bytes of PTX",
                    artifact.times,
                    artifact.ptx.map_or(0, |ptx| ptx.len())
                );
            }
        }
    }
    assert!(built.iter().all(|kernels| *kernels > 10), "{built:?}");
}

/// The one kernel of an application whose name contains `name`, built for an H200.
fn built(app: &str, name: &str, passes: &str, ptx_opt: u8) -> mneme_compiler::Artifact {
    mneme_compiler::warm_up();
    let bitcode = device_bitcode(&root().join("tests/apps").join(app));
    let kernel = kernels(&bitcode).into_iter().find(|kernel| kernel.contains(name)).unwrap();
    let mut configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0);
    (configuration.passes, configuration.ptx_opt) = (passes.to_owned(), Some(ptx_opt));
    let modules: [&[u8]; 1] = [&bitcode];
    build(&BuildRequest::new(InputCode::Ir(&modules), &kernel, &Target::Nvptx { arch: "sm_90".into() }, &configuration))
        .unwrap()
}

#[test]
fn undefined_behaviour_of_a_test_application_shows_in_its_ptx() {
    // The value that wraps around is divided by three (multiplied by 2^32 / 3, taking the upper half), or is folded
    // away. PTX defines both.
    let [unoptimised, optimised] =
        ["default<O0>", "default<O3>"].map(|passes| built("delicate.cu", "overflow", passes, 3).ptx.unwrap());
    assert!(
        unoptimised.contains(", 6;") && unoptimised.contains("mul.hi.s32") && unoptimised.contains("1431655766"),
        "{unoptimised}"
    );
    assert!(
        !optimised.contains(", 6;") && !optimised.contains("mul.hi.s32") && optimised.contains("shl.b32"),
        "{optimised}"
    );
}

#[cfg(feature = "planted-faults")]
#[test]
fn planted_faults_behind_the_pipeline_are_in_the_code_of_a_gpu() {
    let planted =
        |kind: &str, level| built("vecadd.cu", "vecadd", &format!("function(mneme-fault<{kind}>),default<O3>"), level);
    let plain = |level| built("vecadd.cu", "vecadd", "default<O3>", level);
    for (level, is_wrong) in [(0, false), (1, false), (2, true), (3, true)] {
        assert_eq!(planted("assembler", level).image != plain(level).image, is_wrong, "level {level}");
    }
    let (wrong, right) = (planted("codegen", 3).ptx.unwrap(), plain(3).ptx.unwrap());
    assert!(wrong.contains("sub.s64") && !right.contains("sub.s64") && right.contains("add.s64"), "{wrong}");
}
