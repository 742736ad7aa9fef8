//! Tests of PTX that is lifted to LLVM IR to replace the recorded kernel.
//!
//! The CPU device runs nvcc's code too.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::{app, executable, sources};
use mneme_e2e::command::run;
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::platform::{compile_flags, link_flags, nvcc, plain_clang};
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_model::hash::checksum;
use mneme_model::result::Rounding;
use mneme_recording::CodeKind;
use mneme_recording::database::{CodeFile, KernelRecord};
use mneme_system::exit;
use serde_json::{Value, json};

use crate::applying::Tuned;

/// The PTX that nvcc generates for a program. `None` without nvcc, as on machines without network.
fn ptx_of(name: &str, folder: &Path) -> Option<PathBuf> {
    compiled(name, folder, &[])
}

fn compiled(name: &str, folder: &Path, switches: &[&str]) -> Option<PathBuf> {
    let file = folder.join(name).with_extension("ptx");
    let compile = run(nvcc("lifting")?).args(["-ptx", "-arch=sm_90", "-O3", "-std=c++17", "-I"]).arg(sources());
    compile.args(switches).arg(sources().join(name).with_extension("cu")).arg("-o").arg(&file).succeed();
    Some(file)
}

/// Replays every instance of a program from nvcc's PTX under every kind of pipeline.
#[track_caller]
fn lifted_replays_verify(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = ptx_of(name, folder.path()) else { return };
    let recording = Recording::of(app(name), &[]);
    for (database, kernel) in recording.kernels() {
        for id in kernel.instances.keys() {
            let instance = TestInstance::new(&database, id);
            for passes in ["", "default<O1>", "default<O3>"] {
                for more in [&[][..], &["--specialize", "--facts"]] {
                    let replay = instance.replay(passes).arg("--ptx").arg(&file).args(more);
                    let json = replay.exit_with(exit::VERIFIED).json();
                    assert_eq!(json["Result"]["lifted"], true, "{} {json}", kernel.demangled_name);
                }
            }
        }
    }
}

#[test]
fn sums_of_vectors() {
    lifted_replays_verify("vecadd");
}

#[test]
fn products_of_matrices_in_shared_memory() {
    lifted_replays_verify("matmul");
}

#[test]
fn histograms_with_atomics() {
    lifted_replays_verify("histogram");
}

#[test]
fn aggregates_as_parameters() {
    lifted_replays_verify("bigstruct");
}

