//! Tests that the recorder leaves the application unchanged, and obeys its variables.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::run;
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, library, program};
use mneme_e2e::recording::{Recording, TestInstance, load_kernels, record_into, unrecorded};
use mneme_system::exit;

#[test]
fn a_bare_preload_records() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(executable(app("vecadd"), Cudart::under_test()))
        .arg("2")
        .env("LD_PRELOAD", library("libmneme_rec.so"))
        .env("MNEME_DATA_DIR", folder.path())
        .env("MNEME_DEVICE", TestDevice::under_test().name())
        .succeed();
    assert_eq!(outcome.stdout, "vecadd: ok (n=20000)\n");
    let kernels = load_kernels(folder.path());
    assert_eq!(kernels.len(), 1);
    let id = kernels[0].1.instances.keys().next().unwrap();
    TestInstance::new(&kernels[0].0, id).verify("default<O3>", &[]);
}

#[test]
fn output_and_exit_status_are_the_applications() {
    for (name, arguments) in [
        ("vecadd", &["nonsense"][..]),
        ("vecadd", &["1", "string"]),
        ("assertion", &["500", "fail"]),
        ("print", &["2"]),
        ("vecadd", &["1", "double"]),
    ] {
        let plain = unrecorded(app(name)).args(arguments).outcome();
        let folder = tempfile::tempdir().unwrap();
        let recorded = record_into(folder.path(), app(name), arguments).outcome();
        assert_eq!((recorded.status, &recorded.stdout), (plain.status, &plain.stdout), "{recorded}");
        for line in plain.stderr.lines() {
            recorded.complains(line);
        }
    }
}

/// A program ends with the same signal as without the recorder, which finishes its pending writes first.
#[test]
fn programs_die_as_they_would_by_themselves() {
    for (way, status) in [
        ("abort", 134),
        ("fault", 139),
        ("overflow", 139),
        ("overflow-stack", 139),
        ("overflow-handled", 7),
        ("fault-handled", 7),
    ] {
        let arguments = [way, "2000000"];
        let plain = unrecorded(app("dying")).args(arguments).outcome();
        let folder = tempfile::tempdir().unwrap();
        let recorded = record_into(folder.path(), app("dying"), &arguments).outcome();
        assert_eq!((recorded.status, &recorded.stdout), (status, &plain.stdout), "{recorded}");
        assert_eq!(recorded.status, plain.status, "{way}");
        // With a full stack and no alternate stack, waiting is impossible.
        if way != "overflow" {
            let kernels = load_kernels(folder.path());
            assert_eq!(kernels.len(), 1, "{way}: {recorded}");
            let id = kernels[0].1.instances.keys().next().unwrap();
            TestInstance::new(&kernels[0].0, id).verify("default<O3>", &[]);
        }
    }
}

/// The program can reuse descriptor numbers that it has closed, even if the recorder had used them.
#[test]
fn a_program_that_closes_all_descriptors_keeps_its_files() {
    if TestDevice::under_test() == TestDevice::Cuda {
        mneme_fixtures::skip("a_program_that_closes_all_descriptors_keeps_its_files, as it closes those of the driver");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (recording, output) = (folder.path().join("recording"), folder.path().join("output"));
    std::fs::create_dir(&recording).unwrap();
    let recorded = record_into(&recording, app("descriptors"), &[output.to_str().unwrap()]).outcome();
    assert_eq!(recorded.stdout, "descriptors: ok\n");
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "launched\n".repeat(3));
    let kernels = load_kernels(&recording);
    // The program may close a file that is being written. The recorder then reports that file.
    let is_whole = recorded.status == 0 && kernels.first().is_some_and(|(_, kernel)| kernel.instances.len() == 4);
    assert!(is_whole || recorded.status == mneme_system::exit::NOT_RECORDED, "{recorded}");
    for (database, kernel) in &kernels {
        kernel.instances.keys().for_each(|id| drop(TestInstance::new(database, id).verify("default<O3>", &[])));
    }
}

