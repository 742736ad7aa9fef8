//! Tests that a replay is verified only for good reasons.
//!
//! Replays find differences, and do not mistake damage for data.

use std::fs;
use std::path::{Path, PathBuf};

use mneme_e2e::apps::app;
use mneme_e2e::damage::{damaged_copy, flip_middle_byte, set_argument, state_paths};
use mneme_e2e::recording::Recording;
use mneme_model::hash::ChunkId;
use mneme_recording::manifest::MemoryState;
use mneme_recording::store;
use mneme_system::exit;

fn packs(folder: &Path) -> Vec<PathBuf> {
    let packs: Vec<_> = fs::read_dir(folder.join(store::FOLDER)).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!packs.is_empty(), "a recording of memory that is not zero has packs");
    packs
}

#[test]
fn float_atomics_verify_under_a_tolerance_only() {
    let recording = Recording::of(app("floatsum"), &[]);
    let instance = recording.single();
    let options = ["--rtol", "1e-4", "--atol", "0"];
    // Another launch shape adds the same numbers in another order, so some of the 64 bins are rounded differently.
    let reshaped = ["--block-dim-x", "64"];
    instance.refute("default<O3>", &reshaped);
    let json = instance.verify("default<O3>", &[&reshaped[..], &options[..]].concat());
    let error = |name: &str| json["Result"][name].as_f64().unwrap_or_else(|| panic!("{name}: {json}"));
    let (absolute, relative, ulp) = (error("largest_error"), error("largest_relative_error"), error("largest_ulp"));
    assert!(absolute > 0.0 && relative > 0.0 && relative <= 1e-4 && ulp >= 1.0 && ulp.fract() == 0.0, "{json}");
    // The figures have the same form for every unit of the tolerance.
    let json = instance.verify("default<O3>", &[&reshaped[..], &["--tolerance", "f32:1000:ulp"]].concat());
    assert!(
        json["Result"]["largest_relative_error"].as_f64().is_some_and(|error| error > 0.0 && error < 1e-4),
        "{json}"
    );
    instance.verify("default<O3>", &options);
    // With a tolerance that is too tight, the message gives the error.
    let json = instance.refute("default<O3>", &["--rtol", "1e-12", "--atol", "0", "--block-dim-x", "64"]);
    assert!(json["Result"]["mismatch"]["largest_error"].as_f64() > Some(0.0), "{json}");
    assert!(json["Result"]["largest_error"].is_null(), "of verified results only: {json}");
}

#[test]
fn a_norm_judges_a_buffer_as_a_whole() {
    let recording = Recording::of(app("floatsum"), &[]);
    let instance = recording.single();
    let under = |tolerance| ["--block-dim-x", "64", "--tolerance", tolerance];
    for tolerance in
        ["f32:1e-4:relative", "f32:1e-4:relative:l2", "argument:2=f32:1:absolute:l1", "argument:2=f32:1000:ulp"]
    {
        instance.verify("default<O3>", &under(tolerance));
    }
    // The kernel writes only to argument 2, so no byte is compared.
    instance.replay("default<O3>").args(under("argument:2=ignore")).exit_with(exit::UNPROVEN);
    instance.refute("default<O3>", &under("argument:0=ignore"));
    let json = instance.refute("default<O3>", &under("argument:2=f32:1e-12:relative:l2"));
    let mismatch = &json["Result"]["mismatch"];
    assert!(mismatch["norm_error"].as_f64().is_some_and(|error| error > 1e-12 && error < 1e-4), "{json}");
    assert_eq!((&mismatch["dtype"], &mismatch["element_size"]), (&"f32".into(), &4.into()), "{json}");
}

#[test]
fn tolerances_for_floats_leave_integers_of_the_same_allocation_exact() {
    let recording = Recording::of(app("arena"), &[]);
    let instance = recording.single();
    // One block of 32 threads leaves most of both undone, but every float passes.
    let loose = ["--grid-dim-x", "1", "--rtol", "1e30"];
    let json = instance.refute("default<O3>", &loose);
    let mismatch = &json["Result"]["mismatch"];
    assert_eq!((&mismatch["dtype"], &mismatch["offset"]), (&"i32".into(), &(4 * (4000 + 128)).into()), "{json}");
    let json = instance.refute("default<O3>", &[&loose[..], &["--tolerance", "argument:0=exact"]].concat());
    assert_eq!(
        (&json["Result"]["mismatch"]["dtype"], &json["Result"]["mismatch"]["offset"]),
        (&"f32".into(), &512.into())
    );
    let named = ["--tolerance", "argument:0=f32:1e9", "--tolerance", "argument:1=ignore"];
    // The result passes, but a kernel without effect would pass as well.
    instance.replay("default<O3>").args(["--grid-dim-x", "31"]).args(named).exit_with(exit::UNPROVEN);
}

