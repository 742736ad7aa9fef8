//! Tests of `mneme-replay --check` and `--wrote`.
//!
//! `--check` finds every planted fault at its place, and nothing else. `--wrote` names the writer of an address.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mneme_e2e::apps::{Platform, app, executable_for, sources};
use mneme_e2e::hip;
use mneme_e2e::installation::{Cudart, TestDevice};
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_model::observation::{Access, Fault, Finding, LastWrite};
use mneme_recording::database::KernelRecord;
use mneme_system::exit;
use serde_json::Value;

/// The marked lines of `faulty.cu`, by mark ("fault: race").
fn marks() -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(sources().join("faulty.cu")).unwrap();
    let marked =
        (1..).zip(text.lines()).filter_map(|(number, line)| Some((line.split_once("; // ")?.1.to_owned(), number)));
    marked.collect()
}

/// The launch options that trigger the fault. The recorded launch is sound, because a fault would end the program on a
/// GPU.
fn wrong_shape(kernel: &str) -> &'static [&'static str] {
    match kernel {
        "dynamic_beyond" => &["--shared-mem", "256"],
        "local_beyond" => &["--block-dim-x", "80"],
        "fill_beyond" | "element_beyond" => &["--block-dim-x", "20"],
        "misaligned" => &["--block-dim-x", "16"],
        _ => &[],
    }
}

fn recording(platform: Platform) -> Recording {
    Recording::of_executable(&executable_for(app("faulty"), platform), &[])
}

fn faulty(platform: Platform) -> Vec<(String, TestInstance)> {
    let recording = recording(platform);
    // The folder is deleted with the recording, but the tests need it longer.
    let folder = mneme_e2e::recording::copy_of(recording.folder()).keep();
    mneme_e2e::recording::load_kernels(&folder)
        .into_iter()
        .map(|(path, kernel)| (name(&kernel), instance(path, &kernel)))
        .collect()
}

fn name(kernel: &KernelRecord) -> String {
    kernel.demangled_name.split('(').next().unwrap().to_owned()
}

fn instance(path: PathBuf, kernel: &KernelRecord) -> TestInstance {
    TestInstance::new(&path, kernel.instances.keys().next().unwrap())
}

fn findings(json: &Value) -> Vec<Finding> {
    serde_json::from_value(json["Result"]["faults"]["findings"].clone()).unwrap()
}

#[test]
fn every_planted_fault_is_found() {
    every_planted_fault_is_found_in(Platform::Cuda(Cudart::under_test()));
}

#[test]
fn every_planted_fault_is_found_in_a_hip_program() {
    if hip::can_run("every_planted_fault_is_found_in_a_hip_program") {
        every_planted_fault_is_found_in(Platform::Hip);
    }
}

