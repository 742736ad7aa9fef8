//! Tests of graphs: which of their launches are recorded, and that their results stay the program's.

use mneme_e2e::apps::app;
use mneme_e2e::recording::{Recording, TestInstance, record_into, unrecorded};
use mneme_model::summary::{self, GraphLaunches, merged_graphs};

/// Records a program under a setting of `MNEME_GRAPHS`, compares its output, and replays every instance. Returns the
/// launches of graphs in the summary.
#[track_caller]
fn recorded(name: &str, settings: &[(&str, &str)]) -> (Recording, GraphLaunches) {
    let app = app(name);
    let plain = unrecorded(app).succeed();
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("summary");
    let recording = Recording::by(|folder| {
        let run = record_into(folder, app, &[]).env(summary::VARIABLE, &lines);
        settings.iter().fold(run, |run, (variable, value)| run.env(variable, value))
    });
    assert_eq!(recording.outcome.stdout, plain.stdout, "{}", recording.outcome);
    for (database, kernel) in recording.kernels() {
        for id in kernel.instances.keys() {
            TestInstance::new(&database, id).verify("default<O3>", &[]);
        }
    }
    let launches = merged_graphs(&summary::parse(&std::fs::read_to_string(&lines).unwrap()));
    (recording, launches)
}

/// The launches of each instance of a kernel, ascending.
#[track_caller]
fn occurrences(recording: &Recording, name: &str) -> Vec<u64> {
    let mut occurrences: Vec<_> =
        recording.kernel(name).1.instances.values().map(|instance| instance.occurrences).collect();
    occurrences.sort_unstable();
    occurrences
}

const EXPANDED: (&str, &str) = ("MNEME_GRAPHS", "expand");
const WHOLE: (&str, &str) = ("MNEME_GRAPHS", "whole");

#[test]
fn a_graph_is_launched_whole_once_its_kernels_are_recorded() {
    let (recording, launches) = recorded("decoding", &[]);
    // The first launch of `choose` changes no memory, so the second is recorded too.
    assert_eq!((launches.expanded, launches.complete), (2, 38), "{}", recording.outcome);
    assert!(launches.whole.is_empty(), "{}", recording.outcome);
    assert_eq!(recording.kernels().len(), 2);
}

#[test]
fn graphs_are_expanded_on_request() {
    let (recording, launches) = recorded("decoding", &[EXPANDED]);
    assert_eq!((launches.expanded, launches.complete), (40, 0), "{}", recording.outcome);
    assert_eq!(occurrences(&recording, "advance"), [40]);
    let (recording, launches) = recorded("graphs", &[EXPANDED]);
    assert_eq!((launches.expanded, launches.whole.len()), (2, 0), "{}", recording.outcome);
    assert_eq!((occurrences(&recording, "scale"), occurrences(&recording, "merge")), (vec![2, 2], vec![2]));
}

#[test]
fn graphs_are_launched_as_a_whole_on_request() {
    for (name, count) in [("decoding", 40), ("nodes", 1)] {
        let (recording, launches) = recorded(name, &[WHOLE]);
        assert!(recording.kernels().is_empty());
        assert_eq!((launches.expanded, launches.complete), (0, 0));
        assert_eq!(launches.whole.values().copied().collect::<Vec<_>>(), [count], "{}", recording.outcome);
        assert!(!recording.outcome.stderr.contains("launched no GPU kernel"), "{}", recording.outcome);
    }
}

#[test]
fn kernels_of_captured_graphs_and_of_nodes_are_recorded() {
    let (recording, launches) = recorded("graphs", &[]);
    assert_eq!((launches.expanded, launches.complete, launches.whole.len()), (1, 1, 0), "{}", recording.outcome);
    assert_eq!((occurrences(&recording, "scale").len(), occurrences(&recording, "merge").len()), (2, 1));
    let (recording, launches) = recorded("nodes", &[]);
    assert_eq!((launches.expanded, launches.whole.len()), (1, 0), "{}", recording.outcome);
    assert_eq!(occurrences(&recording, "add"), [1]);
}

/// A launch into a stream is whole, whatever other threads launch into that stream.
#[test]
fn launches_of_other_threads_do_not_come_between_the_nodes() {
    let (_, launches) = recorded("interleaved", &[EXPANDED]);
    assert_eq!((launches.expanded, launches.complete, launches.whole.len()), (20, 0, 0));
    let (recording, launches) = recorded("interleaved", &[("MNEME_MAX_RECORDINGS", "9")]);
    assert_eq!((launches.expanded + launches.complete, launches.whole.len()), (20, 0), "{}", recording.outcome);
}

/// The waiting kernel is given up by name, and the application does not hang.
#[test]
fn branches_may_wait_for_each_other() {
    let start = std::time::Instant::now();
    let (recording, launches) = recorded("branching", &[("MNEME_KERNEL_LIMIT", "2")]);
    assert_eq!(launches.expanded + launches.complete, 3, "{}", recording.outcome);
    recording.outcome.complains("wait_for");
    recording.outcome.complains("did not finish within 2 s");
    assert!(start.elapsed().as_secs() < 60, "one limit, not one for each launch");
}

#[test]
fn updates_are_followed() {
    for (name, count) in [("changed", 11), ("updated", 5)] {
        let (recording, launches) = recorded(name, &[EXPANDED]);
        assert_eq!((launches.expanded, launches.whole.len()), (count, 0), "{name}: {}", recording.outcome);
        let (recording, launches) = recorded(name, &[]);
        assert_eq!(launches.expanded + launches.complete, count, "{name}: {}", recording.outcome);
        assert!(launches.whole.is_empty(), "{name}: {}", recording.outcome);
    }
    let (recording, _) = recorded("updated", &[]);
    assert_eq!(recording.kernel("advance").1.instances.len(), 3, "one for each number: {}", recording.outcome);
}

#[test]
fn a_large_graph_is_recorded() {
    let (recording, launches) = recorded("instantiated", &[]);
    assert_eq!((launches.expanded + launches.complete, launches.whole.len()), (22, 0), "{}", recording.outcome);
    assert!(launches.expanded <= 2, "{}", recording.outcome);
}
