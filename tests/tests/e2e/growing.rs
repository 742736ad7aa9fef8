//! Tests that long-running programs do not pay for objects that they have released.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::{app, compile_flags, executable, link_flags, recordable_clang, sources};
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, library};
use mneme_e2e::recording::load_kernels;
use mneme_recording::integrity::check;

fn growing(folder: &Path) -> PathBuf {
    let executable = folder.join("growing");
    recordable_clang()
        .args(compile_flags())
        .args([&sources().join("growing/growing.cu"), Path::new("-o"), &executable])
        .args(link_flags(Cudart::Shared))
        .arg("-ldl")
        .succeed();
    executable
}

/// Runs with only the recorder's library.
fn preloaded(program: &Path, folder: &Path) -> Run {
    run(program)
        .env("LD_PRELOAD", library("libmneme_rec.so"))
        .env("MNEME_DATA_DIR", folder)
        .env("MNEME_DEVICE", TestDevice::under_test().name())
}

#[test]
fn memory_that_was_given_back_is_not_kept() {
    if !have_compiler("memory_that_was_given_back_is_not_kept") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = growing(folder.path());
    for arguments in [["frees", "64"], ["streams", "64"], ["modules", "80"]] {
        for (mode, kernels) in [("record", ".*"), ("record", "nosuch"), ("profile", ".*")] {
            let recording = folder.path().join(format!("{}-{mode}-{}", arguments[0], kernels.len()));
            let outcome = preloaded(&program, &recording)
                .args(arguments)
                .env("MNEME_MODE", mode)
                .env("MNEME_RR_KERNELS", kernels)
                .succeed();
            assert_eq!(outcome.stdout, "growing: ok\n", "{arguments:?} {mode} {kernels}: {outcome}");
            if (arguments[0], mode, kernels) == ("modules", "record", ".*") {
                assert_eq!(check(&recording).unwrap().instances, 80, "{outcome}");
            }
        }
    }
}

/// The recorder writes databases with many instances for several instances at a time.
#[test]
fn hundreds_of_instances_are_all_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let program = executable(app("steps"), Cudart::under_test());
    for _ in 0..2 {
        // The second time, all instances are known.
        preloaded(&program, folder.path()).arg("300").env("MNEME_MAX_RECORDINGS", "1000").succeed();
        let report = check(folder.path()).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let instances: usize = load_kernels(folder.path()).iter().map(|(_, kernel)| kernel.instances.len()).sum();
        assert_eq!((report.instances, instances), (300, 300));
    }
}
