//! Tests of programs whose device code contains LLVM IR that `mneme-cc` did not add.
//!
//! These are programs built with clang's `-fembed-bitcode`, and programs that use Proteus, modelled by a program with
//! the same layout: its launch and register functions, IR in a device variable, and machine code loaded from memory.

use std::path::Path;

use mneme_e2e::apps::{Platform, compile_flags, link_flags, plain_clang, sources};
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::hip;
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, library, program};
use mneme_e2e::recording::{TestInstance, load_kernels};
use serde_json::json;

use crate::applying::Tuned;

/// Builds a program and its runtime library into a folder. Returns the program's IR.
fn build(folder: &Path, source: &str, platform: Platform) -> Vec<u8> {
    // For AMD's GPUs, mneme-cc finds the device libraries.
    let (clang, launch): (fn() -> Run, &[&str]) = match platform {
        Platform::Cuda(_) => (plain_clang, &[]),
        Platform::Hip => (|| Platform::Hip.recordable_clang(), &["-DLAUNCH=hipLaunchKernel"]),
    };
    let source = sources().join("proteus").join(source);
    let bitcode = folder.join("program.bc");
    clang()
        .args(platform.compile_flags())
        .args(["--cuda-device-only", "-emit-llvm", "-c", "-Xclang", "-disable-llvm-passes"])
        .args([&source, Path::new("-o"), &bitcode])
        .succeed();
    let bitcode = std::fs::read(&bitcode).unwrap();
    let text: Vec<String> = bitcode.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join("bitcode.inc"), text.join(",")).unwrap();
    plain_clang()
        .args(["-shared", "-fPIC", "-O2"])
        .args(launch)
        .args([&sources().join("proteus/runtime.cpp"), Path::new("-o"), &folder.join("libproteus.so")])
        .succeed();
    clang()
        .args(platform.compile_flags())
        .arg(format!("-DJIT_BITCODE=\"{}\"", folder.join("bitcode.inc").display()))
        .args([&source, Path::new("-o"), &folder.join("program")])
        .args([format!("-L{}", folder.display()), "-lproteus".into(), "-Wl,-rpath,$ORIGIN".into()])
        .args(platform.link_flags())
        .succeed();
    bitcode
}

fn on_device(run: Run) -> Run {
    match TestDevice::under_test() {
        TestDevice::Cpu => run.env("LD_PRELOAD", library("libmneme_cpu.so")),
        TestDevice::Cuda => run,
    }
}

fn record(database: &Path, executable: &Path) -> ProgramOutput {
    run(program("mneme"))
        .args(["record".as_ref(), "-rdb".as_ref(), database.as_os_str(), "--".as_ref(), executable.as_os_str()])
        .env("MNEME_DEVICE", TestDevice::under_test().name())
        .succeed()
}

#[test]
fn launches_of_proteus_are_recorded_with_its_ir() {
    if !have_compiler("launches_of_proteus_are_recorded_with_its_ir") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bitcode = build(folder.path(), "main.cu", Platform::Cuda(Cudart::Shared));
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
        TestInstance::new(&file, id).verify(passes, &[]);
    }
}

/// A recording and its replay contain the original kernel of each annotation. Under `mneme apply`, the tuned kernel
/// replaces it.
#[track_caller]
fn annotated_kernels_are_recorded_and_replaced(platform: Platform) {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), "annotations.cu", platform);
    let executable = folder.path().join("program");
    let plain = on_device(run(&executable)).succeed();
    assert_eq!(plain.stdout.matches("Proteus: launch").count(), 6, "{plain}");
    let database = folder.path().join("recording");
    let recorded = record(&database, &executable);
    let own: String =
        plain.stdout.lines().filter(|line| !line.starts_with("Proteus: ")).map(|it| format!("{it}\n")).collect();
    assert!(own.contains("lambda main::'lambda'(unsigned long)\n") && own.contains("annotations: ok"), "{plain}");
    assert_eq!(recorded.stdout, own);
    recorded.complains("IR (Proteus)");
    let kernels = load_kernels(&database);
    let mut tuned = Tuned::new();
    let mut names = Vec::new();
    for (file, kernel) in &kernels {
        let (id, _) = kernel.instances.first_key_value().expect("an instance");
        let instance = TestInstance::new(file, id);
        for passes in ["default<O3>", "default<O1>"] {
            instance.verify(passes, &[]);
        }
        let name = kernel.demangled_name.trim_start_matches("void ").split(['(', '<']).next().unwrap();
        tuned = tuned.with(name, &instance, json!({"passes": "default<O2>"}), json!({}));
        names.push(name);
    }
    names.sort_unstable();
    assert_eq!(names, ["clamp", "each", "polynomial", "scale", "sum", "weigh"]);
    for name in names {
        let (outcome, kernel) = tuned.run(&executable, &[], name);
        assert_eq!(outcome.stdout, own);
        assert_eq!(kernel["applied"]["replaced"], 1, "{name}: {kernel}");
    }
}

#[test]
fn annotated_kernels_of_proteus_are_recorded_and_replaced() {
    if have_compiler("annotated_kernels_of_proteus_are_recorded_and_replaced") {
        annotated_kernels_are_recorded_and_replaced(Platform::Cuda(Cudart::Shared));
    }
}

#[test]
fn annotated_kernels_of_proteus_in_hip_are_recorded_and_replaced() {
    if hip::can_run("annotated_kernels_of_proteus_in_hip_are_recorded_and_replaced") {
        annotated_kernels_are_recorded_and_replaced(Platform::Hip);
    }
}

