//! Tests of launches exported as standalone programs.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::{app, compile_flags, link_flags, recordable_clang, sources};
use mneme_e2e::command::{Run, run};
use mneme_e2e::damage::{damaged_copy, flip_middle_byte};
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, library, program};
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_system::exit;
use tempfile::TempDir;

fn export(folder: &Path, instance: &TestInstance) -> Run {
    let export = run(program("mneme")).arg("export").arg("--standalone").arg(&instance.database).arg(folder);
    export.args(["-rid", &instance.id])
}

/// The machine code of an application. It contains IR if the CPU device has to run it.
fn code(name: &str, folder: &Path) -> PathBuf {
    compiled(&sources().join(app(name).sources[0]), &[], &folder.join(format!("{name}.cubin")))
}

fn compiled(source: &Path, flags: &[&str], cubin: &Path) -> PathBuf {
    let options = ["--cuda-device-only", "-fembed-bitcode=all", "-c", "-o"];
    recordable_clang().args(compile_flags()).args(flags).args(options).arg(cubin).arg(source).succeed();
    cubin.into()
}

/// Builds the program with a C compiler. Returns a command that runs it.
fn built(folder: &Path) -> Run {
    run("make").arg("--directory").arg(folder).arg("CFLAGS=-O2 -Wall -Wextra -Werror").succeed();
    on_device(run(folder.join("kernel")).folder(folder))
}

