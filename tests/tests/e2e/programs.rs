//! Tests of every application of `tests/apps`.
//!
//! Recording does not change the application's behaviour, and each kernel replays verified under every pipeline.

use std::path::Path;

use mneme_e2e::apps::{APPS, Platform, app, sources};
use mneme_e2e::hip::can_run;
use mneme_e2e::installation::{Cudart, have_compiler};
use mneme_e2e::recording::{Recording, TestInstance, check_everything, replay_everything, unrecorded};

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { record_and_replay(stringify!($name)); })*

        #[test]
        fn every_program_has_a_test() {
            let tested = [$(stringify!($name)),*];
            let known: Vec<_> = APPS.iter().map(|app| app.name).collect();
            assert_eq!(tested.as_slice(), known);
        }
    };
}

programs!(
    vecadd, variables, steady, zoo, saxpy, stencil, reduce, partial_sums, floatsum, histogram, matmul, nbody,
    microphysics, chemistry, heads, convolution, globals, bigstruct, parameters, part, list, streams, limits, inplace,
    arena, math, atomics, warp, waiting, spin, misshapen, memory, volumes, print, assertion, rdc, units, lambda,
    functor, steps, statics, libraries, plugins, surfaces,
);

fn record_and_replay(name: &str) {
    let app = app(name);
    let plain = unrecorded(app).succeed();
    let recording = Recording::of(app, &[]);
    assert_eq!(recording.outcome.stdout, plain.stdout, "what the recorded {name} prints");
    assert!(plain.stdout.contains(&format!("{name}: ok")), "{plain}");

    replay_everything(app, &recording);
    check_everything(&recording);
}

#[test]
fn parameters_of_all_kinds_are_folded() {
    let recording = Recording::of(app("parameters"), &[]);
    for (database, record) in recording.kernels() {
        for id in record.instances.keys() {
            TestInstance::new(&database, id).verify("default<O3>", &["--specialize"]);
        }
    }
}

/// Programs whose results depend only on which products are fused into sums.
const FUSING: [&str; 6] = ["stencil", "nbody", "microphysics", "chemistry", "convolution", "math"];

#[test]
fn the_recorded_compilation_gives_the_applications_bits() {
    for name in FUSING {
        verify_bitwise(&Recording::of(app(name), &[]));
    }
}

/// Requires that each kernel gives the recorded bits with the recorded options.
#[track_caller]
fn verify_bitwise(recording: &Recording) {
    for (database, record) in recording.kernels() {
        for (id, instance) in &record.instances {
            let compiled = instance.ours.compiled.as_ref().expect("mneme-cc wrote down how it was compiled");
            TestInstance::new(&database, id).verify(&compiled.pipeline(), &[]);
        }
    }
}

#[test]
fn programs_of_every_level_replay_to_their_own_bits() {
    if !have_compiler("programs_of_every_level_replay_to_their_own_bits") {
        return;
    }
    for platform in [Platform::Cuda(Cudart::under_test()), Platform::Hip] {
        if platform == Platform::Hip && !can_run("programs_of_every_level_replay_to_their_own_bits, HIP") {
            continue;
        }
        for level in ["-O0", "-O1", "-O2"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let executable = folder.path().join("convolution");
            platform
                .recordable_clang()
                .args(platform.compile_flags())
                .arg(level)
                .arg(sources().join("convolution.cu"))
                .args([Path::new("-o"), &executable])
                .args(platform.link_flags())
                .succeed();
            verify_bitwise(&Recording::of_executable(&executable, &[]));
        }
    }
}

/// Structures of every alignment, folded into the code or not, have the layout of the program's own code.
#[test]
fn folded_structures_are_aligned() {
    let recording = Recording::of(app("aligned"), &[]);
    let kernels = recording.kernels();
    assert_eq!(kernels.len(), 9);
    for (database, kernel) in kernels {
        let id = kernel.instances.keys().next().unwrap();
        for passes in ["default<O0>", "default<O3>"] {
            TestInstance::new(&database, id).verify(passes, &["--specialize"]);
        }
    }
}
