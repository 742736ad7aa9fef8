//! A few hundred random sequences of driver calls.
//!
//! `scripts/differential` runs any number of sequences.

use mneme_e2e::differential::{Batch, Processes, workers};
use mneme_e2e::installation::TestDevice;

/// Enough for each kind of step to occur in many places, but few enough to finish within seconds. Contexts of a GPU
/// take longer.
fn sequences() -> u64 {
    if TestDevice::under_test() == TestDevice::Cuda { 40 } else { 50 }
}

fn batch(from: u64, devices: u32) -> Batch {
    Batch {
        from,
        count: sequences(),
        devices,
        expands_graphs: false,
        processes: Processes::One,
        skipped: Vec::new(),
        without: String::new(),
        replays: usize::MAX,
        kept: None,
    }
}

#[track_caller]
fn hold(batch: &Batch) {
    let report = batch.run(workers());
    let report = report.unwrap_or_else(|failure| panic!("scripts/differential {}: {failure:?}", batch.arguments()));
    if report.not_possible > 0 {
        mneme_fixtures::skip("these processes take root and its privileges");
        return;
    }
    assert!(report.verified >= batch.count, "too little was recorded: {report:?}");
}

#[test]
fn sequences_on_one_device() {
    hold(&batch(0, 1));
}

#[test]
fn sequences_with_expanded_graphs() {
    hold(&Batch { expands_graphs: true, ..batch(1000, 1) });
}

#[test]
fn sequences_on_two_devices() {
    hold(&batch(2000, 2));
}

/// In PID namespaces, where simultaneous and successive processes have the same id.
#[test]
fn sequences_in_processes_with_the_same_id() {
    hold(&Batch { count: sequences() / 3, processes: Processes::SameIds, ..batch(3000, 1) });
}

#[test]
fn sequences_of_two_users() {
    hold(&Batch { count: sequences() / 3, processes: Processes::Users, ..batch(4000, 1) });
}