fn on_device(run: Run) -> Run {
    match TestDevice::under_test() {
        TestDevice::Cpu => run.env("LD_PRELOAD", library("libmneme_cpu.so")),
        TestDevice::Cuda => run,
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Kernels with variables that they read, write, reach through memory, or store pointers to. With FOLDED, the code
/// lacks the variable that is read; with BLIND, the one that is written. With STRAY, it writes past the end of memory.
const VARIABLES: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
#ifdef FOLDED
static constexpr int scale[4] = {1, 2, 3, 4};
#else
__device__ int scale[4] = {1, 2, 3, 4};
__global__ void followed(int **from, int *out) { out[threadIdx.x] = from[0][threadIdx.x % 4] + scale[threadIdx.x % 4]; }
__global__ void located(int **to) { *to = scale; }
__global__ void noted(long long *number, int *out) { out[threadIdx.x] = scale[threadIdx.x % 4] + (*number == 0); }
#endif
#ifndef BLIND
__device__ int seen;
#endif
__global__ void scaled(int *out) {
    out[threadIdx.x] = 5 * scale[threadIdx.x % 4];
#ifdef STRAY
    out[threadIdx.x + 64] = 0;
#endif
#ifndef BLIND
    if (threadIdx.x == 0)
        seen = seen + 1;
#endif
}
#if !defined FOLDED && !defined BLIND
int main() {
    int *out, *where, **pointer;
    cudaMalloc(&out, 256);
    cudaMalloc(&pointer, 64);
    cudaMemset(out, 0, 256);
    cudaMemset(pointer, 0, 64);
    scaled<<<1, 64>>>(out);
    located<<<1, 1>>>(pointer);
    cudaGetSymbolAddress((void **)&where, scale);
    cudaMemcpy(pointer, &where, sizeof where, cudaMemcpyHostToDevice);
    followed<<<1, 64>>>(pointer, out);
    where -= 50;
    cudaMemcpy(pointer, &where, sizeof where, cudaMemcpyHostToDevice);
    noted<<<1, 64>>>(reinterpret_cast<long long *>(pointer), out);
    return cudaDeviceSynchronize();
}
#endif
"#;

/// The source and a recording of it.
fn variables() -> (TempDir, PathBuf, Recording) {
    let folder = tempfile::tempdir().unwrap();
    let (source, executable) = (folder.path().join("variables.cu"), folder.path().join("variables"));
    std::fs::write(&source, VARIABLES).unwrap();
    let compile = recordable_clang().args(compile_flags()).arg(&source).arg("-o").arg(&executable);
    compile.args(link_flags(Cudart::under_test())).succeed();
    let recording = Recording::of_executable(&executable, &[]);
    (folder, source, recording)
}

fn instance(recording: &Recording, kernel: &str) -> TestInstance {
    let (database, kernel) = recording.kernel(kernel);
    TestInstance::new(&database, kernel.instances.keys().next().unwrap())
}

#[test]
fn launches_run_and_verify_as_programs_of_their_own() {
    if !have_compiler("launches_run_and_verify_as_programs_of_their_own") {
        return;
    }
    let on_cpu = TestDevice::under_test() == TestDevice::Cpu;
    let scratch = tempfile::tempdir().unwrap();
    let mut exported = 0;
    for name in ["saxpy", "variables", "stencil", "matmul", "bigstruct", "histogram"] {
        let recording = Recording::of(app(name), &[]);
        let code = on_cpu.then(|| code(name, scratch.path()));
        for (database, kernel) in recording.kernels() {
            for id in kernel.instances.keys() {
                let (folder, instance) = (scratch.path().join(exported.to_string()), TestInstance::new(&database, id));
                if on_cpu {
                    // NVIDIA's driver cannot load the code that the application runs there, but the program's PTX.
                    let of_ptx = scratch.path().join(format!("{exported}-ptx"));
                    export(&of_ptx, &instance).succeed();
                    assert!(of_ptx.join("kernel.ptx").is_file(), "{name}");
                    let ran = built(&of_ptx).succeed();
                    assert!(ran.stdout.contains(": verified, "), "{name}: {ran}");
                }
                let export = export(&folder, &instance);
                match &code {
                    Some(code) => export.arg("--code").arg(code).succeed(),
                    None => export.succeed(),
                };
                assert!(folder.join("kernel-0.bc").is_file(), "{name}: its IR");
                let ran = built(&folder).arg("3").succeed();
                assert!(ran.stdout.contains(": verified, "), "{name}: {ran}");
                // The last bytes belong to memory that the launch changed.
                let memory = folder.join("memory.bin");
                let mut bytes = std::fs::read(&memory).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&memory, &bytes).unwrap();
                let ran = built(&folder).exit_with(1);
                assert!(ran.stdout.contains("1 of the ") && ran.stdout.contains("1 bytes differ"), "{name}: {ran}");
                std::fs::write(&memory, &bytes[..bytes.len() - 1]).unwrap();
                built(&folder).exit_with(2).complains("memory.bin: is incomplete");
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
    // In earlier releases the folder came first.
    let several = run(program("mneme")).arg("export").arg("--standalone").arg(folder.path().join("a"));
    several.arg(recording.folder()).exit_with(exit::BAD_USAGE).complains("2 kernels of");
    let (database, kernel) = recording.kernel("count");
    let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let text = folder.path().join("notes.txt");
    let refused = export(folder.path(), &instance).arg("--code").arg(&text).exit_with(exit::BAD_USAGE);
    refused.complains("name a .cubin or .ptx file");
    let code = code("variables", folder.path());
    let refused = export(folder.path(), &instance).arg("--code").arg(&code).exit_with(exit::BAD_USAGE);
    refused.complains("is not empty; name a new folder");
    assert_eq!(std::fs::read_to_string(text).unwrap(), "mine");
    let other = folder.path().join("other");
    let ptx = folder.path().join("other.ptx");
    std::fs::write(&ptx, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing() { ret; }\n")
        .unwrap();
    for (code, held) in [(self::code("saxpy", folder.path()), "saxpy"), (ptx, "nothing")] {
        let refused = export(&other, &instance).arg("--code").arg(code).exit_with(exit::BAD_USAGE);
        refused.complains("has no kernel count");
        refused.complains(held);
    }
}

#[test]
fn inputs_are_verified_and_errors_leave_nothing() {
    if !have_compiler("inputs_are_verified_and_errors_leave_nothing") {
        return;
    }
    let recording = Recording::of(app("saxpy"), &[]);
    let (codes, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let code = code("saxpy", codes.path());
    let folder = scratch.path().join("a b");
    let export = |instance: &TestInstance, status: i32, complaint: &str| {
        export(&folder, instance).arg("--code").arg(&code).exit_with(status).complains(complaint);
        assert!(names(scratch.path()).is_empty(), "{complaint}: {:?}", names(scratch.path()));
    };
    let with = |damage: &dyn Fn(&Path)| {
        let (copy, instance) = damaged_copy(&recording);
        damage(copy.path());
        (copy, instance)
    };
    let ir = |folder: &Path| {
        let found: Vec<_> = names(folder).into_iter().filter(|name| name.starts_with("RecordedIR_")).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        folder.join(&found[0])
    };
    let (_copy, damaged) = with(&|folder| flip_middle_byte(&ir(folder)));
    export(&damaged, exit::BAD_RECORDING, "its checksum does not match");
    let (_copy, missing) = with(&|folder| std::fs::remove_file(ir(folder)).unwrap());
    export(&missing, exit::BAD_RECORDING, "No such file");
    let (_copy, missing) = with(&|folder| std::fs::remove_dir_all(folder.join("packs")).unwrap());
    export(&missing, exit::BAD_RECORDING, "is in no pack file");
    let (_copy, damaged) = with(&|folder| {
        let packs = folder.join("packs");
        names(&packs).iter().for_each(|name| flip_middle_byte(&packs.join(name)));
    });
    export(&damaged, exit::BAD_RECORDING, "damaged");

    let whole = recording.single();
    let none = codes.path().join("none.ptx");
    let refused = self::export(&folder, &whole).arg("--code").arg(&none).exit_with(exit::NO_INPUT);
    refused.complains("none.ptx cannot be read");
    assert!(names(scratch.path()).is_empty());

    // The output is a complete command. The folder may exist if it is empty.
    std::fs::create_dir(&folder).unwrap();
    let exported = self::export(&folder, &whole).arg("--code").arg(&code).succeed();
    let (_, command) = exported.stdout.trim_end().split_once("; ").unwrap();
    assert!(command.starts_with("make -C '"), "{command}");
    let expected = ["Makefile", "kernel-0.bc", "kernel.c", "kernel.cubin", "launch.h", "memory.bin"];
    assert_eq!(names(&folder), expected);
    assert_eq!(names(scratch.path()), ["a b"]);
    let (make, start) = command.split_once(" && ").unwrap();
    run("sh").args(["-c", make]).succeed();
    let ran = on_device(run("sh").args(["-c", start])).succeed();
    assert!(ran.stdout.contains(": verified, "), "{ran}");

    for bad in ["2x", "0", "-1", "", "4000000000000000000", "99999999999999999999"] {
        let refused = on_device(run(folder.join("kernel")).arg(bad).folder(&folder)).exit_with(2);
        refused.complains(if bad.len() > 2 { "out of memory: for the times of so many runs" } else { "kernel [RUNS]" });
    }
}

#[test]
fn pointers_to_variables_in_memory_are_refused_by_name() {
    if !have_compiler("pointers_to_variables_in_memory_are_refused_by_name") {
        return;
    }
    let (folder, source, recording) = variables();
    let code = compiled(&source, &[], &folder.path().join("same.cubin"));
    for (kernel, moment) in [("followed", ""), ("located", " after the launch")] {
        let to = folder.path().join(kernel);
        let refused = export(&to, &instance(&recording, kernel)).arg("--code").arg(&code).exit_with(exit::BAD_USAGE);
        refused.complains("contains a pointer to the variable scale");
        refused.complains(&format!("{moment} contains a pointer to the variable"));
        assert!(!to.exists());
    }
    // An address next to a variable may be a number, as here.
    let to = folder.path().join("noted");
    let exported = export(&to, &instance(&recording, "noted")).arg("--code").arg(&code).succeed();
    exported.complains("may contain a pointer near the variable scale");
    assert!(built(&to).succeed().stdout.starts_with("noted(long long*, int*): verified, "));
}

#[test]
fn other_code_is_held_to_the_memory_that_the_launch_left() {
    if !have_compiler("other_code_is_held_to_the_memory_that_the_launch_left") {
        return;
    }
    let (folder, source, recording) = variables();
    let scaled = instance(&recording, "scaled");
    let export = |name: &str, flags: &[&str]| {
        let code = compiled(&source, flags, &folder.path().join(format!("{name}.cubin")));
        let to = folder.path().join(name);
        export(&to, &scaled).arg("--code").arg(code).succeed();
        built(&to)
    };
    assert!(export("same", &[]).succeed().stdout.starts_with("scaled(int*): verified, "));
    let stray = export("stray", &["-DSTRAY"]).exit_with(1);
    assert!(stray.stdout.contains(", outside all recorded memory, was written"), "{stray}");
    let folded = export("folded", &["-DFOLDED"]).succeed();
    let expected = "skipping variable scale, which the code does not have\nscaled(int*): verified, ";
    assert!(folded.stdout.starts_with(expected), "{folded}");
    let blind = export("blind", &["-DBLIND"]).exit_with(2);
    blind.complains("no such variable to compare");
}
