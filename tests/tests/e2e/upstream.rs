//! Tests of recordings in the file format of the existing Mneme.
//!
//! The tests write, list, show, replay and tune them. Damaged files are reported by name.

use std::fs;
use std::path::{Path, PathBuf};

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{Run, run};
use mneme_e2e::damage::state_paths;
use mneme_e2e::hip;
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::recording::{
    PIPELINES, Recording, TestInstance, copy_of, load_kernels, record_executable_into, record_into,
};
use mneme_recording::database::{InstanceDetails, KernelDetails, KernelRecord};
use mneme_recording::upstream::layout::{FileLayout, SnapshotKind};
use mneme_system::exit;

const FLOATS: [&str; 4] = ["--rtol", "1e-5", "--atol", "1e-6"];

fn mneme(command: &str) -> Run {
    run(program("mneme")).arg(command)
}

/// Records in the file format of the existing Mneme.
#[track_caller]
fn record_as(format: &str, name: &str, arguments: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    record_into(folder.path(), app(name), arguments).env("MNEME_EPILOGUE_TYPE", format).succeed();
    folder
}

#[track_caller]
fn single(folder: &Path) -> TestInstance {
    let kernels = load_kernels(folder);
    assert_eq!(kernels.len(), 1);
    assert_eq!(kernels[0].1.instances.len(), 1);
    TestInstance::new(&kernels[0].0, kernels[0].1.instances.keys().next().unwrap())
}

/// Keeps only the parts that the existing Mneme writes.
fn forget_what_is_ours(database: &Path) {
    let mut record = KernelRecord::load(database).unwrap();
    record.ours = KernelDetails::default();
    record.instances.values_mut().for_each(|instance| instance.ours = InstanceDetails::default());
    record.save(database).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(database).unwrap()).unwrap();
    json.as_object_mut().unwrap().remove("Mneme");
    json["instances"].as_object_mut().unwrap().values_mut().for_each(|instance| {
        instance.as_object_mut().unwrap().remove("Mneme");
    });
    fs::write(database, json.to_string()).unwrap();
}

