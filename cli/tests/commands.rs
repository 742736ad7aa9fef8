//! Tests of the commands of `mneme`, as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mneme_model::launch::{Dim3, Moment};
use mneme_recording::database::{
    ArgumentLayout, InstanceDetails, InstanceRecord, KernelDetails, KernelRecord, VERSION, add_instance,
};
use mneme_recording::manifest::{Allocation, AllocationKind, Header, MemoryState, RecordedArgument};
use mneme_recording::store::StoreWriter;
use mneme_system::exit;
use serde_json::Value;

const SIZE: u64 = 100_000;

fn mneme(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mneme"));
    command.args(arguments).env_remove("MNEME_DEVICE").env_remove("MNEME_HOME").env_remove("LD_PRELOAD");
    command
}

#[track_caller]
fn outcome(mut command: Command, status: i32) -> (String, String) {
    let Output { status: found, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(found.code(), Some(status), "{command:?}\n{stdout}\n{stderr}");
    (stdout, stderr)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Adds an instance whose kernel changed 10 bytes of 100000.
fn record(folder: &Path, static_hash: u64, id: &str) -> PathBuf {
    let store = StoreWriter::open(folder, 1).unwrap();
    let mut memory: Vec<u8> = (0..SIZE).map(|index| (index * (static_hash % 97)) as u8).collect();
    let state = |moment, memory: &[u8]| {
        let name = format!(
            "DeviceState.{}.{static_hash}.{id}.mneme",
            if moment == Moment::Prologue { "prologue" } else { "epilogue" }
        );
        let allocation = Allocation {
            address: 0x1000_0000_0000,
            size: SIZE,
            kind: AllocationKind::Arena,
            tag: "data".into(),
            ..Allocation::default()
        };
        let arguments = vec![RecordedArgument { offset: 0, bytes: 0x1000_0000_0000u64.to_le_bytes().to_vec() }];
        let header = Header { moment, allocations: vec![allocation], arguments, ..Header::default() };
        let state = MemoryState { header, chunks: vec![store.put_region(memory).unwrap()] };
        store.sync().unwrap();
        state.save(&folder.join(&name)).unwrap();
        name
    };
    let prologue = state(Moment::Prologue, &memory);
    memory[70_000..70_010].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    let epilogue = state(Moment::Epilogue, &memory);
    store.finish().unwrap();
    let module = format!("RecordedIR_{static_hash}.bc");
    std::fs::write(folder.join(&module), b"BC").unwrap();
    let kernel = KernelRecord {
        static_hash,
        arena_address: "0x0000100000000000".into(),
        arena_size: 1 << 41,
        kernel_name: "_Z6doublePi".into(),
        demangled_name: "double(int*)".into(),
        modules: vec![module],
        binary_blobs: vec![],
        arg_names: vec!["data".into()],
        specializations: vec![false],
        instances: Default::default(),
        ours: KernelDetails {
            format: VERSION,
            device: "Mneme CPU device".into(),
            arguments: vec![ArgumentLayout { offset: 0, size: 8, kind: "ptr".into() }],
            ..KernelDetails::default()
        },
    };
    let instance = InstanceRecord {
        prologue,
        epilogue,
        block_dims: Dim3::new(256, 1, 1),
        grid_dims: Dim3::new(4, 2, 1),
        shared_mem: 64,
        args: vec![0],
        occurrences: 3,
        ours: InstanceDetails { memory_bytes: SIZE, ..InstanceDetails::default() },
    };
    add_instance(folder, &kernel, id, instance).unwrap();
    folder.join(kernel.file_name())
}

fn instances(folder: &Path) -> Vec<String> {
    let (stdout, _) = outcome(mneme(&["ls", text(folder), "--json"]), 0);
    let kernels: Value = serde_json::from_str(&stdout).unwrap();
    let ids = kernels.as_array().unwrap().iter().flat_map(|kernel| kernel["instances"].as_array().unwrap());
    ids.map(|instance| instance["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_recording_is_listed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let database = record(folder.path(), 18_446_744_073_709_551_615, "7");
    let (stdout, _) = outcome(mneme(&["ls", text(folder.path())]), 0);
    let line = stdout.lines().nth(1).unwrap();
    for part in ["double(int*)", "18446744073709551615", " 7 ", "4x2x1", "256x1x1", " 64 ", "97.66 KiB", " 3"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    for arguments in
        [["show", text(&database), "-rid", "7", "--json"], ["show", "-rdb", text(folder.path()), "--rid=7", "--json"]]
    {
        let (stdout, _) = outcome(mneme(&arguments), 0);
        let kernels: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(kernels[0]["static_hash"], "18446744073709551615", "no number that JSON readers round");
        let instance = &kernels[0]["instances"][0];
        assert_eq!(instance["changed_bytes"], 10);
        assert_eq!(instance["grid"], serde_json::json!({"x": 4, "y": 2, "z": 1}), "as in ls --json");
        assert_eq!(instance["arguments"][0]["value"], "0x100000000000");
        assert_eq!(
            (&instance["regions"][0]["name"], &instance["regions"][0]["bytes"]),
            (&Value::from("data"), &Value::from(SIZE))
        );
    }
    let (stdout, _) = outcome(mneme(&["show", text(&database)]), 0);
    assert!(stdout.contains("the kernel changed 10 bytes"), "{stdout}");
}

#[test]
fn recordings_are_copied_moved_and_cleaned() {
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (home.path().join("first"), home.path().join("second"));
    std::fs::create_dir(&first).unwrap();
    let database = record(&first, 42, "7");
    record(&first, 42, "8");
    record(&first, 43, "9");
    outcome(mneme(&["copy", text(&database), text(&second), "-rid", "7"]), 0);
    assert_eq!(
        (instances(&first), instances(&second)),
        (vec!["7".into(), "8".into(), "9".into()], vec!["7".to_owned()])
    );
    outcome(mneme(&["move", "-rdb", text(&database), text(&second)]), 0);
    assert_eq!((instances(&first), instances(&second)), (vec!["9".to_owned()], vec!["7".into(), "8".into()]));
    outcome(mneme(&["show", text(&second), "--json"]), 0);
    let (stdout, _) = outcome(mneme(&["clean", text(&second), "-rid", "8"]), 0);
    assert!(stdout.starts_with("removed 1 instance, "), "{stdout}");
    assert_eq!(instances(&second), ["7"]);
    outcome(mneme(&["clean", "-rdb", text(&first)]), 0);
    assert!(instances(&first).is_empty());
}

#[test]
fn several_recordings_are_copied_moved_and_cleaned() {
    let home = tempfile::tempdir().unwrap();
    let folders = ["one", "two", "three", "four"].map(|name| home.path().join(name));
    folders[..2].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let databases = [record(&folders[0], 42, "7"), record(&folders[0], 43, "8"), record(&folders[1], 44, "9")];
    let [one, two, three] = databases.each_ref().map(|database| text(database));
    let missing = home.path().join("one/99.json");
    for verb in [&["copy"][..], &["move"], &["clean"]] {
        let to: &[&str] = if verb == ["clean"] { &[] } else { &[text(&folders[2])] };
        outcome(mneme(&[verb, &[one, text(&missing)], to].concat()), exit::NO_INPUT);
    }
    outcome(mneme(&["copy", one, text(&folders[1]), text(&folders[2])]), 0);
    assert_eq!(instances(&folders[2]), ["7", "9"]);
    outcome(mneme(&["move", one, two, three, text(&folders[3])]), 0);
    assert_eq!(instances(&folders[3]), ["7", "8", "9"]);
    let moved = ["42", "44"].map(|hash| folders[3].join(format!("{hash}.json")));
    let (stdout, _) = outcome(mneme(&["clean", text(&moved[0]), text(&moved[1]), text(&folders[2])]), 0);
    assert!(stdout.starts_with("removed 4 instances, "), "{stdout}");
    assert_eq!((instances(&folders[2]).len(), instances(&folders[3])), (0, vec!["8".to_owned()]));
}

#[test]
fn wrong_recordings_have_their_status() {
    let folder = tempfile::tempdir().unwrap();
    let database = record(folder.path(), 42, "7");
    let none = folder.path().join("none");
    let none_of_it = none.join("1.json");
    for (arguments, status) in [
        (vec!["ls", text(&none)], exit::NO_INPUT),
        (vec!["show", text(&database), "-rid", "1"], exit::BAD_USAGE),
        (vec!["show", text(&database), "-rid", ""], exit::BAD_USAGE),
        (vec!["show", text(folder.path()), "-rid", "1"], exit::BAD_USAGE),
        (vec!["copy", text(&none_of_it), text(folder.path())], exit::NO_INPUT),
    ] {
        let (_, stderr) = outcome(mneme(&arguments), status);
        assert_eq!(stderr.lines().count(), 1, "one sentence: {stderr}");
    }
    let (_, stderr) = outcome(mneme(&["show", text(&database), "-rid", "1"]), exit::BAD_USAGE);
    assert!(stderr.contains("it has 7"), "{stderr}");
    for arguments in [
        &["annotate"][..],
        &["clean"],
        &["clean", "--kernel", "double"],
        &["move", "one"],
        &["config", "colour"],
        &["record", "-rdb", "x", "--kernels", "(", "--", "true"],
        &["record", "-rdb", "x", "-rr", "stencil", "--", "true"],
        &["-v", "loud", "record", "-rdb", "x", "--", "true"],
    ] {
        outcome(mneme(arguments), exit::BAD_USAGE);
    }
}

#[test]
fn a_recording_is_found_where_record_writes_and_its_kernels_by_name() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("recording")).unwrap();
    let recording = home.path().join("recording");
    record(&recording, 42, "1234567");
    let at_home = |arguments: &[&str], status: i32| {
        let mut command = mneme(arguments);
        command.current_dir(home.path());
        outcome(command, status).0
    };
    assert!(at_home(&["ls"], 0).contains("double(int*)"));
    assert!(at_home(&["show", "--kernel", "double", "-rid", "1234"], 0).contains("1234567"));
    assert!(at_home(&["fsck"], 0).contains("1 kernel") && at_home(&["check"], 0).contains("1 kernel"));
    at_home(&["ls", "--kernel", "triple"], exit::BAD_USAGE);
    at_home(&["show", "-rid", "2"], exit::BAD_USAGE);
    at_home(&["copy", "recording", "elsewhere", "--kernel", "double", "-rid", "12345"], 0);
    assert_eq!(instances(&home.path().join("elsewhere/42.json")), ["1234567"]);
}

#[test]
fn mistakes_are_told_before_and_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let database = record(folder.path(), 7, "1");
    let complains = |arguments: &[&str], status: i32, part: &str| {
        let (_, stderr) = outcome(mneme(arguments), status);
        assert!(stderr.contains(part) && stderr.lines().count() == 1, "{stderr}");
    };
    complains(&["check", text(&database)], exit::BAD_USAGE, "is a file; name the folder");
    complains(&["annotate", text(&database), "--argument", "0", "--remove"], exit::BAD_USAGE, "has no rule for");
    let ran = folder.path().join("ran");
    let nowhere = folder.path().join("nosuch/report.json");
    for verb in [&["record", "--dry-run"][..], &["profile"]] {
        let more = ["--json", text(&nowhere), "--", "touch", text(&ran)];
        complains(&[verb, &more].concat(), exit::INTERNAL, "nosuch/report.json");
    }
    assert!(!ran.exists(), "the application must not run for nothing");
    std::fs::write(folder.path().join("7.tolerances.json"), "{").unwrap();
    let (stdout, stderr) = outcome(mneme(&["check", text(folder.path())]), exit::BAD_RECORDING);
    assert!(stdout.contains("0 instances") && stderr.contains("7.tolerances.json"), "{stdout}{stderr}");
}

#[test]
fn one_damaged_file_does_not_hide_the_others() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let kept = record(folder, 42, "7");
    let damaged = folder.join("43.json");
    std::fs::write(&damaged, "{ not JSON").unwrap();
    for arguments in [&["ls", text(folder)][..], &["show", text(folder)], &["show", text(folder), "--json"]] {
        let (stdout, stderr) = outcome(mneme(arguments), exit::BAD_RECORDING);
        assert!(stdout.contains("double(int*)"), "{stdout}");
        assert!(stderr.lines().count() == 1 && stderr.contains("43.json is damaged"), "{stderr}");
    }
    outcome(mneme(&["ls", text(folder), "-rid", "7"]), 0);
    let elsewhere = home.path().join("elsewhere");
    outcome(mneme(&["copy", text(folder), text(&elsewhere)]), exit::BAD_RECORDING);
    assert_eq!(instances(&elsewhere), ["7"]);
    let (stdout, _) = outcome(mneme(&["clean", text(folder)]), exit::BAD_RECORDING);
    assert!(stdout.starts_with("removed 1 instance, "), "{stdout}");
    assert!(!kept.exists() && damaged.exists());
    let (stdout, _) = outcome(mneme(&["clean", text(&damaged)]), 0);
    assert!(stdout.contains("43.json, which was damaged"), "{stdout}");
    assert!(!damaged.exists());
    // Neither an unrelated file nor one of a newer format counts as damaged.
    let stranger = folder.join("package.json");
    std::fs::write(&stranger, "[]").unwrap();
    outcome(mneme(&["clean", text(&stranger)]), exit::BAD_RECORDING);
    let newer = record(folder, 44, "8");
    std::fs::write(&newer, std::fs::read_to_string(&newer).unwrap().replace("\"format\": 1", "\"format\": 99"))
        .unwrap();
    outcome(mneme(&["clean", text(&newer)]), exit::BAD_RECORDING);
    assert!(stranger.exists() && newer.exists());
}

#[test]
fn output_that_cannot_be_written_is_one_sentence() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("recording");
    std::fs::create_dir(&folder).unwrap();
    record(&folder, 42, "7");
    std::fs::write(home.path().join("mneme-cc"), "").unwrap();
    for arguments in [
        &["ls", text(&folder)][..],
        &["ls", text(&folder), "--json"],
        &["show", text(&folder)],
        &["config", "cc"],
        &["config"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let child =
            mneme(arguments).env("MNEME_HOME", home.path()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(exit::INTERNAL), "{arguments:?}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("standard output cannot be written"), "{stderr}");
    }
}

#[test]
fn transfers_are_from_here_to_there() {
    for command in ["move", "copy"] {
        let (help, _) = outcome(mneme(&[command, "--help"]), 0);
        assert!(help.contains(&format!("mneme {command} [OPTIONS] <FROM>... <TO>")), "{help}");
        let (_, stderr) = outcome(mneme(&[command, "one"]), exit::BAD_USAGE);
        assert!(stderr.contains("TO"), "{stderr}");
    }
}

/// An installation with an unrelated library instead of ours, which is enough to see what is preloaded.
fn installation(folder: &Path) {
    let library = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = library
        .lines()
        .find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("libc.so")))
        .unwrap();
    std::fs::create_dir_all(folder.join("lib")).unwrap();
    for name in ["libmneme_rec.so", "libmneme_cpu.so"] {
        std::os::unix::fs::symlink(library, folder.join("lib").join(name)).unwrap();
    }
}

