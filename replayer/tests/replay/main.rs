//! Tests of `mneme-replay` from its users' view, on a recording made by hand.
//!
//! They run on the CPU device if it is built, or on a GPU with `MNEME_TEST_DEVICE=cuda`.

mod amd;
mod engine;
mod misbehaving;
mod places;
mod recording;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use mneme_model::configuration::{Changes, Configuration};
use mneme_model::launch::Dim3;
use mneme_model::protocol::{Reply, Request, Submission};
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_model::tolerance::{DataType, Tolerance};
use mneme_system::{exit, install};

use recording::{ELEMENTS, Recording};

/// How long a test waits for an event. A busy machine takes long, and no test depends on the time.
const PATIENCE: Duration = Duration::from_secs(120);

/// The device to test on; skips the test without a device or a compiler for it.
fn device() -> Option<&'static str> {
    if install::builders().is_empty() {
        mneme_fixtures::skip(format_args!("{} is not built; 'cargo build --workspace' builds it", install::BUILDER));
        return None;
    }
    if std::env::var("MNEME_TEST_DEVICE").as_deref() == Ok("cuda") {
        return Some("cuda");
    }
    let found = install::locate(install::CPU_DEVICE).map(|_| "cpu");
    if found.is_none() {
        mneme_fixtures::skip("the CPU device is not built; 'cargo build --workspace' builds it");
    }
    found
}

/// Whether a program is on the path; skips the test if not.
fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        mneme_fixtures::skip(format_args!("{program} is not installed"));
    }
    found
}

/// The program under test: an installed one, else the one that cargo built.
fn program() -> PathBuf {
    std::env::var_os("MNEME_HOME")
        .map_or_else(|| env!("CARGO_BIN_EXE_mneme-replay").into(), |home| Path::new(&home).join("bin/mneme-replay"))
}

fn replay(recording: &Recording, options: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("-rdb").arg(recording.database()).args(options);
    command
}

#[track_caller]
fn outcome(output: &Output, status: i32) -> serde_json::Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON; {errors}"))
}

#[test]
fn every_pipeline_verifies() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    for passes in ["default<O0>", "default<O1>", "default<O3>", "default<Oz>"] {
        let output = replay(&recording, &["-rid", "7", "--device", device, passes]).output().unwrap();
        let json = outcome(&output, exit::VERIFIED);
        assert_eq!(json["Replay-config"]["passes"], passes);
        assert_eq!(json["Result"]["exec_time"].as_array().map(Vec::len), Some(5));
        assert_eq!(json["Result"]["verified"], true);
    }
    for options in [&["--specialize"][..], &["-sdims"], &["-slb"], &["-bidx", "256"], &["--no-prune", "--internalize"]]
    {
        let output = replay(&recording, &[&["--device", device], options].concat()).output().unwrap();
        outcome(&output, exit::VERIFIED);
    }
}

#[test]
fn every_field_verifies() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    for options in [
        &["--facts"][..],
        &["--specialize=1"],
        &["--specialize", "--facts", "default<O2>"],
        &["--maxnreg", "32"],
        &["--ptx-opt", "1"],
        &["--fast-math"],
        &["--llvm-option=-unroll-threshold=10", "--llvm-option", "-inline-threshold=1"],
    ] {
        let output = replay(&recording, &[&["--device", device], options].concat()).output().unwrap();
        outcome(&output, exit::VERIFIED);
    }
}