#[test]
fn ptx_that_cannot_be_lifted_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = ptx_of("vecadd", folder.path()) else { return };
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replacen("ret;", "{ .reg .b64 %sp; stacksave.u64 %sp; } ret;", 1);
    std::fs::write(&file, changed).unwrap();
    let recording = Recording::of(app("vecadd"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let id = kernel.instances.keys().next().unwrap();
    let refused = TestInstance::new(&database, id).replay("default<O1>").arg("--ptx").arg(&file);
    refused.exit_with(exit::BAD_USAGE).complains("stacksave.u64");
}

/// Replaces the recorded code of an instance by PTX.
fn with_ptx_beside(database: &Path, kernel: &KernelRecord, id: &str, text: &str) -> CodeFile {
    let sum = checksum(text.as_bytes());
    let code = CodeFile { file: CodeKind::Ptx.original(sum), checksum: sum };
    std::fs::write(database.with_file_name(&code.file), text).unwrap();
    let mut changed = kernel.clone();
    let originals = &mut changed.instances.get_mut(id).unwrap().ours.original;
    originals.retain(|code| CodeKind::of(&code.file) != CodeKind::Ptx);
    originals.push(code.clone());
    changed.save(database).unwrap();
    code
}

/// A program with machine code for its GPU and PTX for an older one.
#[test]
fn ptx_for_another_architecture_is_replayed_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = ptx_of("vecadd", folder.path()) else { return };
    let text = std::fs::read_to_string(&file).unwrap().replacen(".target sm_90", ".target sm_75", 1);
    let recording = Recording::of(app("vecadd"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let id = kernel.instances.keys().next().unwrap();
    let instance = TestInstance::new(&database, id);
    let own = |code: &CodeFile| CodeKind::of(&code.file) == CodeKind::Ptx;
    if !kernel.instances[id].ours.original.iter().any(own) {
        instance.replay("default<O3>").arg("--from-ptx").exit_with(exit::BAD_USAGE).complains("no PTX of the kernel");
    }
    let code = with_ptx_beside(&database, &kernel, id, &text);
    let verified = |passes: &str, more: &[&str]| {
        let replay = instance.replay(passes).arg("--from-ptx").args(more).exit_with(exit::VERIFIED);
        replay.complains("the PTX is for sm_75");
        assert_eq!(replay.json()["Result"]["lifted"], true, "{replay}");
    };
    verified("", &[]);
    verified("default<O3>", &["--specialize", "--facts"]);
    let lines = folder.path().join("configurations.jsonl");
    std::fs::write(&lines, "{\"passes\": \"default<O1>\"}\n{\"passes\": \"\"}\n").unwrap();
    let sweep =
        run(program("mneme-replay")).args(["sweep", "--from-ptx", "-rid", id, "-rdb"]).arg(&database).arg(lines);
    let sweep = sweep.exit_with(exit::VERIFIED);
    assert_eq!(sweep.stdout.matches("\"lifted\":true").count(), 2, "{sweep}");
    std::fs::write(database.with_file_name(&code.file), "// another\n").unwrap();
    let damaged = instance.replay("default<O3>").arg("--from-ptx");
    damaged.exit_with(exit::BAD_RECORDING).complains("its checksum does not match");
}

/// The IR that Triton keeps for the code that it compiles.
#[test]
fn ir_of_triton_beside_the_recorded_code_is_replayed_where_it_is_asked_for() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let (database, kernel) = recording.kernels().remove(0);
    let id = kernel.instances.keys().next().unwrap();
    let instance = TestInstance::new(&database, id);
    let asked = |passes: &str| instance.replay(passes).arg("--from-llir");
    asked("default<O3>").exit_with(exit::BAD_USAGE).complains("no IR from Triton");
    let folder = tempfile::tempdir().unwrap();
    let kept = instance.replay("default<O1>").arg("--output-dir").arg(folder.path()).exit_with(exit::VERIFIED);
    let texts = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_text = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "ll");
    let text = texts.filter(is_text).max().unwrap_or_else(|| panic!("no text of IR: {kept}"));
    let text = std::fs::read(text).unwrap();
    let beside = |text: &[u8]| {
        let mut kernel = kernel.clone();
        let code = CodeFile { file: CodeKind::Llir.original(checksum(text)), checksum: checksum(text) };
        std::fs::write(database.with_file_name(&code.file), text).unwrap();
        kernel.instances.get_mut(id).unwrap().ours.original.push(code);
        kernel.save(&database).unwrap();
    };
    beside(&text);
    for passes in ["", "default<O2>"] {
        asked(passes).arg("--specialize").exit_with(exit::VERIFIED);
    }
    // For example from a newer LLVM.
    beside(b"define ptx_kernel void @vecadd(ptr future) {");
    asked("default<O3>").exit_with(exit::BUILD_FAILED).complains("the IR cannot be read");
}

/// The same in a tuning session, and in the application with the session's winner.
#[test]
fn ptx_beside_the_recorded_code_is_tuned_and_applied_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = ptx_of("vecadd", folder.path()) else { return };
    let text = std::fs::read_to_string(&file).unwrap();
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let (database, kernel) = recording.kernels().remove(0);
    let id = kernel.instances.keys().next().unwrap();
    let tune = |results: &str| {
        run(program("mneme-tune"))
            .args(["-rdb".as_ref(), database.as_os_str(), "-rid".as_ref(), id.as_ref()])
            .args(["--device", TestDevice::under_test().name(), "--from-ptx", "--space-preset", "launch"])
            .args(["--launch-dim", "x", "--passes", "default<O1>", "--trials", "2", "--iterations", "1"])
            .args(["--finalists", "0", "--results-dir"])
            .arg(folder.path().join(results))
    };
    let has_ptx = kernel.instances[id].ours.original.iter().any(|code| CodeKind::of(&code.file) == CodeKind::Ptx);
    if !has_ptx {
        tune("none").exit_with(exit::BAD_USAGE).complains("no PTX of the kernel");
    }
    let code = with_ptx_beside(&database, &kernel, id, &text);
    tune("some").succeed();
    let trials = std::fs::read_to_string(folder.path().join("some/trials.jsonl")).unwrap();
    let trials: Vec<Value> = trials.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!trials.is_empty());
    for trial in &trials {
        let result = &trial["result"];
        assert_eq!((&result["lifted"], &result["verified"]), (&true.into(), &true.into()), "{trial}");
    }
    let tuned = || {
        let changes = json!({"passes": "default<O2>"});
        let tuned = Tuned::new().with("vecadd", &TestInstance::new(&database, id), changes, json!({}));
        let config = tuned.results().join("vecadd/config.json");
        let mut options: Value = serde_json::from_str(&std::fs::read_to_string(&config).unwrap()).unwrap();
        options["from_ptx"] = true.into();
        std::fs::write(config, options.to_string()).unwrap();
        tuned.run(&executable(app("vecadd"), Cudart::under_test()), &["1", "int"], "vecadd")
    };
    let (_, applied) = tuned();
    assert_eq!(applied["applied"]["replaced"], applied["launches"], "{applied}");
    std::fs::write(database.with_file_name(&code.file), "// another\n").unwrap();
    let (outcome, kept) = tuned();
    outcome.complains("its checksum does not match");
    assert!(kept["launches"] == applied["launches"] && kept["applied"].is_null(), "{kept}");
}

