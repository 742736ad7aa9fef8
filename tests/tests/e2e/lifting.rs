//! Tests of PTX that is lifted to LLVM IR in a recorded kernel's place.
//!
//! What nvcc makes runs on the CPU device, too.

use std::path::{Path, PathBuf};

use mneme_core::exit;
use mneme_e2e::apps::{app, sources};
use mneme_e2e::command::run;
use mneme_e2e::installation::{checkout, have_compiler};
use mneme_e2e::recording::{Recording, TestInstance};

/// The PTX that nvcc makes of a program; `None` where there is no nvcc, as on machines without network.
fn ptx_of(name: &str, folder: &Path) -> Option<PathBuf> {
    let nvcc = checkout().join(".deps/nvcc/bin/nvcc");
    if !have_compiler("lifting") || !nvcc.is_file() {
        println!("skipped: lifting needs {}", nvcc.display());
        return None;
    }
    let file = folder.join(name).with_extension("ptx");
    let compile = run(nvcc).args(["-ptx", "-arch=sm_90", "-O3", "-std=c++17", "-I"]).arg(sources());
    compile.arg(sources().join(name).with_extension("cu")).arg("-o").arg(&file).succeed();
    Some(file)
}

/// Every instance of a program, replayed from nvcc's PTX under every kind of pipeline.
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
