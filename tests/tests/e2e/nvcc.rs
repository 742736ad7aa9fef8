//! Tests of programs built with nvcc, on the CPU device, which runs their PTX.
//!
//! By default the tests build and record a few programs. `MNEME_TEST_NVCC=all` uses all that nvcc can compile, and
//! `none` uses none.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use mneme_e2e::apps::{APPS, App, app, sources};
use mneme_e2e::command::run;
use mneme_e2e::installation::{TestDevice, have_compiler};
use mneme_e2e::recording::{
    Recording, TestInstance, check_everything, load_kernels, record_executable_into, replay_everything,
};
use mneme_model::checked_text::write_checksum;
use mneme_model::hash::checksum;
use mneme_recording::CodeKind;
use mneme_system::exit;
use serde_json::json;

use crate::applying::Tuned;

/// PTX only, for the CPU device's architecture.
pub(crate) const PTX_90: [&str; 2] = ["-gencode", "arch=compute_90,code=compute_90"];
const FEW: [&str; 9] =
    ["vecadd", "matmul", "histogram", "bigstruct", "print", "misshapen", "atomics", "globals", "statics"];

/// Programs that behave differently than with clang, and why.
const OTHERS: [(&str, &str); 4] = [
    ("variables", "managed variables of CUDA are refused"),
    ("heads", "reaches variables through memory alone, which are recorded with IR alone"),
    ("lambda", "needs another switch of nvcc, which names its kernels otherwise"),
    ("warp", "calls what only clang declares"),
];

fn nvcc(test: &str) -> Option<PathBuf> {
    if TestDevice::under_test() != TestDevice::Cpu {
        mneme_fixtures::skip(format_args!("{test} needs the CPU device"));
        return None;
    }
    mneme_e2e::platform::nvcc(test)
}

/// A program of one source, linked with the shared runtime.
pub(crate) fn build(nvcc: &Path, source: &Path, switches: &[&str], binary: &Path) {
    let libraries = nvcc.ancestors().nth(2).expect("nvcc is in a folder of the toolkit").join("lib64");
    let command = run(nvcc).args(switches).args(["-cudart", "shared", "-O3", "-std=c++17", "-I"]).arg(sources());
    command.arg(format!("-Xlinker=-rpath={}", libraries.display())).arg(source).arg("-o").arg(binary).succeed();
}

fn verify(nvcc: &Path, app: &App) {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join(app.name);
    build(nvcc, &sources().join(app.sources[0]), &PTX_90, &binary);
    let recording = Recording::of_executable(&binary, &[]);
    for (_, kernel) in recording.kernels() {
        assert_eq!(CodeKind::of(&kernel.modules[0]), CodeKind::Ptx, "{}", kernel.demangled_name);
    }
    replay_everything(app, &recording);
    if app.name == "matmul" {
        check_everything(&recording);
    }
}

/// Without IR, only the recorded memory distinguishes numbers from addresses.
#[test]
fn specialised_winners_are_used_wherever_memory_lies() {
    let Some(nvcc) = nvcc("specialised winners") else { return };
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("vecadd");
    build(&nvcc, &sources().join("vecadd.cu"), &PTX_90, &binary);
    let recording = Recording::of_executable(&binary, &["1"]);
    let (database, kernel) = recording.kernels().remove(0);
    let id = kernel.instances.keys().next().unwrap();
    let changes = json!({"passes": "default<O2>", "specialize": true});
    let tuned = Tuned::new().with("vecadd", &TestInstance::new(&database, id), changes, json!({}));
    let replaced = |arguments: &[&str]| {
        let (outcome, kernel) = tuned.run(&binary, arguments, "vecadd");
        assert!(outcome.stdout.contains("vecadd: ok"), "{outcome}");
        (kernel["applied"]["replaced"].clone(), kernel["launches"].clone())
    };
    assert_eq!(replaced(&["1"]), (json!(1), json!(1)));
    assert_eq!(replaced(&["2"]), (json!(0), json!(1)), "another size");
}

