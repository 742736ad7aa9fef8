//! Tests of applications and recordings under failures.
//!
//! Recording never harms the application, and finished instances can be replayed.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, library, program};
use mneme_e2e::recording::{Recording, TestInstance, copy_of, load_kernels, record_into, unrecorded};
use mneme_recording::integrity::check;
use mneme_system::exit;

/// Allows enough instances of a kernel for tests with many launches.
const ALL: (&str, &str) = ("MNEME_MAX_RECORDINGS", "100000");

/// Instances in a folder without damage.
#[track_caller]
fn whole_instances(folder: &Path) -> usize {
    let report = check(folder).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
    let listed: usize = load_kernels(folder).iter().map(|(_, kernel)| kernel.instances.len()).sum();
    assert_eq!(report.instances, listed, "{report:?}");
    listed
}

/// Replays the middle instance of each kernel.
#[track_caller]
fn replay_some(folder: &Path) {
    for (database, kernel) in load_kernels(folder) {
        let id = kernel.instances.keys().nth(kernel.instances.len() / 2);
        TestInstance::new(&database, id.expect("a kernel without instances is not written")).verify("default<O2>", &[]);
    }
}

/// The application with the recorder preloaded, but without `mneme record`.
fn preloaded(folder: &Path, arguments: &[&str]) -> Run {
    run(executable(app("steps"), Cudart::under_test()))
        .args(arguments)
        .env("LD_PRELOAD", library("libmneme_rec.so"))
        .env("MNEME_DATA_DIR", folder)
        .env("MNEME_DEVICE", TestDevice::under_test().name())
        .env(ALL.0, ALL.1)
}

/// Checks that the application behaves as without the recorder.
#[track_caller]
fn unharmed(recorded: &ProgramOutput, arguments: &[&str]) {
    let plain = unrecorded(app("steps")).args(arguments).outcome();
    assert_eq!((recorded.status, &recorded.stdout), (plain.status, &plain.stdout), "{recorded}");
}

#[test]
fn a_killed_recording_has_whole_instances_only() {
    // Enough for recording to take much longer than the steps that watch it.
    let rounds = if TestDevice::under_test() == TestDevice::Cuda { 150 } else { 40 };
    let spawn = |folder: &Path| {
        let mut command = Command::new(executable(app("steps"), Cudart::under_test()));
        command.arg(rounds.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("LD_PRELOAD", library("libmneme_rec.so")).env("MNEME_DATA_DIR", folder).env(ALL.0, ALL.1);
        command.env("MNEME_DEVICE", TestDevice::under_test().name()).spawn().unwrap()
    };
    let undisturbed = || {
        let folder = tempfile::tempdir().unwrap();
        let start = Instant::now();
        assert!(spawn(folder.path()).wait().unwrap().success());
        assert_eq!(whole_instances(folder.path()), rounds);
        start.elapsed()
    };
    let duration = undisturbed().min(undisturbed());

    // The times differ from run to run. A failure message contains them.
    let mut random = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    let (mut killed, mut partial, mut moments) = (0, 0, Vec::new());
    let mut folder = tempfile::tempdir().unwrap();
    for attempt in 0..50 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Every fifth attempt starts afresh and ends during the recording, which may be a small part of the run. The
        // others continue in the same folder and end at any time.
        let afresh = attempt % 5 == 0;
        if afresh {
            folder = tempfile::tempdir().unwrap();
        }
        let start = Instant::now();
        let mut child = spawn(folder.path());
        if afresh {
            let instances = 1 + (random >> 16) as usize % (rounds / 2);
            while load_kernels_if_any(folder.path()) < instances && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(Duration::from_nanos((duration.as_nanos() as u64 * u64::from(random >> 16)) >> 16));
        }
        moments.push(start.elapsed());
        child.kill().unwrap();
        killed += usize::from(child.wait().unwrap().signal() == Some(9));
        let whole = whole_instances(folder.path());
        partial += usize::from(whole > 0 && whole < rounds);
        if attempt % 10 == 4 {
            replay_some(folder.path());
        }
    }
    assert!(
        killed >= 10 && partial >= 3,
        "{killed} killed, {partial} in the middle of recording; at {moments:?} of {duration:?}"
    );
}