#[test]
fn builds_that_fail_say_where() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    for (options, status, expected) in [
        (&["default<O1>,trigger-crash-module"][..], exit::BUILD_FAILED, "in trigger-crash-module on the module"),
        (&["function(loop-rotat)"], exit::BAD_USAGE, "did you mean 'loop-rotate'"),
        (&["--llvm-option=-no-such-thing"], exit::BUILD_FAILED, "no-such-thing"),
        (&["--opt", "/no/such/opt"], exit::BUILD_FAILED, "/no/such/opt"),
    ] {
        let output = replay(&recording, &[&["--device", device], options].concat()).output().unwrap();
        let json = outcome(&output, status);
        let error = json["Result"]["error"].as_str().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_a_build_makes_can_be_kept_edited_and_replayed() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let out_option = ["--output-dir", out.to_str().unwrap(), "--facts"];
    outcome(&replay(&recording, &[&["--device", device], &out_option[..]].concat()).output().unwrap(), exit::VERIFIED);
    let before = std::fs::read_to_string(out.join("before.ll")).unwrap();
    assert!(before.contains("dereferenceable(400004)"), "{before}");
    assert!(std::fs::read_to_string(out.join("build.log")).unwrap().contains("pass pipeline: "));
    assert!(out.join(if device == "cpu" { "kernel.o" } else { "kernel.cubin" }).is_file());
    // LLVM's output is part of the log.
    outcome(
        &replay(&recording, &[&["--device", device], &out_option[..], &["function(print)"]].concat()).output().unwrap(),
        exit::VERIFIED,
    );
    assert!(std::fs::read_to_string(out.join("build.log")).unwrap().contains("define void @_Z6updatePii("));

    let kept = out.join("after.ll");
    let ir = ["--device", device, "--ir", kept.to_str().unwrap(), ""];
    outcome(&replay(&recording, &ir).output().unwrap(), exit::VERIFIED);
    let text = std::fs::read_to_string(&kept).unwrap();
    let (name, wrong) = (folder.path().join("wrong.ll"), text.replace("atomicrmw add ", "atomicrmw sub "));
    std::fs::write(&name, wrong).unwrap();
    outcome(
        &replay(&recording, &["--device", device, "--ir", name.to_str().unwrap()]).output().unwrap(),
        exit::NOT_VERIFIED,
    );
    let other = folder.path().join("other.ll");
    std::fs::write(&other, "define void @other() { ret void }\n").unwrap();
    let json = outcome(
        &replay(&recording, &["--device", device, "--ir", other.to_str().unwrap()]).output().unwrap(),
        exit::BUILD_FAILED,
    );
    assert!(json["Result"]["error"].as_str().unwrap().contains("has no kernel named"), "{json}");
}

#[test]
fn what_a_failed_build_had_come_to_is_kept_and_nothing_older() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let out = recording.folder().join("out");
    let build = |options: &[&str], status| {
        let options =
            [&["--device", device, "--timeout", "2", "--output-dir", out.to_str().unwrap()], options].concat();
        outcome(&replay(&recording, &options).output().unwrap(), status)["Result"]["error"].as_str().unwrap().to_owned()
    };
    let found = || {
        let names = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "kernel.sass").collect::<std::collections::BTreeSet<_>>()
    };
    let are = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<std::collections::BTreeSet<_>>();
    build(&[], exit::VERIFIED);
    let whole: &[&str] = if device == "cpu" { &["kernel.o"] } else { &["kernel.ptx", "kernel.cubin"] };
    assert_eq!(found(), are(&[whole, &["before.ll", "after.ll", "build.log"]].concat()));
    let before = std::fs::read_to_string(out.join("before.ll")).unwrap();

    std::fs::write(out.join("mine.txt"), "").unwrap();
    let hanging = recording.folder().join("hanging");
    mneme_fixtures::script(&hanging, "#!/bin/sh\nsleep 100\n");
    // The pipeline crashes, hangs, and is refused.
    for (options, status) in [
        (&["default<O1>,trigger-crash-module"][..], exit::BUILD_FAILED),
        (&["--opt", hanging.to_str().unwrap()], exit::TIMED_OUT),
        (&["no-such-pass"], exit::BAD_USAGE),
    ] {
        let error = build(options, status);
        assert_eq!(found(), are(&["before.ll", "build.log", "mine.txt"]), "{error}");
        assert_eq!(std::fs::read_to_string(out.join("before.ll")).unwrap(), before);
        let log = std::fs::read_to_string(out.join("build.log")).unwrap();
        assert!(log.ends_with(&format!("{error}\n")), "{log}");
    }

    // The assembler refuses the code; the CPU device's code generation leaves such kernels out.
    if device != "cpu" {
        let odd = recording.folder().join("odd.ll");
        std::fs::write(
            &odd,
            before.replacen("ret void", "call void asm sideeffect \"bogus.x;\", \"\"()\n  ret void", 1),
        )
        .unwrap();
        let ir = recording.folder().join("after-pipeline.ll");
        build(&["--ir", odd.to_str().unwrap(), "--output-ll", ir.to_str().unwrap()], exit::BUILD_FAILED);
        assert_eq!(found(), are(&["kernel.ptx", "before.ll", "after.ll", "build.log", "mine.txt"]));
        assert_eq!(std::fs::read_to_string(&ir).unwrap(), std::fs::read_to_string(out.join("after.ll")).unwrap());
    }

    // Replayed code must not be overwritten.
    let input = out.join("before.ll");
    let options = ["--device", device, "--ir", input.to_str().unwrap(), "--output-dir", out.to_str().unwrap()];
    let refused = replay(&recording, &options).output().unwrap();
    assert!(
        refused.status.code() == Some(exit::BAD_USAGE)
            && String::from_utf8_lossy(&refused.stderr).contains("would overwrite")
    );
    assert!(input.exists());
}