fn layout(path: &Path) -> FileLayout {
    FileLayout::parse(&fs::read(path).unwrap()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn both_kinds_of_epilogue_are_written_listed_and_replayed() {
    for (format, kind) in [("bytes", SnapshotKind::Bytes), ("diff", SnapshotKind::Diff)] {
        let folder = record_as(format, "vecadd", &[]);
        let instance = single(folder.path());
        let (prologue, epilogue) = state_paths(&instance);
        assert_eq!((layout(&prologue).kind, layout(&epilogue).kind), (SnapshotKind::Bytes, kind));
        // The application's own code is one file, or two if there is PTX of it.
        let names = names(folder.path());
        let others = names.iter().filter(|name| !name.starts_with("RecordedOriginal"));
        assert_eq!(others.count(), 5, "a lock, a database, its IR, two snapshots: {names:?}");
        for blob in layout(&prologue).blobs {
            assert!(
                blob.address.is_multiple_of(2 << 20) && blob.reserved.is_multiple_of(2 << 20),
                "it maps whole pages: {blob:?}"
            );
        }
        // The existing Mneme maps all of it at once before a replay.
        let blobs = layout(&prologue).blobs;
        let start = blobs.iter().map(|blob| blob.address).min().unwrap();
        let end = blobs.iter().map(|blob| blob.address + blob.reserved).max().unwrap();
        let record = KernelRecord::load(&instance.database).unwrap();
        assert_eq!((record.arena_address, record.arena_size), (format!("{start:#018x}"), end - start));
        instance.verify("default<O3>", &[]);
        let good = fs::read(&epilogue).unwrap();
        let written = layout(&epilogue).blobs[0].stretches[0].bytes.start;
        let mut wrong = good.clone();
        wrong[written] ^= 1;
        fs::write(&epilogue, wrong).unwrap();
        instance.refute("default<O3>", &[]);
        fs::write(&epilogue, good).unwrap();
        for stripped in [false, true] {
            if stripped {
                forget_what_is_ours(&instance.database);
                instance.verify("default<O2>", &[]);
            }
            let listed = mneme("ls").arg(folder.path()).arg("--json").succeed().json();
            assert_eq!(listed[0]["instances"][0]["memory_bytes"], 640_000, "{listed}");
            let shown = mneme("show").arg(folder.path()).arg("--json").succeed().json();
            assert!(shown[0]["instances"][0]["changed_bytes"].as_u64() > Some(0), "{shown}");
            assert_eq!(shown[0]["instances"][0]["arguments"].as_array().map(Vec::len), Some(3), "{shown}");
            mneme("check").arg(folder.path()).succeed();
        }
    }
}

/// Parameters of several sizes, structures by value, variables, constants, and pointers in memory.
#[test]
fn what_only_the_ir_tells_is_taken_from_there() {
    for (name, arguments) in [("saxpy", &["1000"][..]), ("bigstruct", &[]), ("globals", &[]), ("list", &[])] {
        let folder = record_as("best", name, arguments);
        for (database, kernel) in load_kernels(folder.path()) {
            forget_what_is_ours(&database);
            for id in kernel.instances.keys() {
                TestInstance::new(&database, id).verify("default<O3>", &FLOATS);
            }
        }
    }
}

#[test]
fn an_existing_recording_is_converted_copied_and_removed() {
    let recording = Recording::of(app("vecadd"), &[]);
    let target = tempfile::tempdir().unwrap();
    mneme("copy").args(["--epilogue-format", "diff"]).args([recording.folder(), target.path()]).succeed();
    single(target.path()).verify("default<O3>", &[]);
    let copy = tempfile::tempdir().unwrap();
    mneme("copy").args([target.path(), copy.path()]).succeed();
    // Poison maps are not copied. The first replay of a copy recreates them.
    let recorded = names(target.path()).into_iter().filter(|name| !name.ends_with(".poison"));
    assert_eq!(names(copy.path()), recorded.collect::<Vec<_>>());
    single(copy.path()).verify("default<O3>", &[]);
    mneme("clean").arg(copy.path()).succeed();
    assert!(names(copy.path()).is_empty(), "{:?}", names(copy.path()));
}

#[test]
fn cut_and_wrong_files_are_one_sentence() {
    let folder = record_as("diff", "vecadd", &[]);
    let (prologue, epilogue) = state_paths(&single(folder.path()));
    let file = |path: &PathBuf| path.file_name().unwrap().to_owned();
    type Damage = fn(&mut Vec<u8>);
    let cut: Damage = |bytes| bytes.truncate(bytes.len() / 2);
    let longer: Damage = |bytes| bytes.push(0);
    let newer: Damage = |bytes| bytes.splice(..0, *b"MNEMESNP\x01\0\0\0\x07\0\0\0").for_each(drop);
    let garbage: Damage = |bytes| bytes.fill(0xa5);
    let empty: Damage = Vec::clear;
    for name in [file(&prologue), file(&epilogue)] {
        for damage in [cut, longer, newer, garbage, empty] {
            let copy = copy_of(folder.path());
            let path = copy.path().join(&name);
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            let outcome = single(copy.path()).replay("default<O3>").exit_with(exit::BAD_RECORDING);
            assert_eq!(outcome.stderr.trim_end().lines().count(), 1, "{outcome}");
            outcome.complains(name.to_str().unwrap());
            mneme("show").arg(copy.path()).exit_with(exit::BAD_RECORDING);
        }
    }
}

/// For a HIP program, only the IR identifies the target.
#[test]
fn a_recording_of_an_amd_gpu_is_read_and_replayed() {
    for name in ["vecadd", "saxpy", "reduce", "bigstruct", "globals", "dims", "waves"] {
        if !hip::can_run("a_recording_of_an_amd_gpu_is_read_and_replayed") {
            return;
        }
        let recording = Recording::by(|folder| record_executable_into(folder, &hip::executable(hip::app(name)), &[]));
        let target = tempfile::tempdir().unwrap();
        mneme("copy").args(["--epilogue-format", "diff"]).args([recording.folder(), target.path()]).succeed();
        for (database, kernel) in load_kernels(target.path()) {
            forget_what_is_ours(&database);
            let stripped = KernelRecord::load(&database).unwrap();
            assert_eq!((stripped.ours.ir_arch.as_str(), stripped.ours.device_arch.as_str()), ("", ""));
            let bitcode = fs::read(target.path().join(&stripped.modules[0])).unwrap();
            assert_eq!(mneme_image::bitcode::triple(&bitcode).as_deref(), Some("amdgcn-amd-amdhsa"));
            for id in kernel.instances.keys() {
                let instance = TestInstance::new(&database, id);
                for passes in PIPELINES {
                    instance.verify(passes, &FLOATS);
                }
                let on_nvidia = run(program("mneme-replay")).arg("-rdb").arg(&database);
                let refused = on_nvidia.args(["-rid", id, "--device", "cuda"]).exit_with(exit::BAD_USAGE);
                refused.complains("--device cuda cannot run the recorded code, which is for AMD's GPUs");
            }
        }
        mneme("check").arg(target.path()).succeed();
        let shown = mneme("show").arg(target.path()).arg("--json").succeed().json();
        assert!(shown[0]["instances"][0]["changed_bytes"].as_u64() > Some(0), "{shown}");
    }
}

#[test]
fn its_command_lines_do_the_same_here() {
    let folder = tempfile::tempdir().unwrap();
    let record = |options: &[&str]| {
        let options =
            [&["-v", "warn", "record", "-vass", "64", "--per-kernel-max-recordings", "2"][..], options].concat();
        run(program("mneme"))
            .args(options)
            .args(["--record-db-dir".as_ref(), folder.path().as_os_str(), "--".as_ref()])
            .arg(executable(app("vecadd"), Cudart::under_test()))
            .env("MNEME_DEVICE", TestDevice::under_test().name())
            .env("OMPI_COMM_WORLD_RANK", "1")
            .succeed()
    };
    for options in [&[][..], &["-rr", "0,2"], &["-rr", "1", "--per-kernel-skip-recordings", "1"]] {
        record(options);
        assert!(load_kernels(folder.path()).is_empty(), "{options:?}");
    }
    record(&["--record-ranks", "0,1", "--per-kernel-skip-recordings", "0"]);
    let (database, kernel) = load_kernels(folder.path()).remove(0);
    let id = kernel.instances.keys().next().unwrap();
    let off = ["--no-specialize", "--no-specialize-dims", "--no-set-launch-bounds", "-it", "2"];
    let replay = run(program("mneme")).args(["-v", "info", "replay", "-record-id", id, "-rdb"]).arg(&database);
    let found = replay.args(off).arg("default<O3>").succeed().json();
    assert_eq!(found["Result"]["verified"], true, "{found}");
    assert_eq!(found["Replay-config"]["specialize"], false, "{found}");
}
