//! Tests of kernels that wait for work after their launch.
//!
//! Each way of waiting runs alone and under every tool that intervenes between application and device.

use mneme_e2e::apps::app;
use mneme_e2e::command::Run;
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance, is_named, load_kernels, unrecorded};
use mneme_e2e::{apps::executable, command::run};
use serde_json::json;

use crate::applying::Tuned;

/// A run of the application under a command of `mneme`.
fn under(command: &[&str], mode: &str) -> Run {
    run(program("mneme"))
        .args(command)
        .arg("--")
        .arg(executable(app("rendezvous"), Cudart::under_test()))
        .arg(mode)
        .env("MNEME_DEVICE", TestDevice::under_test().name())
        .env("PROTEUS_TUNED_KERNELS", "")
}

#[track_caller]
fn same(run: Run, mode: &str) -> String {
    let outcome = run.succeed();
    assert_eq!(outcome.stdout, format!("rendezvous {mode}: ok\n"), "{outcome}");
    outcome.stderr
}

/// Winners for the waiting kernel and for the other one.
fn tuned() -> Tuned {
    let recording = Recording::of(app("rendezvous"), &["ready"]);
    let passes = json!({"passes": "default<O2>"});
    recording.kernels().into_iter().fold(Tuned::new(), |tuned, (database, kernel)| {
        let id = kernel.instances.keys().next().expect("an instance");
        let instance = TestInstance::new(&database, id);
        tuned.with(&kernel.static_hash.to_string(), &instance, passes.clone(), json!({}))
    })
}

/// The recorder gives up the waiting kernel, and records the next one.
#[track_caller]
fn recorded(mode: &str) {
    let folder = tempfile::tempdir().unwrap();
    let command = ["record", "-rdb", folder.path().to_str().unwrap(), "--kernel-limit", "2"];
    let start = std::time::Instant::now();
    let stderr = same(under(&command, mode), mode);
    assert!(load_kernels(folder.path()).iter().any(|(_, kernel)| is_named(kernel, "steady")), "{stderr}");
    assert!(start.elapsed().as_secs() < 60, "one limit, not one for each launch");
}

macro_rules! modes {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                let mode = stringify!($name);
                same(unrecorded(app("rendezvous")).arg(mode), mode);
                same(under(&["profile"], mode), mode);
                recorded(mode);
                let tuned = tuned();
                let results = tuned.results();
                let results = results.to_str().unwrap();
                for more in [&[][..], &["--verify-first", "1"], &["--specialize"]] {
                    let cache = tempfile::tempdir().unwrap();
                    let command = [&["apply", "--tuned", results][..], more].concat();
                    same(under(&command, mode).env("MNEME_CACHE_DIR", cache.path()), mode);
                }
            }
        )*
    };
}

modes!(mapped, pinned, managed, kernel, copy, queue, threads, graph);
