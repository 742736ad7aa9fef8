//! Tests of minimised recordings.

use std::path::Path;

use mneme_e2e::apps::app;
use mneme_e2e::command::{ProgramOutput, run};
use mneme_e2e::hip;
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance, load_kernels};
use mneme_model::hash::ChunkId;
use mneme_recording::Moments;
use mneme_system::exit;

fn minimize(recording: &Recording, to: &Path) -> ProgramOutput {
    let minimize = run(program("mneme")).arg("minimize").arg(recording.folder()).arg(to);
    minimize.args(["--device", TestDevice::under_test().name()]).outcome()
}

fn disk(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { disk(&path) } else { path.metadata().unwrap().len() }).sum()
}

/// Verifies each instance. Returns the bytes of memory of all.
fn verified(folder: &Path) -> u64 {
    let mut bytes = 0;
    for (database, kernel) in load_kernels(folder) {
        for (id, instance) in &kernel.instances {
            TestInstance::new(&database, id).verify("default<O2>", &[]);
            bytes += instance.ours.memory_bytes;
        }
    }
    bytes
}

#[test]
fn a_kernel_that_touches_little_becomes_small() {
    let recording = Recording::of(app("part"), &["64"]);
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    let said = minimize(&recording, &small);
    assert_eq!(said.status, exit::VERIFIED, "{said}");
    assert!(said.stdout.contains("of 128.00 MiB of memory"), "{said}");
    // The kernel reads 512 KiB of each allocation, in 64 KiB pieces that need not be aligned.
    assert!((1 << 20..=(20 << 16)).contains(&verified(&small)), "{said}");
    assert!(disk(&small) < 2 << 20, "{} bytes", disk(&small));
    assert!(disk(&small) * 10 < disk(recording.folder()));
    run(program("mneme")).arg("check").arg(&small).succeed();
    // The used memory is unchanged.
    let again = folder.path().join("again");
    let copy = run(program("mneme")).arg("minimize").arg(&small).arg(&again);
    copy.args(["--device", TestDevice::under_test().name()]).succeed();
    assert_eq!(verified(&again), verified(&small));
    // The command does not overwrite another recording.
    let taken = minimize(&recording, &small);
    assert_eq!(taken.status, exit::BAD_RECORDING, "{taken}");
    taken.complains("of another recording");
    verified(&small);
}

/// Hashes of the memory before a recording's only launch, by region, without zeros.
fn chunks(folder: &Path) -> Vec<Vec<ChunkId>> {
    let (database, record) = load_kernels(folder).remove(0);
    let instance = record.instances.values().next().unwrap();
    let moments = Moments::open(database.parent().unwrap(), &record, instance).unwrap();
    let regions = moments.prologue.chunks.into_iter();
    regions.map(|ids| ids.into_iter().filter(|id| !id.is_zero()).collect()).collect()
}

#[test]
fn numbers_become_random_ones_where_the_kernel_touches_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let scrub = |recording: &Recording, to: &str, seed: &str| {
        let minimize = run(program("mneme")).args(["minimize", "--device", TestDevice::under_test().name(), "--scrub"]);
        minimize.args(["--seed", seed]).arg(recording.folder()).arg(folder.path().join(to)).succeed()
    };
    let at = |name: &str| folder.path().join(name);
    let recording = Recording::of(app("saxpy"), &[]);
    for (to, seed) in [("one", "1"), ("same", "1"), ("two", "2")] {
        let said = scrub(&recording, to, seed);
        assert!(said.stdout.contains("verified; ") && said.stdout.contains(" are random numbers, "), "{said}");
        assert!(!said.stderr.contains("keep their data"), "{said}");
    }
    let [own, one, same, two] =
        [recording.folder(), &at("one"), &at("same"), &at("two")].map(|folder| chunks(folder).concat());
    assert!(one == same && one != two, "the seed decides");
    assert!(!own.is_empty() && own.iter().all(|id| !one.contains(id)), "nothing stays");
    // It replays under another pipeline, and the folder contains no chunk of the recording.
    verified(&at("one"));
    run(program("mneme")).arg("check").arg(at("one")).succeed();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");

    // One of three arrays contains the read positions.
    let recording = Recording::of(app("binned"), &[]);
    let said = scrub(&recording, "binned", "1");
    said.complains("keep their data");
    assert_eq!(said.stderr.matches("keep their data").count(), 1, "{said}");
    assert!(said.stdout.contains("verified; 4") && said.stdout.contains("random numbers"), "{said}");
    verified(&at("binned"));
    let (own, scrubbed) = (chunks(recording.folder()).concat(), chunks(&at("binned")));
    let kept = scrubbed.iter().filter(|ids| !ids.is_empty() && ids.iter().all(|id| own.contains(id))).count();
    assert_eq!(kept, 1, "{said}");

    // Integers are not such numbers.
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let said = scrub(&recording, "integers", "1");
    said.complains("no memory looks like floating-point numbers");
    assert!(said.stdout.contains("; 0 B are random numbers, ") && !said.stdout.contains(", 0 B of other"), "{said}");
}