#[test]
fn a_recording_that_was_killed_can_be_completed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(executable(app("steps"), Cudart::under_test()));
    command.args(["100000"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("LD_PRELOAD", library("libmneme_rec.so")).env("MNEME_DATA_DIR", folder.path()).env(ALL.0, ALL.1);
    let mut child = command.env("MNEME_DEVICE", TestDevice::under_test().name()).spawn().unwrap();
    let patience = Instant::now();
    while load_kernels_if_any(folder.path()) < 3 {
        assert!(patience.elapsed() < Duration::from_secs(60), "nothing is recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = whole_instances(folder.path());
    preloaded(folder.path(), &["5", "threads"]).succeed();
    assert_eq!(whole_instances(folder.path()), before + 50);
    run(program("mneme")).args(["check".as_ref(), folder.path().as_os_str()]).succeed();
}

/// Instances in a folder that may not exist yet.
fn load_kernels_if_any(folder: &Path) -> usize {
    if !folder.is_dir() {
        return 0;
    }
    load_kernels(folder).iter().map(|(_, kernel)| kernel.instances.len()).sum()
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_application() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let kept = folder.path().join("kept");
    fs::create_dir(&disk).unwrap();
    // A separate file system in a separate namespace.
    let script = r#"mount -t tmpfs -o size=1m tmpfs "$DISK" || exit 77
        (LD_PRELOAD="$RECORDER" MNEME_DATA_DIR="$DISK" "$@"); status=$?; cp -r "$DISK" "$KEPT"; exit $status"#;
    let arguments = ["60"];
    let recorded = run("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(executable(app("steps"), Cudart::under_test()))
        .args(arguments)
        .env("RECORDER", library("libmneme_rec.so"))
        .env("DISK", &disk)
        .env("KEPT", &kept)
        .env("MNEME_DEVICE", TestDevice::under_test().name())
        .env(ALL.0, ALL.1)
        .outcome();
    if recorded.status == 77 || recorded.stderr.contains("unshare failed") || recorded.stderr.contains("unshare: ") {
        mneme_fixtures::skip(format_args!(
            "a_full_disk_ends_the_recording_and_not_the_application cannot mount a file system here: {}",
            recorded.stderr
        ));
        return;
    }
    unharmed(&recorded, &arguments);
    recorded.complains("No space left on device");
    let whole = whole_instances(&kept);
    assert!((1..60).contains(&whole), "{whole} instances: {recorded}");
    replay_some(&kept);
}

#[test]
fn a_limit_on_file_sizes_is_like_a_full_disk() {
    // Exceeding this limit raises a signal, which kills a process without a handler.
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["40", "file-limit"];
    let recorded = preloaded(folder.path(), &arguments).outcome();
    unharmed(&recorded, &arguments);
    recorded.complains("File too large");
    let whole = whole_instances(folder.path());
    assert!((1..40).contains(&whole), "{whole} instances: {recorded}");
}

#[test]
fn a_folder_that_cannot_be_written_leaves_the_application_alone() {
    // Even root cannot create files there.
    for folder in ["/proc/sys", "/proc/sys/no/such/folder"] {
        let recorded = preloaded(Path::new(folder), &["3"]).outcome();
        unharmed(&recorded, &["3"]);
        recorded.complains("/proc/sys");
    }
}

#[test]
fn little_address_space_is_enough() {
    if TestDevice::under_test() == TestDevice::Cuda {
        mneme_fixtures::skip("little_address_space_is_enough, as CUDA itself takes more");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let limited = |preload: PathBuf| {
        run("sh")
            .args(["-c", "ulimit -v 3000000; LD_PRELOAD=\"$PRELOAD\" exec \"$@\"", "sh"])
            .arg(executable(app("steps"), Cudart::under_test()))
            .args(["4"])
            .env("PRELOAD", preload)
            .env("MNEME_DATA_DIR", folder.path())
            .env("MNEME_DEVICE", "cpu")
            // Each thread uses address space.
            .env("MNEME_CPU_THREADS", "2")
            .outcome()
    };
    let plain = limited(library("libmneme_cpu.so"));
    let recorded = limited(library("libmneme_rec.so"));
    assert_eq!((recorded.status, &recorded.stdout), (plain.status, &plain.stdout), "{recorded}");
    assert_eq!(plain.status, 0, "{plain}");
    assert_eq!(whole_instances(folder.path()), 4);
    replay_some(folder.path());
}

#[test]
fn a_limit_on_the_size_of_files_ends_no_application() {
    if TestDevice::under_test() == TestDevice::Cuda {
        mneme_fixtures::skip("a_limit_on_the_size_of_files_ends_no_application, as memory is no file there");
        return;
    }
    // Blocks of 512 bytes: less than a slab of the arena, and a smaller amount.
    for blocks in ["16384", "2048"] {
        let folder = tempfile::tempdir().unwrap();
        let limited = |preload: PathBuf| {
            run("sh")
                .args(["-c", &format!("ulimit -f {blocks}; LD_PRELOAD=\"$PRELOAD\" exec \"$@\""), "sh"])
                .arg(executable(app("steps"), Cudart::under_test()))
                .args(["4"])
                .env("PRELOAD", preload)
                .env("MNEME_DATA_DIR", folder.path())
                .env("MNEME_DEVICE", "cpu")
                .outcome()
        };
        let plain = limited(library("libmneme_cpu.so"));
        let recorded = limited(library("libmneme_rec.so"));
        assert_eq!((recorded.status, &recorded.stdout), (plain.status, &plain.stdout), "{blocks}: {recorded}");
        assert_eq!(plain.status, 0, "{plain}");
    }
}

#[test]
fn a_kernel_that_aborts_costs_nothing_that_was_recorded_before() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["10", "abort"];
    let recorded = preloaded(folder.path(), &arguments).outcome();
    unharmed(&recorded, &arguments);
    assert_eq!(recorded.status, 2, "{recorded}");
    assert_eq!(whole_instances(folder.path()), 5, "{recorded}");
    replay_some(folder.path());
}

#[test]
fn processes_that_fork_first_record_both() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = preloaded(folder.path(), &["4", "fork-first"]).outcome();
    unharmed(&recorded, &["4", "fork-first"]);
    assert_eq!(whole_instances(folder.path()), 8, "{recorded}");
    replay_some(folder.path());
}

#[test]
fn a_child_that_only_exits_changes_nothing() {
    for mode in ["fork-exit", "fork-_exit"] {
        let folder = tempfile::tempdir().unwrap();
        let recorded = preloaded(folder.path(), &["4", mode]).outcome();
        unharmed(&recorded, &["4", mode]);
        assert_eq!(whole_instances(folder.path()), 8, "{mode}: {recorded}");
        assert_eq!(recorded.stderr.matches("recorded").count(), 1, "one summary: {recorded}");
        replay_some(folder.path());
    }
}

#[test]
fn ten_threads_record_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = preloaded(folder.path(), &["6", "threads"]).outcome();
    unharmed(&recorded, &["6", "threads"]);
    assert_eq!(whole_instances(folder.path()), 60, "{recorded}");
    let (database, kernel) = load_kernels(folder.path()).remove(0);
    for id in kernel.instances.keys().step_by(11) {
        TestInstance::new(&database, id).verify("default<O3>", &[]);
    }
}

#[test]
fn processes_that_record_the_same_instances_at_once_leave_whole_ones() {
    let rounds = 3;
    let expected = rounds.to_string();
    for attempt in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let outcomes: Vec<ProgramOutput> = std::thread::scope(|scope| {
            let start = |rank: usize| {
                let data = (1000 * rank + attempt).to_string();
                let arguments = [expected.as_str(), "data", &data];
                preloaded(folder.path(), &arguments)
                    .env("OMPI_COMM_WORLD_RANK", rank.to_string())
                    .env("MNEME_RECORD_RANKS", "all")
                    .outcome()
            };
            let ranks: Vec<_> = (0..4).map(|rank| scope.spawn(move || start(rank))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        for outcome in &outcomes {
            assert_eq!(outcome.status, 0, "{outcome}");
        }
        assert_eq!(whole_instances(folder.path()), rounds);
        // A mix of two processes' halves would look complete, but be wrong.
        let (database, kernel) = load_kernels(folder.path()).remove(0);
        for id in kernel.instances.keys() {
            TestInstance::new(&database, id).verify("default<O2>", &[]);
        }
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.ends_with(".tmp")).count(), 0);
    }
}

#[test]
fn torchruns_ranks_are_ranks() {
    for (rank, instances) in [("0", 2), ("1", 0)] {
        let folder = tempfile::tempdir().unwrap();
        preloaded(folder.path(), &["2"]).env("RANK", rank).env("WORLD_SIZE", "2").succeed();
        assert_eq!(load_kernels_if_any(folder.path()), instances, "rank {rank}");
    }
}

#[test]
fn a_flipped_bit_in_any_file_is_found_and_named() {
    let recording = Recording::of(app("statics"), &[]);
    record_into(recording.folder(), app("saxpy"), &["100000"]).succeed();
    let copy = copy_of(recording.folder());
    let mneme_check = || run(program("mneme")).args(["check".as_ref(), copy.path().as_os_str()]);
    mneme_check().succeed();
    let files = files(copy.path());
    assert!(files.len() >= 10, "{files:?}");
    for path in files {
        let whole = fs::read(&path).unwrap();
        for at in [0, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            mneme_check().exit_with(exit::BAD_RECORDING).complains(path.to_str().unwrap());
        }
        // A replay checks all files that it needs.
        if !path.to_str().unwrap().contains("/packs/") {
            for (database, kernel) in recording.kernels() {
                let database = copy.path().join(database.file_name().unwrap());
                let is_its_own = path.to_str().unwrap().contains(&kernel.static_hash.to_string());
                for id in kernel
                    .instances
                    .keys()
                    .filter(|id| is_its_own && (path == database || path.to_str().unwrap().contains(*id)))
                {
                    TestInstance::new(&database, id)
                        .replay("default<O1>")
                        .exit_with(exit::BAD_RECORDING)
                        .complains(path.to_str().unwrap());
                }
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    mneme_check().succeed();
}

/// Non-empty files in all folders. The lock is empty.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if fs::metadata(&path).unwrap().len() > 0 {
            found.push(path);
        }
    }
    found.sort();
    found
}
