//! Tests of code that changes at one path or address, during a run or between runs.
//!
//! A plug-in is rebuilt at its path, and a buffer receives another image. The loaded code identifies a kernel.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::{compile_flags, link_flags, plain_clang, recordable_clang, sources};
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, library};
use mneme_e2e::recording::{Recording, TestInstance, record_executable_into};
use mneme_recording::database::KernelRecord;
use serde_json::json;
use tempfile::TempDir;

use crate::applying::Tuned;

fn source(name: &str) -> PathBuf {
    sources().join("reloaded").join(name)
}

/// Builds a program.
fn host(name: &str, folder: &Path) -> PathBuf {
    let executable = folder.join(name);
    recordable_clang()
        .args(compile_flags())
        .args([&source(&format!("{name}.cu")), Path::new("-o"), &executable])
        .args(link_flags(Cudart::Shared))
        .arg("-ldl")
        .succeed();
    executable
}

fn plugin(step: u32, folder: &Path) -> String {
    let file = folder.join(format!("step{step}.so"));
    recordable_clang()
        .args(compile_flags())
        .args(["-shared", "-fPIC"])
        .arg(format!("-DSTEP={step}"))
        .args([&source("plugin.cu"), Path::new("-o"), &file])
        .args(link_flags(Cudart::Shared))
        .succeed();
    file.to_str().unwrap().into()
}

/// Machine code with IR.
fn image(factor: u32, folder: &TempDir) -> String {
    let file = folder.path().join(format!("factor{factor}.cubin"));
    plain_clang()
        .args(compile_flags())
        .args(["--cuda-device-only", "-fembed-bitcode=all", "-c"])
        .arg(format!("-DFACTOR={factor}"))
        .args([&source("kernel.cu"), Path::new("-o"), &file])
        .succeed();
    file.to_str().unwrap().into()
}

fn plain(executable: &Path, arguments: &[&str]) -> Run {
    let run = run(executable).args(arguments);
    match TestDevice::under_test() {
        TestDevice::Cpu => run.env("LD_PRELOAD", library("libmneme_cpu.so")),
        TestDevice::Cuda => run,
    }
}

/// The number of launches of each recorded kernel. Replays each kernel.
fn launches(recording: &Recording) -> Vec<u64> {
    let mut launches = Vec::new();
    for (file, kernel) in recording.kernels() {
        for (id, instance) in &kernel.instances {
            TestInstance::new(&file, id).verify("default<O2>", &[]);
            launches.push(instance.occurrences);
        }
    }
    launches.sort_unstable();
    launches
}

#[test]
fn a_plugin_that_is_built_anew_has_kernels_of_its_own() {
    if !have_compiler("a_plugin_that_is_built_anew_has_kernels_of_its_own") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let host = host("main", folder.path());
    let place = folder.path().join("plugin.so").to_str().unwrap().to_owned();
    let [one, two] = [1, 2].map(|step| plugin(step, folder.path()));
    let changing = [&place, &one, &two, &one].map(String::as_str);
    assert_eq!(plain(&host, &changing).succeed().stdout, "1\n2\n1\n");

    let recording = Recording::of_executable(&host, &changing);
    assert_eq!(recording.outcome.stdout, "1\n2\n1\n");
    assert_eq!(launches(&recording), [1, 2], "{}", recording.outcome);

    let first = Recording::of_executable(&host, &[&place, &one]);
    let tuned = Tuned::new().with("advance", &first.single(), json!({"passes": "default<O2>"}), json!({}));
    let (outcome, kernel) = tuned.run(&host, &changing, "advance");
    assert_eq!((outcome.stdout.as_str(), &kernel["applied"]["replaced"]), ("1\n2\n1\n", &json!(2)), "{outcome}");
    let (outcome, kernel) = tuned.run(&host, &[&place, &two, &two], "advance");
    assert_eq!((outcome.stdout.as_str(), &kernel["applied"]["replaced"]), ("2\n2\n", &json!(0)), "{outcome}");
}

