//! Tests of replays on AMD GPUs, with a library in HIP's place (`tests/stand-in`).

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_core::{exit, install};

use crate::recording::Recording;
use crate::{outcome, program, replay, serve_with, shaped};

/// The stand-in; `None`, said on standard output, where it is not built.
fn stand_in() -> Option<PathBuf> {
    let found = install::locate("libmneme_stand_in.so");
    if found.is_none() {
        println!("skipped: the stand-in for libamdhip64 is not built; 'cargo build --workspace' builds it");
    }
    found
}

/// What lets a replay take the stand-in for HIP. Its first mistake ends the process that makes it.
fn environment(library: &Path) -> [(&str, &str); 2] {
    [("MNEME_HIP_LIBRARY", library.to_str().unwrap()), ("MNEME_STAND_IN", "1")]
}

fn on_amd(recording: &Recording, library: &Path, options: &[&str]) -> Command {
    let mut command = replay(recording, options);
    command.envs(environment(library));
    command
}

#[test]
fn a_recording_of_an_amd_gpu_is_replayed_on_one() {
    let Some(library) = stand_in() else { return };
    let recording = Recording::make_amd();
    for options in [&[][..], &["--device", "hip"], &["--device", "0"], &["default<O3>"], &["--isolation", "none"]] {
        let json = outcome(&on_amd(&recording, &library, options).output().unwrap(), exit::VERIFIED);
        assert_eq!(json["Result"]["environment"]["arch"], "gfx90a:sramecc+:xnack-", "{options:?}: {json}");
    }
    // A launch that leaves out the end is told by the element.
    let short = on_amd(&recording, &library, &["-gidx", "10"]).output().unwrap();
    let said = String::from_utf8_lossy(&short.stdout) + String::from_utf8_lossy(&short.stderr);
    assert_eq!(short.status.code(), Some(exit::NOT_VERIFIED), "{said}");
}

#[test]
fn many_configurations_share_the_gpu() {
    let Some(library) = stand_in() else { return };
    let mut shapes = [64, 128, 256, 1024].map(|threads| shaped(threads, "default<O2>"));
    shapes[1].specialize_dims = true;
    let results = serve_with(&Recording::make_amd(), &["--device", "hip"], &shapes, &environment(&library));
    assert!(results.iter().all(|result| result.verified), "{results:?}");
}

#[test]
fn code_for_another_vendor_is_refused_with_the_remedy() {
    for (recording, device, remedy) in [
        (Recording::make_amd(), "cuda", "use --device hip or cpu"),
        (Recording::make(), "hip", "use --device cuda or cpu"),
    ] {
        let mut command = Command::new(program());
        let output = command.arg("-rdb").arg(recording.database()).args(["--device", device]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(exit::BAD_USAGE) && said.contains(remedy), "{said}");
    }
    let output = replay(&Recording::make_amd(), &["--device", "hip", "--timer", "cupti"]).output().unwrap();
    assert_eq!(output.status.code(), Some(exit::BAD_USAGE));
}