#[track_caller]
fn becomes_small(name: &str, recording: &Recording) {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    let said = minimize(recording, &small);
    assert_eq!(said.status, exit::VERIFIED, "{name}: {said}");
    verified(&small);
}

/// Pointers in memory, structures, variables, atomics, numbers that instrumented code may round differently, a kernel
/// of several units.
#[test]
fn all_kinds_of_memory_stay_that_are_needed() {
    for name in ["list", "bigstruct", "variables", "histogram", "heads", "matmul", "nbody", "rdc"] {
        becomes_small(name, &Recording::of(app(name), &[]));
    }
}

/// AMD's code, which the CPU device runs in waves.
#[test]
fn recordings_of_hip_programs_become_small() {
    if !hip::can_run("recordings_of_hip_programs_become_small") {
        return;
    }
    for name in ["list", "matmul", "heads", "waves"] {
        becomes_small(name, &Recording::of_executable(&hip::executable(hip::app(name)), &[]));
    }
}

#[test]
fn what_is_touched_is_told_and_a_damaged_recording_is_not_made_smaller() {
    let recording = Recording::of(app("atomics"), &[]);
    let instance = recording.single();
    let replay = run(program("mneme-replay")).arg("-rdb").arg(&instance.database).args(["--touched"]);
    let touched = replay.args(["--device", TestDevice::under_test().name(), "default<O3>"]).outcome();
    let result = &touched.json()["Result"];
    assert!(result["touched"]["ranges"].as_array().is_some_and(|ranges| !ranges.is_empty()), "{touched}");
    touched.complains("of recorded memory the kernel reads");
    // Damages chunks of it: more than the headers between them, which exist twice.
    let packs = recording.folder().join("packs");
    let pack = std::fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path()).next().unwrap();
    let mut bytes = std::fs::read(&pack).unwrap();
    let (start, end) = (bytes.len() / 3, bytes.len() / 2);
    bytes[start..end].iter_mut().for_each(|byte| *byte ^= 0xff);
    std::fs::write(&pack, bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    let refused = minimize(&recording, &small);
    assert_ne!(refused.status, exit::VERIFIED, "{refused}");
    assert!(!small.exists() || load_kernels(&small).is_empty(), "{refused}");
}

/// More threads than were recorded write past the end of a buffer, or of its copied part.
#[test]
fn writes_behind_what_is_recorded_are_found() {
    let recording = Recording::of(app("unguarded"), &[]);
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    let said = minimize(&recording, &small);
    assert_eq!(said.status, exit::VERIFIED, "{said}");
    verified(&small);
    let of = |name: &str| {
        let (database, kernel) = recording.kernel(name);
        TestInstance::new(&database, kernel.instances.keys().next().unwrap())
    };
    let clear = of("clear");
    for instance in [&clear, &clear.moved_to(&small)] {
        instance.verify("default<O2>", &[]);
        instance.refute("default<O2>", &["--block-dim-x", "512"]);
    }
    // It reads and writes past the end of both buffers, and finds a non-zero value there.
    let twice = of("twice");
    for instance in [&twice, &twice.moved_to(&small)] {
        let beyond = instance.refute("default<O2>", &["--block-dim-x", "384", "--grid-dim-x", "27"]);
        assert_eq!(beyond["Result"]["mismatch"]["region"], "outside", "{beyond}");
    }
}
