//! A system call that fails, or is the last one: at every call of a recorder on a recording's files.
//! What the application does stays as it is, what is finished stays whole, and a second attempt completes it.
//!
//! Here a spread of the calls is tried. `MNEME_TEST_FAULTS=all` tries every one, which takes long; a number begins there.

use std::fs;
use std::path::Path;
use std::process::Command;

use mneme_core::recording::check::check;
use mneme_e2e::apps::{app, executable};
use mneme_e2e::injection::{Fault, Traced, trace};
use mneme_e2e::installation::{Cudart, Device, library};
use mneme_e2e::recording::{Instance, load_kernels};

/// Instances that the application has.
const INSTANCES: usize = 2;

/// The calls to try of so many: all of them, from a number on, or a spread of `few`, another one for each kind of fault.
fn chosen(calls: usize, few: usize, kind: usize) -> Vec<usize> {
    println!("{calls} calls");
    match std::env::var("MNEME_TEST_FAULTS").as_deref() {
        Ok("all") => (0..calls).collect(),
        Ok(first) if !first.is_empty() => (first.parse().expect("MNEME_TEST_FAULTS is 'all' or a number")..calls).collect(),
        _ => (0..few.min(calls)).map(|index| ((2 * index + 1) * calls / (2 * few.min(calls)) + 7 * kind) % calls).collect(),
    }
}

/// Whether the tests mean something here.
fn is_possible(test: &str) -> bool {
    let is_cpu = Device::under_test() == Device::Cpu;
    if !is_cpu {
        println!("skipped: {test}, as what it is about does not depend on the device");
    }
    is_cpu
}

/// The application with the recorder preloaded.
fn recording_into(folder: &Path) -> Command {
    let mut command = Command::new(executable(app("steps"), Cudart::under_test()));
    command.arg(INSTANCES.to_string()).env("LD_PRELOAD", library("libmneme_rec.so")).env("MNEME_DATA_DIR", folder);
    command.env("MNEME_DEVICE", "cpu").env("MNEME_CPU_THREADS", "2");
    command
}

/// Instances of a folder in which nothing is damaged.
#[track_caller]
fn whole_instances(folder: &Path, what: &str) -> usize {
    let report = check(folder).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report.problems.is_empty(), "{what}: {:#?}", report.problems);
    report.instances
}

#[track_caller]
fn replay_all(folder: &Path) {
    for (database, kernel) in load_kernels(folder) {
        for id in kernel.instances.keys() {
            Instance::new(&database, id).verify("default<O1>", &[]);
        }
    }
}

/// Files that nobody will give their own names.
fn temporary_files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

fn describe(number: usize, fault: Fault, traced: &Traced) -> String {
    println!("{fault:?} at call {number}, {}", traced.at.as_deref().unwrap_or("which cannot fail so"));
    format!("call {number}, {}, {fault:?}: status {:?}\n{}", traced.at.as_deref().unwrap_or("none"), traced.status, traced.stderr)
}

const FAULTS: [Fault; 8] = [
    Fault::Signal(libc::SIGKILL),
    Fault::ErrorsFrom(libc::EIO),
    Fault::Error(libc::EIO),
    Fault::ErrorsFrom(libc::ENOSPC),
    Fault::Error(libc::ENOSPC),
    Fault::Error(libc::ENOMEM),
    Fault::Error(libc::EINTR),
    Fault::Signal(libc::SIGTERM),
];

#[test]
fn a_recording_survives_a_fault_at_any_call() {
    if !is_possible("a_recording_survives_a_fault_at_any_call") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plain = trace(recording_into(folder.path()), folder.path(), None);
    assert_eq!((plain.status, whole_instances(folder.path(), "no fault")), (Some(0), INSTANCES), "{}", plain.stderr);
    assert!(plain.calls > 40, "{} calls on the recording's files", plain.calls);
    for (kind, fault) in FAULTS.into_iter().enumerate() {
        for number in chosen(plain.calls, if kind == 0 { 16 } else { 4 }, kind) {
            let folder = tempfile::tempdir().unwrap();
            let traced = trace(recording_into(folder.path()), folder.path(), Some((number, fault)));
            let what = describe(number, fault, &traced);
            match fault {
                Fault::Signal(signal) => {
                    let died = traced.status == Some(128 + signal);
                    assert!(died || (traced.status == Some(0) && traced.stdout == plain.stdout), "{what}");
                    assert!(signal != libc::SIGKILL || died || traced.at.is_none(), "{what}");
                }
                _ => {
                    assert_eq!((traced.status, &traced.stdout), (plain.status, &plain.stdout), "{what}");
                    assert_eq!(temporary_files(folder.path()), [""; 0], "{what}");
                }
            }
            let whole = whole_instances(folder.path(), &what);
            assert!(fault != Fault::Error(libc::EINTR) || whole == INSTANCES, "an interrupted call is repeated: {what}");
            assert!(whole == INSTANCES || traced.at.is_some(), "{what}");
            if whole > 0 && number % 8 == 0 {
                replay_all(folder.path());
            }
            // Again: everything is there then.
            let again = recording_into(folder.path()).output().unwrap();
            assert_eq!((again.status.code(), String::from_utf8_lossy(&again.stdout).as_ref()), (Some(0), plain.stdout.as_str()), "{what}");
            assert_eq!(whole_instances(folder.path(), &what), INSTANCES, "{what}\n{}", String::from_utf8_lossy(&again.stderr));
        }
    }
}