#[test]
fn a_program_that_launches_nothing_records_nothing() {
    let folder = tempfile::tempdir().unwrap();
    record_into(folder.path(), app("vecadd"), &["nonsense"]).exit_with(64);
    assert!(load_kernels(folder.path()).is_empty());
}

#[test]
fn kernels_are_chosen_by_name() {
    let folder = tempfile::tempdir().unwrap();
    record_into(folder.path(), app("streams"), &[]).env("MNEME_RR_KERNELS", "tri.*|combine").succeed();
    let mut names: Vec<_> = load_kernels(folder.path()).into_iter().map(|(_, kernel)| kernel.demangled_name).collect();
    names.sort_unstable();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with("combine(") && names[1].starts_with("triangles("), "{names:?}");
}

#[test]
fn at_most_so_many_instances_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    record_into(folder.path(), app("stencil"), &[]).env("MNEME_MAX_RECORDINGS", "1").succeed();
    assert_eq!(load_kernels(folder.path())[0].1.instances.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    record_into(folder.path(), app("stencil"), &[]).env("MNEME_SKIP_RECORDINGS", "1").succeed();
    assert_eq!(load_kernels(folder.path())[0].1.instances.len(), 1);
}

#[test]
fn a_second_run_adds_to_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    for size in ["1000", "2000"] {
        record_into(folder.path(), app("saxpy"), &[size]).succeed();
    }
    let kernels = load_kernels(folder.path());
    assert_eq!(kernels.len(), 1);
    assert_eq!(kernels[0].1.instances.len(), 2);
    for id in kernels[0].1.instances.keys() {
        TestInstance::new(&kernels[0].0, id).verify("default<O2>", &[]);
    }
}

#[test]
fn a_recording_is_upstreams_on_the_outside() {
    let recording = Recording::of(app("saxpy"), &["1000"]);
    let (path, kernel) = recording.kernel("saxpy");
    assert_eq!(path.file_name().unwrap().to_str().unwrap(), format!("{}.json", kernel.static_hash));
    let (id, instance) = kernel.instances.iter().next().unwrap();
    assert_eq!(kernel.modules, [format!("RecordedIR_{}.bc", kernel.static_hash)]);
    assert_eq!(instance.prologue, format!("DeviceState.prologue.{}.{id}.mneme", kernel.static_hash));
    assert_eq!(instance.epilogue, format!("DeviceState.epilogue.{}.{id}.mneme", kernel.static_hash));
    for file in kernel.modules.iter().chain([&instance.prologue, &instance.epilogue]) {
        assert!(recording.folder().join(file).is_file(), "{file}");
    }
    assert_eq!((instance.block_dims.x, instance.grid_dims.x, instance.shared_mem), (128, 8, 0));
    // n, a, x, y, bias, negate: pointers cannot be folded into the code.
    assert_eq!(kernel.specializations, [true, true, false, false, true, true]);
    assert_eq!((instance.args[0], instance.args[1]), (1000, u64::from(2.5_f32.to_bits())));
}

#[test]
fn static_cudart_on_the_cpu_device_is_refused_in_one_sentence() {
    if TestDevice::under_test() == TestDevice::Cuda
        || !have_compiler("static_cudart_on_the_cpu_device_is_refused_in_one_sentence")
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let executable = executable(app("saxpy"), Cudart::Static);
    let outcome = run(mneme_e2e::installation::program("mneme"))
        .args(["record".as_ref(), "-rdb".as_ref(), folder.path().as_os_str(), "--".as_ref(), executable.as_os_str()])
        .env("MNEME_DEVICE", "cpu")
        .outcome();
    assert_ne!(outcome.status, 0, "{outcome}");
    outcome.complains("static");
}

/// `mneme record` with a program that launches nothing.
fn record_shell(folder: &Path, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(program("mneme"));
    command.args(["record", "--device", TestDevice::under_test().name(), "-rdb"]).arg(folder.join("recording"));
    command.args(options).args(["--", "bash", "-c", script]);
    command
}

/// A script's wait until a signal ends it, for at most a minute.
const WAIT: &str = "for _ in {1..1200}; do sleep 0.05; done";

