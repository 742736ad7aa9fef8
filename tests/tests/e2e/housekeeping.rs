//! Tests of `mneme ls`, `show`, `clean`, `copy` and `move`.
//!
//! Their output is correct, and the remaining recordings replay.

use std::fs;
use std::path::Path;

use mneme_e2e::apps::app;
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::program;
use mneme_e2e::recording::{Recording, TestInstance, load_kernels, record_into};
use mneme_system::exit;

fn mneme(command: &str) -> Run {
    run(program("mneme")).arg(command)
}

/// A recording of several programs.
fn several() -> Recording {
    let recording = Recording::of(app("stencil"), &[]);
    record_into(recording.folder(), app("saxpy"), &["1000"]).succeed();
    record_into(recording.folder(), app("streams"), &["1000"]).succeed();
    recording
}

/// Verifies every instance in a folder, and returns their number.
#[track_caller]
fn verify_all(folder: &Path) -> usize {
    let mut count = 0;
    for (database, kernel) in load_kernels(folder) {
        for id in kernel.instances.keys() {
            TestInstance::new(&database, id).verify("default<O3>", &["--rtol", "1e-5", "--atol", "1e-6"]);
            count += 1;
        }
    }
    count
}

#[test]
fn ls_and_show_know_every_instance() {
    let recording = several();
    let ls = mneme("ls").arg(recording.folder()).succeed();
    let listed = mneme("ls").arg(recording.folder()).arg("--json").succeed().json();
    assert_eq!(listed.as_array().map(Vec::len), Some(5), "{listed}");
    for (database, kernel) in recording.kernels() {
        let show = mneme("show").arg(&database).succeed();
        for name in [&kernel.demangled_name, &kernel.static_hash.to_string()] {
            assert!(ls.stdout.contains(name.as_str()) || name.len() > 40, "{name} is missing: {ls}");
            assert!(show.stdout.contains(name.as_str()), "{name} is missing: {show}");
        }
        for id in kernel.instances.keys() {
            assert!(ls.stdout.contains(id) && show.stdout.contains(id), "{id} is missing: {ls}{show}");
        }
    }
    mneme("ls").arg(recording.folder().join("nowhere")).exit_with(exit::NO_INPUT).complains("nowhere");
}

#[test]
fn show_tells_what_the_kernel_changed() {
    let recording = Recording::of(app("saxpy"), &["1000"]);
    let shown = mneme("show").arg(recording.folder()).arg("--json").succeed().json();
    let instance = &shown[0]["instances"][0];
    assert_eq!(instance["arguments"].as_array().map(Vec::len), Some(6), "{shown}");
    assert_eq!(instance["arguments"][1]["value"], "2.5", "{shown}");
    let changed = instance["changed_bytes"].as_u64().unwrap();
    assert!((1..=4000).contains(&changed), "saxpy writes 1000 floats: {shown}");
}

#[test]
fn clean_keeps_what_others_use() {
    let recording = several();
    let (database, kernel) = recording.kernel("stencil");
    let first = kernel.instances.keys().next().unwrap();
    mneme("clean").arg(&database).args(["-rid", first]).succeed();
    assert_eq!(verify_all(recording.folder()), 5);
    TestInstance::new(&database, first).replay("default<O3>").exit_with(exit::BAD_USAGE);

    mneme("clean").arg(&database).succeed();
    assert!(!database.exists());
    assert_eq!(verify_all(recording.folder()), 4);

    mneme("clean").arg(recording.folder()).succeed();
    let left: Vec<_> = files(recording.folder());
    assert!(left.is_empty(), "{left:?} is left");
}

#[test]
fn a_copy_carries_what_it_needs_and_no_more() {
    let recording = several();
    let target = tempfile::tempdir().unwrap();
    let (database, _) = recording.kernel("saxpy");
    mneme("copy").args([&database, target.path()]).succeed();
    assert_eq!(verify_all(target.path()), 1);
    assert_eq!(verify_all(recording.folder()), 6);
    assert!(size(target.path()) < size(recording.folder()), "one kernel of five is smaller than all");

    let everything = tempfile::tempdir().unwrap();
    mneme("copy").args([recording.folder(), everything.path()]).succeed();
    assert_eq!(verify_all(everything.path()), 6);

    for verb in ["copy", "move"] {
        mneme(verb).args([&database, recording.folder()]).exit_with(exit::BAD_USAGE).complains("name another folder");
    }
}

#[test]
fn what_was_moved_is_there_and_nowhere_else() {
    let recording = several();
    let target = tempfile::tempdir().unwrap();
    let (database, kernel) = recording.kernel("stencil");
    let first = kernel.instances.keys().next().unwrap();
    mneme("move").arg(&database).args(["-rid", first]).arg(target.path()).succeed();
    assert_eq!((verify_all(target.path()), verify_all(recording.folder())), (1, 5));
    mneme("move").args([recording.folder(), target.path()]).succeed();
    assert_eq!((verify_all(target.path()), load_kernels(recording.folder()).len()), (6, 0));
}

/// Visible files in all folders.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
            found.push(path);
        }
    }
    found
}

fn size(folder: &Path) -> u64 {
    files(folder).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}