/// A pipeline that is wrong on the recorded input does not judge how other code rounds.
#[test]
fn a_wrong_pipeline_judges_no_rounding() {
    let Some(nvcc) = nvcc("a wrong pipeline").filter(|_| have_compiler("a wrong pipeline")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (binary, source) = (folder.path().join("fragile"), folder.path().join("given.cu"));
    build(&nvcc, &sources().join("fragile.cu"), &PTX_90, &binary);
    let recording = Recording::of_executable(&binary, &[]);
    let (database, kernel) = recording.kernel("square");
    let square = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
    // The application's own code stays, and its pipelines leave out the sum.
    let module = &kernel.modules[0];
    let right = fs::read_to_string(recording.folder().join(module)).unwrap();
    let wrong: String = right
        .lines()
        .map(|line| match line.trim().strip_prefix("fma.rn.f32").and_then(|operands| operands.rsplit_once(',')) {
            Some((product, _)) => format!("\tmul.rn.f32 {product};\n"),
            None => format!("{line}\n"),
        })
        .collect();
    assert_ne!(right.trim_end(), wrong.trim_end());
    fs::write(recording.folder().join("wrong.ptx"), &wrong).unwrap();
    let text = fs::read_to_string(&database).unwrap();
    let sum = |text: &str| checksum(text.as_bytes()).to_string();
    let list = |name: &str| format!("\"{name}\"");
    let changed = text.replacen(&list(module), &list("wrong.ptx"), 1).replacen(&sum(&right), &sum(&wrong), 1);
    let mut changed = changed.into_bytes();
    write_checksum(&mut changed);
    fs::write(&database, changed).unwrap();
    // It is right on integers, and between the right result and that of the pipelines on other numbers.
    let body = "__global__ void square(float *out, const float *in, size_t n) {
        size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
        if (i < n) out[i] = in[i] * in[i] + in[i] - (in[i] == floorf(in[i]) ? 0.0f : 0.004f * in[i]);
    }";
    fs::write(&source, body).unwrap();
    let replay = square.replay("default<O3>").args(["--source", source.to_str().unwrap(), "--fresh", "1"]);
    let outcome = replay.args(["--fresh-seed", "0"]).outcome();
    let result = &outcome.json()["Result"];
    assert_eq!((&result["status"], &result["verified"]), (&"unproven".into(), &false.into()), "{outcome}");
}

