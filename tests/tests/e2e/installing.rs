//! Tests that the output of `scripts/install` works in place and is complete.

use std::path::{Path, PathBuf};

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{ProgramOutput, run};
use mneme_e2e::installation::{Cudart, TestDevice, checkout, have_compiler, program, target_folder};
use mneme_system::exit;

const PROGRAMS: [&str; 7] =
    ["mneme", "mneme-replay", "mneme-bisect", "mneme-build-19", "mneme-tune", "mneme-cc", "mneme-mcp"];

/// Requires that a file contains a text.
#[track_caller]
fn says(path: &Path, what: &str) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(text.contains(what), "{} does not say '{what}'", path.display());
}

#[test]
fn an_installation_is_complete() {
    // Without built programs there is nothing to install.
    if !have_compiler("an_installation_is_complete") || std::env::var_os("MNEME_HOME").is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    let install = run(checkout().join("scripts/install")).arg(&prefix).env("CARGO_TARGET_DIR", target_folder());
    install.env("MNEME_PROFILE", "dev").succeed();
    for name in PROGRAMS {
        run(prefix.join("bin").join(name)).arg("--version").succeed();
        // The heading of a page names the program, with plain hyphens.
        says(&prefix.join(format!("share/man/man1/{name}.1")), ".TH");
        says(&prefix.join(format!("share/man/man1/{name}.1")), name.rsplit('-').next().unwrap());
        if name != "mneme-cc" {
            says(&prefix.join(format!("share/bash-completion/completions/{name}.bash")), name);
        }
    }
    // Includes installed builders for other versions of LLVM.
    for program in std::fs::read_dir(prefix.join("bin")).unwrap() {
        let name = program.unwrap().file_name().into_string().unwrap();
        assert!(prefix.join(format!("share/man/man1/{name}.1")).exists(), "{name} has no page");
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

/// The output of `scripts/glibc/check` for a file that cc builds from this source.
fn symbols_of(folder: &Path, name: &str, source: &str, arguments: &[&str]) -> ProgramOutput {
    let (code, file) = (folder.join("source.c"), folder.join(name));
    std::fs::write(&code, source).unwrap();
    run("cc").arg(&code).arg("-o").arg(&file).args(arguments).succeed();
    run(checkout().join("scripts/glibc/check")).arg(&file).outcome()
}

#[test]
fn a_symbol_newer_than_promised_is_refused_by_name() {
    if !have_compiler("a_symbol_newer_than_promised_is_refused_by_name") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = "int memfd_create(const char *, unsigned); int f(void) { return memfd_create(\"\", 0); }";
    let refused = symbols_of(folder.path(), "library.so", library, &["-shared", "-fPIC"]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(refused.stderr.contains("memfd_create of GLIBC_2.27, and GLIBC_2.17 is promised"), "{refused}");

    let program = "unsigned arc4random(void); int deflateEnd(void *);\n\
        int main(int count, char **list) { (void)list; return count > 1 ? deflateEnd(0) : !arc4random(); }";
    let refused = symbols_of(folder.path(), "program", program, &["-lz"]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(refused.stderr.contains("arc4random of GLIBC_2.36, and GLIBC_2.28 is promised"), "{refused}");
    assert!(refused.stderr.contains("needs libz.so.1"), "{refused}");

    // Links like scripts/bundle, if that has been run.
    let old = checkout().join(".deps/glibc");
    if !old.is_dir() {
        mneme_fixtures::skip("what is linked for an old glibc, as scripts/bundle has not been run");
        return;
    }
    let program = "#include <pthread.h>\n#include <stdio.h>\n#include <sys/stat.h>\n\
        unsigned arc4random(void);\n\
        static void *start(void *status) { return stat(\"/\", status) ? 0 : status; }\n\
        __attribute__((constructor)) static void first(void) { puts(\"constructed\"); }\n\
        int main(void) { pthread_t thread; struct stat status; void *result = 0; unsigned all = 0;\n\
        for (int i = 0; i < 100; ++i) all |= arc4random();\n\
        if (pthread_create(&thread, 0, start, &status) || pthread_join(thread, &result)) return 1;\n\
        return !(result && all > 0xffff); }";
    let flag = |letter: &str| format!("-{letter}{}", old.display());
    let accepted = symbols_of(folder.path(), "program", program, &[&flag("B"), &flag("L"), "-lpthread"]);
    assert_eq!(accepted.status, 0, "{accepted}");
    assert!(accepted.stdout.starts_with("program: glibc 2."), "{accepted}");
    assert_eq!(run(folder.path().join("program")).succeed().stdout, "constructed\n");
}

/// A release archive with a single program that only prints its version, a man page and a completion.
fn archive(folder: &Path, version: &str) -> PathBuf {
    let name = format!("mneme-{version}-linux-x86_64");
    let bin = folder.join(&name).join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("mneme"), format!("#!/bin/sh\necho mneme {version} \"$@\"\n")).unwrap();
    std::fs::write(bin.join(format!("mneme-{version}")), "").unwrap();
    run("chmod").args(["-R", "755"]).arg(&bin).succeed();
    for file in
        ["man/man1/mneme.1".to_owned(), format!("man/man1/mneme-{version}.1"), "zsh/site-functions/_mneme".into()]
    {
        let file = folder.join(&name).join("share").join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, version).unwrap();
    }
    let path = folder.join(format!("{name}.tar.xz"));
    run("tar").arg("-C").arg(folder).arg("-cJf").arg(&path).arg(&name).succeed();
    let sum = run("sha256sum").arg(path.file_name().unwrap()).folder(folder).succeed().stdout;
    std::fs::write(folder.join(format!("{name}.tar.xz.sha256")), sum).unwrap();
    path
}

#[test]
fn the_installer_takes_an_archive_that_is_what_its_sum_says() {
    // The installer belongs to the sources, which are incomplete on machines without a compiler.
    let installer = checkout().join("packaging/install.sh");
    if !have_compiler("the_installer_takes_an_archive_that_is_what_its_sum_says") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    let (older, newer) = (archive(folder.path(), "0.0.1"), archive(folder.path(), "0.0.2"));
    let install =
        |archive: &Path, prefix: &Path| run("sh").arg(&installer).arg("--prefix").arg(prefix).arg(archive).outcome();
    assert!(install(&older, &prefix).stdout.contains("mneme 0.0.1 doctor"));
    let outcome = install(&newer, &prefix);
    assert_eq!(outcome.status, 0, "{outcome}");
    assert!(outcome.stdout.starts_with("Installed mneme 0.0.2 --version in"), "{outcome}");
    assert_eq!(run(prefix.join("bin/mneme")).succeed().stdout, "mneme 0.0.2\n");
    assert!(!prefix.join("lib/mneme/bin/mneme-0.0.1").exists(), "the older one is left");
    for gone in ["bin/mneme-0.0.1", "share/man/man1/mneme-0.0.1.1"] {
        assert!(prefix.join(gone).symlink_metadata().is_err(), "a link of the older one is left: {gone}");
    }
    for there in ["man/man1/mneme.1", "man/man1/mneme-0.0.2.1", "zsh/site-functions/_mneme"] {
        assert_eq!(std::fs::read_to_string(prefix.join("share").join(there)).unwrap(), "0.0.2", "{there}");
    }

    let refused = install(&newer, &folder.path().join("a b"));
    assert!(refused.status == 1 && refused.stderr.contains("a path with a space"), "{refused}");
    // If the new archive is damaged, the old installation stays.
    let mut bytes = std::fs::read(&older).unwrap();
    bytes.push(0);
    std::fs::write(&older, bytes).unwrap();
    let refused = install(&older, &prefix);
    assert!(refused.status == 1 && refused.stderr.contains("is not what"), "{refused}");
    assert_eq!(run(prefix.join("bin/mneme")).succeed().stdout, "mneme 0.0.2\n");
    let refused = install(&folder.path().join("missing.tar.xz"), &prefix);
    assert!(refused.status == 1 && refused.stderr.contains("there is no"), "{refused}");
}

#[test]
fn everything_that_is_packed_has_one_version() {
    if !have_compiler("everything_that_is_packed_has_one_version") {
        return;
    }
    let text = |path: &str| std::fs::read_to_string(checkout().join(path)).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(text("python/mneme/__init__.py").contains(&format!("__version__ = \"{version}\"")));
    // The others read that version.
    assert!(text("python/pyproject.toml").contains("version = { attr = \"mneme.__version__\" }"));
    let said = run("bash").args(["-c", "source scripts/env.sh; mneme_version"]).folder(&checkout()).succeed();
    assert_eq!(said.stdout.trim(), version);
}

#[test]
fn nothing_that_is_packed_breaks_kernels_on_purpose() {
    if !have_compiler("nothing_that_is_packed_breaks_kernels_on_purpose") {
        return;
    }
    let text = |path: &str| std::fs::read_to_string(checkout().join(path)).unwrap();
    for recipe in ["scripts/wheel", "packaging/Containerfile"] {
        let text = text(recipe);
        assert!(text.contains("build_installed") && !text.contains("cargo build"), "{recipe}");
    }
    for recipe in ["packaging/conda/meta.yaml", "packaging/spack/packages/mneme_rs/package.py"] {
        let text = text(recipe);
        assert!(text.contains("--no-default-features") && !text.contains("--workspace"), "{recipe}");
    }
    let script = "source scripts/env.sh; cargo() { printf '%s\\n' \"$*\"; }; build_installed --locked";
    let words = run("bash").args(["-c", script]).folder(&checkout()).succeed().stdout;
    assert!(words.contains("--no-default-features") && words.contains("--package=mneme-cli"), "{words}");
    assert!(words.contains("--locked") && !words.contains("--workspace"), "{words}");
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
    // An installation of only the program, on a machine without compilers.
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("bin")).unwrap();
    mneme_fixtures::copy_program(&program("mneme"), &home.path().join("bin/mneme"));
    let (status, bare) = json(Some(home.path()), home.path().join("none").to_str().unwrap());
    assert_eq!((status, &bare["healthy"]), (1, &false.into()), "{bare}");
    for (name, state) in [("programs", "missing"), ("builders", "missing"), ("clang", "absent")] {
        let found = check(&bare, name);
        assert!(found["state"] == state && !found["remedy"].as_str().unwrap().is_empty(), "{bare}");
    }
}
