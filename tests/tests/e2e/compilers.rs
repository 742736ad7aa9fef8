//! Tests of several installed versions of LLVM, and of comparing them.
//!
//! They need clang and the builder of a version besides 19 (`scripts/setup --llvm 22`). Without them, they print a note
//! and pass, unless `MNEME_TEST_LLVM` names one.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mneme_e2e::apps::app;
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::installation::{TestDevice, have_compiler, library, program};
use mneme_e2e::platform;
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_recording::CodeKind;
use mneme_system::install;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The newest installed version besides 19 with its clang. Without one, returns `None` and prints a note.
fn other(test: &str) -> Option<u32> {
    if !have_compiler(test) {
        return None;
    }
    let builder = |version: &u32| program_folder().join(format!("mneme-build-{version}")).is_file();
    let clang = |version: &u32| run("sh").args(["-c", &format!("command -v clang++-{version}")]).outcome().status == 0;
    if let Ok(text) = std::env::var("MNEME_TEST_LLVM") {
        let version = text.parse().expect("MNEME_TEST_LLVM is a version");
        assert!(builder(&version) && clang(&version), "clang++-{version} or mneme-build-{version} is missing");
        return Some(version);
    }
    let found = install::LLVM_VERSIONS.rev().filter(|version| *version != 19).find(|it| builder(it) && clang(it));
    if found.is_none() {
        mneme_fixtures::skip(format_args!(
            "{test} needs clang and the builder of another LLVM than 19 (scripts/setup --llvm 22)"
        ));
    }
    found
}

fn program_folder() -> PathBuf {
    program("mneme-replay").parent().unwrap().to_path_buf()
}

/// An application compiled by a version's clang.
fn compiled(name: &str, version: u32, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{name}-{version}"));
    let compiler = platform::Platform::Cuda(mneme_e2e::installation::Cudart::under_test());
    let outcome = platform::recordable_by(&format!("clang++-{version}"))
        .args(compiler.compile_flags())
        .args(app(name).sources.iter().map(|source| platform::sources().join(source)))
        .args([Path::new("-o"), &path])
        .args(compiler.link_flags())
        .succeed();
    assert!(!outcome.stderr.contains("mneme-cc: warning"), "{outcome}");
    path
}

fn versions(result: &Value) -> (String, String) {
    let text = |name: &str| result["environment"]["versions"][name].as_str().unwrap_or_default().to_owned();
    (text("llvm"), text("ir"))
}

/// An installation of the programs under test with only these builders.
fn installation_with(builders: &[u32]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for name in builders.iter().map(|version| format!("mneme-build-{version}")) {
        symlink(program(&name), bin.join(name)).unwrap();
    }
    mneme_fixtures::copy_program(&program("mneme-replay"), &bin.join("mneme-replay"));
    let lib = home.path().join("lib");
    std::fs::create_dir(&lib).unwrap();
    symlink(library("libmneme_cpu.so"), lib.join("libmneme_cpu.so")).unwrap();
    home
}

