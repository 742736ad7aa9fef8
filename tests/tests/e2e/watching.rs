//! Tests of `mneme record` and `mneme profile` around an application.
//!
//! They check the commands' choices, messages and statuses.

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::recording::{Recording, load_kernels, record_into, unrecorded};
use mneme_recording::rules::Rules;
use mneme_system::exit;

fn mneme(arguments: &[&str]) -> Run {
    run(program("mneme")).args(arguments).env("MNEME_DEVICE", TestDevice::under_test().name())
}

#[test]
fn a_profile_ranks_kernels_and_records_none() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("profile.json");
    let stencil = executable(app("stencil"), Cudart::under_test());
    let outcome =
        mneme(&["profile", "--json", json.to_str().unwrap(), "--"]).arg(stencil).folder(folder.path()).succeed();
    outcome.complains("SHARE");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let kernel = &report["kernels"][0];
    assert!(kernel["launches"].as_u64() > Some(1), "{report:#}");
    assert_eq!(kernel["gpu_time"]["count"], kernel["launches"], "every one of few launches is timed: {report:#}");
    assert!(kernel["gpu_time"]["min"].as_u64() <= kernel["gpu_time"]["max"].as_u64());
    assert_ne!(report["device"], "", "the device is known, though the driver has ended when this is written");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is recorded");
}

#[test]
fn a_profile_has_every_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("profile.json");
    let plain = unrecorded(app("textures")).succeed();
    let textures = executable(app("textures"), Cudart::under_test());
    let outcome = mneme(&["profile", "--json", json.to_str().unwrap(), "--"]).arg(textures).succeed();
    assert_eq!(outcome.stdout, plain.stdout);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let kernels: Vec<&str> =
        report["kernels"].as_array().unwrap().iter().filter_map(|it| it["kernel"].as_str()).collect();
    assert!(kernels.iter().any(|name| name.starts_with("sample(")) && kernels.len() == 5, "{report:#}");
}

#[test]
fn a_dry_run_lists_kernels_and_records_none() {
    let folder = tempfile::tempdir().unwrap();
    let streams = executable(app("streams"), Cudart::under_test());
    let outcome =
        mneme(&["record", "--dry-run", "--kernels", "tri.*", "--"]).arg(streams).folder(folder.path()).succeed();
    outcome.complains("triangles(");
    outcome.complains("dry run");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is recorded");
}

#[test]
fn the_table_is_there_as_json_too() {
    let folder = tempfile::tempdir().unwrap();
    let saxpy = executable(app("saxpy"), Cudart::under_test());
    let json = folder.path().join("table.json");
    let recording = folder.path().join("recording");
    let options = ["record", "-rdb", recording.to_str().unwrap(), "--json", json.to_str().unwrap(), "--"];
    mneme(&options).arg(saxpy).arg("1000").succeed().complains("INSTANCES");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let kernel = &report["kernels"][0];
    assert_eq!((&report["exit_status"], &kernel["instances"]), (&0.into(), &1.into()), "{report:#}");
    assert!(kernel["disk_bytes"].as_u64() > Some(0) && kernel["memory_bytes"].as_u64() >= Some(8000), "{report:#}");
}

#[test]
fn the_environment_names_the_folder_too() {
    let folder = tempfile::tempdir().unwrap();
    let saxpy = executable(app("saxpy"), Cudart::under_test());
    mneme(&["record", "--"]).arg(saxpy).arg("1000").folder(folder.path()).env("MNEME_DATA_DIR", "elsewhere").succeed();
    assert!(folder.path().join("elsewhere").is_dir() && !folder.path().join("recording").exists());
}

#[test]
fn every_second_launch() {
    let folder = tempfile::tempdir().unwrap();
    record_into(folder.path(), app("stencil"), &[]).env("MNEME_SAMPLE", "2").succeed();
    assert_eq!(load_kernels(folder.path())[0].1.instances.len(), 1);
}

#[test]
fn a_recording_that_fails_shows_in_the_status() {
    // A file in place of the packs' folder: nobody can write there, not even root.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("packs"), "").unwrap();
    record_into(folder.path(), app("saxpy"), &["1000"]).exit_with(exit::NOT_RECORDED).complains("not recorded");
}

#[test]
fn what_cannot_be_recorded_shows_in_the_status_on_request() {
    let graphs = executable(app("graphs"), Cudart::under_test());
    for (strict, status) in [(&[][..], 0), (&["--strict"][..], exit::NOT_RECORDED)] {
        let folder = tempfile::tempdir().unwrap();
        let record = mneme(&["record", "-rdb", folder.path().to_str().unwrap()]).args(strict).arg("--").arg(&graphs);
        record.env("MNEME_GRAPHS", "whole").exit_with(status).complains("not recorded: inside a stream capture");
    }
}

#[test]
fn a_program_without_kernels_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    mneme(&["record", "-rdb", folder.path().to_str().unwrap(), "--", "true"])
        .succeed()
        .complains("launched no GPU kernel");
}

#[test]
fn nonsense_is_refused_before_the_application_starts() {
    for (name, value) in
        [("MNEME_LOG_LEVEL", "loud"), ("MNEME_COMPRESSION_LEVEL", "99"), ("MNEME_RECORD_RANKS", "some")]
    {
        let outcome =
            mneme(&["record", "-rdb", "/tmp", "--", "echo", "started"]).env(name, value).exit_with(exit::BAD_USAGE);
        assert_eq!(outcome.stdout, "", "{outcome}");
        outcome.complains(name);
    }
}

#[test]
fn rules_are_set_listed_and_removed() {
    let recording = Recording::of(app("saxpy"), &["1000"]);
    let (path, _) = recording.kernel("saxpy");
    let database = path.to_str().unwrap();
    mneme(&["annotate", database, "--argument", "3", "--dtype", "f32", "--relative", "1e-6"]).succeed();
    assert_eq!(Rules::load(&path).unwrap().rules.len(), 1);
    let listed = mneme(&["annotate", database]).succeed();
    assert!(listed.stdout.contains("argument 3: f32 within 1e-6 (relative)"), "{listed}");
    mneme(&["annotate", database, "--argument", "3"]).exit_with(exit::BAD_USAGE);
    mneme(&["annotate", database, "--argument", "3", "--remove"]).succeed();
    assert!(Rules::load(&path).unwrap().rules.is_empty());
    for target in [["--argument", "77"], ["--variable", "nothing"], ["--tag", "nothing"], ["--address", "0x10"]] {
        let [option, name] = target;
        mneme(&["annotate", database, option, name, "--ignore"])
            .exit_with(exit::BAD_USAGE)
            .complains("matches no recorded memory");
    }
    assert!(Rules::load(&path).unwrap().rules.is_empty());
    mneme(&["clean", recording.folder().to_str().unwrap()]).succeed();
    assert_eq!(std::fs::read_dir(recording.folder()).unwrap().count(), 0, "a cleaned folder is empty");
}
