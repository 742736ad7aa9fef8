//! Tests of devices that misbehave.
//!
//! A library replaces the CPU device, and differs from it in one function.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mneme_model::protocol::Reply;
use mneme_system::{exit, install};
use serde_json::json;

use crate::engine::{Server, shape};
use crate::recording::Recording;
use crate::{PATIENCE, device, replay};

/// Creating a context fails while the file `full` exists; `full.tried` shows that one was requested.
const FULL: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuDevicePrimaryCtxRetain(void **context, int device) {
    const char *full = getenv("MNEME_TEST_FULL");
    char tried[4096];
    if (access(full, F_OK) == 0) {
        snprintf(tried, sizeof tried, "%s.tried", full);
        close(open(tried, O_CREAT | O_WRONLY, 0600));
        return 2;
    }
    return ((int (*)(void **, int))dlsym(RTLD_NEXT, "cuDevicePrimaryCtxRetain"))(context, device);
}
"#;

/// Device 1 has an older architecture, and code is loaded only after that is known.
const TWO_ARCHITECTURES: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (device == 1 && attribute == 75) {
        *value = 8;
        return 0;
    }
    return ((int (*)(int *, int, int))dlsym(RTLD_NEXT, "cuDeviceGetAttribute"))(value, attribute, device);
}
int cuModuleLoadData(void **module, const void *image) {
    sleep(10);
    return 1;
}
"#;

/// Builds such a library.
fn stand_in(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, library) = (folder.join("stand-in.c"), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let real = install::locate(install::CPU_DEVICE).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"])
        .arg(&library)
        .arg(&file)
        .arg(std::path::absolute(real).unwrap());
    assert!(compiler.status().unwrap().success());
    library
}

#[test]
fn a_standby_that_cannot_be_changes_nothing() {
    if device() != Some("cpu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    stand_in(folder.path(), install::CPU_DEVICE, FULL);
    let (full, tried) = (folder.path().join("full"), folder.path().join("full.tried"));
    let environment = [("MNEME_HOME", folder.path().to_str().unwrap()), ("MNEME_TEST_FULL", full.to_str().unwrap())];
    let mut server = Server::start_with(&Recording::make(), &["--device", "cpu"], &environment);
    // The server has greeted, so its first context exists.
    std::fs::write(&full, "").unwrap();
    server.say(&json!({"type": "submit", "id": 1}));
    assert!(server.result(1).verified);
    // After some work, a standby executor exists.
    let start = Instant::now();
    while !tried.exists() {
        assert!(start.elapsed() < PATIENCE, "nobody stands by");
        server.say(&json!({"type": "statistics"}));
        assert!(matches!(server.reply(), Reply::Statistics(_)));
        std::thread::sleep(Duration::from_millis(20));
    }
    server.say(&json!({"type": "submit", "id": 2, "fresh": true}));
    assert!(server.result(2).verified, "working executors continue");
    std::fs::remove_file(&tried).unwrap();
    for id in 3..8 {
        server.say(&json!({"type": "submit", "id": id, "fresh": true}));
        assert!(server.result(id).verified);
    }
    assert!(!tried.exists(), "it is not tried again and again");
    // An executor that a kernel ends is still replaced.
    std::fs::remove_file(&full).unwrap();
    server.say(&json!({"type": "submit", "id": 8, "config": shape(33)}));
    assert_eq!(server.result(8).status.name(), "runtime_error");
    server.say(&json!({"type": "submit", "id": 9, "fresh": true}));
    assert!(server.result(9).verified);
    server.end();
}

#[test]
fn devices_of_two_architectures_are_replayed_on_one_by_one() {
    if device() != Some("cpu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    stand_in(folder.path(), "libcuda.so.1", TWO_ARCHITECTURES);
    let output = replay(&Recording::make(), &["--device", "0,1", "--workers", "2"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env("MNEME_CPU_DEVICES", "2")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit::BAD_USAGE), "{said}");
    assert!(said.contains("has another architecture than the other devices"), "{said}");
}