fn every_planted_fault_is_found_in(platform: Platform) {
    let marks = marks();
    let kernels = faulty(platform);
    let expected = [
        ("beyond", Fault::OutOfBounds, Access::Write, 1, "right behind the end of the allocation"),
        ("before", Fault::OutOfBounds, Access::Read, 1, "4 bytes before the allocation"),
        ("atomic_beyond", Fault::OutOfBounds, Access::Atomic, 1, "right behind the end of the allocation"),
        ("copy_beyond", Fault::OutOfBounds, Access::Write, 1, "its last 16 bytes behind the end of the allocation"),
        ("vector_beyond", Fault::OutOfBounds, Access::Read, 64, "behind the end of the allocation"),
        (
            "shared_beyond",
            Fault::OutOfBounds,
            Access::Write,
            1,
            "byte 256 of the shared variable shared_beyond(int*)::first (256 bytes)",
        ),
        ("dynamic_beyond", Fault::OutOfBounds, Access::Write, 1, "byte 256 of the dynamic shared memory scratch"),
        ("local_beyond", Fault::OutOfBounds, Access::Read, 16, "byte 16 of the local variable table (16 bytes)"),
        ("fill_beyond", Fault::OutOfBounds, Access::Write, 20, "byte 0 of the local variable bytes (16 bytes)"),
        ("element_beyond", Fault::OutOfBounds, Access::Write, 4, "byte 64 of the local variable table (64 bytes)"),
        (
            "shared_unset",
            Fault::Uninitialised,
            Access::Read,
            64,
            "the shared variable shared_unset(int*)::values (256 bytes)",
        ),
        ("wide_unset", Fault::Uninitialised, Access::Read, 32, "wide_unset(int*)::values (512 bytes)"),
        ("wide_race", Fault::Race, Access::Read, 0, "wide_race(int*)::values (512 bytes)"),
        ("local_unset", Fault::Uninitialised, Access::Read, 4, "the local variable value"),
        ("callee_unset", Fault::Uninitialised, Access::Read, 4, "the local variable value"),
        ("outlived", Fault::Uninitialised, Access::Read, 64, "the local variable value"),
        ("race", Fault::Race, Access::Read, 0, "the shared variable race(int*)::values (256 bytes)"),
        ("warp_race", Fault::Race, Access::Read, 0, "the shared variable warp_race(int*)::values (256 bytes)"),
        ("sum_race", Fault::Race, Access::Write, 0, "the shared variable sum_race(int*)::values (128 bytes)"),
        ("count_race", Fault::Race, Access::Atomic, 0, "the shared variable count_race(int*)::count (4 bytes)"),
        ("round_race", Fault::Race, Access::Write, 0, "the shared variable round_race(int*)::value (4 bytes)"),
        ("value_race", Fault::Race, Access::Write, 0, "the shared variable value_race(int*)::flag (4 bytes)"),
        ("half_race", Fault::Race, Access::Write, 0, "the shared variable half_race(int*)::flag (4 bytes)"),
        ("late", Fault::Uninitialised, Access::Read, 1, "the dynamic shared memory scratch"),
        ("misaligned", Fault::Misaligned, Access::Read, 8, "not a multiple of 4"),
    ];
    for (kernel, fault, access, count, place) in expected {
        let (_, instance) = kernels.iter().find(|(name, _)| name == kernel).unwrap();
        let shape = wrong_shape(kernel);
        if !shape.is_empty() {
            let outcome = instance.replay("default<O3>").arg("--check").exit_with(exit::VERIFIED);
            assert_eq!(findings(&outcome.json()), [], "as it was recorded it has no fault: {outcome}");
        }
        let outcome = instance.replay("default<O3>").arg("--check").args(shape).exit_with(exit::NOT_VERIFIED);
        let json = outcome.json();
        let line = marks[&format!("fault: {kernel}")];
        let found = findings(&json);
        // The check may notice a race at either access.
        let other = marks.get(&format!("other: {kernel}")).copied();
        let lines = |finding: &Finding| {
            finding.site.source.iter().any(|at| at.line == line || (fault == Fault::Race && Some(at.line) == other))
        };
        let finding = found
            .iter()
            .find(|finding| {
                finding.fault == fault && lines(finding) && (fault == Fault::Race || finding.site.access == access)
            })
            .unwrap_or_else(|| panic!("{fault:?} in line {line}: {outcome}"));
        assert!(
            found.iter().all(
                |finding| finding.fault == fault || (fault == Fault::Race && finding.fault == Fault::Uninitialised)
            ),
            "{outcome}"
        );
        assert!(count == 0 || finding.count == count, "{count} times: {outcome}");
        let example = &finding.examples[0];
        assert!(example.place.contains(place), "{}: {outcome}", example.place);
        outcome.complains(&format!("faulty.cu:{line}"));
        if kernel == "beyond" {
            assert_eq!((example.block.x, example.thread.x, example.bytes), (1, 36, 4), "{outcome}");
        }
        if kernel.starts_with("wide") {
            assert!(finding.examples.iter().all(|example| example.bytes == 8), "{outcome}");
        }
        if kernel == "late" {
            assert_eq!(example.block.x, 699, "{outcome}");
            let runs = json["Result"]["exec_time"].as_array().unwrap().len();
            assert!(
                TestDevice::under_test() == TestDevice::Cuda || runs > 1,
                "blocks are watched in several runs: {outcome}"
            );
        }
        if fault == Fault::Race {
            let both = finding
                .examples
                .iter()
                .filter_map(|example| example.other.as_ref())
                .all(|other| !other.site.source.is_empty());
            assert!(both, "{outcome}");
        }
    }
    let (_, sound) = kernels.iter().find(|(name, _)| name == "sound").unwrap();
    for passes in ["default<O3>", "default<O0>", ""] {
        let outcome = sound.replay(passes).arg("--check").exit_with(exit::VERIFIED);
        assert_eq!(findings(&outcome.json()), [], "{outcome}");
    }
    std::fs::remove_dir_all(sound.database.parent().unwrap()).unwrap();
}

