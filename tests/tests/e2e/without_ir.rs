//! Tests of programs built without `mneme-cc`.
//!
//! nvcc or Python's JIT compilers generate them. The tests need a GPU (`MNEME_TEST_DEVICE=cuda`), and nvcc or the
//! Python package. Otherwise they print a note and pass.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::sources;
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::installation::{TestDevice, checkout, program};
use mneme_e2e::recording::load_kernels;
use mneme_recording::CodeKind;
use mneme_recording::database::KernelRecord;
use mneme_system::exit;

/// Whether a test can run. Otherwise prints why not.
fn have_gpu(test: &str) -> bool {
    let have = TestDevice::under_test() == TestDevice::Cuda;
    if !have {
        eprintln!("{test} needs a GPU: not run");
    }
    have
}

/// Records a command and requires that it succeeds.
fn record(folder: &Path, options: &[&str], command: &[&str]) -> ProgramOutput {
    recording_of(folder, options, command).succeed()
}

fn recording_of(folder: &Path, options: &[&str], command: &[&str]) -> Run {
    let line =
        run(program("mneme")).args(["record".as_ref(), "-rdb".as_ref(), folder.as_os_str()]).args(options).arg("--");
    line.args(command).env("MNEME_DEVICE", "cuda")
}

/// Replays every instance with these further options, and requires that it verifies.
fn verify(folder: &Path, options: &[&str]) -> Vec<(PathBuf, KernelRecord)> {
    let kernels = load_kernels(folder);
    for (database, kernel) in &kernels {
        for id in kernel.instances.keys() {
            let replay = run(program("mneme-replay")).args([
                "-rdb".as_ref(),
                database.as_os_str(),
                "-rid".as_ref(),
                id.as_ref(),
            ]);
            let outcome = replay.args(["--device", "cuda"]).args(options).succeed();
            assert_eq!(outcome.json()["Result"]["verified"], true, "{}: {outcome}", kernel.demangled_name);
        }
    }
    kernels
}

/// LLVM's options are refused for machine code, and the message names the remedy.
fn refuses_what_needs_ir(database: &Path, id: &str) {
    for option in ["default<O2>", "--llvm=19", "--llvm=all"] {
        let replay =
            run(program("mneme-replay")).args(["-rdb".as_ref(), database.as_os_str(), "-rid".as_ref(), id.as_ref()]);
        replay.args(["--device", "cuda", option]).exit_with(exit::BAD_USAGE).complains("mneme-cc");
    }
}

/// nvcc's switches, and the expected kind of recorded code.
const NVCC: [(&[&str], CodeKind); 5] = [
    (&["-arch=sm_90"], CodeKind::Ptx),
    (&["-arch=sm_90", "-Xfatbin", "-compress-all"], CodeKind::Ptx),
    (&["-gencode", "arch=compute_90,code=compute_90"], CodeKind::Ptx),
    (&["-gencode", "arch=compute_90,code=sm_90"], CodeKind::Cubin),
    (
        &["-gencode", "arch=compute_90,code=sm_90", "-Xfatbin", "-compress-all", "-Xfatbin", "--compress-mode=speed"],
        CodeKind::Cubin,
    ),
];

/// Builds a program with this machine's nvcc in each way, records it, and replays every instance unchanged and lifted
/// from its PTX.
fn what_nvcc_builds(name: &str) {
    if !have_gpu("nvcc") {
        return;
    }
    if run("nvcc").arg("--version").outcome().status != 0 {
        eprintln!("there is no nvcc: not run");
        return;
    }
    for (switches, kind) in NVCC {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join(name);
        let build = run("nvcc").args(switches).args(["-cudart", "static", "-O3", "-std=c++17"]);
        build.arg(sources().join(format!("{name}.cu"))).arg("-o").arg(&binary).succeed();
        let recording = folder.path().join("recording");
        let command = [binary.to_str().unwrap()];
        let outcome = record(&recording, &[], &command);
        let kernels = verify(&recording, &[]);
        assert!(!kernels.is_empty(), "{outcome}");
        for (database, kernel) in &kernels {
            assert_eq!(CodeKind::of(&kernel.modules[0]), kind, "{name} {switches:?}");
            if kind == CodeKind::Cubin {
                refuses_what_needs_ir(database, kernel.instances.keys().next().unwrap());
            }
        }
        if kind == CodeKind::Ptx {
            for passes in ["", "default<O1>", "default<O2>", "default<O3>"] {
                verify(&recording, &[passes]);
                verify(&recording, &["--specialize", "--facts", passes]);
            }
        }
        verify(&recording, &["--original"]);
        if name == "vecadd" {
            verify(&recording, &["-bidx", "128", "-gidx", "80000"]);
        }
    }
}