/// Signals that a job scheduler may send to the process that it started.
#[test]
fn signals_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("trap 'echo alarm' ALRM; trap 'echo limit' XCPU; trap 'echo last; exit 5' RTMIN+3; echo ready; {WAIT}");
    let mut child = record_shell(folder.path(), &[], &script).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let own = child.id() as libc::pid_t;
    for (signal, before) in [(libc::SIGALRM, "ready"), (libc::SIGXCPU, "alarm"), (libc::SIGRTMIN() + 3, "limit")] {
        assert_eq!(lines.next().unwrap(), before);
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::kill(own, signal) }, 0);
    }
    assert_eq!(lines.next().unwrap(), "last");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// A signal may arrive when the application already runs, but the command that has just forked does not.
#[test]
fn signals_are_passed_on_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("trap 'echo alarm; exit 5' ALRM; echo ready; {WAIT}");
    let mut command = record_shell(folder.path(), &[], &script);
    // SAFETY: this system call accesses no memory.
    unsafe {
        command.stdout(Stdio::piped()).pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let own = child.id() as libc::pid_t;
    let stopped = |process: libc::pid_t| {
        let mut status = 0;
        // SAFETY: `status` is a valid place.
        assert_eq!(unsafe { libc::waitpid(process, &mut status, libc::__WALL) }, process);
        assert!(libc::WIFSTOPPED(status), "{status:#x}");
        status
    };
    stopped(own);
    // SAFETY: these requests concern our stopped child and its child, whose number goes to a valid place.
    unsafe {
        let options = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_EXITKILL;
        assert_eq!(libc::ptrace(libc::PTRACE_SETOPTIONS, own, 0, options), 0);
        let mut deliver = 0;
        loop {
            assert_eq!(libc::ptrace(libc::PTRACE_CONT, own, 0, deliver), 0);
            let status = stopped(own);
            if status >> 16 == libc::PTRACE_EVENT_FORK {
                break;
            }
            deliver = libc::WSTOPSIG(status);
        }
        let mut application: libc::c_ulong = 0;
        assert_eq!(libc::ptrace(libc::PTRACE_GETEVENTMSG, own, 0, &raw mut application), 0);
        stopped(application as libc::pid_t);
        assert_eq!(libc::ptrace(libc::PTRACE_DETACH, application as libc::pid_t, 0, 0), 0);
        assert_eq!(lines.next().unwrap(), "ready");
        assert_eq!(libc::kill(own, libc::SIGALRM), 0);
        assert_eq!(libc::ptrace(libc::PTRACE_DETACH, own, 0, 0), 0);
    }
    assert_eq!(lines.next().as_deref(), Some("alarm"));
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// A report that cannot be written does not affect the application's status.
#[test]
fn the_status_stays_where_reports_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let script = "tr '\\0' '\\n' </proc/$$/cmdline | head -n 1; exit 6";
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for (options, stderr) in [(&["--json", "/dev/full"][..], Stdio::piped()), (&[], full().into())] {
        let outcome = record_shell(folder.path(), options, script).stderr(stderr).output().unwrap();
        assert_eq!(outcome.status.code(), Some(6), "{outcome:?}");
        // Programs found on PATH see the name that they were called by.
        assert_eq!(outcome.stdout, b"bash\n", "{outcome:?}");
    }
    // The reader of the messages is gone.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let outcome = record_shell(folder.path(), &[], script).stderr(writer).output().unwrap();
    assert_eq!((outcome.status.code(), &*outcome.stdout), (Some(6), &b"bash\n"[..]), "{outcome:?}");
}

