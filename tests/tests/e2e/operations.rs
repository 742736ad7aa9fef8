//! Tests that the floating-point operations of a launch are counted exactly.

use std::fs;

use mneme_e2e::apps::app;
use mneme_e2e::command::run;
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::platform::{compile_flags, link_flags, plain_clang, recordable_clang, sources};
use mneme_e2e::recording::Recording;
use mneme_model::evaluation::Judgement;
use mneme_model::observation::Touched;
use serde_json::json;

/// Threads of the kernel and of a block, and the first that returns early.
const THREADS: u64 = 1024;
const LIMIT: u64 = 1000;

/// The number of operations of thread `i` is known, whatever a pipeline does.
const KERNEL: &str = r#"
#include "check.cuh"
__device__ __noinline__ double cubed(double x) { return x * x * x; }
__device__ __noinline__ void stop(const float *in, int i) {
    if (in[i] * 2.0f > 100.0f)
        asm volatile("exit;");
}
__global__ void operations(float *out, double *wide, unsigned *halves, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = in[i] + 1.0f;
    for (int round = 0; round < i % 7; ++round)
        sum = fmaf(sum, 0.5f, 1.0f);
    if (i % 3 == 0) {
        out[i] = sum / 3.0f;
        return;
    }
    wide[i] = cubed(sum);
    if (i % 2 == 0) {
        unsigned number;
        asm volatile("fma.rn.f16x2 %0, %1, %1, %1;" : "=r"(number) : "r"(i));
        halves[i] = number;
    }
    stop(in, i);
    out[i] = sqrtf(sum) * in[i];
}
int main() {
    std::vector<float> values(1024);
    for (int i = 0; i < 1024; ++i)
        values[i] = float(i);
    DeviceArray<float> in(values), out(1024);
    DeviceArray<double> wide(1024);
    DeviceArray<unsigned> halves(1024);
    out.clear();
    wide.clear();
    halves.clear();
    operations<<<8, 128>>>(out.get(), wide.get(), halves.get(), in.get(), 1000);
    LAUNCH_OK();
}
"#;

/// Operations on numbers of 16, 32 and 64 bits.
fn of_thread(i: u64) -> [u64; 3] {
    let begun = 1 + 2 * (i % 7);
    match i {
        LIMIT.. => [0; 3],
        _ if i.is_multiple_of(3) => [0, begun + 1, 0],
        // One comes from `stop`, which ends the threads above 50.
        _ => [if i.is_multiple_of(2) { 4 } else { 0 }, begun + if i > 50 { 1 } else { 3 }, 2],
    }
}

#[test]
fn operations_are_counted_in_loops_branches_and_called_functions() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("operations.cu");
    fs::write(&source, KERNEL).unwrap();
    let sum = |width: usize| (0..THREADS).map(|i| of_thread(i)[width]).sum::<u64>();
    // Its IR, and its PTX.
    for (name, clang) in [("recordable", recordable_clang()), ("plain", plain_clang())] {
        let binary = folder.path().join(name);
        let command = clang.args(compile_flags()).arg("-I").arg(sources()).arg(&source).arg("-o");
        command.arg(&binary).args(link_flags(Cudart::under_test())).succeed();
        let recording = Recording::of_executable(&binary, &[]);
        for passes in ["default<O1>", "default<O3>"] {
            let outcome = recording.single().replay(passes).arg("--touched").succeed();
            let touched: Touched = serde_json::from_value(outcome.json()["Result"]["touched"].clone()).unwrap();
            let found = touched.arithmetic.unwrap();
            assert_eq!([found.f16, found.f32, found.f64], [0, 1, 2].map(sum), "{name} {passes}: {outcome}");
            assert!(found.fma_time.is_none_or(|time| time > 0.0), "{outcome}");
            outcome.complains(&format!("{} floating-point operations", found.flops()));
        }
    }
}

#[test]
fn the_floor_of_a_matrix_product_has_its_operations() {
    const N: u64 = 64;
    let recording = Recording::of(app("matmul"), &[&N.to_string()]);
    let folder = tempfile::tempdir().unwrap();
    let [candidates, results] = ["candidates.jsonl", "results"].map(|name| folder.path().join(name));
    let judged = |id: u64| {
        fs::write(&candidates, json!({"id": id, "config": {"passes": "default<O1>"}}).to_string()).unwrap();
        let evaluate = run(program("mneme"))
            .args(["evaluate".as_ref(), "-rdb".as_ref(), recording.folder().as_os_str()])
            .args(["--device", TestDevice::under_test().name(), "--confirm-time", "1", "--resume"])
            .args(["--candidates".as_ref(), candidates.as_os_str()])
            .args(["--results-dir".as_ref(), results.as_os_str()]);
        let outcome = evaluate.succeed();
        let judgement: Judgement = serde_json::from_str(outcome.stdout.lines().last().unwrap()).unwrap();
        (judgement.floor.unwrap_or_else(|| panic!("{outcome}")), outcome)
    };
    let (floor, outcome) = judged(1);
    assert_eq!(floor.flops, Some(2 * N.pow(3)), "{outcome}");
    assert_eq!(floor.bytes, 3 * N * N * 4, "{outcome}");
    let kept = fs::read_to_string(results.join("floor.json")).unwrap();
    // An older session's file has the memory only.
    fs::write(results.join("floor.json"), r#"{"bytes": 1.0, "time": 1.0}"#).unwrap();
    let (again, outcome) = judged(2);
    assert_eq!((again.flops, again.bytes), (floor.flops, floor.bytes), "{outcome}");
    assert_ne!(fs::read_to_string(results.join("floor.json")).unwrap(), r#"{"bytes": 1.0, "time": 1.0}"#);
    assert!(kept.contains("\"flops\""), "{kept}");
}