#[test]
fn record_passes_everything_on_to_the_application() {
    let home = tempfile::tempdir().unwrap();
    installation(home.path());
    let folder = home.path().join("new/recording");
    let script = "echo $LD_PRELOAD $MNEME_DATA_DIR $MNEME_DEVICE $MNEME_PAGE_SIZE $MNEME_MAX_RECORDINGS $MNEME_RR_KERNELS \
                  $MNEME_SKIP_RECORDINGS $MNEME_LOG_LEVEL $MNEME_RECORD_RANKS $1; exit 7";
    let mut command = mneme(&[
        "record",
        "-rdb",
        text(&folder),
        "--virtual-address-space-size",
        "4",
        "-mr",
        "2",
        "--kernels",
        "a.b",
        "-rr",
        "0,2",
        "--per-kernel-skip-recordings",
        "3",
        "--device",
        "cpu",
    ]);
    command
        .args(["-v", "debug", "--", "sh", "-c", script, "sh", "-rdb"])
        .env("MNEME_HOME", home.path())
        .env("LD_PRELOAD", "libm.so.6");
    let (stdout, stderr) = outcome(command, 7);
    let lib = home.path().join("lib");
    let preload =
        format!("{}:{}:libm.so.6", lib.join("libmneme_rec.so").display(), lib.join("libmneme_cpu.so").display());
    assert_eq!(stdout.trim(), format!("{preload} {} cpu 4 2 a.b 3 debug 0,2 -rdb", folder.display()));
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
    assert!(stderr.contains("CPU device") && stderr.contains("launched no GPU kernel"), "{stderr}");
    assert!(folder.is_dir());

    let mut command =
        mneme(&["record", "-rdb", text(&folder), "--device", "cuda", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    command.env("MNEME_HOME", home.path());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    if status.success() {
        assert_eq!(stdout.trim(), text(&lib.join("libmneme_rec.so")));
        assert!(stderr.contains("launched no GPU kernel"), "{stderr}");
    } else {
        assert_eq!(
            (status.code(), stdout.as_str()),
            (Some(exit::NO_DEVICE), ""),
            "the program is not started: {stderr}"
        );
        assert!(stderr.lines().count() == 1 && stderr.contains("no usable GPU"), "{stderr}");
    }

    let mut command = mneme(&["record", "-rdb", text(&folder), "--", "true"]);
    command.env("MNEME_HOME", home.path().join("mistyped"));
    let (_, stderr) = outcome(command, exit::BAD_USAGE);
    assert!(stderr.lines().count() == 1 && stderr.contains("mistyped', and there is no such folder"), "{stderr}");

    // Words after the application belong to it, with or without two dashes before it.
    let echo = ["sh", "-c", "echo \"$@\"", "sh", "-rdb", "x", "--skip", "--", "-v"];
    for dashes in [&[][..], &["--"]] {
        let mut command = mneme(&[&["record", "-rdb", text(&folder), "--device=cpu"], dashes, &echo].concat());
        command.env("MNEME_HOME", home.path());
        assert_eq!(outcome(command, 0).0.trim(), "-rdb x --skip -- -v");
    }
    outcome(mneme(&["record", "-rdb", text(&folder), "--no-such-option", "true"]), exit::BAD_USAGE);

    // The level after the command overrides the one before it.
    let level = ["sh", "-c", "echo $MNEME_LOG_LEVEL"];
    for (own, level_there) in [(&[][..], "critical"), (&["-v", "warn"], "warn")] {
        let mut command = mneme(&[&["-v", "critical", "record", "--device=cpu"][..], own, &level].concat());
        command.env("MNEME_HOME", home.path()).env("MNEME_DATA_DIR", &folder);
        assert_eq!(outcome(command, 0).0.trim(), level_there);
    }

    let unwanted = home.path().join("unwanted");
    let missing = home.path().join("none/app");
    let mut command = mneme(&["record", "-rdb", text(&unwanted), "--", text(&missing)]);
    command.env("MNEME_HOME", home.path());
    let (_, stderr) = outcome(command, 127);
    assert!(stderr.contains(text(&missing)) && !unwanted.exists(), "{stderr}");
}

#[test]
fn other_programs_are_handed_their_arguments() {
    let home = tempfile::tempdir().unwrap();
    for name in ["mneme-replay", "mneme-tune"] {
        mneme_fixtures::script(&home.path().join(name), "#!/bin/sh\necho ${0##*/} \"$@\"; exit 3\n");
    }
    for (command, program) in [("replay", "mneme-replay"), ("tune", "mneme-tune")] {
        let mut run = mneme(&[command, "-gidx", "4", "default<O3>", "--help", "-v"]);
        run.env("MNEME_HOME", home.path());
        assert_eq!(outcome(run, 3).0.trim(), format!("{program} -gidx 4 default<O3> --help -v"));
    }
    for (typed, passed) in
        [("replay -record-id 4", "-v info --record-id 4"), ("replay serve", "serve -v info"), ("tune", "")]
    {
        let mut run = mneme(&[&["-v", "info"][..], &typed.split(' ').collect::<Vec<_>>()].concat());
        run.env("MNEME_HOME", home.path());
        let program = typed.split(' ').next().unwrap();
        assert_eq!(outcome(run, 3).0.trim(), format!("mneme-{program} {passed}").trim());
    }
}