/// The summary is lost, but the recording is complete, and the report says so.
#[test]
fn a_process_that_is_killed_is_told_of_with_its_recording() {
    let script = "\"$0\" 1000000 1000 >/dev/null 2>&1 & for _ in {1..1200}; do sleep 0.05; ls \"$1\"/*.json &&
        { kill -KILL $!; wait $!; exit 0; }; done >/dev/null 2>&1";
    let cases: [(&[&str], i32); 2] = [(&[], 0), (&["--strict"], exit::NOT_RECORDED)];
    for (options, status) in cases {
        let folder = tempfile::tempdir().unwrap();
        let [recording, json] = ["recording", "report.json"].map(|name| folder.path().join(name));
        let outcome = run(program("mneme"))
            .args(["record", "--device", TestDevice::under_test().name(), "--json"])
            .arg(&json)
            .arg("-rdb")
            .arg(&recording)
            .args(options)
            .args(["--", "bash", "-c", script])
            .arg(executable(app("paced"), Cudart::under_test()))
            .arg(&recording)
            .outcome();
        assert_eq!(outcome.status, status, "{outcome}");
        let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!(report["processes"].as_array().unwrap().len(), 1, "{report:#}");
        assert_eq!(report["processes"][0]["unfinished"], true, "{report:#}");
        let kernels = load_kernels(&recording).len();
        outcome.complains(&format!("{kernels} kernel"));
        assert!(kernels > 0 && !outcome.stderr.contains("launched no"), "{outcome}");
    }
}

/// SIGKILL cannot be caught: `mneme` is gone, but the program that it started continues.
#[test]
fn an_application_goes_on_when_mneme_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let mut record = Command::new(program("mneme"));
    record.args(["record", "--device", TestDevice::under_test().name(), "-rdb"]).arg(&path).arg("--");
    record
        .args(["bash", "-c", "echo ready; read -r; exec \"$0\" 1000"])
        .arg(executable(app("saxpy"), Cudart::under_test()));
    let mut mneme = record.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(mneme.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    mneme.kill().unwrap();
    let mut input = mneme.stdin.take().unwrap();
    mneme.wait().unwrap();
    std::io::Write::write_all(&mut input, b"go on\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("saxpy: ok (n=1000)"));
    // Its output ends when the program ends.
    assert_eq!(lines.next(), None);
    let mut told = String::new();
    std::io::Read::read_to_string(&mut mneme.stderr.take().unwrap(), &mut told).unwrap();
    assert!(told.contains("saxpy: 1 launch, 1 recorded"), "{told}");
    assert_eq!(load_kernels(&path).len(), 1);
}

/// These libraries search their own dependencies before the preloaded recorder.
#[test]
fn libraries_that_the_recorder_does_not_see_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdlib.h>
        int main(int count, char **names) {
            if (!dlopen(names[1], RTLD_NOW | RTLD_DEEPBIND) || !dlmopen(LM_ID_NEWLM, names[2], RTLD_NOW))
                return 1;
            return dlopen(names[3], RTLD_NOW) ? 0 : 2;
        }"#;
    std::fs::write(path("program.c"), source).unwrap();
    std::fs::write(path("library.c"), "int one(void) { return 1; }").unwrap();
    let compile = |arguments: &[&str]| {
        Command::new("cc").current_dir(&folder).args(arguments).status().is_ok_and(|status| status.success())
    };
    if !compile(&["program.c", "-o", "program", "-ldl"]) {
        mneme_fixtures::skip("libraries_that_the_recorder_does_not_see_are_named, as there is no C compiler");
        return;
    }
    let libraries = ["deep.so", "apart.so", "plain.so"].map(|name| {
        assert!(compile(&["-shared", "-fPIC", "library.c", "-o", name]));
        path(name).to_str().unwrap().to_owned()
    });
    let report = path("report.json");
    let outcome = run(program("mneme"))
        .args(["record", "--device", TestDevice::under_test().name(), "-rdb"])
        .arg(path("recording"))
        .arg("--json")
        .arg(&report)
        .arg("--")
        .arg(path("program"))
        .args(&libraries)
        .succeed();
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let expected = serde_json::json!([
        {"library": libraries[0], "by": "RTLD_DEEPBIND"},
        {"library": libraries[1], "by": "dlmopen"},
    ]);
    assert_eq!(report["processes"][0]["unwatched"], expected, "{outcome}");
    outcome.complains("RTLD_DEEPBIND");
}