#[test]
fn a_source_that_does_not_compile_is_a_result_too() {
    let Some(device) = device().filter(|_| installed("clang++-19")) else { return };
    let recording = Recording::make();
    let (source, slow) = (recording.folder().join("wrong.cu"), recording.folder().join("slow"));
    std::fs::write(&source, "__global__ void update(int *data, int n) { data[0] = }\n").unwrap();
    let options = ["--device", device, "--source", source.to_str().unwrap()];
    let json = outcome(&replay(&recording, &options).output().unwrap(), exit::BUILD_FAILED);
    assert_eq!(json["Result"]["status"], "compile_error");
    assert!(json["Result"]["error"].as_str().unwrap().contains("wrong.cu"), "{json}");
    mneme_fixtures::script(&slow, "#!/bin/sh\nsleep 100 &\nwait\n");
    let options = [&options[..], &["--clang", slow.to_str().unwrap(), "--timeout", "0.5"]].concat();
    let json = outcome(&replay(&recording, &options).output().unwrap(), exit::TIMED_OUT);
    assert_eq!(json["Result"]["status"], "timeout", "{json}");
}

#[test]
fn a_pipeline_in_another_program_ends_with_the_build() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let (wrapper, mark) = (recording.folder().join("opt"), recording.folder().join("mark"));
    // Its child would write the mark long after the build is over.
    let script = format!("#!/bin/sh\n(sleep 3; echo late >'{}') &\nwait\n", mark.display());
    mneme_fixtures::script(&wrapper, &script);
    let temporary = tempfile::tempdir().unwrap();
    let options = ["--device", device, "--timeout", "1", "--opt", wrapper.to_str().unwrap()];
    outcome(&replay(&recording, &options).env("TMPDIR", temporary.path()).output().unwrap(), exit::TIMED_OUT);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!mark.exists(), "the program's child lives on");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left behind");
}