macro_rules! programs_by_nvcc {
    ($($test:ident $name:literal),* $(,)?) => {
        $(#[test] fn $test() { what_nvcc_builds($name); })*
    };
}

programs_by_nvcc!(
    vecadd_by_nvcc "vecadd",
    stencil_by_nvcc "stencil",
    globals_by_nvcc "globals",
    virtual_by_nvcc "virtual",
    dispatch_by_nvcc "dispatch",
    matmul_by_nvcc "matmul",
    bigstruct_by_nvcc "bigstruct",
    variables_by_nvcc "variables",
);

/// The driver links relocatable PTX when it loads it.
#[test]
fn relocatable_ptx_of_nvcc_is_recorded_and_replays_verified() {
    if !have_gpu("relocatable PTX") {
        return;
    }
    if run("nvcc").arg("--version").outcome().status != 0 {
        eprintln!("there is no nvcc: not run");
        return;
    }
    for runtime in ["static", "shared"] {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("rdc");
        let units = ["main.cu", "device.cu"].map(|unit| sources().join("rdc").join(unit));
        let build = run("nvcc").args(["-rdc=true", "-gencode", "arch=compute_90,code=compute_90", "-cudart", runtime]);
        build.args(["-O3", "-std=c++17"]).arg("-I").arg(sources()).args(units).arg("-o").arg(&binary).succeed();
        let recording = folder.path().join("recording");
        let outcome = record(&recording, &[], &[binary.to_str().unwrap()]);
        let kernels = verify(&recording, &[]);
        assert!(!kernels.is_empty(), "{outcome}");
        assert!(kernels.iter().all(|(_, kernel)| CodeKind::of(&kernel.modules[0]) == CodeKind::Cubin), "{outcome}");
        verify(&recording, &["--original"]);
    }
}

/// Records a program of tests/python-apps, selecting kernels by name.
fn python(name: &str, package: &str, kernels: &str) {
    if !have_gpu(name) {
        return;
    }
    if run("python3").args(["-c", &format!("import {package}")]).outcome().status != 0 {
        eprintln!("Python has no {package}: not run");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let file = checkout().join("tests/python-apps").join(format!("{name}.py"));
    let outcome = record(&recording, &["-rr", kernels, "-mr", "1"], &["python3", file.to_str().unwrap()]);
    assert!(outcome.stdout.contains(&format!("{name}: ok")), "{outcome}");
    assert!(!verify(&recording, &[]).is_empty(), "{outcome}");
}

#[test]
fn pytorch_eager() {
    python("torch_eager", "torch", "elementwise_kernel|softmax|layer_norm");
}

#[test]
fn pytorch_compiled() {
    python("torch_compile", "torch", "triton_");
}

#[test]
fn triton() {
    python("triton_kernel", "triton", "triton_add");
}

#[test]
fn cupy() {
    python("cupy_raw", "cupy", "cupy_scale");
}

/// The kernel runs in one process and changes another process's memory.
#[test]
fn memory_shared_by_cupy() {
    python("cupy_sharing", "cupy", "cupy_twice");
}

#[test]
fn memory_shared_by_pytorch() {
    python("torch_sharing", "torch", "MulFunctor");
}

#[test]
fn numba() {
    python("numba_kernel", "numba.cuda", "numba_axpy");
}

/// Each rank has memory that the other one writes (NCCL's), and each rank records.
#[test]
fn ranks_of_pytorch_that_use_nccl() {
    if !have_gpu("NCCL") {
        return;
    }
    let devices = run("python3").args(["-c", "import torch; print(torch.cuda.device_count())"]).outcome();
    if devices.status != 0 || devices.stdout.trim() == "1" {
        eprintln!("there is no PyTorch, or one GPU: not run");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let file = checkout().join("tests/python-apps/torch_distributed.py");
    let torchrun =
        ["python3", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", file.to_str().unwrap()];
    // Multicast objects are not recorded, and some machines lack them.
    let command =
        recording_of(&recording, &["-rr", "elementwise_kernel", "-mr", "2"], &torchrun).env("NCCL_NVLS_ENABLE", "0");
    let outcome = command.env("MNEME_RECORD_RANKS", "all").succeed();
    assert_eq!(outcome.stdout, "torch_distributed: ok\n", "{outcome}");
    assert!(!verify(&recording, &[]).is_empty(), "{outcome}");
    run(program("mneme")).arg("check").arg(&recording).succeed();
}