#[test]
fn thresholds_that_accept_everything_are_refused() {
    let recording = Recording::of(app("arena"), &["1000"]);
    for nothing_fails in ["f32:inf", "f32:7e38", "f32:1e300", "f32:5e9:ulp", "i32:4294967295"] {
        recording.single().replay("default<O3>").args(["--tolerance", nothing_fails]).exit_with(exit::BAD_USAGE);
    }
}

#[test]
fn limits_of_the_context_are_recorded_and_set() {
    let recording = Recording::of(app("limits"), &[]);
    let (_, kernel) = recording.kernel("limits");
    let limits = kernel.instances.values().next().unwrap().ours.attributes.limits;
    assert_eq!((limits.stack, limits.malloc_heap), (Some(4096), Some(32 << 20)));
    recording.single().verify("default<O3>", &[]);
}

#[test]
fn memory_is_restored_between_iterations() {
    let recording = Recording::of(app("inplace"), &[]);
    let json = recording.single().verify("default<O3>", &["--iterations", "5", "--warmup", "1"]);
    for name in ["largest_error", "largest_relative_error", "largest_ulp"] {
        assert_eq!(json["Result"][name], 0.0, "{json}");
    }
    assert_eq!(json["Result"]["exec_time"].as_array().map(Vec::len), Some(6), "{json}");
}

#[test]
fn work_left_undone_is_found() {
    let recording = Recording::of(app("saxpy"), &["20000"]);
    // Half of the recorded blocks.
    let json = recording.single().refute("default<O3>", &["--grid-dim-x", "78"]);
    let mismatch = &json["Result"]["mismatch"];
    let first_undone = 78 * 128 * 4;
    let offset = mismatch["offset"].as_u64().unwrap();
    assert!((first_undone..first_undone + 4).contains(&offset), "{json}");
}

#[test]
fn a_corrupted_epilogue_is_found() {
    let recording = Recording::of(app("vecadd"), &[]);
    let (_copy, instance) = damaged_copy(&recording);
    instance.verify("default<O3>", &[]);
    let (prologue, epilogue) = state_paths(&instance);
    let before = MemoryState::load(&prologue).unwrap();
    let mut after = MemoryState::load(&epilogue).unwrap();
    // A well-formed epilogue with zeros where the kernel wrote other values.
    let changed = (0..after.chunks.len())
        .flat_map(|region| (0..after.chunks[region].len()).map(move |chunk| (region, chunk)))
        .find(|(region, chunk)| after.chunks[*region][*chunk] != before.chunks[*region][*chunk])
        .expect("the kernel wrote something");
    after.chunks[changed.0][changed.1] = ChunkId::ZERO;
    after.save(&epilogue).unwrap();
    instance.refute("default<O3>", &[]);

    // And a malformed one.
    flip_middle_byte(&epilogue);
    instance.replay("default<O3>").exit_with(exit::BAD_RECORDING);
    fs::remove_file(&epilogue).unwrap();
    instance.replay("default<O3>").exit_with(exit::BAD_RECORDING);
}

#[test]
fn a_corrupted_argument_is_found() {
    let recording = Recording::of(app("inplace"), &["1000"]);
    let (_copy, instance) = damaged_copy(&recording);
    assert_eq!(
        set_argument(&instance, 1, &999_i32.to_le_bytes()),
        1000_i32.to_le_bytes(),
        "the second argument is the number of elements"
    );
    let json = instance.refute("default<O3>", &[]);
    let offset = json["Result"]["mismatch"]["offset"].as_u64().unwrap();
    assert!((999 * 4..1000 * 4).contains(&offset), "the element left out is the last one: {json}");
}

#[test]
fn a_corrupted_chunk_is_found() {
    let recording = Recording::of(app("vecadd"), &[]);
    let (copy, instance) = damaged_copy(&recording);
    for pack in packs(copy.path()) {
        flip_middle_byte(&pack);
    }
    instance.replay("default<O3>").exit_with(exit::BAD_RECORDING);
    for pack in packs(copy.path()) {
        fs::remove_file(pack).unwrap();
    }
    instance.replay("default<O3>").exit_with(exit::BAD_RECORDING);
}
