//! A few hundred random sequences of driver calls.
//!
//! `scripts/differential` runs any number.

use mneme_e2e::differential::{Batch, workers};
use mneme_e2e::installation::TestDevice;

/// Enough that each kind of step happens in many places, few enough for some seconds. Contexts of a GPU take longer.
fn sequences() -> u64 {
    if TestDevice::under_test() == TestDevice::Cuda { 40 } else { 150 }
}

#[track_caller]
fn hold(from: u64, devices: u32, expands_graphs: bool) {
    let batch = Batch {
        from,
        count: sequences(),
        devices,
        expands_graphs,
        skipped: Vec::new(),
        replays: usize::MAX,
        kept: None,
    };
    let report = batch.run(workers());
    let report = report.unwrap_or_else(|failure| panic!("scripts/differential {}: {failure:?}", batch.arguments()));
    assert!(report.verified >= sequences(), "too little was recorded: {report:?}");
}

#[test]
fn sequences_on_one_device() {
    hold(0, 1, false);
}

#[test]
fn sequences_with_expanded_graphs() {
    hold(1000, 1, true);
}

#[test]
fn sequences_on_two_devices() {
    hold(2000, 2, false);
}
