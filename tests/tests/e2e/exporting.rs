//! Tests of launches that are exported as programs of their own.

use std::path::{Path, PathBuf};

use mneme_core::exit;
use mneme_e2e::apps::{app, compile_flags, recordable_clang, sources};
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Device, have_compiler, library, program};
use mneme_e2e::recording::{Instance, Recording};

fn export(folder: &Path, instance: &Instance) -> Run {
    let export = run(program("mneme")).arg("export").arg("--standalone").arg(folder).arg(&instance.database);
    export.args(["-rid", &instance.id])
}

/// The machine code of an application: with its IR in it where the CPU device is to run it.
fn code(name: &str, folder: &Path) -> PathBuf {
    let cubin = folder.join(format!("{name}.cubin"));
    let options = ["--cuda-device-only", "-fembed-bitcode=all", "-c", "-o"];
    recordable_clang()
        .args(compile_flags())
        .args(options)
        .arg(&cubin)
        .arg(sources().join(app(name).sources[0]))
        .succeed();
    cubin
}

/// Builds the program with a C compiler, and gives how to run it.
fn built(folder: &Path) -> Run {
    run("make").arg("--directory").arg(folder).arg("CFLAGS=-O2 -Wall -Wextra -Werror").succeed();
    let run = run(folder.join("kernel")).folder(folder);
    match Device::under_test() {
        Device::Cpu => run.env("LD_PRELOAD", library("libmneme_cpu.so")),
        Device::Cuda => run,
    }
}

#[test]
fn launches_run_and_verify_as_programs_of_their_own() {
    if !have_compiler("launches_run_and_verify_as_programs_of_their_own") {
        return;
    }
    let on_cpu = Device::under_test() == Device::Cpu;
    let scratch = tempfile::tempdir().unwrap();
    let mut exported = 0;
    for name in ["saxpy", "variables", "stencil", "matmul", "bigstruct", "histogram"] {
        let recording = Recording::of(app(name), &[]);
        let code = on_cpu.then(|| code(name, scratch.path()));
        for (database, kernel) in recording.kernels() {
            for id in kernel.instances.keys() {
                let (folder, instance) = (scratch.path().join(exported.to_string()), Instance::new(&database, id));
                if on_cpu {
                    // What the application runs there is no code for NVIDIA's driver.
                    let refused = export(&folder, &instance).exit_with(exit::BAD_USAGE);
                    refused.complains("name some by --code");
                }
                let export = export(&folder, &instance);
                match &code {
                    Some(code) => export.arg("--code").arg(code).succeed(),
                    None => export.succeed(),
                };
                assert!(folder.join("kernel-0.bc").is_file(), "{name}: its IR");
                let ran = built(&folder).arg("3").succeed();
                assert!(ran.stdout.contains(": verified, "), "{name}: {ran}");
                // The last bytes are of what the launch has changed.
                let memory = folder.join("memory.bin");
                let mut bytes = std::fs::read(&memory).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&memory, bytes).unwrap();
                let ran = built(&folder).exit_with(1);
                assert!(ran.stdout.contains("1 of the ") && ran.stdout.contains("1 bytes differ"), "{name}: {ran}");
                exported += 1;
            }
        }
    }
    assert!(exported >= 7, "{exported} launches");
}

#[test]
fn what_cannot_be_exported_is_refused_by_name() {
    if !have_compiler("what_cannot_be_exported_is_refused_by_name") {
        return;
    }
    let recording = Recording::of(app("variables"), &[]);
    let folder = tempfile::tempdir().unwrap();
    let several = run(program("mneme")).arg("export").arg("--standalone").arg(folder.path().join("a"));
    several.arg(recording.folder()).exit_with(exit::BAD_USAGE).complains("holds 2 kernels; name the STATIC-HASH.json");
    let (database, kernel) = recording.kernel("count");
    let instance = Instance::new(&database, kernel.instances.keys().next().unwrap());
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let text = folder.path().join("notes.txt");
    let refused = export(folder.path(), &instance).arg("--code").arg(&text).exit_with(exit::BAD_USAGE);
    refused.complains("is neither machine code (.cubin) nor PTX (.ptx) by its name");
    let code = code("variables", folder.path());
    let refused = export(folder.path(), &instance).arg("--code").arg(&code).exit_with(exit::BAD_USAGE);
    refused.complains("is not empty; name a new folder");
    assert_eq!(std::fs::read_to_string(text).unwrap(), "mine");
    // Code without the kernel is told by the program.
    let other = folder.path().join("other");
    export(&other, &instance).arg("--code").arg(self::code("saxpy", folder.path())).succeed();
    built(&other).exit_with(2).complains("cuModuleGetFunction");
}
