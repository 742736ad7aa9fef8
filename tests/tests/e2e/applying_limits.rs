//! Tests of the limits of `mneme apply`: refused launches, kernels that print, damaged sessions.

use std::fs;

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::run;
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::recording::{Recording, TestInstance, unrecorded};
use serde_json::{Value, json};

use crate::applying::Tuned;

const SAME_THREADS: &str = "ceil(recorded block * recorded grid / block) along each varied axis";

fn dimensions(x: u32, y: u32) -> Value {
    json!({"x": x, "y": y, "z": 1})
}

#[test]
fn a_launch_that_is_refused_stays_refused_and_takes_no_winner_away() {
    let recording = Recording::of(app("bounded"), &[]);
    let (database, record) = recording.kernel("tile");
    let plain = unrecorded(app("bounded")).succeed();
    assert_eq!(plain.stdout.matches("refused").count(), 3, "{plain}");
    let first = record.instances.iter().find(|(_, instance)| (instance.grid_dims.y, instance.shared_mem) == (4, 1024));
    let instance = TestInstance::new(&database, first.unwrap().0);
    // Half and twice as many blocks as the program starts. Folding the second argument removes the kernel's static
    // shared memory.
    for (name, block, grid) in [("halves", 4, 2), ("doubles", 1, 8)] {
        let changes = json!({"block": dimensions(32, block), "grid": dimensions(2, grid), "specialize": [2]});
        let tuned = Tuned::new().with(name, &instance, changes, json!({"grid": SAME_THREADS}));
        let bounded = executable(app("bounded"), Cudart::under_test());
        let (outcome, kernel) = tuned.run_with(&["--any-launch"], &bounded, &[], "tile", &[]);
        assert_eq!(outcome.stdout, plain.stdout, "{name}: {outcome}");
        assert_eq!(
            (&kernel["launches"], &kernel["applied"]["replaced"]),
            (&json!(13), &json!(10)),
            "{name}: {outcome}"
        );
        assert!(!outcome.stderr.contains("keeps its own code"), "{name}: {outcome}");
        assert!(!outcome.stderr.contains("given up"), "{name}: {outcome}");
        assert!(kernel["applied"]["reshaped"].as_u64() >= Some(5), "{name}: {outcome}");
    }
}

#[test]
fn a_kernel_that_prints_keeps_its_dimensions_and_prints_nothing_before_the_program() {
    let recording = Recording::of(app("print"), &["3"]);
    let changes = json!({"block": dimensions(64, 1), "grid": dimensions(1, 1)});
    let tuned = Tuned::new().with("print", &recording.single(), changes, json!({"grid": SAME_THREADS}));
    let plain = unrecorded(app("print")).arg("3").succeed();
    let (outcome, kernel) = tuned.run(&executable(app("print"), Cudart::under_test()), &["3"], "print");
    assert_eq!(outcome.stdout, plain.stdout, "{outcome}");
    assert!(!outcome.stderr.contains("device: "), "it is verified before the program starts: {outcome}");
    assert_eq!((&kernel["applied"]["replaced"], &kernel["applied"]["reshaped"]), (&json!(1), &json!(0)), "{outcome}");
}

#[test]
fn threads_with_contexts_of_their_own_all_get_the_winner() {
    let recording = Recording::of(app("own_contexts"), &["1"]);
    let tuned = Tuned::new().with("advance", &recording.single(), json!({"passes": "default<O2>"}), json!({}));
    for _ in 0..3 {
        let (outcome, kernel) = tuned.run(&executable(app("own_contexts"), Cudart::under_test()), &["8"], "advance");
        let counts = (&kernel["launches"], &kernel["applied"]["replaced"]);
        assert_eq!(counts, (&json!(160), &json!(160)), "{outcome}");
    }
}