/// With nvcc's `-lineinfo`.
#[test]
fn findings_in_lifted_code_name_lines_of_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = compiled("vecadd", folder.path(), &["-lineinfo"]) else { return };
    let recording = Recording::of(app("vecadd"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let id = kernel.instances.keys().next().unwrap();
    let instance = TestInstance::new(&database, id);
    let watched = format!("{:#x}:8", kernel.instances[id].args[0]);
    let replay = instance.replay("default<O3>").arg("--ptx").arg(&file).args(["--wrote", &watched]);
    let json = replay.exit_with(exit::VERIFIED).json();
    assert_eq!(json["Result"]["lifted"], true, "{json}");
    let source = &json["Result"]["last_write"]["source"][0];
    assert!(source["file"].as_str().is_some_and(|file| file.ends_with("vecadd.cu")), "{json}");
    assert!(source["function"].as_str().is_some_and(|function| function.contains("vecadd")), "{json}");
}

/// The PTX has a product and a sum in a loop, and a product that O3 moves out of the loop, where it can't be fused.
const LOOSE: &str = r#"
#include "check.cuh"
__global__ void loose(float *out, const float *in, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float own = in[i], sum = 0.0f;
    for (int k = 0; k < rounds; ++k) {
        float product, square;
        asm volatile("mul.f32 %0, %1, %2;" : "=f"(product) : "f"(own), "f"(in[k]));
        asm volatile("add.f32 %0, %1, %2;" : "=f"(sum) : "f"(sum), "f"(product));
        asm volatile("mul.f32 %0, %1, %1;" : "=f"(square) : "f"(own));
        asm volatile("sub.f32 %0, %1, %2;" : "=f"(sum) : "f"(sum), "f"(square));
    }
    out[i] = sum;
}
int main() {
    std::vector<float> values(512);
    for (int i = 0; i < 512; ++i)
        values[i] = 1.0f + 1.0f / float(3 + i);
    DeviceArray<float> in(values), out(512);
    out.clear();
    loose<<<4, 128>>>(out.get(), in.get(), 512, 7);
    LAUNCH_OK();
}
"#;

#[test]
fn a_difference_of_rounding_is_told_from_a_wrong_result() {
    if TestDevice::under_test() != TestDevice::Cpu {
        // The assembler's choice is unknown.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [source, binary] = ["loose.cu", "loose"].map(|name| folder.path().join(name));
    std::fs::write(&source, LOOSE).unwrap();
    let command = plain_clang().args(compile_flags()).arg("-I").arg(sources()).arg(&source).arg("-o");
    command.arg(&binary).args(link_flags(Cudart::under_test())).succeed();
    let recording = Recording::of_executable(&binary, &[]);
    let instance = recording.single();
    instance.verify("default<O3>", &[]);
    let differs = |passes: &str, options: &[&str]| {
        let outcome = instance.replay(passes).args(options).exit_with(exit::NOT_VERIFIED);
        let rounding = outcome.json()["Result"]["rounding"].clone();
        assert_eq!(outcome.stderr.contains("is one of rounding"), !rounding.is_null(), "{outcome}");
        (serde_json::from_value::<Option<Rounding>>(rounding).unwrap(), outcome)
    };
    let (rounding, outcome) = differs("default<O3>", &["--unfused"]);
    let rounding = rounding.unwrap_or_else(|| panic!("{outcome}"));
    assert_eq!((rounding.pairs, rounding.unfused), (2, Some(false)), "{outcome}");
    assert!(rounding.largest_ulp >= 1.0 && rounding.tolerances.is_empty(), "{outcome}");
    // Both pairs are fused.
    let (rounding, outcome) = differs("function(sroa)", &[]);
    let rounding = rounding.unwrap_or_else(|| panic!("{outcome}"));
    assert_eq!((rounding.pairs, rounding.unfused, rounding.tolerances.len()), (2, None, 1), "{outcome}");
    instance.verify("function(sroa)", &["--tolerance", &rounding.tolerances[0]]);
    // Threads are missing.
    let (rounding, outcome) = differs("function(sroa)", &["--block-dim-x", "64"]);
    assert_eq!(rounding, None, "{outcome}");
}
