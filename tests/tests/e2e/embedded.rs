//! Tests of programs whose device code has LLVM IR that is not of `mneme-cc`.
//!
//! These are programs of clang's `-fembed-bitcode`, and those built with Proteus, by way of one of the same layout (its
//! launch and register functions, and IR in a device variable).

use std::path::Path;

use mneme_e2e::apps::{compile_flags, link_flags, plain_clang, sources};
use mneme_e2e::command::{Outcome, Run, run};
use mneme_e2e::installation::{Cudart, Device, have_compiler, library, program};
use mneme_e2e::recording::{Instance, load_kernels};

/// Builds the program and its runtime library into a folder; gives the IR that is in it.
fn build(folder: &Path) -> Vec<u8> {
    let source = sources().join("proteus/main.cu");
    let bitcode = folder.join("main.bc");
    plain_clang()
        .args(compile_flags())
        .args(["--cuda-device-only", "-emit-llvm", "-c", "-Xclang", "-disable-llvm-passes"])
        .args([&source, Path::new("-o"), &bitcode])
        .succeed();
    let bitcode = std::fs::read(&bitcode).unwrap();
    let text: Vec<String> = bitcode.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join("bitcode.inc"), text.join(",")).unwrap();
    plain_clang()
        .args(["-shared", "-fPIC", "-O2"])
        .args([&sources().join("proteus/runtime.cpp"), Path::new("-o"), &folder.join("libproteus.so")])
        .args(link_flags(Cudart::Shared))
        .succeed();
    plain_clang()
        .args(compile_flags())
        .arg(format!("-DJIT_BITCODE=\"{}\"", folder.join("bitcode.inc").display()))
        .args([&source, Path::new("-o"), &folder.join("program")])
        .args([format!("-L{}", folder.display()), "-lproteus".into(), "-Wl,-rpath,$ORIGIN".into()])
        .args(link_flags(Cudart::Shared))
        .succeed();
    bitcode
}

fn on_device(run: Run) -> Run {
    match Device::under_test() {
        Device::Cpu => run.env("LD_PRELOAD", library("libmneme_cpu.so")),
        Device::Cuda => run,
    }
}

fn record(database: &Path, executable: &Path) -> Outcome {
    run(program("mneme"))
        .args(["record".as_ref(), "-rdb".as_ref(), database.as_os_str(), "--".as_ref(), executable.as_os_str()])
        .env("MNEME_DEVICE", Device::under_test().name())
        .succeed()
}

#[test]
fn launches_of_proteus_are_recorded_with_its_ir() {
    if !have_compiler("launches_of_proteus_are_recorded_with_its_ir") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bitcode = build(folder.path());
    let executable = folder.path().join("program");
    let plain = on_device(run(&executable)).succeed();
    assert_eq!(plain.stdout.matches("Proteus: launch").count(), 2, "{plain}");
    let database = folder.path().join("recording");
    let recorded = record(&database, &executable);
    assert!(recorded.stdout.contains("proteus: ok") && !recorded.stdout.contains("Proteus: "), "{recorded}");
    recorded.complains("IR (Proteus)");
    let (file, kernel) = load_kernels(&database).remove(0);
    assert_eq!(kernel.demangled_name, "daxpy(double, double const*, double*, unsigned long)");
    assert_eq!(std::fs::read(database.join(&kernel.modules[0])).unwrap(), bitcode);
    let (id, instance) = kernel.instances.first_key_value().expect("an instance");
    assert_eq!(instance.occurrences, 2);
    for passes in ["default<O3>", "default<O1>"] {
        Instance::new(&file, id).verify(passes, &[]);
    }
}

/// What is interposed for a HIP program: its launches go to the vendor's function, and nothing to Proteus.
#[test]
fn launches_of_proteus_go_to_hip() {
    if !have_compiler("launches_of_proteus_go_to_hip") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (library_file, executable) = (folder.path().join("libproteus.so"), folder.path().join("program"));
    let source = |name: &str| sources().join("proteus").join(name);
    plain_clang()
        .args(["-shared", "-fPIC", "-DLAUNCH=hipLaunchKernel"])
        .arg(source("runtime.cpp"))
        .arg("-o")
        .arg(library_file)
        .succeed();
    plain_clang()
        .args([&source("hip.cpp"), Path::new("-o"), &executable])
        .args([
            format!("-L{}", folder.path().display()),
            "-lproteus".into(),
            "-rdynamic".into(),
            "-Wl,-rpath,$ORIGIN".into(),
        ])
        .succeed();
    let expected = "HIP: the kernel, grid 1 2 3, block 4 5 6, argument 42, 78 bytes, stream 9\nstatus 7\n";
    let plain = run(&executable).succeed();
    assert_eq!(plain.stdout, format!("Proteus: register\nProteus: launch\n{expected}"));
    assert_eq!(run(&executable).env("LD_PRELOAD", library("libmneme_rec.so")).succeed().stdout, expected);
}

#[test]
fn what_clang_embeds_is_recorded() {
    if !have_compiler("what_clang_embeds_is_recorded") {
        return;
    }
    for name in ["globals", "matmul"] {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join(name);
        plain_clang()
            .args(compile_flags())
            .arg("-fembed-bitcode=all")
            .args([&sources().join(format!("{name}.cu")), Path::new("-o"), &executable])
            .args(link_flags(Cudart::Shared))
            .succeed();
        let database = folder.path().join("recording");
        let recorded = record(&database, &executable);
        assert_eq!(recorded.stdout, on_device(run(&executable)).succeed().stdout);
        recorded.complains("IR (embedded)");
        let (file, kernel) = load_kernels(&database).remove(0);
        let bitcode = std::fs::read(database.join(&kernel.modules[0])).unwrap();
        assert_eq!(mneme_core::image::bitcode::triple(&bitcode).as_deref(), Some("nvptx64-nvidia-cuda"));
        let (id, _) = kernel.instances.first_key_value().expect("an instance");
        for passes in ["default<O3>", "default<O1>"] {
            Instance::new(&file, id).verify(passes, &[]);
        }
    }
}