/// A kernel in the recorded image is recognised by the image. In any other image, its code is compared and must be
/// equal.
#[test]
fn kernels_are_recognised_by_their_image_or_else_by_their_code() {
    let Some(nvcc) = nvcc("recognition") else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("twice.cu");
    let at = |name: &str| folder.path().join(name);
    // Each image contains a different second kernel, or a different `twice`.
    let text = |body: &str, other: &str| {
        format!(
            r#"#include "check.cuh"
            __global__ void twice(int *y) {{ {body} }}
            {other}
            int main() {{
                DeviceArray<int> y(std::vector<int>(64, 3));
                twice<<<1, 64>>>(y.get());
                std::printf("%d\n", y.download()[5]);
                return 0;
            }}"#
        )
    };
    let build_from = |name: &str, text: &str| {
        std::fs::write(&source, text).unwrap();
        build(&nvcc, &source, &PTX_90, &at(name));
    };
    build_from("recorded", &text("y[threadIdx.x] *= 2;", ""));
    build_from("grown", &text("y[threadIdx.x] *= 2;", "__global__ void other(int *y) { y[0] = 1; }"));
    build_from("changed", &text("y[threadIdx.x] *= 5;", ""));
    let recording = Recording::of_executable(&at("recorded"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let (id, instance) = kernel.instances.iter().next().unwrap();
    assert!(instance.ours.image.is_some(), "{instance:?}");
    let changes = json!({"passes": "default<O2>"});
    let tuned = Tuned::new().with("twice", &TestInstance::new(&database, id), changes, json!({}));
    let of = |name: &str| {
        let environment = [("MNEME_LOG_LEVEL", OsStr::new("debug"))];
        let (outcome, kernel) = tuned.run_in(&at(name), &[], "twice", &environment);
        let is_known = outcome.stderr.contains("is recognised by its image");
        (outcome.stdout.trim().to_owned(), kernel["applied"]["replaced"].clone(), is_known)
    };
    assert_eq!(of("recorded"), ("6".into(), json!(1), true));
    // The CPU device runs IR from a file instead of the image's PTX.
    let ir = folder.path().join("five.ll");
    std::fs::write(
        &ir,
        "target datalayout = \"e-i64:64-i128:128-v16:16-v32:32-n16:32:64\"\ntarget triple = \"nvptx64-nvidia-cuda\"\n\
         define ptx_kernel void @_Z5twicePi(ptr %y) {\n  store i32 5, ptr %y\n  ret void\n}\n\
         !nvvm.annotations = !{!0}\n!0 = !{ptr @_Z5twicePi, !\"kernel\", i32 1}\n",
    )
    .unwrap();
    let environment = [("MNEME_IR_PATH", ir.as_os_str())];
    let (outcome, found) = tuned.run_in(&at("recorded"), &[], "twice", &environment);
    assert_eq!((outcome.stdout.trim(), &found["applied"]["replaced"]), ("3", &json!(0)), "{outcome}");
    assert_eq!(of("grown"), ("6".into(), json!(1), false));
    assert_eq!(of("changed"), ("15".into(), json!(0), false));
}

/// The tables of CUDA's mathematical functions belong to the code, not to the program's variables.
#[test]
fn winners_for_kernels_that_read_mathematical_tables_are_used() {
    let Some(nvcc) = nvcc("mathematical tables") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("waves.cu"), folder.path().join("waves"));
    let text = r#"#include "check.cuh"
        #include <cmath>
        __global__ void waves(double *y, int n) { int i = threadIdx.x; if (i < n) y[i] = sin(y[i]); }
        int main() {
            std::vector<double> values(256);
            for (int i = 0; i < 256; ++i) values[i] = i * 1e7;
            DeviceArray<double> y(values);
            waves<<<1, 256>>>(y.get(), 256);
            bool right = true;
            for (double &value : values) value = std::sin(value);
            auto found = y.download();
            for (int i = 0; i < 256; ++i) right = right && std::abs(found[i] - values[i]) < 1e-14;
            return finish("waves", right, 256);
        }"#;
    std::fs::write(&source, text).unwrap();
    build(&nvcc, &source, &PTX_90, &binary);
    let recording = Recording::of_executable(&binary, &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let ptx = std::fs::read_to_string(database.with_file_name(&kernel.modules[0])).unwrap();
    assert!(ptx.contains("__cudart_"), "it reads none: {ptx}");
    let id = kernel.instances.keys().next().unwrap();
    for passes in ["", "default<O3>"] {
        TestInstance::new(&database, id).verify(passes, &[]);
    }
    let instance = TestInstance::new(&database, id);
    let tuned = Tuned::new().with("waves", &instance, json!({"passes": "default<O2>"}), json!({}));
    let (outcome, kernel) = tuned.run(&binary, &[], "waves");
    assert!(outcome.stdout.contains("waves: ok"), "{outcome}");
    assert_eq!((&kernel["applied"]["replaced"], &kernel["launches"]), (&json!(1), &json!(1)), "{outcome}");
}

/// Builds and records a program that reports whether each of its launches is right, and verifies them all.
pub fn verify_text(test: &str, text: &str, launches: usize) {
    let Some(nvcc) = nvcc(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("program.cu"), folder.path().join("program"));
    std::fs::write(&source, text).unwrap();
    build(&nvcc, &source, &PTX_90, &binary);
    let folder = folder.path().join("recording");
    let ran = record_executable_into(&folder, &binary, &[]).exit_with(exit::VERIFIED);
    let right = ran.stdout.lines().filter(|line| line.ends_with(": 0 wrong, cudaSuccess")).count();
    assert_eq!((right, ran.stdout.lines().count()), (launches, launches), "{ran}");
    let mut instances = 0;
    for (database, kernel) in load_kernels(&folder) {
        for id in kernel.instances.keys() {
            instances += 1;
            for passes in ["", "default<O1>", "default<O3>"] {
                TestInstance::new(&database, id).verify(passes, &[]);
            }
        }
    }
    assert_eq!(instances, launches);
}

#[test]
fn what_nvcc_builds_is_recorded_replayed_and_verified() {
    let Some(nvcc) = nvcc("what_nvcc_builds_is_recorded_replayed_and_verified") else { return };
    if std::env::var("MNEME_TEST_NVCC").as_deref() != Ok("all") {
        return FEW.iter().for_each(|name| verify(&nvcc, app(name)));
    }
    // Several units are relocatable PTX, which the driver links.
    let has_one_unit = |app: &&App| app.sources.len() == 1 && !app.sources[0].contains('/');
    let is_other = |app: &&App| OTHERS.iter().any(|(name, _)| *name == app.name);
    let failed: Vec<&str> = APPS
        .iter()
        .filter(|app| has_one_unit(app) && !is_other(app))
        .filter(|app| std::panic::catch_unwind(|| verify(&nvcc, app)).is_err())
        .map(|app| app.name)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// nvcc's instructions for CUDA's texture and surface functions.
#[test]
fn textures_and_surfaces_are_read_and_written() {
    let Some(nvcc) = nvcc("textures_and_surfaces_are_read_and_written") else { return };
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("textures");
    build(&nvcc, &sources().join("textures.cu"), &PTX_90, &binary);
    let recording = Recording::of_executable(&binary, &[]);
    assert!(recording.outcome.stdout.contains("textures: ok"), "{}", recording.outcome);
    let kernels = recording.kernels();
    assert_eq!(kernels.len(), 5, "{}", recording.outcome);
    for (database, kernel) in &kernels {
        let id = kernel.instances.keys().next().unwrap();
        TestInstance::new(database, id).verify("default<O3>", &[]);
    }
}

/// Machine code cannot run here. PTX for an older GPU can, with or without machine code.
#[test]
fn older_ptx_beside_machine_code_runs_and_newer_ptx_is_refused() {
    let Some(nvcc) = nvcc("older_ptx_beside_machine_code_runs_and_newer_ptx_is_refused") else { return };
    let folder = tempfile::tempdir().unwrap();
    let binary = |name: &str| folder.path().join(name);
    let source = sources().join("vecadd.cu");
    let older = ["-gencode", "arch=compute_75,code=compute_75", "-gencode", "arch=compute_90,code=sm_90"];
    build(&nvcc, &source, &older, &binary("older"));
    let recording = Recording::of_executable(&binary("older"), &[]);
    let (_, kernel) = recording.kernel("vecadd<long>");
    assert_eq!(CodeKind::of(&kernel.modules[0]), CodeKind::Ptx);
    replay_everything(app("vecadd"), &recording);

    let newer = ["-gencode", "arch=compute_100,code=compute_100"];
    build(&nvcc, &source, &newer, &binary("newer"));
    let refused = record_executable_into(&binary("recording"), &binary("newer"), &[]);
    refused.exit_with(2).complains("PTX is for sm_100");
    build(&nvcc, &source, &["-gencode", "arch=compute_90,code=sm_90"], &binary("machine-code"));
    let refused = record_executable_into(&binary("recording"), &binary("machine-code"), &[]);
    refused.exit_with(2).complains("neither LLVM IR nor PTX");
}

/// A program uses the device properties layout of its own CUDA release. Code that cannot be lifted affects only its
/// kernel.
#[test]
fn properties_are_those_of_cuda_13_and_other_kernels_run() {
    let Some(nvcc) = nvcc("properties_are_those_of_cuda_13_and_other_kernels_run") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("two.cu"), folder.path().join("two"));
    let text = r#"
        #include <cstdio>
        __global__ void set(int *p) { *p = 7; }
        __global__ void grow(int *p) {
            unsigned long long at;
            asm volatile("alloca.u64 %0, 16;" : "=l"(at));
            *p = static_cast<int>(at);
        }
        int main() {
            cudaDeviceProp all;
            int *p, value = 0;
            cudaGetDeviceProperties(&all, 0);
            std::printf("%s %d.%d %d %d\n", all.name, all.major, all.minor, all.warpSize, all.maxThreadsPerBlock);
            cudaMalloc(&p, 4);
            grow<<<1, 1>>>(p);
            std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
            set<<<1, 1>>>(p);
            cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost);
            std::printf("%d\n", value);
        }"#;
    std::fs::write(&source, text).unwrap();
    build(&nvcc, &source, &PTX_90, &binary);
    let ran = record_executable_into(&folder.path().join("recording"), &binary, &[]).exit_with(exit::VERIFIED);
    assert_eq!(ran.stdout, "Mneme CPU device 9.0 32 1024\ncudaErrorNotSupported\n7\n", "{ran}");
    ran.complains("alloca.u64");
}

/// Blocks that wait for each other with `grid.sync()`: as many as the device reports to hold, and more.
#[test]
fn cooperative_launches_are_recorded_replayed_and_verified() {
    let Some(nvcc) = nvcc("cooperative_launches_are_recorded_replayed_and_verified") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("together.cu"), folder.path().join("together"));
    let text = r#"
        #include <cooperative_groups.h>
        #include <cstdio>
        #include <vector>
        __global__ void neighbours(int *a, int *b, int rounds) {
            auto grid = cooperative_groups::this_grid();
            int i = grid.thread_rank(), n = grid.num_threads();
            for (int round = 0; round < rounds; ++round) {
                b[i] = a[(i + blockDim.x) % n] + 1;
                grid.sync();
                a[i] = b[(i + blockDim.x) % n] + 1;
                grid.sync();
            }
        }
        int main() {
            int able = 0, multiprocessors = 0, each = 0, rounds = 5;
            cudaDeviceGetAttribute(&able, cudaDevAttrCooperativeLaunch, 0);
            cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, neighbours, 64, 0);
            std::printf("%d %d\n", able, each);
            for (int blocks : {multiprocessors * each, 37}) {
                int n = blocks * 64, *a, *b, wrong = 0;
                std::vector<int> values(n);
                for (int i = 0; i < n; ++i)
                    values[i] = i / 64;
                cudaMalloc(&a, n * 4);
                cudaMalloc(&b, n * 4);
                cudaMemset(b, 0, n * 4);
                cudaMemcpy(a, values.data(), n * 4, cudaMemcpyHostToDevice);
                void *arguments[] = {&a, &b, &rounds};
                cudaLaunchCooperativeKernel((void *)neighbours, blocks, 64, arguments, 0, nullptr);
                cudaMemcpy(values.data(), a, n * 4, cudaMemcpyDeviceToHost);
                for (int i = 0; i < n; ++i)
                    wrong += values[i] != (i / 64 + 2 * rounds) % blocks + 2 * rounds;
                std::printf("%d wrong, %s\n", wrong, cudaGetErrorName(cudaGetLastError()));
            }
            int *none = nullptr;
            void *arguments[] = {&none, &none, &rounds};
            cudaLaunchCooperativeKernel((void *)neighbours, 100000, 64, arguments, 0, nullptr);
            std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
        }"#;
    std::fs::write(&source, text).unwrap();
    build(&nvcc, &source, &PTX_90, &binary);
    let folder = folder.path().join("recording");
    let ran = record_executable_into(&folder, &binary, &[]).exit_with(exit::VERIFIED);
    let done = "0 wrong, cudaSuccess\n";
    assert_eq!(ran.stdout, format!("1 1\n{done}{done}cudaErrorCooperativeLaunchTooLarge\n"), "{ran}");
    let (database, kernel) = load_kernels(&folder).remove(0);
    assert_eq!(kernel.instances.len(), 2);
    for (id, instance) in &kernel.instances {
        assert!(instance.ours.attributes.cooperative);
        for passes in ["", "default<O3>"] {
            TestInstance::new(&database, id).verify(passes, &[]);
        }
    }
}