/// The children of a wrapper program end with the replay, even if the replay is killed.
#[test]
fn what_a_wrapper_starts_ends_with_a_replay_that_is_killed() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let (source, pid) = (recording.folder().join("k.cu"), recording.folder().join("pid"));
    std::fs::write(&source, "").unwrap();
    let wrapper = recording.folder().join("wrapper");
    let script =
        format!("#!/bin/sh\nsh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000' &\nwait\n", pid.display());
    mneme_fixtures::script(&wrapper, &script);
    let wrapper = wrapper.to_str().unwrap();
    for options in [&["--opt", wrapper][..], &["--source", source.to_str().unwrap(), "--clang", wrapper]] {
        let _ = std::fs::remove_file(&pid);
        let mut child =
            replay(&recording, &[&["--device", device], options].concat()).stdout(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        let sleeper = loop {
            if let Ok(text) = std::fs::read_to_string(&pid) {
                break text.trim().parse::<u32>().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "the wrapper is not started");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(engine::is_alive(&sleeper));
        child.kill().unwrap();
        child.wait().unwrap();
        let start = Instant::now();
        while engine::is_alive(&sleeper) {
            assert!(start.elapsed() < PATIENCE, "{options:?}: what the wrapper has started lives on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_parent_that_ignores_its_children_changes_nothing() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""]).arg(program()).arg("-rdb").arg(recording.database());
    outcome(&command.args(["--device", device]).output().unwrap(), exit::VERIFIED);
}

#[test]
fn differing_memory_that_cannot_be_written_is_told_at_once() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let output =
        replay(&recording, &["--device", device, "-gidx", "10", "--dump-diff", "/proc/nope"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit::BAD_USAGE), "{errors}");
    assert!(errors.contains("/proc/nope"), "{errors}");
    // Files of an earlier replay must not count as this one's.
    let folder = recording.folder().join("diff");
    let options = ["--device", device, "--dump-diff", folder.to_str().unwrap()];
    outcome(&replay(&recording, &[&options[..], &["-gidx", "10"]].concat()).output().unwrap(), exit::NOT_VERIFIED);
    assert!(folder.join("000-recorded.bin").exists());
    outcome(&replay(&recording, &options).output().unwrap(), exit::VERIFIED);
    assert!(!folder.join("000-recorded.bin").exists());
    assert_eq!(std::fs::read_to_string(folder.join("index.json")).unwrap().trim(), "[]");
}

#[test]
fn what_names_nothing_is_bad_usage() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    for (options, expected) in [
        (&["--specialize=0,9"][..], "argument 9"),
        (&["--tolerance", "argument:9=f32:1"], "argument 9"),
        (&["--tolerance", "variable:nope=ignore"], "nope"),
        (&["--codegen-method", "foo"], "foo"),
    ] {
        let output = replay(&recording, &[&["--device", device], options].concat()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(exit::BAD_USAGE), "{options:?}: {errors}");
        assert!(errors.contains(expected), "{options:?}: {errors}");
    }
}

#[test]
fn a_compiler_that_exits_in_this_process_does_not_pass_for_a_success() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let output =
        replay(&recording, &["--device", device, "--isolation", "none", "--llvm-option=-version"]).output().unwrap();
    assert_eq!(output.status.code(), Some(exit::INTERNAL));
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn an_installation_without_what_compiles_says_so() {
    let recording = Recording::make();
    let alone = tempfile::tempdir().unwrap();
    let copy = alone.path().join("mneme-replay");
    mneme_fixtures::copy_program(program().as_ref(), &copy);
    let mut command = Command::new(copy);
    command.env_remove("MNEME_HOME").arg("-rdb").arg(recording.database()).args(["--device", "cpu"]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit::INTERNAL), "{errors}");
    assert!(output.stdout.is_empty() && errors.lines().count() == 1, "{errors}");
    assert!(errors.contains("no mneme-build-NN is installed") && errors.contains("MNEME_HOME"), "{errors}");
}

#[test]
fn a_kernel_of_nothing_but_what_cannot_be_fails_when_it_runs() {
    let Some("cpu") = device() else { return };
    let recording = Recording::make();
    let file = recording.folder().join("nothing.ll");
    let kernel = include_str!("kernel.ll").replace("entry:\n", "entry:\n  unreachable\n\nusual:\n");
    std::fs::write(&file, kernel).unwrap();
    let json = outcome(
        &replay(&recording, &["--device", "cpu", "--ir", file.to_str().unwrap()]).output().unwrap(),
        exit::LAUNCH_FAILED,
    );
    assert_eq!(json["Result"]["status"], "runtime_error", "{json}");
    assert!(json["Result"]["error"].as_str().unwrap().contains("failed"), "{json}");
}

#[test]
fn refused_launches_say_which_limit() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let bounded = ["--device", device, "-slb", "--max-threads", "32"];
    let json = outcome(&replay(&recording, &bounded).output().unwrap(), exit::LAUNCH_FAILED);
    assert!(json["Result"]["error"].as_str().unwrap().contains("max_threads bounds the code to 32"), "{json}");
    let greedy = ["--device", device, "--shared-mem", "99999999"];
    let json = outcome(&replay(&recording, &greedy).output().unwrap(), exit::LAUNCH_FAILED);
    assert!(json["Result"]["error"].as_str().unwrap().contains("needs 99999999 bytes of shared memory"), "{json}");
}