/// Memory that an unwatched instruction may have written counts as written. Memory that it cannot have written does
/// not.
#[test]
fn writes_that_are_not_watched_count_as_writes() {
    for name in ["unseen", "mbarriers"] {
        let recording = Recording::of_executable(&executable_for(app(name), Platform::Cuda(Cudart::under_test())), &[]);
        for (path, kernel) in recording.kernels() {
            let replay = instance(path, &kernel).replay("default<O3>").arg("--check");
            if !kernel.demangled_name.starts_with("besides") {
                let outcome = replay.exit_with(exit::VERIFIED);
                assert_eq!(findings(&outcome.json()), [], "{}: {outcome}", kernel.demangled_name);
                continue;
            }
            let outcome = replay.exit_with(exit::NOT_VERIFIED);
            let found = findings(&outcome.json());
            let variables: Vec<_> = found.iter().map(|finding| (finding.fault, &finding.site.variable)).collect();
            assert!(
                matches!(&variables[..], [(Fault::Uninitialised, Some(name))] if name.contains("other")),
                "{outcome}"
            );
        }
    }
}

/// Programs without a fault, with the differences of HIP programs for AMD's GPUs: thread ids and sizes, aggregates
/// passed by value, exchanges within waves, dynamic shared memory, output.
#[test]
fn nothing_is_found_in_hip_programs_without_faults() {
    if !hip::can_run("nothing_is_found_in_hip_programs_without_faults") {
        return;
    }
    for name in ["reduce", "histogram", "waves", "shared", "dims", "parameters", "bigstruct", "print", "atomic_kinds"] {
        let recording = Recording::of_executable(&hip::executable(hip::app(name)), &[]);
        for (path, kernel) in recording.kernels() {
            let instance = instance(path, &kernel);
            // Only the lockstep of the wave orders its lanes. The hardware guarantees it, but compilers need not.
            if kernel.demangled_name.starts_with("columns") {
                let outcome = instance.replay("default<O3>").arg("--check").exit_with(exit::NOT_VERIFIED);
                let found = findings(&outcome.json());
                assert!(!found.is_empty() && found.iter().all(|finding| finding.fault == Fault::Race), "{outcome}");
                assert_eq!(outcome.json()["Result"]["verified"], true, "{outcome}");
                continue;
            }
            let outcome = instance.replay("default<O3>").arg("--check").exit_with(exit::VERIFIED);
            assert_eq!(findings(&outcome.json()), [], "{name}: {outcome}");
        }
    }
}

#[test]
fn the_last_writer_of_an_element_is_told() {
    the_last_writer_is_told_in(Platform::Cuda(Cudart::under_test()));
}

#[test]
fn the_last_writer_in_a_hip_program_is_told() {
    if hip::can_run("the_last_writer_in_a_hip_program_is_told") {
        the_last_writer_is_told_in(Platform::Hip);
    }
}

fn the_last_writer_is_told_in(platform: Platform) {
    let recording = recording(platform);
    let (database, kernel) = recording.kernel("beyond");
    let instance = instance(database, &kernel);
    let arguments = kernel.instances[&instance.id].args.clone();
    // Element 70 of the output, which is the first argument.
    let watched = format!("{:#x}:4", arguments[0] + 70 * 4);
    // The element past the end is outside of recorded memory, so the replay finds a difference.
    let json = instance.replay("default<O2>").args(["--wrote", &watched]).exit_with(exit::NOT_VERIFIED).json();
    let write: LastWrite = serde_json::from_value(json["Result"]["last_write"].clone()).unwrap();
    assert_eq!((write.block.x, write.thread.x, write.writes), (1, 6, 1), "{json}");
    assert_eq!((write.value, write.written_bytes), (70_i32.to_le_bytes().to_vec(), 4), "{json}");
    assert_eq!(write.site.source[0].line, marks()["fault: beyond"], "{json}");

    let (database, kernel) = recording.kernel("sound");
    let read_only = format!("{:#x}", kernel.instances.values().next().unwrap().args[0]);
    let instance = self::instance(database, &kernel);
    let outcome = instance.replay("default<O3>").args(["--wrote", &read_only]).succeed();
    assert!(outcome.json()["Result"]["last_write"].is_null(), "{outcome}");
    outcome.complains("the kernel wrote none of these bytes");
    let nowhere = instance.replay("default<O3>").args(["--wrote", "0x10"]).exit_with(exit::BAD_USAGE);
    nowhere.complains("outside the recorded memory: far from all recorded memory");
}
