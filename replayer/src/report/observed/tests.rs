//! Tests of the texts of observations.

use mneme_model::launch::Dim3;
use mneme_model::observation::{Access, SourceLine};

use super::*;
use crate::recording::snapshot::SnapshotLayout;

fn site(access: Access) -> Site {
    let line = SourceLine { file: "/a/k.cu".into(), line: 7, column: 3, function: "k".into() };
    Site {
        function: "k(int*)".into(),
        instruction: "store i32 1, ptr %p".into(),
        access,
        bytes: 4,
        source: vec![line],
        variable: None,
    }
}

fn faults_of(fault: Fault, detail: u64, address: u64, sites: Vec<Site>) -> Faults {
    let configuration = Configuration::recorded(Dim3::new(4, 2, 1), Dim3::new(8, 8, 1), 0);
    let instrumented = Instrumented { sites, ..Instrumented::default() };
    let example = NotedExample { block: 5, thread: 9, address, bytes: 4, detail };
    let noted = NotedFault { site: 0, fault, count: 3, examples: vec![example] };
    let regions = SnapshotLayout::default().regions;
    faults(&configuration, &instrumented, &[noted], &regions)
}

#[test]
fn indices_sizes_and_places_are_told() {
    let mut on_shared = site(Access::Write);
    on_shared.variable = Some("the shared variable s (64 bytes)".into());
    let found = faults_of(Fault::OutOfBounds, 64, 0x440, vec![on_shared.clone()]);
    let example = &found.findings[0].examples[0];
    assert_eq!((example.block.to_string(), example.thread.to_string()), ("(1, 1, 0)".into(), "(1, 1, 0)".into()));
    assert_eq!(example.place, "byte 64 of the shared variable s (64 bytes)");
    let before = faults_of(Fault::OutOfBounds, (-8i64) as u64, 0x3f8, vec![on_shared]);
    assert_eq!(before.findings[0].examples[0].place, "8 bytes before the shared variable s (64 bytes)");
}

#[test]
fn both_sides_of_a_race_are_told() {
    let found = faults_of(Fault::Race, 1 << 32 | 12, 0x400, vec![site(Access::Read), site(Access::Write)]);
    let other = found.findings[0].examples[0].other.as_ref().unwrap();
    assert_eq!((other.thread, other.site.access), (Index { x: 4, y: 1, z: 0 }, Access::Write));
    let text = text(&found);
    assert!(
        text.starts_with("data race: read of 4 bytes: 3 times\n  by thread (1, 1, 0) of block (1, 1, 0) at 0x400: a shared variable\n"),
        "{text}"
    );
    assert!(text.contains("\n    after the write of thread (4, 1, 0) at /a/k.cu:7:3 in k\n"), "{text}");
    assert!(text.ends_with("\n1 fault found in 2 watched instructions"), "{text}");
}

#[test]
fn without_debug_information_the_remedy_is_named() {
    let plain = Site { source: Vec::new(), ..site(Access::Read) };
    assert!(text(&faults_of(Fault::Misaligned, 8, 0x1001, vec![plain.clone()])).contains("-gline-tables-only"));
    assert!(!text(&faults_of(Fault::Misaligned, 8, 0x1001, vec![site(Access::Read)])).contains("-gline-tables-only"));
    let none = Faults { watched: 4, ..Faults::default() };
    assert_eq!(text(&none), "no fault found in 4 watched instructions");
}