#[test]
fn a_folder_stands_for_its_only_kernel() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let run = |options: &[&str]| {
        Command::new(program())
            .arg("-rdb")
            .arg(recording.folder())
            .args(["--device", device])
            .args(options)
            .output()
            .unwrap()
    };
    outcome(&run(&[]), exit::VERIFIED);
    outcome(&run(&["-rid", "7"]), exit::VERIFIED);
    let refused = run(&["--kernel", "stranger"]);
    assert_eq!(refused.status.code(), Some(exit::BAD_USAGE));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is named stranger; it holds"));
}

#[test]
fn work_left_undone_is_a_mismatch() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let output = replay(&recording, &["--device", device, "-gidx", "10"]).output().unwrap();
    let json = outcome(&output, exit::NOT_VERIFIED);
    let result = &json["Result"];
    let (counter, data) = (&result["mismatch"], &result["more_mismatches"][0]);
    assert_eq!((&counter["region"], &result["differing_buffers"]), (&"counter".into(), &2.into()), "{json}");
    let undone = ELEMENTS as u64 - 10 * 128;
    assert_eq!(
        (&data["dtype"], &data["differing"], &data["offset"]),
        (&"i32".into(), &undone.into(), &(10 * 128 * 4).into()),
        "{json}"
    );
    assert_eq!(
        (&data["largest_error"], &data["recorded"]),
        (&7.0.into(), &(1280 * 31 + 7).to_string().into()),
        "{json}"
    );
    assert!(result["error"].as_str().unwrap().contains("in 2 buffers:\n"), "{json}");
}

#[test]
fn what_is_allowed_to_differ_passes() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let replayed = |tolerances: &[&str], status| {
        let options = tolerances.iter().flat_map(|tolerance| ["--tolerance", tolerance]);
        let mut command = replay(&recording, &["--device", device, "-gidx", "10"]);
        outcome(&command.args(options).output().unwrap(), status)
    };
    // All elements except 1280 are too small by 7, and the counter by the number of elements. A rule that accepts this
    // would accept a kernel without effect.
    replayed(&["argument:0=i32:7", "variable:counter=ignore"], exit::UNPROVEN);
    replayed(&["i32:7:absolute:linf", "variable:counter=u32:1e6"], exit::UNPROVEN);
    let json = replayed(&["argument:0=i32:6", "variable:counter=u32:1e6"], exit::NOT_VERIFIED);
    assert_eq!(json["Result"]["mismatch"]["tolerance"], "i32 within 6e0 (absolute)", "{json}");
    let json = replayed(&["argument:0=i32:6e5:absolute:l1", "variable:counter=u32:1e6"], exit::NOT_VERIFIED);
    let norm = 7.0 * f64::from(ELEMENTS - 1280);
    assert_eq!(json["Result"]["mismatch"]["norm_error"], norm, "{json}");
    replayed(&["argument:0=i32:7e5:absolute:l1", "variable:counter=u32:1e6"], exit::VERIFIED);
    // The same rules in a file next to the recording. The command line overrides them.
    let rules = r#"{"version": 1, "rules": [{"argument": 0, "dtype": "i32", "threshold": 7}, {"variable": "counter", "ignore": true}]}"#;
    std::fs::write(recording.folder().join("42.tolerances.json"), rules).unwrap();
    replayed(&[], exit::UNPROVEN);
    replayed(&["variable:counter=exact"], exit::NOT_VERIFIED);
}

