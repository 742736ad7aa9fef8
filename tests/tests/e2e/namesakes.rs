//! Tests of units and modules with kernels of the same name.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::Platform;
use mneme_e2e::command::{Run, run};
use mneme_e2e::hip::have_hip;
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, library};
use mneme_e2e::platform::{hip_arch, sources};
use mneme_e2e::recording::{Recording, TestInstance, record_executable_into};

/// A program of separately compiled units.
fn build(platform: Platform, folder: &Path) -> PathBuf {
    let objects = ["main", "first", "second"].map(|unit| {
        let object = folder.join(format!("{unit}.o"));
        let source = sources().join(format!("namesakes/{unit}.cu"));
        platform
            .recordable_clang()
            .args(platform.compile_flags())
            .arg("-c")
            .args([&source, Path::new("-o"), &object])
            .succeed();
        object
    });
    let executable = folder.join("namesakes");
    let link = platform.recordable_clang().args(&objects).arg("-o").arg(&executable).args(platform.link_flags());
    // The inputs are objects, so clang does not link HIP's runtime automatically.
    if platform == Platform::Hip { link.arg("-lamdhip64") } else { link }.succeed();
    executable
}

/// Verifies every recorded kernel, and that the application's output is unchanged.
fn record_and_verify(executable: &Path, kernels: usize) {
    let recording = Recording::of_executable(executable, &[]);
    assert!(recording.outcome.stdout.contains("namesakes: ok"), "{}", recording.outcome);
    verify(&recording, kernels);
}

fn verify(recording: &Recording, kernels: usize) {
    let recorded = recording.kernels();
    assert_eq!(recorded.len(), kernels, "{}", recording.outcome);
    for (database, record) in recorded {
        for id in record.instances.keys() {
            TestInstance::new(&database, id).verify("default<O3>", &[]);
        }
    }
}

#[test]
fn kernels_of_one_name_in_two_units_are_each_units_own() {
    if have_compiler("kernels_of_one_name_in_two_units_are_each_units_own") {
        let folder = tempfile::tempdir().unwrap();
        record_and_verify(&build(Platform::Cuda(Cudart::under_test()), folder.path()), 2);
    }
}

#[test]
fn kernels_of_one_name_in_two_units_of_hip_are_each_units_own() {
    let test = "kernels_of_one_name_in_two_units_of_hip_are_each_units_own";
    if TestDevice::under_test() == TestDevice::Cpu && have_hip(test) {
        let folder = tempfile::tempdir().unwrap();
        let executable = build(Platform::Hip, folder.path());
        let plain = run(&executable).env("LD_PRELOAD", library("libmneme_cpu.so")).succeed();
        assert!(plain.stdout.contains("namesakes: ok"), "{plain}");
        record_and_verify(&executable, 2);
    }
}

/// A code object without IR is refused, and none of the program's own kernels runs for it. IR may be in a file next to
/// it or, with `mneme-cc`, in the code object.
#[test]
fn a_module_is_not_taken_for_the_program() {
    let test = "a_module_is_not_taken_for_the_program";
    if TestDevice::under_test() != TestDevice::Cpu || !have_hip(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let kernel = |value: i32| format!("extern \"C\" __global__ void set(int *p) {{ *p = {value}; }}\n");
    let main = r#"
        #include <cstdio>
        int main(int, char **arguments) {
            int *p, value = 0;
            hipModule_t module;
            hipFunction_t function = nullptr;
            hipMalloc(reinterpret_cast<void **>(&p), 4);
            set<<<1, 1>>>(p);
            hipMemcpy(&value, p, 4, hipMemcpyDeviceToHost);
            int loaded = hipModuleLoad(&module, arguments[1]);
            int found = loaded ? -1 : hipModuleGetFunction(&function, module, "set");
            void *parameters[] = {&p};
            int launched = found ? -1 : hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
            hipMemcpy(&value, p, 4, hipMemcpyDeviceToHost);
            std::printf("%d\n", launched ? 1 : value);
        }"#;
    std::fs::write(path("main.hip"), kernel(1) + main).unwrap();
    std::fs::write(path("module.hip"), kernel(2)).unwrap();
    Platform::Hip
        .recordable_clang()
        .args(Platform::Hip.compile_flags())
        .args([path("main.hip"), "-o".into(), path("main")])
        .succeed();
    let module = ["--cuda-device-only", "--rocm-path=/usr", "-nogpulib"];
    let compile = |compiler: Run, options: &[&str], output: &str| {
        let compiler = compiler.args(Platform::Hip.compile_flags()).args(module).args(options);
        compiler.args([path("module.hip"), "-o".into(), path(output)]).succeed();
    };
    compile(Platform::Hip.plain_clang(), &["--no-gpu-bundle-output"], "without.co");
    compile(Platform::Hip.plain_clang(), &["-emit-llvm", "-c", "--no-gpu-bundle-output"], "without.bc");
    compile(Platform::Hip.recordable_clang(), &["--no-gpu-bundle-output"], "alone.co");
    compile(Platform::Hip.recordable_clang(), &[], "bundle.co");
    compile(Platform::Hip.recordable_clang(), &["--offload-compress"], "compressed.co");

    let without = path("without.co");
    let ran = run(path("main")).arg(&without).env("LD_PRELOAD", library("libmneme_cpu.so")).succeed();
    assert_eq!(ran.stdout, "1\n", "{} has no IR for {}", without.display(), hip_arch());
    ran.complains("neither LLVM IR nor PTX");
    for (module, ir) in
        [("without.co", Some("without.bc")), ("alone.co", None), ("bundle.co", None), ("compressed.co", None)]
    {
        let with_ir = |command: Run| match ir {
            Some(file) => command.env("MNEME_IR_PATH", path(file)),
            None => command,
        };
        let loaded = path(module);
        let plain = with_ir(run(path("main")).arg(&loaded).env("LD_PRELOAD", library("libmneme_cpu.so"))).succeed();
        assert_eq!(plain.stdout, "2\n", "{module}: {plain}");
        let recording = Recording::by(|folder| {
            with_ir(record_executable_into(folder, &path("main"), &[loaded.to_str().expect("a path in UTF-8")]))
        });
        assert_eq!(recording.outcome.stdout, "2\n", "{module}: {}", recording.outcome);
        verify(&recording, 2);
    }
}