/// Checks that the launches of the program `launch.cpp` go to the vendor's function, and none to Proteus.
#[track_caller]
fn launches_go_on(runtime: &[&str], program: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (library_file, executable) = (folder.path().join("libproteus.so"), folder.path().join("program"));
    let source = |name: &str| sources().join("proteus").join(name);
    let build =
        |flags: &[&str], source: &Path, to: &Path| plain_clang().args(flags).args([source, Path::new("-o"), to]);
    build(runtime, &source("runtime.cpp"), &library_file).args(["-shared", "-fPIC"]).succeed();
    build(program, &source("launch.cpp"), &executable)
        .args([format!("-L{}", folder.path().display()), "-lproteus".into(), "-Wl,-rpath,$ORIGIN".into()])
        .succeed();
    let expected = "the kernel, grid 1 2 3, block 4 5 6, argument 42, 78 bytes, stream 9\nstatus 7\n";
    let plain = run(&executable).succeed();
    assert_eq!(plain.stdout, format!("Proteus: register\nProteus: launch\n{expected}"));
    assert_eq!(run(&executable).env("LD_PRELOAD", library("libmneme_rec.so")).succeed().stdout, expected);
}

#[test]
fn launches_of_proteus_go_to_hip() {
    if have_compiler("launches_of_proteus_go_to_hip") {
        launches_go_on(&["-DLAUNCH=hipLaunchKernel"], &["-rdynamic"]);
    }
}

#[test]
fn launches_of_proteus_go_to_a_static_runtime() {
    if have_compiler("launches_of_proteus_go_to_a_static_runtime") {
        launches_go_on(&[], &["-DLEFT"]);
    }
}

/// Machine code that Proteus's front ends generate at run time: with clang's embedded IR, with IR in a file, and
/// without IR.
#[test]
fn code_of_proteus_front_ends_is_recorded() {
    if !have_compiler("code_of_proteus_front_ends_is_recorded") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let source = |name: &str| sources().join("proteus").join(name);
    let executable = at("program");
    plain_clang()
        .args(compile_flags())
        .args([&source("frontend.cu"), Path::new("-o"), &executable])
        .args(link_flags(Cudart::Shared))
        .succeed();
    // The steps of the front ends: unoptimised IR, their own pipeline, PTX, NVIDIA's assembler.
    let compile = |name: &str, extra: &[&str]| {
        let [ir, ptx, cubin] = ["ll", "ptx", "cubin"].map(|extension| at(name).with_extension(extension));
        plain_clang()
            .args(compile_flags())
            .args(["--cuda-device-only", "-emit-llvm", "-S", "-Xclang", "-disable-llvm-passes"])
            .args(extra)
            .args([&source("written.cu"), Path::new("-o"), &ir])
            .succeed();
        plain_clang()
            .args(["-x", "ir", "-O3", "--target=nvptx64-nvidia-cuda", "-march=sm_90", "-S"])
            .args([&ir, Path::new("-o"), &ptx])
            .succeed();
        run("ptxas").arg("-arch=sm_90").args([&ptx, Path::new("-o"), &cubin]).succeed();
        (ir, cubin)
    };
    let record = |database: &Path, code: &Path, ir: &str| {
        run(program("mneme"))
            .args(["record".as_ref(), "-rdb".as_ref(), database.as_os_str(), "--".as_ref(), executable.as_os_str()])
            .arg(code)
            .env("MNEME_DEVICE", TestDevice::under_test().name())
            .env("MNEME_IR_PATH", ir)
    };
    let (ir, without) = compile("without", &[]);
    let (_, with) = compile("with", &["-fembed-bitcode=all"]);
    for (code, ir, kind) in [(&with, "", "IR (embedded)"), (&without, ir.to_str().unwrap(), "IR (file)")] {
        let database = code.with_extension("recording");
        let recorded = record(&database, code, ir).succeed();
        recorded.complains(kind);
        assert!(recorded.stdout.contains("frontend: ok"), "{recorded}");
        let (file, kernel) = load_kernels(&database).remove(0);
        let (id, _) = kernel.instances.first_key_value().expect("an instance");
        for passes in ["default<O3>", "default<O1>"] {
            TestInstance::new(&file, id).verify(passes, &[]);
        }
    }
    let (file, kernel) = load_kernels(&with.with_extension("recording")).remove(0);
    let (id, _) = kernel.instances.first_key_value().expect("an instance");
    let tuned = Tuned::new().with("fill", &TestInstance::new(&file, id), json!({"passes": "default<O2>"}), json!({}));
    let (_, kernel) = tuned.run(&executable, &[with.to_str().unwrap()], "fill");
    assert_eq!(kernel["applied"]["replaced"], 1, "{kernel}");

    let machine_code = record(&at("machine-code"), &without, "");
    match TestDevice::under_test() {
        TestDevice::Cpu => machine_code.exit_with(2).complains("neither LLVM IR nor PTX"),
        TestDevice::Cuda => machine_code.succeed().complains("machine code"),
    };
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
        assert_eq!(mneme_image::bitcode::triple(&bitcode).as_deref(), Some("nvptx64-nvidia-cuda"));
        let (id, _) = kernel.instances.first_key_value().expect("an instance");
        for passes in ["default<O3>", "default<O1>"] {
            TestInstance::new(&file, id).verify(passes, &[]);
        }
    }
}