#[test]
fn a_configurations_tolerance_is_its_own() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let rules = r#"{"version": 1, "rules": [{"variable": "counter", "ignore": true}]}"#;
    std::fs::write(recording.folder().join("42.tolerances.json"), rules).unwrap();
    let undone = Configuration { grid: Dim3::new(10, 1, 1), ..shaped(128, "default<O1>") };
    let within = |threshold| Some(Tolerance { dtype: DataType::I32, threshold, ..Tolerance::default() });
    let configurations =
        [None, within(7.0), within(6.0)].map(|tolerance| Configuration { tolerance, ..undone.clone() });
    let results = serve(&recording, &["--device", device], &configurations);
    let statuses: Vec<ReplayStatus> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ReplayStatus::FailedVerification, ReplayStatus::Unproven, ReplayStatus::FailedVerification]);
    assert!(
        results
            .iter()
            .all(|result| result.environment.code == results[0].environment.code && result.shared_with.is_none())
    );
}

#[test]
fn events_time_the_cpu_device() {
    let Some("cpu") = device() else { return };
    let recording = Recording::make();
    let json =
        outcome(&replay(&recording, &["--device", "cpu", "--timer", "events"]).output().unwrap(), exit::VERIFIED);
    assert_eq!(json["Result"]["environment"]["timer"], "events");
    let refused = replay(&recording, &["--device", "cpu", "--timer", "cupti"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(exit::BAD_USAGE));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("CUPTI times GPUs"));
}

#[test]
fn buffers_that_differ_are_written_out() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let folder = recording.folder().join("diff");
    let mut command = replay(&recording, &["--device", device, "-gidx", "10", "--dump-diff"]);
    outcome(&command.arg(&folder).output().unwrap(), exit::NOT_VERIFIED);
    let index: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("index.json")).unwrap()).unwrap();
    let [counter, data] = index.as_array().unwrap().as_slice() else { panic!("{index}") };
    let read = |entry: &serde_json::Value, key: &str| std::fs::read(folder.join(entry[key].as_str().unwrap())).unwrap();
    assert_eq!(read(counter, "recorded_file"), (5 + ELEMENTS).to_le_bytes());
    assert_eq!(read(counter, "replayed_file"), (5_i32 + 1280).to_le_bytes());
    let (recorded, replayed) = (read(data, "recorded_file"), read(data, "replayed_file"));
    assert_eq!((recorded.len(), replayed.len()), (4 * ELEMENTS as usize, 4 * ELEMENTS as usize));
    assert!(
        recorded[..4 * 1280] == replayed[..4 * 1280] && recorded[4 * 1280..4 * 1284] != replayed[4 * 1280..4 * 1284]
    );
}

#[test]
fn repeated_runs_are_compared_with_each_other() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let json = outcome(&replay(&recording, &["--device", device, "--repeat", "4"]).output().unwrap(), exit::VERIFIED);
    assert_eq!(json["Result"]["variations"], serde_json::json!([]), "{json}");
    assert_eq!(json["Result"]["exec_time"].as_array().map(Vec::len), Some(4));
    let options = ["--device", device, "--repeat", "3", "--write-tolerances", "-gidx", "10"];
    let json = outcome(&replay(&recording, &options).output().unwrap(), exit::NOT_VERIFIED);
    let data = &json["Result"]["variations"][1];
    assert_eq!(
        (&data["runs"], &data["elements"], &data["from_recorded"]),
        (&0.into(), &0.into(), &(ELEMENTS - 1280).into()),
        "{json}"
    );
    assert!(!recording.folder().join("42.tolerances.json").exists(), "an error in every run does not need a tolerance");
}