#[test]
fn of_damaged_sessions_and_strict_ones_others_are_not_the_victims() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let (changes, fast) = (json!({"passes": "default<O2>"}), json!({"fast_math": true}));
    let mut tuned = Tuned::new().with("vecadd", &recording.single(), changes.clone(), json!({}));
    for name in ["cut", "fast"] {
        tuned = tuned.with(name, &recording.single(), fast.clone(), json!({}));
    }
    let best = tuned.results().join("cut/best.json");
    let text = fs::read_to_string(&best).unwrap();
    fs::write(&best, &text[..text.len() / 2]).unwrap();
    let vecadd = executable(app("vecadd"), Cudart::under_test());
    let (outcome, kernel) = tuned.run(&vecadd, &["1", "int"], "vecadd");
    assert_eq!(kernel["applied"]["replaced"], json!(1), "{outcome}");
    outcome.complains("best.json");
    outcome.complains("relies on fast_math");

    // Code verified with other tolerances, or against another recording, does not count as verified for this session.
    let entries = |tuned: &Tuned| tuned.code().len();
    assert_eq!(entries(&tuned), 1, "{outcome}");
    let config = tuned.results().join("vecadd/config.json");
    let text = fs::read_to_string(&config).unwrap();
    let mut options: Value = serde_json::from_str(&text).unwrap();
    options["rtol"] = json!(["0.5"]);
    fs::write(&config, options.to_string()).unwrap();
    tuned.run(&vecadd, &["1", "int"], "vecadd");
    assert_eq!(entries(&tuned), 2);
    let recording = Recording::of(app("part"), &["8"]);
    tuned = Tuned::new().with("part", &recording.single(), changes.clone(), json!({}));
    tuned.run(&executable(app("part"), Cudart::under_test()), &["8"], "part");
    assert_eq!(entries(&tuned), 1);
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    let minimize = run(program("mneme")).args(["minimize", "--device", TestDevice::under_test().name()]);
    minimize.arg(recording.folder()).arg(&small).succeed();
    let TestInstance { database, id } = recording.single();
    let small = TestInstance::new(&small.join(database.file_name().unwrap()), &id);
    tuned = tuned.with("part", &small, changes, json!({}));
    tuned.run(&executable(app("part"), Cudart::under_test()), &["8"], "part");
    assert_eq!(entries(&tuned), 2);
}

#[test]
fn colons_in_paths_and_runs_without_end_are_no_obstacles() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let tuned = Tuned::new().with("vecadd", &recording.single(), json!({"passes": "default<O2>"}), json!({}));
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("a:b");
    fs::create_dir(&temporary).unwrap();
    let vecadd = executable(app("vecadd"), Cudart::under_test());
    let (outcome, kernel) = tuned.run_in(&vecadd, &["1", "int"], "vecadd", &[("TMPDIR", temporary.as_os_str())]);
    assert_eq!(kernel["applied"]["replaced"], json!(1), "{outcome}");

    // One changed byte in the file, within an arbitrary number.
    let file = tuned.manifest();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\"z\": 1", "\"z\": 7", 1)).unwrap();
    let outcome = crate::applying::alone(&vecadd, &["1", "int"], &file).succeed();
    outcome.complains("its checksum does not match");
    assert!(!outcome.stderr.contains("replaced by tuned code"), "{outcome}");
}

#[test]
fn without_room_for_a_cache_nothing_of_others_is_touched() {
    let recording = Recording::of(app("vecadd"), &["1", "int"]);
    let tuned = Tuned::new().with("vecadd", &recording.single(), json!({"passes": "default<O2>"}), json!({}));
    let disk = tempfile::tempdir().unwrap();
    // Space for three names: the folder itself, and the other users of it.
    let script = r#"mount -t tmpfs -o nr_inodes=3 tmpfs "$TMPDIR" || exit 77
        mkdir "$TMPDIR/run-others" && touch -d '2 days ago' "$TMPDIR/others.code" "$TMPDIR/run-others" || exit 78
        "$@"; status=$?; ls -d "$TMPDIR/run-others" "$TMPDIR/others.code" >&2 || exit 79; exit $status"#;
    let run = run("unshare").args(["-rm", "sh", "-c", script, "sh"]).arg(program("mneme"));
    let run = run.args(["apply", "--device", TestDevice::under_test().name(), "--tuned"]).arg(tuned.results());
    let run = run.arg("--").arg(executable(app("vecadd"), Cudart::under_test())).args(["1", "int"]);
    let run = run.env("TMPDIR", disk.path()).env("MNEME_CACHE_DIR", "/proc/none").env("MNEME_CACHE_SIZE", "0");
    let outcome = run.outcome();
    if outcome.status == 77 || outcome.stderr.contains("unshare: ") || outcome.stderr.contains("unshare failed") {
        mneme_fixtures::skip(format_args!(
            "without_room_for_a_cache cannot mount a file system here: {}",
            outcome.stderr
        ));
        return;
    }
    assert_eq!((outcome.status, outcome.stdout.as_str()), (0, "vecadd: ok (n=10000)\n"), "{outcome}");
    outcome.complains("compiled code is not kept");
}
