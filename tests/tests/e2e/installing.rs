//! Tests of what `scripts/install` lays out: it works from there, and nothing else is needed.

use std::path::Path;

use mneme_core::exit;
use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::run;
use mneme_e2e::installation::{Cudart, TestDevice, checkout, have_compiler, program, target_folder};

const PROGRAMS: [&str; 6] = ["mneme", "mneme-replay", "mneme-bisect", "mneme-build-19", "mneme-tune", "mneme-cc"];

/// A file that has to say something.
#[track_caller]
fn says(path: &Path, what: &str) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(text.contains(what), "{} does not say '{what}'", path.display());
}

#[test]
fn an_installation_is_complete() {
    // Where programs are not built there is nothing to lay out.
    if !have_compiler("an_installation_is_complete") || std::env::var_os("MNEME_HOME").is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    run(checkout().join("scripts/install")).arg(&prefix).env("CARGO_TARGET_DIR", target_folder()).succeed();
    for name in PROGRAMS {
        run(prefix.join("bin").join(name)).arg("--version").succeed();
        // A page names the program in its heading, with the hyphens as they are typed.
        says(&prefix.join(format!("share/man/man1/{name}.1")), ".TH");
        says(&prefix.join(format!("share/man/man1/{name}.1")), name.rsplit('-').next().unwrap());
        if name != "mneme-cc" {
            says(&prefix.join(format!("share/bash-completion/completions/{name}.bash")), name);
        }
    }
    for wrapper in ["mneme-clang", "mneme-clang++"] {
        says(&prefix.join(format!("share/man/man1/{wrapper}.1")), ".mneme.ir");
    }
    let flags = run(prefix.join("bin/mneme")).args(["config", "cflags"]).succeed().stdout;
    assert!(flags.contains(prefix.join("include").to_str().unwrap()), "{flags}");

    let database = folder.path().join("recording");
    let device = TestDevice::under_test().name();
    let record = run(prefix.join("bin/mneme")).args(["record", "-rdb"]).arg(&database).arg("--");
    record.arg(executable(app("saxpy"), Cudart::under_test())).env("MNEME_DEVICE", device).succeed();
    let replay = run(prefix.join("bin/mneme-replay")).arg("-rdb").arg(&database).args(["--device", device]);
    replay.arg("default<O3>").exit_with(exit::VERIFIED);
}

#[test]
fn the_doctor_names_what_is_missing_with_a_remedy() {
    let json = |home: Option<&Path>, path: &str| {
        let doctor = run(program("mneme")).args(["doctor", "--json"]).env("PATH", path);
        let outcome = match home {
            Some(home) => {
                run(home.join("bin/mneme")).args(["doctor", "--json"]).env("PATH", path).env("MNEME_HOME", home)
            }
            None => doctor,
        }
        .outcome();
        (outcome.status, serde_json::from_str::<serde_json::Value>(&outcome.stdout).unwrap())
    };
    let check = |json: &serde_json::Value, name: &str| {
        json["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap().clone()
    };
    let (status, whole) = json(None, "/usr/bin:/bin");
    assert_eq!((status, &whole["healthy"]), (0, &true.into()), "{whole}");
    for name in ["programs", "builders", "arena", "glibc", "tmp"] {
        assert_eq!(check(&whole, name)["state"], "ok", "{whole}");
    }
    assert!(check(&whole, "builders")["detail"].as_str().unwrap().starts_with("LLVM 19."), "{whole}");
    // An installation of the program alone, on a machine without compilers.
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("bin")).unwrap();
    std::fs::copy(program("mneme"), home.path().join("bin/mneme")).unwrap();
    let (status, bare) = json(Some(home.path()), "/nonexistent");
    assert_eq!((status, &bare["healthy"]), (1, &false.into()), "{bare}");
    for (name, state) in [("programs", "missing"), ("builders", "missing"), ("clang", "absent")] {
        let found = check(&bare, name);
        assert!(found["state"] == state && !found["remedy"].as_str().unwrap().is_empty(), "{bare}");
    }
}