fn submit(id: u64, config: &Configuration, iterations: u32, warmup: u32) -> Request {
    let (iterations, warmup) = (Some(iterations), Some(warmup));
    Request::Submit(Box::new(Submission {
        id,
        config: Changes::from(config),
        iterations,
        warmup,
        ..Submission::default()
    }))
}

/// Runs configurations through a server. Returns the results by id.
fn serve(recording: &Recording, options: &[&str], configurations: &[Configuration]) -> Vec<ReplayResult> {
    serve_with(recording, options, configurations, &[])
}

/// The same with environment variables.
fn serve_with(
    recording: &Recording,
    options: &[&str],
    configurations: &[Configuration],
    environment: &[(&str, &str)],
) -> Vec<ReplayResult> {
    let mut command = Command::new(program());
    command.args(["serve", "-rdb"]).arg(recording.database()).args(options).envs(environment.iter().copied());
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<Reply>(&line.unwrap()).unwrap());
    assert!(matches!(lines.next(), Some(Reply::Hello(_))));
    for (id, config) in configurations.iter().enumerate() {
        let request = submit(id as u64, config, 2, 1);
        writeln!(input, "{}", serde_json::to_string(&request).unwrap()).unwrap();
    }
    drop(input);
    let mut results: Vec<Option<ReplayResult>> = vec![None; configurations.len()];
    for reply in lines {
        let Reply::Result { id, result } = reply else { panic!("{reply:?}") };
        assert!(results[id as usize].replace(*result).is_none(), "one result for each id");
    }
    assert!(server.wait().unwrap().success());
    results.into_iter().map(|result| result.expect("every id has a result")).collect()
}

fn shaped(block: u32, passes: &str) -> Configuration {
    let grid = Dim3::new((ELEMENTS as u32).div_ceil(block), 1, 1);
    Configuration { passes: passes.into(), ..Configuration::recorded(grid, Dim3::new(block, 1, 1), 0) }
}

#[test]
fn what_a_kernel_breaks_is_mended_before_the_next() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let mut invalid = shaped(128, "default<O3>");
    invalid.block.x = 2048;
    let configurations = [
        shaped(128, "default<O3>"),
        shaped(33, "default<O3>"),
        shaped(256, "default<O3>"),
        shaped(34, "default<O2>"),
        shaped(128, "default<O2>"),
        shaped(65, "default<O1>"),
        shaped(64, "default<O1>"),
        shaped(128, "no-such-pass"),
        invalid,
        Configuration { grid: Dim3::new(1, 1, 1), ..shaped(128, "default<O1>") },
        shaped(512, "default<O1>"),
    ];
    let results = serve(&recording, &["--device", device, "--timeout", "5"], &configurations);
    let statuses: Vec<ReplayStatus> = results.iter().map(|result| result.status).collect();
    let expected = [
        ReplayStatus::Verified,
        ReplayStatus::RuntimeError,
        ReplayStatus::Verified,
        ReplayStatus::FailedVerification,
        ReplayStatus::Verified,
        ReplayStatus::Timeout,
        ReplayStatus::Verified,
        ReplayStatus::CompileError,
        ReplayStatus::InvalidConfig,
        ReplayStatus::FailedVerification,
        ReplayStatus::Verified,
    ];
    assert_eq!(statuses, expected, "{results:#?}");
    for result in results {
        assert_eq!(result.verified, result.error.is_empty(), "{result:?}");
        assert_eq!(result.exec_time.len(), if result.verified { 3 } else { result.exec_time.len().min(1) });
    }
}

/// The children of a process that have not ended.
fn alive(children: &str) -> usize {
    let runs = |pid: &&str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The state follows the name in parentheses.
        status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    children.split_whitespace().filter(runs).count()
}

