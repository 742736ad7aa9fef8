//! Tests of kernels that use textures and surfaces.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::app;
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance, copy_of, is_named, load_kernels, unrecorded};
use mneme_model::images::ImageResource;
use mneme_recording::Moments;
use mneme_recording::manifest::{AllocationKind, MemoryState};
use mneme_system::exit;
use serde_json::{Value, json};

use crate::applying::{Tuned, counts, of};

fn of_kernel(recording: &Recording, name: &str) -> TestInstance {
    let kernels = recording.kernels();
    let (database, kernel) = kernels.iter().find(|(_, kernel)| is_named(kernel, name)).expect("it was recorded");
    TestInstance::new(database, kernel.instances.keys().next().expect("an instance"))
}

fn prologue(instance: &TestInstance) -> (PathBuf, MemoryState) {
    let record = mneme_recording::database::KernelRecord::load(&instance.database).unwrap();
    let folder = instance.database.parent().unwrap();
    let moments = Moments::open(folder, &record, &record.instances[&instance.id]).unwrap();
    (folder.join(&record.instances[&instance.id].prologue), moments.prologue)
}

fn mneme(subcommand: &str, of: &Path) -> Run {
    run(program("mneme")).arg(subcommand).arg(of)
}

/// All formats, address modes, layers and cubes, memory as textures, and surfaces.
#[test]
fn textures_and_surfaces_are_recorded() {
    let plain = unrecorded(app("textures")).succeed();
    let recording = Recording::of(app("textures"), &[]);
    assert_eq!(recording.outcome.stdout, plain.stdout);
    let kernels = recording.kernels();
    let names = ["sample", "change_plane", "read_planes", "change_others", "total"];
    assert!(kernels.len() == 5 && names.iter().all(|name| kernels.iter().any(|(_, kernel)| is_named(kernel, name))));
    for (database, kernel) in &kernels {
        for id in kernel.instances.keys() {
            TestInstance::new(database, id).verify("default<O3>", &[]);
        }
    }
}

#[test]
fn the_texels_before_and_after_the_launch_are_recorded() {
    let recording = Recording::of(app("surfaces"), &["2"]);
    let instance = of_kernel(&recording, "blur");
    let (_, before) = prologue(&instance);
    let images = &before.header.images;
    // Those of the picture, the linear and the pitched memory, and of the surface. The texture whose array is gone is
    // none of them.
    assert_eq!((images.arrays.len(), images.objects.len()), (2, 4), "{images:?}");
    assert!(images.objects.is_sorted_by_key(|object| object.handle), "{images:?}");
    let surfaces: Vec<_> = images.objects.iter().filter(|object| object.texture.is_none()).collect();
    assert!(matches!(surfaces[..], [it] if matches!(it.resource, ImageResource::Array(_))), "{images:?}");
    let arrays = before.header.allocations.iter().filter(|it| it.kind == AllocationKind::Array);
    assert_eq!(arrays.map(|it| it.size).collect::<Vec<_>>(), [40 * 24 * 4; 2]);

    // A candidate that leaves out the last row is wrong there.
    let json = instance.refute("default<O3>", &["--grid-dim-y", "23"]);
    let mismatch = &json["Result"]["mismatch"];
    assert_eq!((&mismatch["dtype"], &mismatch["texel"]), (&json!("f32"), &json!([0, 23, 0])), "{json}");
    assert!(mismatch["tag"].as_str().is_some_and(|tag| tag.starts_with("array")), "{json}");
    let elsewhere = ["--tolerance", "tag:array1=ignore", "--tolerance", "tag:array2=ignore", "--grid-dim-y", "23"];
    assert_ne!(instance.replay("default<O3>").args(elsewhere).outcome().status, exit::NOT_VERIFIED);

    let shown = mneme("show", recording.folder()).succeed().stdout;
    for text in ["array1", "array2", "40 x 24 of 1 f32", "texture", "surface", "12 bytes at 0x"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let json: Value = serde_json::from_str(&mneme("show", recording.folder()).arg("--json").succeed().stdout).unwrap();
    assert!(json.as_array().unwrap().iter().all(|it| it["instances"][0]["images"]["arrays"].is_array()), "{json}");
}

#[test]
fn damaged_images_are_refused() {
    let recording = Recording::of(app("surfaces"), &[]);
    let original = of_kernel(&recording, "gather");
    let damages: [fn(&mut MemoryState); 4] = [
        |state| state.header.images.arrays[0].width += 1,
        |state| state.header.images.objects[0].handle = 5000,
        |state| state.header.images.objects[0].resource = ImageResource::Array(7),
        |state| state.header.images.arrays[0].texel.format = 0x99,
    ];
    for damage in damages {
        let copy = copy_of(recording.folder());
        let instance = original.moved_to(copy.path());
        let (path, mut state) = prologue(&instance);
        damage(&mut state);
        state.save(&path).unwrap();
        instance.replay("default<O3>").exit_with(exit::BAD_RECORDING);
        mneme("fsck", copy.path()).exit_with(exit::BAD_RECORDING);
    }
}

#[test]
fn kernels_with_textures_are_tuned_and_applied() {
    let recording = Recording::of(app("surfaces"), &["2"]);
    let instance = of_kernel(&recording, "blur");
    let results = tempfile::tempdir().unwrap();
    let tuned = run(program("mneme-tune"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", TestDevice::under_test().name(), "--sampler", "exhaustive", "--space-preset", "launch"])
        .args(["--launch-dim", "x", "--iterations", "2", "--warmup", "1", "--finalists", "0", "--results-dir"])
        .arg(results.path().join("blur"))
        .args(["--passes", "default<O1>", "default<O3>"])
        .succeed();
    assert!(tuned.stdout.contains("BEST: "), "{tuned}");

    let tuned = Tuned::new().with("blur", &instance, json!({"passes": "default<O2>"}), json!({}));
    let plain = unrecorded(app("surfaces")).args(["2"]).succeed();
    let (outcome, kernel) = tuned.run(&of("surfaces"), &["2"], "blur");
    assert_eq!(outcome.stdout, plain.stdout);
    assert_eq!(counts(&kernel)[..2], [2, 2], "{outcome}");
}

#[test]
fn a_minimised_recording_keeps_texels() {
    let recording = Recording::of(app("surfaces"), &[]);
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    mneme("minimize", recording.folder()).arg(&small).args(["--device", TestDevice::under_test().name()]).succeed();
    for (database, kernel) in load_kernels(&small) {
        for id in kernel.instances.keys() {
            TestInstance::new(&database, id).verify("default<O3>", &[]);
        }
    }
    let exported = folder.path().join("exported");
    let existing = mneme("copy", recording.folder()).arg(&exported).args(["--epilogue-format", "bytes"]).outcome();
    assert_eq!(existing.status, exit::BAD_RECORDING, "{existing}");
    existing.complains("texture or surface objects");
}
