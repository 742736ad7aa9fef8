//! Tests of the stand-in for libamdhip64: right calls, and planted mistakes.

mod code;
mod device;
mod library;
mod mistakes;
mod right;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use library::Hip;

/// Which case a process is to run, by number; set in processes that the tests start.
const CASE: &str = "MNEME_TEST_CASE";
const SIGABRT: i32 = 6;

/// Runs the test `name` of this program in a process of its own, with a case of it.
fn run(name: &str, case: usize, variables: &[(&str, &str)]) -> Output {
    let folder = code::folder();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads", "1"]).env(CASE, case.to_string());
    command.env("MNEME_STAND_IN_IR", folder.path()).envs(variables.iter().copied());
    command.output().unwrap()
}

/// The case that this process is to run.
fn own_case() -> Option<usize> {
    std::env::var(CASE).ok()?.parse().ok()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn what_is_right_is_done_and_leaves_nothing() {
    match own_case() {
        Some(_) => right::everything(&Hip::load()),
        None => {
            let output = run("what_is_right_is_done_and_leaves_nothing", 0, &[("MNEME_STAND_IN_LEAKS", "1")]);
            assert!(output.status.success(), "{}", text(&output));
        }
    }
}

#[test]
fn each_mistake_ends_the_process_with_a_sentence() {
    const NAME: &str = "each_mistake_ends_the_process_with_a_sentence";
    if let Some(case) = own_case() {
        (mistakes::MISTAKES[case].2)(&Hip::load());
        return;
    }
    assert!(mistakes::MISTAKES.len() >= 30);
    let failures: Vec<String> = mistakes::MISTAKES
        .iter()
        .enumerate()
        .filter_map(|(case, (function, sentence, _))| {
            let output = run(NAME, case, &[]);
            let said = text(&output);
            let line = said.lines().find(|line| line.starts_with("stand-in for libamdhip64: "));
            let is_told = line.is_some_and(|line| line.contains(&format!(": {function}: ")) && line.contains(sentence));
            (output.status.signal() != Some(SIGABRT) || !is_told).then(|| format!("{function}, {sentence}: {said}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn mistakes_are_listed_in_a_file_where_one_is_named() {
    const NAME: &str = "mistakes_are_listed_in_a_file_where_one_is_named";
    if own_case().is_some() {
        let hip = Hip::load();
        for (.., mistake) in mistakes::MISTAKES.iter().take(3) {
            mistake(&hip);
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mistakes");
    let output = run(NAME, 0, &[("MNEME_STAND_IN_MISTAKES", file.to_str().unwrap())]);
    assert!(output.status.success(), "{}", text(&output));
    let listed = std::fs::read_to_string(file).unwrap();
    assert_eq!(listed.lines().count(), 3, "{listed}");
}

#[test]
fn what_is_left_at_the_end_is_told() {
    if own_case().is_some() {
        right::leave_something(&Hip::load());
        return;
    }
    let output = run("what_is_left_at_the_end_is_told", 0, &[("MNEME_STAND_IN_LEAKS", "1")]);
    let said = text(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("never freed: 2 allocations, 1 streams"), "{said}");
}

#[test]
fn the_device_works_over_it() {
    match own_case() {
        Some(_) => device::everything(),
        None => {
            let output = run("the_device_works_over_it", 0, &[]);
            assert!(output.status.success(), "{}", text(&output));
        }
    }
}
