//! Tests of recordings without IR whose memory holds addresses of the module.
//!
//! Objects hold addresses of tables of virtual functions, and memory holds pointers to functions. The CPU device loads the module of a replay at other addresses than that of the application.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::sources;
use mneme_e2e::command::run;
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_recording::database::KernelRecord;
use mneme_recording::manifest::{MemoryState, pair};
use mneme_system::exit;
use serde_json::{Value, json};

use crate::applying::Tuned;
use crate::nvcc::{PTX_90, build};

/// A program of nvcc, and its folder. `None` without nvcc or the CPU device.
fn built(name: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    if TestDevice::under_test() != TestDevice::Cpu {
        mneme_fixtures::skip(format_args!("{name} of nvcc needs the CPU device"));
        return None;
    }
    let nvcc = mneme_e2e::platform::nvcc(name)?;
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join(name);
    build(&nvcc, &sources().join(name).with_extension("cu"), &PTX_90, &binary);
    Some((folder, binary))
}

fn instance(recording: &Recording, kernel: &str) -> TestInstance {
    let (database, record) = recording.kernel(kernel);
    TestInstance::new(&database, record.instances.keys().next().unwrap())
}

/// The words of memory that held addresses of the recorded module.
fn mapped(result: &Value) -> u64 {
    result["Result"]["mapped_addresses"].as_u64().unwrap_or(0)
}

/// The tables refer to six functions, and each of the 300 objects refers to its table.
#[test]
fn virtual_functions_are_replayed_without_ir() {
    let Some((_folder, binary)) = built("virtual") else { return };
    let recording = Recording::of_executable(&binary, &[]);
    let [build, measure] = ["build", "measure"].map(|kernel| instance(&recording, kernel));
    for kernel in [&build, &measure] {
        for pipeline in ["default<O0>", "default<O3>"] {
            assert_eq!(mapped(&kernel.verify(pipeline, &[])), 6, "variables are at their recorded addresses");
        }
        kernel.replay("default<O3>").arg("--check").exit_with(exit::VERIFIED);
        kernel.verify("default<O3>", &["--fresh", "2"]);
    }
    assert_eq!(mapped(&build.verify("default<O3>", &["--original"])), 6);
    assert_eq!(mapped(&measure.verify("default<O3>", &["--original"])), 306);

    let tuned = tempfile::tempdir().unwrap();
    let results = tuned.path().join("results");
    let tune = run(program("mneme-tune")).args(["-rdb".as_ref(), measure.database.as_os_str()]);
    let tune = tune.args(["--device", "cpu", "--trials", "4", "--finalists", "1", "--confirm-time", "1"]);
    tune.arg("--results-dir").arg(&results).succeed();
    assert!(results.join("best.json").exists());
}

/// Objects of the application refer to its own tables, which refer to its own functions.
#[test]
fn winners_for_kernels_with_tables_are_not_applied() {
    let Some((_folder, binary)) = built("virtual") else { return };
    let recording = Recording::of_executable(&binary, &[]);
    for kernel in ["build", "measure"] {
        let changes = json!({"passes": "default<O2>"});
        let tuned = Tuned::new().with(kernel, &instance(&recording, kernel), changes, json!({}));
        let (outcome, kernel) = tuned.run(&binary, &[], kernel);
        assert!(outcome.stdout.contains("virtual: ok") && kernel["applied"].is_null(), "{outcome}");
        outcome.complains("uses variables of its module (_ZTV");
    }
}

/// Exchanges two variables in an instance: what is recorded of one is said of the other.
fn exchange(instance: &TestInstance, names: [&str; 2]) {
    let record = KernelRecord::load(&instance.database).unwrap();
    let folder = instance.database.parent().unwrap();
    let files = &record.instances[&instance.id];
    let paths = [&files.prologue, &files.epilogue].map(|file| folder.join(file));
    let [mut prologue, mut epilogue] = paths.each_ref().map(|path: &PathBuf| MemoryState::load(path).unwrap());
    for state in [&mut prologue, &mut epilogue] {
        let places = names.map(|name| state.header.variables.iter().position(|it| it.name == name).unwrap());
        for (place, name) in places.into_iter().zip([names[1], names[0]]) {
            name.clone_into(&mut state.header.variables[place].name);
        }
    }
    pair(&mut prologue, &mut epilogue);
    let save = |(state, path): (&MemoryState, &Path)| state.save(path).unwrap();
    [(&prologue, paths[0].as_path()), (&epilogue, paths[1].as_path())].into_iter().for_each(save);
}

#[test]
fn copied_pointers_to_functions_lead_to_the_replayed_functions() {
    let Some((_folder, binary)) = built("dispatch") else { return };
    let recording = Recording::of_executable(&binary, &[]);
    let dispatch = instance(&recording, "dispatch");
    // Four in initial values, two in a variable, and two in allocated memory.
    for options in [&[][..], &["--original"], &["--fresh", "2"], &["--specialize"]] {
        assert_eq!(mapped(&dispatch.verify("default<O3>", options)), 8, "{options:?}");
    }
    dispatch.replay("default<O3>").arg("--check").exit_with(exit::VERIFIED);

    exchange(&dispatch, ["negated", "doubled"]);
    for options in [&[][..], &["--original"]] {
        dispatch.refute("default<O3>", options);
    }
}

/// The recorded address of a function is where the variable had it when the module was loaded.
#[test]
fn changed_pointers_to_functions_are_refused_by_name() {
    let Some((_folder, binary)) = built("dispatch") else { return };
    let recording = Recording::of_executable(&binary, &["300", "changed"]);
    let outcome = instance(&recording, "dispatch").replay("default<O3>").outcome();
    let result = &outcome.json()["Result"];
    assert_eq!(result["status"], "invalid_launch", "{outcome}");
    assert!(result["error"].as_str().unwrap().contains("changed a pointer to a function in"), "{outcome}");
}
