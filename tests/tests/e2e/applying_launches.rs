//! Tests that only launches that a winner was verified for get its dimensions.

use std::ffi::OsStr;

use mneme_e2e::apps::app;
use mneme_e2e::installation::TestDevice;
use mneme_e2e::recording::{Recording, TestInstance};
use serde_json::{Value, json};

use crate::applying::{SAME_THREADS, Tuned, counts, of};

/// A winner for the launch of `slices` with 40960 elements: half the block and twice the grid.
fn halved(recording: &Recording) -> Tuned {
    let (database, record) = recording.kernel("slices");
    let (id, _) = record.instances.iter().find(|(_, instance)| instance.args[1] == 40960).unwrap();
    let changes = json!({"block": {"x": 128}, "grid": {"x": 80}, "passes": "default<O2>"});
    Tuned::new().with("slices", &TestInstance::new(&database, id), changes, json!({"grid": SAME_THREADS}))
}

/// The number of launches that kept their dimensions, and how many of those used tuned code.
fn kept(kernel: &Value) -> [u64; 2] {
    let kept = kernel["applied"]["kept_dimensions"].as_array().cloned().unwrap_or_default();
    ["launches", "replaced"].map(|field| kept.iter().map(|kept| kept[field].as_u64().unwrap()).sum())
}

#[test]
fn a_launch_that_was_not_verified_keeps_its_dimensions() {
    let recording = Recording::of(app("slices"), &["40960", "40"]);
    let tuned = halved(&recording);
    let (outcome, kernel) = tuned.run(&of("slices"), &["40960", "40"], "slices");
    assert_eq!((counts(&kernel), kept(&kernel)), ([1, 1, 1], [0, 0]), "{outcome}");
    // The tuned dimensions would omit half an element of each block.
    let (outcome, kernel) = tuned.run(&of("slices"), &["40920", "40", "40960", "40"], "slices");
    assert_eq!((counts(&kernel), kept(&kernel)), ([2, 2, 1], [1, 1]), "{outcome}");
    let (outcome, kernel) = tuned.run_with(&["--any-launch"], &of("slices"), &["20480", "40"], "slices", &[]);
    assert_eq!((counts(&kernel), kept(&kernel)), ([1, 1, 1], [0, 0]), "{outcome}");
    let (outcome, kernel) = tuned.run_with(&["--keep-dimensions"], &of("slices"), &["40960", "40"], "slices", &[]);
    assert_eq!((counts(&kernel), kept(&kernel)), ([1, 1, 0], [1, 1]), "{outcome}");
}

#[test]
fn a_rule_that_verified_on_three_launches_is_for_all() {
    let recording = Recording::of(app("slices"), &["40960", "40", "20480", "40"]);
    let tuned = halved(&recording);
    let (outcome, kernel) = tuned.run(&of("slices"), &["20480", "40", "81920", "40"], "slices");
    assert_eq!((counts(&kernel), kept(&kernel)), ([2, 2, 1], [1, 1]), "two are too few: {outcome}");

    let recording = Recording::of(app("slices"), &["40960", "40", "20480", "40", "10240", "20"]);
    let tuned = halved(&recording);
    for _ in 0..2 {
        let (outcome, kernel) = tuned.run(&of("slices"), &["20480", "40", "81920", "40"], "slices");
        assert_eq!((counts(&kernel), kept(&kernel)), ([2, 2, 2], [0, 0]), "{outcome}");
    }
}

#[test]
fn a_rule_that_a_recorded_launch_refutes_is_for_none() {
    let recording = Recording::of(app("slices"), &["40960", "40", "20480", "40", "81920", "40", "40920", "40"]);
    let tuned = halved(&recording);
    for option in [&[][..], &["--any-launch"]] {
        let arguments = ["40960", "40", "20480", "40", "40920", "40", "10240", "40"];
        let (outcome, kernel) = tuned.run_with(option, &of("slices"), &arguments, "slices", &[]);
        assert_eq!((counts(&kernel), kept(&kernel)), ([4, 4, 2], [2, 2]), "{outcome}");
    }
}

#[test]
fn blocks_that_are_on_the_device_at_once_stay_so() {
    // A GPU can hold all of them at once.
    if TestDevice::under_test() != TestDevice::Cpu {
        return;
    }
    let recording = Recording::of(app("slices"), &["40960", "40"]);
    let tuned = halved(&recording);
    for (threads, replaced) in [("39", 1), ("40", 0), ("79", 0), ("80", 1)] {
        let environment = [("MNEME_CPU_THREADS", OsStr::new(threads))];
        let (outcome, kernel) = tuned.run_in(&of("slices"), &["40960", "40"], "slices", &environment);
        assert_eq!(counts(&kernel), [1, replaced, replaced], "{threads}: {outcome}");
        assert_eq!(kept(&kernel), [1 - replaced, 0], "{threads}: {outcome}");
    }
}