/// Clusters with a size from the kernel or from the launch, used through cooperative groups, with atomics in the shared
/// memory of another block.
#[test]
fn clusters_of_blocks_reach_one_another() {
    let text = r#"
        #include <cooperative_groups.h>
        #include <cstdio>
        #include <vector>
        namespace cg = cooperative_groups;
        // Each block counts in the next block's memory, and then reports its own count.
        __device__ void count(unsigned *out) {
            __shared__ unsigned own[64];
            auto cluster = cg::this_cluster();
            unsigned t = threadIdx.x, rank = cluster.block_rank(), blocks = cluster.num_blocks();
            own[t] = 1000 * rank;
            cluster.sync();
            unsigned *next = cluster.map_shared_rank(own, (rank + 1) % blocks);
            atomicAdd(next + (t + 1) % 64, t + 1);
            cluster.sync();
            unsigned of_next = cluster.query_shared_rank(next);
            unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
            auto shape = cluster.dim_blocks();
            auto place = cluster.block_index();
            out[block * 64 + t] = own[t] + 100000 * of_next + 1000000 * (shape.x + 10 * place.x + 100 * place.y);
            cluster.sync();
        }
        __global__ void __cluster_dims__(2, 2, 1) fixed(unsigned *out) { count(out); }
        __global__ void chosen(unsigned *out) { count(out); }
        void check(const char *name, int x, int y, int width, int height, bool by_launch) {
            std::vector<unsigned> back(x * y * 64);
            unsigned *out;
            cudaMalloc(&out, back.size() * 4);
            cudaMemset(out, 0, back.size() * 4);
            cudaLaunchAttribute attribute{};
            attribute.id = cudaLaunchAttributeClusterDimension;
            attribute.val.clusterDim = {unsigned(width), unsigned(height), 1};
            cudaLaunchConfig_t configuration{};
            configuration.gridDim = dim3(x, y);
            configuration.blockDim = 64;
            configuration.attrs = &attribute;
            configuration.numAttrs = 1;
            if (by_launch) cudaLaunchKernelEx(&configuration, chosen, out);
            else fixed<<<dim3(x, y), 64>>>(out);
            cudaMemcpy(back.data(), out, back.size() * 4, cudaMemcpyDeviceToHost);
            int wrong = 0, blocks = width * height;
            for (int i = 0; i < x * y * 64; ++i) {
                int block = i / 64, t = i % 64, place_x = block % x % width, place_y = block / x % height;
                int rank = place_x + width * place_y;
                unsigned expected = 1000 * rank + (t + 63) % 64 + 1 + 100000 * ((rank + 1) % blocks) +
                    1000000 * (width + 10 * place_x + 100 * place_y);
                wrong += back[i] != expected;
            }
            std::printf("%s: %d wrong, %s\n", name, wrong, cudaGetErrorName(cudaGetLastError()));
        }
        int main() {
            check("fixed", 6, 4, 2, 2, false);
            check("chosen", 6, 4, 3, 2, true);
            check("wide", 8, 1, 8, 1, true);
            check("none", 3, 1, 1, 1, true);
        }"#;
    verify_text("clusters_of_blocks_reach_one_another", text, 4);
}