/// The file contains the IR of a kernel that is not loaded yet. The CPU device needs IR, and takes it from the file.
#[test]
fn ir_of_a_plugin_that_was_replaced_before_its_launch_is_not_used() {
    let name = "ir_of_a_plugin_that_was_replaced_before_its_launch_is_not_used";
    if !have_compiler(name) || TestDevice::under_test() == TestDevice::Cpu {
        return eprintln!("{name} needs a GPU: not run");
    }
    let folder = tempfile::tempdir().unwrap();
    let host = host("main", folder.path());
    let place = folder.path().join("plugin.so").to_str().unwrap().to_owned();
    let [one, two] = [1, 2].map(|step| plugin(step, folder.path()));
    let recording = folder.path().join("recording");
    let outcome = record_executable_into(&recording, &host, &[&place, &one, "then", &two]).outcome();
    assert_eq!(outcome.stdout, "1\n", "{outcome}");
    let recorded = recording.read_dir().into_iter().flatten().flatten();
    let of_others = recorded.map(|entry| entry.path()).filter_map(|path| KernelRecord::load(&path).ok());
    // The recording contains the loaded machine code.
    assert!(of_others.flat_map(|record| record.modules).all(|module| !module.ends_with(".bc")), "{outcome}");
}

#[test]
fn images_that_a_buffer_has_in_turn_are_kernels_of_their_own() {
    if !have_compiler("images_that_a_buffer_has_in_turn_are_kernels_of_their_own") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let host = host("buffer", folder.path());
    let [three, five] = [3, 5].map(|factor| image(factor, &folder));
    let first = Recording::of_executable(&host, &["one", &three]);
    let tuned = Tuned::new().with("multiply", &first.single(), json!({"passes": "default<O2>"}), json!({}));
    for when in ["one", "all"] {
        for (files, printed) in [([&three, &five], "22\n36\n"), ([&five, &three], "36\n22\n")] {
            let arguments = [when, files[0], files[1]];
            assert_eq!(plain(&host, &arguments).succeed().stdout, printed);
            let recording = Recording::of_executable(&host, &arguments);
            assert_eq!(recording.outcome.stdout, printed);
            assert_eq!(launches(&recording), [1, 1], "{when}: {}", recording.outcome);
            let (outcome, _) = tuned.run(&host, &arguments, "multiply");
            assert_eq!(outcome.stdout, printed, "{when}: {outcome}");
        }
    }
}

/// The IR file belongs to the recorded image, and stays when the program is rebuilt.
#[test]
fn ir_in_a_file_is_that_of_the_recorded_image_alone() {
    if !have_compiler("ir_in_a_file_is_that_of_the_recorded_image_alone") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let host = host("buffer", folder.path());
    // The CPU device runs the IR in the code, but the recorder prefers the file's.
    let [three, five] = [3, 5].map(|factor| image(factor, &folder));
    let ir = folder.path().join("three.bc");
    plain_clang()
        .args(compile_flags())
        .args(["--cuda-device-only", "-emit-llvm", "-c", "-Xclang", "-disable-llvm-passes", "-DFACTOR=3"])
        .args([&source("kernel.cu"), Path::new("-o"), &ir])
        .succeed();
    let recording = Recording::by(|to| record_executable_into(to, &host, &["one", &three]).env("MNEME_IR_PATH", &ir));
    let tuned = Tuned::new().with("multiply", &recording.single(), json!({"passes": "default<O2>"}), json!({}));
    let ir = [("MNEME_IR_PATH", ir.as_os_str())];
    let (outcome, kernel) = tuned.run_in(&host, &["one", &three], "multiply", &ir);
    assert_eq!((outcome.stdout.as_str(), &kernel["applied"]["replaced"]), ("22\n", &json!(1)), "{outcome}");
    let (outcome, kernel) = tuned.run_in(&host, &["one", &five], "multiply", &ir);
    assert_eq!((outcome.stdout.as_str(), &kernel["applied"]["replaced"]), ("36\n", &json!(0)), "{outcome}");

    // Recordings of both are distinguished, although one has the wrong IR. That one does not verify.
    let both =
        Recording::by(|to| record_executable_into(to, &host, &["one", &three, &five]).env("MNEME_IR_PATH", ir[0].1));
    let kernels = both.kernels();
    assert_eq!(kernels.len(), 2, "{}", both.outcome);
    let verified = kernels.iter().filter(|(file, kernel)| {
        let id = kernel.instances.keys().next().unwrap();
        TestInstance::new(file, id).replay("default<O2>").outcome().status == 0
    });
    assert_eq!(verified.count(), 1);
}
