//! Sessions on a full disk.
//!
//! They end with one error, report their findings, keep the files written so far, and leave no partial file.

use std::process::{Command, Output};

use mneme_system::exit;

use crate::home::Home;

const SESSION: &str = "-rdb 5.json --space-preset launch --passes a b c --iterations 2 --warmup 1 --finalists 0";

/// Runs a script in the home, with mneme-tune's path in `$tune`.
fn script(home: &Home, program: &[&str], text: &str) -> Output {
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(["sh", "-c", text])
        .env("tune", env!("CARGO_BIN_EXE_mneme-tune"))
        .env("session", SESSION);
    command.env("MNEME_HOME", home.folder()).current_dir(home.folder()).output().unwrap()
}

/// Asserts the messages of a session that could not write all results.
#[track_caller]
fn assert_told(output: &Output, how: &str) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said: Vec<&str> = stderr.lines().filter(|line| line.contains(how)).collect();
    assert!(
        said.len() == 1 && said[0].starts_with("mneme-tune: ") && said[0].contains("cannot be written"),
        "{stderr}"
    );
    assert!(said[0].ends_with("; make room") && !stderr.contains("panicked"), "{stderr}");
    let found = stdout.lines().any(|line| line.starts_with('[') && !line.contains("FAILED"));
    assert_eq!(stdout.contains("BEST: "), found, "{stdout}{stderr}");
}

/// A file system that fills up at different points: at the configuration, a trial, the summary, the report.
#[test]
fn a_full_disk_loses_nothing_that_was_found() {
    let unshared = ["unshare", "--user", "--map-root-user", "--mount"];
    let able = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    if !able.is_ok_and(|output| output.status.success()) {
        eprintln!("no file system can be mounted here; the next test has a limit of the process in its place");
        return;
    }
    let whole = Home::new();
    let output = script(&whole, &["env"], "$tune $session --results-dir here");
    assert!(output.status.success(), "{output:?}");
    let best = whole.json("here/best.json")["config_hash"].clone();
    let mut full = 0;
    for pages in 1..40 {
        let home = Home::new();
        std::fs::create_dir(home.path("here")).unwrap();
        let text = format!(
            "mount -t tmpfs -o size={}k tmpfs here && $tune $session --results-dir here; status=$?
             find here -name '*.tmp*' >left; wc -l <here/trials.jsonl >lines; tail -c 1 here/trials.jsonl >end
             mount -o remount,size=10m here; $tune --resume --results-dir here $session >again 2>&1 || cat again >&2
             mv here/trials.jsonl here/best.json . ; exit $status",
            4 * pages
        );
        let output = script(&home, &unshared, &text);
        assert_eq!(std::fs::read_to_string(home.path("left")).unwrap(), "", "at {pages} pages");
        let end = std::fs::read(home.path("end")).unwrap();
        assert!(end.is_empty() || end == b"\n", "at {pages} pages: a part of a line was left");
        if output.status.success() {
            break;
        }
        full += 1;
        assert_eq!(output.status.code(), Some(exit::INTERNAL), "at {pages} pages: {output:?}");
        assert_told(&output, "No space left on device");
        // All written results remain, and with room the session reaches the same end.
        let lines: usize = std::fs::read_to_string(home.path("lines")).unwrap().trim().parse().unwrap();
        let trials = std::fs::read_to_string(home.path("trials.jsonl")).unwrap();
        assert!(trials.lines().count() == 21 && lines <= 21, "at {pages} pages: {}", trials.lines().count());
        assert_eq!(home.json("best.json")["config_hash"], best);
    }
    assert!(full >= 5, "{full} sizes are too few to prove anything");
}

#[test]
fn a_limit_on_the_size_of_files_is_a_full_disk() {
    let mut statuses = Vec::new();
    for blocks in [1, 4, 8, 16, 24, 32, 64, 4096] {
        let home = Home::new();
        let output = script(&home, &["env"], &format!("ulimit -f {blocks}; exec $tune $session --results-dir here"));
        statuses.push(output.status.code());
        if !output.status.success() {
            assert_told(&output, "File too large");
            // A session that has not begun leaves no folder.
            let mut left = std::fs::read_dir(home.path("here")).into_iter().flatten().flatten();
            assert!(left.all(|entry| !entry.file_name().to_string_lossy().ends_with(".tmp")));
        }
    }
    assert_eq!((statuses[0], statuses[7]), (Some(exit::INTERNAL), Some(0)), "{statuses:?}");
    assert!(statuses.iter().all(|status| [Some(0), Some(exit::INTERNAL)].contains(status)), "{statuses:?}");
}

#[test]
fn a_cache_that_is_full_keeps_no_session_from_its_end() {
    let home = Home::new();
    // Longer than the file limit, without any results.
    std::fs::write(home.path("cache.jsonl"), "{\"key\":\"2|\"}\n".repeat(1 << 18)).unwrap();
    let output = script(&home, &["env"], "ulimit -f 4096; exec $tune $session --results-dir here --cache cache.jsonl");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit::INTERNAL), "{stderr}");
    assert!(
        stderr.lines().last().unwrap().starts_with("mneme-tune: the cache cache.jsonl cannot be used: File too large"),
        "{stderr}"
    );
    assert_eq!((home.trials("here").len(), &home.json("here/summary.json")["status"]), (21, &"completed".into()));
    assert!(String::from_utf8_lossy(&output.stdout).contains("BEST: "));
}