/// `ldmatrix`, `stmatrix`, `mma` and `cp.async`: each matrix is compared with the result of a loop over small integers.
#[test]
fn tensor_cores_multiply_matrices() {
    let Some(nvcc) = nvcc("tensor_cores_multiply_matrices") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("tensors.cu"), folder.path().join("tensors"));
    let text = r#"
        #include <cuda_fp16.h>
        #include <cstdint>
        #include <cstdio>
        #include <cstring>
        #include <vector>
        template <typename T> T element(int i) { return T((i * 7 + i / 5) % 11 - 4); }
        __global__ void halves(const __half *a, const __half *b, float *c, __half *again) {
            __shared__ __align__(16) __half sa[16 * 16], sb[16 * 8], copy[16 * 16];
            unsigned t = threadIdx.x, x[4], y[2], to = __cvta_generic_to_shared(sa + t * 8);
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(to), "l"(a + t * 8));
            asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
            for (int i = t; i < 128; i += 32) sb[i] = b[i];
            __syncwarp();
            unsigned from = __cvta_generic_to_shared(sa + (t % 16) * 16 + t / 16 * 8);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(from));
            from = __cvta_generic_to_shared(sb + (t % 16) * 8);
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(y[0]), "=r"(y[1]) : "r"(from));
            float d[4] = {1, 2, 3, 4};
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            for (int i = 0; i < 4; ++i) c[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = d[i] - i - 1;
            to = __cvta_generic_to_shared(copy + (t % 16) * 16 + t / 16 * 8);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
            __syncwarp();
            for (int i = t; i < 256; i += 32) again[i] = copy[i];
        }
        __global__ void bytes(const int8_t *a, const int8_t *b, int *c) {
            unsigned g = threadIdx.x / 4, t = threadIdx.x % 4, x[4], y[2];
            for (int i = 0; i < 4; ++i) x[i] = *(const unsigned *)(a + (g + i % 2 * 8) * 32 + t * 4 + i / 2 * 16);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j) ((int8_t *)&y[i])[j] = b[(t * 4 + j + i * 16) * 8 + g];
            int d[4] = {};
            asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
        }
        __global__ void words(const float *a, const float *b, float *c) {
            unsigned g = threadIdx.x / 4, t = threadIdx.x % 4, x[4], y[2];
            for (int i = 0; i < 4; ++i) x[i] = __float_as_uint(a[(g + i % 2 * 8) * 8 + t + i / 2 * 4]);
            for (int i = 0; i < 2; ++i) y[i] = __float_as_uint(b[(t + i * 4) * 8 + g]);
            float d[4] = {};
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
        }
        __global__ void doubles(const double *a, const double *b, double *c) {
            unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
            double d[2] = {};
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                         : "+d"(d[0]), "+d"(d[1]) : "d"(a[g * 4 + t]), "d"(b[t * 8 + g]));
            c[g * 8 + t * 2] = d[0];
            c[g * 8 + t * 2 + 1] = d[1];
        }
        template <typename T, typename S, typename K> void check(const char *name, int rows, int depth, K launch) {
            std::vector<T> a(rows * depth), b(depth * 8);
            for (size_t i = 0; i < a.size(); ++i) a[i] = element<T>(i);
            for (size_t i = 0; i < b.size(); ++i) b[i] = element<T>(i + 3);
            std::vector<S> c(rows * 8);
            T *da, *db;
            S *dc;
            cudaMalloc(&da, a.size() * sizeof(T));
            cudaMalloc(&db, b.size() * sizeof(T));
            cudaMalloc(&dc, c.size() * sizeof(S));
            cudaMemset(dc, 0, c.size() * sizeof(S));
            cudaMemcpy(da, a.data(), a.size() * sizeof(T), cudaMemcpyHostToDevice);
            cudaMemcpy(db, b.data(), b.size() * sizeof(T), cudaMemcpyHostToDevice);
            launch(da, db, dc);
            cudaMemcpy(c.data(), dc, c.size() * sizeof(S), cudaMemcpyDeviceToHost);
            int wrong = 0;
            for (int i = 0; i < rows; ++i)
                for (int j = 0; j < 8; ++j) {
                    double sum = 0;
                    for (int k = 0; k < depth; ++k) sum += double(float(a[i * depth + k])) * double(float(b[k * 8 + j]));
                    wrong += double(c[i * 8 + j]) != sum;
                }
            std::printf("%s: %d wrong, %s\n", name, wrong, cudaGetErrorName(cudaGetLastError()));
        }
        int main() {
            __half *again, back[256];
            cudaMalloc(&again, 512);
            cudaMemset(again, 0, 512);
            check<__half, float>("halves", 16, 16, [&](auto a, auto b, auto c) { halves<<<1, 32>>>(a, b, c, again); });
            cudaMemcpy(back, again, 512, cudaMemcpyDeviceToHost);
            int wrong = 0;
            for (int i = 0; i < 256; ++i) wrong += float(back[i]) != float(element<__half>(i));
            std::printf("again: %d wrong\n", wrong);
            check<int8_t, int>("bytes", 16, 32, [](auto a, auto b, auto c) { bytes<<<1, 32>>>(a, b, c); });
            check<float, float>("words", 16, 8, [](auto a, auto b, auto c) { words<<<1, 32>>>(a, b, c); });
            check<double, double>("doubles", 8, 4, [](auto a, auto b, auto c) { doubles<<<1, 32>>>(a, b, c); });
        }"#;
    std::fs::write(&source, text).unwrap();
    build(&nvcc, &source, &PTX_90, &binary);
    let folder = folder.path().join("recording");
    let ran = record_executable_into(&folder, &binary, &[]).exit_with(exit::VERIFIED);
    let done = |name: &str| format!("{name}: 0 wrong, cudaSuccess\n");
    let rest = ["bytes", "words", "doubles"].map(done).concat();
    assert_eq!(ran.stdout, format!("{}again: 0 wrong\n{rest}", done("halves")), "{ran}");
    let kernels = load_kernels(&folder);
    assert_eq!(kernels.len(), 4);
    for (database, kernel) in kernels {
        let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
        for passes in ["", "default<O1>", "default<O3>"] {
            instance.verify(passes, &[]);
        }
    }
}