/// `mneme-replay` of an installation that finds itself.
fn replay_in(home: &TempDir, instance: &TestInstance, options: &[&str]) -> ProgramOutput {
    run(home.path().join("bin/mneme-replay"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", "cpu", "default<O3>"])
        .args(options)
        .env("MNEME_HOME", home.path())
        .outcome()
}

/// A sweep of that installation over a file of configurations.
fn sweep_in(home: &TempDir, instance: &TestInstance, lines: &Path) -> Run {
    run(home.path().join("bin/mneme-replay"))
        .args(["sweep".as_ref(), "-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", "cpu"])
        .arg(lines)
        .env("MNEME_HOME", home.path())
}

#[test]
fn a_bisection_wants_both_compilers() {
    if !have_compiler("a_bisection_wants_both_compilers") {
        return;
    }
    let recording = Recording::of(app("vecadd"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
    let home = installation_with(&[19]);
    symlink(home.path().join("bin/mneme-replay"), home.path().join("bin/mneme-bisect")).unwrap();
    let alone = &["--llvm", "23"][..];
    for versions in [&["--good-llvm", "23", "--bad-llvm", "19"], &["--good-llvm", "19", "--bad-llvm", "23"], alone] {
        let outcome = run(home.path().join("bin/mneme-bisect"))
            .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
            .args(["--device", TestDevice::under_test().name(), "default<O3>"])
            .args(versions)
            .env("MNEME_HOME", home.path())
            .exit_with(70);
        assert!(outcome.stderr.contains("mneme-build-23 is not installed: 19 is"), "{outcome}");
    }
}

/// clang's new driver by default, which CUDA uses since LLVM 21. It links the objects' device code, and the units'
/// names come from the program.
#[test]
fn relocatable_programs_are_linked_with_what_a_clang_does_by_itself() {
    let test = "relocatable_programs_are_linked_with_what_a_clang_does_by_itself";
    let Some(version) = other(test).filter(|version| *version >= 21) else { return };
    let folder = tempfile::tempdir().unwrap();
    let compiler = platform::Platform::Cuda(mneme_e2e::installation::Cudart::under_test());
    for (name, more) in [("rdc", vec![]), ("units", vec![]), ("rdc", vec!["-fuse-cuid=none"])] {
        let path = folder.path().join(format!("{name}{}", more.len()));
        platform::recordable_by(&format!("clang++-{version}"))
            .args(compiler.compile_flags())
            .arg("-fgpu-rdc")
            .args(more)
            .args(app(name).sources.iter().map(|source| platform::sources().join(source)))
            .args([Path::new("-o"), &path])
            .args(compiler.link_flags())
            .succeed();
        let recording = Recording::of_executable(&path, &[]);
        for (database, kernel) in recording.kernels() {
            assert_eq!(CodeKind::of(&kernel.modules[0]), CodeKind::Bitcode, "{}", kernel.demangled_name);
            TestInstance::new(&database, kernel.instances.keys().next().unwrap()).verify("default<O3>", &[]);
        }
    }
}

#[test]
fn ir_of_each_clang_is_compiled_by_the_builder_of_its_version() {
    let Some(other) = other("ir_of_each_clang_is_compiled_by_the_builder_of_its_version") else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in ["vecadd", "reduce", "atomics", "math"] {
        for version in [19, other] {
            let path = compiled(name, version, folder.path());
            let recording = Recording::of_executable(&path, &[]);
            for (database, kernel) in recording.kernels() {
                let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
                for passes in ["default<O0>", "default<O3>"] {
                    let json = instance.verify(passes, if name == "math" { &["--rtol", "1e-5"] } else { &[] });
                    let (llvm, ir) = versions(&json["Result"]);
                    let begins = format!("{version}.");
                    assert!(llvm.starts_with(&begins) && ir.starts_with(&begins), "{name}: {llvm} of IR of {ir}");
                }
                // Every builder reads older IR. Newer IR is refused with its version.
                let asked = instance.replay("default<O3>").args(["--rtol", "1e-5", "--llvm", "19"]);
                if version == 19 {
                    let json = instance.verify("default<O3>", &["--rtol", "1e-5", "--llvm", &other.to_string()]);
                    assert!(versions(&json["Result"]).0.starts_with(&format!("{other}.")), "{json}");
                    asked.succeed();
                } else {
                    asked.exit_with(64).complains(&format!("written by LLVM {other}"));
                    let all = instance.replay("default<O3>").args(["--rtol", "1e-5", "--llvm", "all"]).succeed();
                    assert_eq!(all.json()["Results"][other.to_string()]["verified"], true, "{all}");
                }
            }
        }
    }
}

#[test]
fn two_versions_work_in_one_session() {
    let Some(other) = other("two_versions_work_in_one_session") else { return };
    let recording = Recording::of(app("reduce"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let id = kernel.instances.keys().next().unwrap();
    let lines = [
        json!({}),
        json!({"llvm": other}),
        json!({"llvm": 19}),
        json!({"llvm": other, "passes": "default<O1>"}),
        json!({"llvm": 7}),
    ];
    let input = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let configurations = recording.folder().join("configurations.jsonl");
    std::fs::write(&configurations, input).unwrap();
    let outcome = run(program("mneme-replay"))
        .args(["sweep".as_ref(), "-rdb".as_ref(), database.as_os_str(), "-rid".as_ref(), id.as_ref()])
        .args(["--device", TestDevice::under_test().name()])
        .arg(&configurations)
        .succeed();
    let mut results: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    results.sort_by_key(|result| result["id"].as_u64());
    let told: Vec<(String, String)> = results
        .iter()
        .map(|result| (result["Result"]["status"].as_str().unwrap().to_owned(), versions(&result["Result"]).0))
        .map(|(status, version)| (status, version.split('.').next().unwrap_or_default().to_owned()))
        .collect();
    let verified = |version: u32| ("verified".to_owned(), version.to_string());
    assert_eq!(told[..4], [verified(19), verified(other), verified(19), verified(other)], "{outcome}");
    assert_eq!(told[4].0, "invalid_config", "{outcome}");
    assert!(
        results[4]["Result"]["error"].as_str().unwrap().contains("written by LLVM 19, which an older one"),
        "{outcome}"
    );
    // Naming the default version does not cause another build.
    assert!(outcome.stderr.contains(" 3 builds"), "{outcome}");
}

#[test]
fn all_versions_are_compared_in_a_table() {
    let Some(other) = other("all_versions_are_compared_in_a_table") else { return };
    let recording = Recording::of(app("saxpy"), &[]);
    let outcome = recording.single().replay("default<O3>").args(["--llvm", "all"]).succeed();
    let json = outcome.json();
    for version in [19, other] {
        let result = &json["Results"][version.to_string()];
        assert_eq!(result["verified"], true, "{outcome}");
        assert!(versions(result).0.starts_with(&format!("{version}.")), "{outcome}");
        let line = outcome.stderr.lines().find(|line| line.starts_with(&format!("{version}."))).unwrap();
        assert!(
            line.split_whitespace().nth(1).unwrap().parse::<f64>().is_ok() && line.ends_with("verified"),
            "{outcome}"
        );
    }
    recording.single().replay("default<O3>").args(["--llvm", "all", "--output-ll", "/dev/null"]).exit_with(64);
}

#[test]
fn a_builder_that_cannot_be_used_has_a_line_in_the_table() {
    if !have_compiler("a_builder_that_cannot_be_used_has_a_line_in_the_table") {
        return;
    }
    let recording = Recording::of(app("vecadd"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
    let home = installation_with(&[19]);
    symlink("/bin/false", home.path().join("bin/mneme-build-23")).unwrap();
    let outcome = replay_in(&home, &instance, &["--llvm", "all"]);
    assert_eq!(outcome.status, 70, "{outcome}");
    let json = outcome.json();
    assert_eq!(json["Results"]["19"]["verified"], true, "{outcome}");
    assert_eq!(json["Results"]["23"]["status"], "internal_error", "{outcome}");
    outcome.complains("mneme-build-23 exited with status 1; install it again");
    // It does not break other configurations of a session either.
    let lines = recording.folder().join("lines.jsonl");
    std::fs::write(
        &lines,
        "{}\n{\"llvm\":23}\n{\"passes\":\"default<O1>\"}\n{\"llvm\":23,\"passes\":\"default<O2>\"}\n",
    )
    .unwrap();
    let outcome = sweep_in(&home, &instance, &lines).outcome();
    let statuses = |status: &str| outcome.stdout.matches(&format!("\"status\":\"{status}\"")).count();
    assert_eq!((statuses("verified"), statuses("internal_error")), (2, 2), "{outcome}");
    // Nor does it affect replays that need no builder, even if it is the newest one.
    let original = run(home.path().join("bin/mneme-replay"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", "cpu", "--original"])
        .env("MNEME_HOME", home.path())
        .succeed();
    assert_eq!(original.json()["Result"]["verified"], true, "{original}");
    // If no configuration can run, the result is unknown.
    std::fs::write(&lines, "{\"llvm\":23}\n").unwrap();
    sweep_in(&home, &instance, &lines).exit_with(70);
}

/// If an installed builder is broken, Mneme reports it, does not fall back silently to another, and still serves
/// configurations that ask for another. If messages cannot be written, the exit status stays the same.
#[test]
fn a_broken_builder_of_the_ir_ends_nothing_else() {
    let Some(other) = other("a_broken_builder_of_the_ir_ends_nothing_else") else { return };
    if !have_compiler("a_broken_builder_of_the_ir_ends_nothing_else") {
        return;
    }
    let recording = Recording::of(app("vecadd"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
    let home = installation_with(&[other]);
    symlink("/bin/false", home.path().join("bin/mneme-build-19")).unwrap();
    let table = replay_in(&home, &instance, &["--llvm", "all"]);
    assert_eq!(table.status, 70, "{table}");
    let json = table.json();
    assert_eq!(json["Results"]["19"]["status"], "internal_error", "{table}");
    assert_eq!(json["Results"][other.to_string()]["verified"], true, "{table}");
    let lines = recording.folder().join("lines.jsonl");
    std::fs::write(&lines, format!("{{}}\n{{\"llvm\":{other}}}\n{{\"passes\":\"default<O1>\"}}\n")).unwrap();
    let sweep = sweep_in(&home, &instance, &lines).succeed();
    let statuses = |status: &str| sweep.stdout.matches(&format!("\"status\":\"{status}\"")).count();
    assert_eq!((statuses("verified"), statuses("internal_error")), (1, 2), "{sweep}");
    let unheard = run("sh")
        .args(["-c", "exec \"$@\" 2>/dev/full", "sh"])
        .arg(home.path().join("bin/mneme-replay"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", "cpu"])
        .env("MNEME_HOME", home.path())
        .exit_with(70);
    assert_eq!(unheard.json()["Result"]["status"], "internal_error", "{unheard}");
    // If a builder is missing, the next newer one replaces it, and Mneme says so.
    std::fs::remove_file(home.path().join("bin/mneme-build-19")).unwrap();
    let replaced = replay_in(&home, &instance, &[]);
    assert_eq!(replaced.status, 0, "{replaced}");
    replaced.complains(&format!("LLVM {other} compiles IR of LLVM 19"));
}

/// IR that replays and bisections write is compiled by the version that wrote it.
#[test]
fn text_of_one_version_is_not_taken_for_anothers() {
    let Some(other) = other("text_of_one_version_is_not_taken_for_anothers") else { return };
    let recording = Recording::of(app("vecadd"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
    let text = recording.folder().join("after.ll");
    let version = other.to_string();
    instance.replay("default<O3>").args(["--llvm", &version, "--output-ll"]).arg(&text).succeed();
    let outcome = instance.replay("").arg("--ir").arg(&text).succeed();
    let (llvm, ir) = versions(&outcome.json()["Result"]);
    assert!(llvm.starts_with(&format!("{version}.")) && llvm == ir, "{outcome}");
}

/// Results of the application's own code name no version of LLVM.
#[test]
fn the_applications_own_code_names_no_llvm() {
    if !have_compiler("the_applications_own_code_names_no_llvm") {
        return;
    }
    let recording = Recording::of(app("vecadd"), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
    let outcome = run(program("mneme-replay"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", TestDevice::under_test().name(), "--original"])
        .succeed();
    assert_eq!(versions(&outcome.json()["Result"]).0, "", "{outcome}");
}

#[test]
fn a_fault_of_one_version_is_found_between_the_two() {
    let Some(other) = other("a_fault_of_one_version_is_found_between_the_two") else { return };
    let recording = Recording::of(app("vecadd"), &[]);
    let output = tempfile::tempdir().unwrap();
    let pipeline = format!("default<O1>,function(sroa,mneme-fault<wrong-operator@{other}>,instcombine)");
    let instance =
        recording.kernels().into_iter().find(|(_, kernel)| kernel.demangled_name.contains("vecadd")).unwrap();
    let bisect = |good: u32, bad: u32| {
        run(program("mneme"))
            .args(["bisect".as_ref(), "-rdb".as_ref(), instance.0.as_os_str()])
            .args(["--json", "--device", TestDevice::under_test().name(), &pipeline, "-o"])
            .arg(output.path())
            .args(["--good-llvm", &good.to_string(), "--bad-llvm", &bad.to_string()])
    };
    let outcome = bisect(19, other).exit_with(1);
    let json = outcome.json();
    assert_eq!((&json["verdict"], &json["pass"]["pass"]), (&"ir_pass".into(), &"mneme-fault".into()), "{outcome}");
    assert!(json["reference"].as_str().unwrap().starts_with("LLVM 19, "), "{outcome}");
    // Each version generates code from the IR that the other's passes made. It is right unless the fault is in that
    // version.
    let evidence = json["evidence"].to_string();
    assert!(evidence.contains(&format!("LLVM {other} compiles what the passes of LLVM 19 make")), "{outcome}");
    let script = std::fs::read_to_string(output.path().join("reproduce.sh")).unwrap();
    assert!(script.contains(&format!("# LLVM {other}.")), "{script}");
    // If both compilers crash, neither is to blame.
    let crash = "default<O1>,function(trigger-crash-function)";
    let outcome = run(program("mneme"))
        .args(["bisect".as_ref(), "-rdb".as_ref(), instance.0.as_os_str()])
        .args(["--device", TestDevice::under_test().name(), "--failing", "crash", crash])
        .args(["--good-llvm", "19", "--bad-llvm", &other.to_string()])
        .exit_with(125);
    assert!(outcome.stderr.contains("not good itself"), "{outcome}");
    // In the opposite direction there is nothing to find.
    let outcome = bisect(other, 19).exit_with(125);
    assert!(outcome.stderr.contains("not good itself"), "{outcome}");
}

#[test]
fn what_no_builder_reads_is_refused_with_the_remedy() {
    let Some(other) = other("what_no_builder_reads_is_refused_with_the_remedy") else { return };
    let folder = tempfile::tempdir().unwrap();
    let recording = Recording::of_executable(&compiled("vecadd", other, folder.path()), &[]);
    let (database, kernel) = recording.kernels().remove(0);
    let instance = TestInstance::new(&database, kernel.instances.keys().next().unwrap());
    let outcome = replay_in(&installation_with(&[19]), &instance, &[]);
    assert_eq!(outcome.status, 70, "{outcome}");
    outcome.complains(&format!("written by LLVM {other}, and no builder that is installed reads it: 19 is"));
    outcome.complains(&format!("mneme-build-{other}"));
    // The application's own code is not IR.
    let home = installation_with(&[19]);
    let original = run(home.path().join("bin/mneme-replay"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", "cpu", "--original"])
        .env("MNEME_HOME", home.path())
        .succeed();
    assert_eq!(original.json()["Result"]["verified"], true, "{original}");
    // The kernel is unknown, so it is not reported as broken.
    let mneme = |arguments: &[&str]| {
        run(program("mneme")).args(arguments).args(["--device", "cpu"]).arg(&database).env("MNEME_HOME", home.path())
    };
    let tested = mneme(&["test"]).exit_with(70);
    assert!(tested.stdout.contains("UNTESTED") && tested.stdout.contains("no builder that is installed"), "{tested}");
    let copy = mneme(&["minimize"]).arg(folder.path().join("small")).exit_with(70);
    copy.complains("no builder that is installed");
    assert!(!folder.path().join("small").exists(), "{copy}");
}
