//! Tests that the library leaves the application's descriptors, signals and limits alone.

use std::fs;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::run;
use mneme_e2e::installation::{Cudart, TestDevice, library, program};
use mneme_e2e::recording::unrecorded;

/// The program with the library, which has a message to print: it cannot read its winners.
fn with_a_message(arguments: &[&str]) -> Command {
    let recorder = library("libmneme_rec.so");
    let preload = match TestDevice::under_test() {
        TestDevice::Cpu => format!("{}:{}", recorder.display(), library("libmneme_cpu.so").display()),
        TestDevice::Cuda => recorder.display().to_string(),
    };
    let mut command = Command::new("timeout");
    let executable = executable(app("confined"), Cudart::under_test());
    let settings = [
        format!("LD_PRELOAD={preload}"),
        format!("MNEME_DEVICE={}", TestDevice::under_test().name()),
        "MNEME_MODE=apply".into(),
        "MNEME_TUNED=/nowhere/tuned.json".into(),
    ];
    command.args(["60", "env"]).args(settings).arg(executable).args(arguments);
    command
}

#[test]
fn messages_go_to_no_file_that_took_the_place_of_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    let output = with_a_message(&[]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("are not replaced"), "there is a message: {output:?}");
    let output = with_a_message(&["file", file.to_str().unwrap()]).output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"2\n"[..]), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "data");
}

/// Its output and status if its messages are not read, and its run time.
fn unread(reader: Option<PipeReader>, writer: PipeWriter) -> (Option<i32>, Vec<u8>, Duration) {
    let start = Instant::now();
    let output = with_a_message(&[]).stderr(Stdio::from(writer)).output().unwrap();
    drop(reader);
    (output.status.code(), output.stdout, start.elapsed())
}

#[test]
fn a_pipe_that_nobody_reads_neither_ends_nor_stops_the_program() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (status, printed, _) = unread(None, writer);
    assert_eq!((status, &*printed), (Some(0), &b"2\n"[..]), "without a reader");

    let (reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: the descriptor is open. The call shrinks its pipe to one page.
    let size = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    writer.write_all(&vec![b'x'; usize::try_from(size).unwrap()]).unwrap();
    let (status, printed, time) = unread(Some(reader), writer);
    assert_eq!((status, &*printed), (Some(0), &b"2\n"[..]), "full");
    assert!(time < Duration::from_secs(50), "{time:?}");
}

#[test]
fn functions_that_the_vendor_lacks_are_not_found() {
    let mut names = vec!["names", "printf", "hipInit"];
    // The CPU device lacks CUDA's function. A GPU driver's function must not be visible to all libraries.
    names.extend(if TestDevice::under_test() == TestDevice::Cpu {
        &["cuInit", "cuGraphNodeSetEnabled"][..]
    } else {
        &[]
    });
    let output = with_a_message(&names).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let plain = unrecorded(app("confined")).args(names).succeed();
    assert_eq!(printed, plain.stdout, "{output:?}");
    assert!(printed.contains("printf: found\n"), "{printed}");
}

#[test]
fn a_program_that_confines_itself_is_reported_on_and_left_alive() {
    let executable = executable(app("confined"), Cudart::under_test());
    for how in ["none", "calls", "descriptors"] {
        let profile = run(program("mneme")).args(["profile", "--"]).arg(&executable).arg(how);
        // Newer C libraries open a file when a process creates its ninth heap. A thread of the CPU device may do so.
        let outcome =
            profile.env("MNEME_DEVICE", TestDevice::under_test().name()).env("MNEME_CPU_THREADS", "2").succeed();
        assert_eq!(outcome.stdout, "2\n", "{how}: {outcome}");
        outcome.complains("advance");
        assert!(!outcome.stderr.contains("launched no GPU kernel"), "{how}: {outcome}");
    }
}
