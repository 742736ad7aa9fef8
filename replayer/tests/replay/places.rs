//! Tests of recorded addresses that are occupied in the replaying process.

use std::path::Path;
use std::process::Command;

use mneme_system::exit;

use crate::recording::{DATA, Recording};
use crate::{device, outcome, replay, serve_with, shaped};

/// A library that occupies the address of the recorded data in the first `MNEME_TEST_TAKEN` processes of a replay.
const SQUATTER: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
__attribute__((constructor)) static void take(void) {
    const char *attempt = getenv("MNEME_REPLAY_ATTEMPT"), *taken = getenv("MNEME_TEST_TAKEN");
    if (taken && (attempt ? atoi(attempt) : 1) <= atoi(taken))
        mmap((void *)ADDRESS, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}
"#;

fn squatter(folder: &Path) -> std::path::PathBuf {
    let (source, library) = (folder.join("squatter.c"), folder.join("squatter.so"));
    std::fs::write(&source, SQUATTER).unwrap();
    let address = format!("-DADDRESS={DATA:#x}");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", &address, "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(built.success());
    library
}

#[test]
fn a_process_in_which_they_are_free_takes_over() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let folder = tempfile::tempdir().unwrap();
    let library = squatter(folder.path());
    let run = |taken: &str| {
        replay(&recording, &["--device", device, "-v", "info"])
            .env("LD_PRELOAD", &library)
            .env("MNEME_TEST_TAKEN", taken)
            .output()
            .unwrap()
    };
    let output = run("2");
    outcome(&output, exit::VERIFIED);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("trying another process").count(), 2, "{said}");
    let output = run("1000");
    assert_eq!(output.status.code(), Some(exit::NO_DEVICE));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("cannot place the recording in memory: the address range {DATA:#x}")), "{said}");

    // A server's client sees no difference: the process that succeeds greets it.
    let environment = [("LD_PRELOAD", library.to_str().unwrap()), ("MNEME_TEST_TAKEN", "3")];
    let results = serve_with(&recording, &["--device", device], &[shaped(128, "default<O1>")], &environment);
    assert!(results.len() == 1 && results[0].verified, "{results:?}");
}