#[test]
fn nothing_outlives_the_server() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let mut command = Command::new(program());
    command.args(["serve", "--device", device, "-rdb"]).arg(recording.database());
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Keep it open until the server is killed: a server without a reader ends by itself.
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut hello = String::new();
    output.read_line(&mut hello).unwrap();
    let pid = server.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    assert!(alive(&children) >= 2, "the fork server and the executor run: {children}");
    server.kill().unwrap();
    server.wait().unwrap();
    let limit = Instant::now() + PATIENCE;
    while alive(&children) > 0 {
        assert!(Instant::now() < limit, "children of the killed server run on: {children}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_result_that_cannot_be_written_is_one_sentence() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = replay(&recording, &["--device", device])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit::INTERNAL), "{errors}");
    // A slow machine tells of its search before.
    let told: Vec<&str> = errors.lines().filter(|line| !line.contains("looking for the bytes")).collect();
    assert!(matches!(told[..], [one] if one.starts_with("mneme-replay: ")), "{errors}");
}

#[test]
fn more_runs_than_can_be_counted_are_not_none() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let mut command = Command::new(program());
    command.args(["serve", "--timeout", "1", "--device", device, "-rdb"]).arg(recording.database());
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let request = submit(0, &shaped(128, "default<O1>"), u32::MAX, 1);
    let mut input = server.stdin.take().unwrap();
    writeln!(input, "{}", serde_json::to_string(&request).unwrap()).unwrap();
    drop(input);
    let output = server.wait_with_output().unwrap();
    let last = String::from_utf8(output.stdout).unwrap();
    let Reply::Result { result, .. } = serde_json::from_str(last.lines().last().unwrap()).unwrap() else {
        panic!("{last}")
    };
    assert_eq!(result.status, ReplayStatus::Timeout, "{result:?}");
}

#[test]
fn nobody_is_worked_for_when_the_client_is_gone() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let mut command = Command::new(program());
    command.args(["serve", "--timeout", "600", "--device", device, "-rdb"]).arg(recording.database());
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    // This shape makes the kernel hang.
    let request = submit(0, &shaped(65, "default<O1>"), 1, 0);
    writeln!(server.stdin.take().unwrap(), "{}", serde_json::to_string(&request).unwrap()).unwrap();
    drop(output);
    let limit = Instant::now() + PATIENCE;
    let status = loop {
        match server.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < limit, "the server works on"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(exit::INTERNAL));
}

#[test]
fn ir_and_assembly_are_written_where_asked() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let file = recording.folder().join("kernel.ll");
    let output =
        replay(&recording, &["--device", device, "default<O1>", "-ol", file.to_str().unwrap()]).output().unwrap();
    outcome(&output, exit::VERIFIED);
    assert!(std::fs::read_to_string(file).unwrap().contains("@_Z6updatePii"));
}

#[test]
fn damage_is_named_in_one_sentence() {
    let Some(device) = device() else { return };
    type Damage = fn(&Recording);
    let damage: [(&str, Damage); 4] = [
        ("a pack that is gone", |recording| std::fs::remove_dir_all(recording.folder().join("packs")).unwrap()),
        ("a manifest cut short", |recording| {
            let path = recording.folder().join("DeviceState.epilogue.42.7.mneme");
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("one bit of the IR", |recording| {
            let path = recording.folder().join("RecordedIR_42.bc");
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }),
        ("no database", |recording| std::fs::write(recording.database(), "{}").unwrap()),
    ];
    for (what, damage) in damage {
        let recording = Recording::make();
        damage(&recording);
        let output = replay(&recording, &["--device", device]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(exit::BAD_RECORDING), "{what}: {errors}");
        assert_eq!(errors.trim().lines().count(), 1, "{what}: {errors}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_machine_without_a_gpu_says_so() {
    if std::env::var("MNEME_TEST_DEVICE").as_deref() == Ok("cuda") {
        mneme_fixtures::skip("this machine has a GPU");
        return;
    }
    let output = replay(&Recording::make(), &["--device", "cuda"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit::NO_DEVICE), "{errors}");
    assert_eq!(errors.trim().lines().count(), 1, "{errors}");
    assert!(errors.contains("--device cpu"), "{errors}");
}
